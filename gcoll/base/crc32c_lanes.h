/*
 * gcoll/base/crc32c_lanes.h - CRC32C by an instruction, in three lanes. Includers define COMPUTE, STEP_8,
 * STEP_1.
 *
 * The instruction takes three cycles, and one can start in each cycle. So a block is cut into three lanes of
 * equal length, whose registers are computed side by side.
 *
 * The register is linear in its initial value. To join two lanes, advance the first register over as many
 * zero bytes as the second lane has, and exclusive-or it with the second register, which began with 0.
 * Advancing is a multiplication by a bit matrix. The tables below hold its columns.
 */
#include <string.h>

#include "gcoll/base/crc32c.h"

/* The short lane is for messages, the long one for parts of large messages: in a longer lane, the end of
 * a block weighs less. */
#define SHORT_LANE 256
#define LONG_LANE  4096

/* The register 1 << i, advanced over a lane of zeros. */
static const uint32_t over_short[32] = {
    0xdcb17aa4, 0xbc8e83b9, 0x7cf17183, 0xf9e2e306, 0xf629b0fd, 0xe9bf170b, 0xd69258e7, 0xa8c8c73f,
    0x547df88f, 0xa8fbf11e, 0x541b94cd, 0xa837299a, 0x558225c5, 0xab044b8a, 0x53e4e1e5, 0xa7c9c3ca,
    0x4a7ff165, 0x94ffe2ca, 0x2c13b365, 0x582766ca, 0xb04ecd94, 0x6571edd9, 0xcae3dbb2, 0x902bc195,
    0x25bbf5db, 0x4b77ebb6, 0x96efd76c, 0x2833d829, 0x5067b052, 0xa0cf60a4, 0x4472b7b9, 0x88e56f72};
static const uint32_t over_long[32] = {
    0xc2a5b65e, 0x80a71a4d, 0x04a2426b, 0x094484d6, 0x128909ac, 0x25121358, 0x4a2426b0, 0x94484d60,
    0x2d7cec31, 0x5af9d862, 0xb5f3b0c4, 0x6e0b1779, 0xdc162ef2, 0xbdc02b15, 0x7e6c20db, 0xfcd841b6,
    0xfc5cf59d, 0xfd559dcb, 0xff474d67, 0xfb62ec3f, 0xf329ae8f, 0xe3bf2bef, 0xc292212f, 0x80c834af,
    0x047c1faf, 0x08f83f5e, 0x11f07ebc, 0x23e0fd78, 0x47c1faf0, 0x8f83f5e0, 0x1aeb9d31, 0x35d73a62};

static inline uint32_t advance(const uint32_t columns[32], uint32_t crc) {
    uint32_t sum = 0;
    for (uint32_t i = 0; i < 32; i++)
        sum ^= columns[i] & (0U - (crc >> i & 1U));
    return sum;
}

/* Loads 8 bytes in little-endian order, as the instruction needs. All processors with these instructions
 * that gcoll supports are little-endian. */
static inline uint64_t word_at(const uint8_t *at) {
    uint64_t word;
    memcpy(&word, at, sizeof word);
    return word;
}

/* Computes one block of three lanes of `lane` bytes. */
static inline uint32_t block(uint32_t crc, const uint8_t *at, size_t lane, const uint32_t columns[32]) {
    uint64_t first = crc, second = 0, third = 0;
    for (size_t i = 0; i < lane; i += sizeof(uint64_t)) {
        first = STEP_8(first, word_at(at + i));
        second = STEP_8(second, word_at(at + lane + i));
        third = STEP_8(third, word_at(at + 2 * lane + i));
    }
    return advance(columns, advance(columns, (uint32_t)first) ^ (uint32_t)second) ^ (uint32_t)third;
}

uint32_t COMPUTE(uint32_t crc, const void *data, size_t bytes) {
    const uint8_t *at = data;
    crc = ~crc;
    for (; bytes >= 3 * (size_t)LONG_LANE; at += 3 * LONG_LANE, bytes -= 3 * LONG_LANE)
        crc = block(crc, at, LONG_LANE, over_long);
    for (; bytes >= 3 * (size_t)SHORT_LANE; at += 3 * SHORT_LANE, bytes -= 3 * SHORT_LANE)
        crc = block(crc, at, SHORT_LANE, over_short);
    for (; bytes >= sizeof(uint64_t); at += sizeof(uint64_t), bytes -= sizeof(uint64_t))
        crc = (uint32_t)STEP_8(crc, word_at(at));
    for (; bytes > 0; at++, bytes--)
        crc = STEP_1(crc, *at);
    return ~crc;
}
