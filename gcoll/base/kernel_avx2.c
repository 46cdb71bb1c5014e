/* gcoll/base/kernel_avx2.c - reduction kernels for x86-64 with AVX2 and F16C. Compiled with flags for
 * both. */
#include <immintrin.h>

#define KERNEL_TABLE gcoll_kernels_avx2
#define half_lanes   __m256

static inline __m256 half_load(const void *halves) {
    return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)halves));
}

static inline void half_store(void *halves, __m256 values) {
    _mm_storeu_si128((__m128i *)halves, _mm256_cvtps_ph(values, _MM_FROUND_TO_NEAREST_INT));
}

#include "gcoll/base/kernel_loops.h"
