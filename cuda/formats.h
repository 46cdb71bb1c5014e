/*
 * cuda/formats.h - formats of 16 and 8 bits, to float32 and back, in C++ for devices and the host.
 *
 * On devices float16 is converted by the instructions for it, which round to nearest even, too; that is left
 * to a test on a device.
 */
#ifndef GCOLL_CUDA_FORMATS_H
#define GCOLL_CUDA_FORMATS_H

#include <cstdint>

#include "gcoll/base/float8.h"
#include "gcoll/base/half.h"

#if defined(__CUDACC__)
#include <cuda_fp16.h>
#define GCOLL_BOTH __host__ __device__
#else
#define GCOLL_BOTH
#endif

namespace gcoll_cuda {

struct Float16 {
    using Element = uint16_t;
    GCOLL_BOTH static float widen(uint16_t x) {
#if defined(__CUDA_ARCH__)
        return __half2float(__ushort_as_half(x));
#else
        return gcoll_half_widen(x);
#endif
    }
    GCOLL_BOTH static uint16_t round(float x) {
#if defined(__CUDA_ARCH__)
        return __half_as_ushort(__float2half_rn(x));
#else
        return static_cast<uint16_t>(gcoll_half_round(x));
#endif
    }
};

struct Bfloat16 {
    using Element = uint16_t;
    GCOLL_BOTH static float widen(uint16_t x) { return gcoll_bfloat16_widen(x); }
    GCOLL_BOTH static uint16_t round(float x) { return static_cast<uint16_t>(gcoll_bfloat16_round(x)); }
};

struct E4m3 {
    using Element = uint8_t;
    GCOLL_BOTH static float widen(uint8_t x) { return gcoll_e4m3_widen(x); }
    GCOLL_BOTH static uint8_t round(float x) { return static_cast<uint8_t>(gcoll_e4m3_round(x)); }
};

struct E5m2 {
    using Element = uint8_t;
    GCOLL_BOTH static float widen(uint8_t x) { return gcoll_e5m2_widen(x); }
    GCOLL_BOTH static uint8_t round(float x) { return static_cast<uint8_t>(gcoll_e5m2_round(x)); }
};

} // namespace gcoll_cuda

#endif
