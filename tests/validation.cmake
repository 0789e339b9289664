# The tests under validation layers. A configuration is a layer, its settings, and the faults that it finds with them;
# test_planted_faults plants these, so that a layer that sleeps is seen. Every message of the layer, warnings included,
# fails a test, but for those that validation_allowed.txt names.
#
#   debian-sync  Debian's layer: core, and synchronization within a submit and across submits
#   debian-gpu   Debian's layer: core, and GPU-assisted
#   newer-sync   the layer of Debian's package chromium-common: core, and synchronization by what shaders access
#   newer-gpu    the same layer: GPU-assisted
#
# `validation` is debian-sync on the first driver, for a quick look: a test NAME.validation with the label validation.
# The others are tests NAME.<driver>-<configuration> with the label validation-<configuration>.
set(KPOOL_VALIDATIONS "")

# kpool_add_validation(suffix driver configuration label FAULTS fault... ENVIRONMENT variable...)
function(kpool_add_validation suffix driver configuration label)
    cmake_parse_arguments(PARSE_ARGV 4 ARG "" "" "FAULTS;ENVIRONMENT")
    set(allowed "")
    foreach(line ${KPOOL_ALLOWED_MESSAGES})
        if(line MATCHES "^${configuration} +([^ ]+) +[^ ]")
            list(APPEND allowed ${CMAKE_MATCH_1})
        endif()
    endforeach()
    set(environment ${KPOOL_${driver}_ENVIRONMENT} "VK_INSTANCE_LAYERS=VK_LAYER_KHRONOS_validation" ${ARG_ENVIRONMENT})
    set(KPOOL_${suffix}_UNFILTERED ${environment} PARENT_SCOPE)
    if(allowed)
        list(JOIN allowed "," filter)
        list(APPEND environment "VK_LAYER_MESSAGE_ID_FILTER=${filter}")
    endif()
    set(KPOOL_${suffix}_ENVIRONMENT ${environment} PARENT_SCOPE)
    set(KPOOL_${suffix}_LABEL ${label} PARENT_SCOPE)
    set(KPOOL_${suffix}_FAULTS ${ARG_FAULTS} PARENT_SCOPE)
    set(KPOOL_${suffix}_ALLOWED ${allowed} PARENT_SCOPE)
    set(KPOOL_VALIDATIONS ${KPOOL_VALIDATIONS} ${suffix} PARENT_SCOPE)
endfunction()

file(STRINGS validation_allowed.txt KPOOL_ALLOWED_MESSAGES REGEX "^[^#]")
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS validation_allowed.txt)
find_file(KPOOL_DEBIAN_LAYER VkLayer_khronos_validation.json PATHS /usr/share/vulkan/explicit_layer.d NO_DEFAULT_PATH
    DOC "Manifest of Debian's validation layer; empty: not tested")
find_file(KPOOL_NEWER_LAYER libVkLayer_khronos_validation.so PATHS /usr/lib/chromium NO_DEFAULT_PATH
    DOC "A newer validation layer; empty: not tested")

# With any separator but a colon in VK_LAYER_ENABLES nothing is enabled.
set(sync VK_VALIDATION_FEATURE_ENABLE_SYNCHRONIZATION_VALIDATION_EXT)
set(enables "VK_LAYER_ENABLES=${sync}:VALIDATION_CHECK_ENABLE_SYNCHRONIZATION_VALIDATION_QUEUE_SUBMIT")
set(debian_sync FAULTS core read_after_write write_after_read across_submits ENVIRONMENT "${enables}")
# On lavapipe this layer's instrumented shaders find descriptors uninitialized, at times, where they were pushed.
set(debian_gpu
    FAULTS core out_of_range
    ENVIRONMENT "VK_LAYER_ENABLES=VK_VALIDATION_FEATURE_ENABLE_GPU_ASSISTED_EXT" KPOOL_TEST_BRIEF=1 KPOOL_TEST_NO_PUSH=1)
if(KPOOL_DEBIAN_LAYER)
    # For drivers that a test names itself.
    set(KPOOL_VALIDATION_ENVIRONMENT "VK_INSTANCE_LAYERS=VK_LAYER_KHRONOS_validation" "${enables}")
    list(GET KPOOL_DRIVERS 0 first)
    kpool_add_validation(validation ${first} debian-sync validation ${debian_sync})
    foreach(driver ${KPOOL_DRIVERS})
        if(NOT driver STREQUAL "${first}")
            kpool_add_validation(${driver}-debian-sync ${driver} debian-sync validation-debian-sync ${debian_sync})
        endif()
        # Whether a further driver takes what this layer makes of the shaders is not known.
        if(NOT driver STREQUAL other)
            kpool_add_validation(${driver}-debian-gpu ${driver} debian-gpu validation-debian-gpu ${debian_gpu})
        endif()
    endforeach()
endif()

if(KPOOL_NEWER_LAYER)
    set(KPOOL_LAYER_NAME VK_LAYER_KHRONOS_validation)
    set(KPOOL_LAYER_FILE ${KPOOL_NEWER_LAYER})
    configure_file(layers/layer.json.in newer_layer/newer_layer.json @ONLY)
    set(newer "VK_LAYER_PATH=${CMAKE_CURRENT_BINARY_DIR}/newer_layer")
    foreach(driver ${KPOOL_DRIVERS})
        kpool_add_validation(${driver}-newer-sync ${driver} newer-sync validation-newer-sync
            FAULTS core read_after_write write_after_read write_after_write across_submits
            ENVIRONMENT ${newer} VK_LAYER_VALIDATE_SYNC=1 VK_LAYER_SYNCVAL_SHADER_ACCESSES_HEURISTIC=1)
    endforeach()
    # On SwiftShader, which has no bufferDeviceAddress, this layer turns the GPU-assisted part off and says so. It asks
    # that core and GPU-assisted do not run together.
    if(lavapipe IN_LIST KPOOL_DRIVERS)
        kpool_add_validation(lavapipe-newer-gpu lavapipe newer-gpu validation-newer-gpu
            FAULTS out_of_range
            ENVIRONMENT ${newer} VK_LAYER_GPUAV_ENABLE=1 VK_LAYER_VALIDATE_CORE=0 KPOOL_TEST_BRIEF=1)
    endif()
endif()

# kpool_add_validation_command(name command...): under each configuration. Examples have no messenger, so there the
# layer speaks on stdout.
function(kpool_add_validation_command name)
    foreach(suffix ${KPOOL_VALIDATIONS})
        add_test(NAME ${name}.${suffix} COMMAND ${ARGN})
        set_tests_properties(${name}.${suffix} PROPERTIES LABELS ${KPOOL_${suffix}_LABEL}
            ENVIRONMENT "${KPOOL_${suffix}_ENVIRONMENT}"
            FAIL_REGULAR_EXPRESSION "validation: ;Validation (Error|Warning|Performance Warning)")
    endforeach()
endfunction()

# Tests with messages of their own making.
add_library(kpool_stage STATIC stage.c)
target_link_libraries(kpool_stage PUBLIC kpool_rig PkgConfig::CMOCKA PRIVATE kpool_warnings)
kpool_add_test_program(test_synchronization kpool_stage)
kpool_add_test_program(test_planted_faults kpool_stage)
foreach(suffix ${KPOOL_VALIDATIONS})
    add_test(NAME test_planted_faults.${suffix} COMMAND test_planted_faults ${KPOOL_${suffix}_FAULTS})
    set_tests_properties(test_planted_faults.${suffix} PROPERTIES LABELS ${KPOOL_${suffix}_LABEL}
        ENVIRONMENT "${KPOOL_${suffix}_ENVIRONMENT}")
    if(read_after_write IN_LIST KPOOL_${suffix}_FAULTS)
        add_test(NAME test_synchronization.${suffix} COMMAND test_synchronization)
        set_tests_properties(test_synchronization.${suffix} PROPERTIES LABELS ${KPOOL_${suffix}_LABEL}
            ENVIRONMENT "${KPOOL_${suffix}_ENVIRONMENT}")
    endif()
    # What is allowed does occur.
    foreach(id ${KPOOL_${suffix}_ALLOWED})
        add_test(NAME allowed_${id}.${suffix} COMMAND kpool-tool check --calls 1)
        set_tests_properties(allowed_${id}.${suffix} PROPERTIES LABELS ${KPOOL_${suffix}_LABEL}
            ENVIRONMENT "${KPOOL_${suffix}_UNFILTERED}" PASS_REGULAR_EXPRESSION "validation: ${id}: ")
    endforeach()
endforeach()
