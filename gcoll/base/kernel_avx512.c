/* gcoll/base/kernel_avx512.c - reduction kernels for x86-64 with AVX-512 F, BW, DQ and VL. Compiled with
 * flags for these. */
#include <immintrin.h>

#define KERNEL_TABLE gcoll_kernels_avx512
#define half_lanes   __m512

static inline __m512 half_load(const void *halves) {
    return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)halves));
}

static inline void half_store(void *halves, __m512 values) {
    _mm256_storeu_si256((__m256i *)halves, _mm512_maskz_cvtps_ph(0xffff, values, _MM_FROUND_TO_NEAREST_INT));
}

#include "gcoll/base/kernel_loops.h"
