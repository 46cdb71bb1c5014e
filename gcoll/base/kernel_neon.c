/* gcoll/base/kernel_neon.c - reduction kernels for AArch64, which always has NEON and its float16
 * conversions. */
#include <arm_neon.h>

#define KERNEL_TABLE gcoll_kernels_neon
#define half_lanes   float32x4_t

static inline float32x4_t half_load(const void *halves) {
    /* Load bytes: a load of uint16_t would promise an alignment that callers need not keep. */
    return vcvt_f32_f16(vreinterpret_f16_u8(vld1_u8((const uint8_t *)halves)));
}

static inline void half_store(void *halves, float32x4_t values) {
    vst1_u8((uint8_t *)halves, vreinterpret_u8_f16(vcvt_f16_f32(values)));
}

#include "gcoll/base/kernel_loops.h"
