/* The validation layer is awake, and the barriers that the header asks for are the ones that are needed: for each pair
 * of operations the layer complains where the barrier between them is left out, and not where it stands. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#include "stage.h"

static uint32_t close_then_seed(bool barrier)
{
    Stage stage;
    stage_open(&stage);
    stage_record(&stage, KPOOL_OPERATION_RING_CLOSE, kpoolCmdRingClose);
    if (barrier) {
        stage_execution_dependency(stage.commandBuffer);
    }
    stage_record(&stage, KPOOL_OPERATION_SEED_TAIL, kpoolCmdSeedTail);
    return stage_close(&stage);
}

static uint32_t seed_then_close(bool barrier)
{
    Stage stage;
    stage_open(&stage);
    stage_record(&stage, KPOOL_OPERATION_SEED_TAIL, kpoolCmdSeedTail);
    if (barrier) {
        stage_write_to_read(stage.commandBuffer);
    }
    stage_record(&stage, KPOOL_OPERATION_RING_CLOSE, kpoolCmdRingClose);
    return stage_close(&stage);
}

static uint32_t offsets_then_compress(bool barrier)
{
    Stage stage;
    stage_open(&stage);
    stage_record(&stage, KPOOL_OPERATION_POOL_ROW_OFFSETS, kpoolCmdPoolRowOffsets);
    if (barrier) {
        stage_write_to_read(stage.commandBuffer);
    }
    stage_record(&stage, KPOOL_OPERATION_COMPRESS, kpoolCmdCompress);
    return stage_close(&stage);
}

static void compare(uint32_t (*messages)(bool barrier))
{
    assert_int_equal(messages(true), 0);
    assert_true(messages(false) > 0);
}

static void test_close_then_seed(void **state)
{
    (void)state;
    compare(close_then_seed);
}

static void test_seed_then_close(void **state)
{
    (void)state;
    compare(seed_then_close);
}

static void test_offsets_then_compress(void **state)
{
    (void)state;
    compare(offsets_then_compress);
}

/* compress shares nothing that matters with the other two: no barrier, no message. */
static void test_close_beside_compress(void **state)
{
    (void)state;
    Stage stage;
    stage_open(&stage);
    stage_record(&stage, KPOOL_OPERATION_RING_CLOSE, kpoolCmdRingClose);
    stage_record(&stage, KPOOL_OPERATION_COMPRESS, kpoolCmdCompress);
    assert_int_equal(stage_close(&stage), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_close_then_seed),
        cmocka_unit_test(test_seed_then_close),
        cmocka_unit_test(test_offsets_then_compress),
        cmocka_unit_test(test_close_beside_compress),
    };
    return cmocka_run_group_tests_name("synchronization", tests, NULL, NULL);
}
