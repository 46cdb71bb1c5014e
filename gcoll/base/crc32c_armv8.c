/* gcoll/base/crc32c_armv8.c - CRC32C by the AArch64 instruction. Compiled with the CRC32 extension. */
#include <arm_acle.h>

#define COMPUTE           gcoll_crc32c_armv8
#define STEP_8(crc, word) __crc32cd((uint32_t)(crc), word)
#define STEP_1(crc, byte) __crc32cb((uint32_t)(crc), byte)

#include "gcoll/base/crc32c_lanes.h"
