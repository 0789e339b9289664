# Builds and runs the consumer from scratch, as ctest runs it:
#   cmake -DMODE=package|subdirectory -DKPOOL_SOURCE=... -DKPOOL_BUILD=... -DWORK=... -DGENERATOR=... -DC_COMPILER=...
#         -DC_FLAGS=... -P run.cmake
cmake_minimum_required(VERSION 3.22)

file(REMOVE_RECURSE ${WORK})
set(options "-DCMAKE_C_COMPILER=${C_COMPILER}" "-DCMAKE_C_FLAGS=${C_FLAGS}")
if(MODE STREQUAL package)
    execute_process(COMMAND ${CMAKE_COMMAND} --install ${KPOOL_BUILD} --prefix ${WORK}/prefix
        COMMAND_ERROR_IS_FATAL ANY)
    list(APPEND options -DCMAKE_PREFIX_PATH=${WORK}/prefix)
    # What is installed is used: nothing in it may point into the tree that it came from.
    file(GLOB_RECURSE texts ${WORK}/prefix/*.cmake ${WORK}/prefix/*.h)
    foreach(text ${texts})
        file(STRINGS ${text} lines REGEX "${KPOOL_SOURCE}|${KPOOL_BUILD}")
        if(lines)
            message(FATAL_ERROR "${text} names the tree it was built in: ${lines}")
        endif()
    endforeach()
else()
    list(APPEND options -DKPOOL_SOURCE_DIR=${KPOOL_SOURCE})
endif()
execute_process(COMMAND ${CMAKE_COMMAND} -S ${CMAKE_CURRENT_LIST_DIR} -B ${WORK}/build -G ${GENERATOR} ${options}
    COMMAND_ERROR_IS_FATAL ANY)
execute_process(COMMAND ${CMAKE_COMMAND} --build ${WORK}/build COMMAND_ERROR_IS_FATAL ANY)
find_program(consumer consumer PATHS ${WORK}/build NO_DEFAULT_PATH REQUIRED)
execute_process(COMMAND ${consumer} COMMAND_ERROR_IS_FATAL ANY)
