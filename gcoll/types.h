/*
 * gcoll/types.h - element types and reduction operations.
 *
 * Semantics that hold for every algorithm and transport:
 *  - Integers wrap modulo 2^bits in sum and product (signed ones too: two's complement).
 *  - float16 and bfloat16 are widened to float32 for each application of the operation and rounded
 *    back to nearest-even; a NaN stays a NaN.
 *  - min and max propagate NaN: if either operand is NaN the result is NaN. min(-0,+0) is -0 and
 *    max(-0,+0) is +0.
 *  - avg is the sum divided by the number of contributions (ranks times inputs per rank); integers
 *    truncate toward zero. The sum may overflow before the division.
 *  - and, or, xor act on the bits and are for integers only.
 */
#ifndef GCOLL_TYPES_H
#define GCOLL_TYPES_H

#include <stddef.h>
#include <stdint.h>

#include "gcoll/export.h"
#include "gcoll/status.h"

GCOLL_BEGIN_DECLS

typedef enum gcoll_type {
    GCOLL_INT8 = 0,
    GCOLL_UINT8 = 1,
    GCOLL_INT32 = 2,
    GCOLL_UINT32 = 3,
    GCOLL_INT64 = 4,
    GCOLL_UINT64 = 5,
    GCOLL_FLOAT16 = 6,
    GCOLL_BFLOAT16 = 7,
    GCOLL_FLOAT32 = 8,
    GCOLL_FLOAT64 = 9,
    GCOLL_TYPE_COUNT = 10
} gcoll_type;

typedef enum gcoll_op {
    GCOLL_SUM = 0,
    GCOLL_PRODUCT = 1,
    GCOLL_MIN = 2,
    GCOLL_MAX = 3,
    GCOLL_AVG = 4,
    GCOLL_BAND = 5,
    GCOLL_BOR = 6,
    GCOLL_BXOR = 7,
    GCOLL_USER = 8, /* a function of the caller's, see gcoll_user_op */
    GCOLL_OP_COUNT = 9
} gcoll_op;

/* dst[i] = a[i] op b[i] for i in [0, count). dst may be a or b, and overlaps them in no other way.
 * For an operation that does not commute, a stands for lower ranks than b. Must not call gcoll. */
typedef void (*gcoll_reduce_fn)(void *dst, const void *a, const void *b, uint64_t count, gcoll_type type,
                                void *arg);

/* A reduction of the caller's own, for op = GCOLL_USER. It must be associative. */
typedef struct gcoll_user_op {
    gcoll_reduce_fn reduce;
    void *arg;       /* handed to reduce as it is */
    int commutative; /* 0: only algorithms that keep rank order are allowed */
} gcoll_user_op;

/* Bytes of one element; 0 if type is none. */
GCOLL_API size_t gcoll_type_size(gcoll_type type);

/* "float32", "sum", ...; "?" for a number that is none. */
GCOLL_API const char *gcoll_type_name(gcoll_type type);
GCOLL_API const char *gcoll_op_name(gcoll_op op);

/* The reverse, by the same names. GCOLL_ERR_INVALID lists the allowed names. */
GCOLL_API gcoll_status gcoll_type_parse(const char *name, gcoll_type *type);
GCOLL_API gcoll_status gcoll_op_parse(const char *name, gcoll_op *op);

GCOLL_END_DECLS

#endif
