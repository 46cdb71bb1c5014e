/*
 * gcoll/types.h - element types and reduction operations.
 *
 * These rules hold for every algorithm and transport:
 *  - Integers wrap modulo 2^bits in sum and product (signed ones too: two's complement).
 *  - Floats of 16 and 8 bits are widened to float32 for each application of the operation, and the result is
 *    rounded once, to nearest even; a NaN stays a NaN.
 *  - float8_e4m3 and float8_e5m2 are the formats of the OCP 8-bit Floating Point Specification 1.0. Results
 *    do not saturate: what rounds to more than the largest number (448 and 57344) becomes infinity in
 *    float8_e5m2, and NaN in float8_e4m3, which has no infinity.
 *  - min and max propagate NaN: if either operand is NaN the result is NaN. min(-0,+0) is -0 and
 *    max(-0,+0) is +0.
 *  - avg is the sum divided by the number of contributions (ranks times inputs per rank); integers
 *    truncate toward zero. The sum may overflow before the division.
 *  - Complex numbers have a real and an imaginary part, as those of C and C++. sum and avg go part by part.
 *    (a + bi) * (c + di) is (ac - bd) + (ad + bc)i, each operation rounded by itself. Infinities are not
 *    recovered, as annex G of C does.
 *  - band, bor, bxor act on the bits and are for integers only.
 *  - land, lor, lxor are the logical and, or, exclusive or. They are for bool and integers. Zero is
 *    false, any other value is true, and the result is 0 or 1. (One rank with one buffer combines nothing:
 *    its input is copied as it is.)
 *  - minloc and maxloc are for elements of a value and an index. The result is the element with the least or
 *    the greatest value and, of those with equal values, the one with the lowest index. Values compare as in
 *    min and max: -0 is less than +0, and NaN wins. If several are NaN, the one with the lowest index wins.
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
    GCOLL_INT16 = 10,
    GCOLL_UINT16 = 11,
    GCOLL_BOOL = 12,        /* a byte */
    GCOLL_COMPLEX64 = 13,   /* two float32: the real part first */
    GCOLL_COMPLEX128 = 14,  /* two float64 */
    GCOLL_FLOAT8_E4M3 = 15, /* torch calls it float8_e4m3fn */
    GCOLL_FLOAT8_E5M2 = 16,
    GCOLL_FLOAT32_INT32 = 17, /* the structs below */
    GCOLL_FLOAT64_INT64 = 18,
    GCOLL_INT32_INT32 = 19,
    GCOLL_INT64_INT64 = 20,
    GCOLL_TYPE_COUNT = 21
} gcoll_type;

/* An element of a float32 value and an index, for minloc and maxloc: GCOLL_FLOAT32_INT32. */
typedef struct gcoll_float32_int32 {
    float value;
    int32_t index;
} gcoll_float32_int32;

/* An element of a float64 value and an index: GCOLL_FLOAT64_INT64. */
typedef struct gcoll_float64_int64 {
    double value;
    int64_t index;
} gcoll_float64_int64;

/* An element of an int32 value and an index: GCOLL_INT32_INT32. */
typedef struct gcoll_int32_int32 {
    int32_t value;
    int32_t index;
} gcoll_int32_int32;

/* An element of an int64 value and an index: GCOLL_INT64_INT64. */
typedef struct gcoll_int64_int64 {
    int64_t value;
    int64_t index;
} gcoll_int64_int64;

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
    GCOLL_LAND = 9,
    GCOLL_LOR = 10,
    GCOLL_LXOR = 11,
    GCOLL_MINLOC = 12,
    GCOLL_MAXLOC = 13,
    GCOLL_OP_COUNT = 14
} gcoll_op;

/* Codecs: forms of float32 vectors with fewer bytes, in which messages carry them (docs/codecs.md). */
typedef enum gcoll_codec_kind {
    GCOLL_CODEC_NONE = 0,
    GCOLL_CODEC_BF16 = 1, /* each element as a bfloat16 */
    GCOLL_CODEC_FP16 = 2, /* each element as a float16 */
    GCOLL_CODEC_INT8 = 3, /* blocks of whole numbers of 8 bits with a common power of two */
    GCOLL_CODEC_FP8 = 4,  /* blocks of 8-bit floats, e4m3, with a common power of two */
    GCOLL_CODEC_COUNT = 5
} gcoll_codec_kind;

/* A codec with its options. All zero: none. */
typedef struct gcoll_codec {
    uint16_t kind;          /* gcoll_codec_kind */
    uint16_t is_stochastic; /* 1: rounds up or down at random, by `seed`; 0: to nearest */
    uint32_t block;         /* int8, fp8: elements of a block; else 0 */
    uint64_t seed;
} gcoll_codec;

/* Reads the text of a codec, as options.codec has it, and writes the codec to *codec. text: "bf16",
 * "int8:block=128,seed=7", ...; NULL, "" and "none" are no codec, which is all zero. GCOLL_ERR_INVALID lists
 * what is allowed. */
GCOLL_API gcoll_status gcoll_codec_parse(const char *text, gcoll_codec *codec);

/* Rounds float32 numbers as the messages of a call with options.codec = codec do. For error feedback: a rank
 * adds what an earlier rounding has lost, rounds, keeps what this one loses, and gives the rounded numbers to
 * gcoll_allreduce, whose first encoding then changes nothing (docs/codecs.md). NULL, "" and "none" copy.
 * codec: a text as options.codec takes it. input, output: count elements; the same buffer, or apart. call:
 * with a seed, a number that is another one for each call; else without effect.
 *
 * INVALID: a text that names no codec, or NULL in place of a buffer. Any thread. */
GCOLL_API gcoll_status gcoll_codec_round(const char *codec, const float *input, float *output, uint64_t count,
                                         uint64_t call);

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

/* A reduction function of the caller, for op = GCOLL_USER. It must be associative, unless options.order names
 * a tree. It may be called on parts of a vector, and take its time, but each call less than an eighth of
 * options.timeout_ms: peers that wait for this rank are answered only between two calls. */
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

/* The tree of operations that builds each element of a reduction. Its leaves are the contributions x0, x1,
 * x2, ... of all ranks, in rank order; several buffers of a rank are leaves in their order. With one tree,
 * bits depend neither on the algorithm nor on the transport, nor on an element's place in the vector, nor on
 * which rank contributes which of the leaves. It matters where gcoll_same does. An average is divided last,
 * once. */
typedef enum gcoll_order {
    GCOLL_ORDER_DEFAULT = 0, /* of a call: as its context's options say; of a context: any */
    GCOLL_ORDER_ANY = 1,     /* any tree, within what gcoll_same asks for */
    GCOLL_ORDER_PAIRS = 2,   /* neighbours first: leaf i meets leaf i xor 1, pairs meet pairs (i xor 2), fours
                              * meet fours, and so on. What has no partner passes on unchanged: of five leaves,
                              * ((x0 op x1) op (x2 op x3)) op x4 */
    GCOLL_ORDER_LEFT = 3     /* one after the other: ((x0 op x1) op x2) op ... */
} gcoll_order;

/* Returns the bytes of one element; 0 for a number that is no type. */
GCOLL_API size_t gcoll_type_size(gcoll_type type);

/* Return the name of a type or an op: "float32", ... or "sum", ...; "?" for any other number. */
GCOLL_API const char *gcoll_type_name(gcoll_type type);
GCOLL_API const char *gcoll_op_name(gcoll_op op);

/* Find a type or an operation by its name, which is written to *type or *op. GCOLL_ERR_INVALID: there is
 * none; the text lists the allowed names. */
GCOLL_API gcoll_status gcoll_type_parse(const char *name, gcoll_type *type);
GCOLL_API gcoll_status gcoll_op_parse(const char *name, gcoll_op *op);

/* Checks whether the operation `op` is defined for the type `type`. GCOLL_OK, or GCOLL_ERR_INVALID, whose
 * text names both and lists the operations that the type has. GCOLL_USER is defined for every type. */
GCOLL_API gcoll_status gcoll_op_check(gcoll_type type, gcoll_op op);

GCOLL_END_DECLS

#endif
