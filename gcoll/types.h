/*
 * gcoll/types.h - element types and reduction operations.
 *
 * These rules hold for every algorithm and transport:
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

/* Types of elements. */
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

/* Operations of reductions. */
typedef enum gcoll_op {
    GCOLL_SUM = 0,
    GCOLL_PRODUCT = 1,
    GCOLL_MIN = 2,
    GCOLL_MAX = 3,
    GCOLL_AVG = 4,
    GCOLL_BAND = 5,
    GCOLL_BOR = 6,
    GCOLL_BXOR = 7,
    GCOLL_USER = 8, /* a function of the caller, see gcoll_user_op */
    GCOLL_OP_COUNT = 9
} gcoll_op;

/* A reduction: computes dst[i] = a[i] op b[i] for i in [0, count). count is in elements. dst may be a or b,
 * and overlaps them in no other way. If the operation does not commute, a comes from lower ranks than b.
 * type: as in the call. arg: of the gcoll_user_op.
 *
 * Returns GCOLL_OK. With any other status the reduction has failed, and dst may hold anything. The context
 * then breaks: the call fails with GCOLL_ERR_ABORTED on this rank, and so do calls on all other ranks that
 * have not ended; this rank is the culprit. No rank gets a result that the failed reduction is part of. The
 * error names the operation, the rank and the status. The function may say more by gcoll_store_error, as in
 * `return gcoll_store_error(GCOLL_ERR_INVALID, "no such key")`. It must call no other function of gcoll. */
typedef gcoll_status (*gcoll_reduce_fn)(void *dst, const void *a, const void *b, uint64_t count,
                                        gcoll_type type, void *arg);

#define GCOLL_MAX_ELEMENT_BYTES 65535u

/* A reduction function of the caller, for op = GCOLL_USER. It must be associative. It may be called on parts
 * of a vector, and take its time, but each call less than an eighth of options.timeout_ms: peers that wait
 * for this rank are answered only between two calls. */
typedef struct gcoll_user_op {
    gcoll_reduce_fn reduce;
    void *arg;       /* passed to reduce unchanged */
    int commutative; /* 0: only algorithms that keep rank order are used */

    /* Size in bytes of an element of the caller's own, such as a pair or a struct: 1 to
     * GCOLL_MAX_ELEMENT_BYTES, the same on every rank. 0: an element of the call's type. If it is set, the
     * type must be GCOLL_UINT8. Every count, of the call and of reduce, then is in these elements. Pointers
     * that reduce gets are aligned to the largest power of two that divides the size, 16 at most. The buffers
     * of the call must be aligned so, too. Elements of more than 16 bytes are reduced when their whole
     * message has come. That takes memory of the size of the message, which options.memory_limit_bytes does
     * not count. */
    uint32_t element_bytes;
} gcoll_user_op;

/* A reduction that may never return, for bindings to languages in which an exception may end a callback at
 * any point, before it can return a status. Set gcoll_user_op.reduce to gcoll_reduce_guarded and its arg to
 * this struct. Each reduction then calls the function here, and has failed unless the function sets `status`
 * to GCOLL_OK. */
typedef struct gcoll_guarded_reduce {
    void (*reduce)(void *dst, const void *a, const void *b, uint64_t count, gcoll_type type, void *arg);
    void *arg;           /* passed to reduce unchanged */
    gcoll_status status; /* GCOLL_ERR_ABORTED before each call */
} gcoll_guarded_reduce;

/* Reduces by a function that may end before it can return a status. It is a gcoll_reduce_fn, with the same
 * dst, a, b, count and type. guarded: a gcoll_guarded_reduce, which one thread at a time may use. */
GCOLL_API gcoll_status gcoll_reduce_guarded(void *dst, const void *a, const void *b, uint64_t count,
                                            gcoll_type type, void *guarded);

/* Where the result of a reduction is the same, bit by bit. This matters for sums, products and averages of
 * floating-point numbers, whose last bits depend on the order of the operations, and for operations of the
 * caller. Minima, maxima and all operations on integers give the same bits in any order. The payload of a NaN
 * may differ in any case. */
typedef enum gcoll_same {
    GCOLL_SAME_DEFAULT = 0,  /* of a call: as its context's options say; of a context: on every rank */
    GCOLL_SAME_ON_RANKS = 1, /* on every rank */
    GCOLL_SAME_IN_RUNS = 2,  /* also in every run with the same calls, inputs and number of ranks. auto then
                              * uses neither measured costs nor the lateness of ranks nor what other calls have
                              * taken, only the call, options.cost and a tuning file */
    GCOLL_SAME_NOWHERE = 3   /* nowhere: any algorithm may be used, and ranks may get sums that differ in the
                              * last bits */
} gcoll_same;

/* Returns the bytes of one element; 0 for a number that is no type. */
GCOLL_API size_t gcoll_type_size(gcoll_type type);

/* Return the name of a type or an op: "float32", ... or "sum", ...; "?" for any other number. */
GCOLL_API const char *gcoll_type_name(gcoll_type type);
GCOLL_API const char *gcoll_op_name(gcoll_op op);

/* Find a type or an operation by its name, which is written to *type or *op. GCOLL_ERR_INVALID: there is
 * none; the text lists the allowed names. */
GCOLL_API gcoll_status gcoll_type_parse(const char *name, gcoll_type *type);
GCOLL_API gcoll_status gcoll_op_parse(const char *name, gcoll_op *op);

GCOLL_END_DECLS

#endif
