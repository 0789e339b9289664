/* The validation layer is awake: each fault that is named on the command line gives a message, and the same without the
 * fault none. Which faults a layer finds, and by which settings, tests/validation.cmake says. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "plain_port.h"
#include "stage.h"

/* Returns how many messages there were. */
typedef uint32_t Plant(bool fault);

typedef struct Fault {
    const char *name;
    Plant *plant;
} Fault;

/* A fill that begins behind the buffer, in a command buffer that is not submitted. */
static uint32_t plant_core(bool fault)
{
    Stage stage;
    stage_open(&stage);
    Gpu *gpu = &stage.gpu;
    const VkCommandBuffer commandBuffer = gpu_begin(gpu);
    assert_non_null(commandBuffer);
    const KpoolRange *tail = &stage.bindings.tail;
    vkCmdFillBuffer(commandBuffer, tail->buffer, fault ? tail->size : 0, 4, 0);
    assert_true(gpu_end(gpu, commandBuffer));
    gpu_free_command_buffer(gpu, commandBuffer);
    return stage_close(&stage);
}

static uint32_t plant_read_after_write(bool fault)
{
    Stage stage;
    stage_open(&stage);
    stage_record(&stage, KPOOL_OPERATION_SEED_TAIL, kpoolCmdSeedTail);
    if (!fault) {
        stage_write_to_read(stage.commandBuffer);
    }
    stage_record(&stage, KPOOL_OPERATION_RING_CLOSE, kpoolCmdRingClose);
    return stage_close(&stage);
}

static uint32_t plant_write_after_read(bool fault)
{
    Stage stage;
    stage_open(&stage);
    stage_record(&stage, KPOOL_OPERATION_RING_CLOSE, kpoolCmdRingClose);
    if (!fault) {
        stage_execution_dependency(stage.commandBuffer);
    }
    stage_record(&stage, KPOOL_OPERATION_SEED_TAIL, kpoolCmdSeedTail);
    return stage_close(&stage);
}

static uint32_t plant_write_after_write(bool fault)
{
    Stage stage;
    stage_open(&stage);
    stage_record(&stage, KPOOL_OPERATION_SEED_TAIL, kpoolCmdSeedTail);
    if (!fault) {
        gpu_barrier(stage.commandBuffer);
    }
    stage_record(&stage, KPOOL_OPERATION_SEED_TAIL, kpoolCmdSeedTail);
    return stage_close(&stage);
}

/* Read after write, in two submits with nothing between them. */
static uint32_t plant_across_submits(bool fault)
{
    Stage stage;
    stage_open(&stage);
    Gpu *gpu = &stage.gpu;
    const VkCommandBuffer first = stage.commandBuffer;
    stage_record(&stage, KPOOL_OPERATION_SEED_TAIL, kpoolCmdSeedTail);
    if (!fault) {
        stage_write_to_read(first);
    }
    assert_int_equal(vkEndCommandBuffer(first), VK_SUCCESS);
    const VkSubmitInfo submit = {
        .sType = VK_STRUCTURE_TYPE_SUBMIT_INFO, .commandBufferCount = 1, .pCommandBuffers = &first};
    assert_int_equal(vkQueueSubmit(gpu->queue, 1, &submit, VK_NULL_HANDLE), VK_SUCCESS);
    stage.commandBuffer = gpu_begin(gpu);
    assert_non_null(stage.commandBuffer);
    stage_record(&stage, KPOOL_OPERATION_RING_CLOSE, kpoolCmdRingClose);
    /* Its command pool takes the first with it. */
    return stage_close(&stage);
}

/* The plain port trusts its indices: with the fault the third row that it reads is one behind the end of k. */
static uint32_t plant_out_of_range(bool fault)
{
    Stage stage;
    stage_open(&stage);
    const uint32_t rows = stage.call.rows;
    const uint32_t offsets[] = {rows - 3 + fault, rows + fault};
    stage_fill(&stage, &stage.bindings.input_row_offsets, offsets, sizeof offsets);
    const KpoolGeometry geometry = stage_geometry();
    PlainPort port;
    assert_true(plain_port_create_seed_tail(&port, &stage.gpu, &geometry, &stage.bindings));
    plain_port_record(&port, stage.commandBuffer, 1);
    stage_submit(&stage);
    plain_port_destroy(&port);
    return stage_close(&stage);
}

static void test_fault(void **state)
{
    const Fault *fault = *state;
    assert_int_equal(fault->plant(false), 0);
    assert_true(fault->plant(true) > 0);
}

static Fault *find_fault(const char *name)
{
    static Fault faults[] = {
        {"core", plant_core},
        {"read_after_write", plant_read_after_write},
        {"write_after_read", plant_write_after_read},
        {"write_after_write", plant_write_after_write},
        {"across_submits", plant_across_submits},
        {"out_of_range", plant_out_of_range},
    };
    for (size_t i = 0; i < sizeof faults / sizeof faults[0]; i++) {
        if (strcmp(faults[i].name, name) == 0) {
            return &faults[i];
        }
    }
    return NULL;
}

int main(int argc, char **argv)
{
    int failed = argc < 2 ? 1 : 0;
    for (int i = 1; i < argc; i++) {
        Fault *fault = find_fault(argv[i]);
        if (fault == NULL) {
            fprintf(stderr, "no fault '%s'\n", argv[i]);
            return 2;
        }
        const struct CMUnitTest tests[] = {{fault->name, test_fault, NULL, NULL, fault}};
        failed += cmocka_run_group_tests(tests, NULL, NULL);
    }
    return failed;
}
