/* benchmark/values.h - inputs, and the results that they must give. */
#ifndef GCOLL_BENCH_VALUES_H
#define GCOLL_BENCH_VALUES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "gcoll/gcoll.h"

/* Values repeat after this many elements: a prime, so that no chunk of a usual size that lands in the wrong
 * place finds there what it holds. */
#define BENCH_PERIOD 1021u

/* What contributors put in and what their reduction is: patterns of BENCH_PERIOD elements. The element at
 * position i of the vector is element i % BENCH_PERIOD of a pattern. */
typedef struct bench_values {
    gcoll_type type;
    gcoll_op op;
    uint64_t total; /* contributors */
    size_t element_bytes;
    unsigned char *result;      /* a pattern; NULL: nothing is reduced */
    unsigned char *contributor; /* room for one */
} bench_values;

/* Fills buffers that a collective must overwrite. No test value of any type consists of this byte alone. */
#define BENCH_POISON 0xa5

/* The owner of elements, where it is not a contributor. */
#define BENCH_RESULT  (-1) /* the reduction of all */
#define BENCH_GARBAGE (-2) /* what must be overwritten */

/* Every result is exact in every order of evaluation, as all partial results are small integers. Contributor
 * g is buffer g % inputs of rank g / inputs. */
bool bench_values_create(gcoll_type type, gcoll_op op, uint64_t total, bool reduces, bench_values *values);
/* Gives results that are 0 the sign that negative factors of inputs and of the result leave: sums of floats
 * that cancel are +0, which a negative factor makes -0. Where all inputs are 0, both factors turn the sign.
 */
void bench_values_negate_zeros(bench_values *values);
/* What `owner` has. Valid until the next call. */
const unsigned char *bench_values_of(bench_values *values, int64_t owner);
void bench_values_free(bench_values *values);

/* Elements from position `position` of a vector that repeats the pattern. */
void bench_fill(void *data, const unsigned char *pattern, size_t element_bytes, uint64_t position,
                uint64_t count);
/* The number of elements that differ from the pattern; the first of them in *first. */
/* allowed: how far elements may be off, which are then float32; 0: they are equal. */
uint64_t bench_count_wrong(const void *data, const unsigned char *pattern, size_t element_bytes,
                           uint64_t position, uint64_t count, double allowed, uint64_t *first);
/* The largest magnitude that any contributor has; of float32. */
double bench_largest(bench_values *values);

#endif
