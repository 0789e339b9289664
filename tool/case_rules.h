/* The table of the operations: the tensors of each, and what becomes of them. */
#ifndef KPOOL_TOOL_CASE_RULES_H
#define KPOOL_TOOL_CASE_RULES_H

#include "case_places.h"

/* A size of a tensor: a symbol of the contract, 'D' and the like, plus a constant; symbol 0: the constant alone. */
typedef struct Extent {
    char symbol;
    uint32_t plus;
} Extent;

typedef enum Element {
    ELEMENT_TYPE,   /* F32, F16 or BF16, the same for all such tensors of a case */
    ELEMENT_POOLED, /* the same of those that hold pooled keys; pooled_dtype, or ELEMENT_TYPE's */
    ELEMENT_F32,
    ELEMENT_INDEX,  /* U32 or non-negative I32 */
    ELEMENT_I32,
} Element;

typedef enum Role {
    ROLE_AGREES,   /* not used, but its shape must agree where it is present */
    ROLE_READ,     /* must be present, and come back unchanged, padding included */
    ROLE_RECKONED, /* the same, but pool_row_offsets of this call where the file lacks it */
    ROLE_CHANGED,  /* must be present; may have expected.<name>; its padding must come back unchanged */
    ROLE_COUNTED,  /* the same, but zeros where the file lacks it */
    ROLE_MADE,     /* the same, but a pattern where the file lacks it, which must survive where nothing is made */
    ROLE_LENT,     /* of no meaning, and not in the file */
} Role;

struct CaseTensorRule {
    const char *name;
    Role role;
    Element element;
    uint32_t rank;
    Extent shape[4];
    CaseNamePlace *name_place; /* of what the operation changes */
    CaseFindPool *find_pool;   /* of rows of keys, which the operation makes one by one; NULL: it makes everything */
};

struct CaseRule {
    const char *op;
    KpoolOperation operation;
    uint32_t count;
    CaseTensorRule tensors[CASE_MOST_TENSORS];
};

/* NULL for what is no operation. */
const CaseRule *case_find_rule(const char *op);
/* May have expected.<name>, and is written out. */
bool case_is_result(const CaseTensorRule *rule);

#endif
