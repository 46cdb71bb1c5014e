/* random.h - random numbers that depend on what they are for and on nothing else: any rank has the same, in
 * any order, and a run that was resumed goes on with them. */
#ifndef TRAIN_RANDOM_H
#define TRAIN_RANDOM_H

#include <stdint.h>

typedef enum random_purpose { RANDOM_WEIGHTS, RANDOM_IMAGE, RANDOM_ORDER } random_purpose;

typedef struct random_stream {
    uint64_t state;
} random_stream;

random_stream random_begin(uint64_t seed, random_purpose purpose, uint64_t number);

uint64_t random_bits(random_stream *self);
double random_between(random_stream *self, double low, double high);
double random_normal(random_stream *self); /* mean 0, variance 1, and never beyond 3.5 */
uint32_t random_below(random_stream *self, uint32_t limit);

#endif
