/* random.c - splitmix64 (Steele, Lea, Flood: "Fast splittable pseudorandom number generators", 2014). */
#include "random.h"

static uint64_t mix(uint64_t z) {
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9U;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebU;
    return z ^ (z >> 31);
}

random_stream random_begin(uint64_t seed, random_purpose purpose, uint64_t number) {
    return (random_stream){mix(mix(mix(seed + 1) + (uint64_t)purpose + 1) + number + 1)};
}

uint64_t random_bits(random_stream *self) {
    self->state += 0x9e3779b97f4a7c15U;
    return mix(self->state);
}

double random_between(random_stream *self, double low, double high) {
    return low + (high - low) * (double)(random_bits(self) >> 11) * 0x1p-53;
}

/* The sum of four numbers of 16 bits is near enough. */
double random_normal(random_stream *self) {
    const uint64_t bits = random_bits(self);
    const double sum =
        (double)((bits & 0xffff) + (bits >> 16 & 0xffff) + (bits >> 32 & 0xffff) + (bits >> 48));
    return (sum / 65535 - 2) * 1.7320508075688772; /* the variance of the sum is 4/12 */
}

uint32_t random_below(random_stream *self, uint32_t limit) {
    return (uint32_t)((random_bits(self) >> 32) * limit >> 32);
}
