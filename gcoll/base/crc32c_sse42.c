/* gcoll/base/crc32c_sse42.c - CRC32C by the x86-64 instruction. Compiled with SSE4.2. */
#include <nmmintrin.h>

#define COMPUTE           gcoll_crc32c_sse42
#define STEP_8(crc, word) _mm_crc32_u64(crc, word)
#define STEP_1(crc, byte) _mm_crc32_u8((uint32_t)(crc), byte)

#include "gcoll/base/crc32c_lanes.h"
