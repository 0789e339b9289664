#include "case_rules.h"

#include <string.h>

#define TENSOR_TAIL(role, name_place) \
    {"tail", role, ELEMENT_TYPE, 4, {{'S', 0}, {0, 2}, {'R', 0}, {'D', 0}}, name_place, NULL}
#define TENSOR_K(role) {"k", role, ELEMENT_TYPE, 2, {{'T', 0}, {'D', 0}}, NULL, NULL}
#define TENSOR_GATE(role) {"gate", role, ELEMENT_TYPE, 2, {{'T', 0}, {'D', 0}}, NULL, NULL}
#define TENSOR_APE(role) {"ape", role, ELEMENT_F32, 2, {{'P', 0}, {'D', 0}}, NULL, NULL}
#define TENSOR_INPUT_ROW_OFFSETS {"input_row_offsets", ROLE_READ, ELEMENT_INDEX, 1, {{'B', 1}}, NULL, NULL}
#define TENSOR_CACHE_LENGTHS {"cache_lengths", ROLE_READ, ELEMENT_INDEX, 1, {{'B', 0}}, NULL, NULL}
#define TENSOR_SLOT_IDX {"slot_idx", ROLE_READ, ELEMENT_INDEX, 1, {{'B', 0}}, NULL, NULL}
#define TENSOR_POOL_ROW_OFFSETS(role) \
    {"pool_row_offsets", role, ELEMENT_INDEX, 1, {{'B', 1}}, case_name_in_offsets, NULL}
#define TENSOR_CLOSED_POOL {"closed_pool", ROLE_MADE, ELEMENT_I32, 1, {{'B', 0}}, case_name_in_requests, NULL}
#define TENSOR_CLOSED_POOLED                                                                             \
    {"closed_pooled", ROLE_MADE, ELEMENT_POOLED, 2, {{'B', 0}, {'D', 0}}, case_name_in_closed_pooled, \
     case_find_closed}
#define TENSOR_POOLED \
    {"pooled", ROLE_MADE, ELEMENT_POOLED, 2, {{'M', 0}, {'D', 0}}, case_name_in_pooled, case_find_pooled}
#define TENSOR_POOL_IDS {"pool_ids", ROLE_READ, ELEMENT_I32, 2, {{'T', 0}, {'K', 0}}, NULL, NULL}
#define TENSOR_OUT {"out", ROLE_MADE, ELEMENT_I32, 2, {{'T', 0}, {'W', 0}}, case_name_in_out, NULL}
#define TENSOR_PAIRS {"pairs", ROLE_READ, ELEMENT_INDEX, 2, {{'N', 0}, {0, 2}}, NULL, NULL}
#define TENSOR_SCRATCH {"scratch", ROLE_LENT, ELEMENT_TYPE, 0, {{0, 0}}, NULL, NULL}
#define TENSOR_STATUS {"status", ROLE_COUNTED, ELEMENT_INDEX, 1, {{0, KPOOL_STATUS_COUNT}}, case_name_in_list, NULL}

/* What is made comes after what it is made from, and closed_pool before closed_pooled, which it explains. */
static const CaseRule rules[] = {
    {"seed_tail", KPOOL_OPERATION_SEED_TAIL, 8,
     {TENSOR_TAIL(ROLE_CHANGED, case_name_in_seeded_tail), TENSOR_K(ROLE_READ), TENSOR_GATE(ROLE_READ),
      TENSOR_INPUT_ROW_OFFSETS, TENSOR_CACHE_LENGTHS, TENSOR_SLOT_IDX, TENSOR_STATUS, TENSOR_APE(ROLE_AGREES)}},
    {"ring_close", KPOOL_OPERATION_RING_CLOSE, 10,
     {TENSOR_TAIL(ROLE_READ, NULL), TENSOR_K(ROLE_READ), TENSOR_GATE(ROLE_READ), TENSOR_APE(ROLE_READ),
      TENSOR_INPUT_ROW_OFFSETS, TENSOR_CACHE_LENGTHS, TENSOR_SLOT_IDX, TENSOR_CLOSED_POOL, TENSOR_CLOSED_POOLED,
      TENSOR_STATUS}},
    {"compress", KPOOL_OPERATION_COMPRESS, 9,
     {TENSOR_K(ROLE_READ), TENSOR_GATE(ROLE_READ), TENSOR_APE(ROLE_READ), TENSOR_INPUT_ROW_OFFSETS,
      TENSOR_CACHE_LENGTHS, TENSOR_POOL_ROW_OFFSETS(ROLE_READ), TENSOR_POOLED, TENSOR_STATUS,
      TENSOR_TAIL(ROLE_AGREES, NULL)}},
    {"step", KPOOL_OPERATION_STEP, 12,
     {TENSOR_K(ROLE_READ), TENSOR_GATE(ROLE_READ), TENSOR_APE(ROLE_READ), TENSOR_INPUT_ROW_OFFSETS,
      TENSOR_CACHE_LENGTHS, TENSOR_SLOT_IDX, TENSOR_POOL_ROW_OFFSETS(ROLE_RECKONED), TENSOR_CLOSED_POOL,
      TENSOR_CLOSED_POOLED, TENSOR_POOLED, TENSOR_TAIL(ROLE_CHANGED, case_name_in_seeded_tail), TENSOR_STATUS}},
    {"pool_row_offsets", KPOOL_OPERATION_POOL_ROW_OFFSETS, 8,
     {TENSOR_INPUT_ROW_OFFSETS, TENSOR_CACHE_LENGTHS, TENSOR_POOL_ROW_OFFSETS(ROLE_MADE), TENSOR_STATUS,
      TENSOR_K(ROLE_AGREES), TENSOR_GATE(ROLE_AGREES), TENSOR_APE(ROLE_AGREES), TENSOR_TAIL(ROLE_AGREES, NULL)}},
    {"expand_topk", KPOOL_OPERATION_EXPAND_TOPK, 7,
     {TENSOR_POOL_IDS, TENSOR_INPUT_ROW_OFFSETS, TENSOR_CACHE_LENGTHS, TENSOR_OUT, TENSOR_STATUS,
      TENSOR_APE(ROLE_AGREES), TENSOR_TAIL(ROLE_AGREES, NULL)}},
    {"copy_slots", KPOOL_OPERATION_COPY_SLOTS, 5,
     {TENSOR_TAIL(ROLE_CHANGED, case_name_in_copied_tail), TENSOR_PAIRS, TENSOR_STATUS, TENSOR_SCRATCH,
      TENSOR_APE(ROLE_AGREES)}},
};

const CaseRule *case_find_rule(const char *op)
{
    for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++) {
        if (strcmp(rules[i].op, op) == 0) {
            return &rules[i];
        }
    }
    return NULL;
}

bool case_is_result(const CaseTensorRule *rule)
{
    return rule->role == ROLE_CHANGED || rule->role == ROLE_COUNTED || rule->role == ROLE_MADE;
}
