/* gcoll/base/crc32c.c - CRC32C by a table, and selection of the fastest version for this processor. */
#include "gcoll/base/crc32c.h"

#include <stdbool.h>
#include <string.h>

#if defined(__aarch64__)
#include <sys/auxv.h>
#ifndef HWCAP_CRC32
#define HWCAP_CRC32 (1UL << 7)
#endif
#endif

/* The CRC register after the byte 1 << i. The register is linear, so other bytes are exclusive ors of
 * these values. */
#define OF_BIT(byte, i, value) ((byte) >> (i)&1 ? (value) : 0U)
#define OF_BYTE(byte)                                                                                        \
    (OF_BIT(byte, 0, 0xf26b8303U) ^ OF_BIT(byte, 1, 0xe13b70f7U) ^ OF_BIT(byte, 2, 0xc79a971fU) ^            \
     OF_BIT(byte, 3, 0x8ad958cfU) ^ OF_BIT(byte, 4, 0x105ec76fU) ^ OF_BIT(byte, 5, 0x20bd8edeU) ^            \
     OF_BIT(byte, 6, 0x417b1dbcU) ^ OF_BIT(byte, 7, 0x82f63b78U))
#define OF_4(byte)  OF_BYTE(byte), OF_BYTE((byte) + 1), OF_BYTE((byte) + 2), OF_BYTE((byte) + 3)
#define OF_16(byte) OF_4(byte), OF_4((byte) + 4), OF_4((byte) + 8), OF_4((byte) + 12)
#define OF_64(byte) OF_16(byte), OF_16((byte) + 16), OF_16((byte) + 32), OF_16((byte) + 48)

static const uint32_t of_byte[256] = {OF_64(0U), OF_64(64U), OF_64(128U), OF_64(192U)};

uint32_t gcoll_crc32c_plain(uint32_t crc, const void *data, size_t bytes) {
    const uint8_t *at = data;
    crc = ~crc;
    for (size_t i = 0; i < bytes; i++)
        crc = of_byte[(crc ^ at[i]) & 0xff] ^ crc >> 8;
    return ~crc;
}

static bool always(void) {
    return true;
}

#if defined(__x86_64__)
static bool has_instruction(void) {
    __builtin_cpu_init();
    return __builtin_cpu_supports("sse4.2");
}
#elif defined(__aarch64__)
static bool has_instruction(void) {
    return (getauxval(AT_HWCAP) & HWCAP_CRC32) != 0;
}
#endif

/* Best first, in the order of gcoll_crc32c_sets. */
static const struct {
    bool (*available)(void);
    gcoll_crc32c_fn compute;
} sets[] = {
#if defined(__x86_64__)
    {has_instruction, gcoll_crc32c_sse42},
#elif defined(__aarch64__)
    {has_instruction, gcoll_crc32c_armv8},
#endif
    {always, gcoll_crc32c_plain},
};

const char *const gcoll_crc32c_sets[] = {
#if defined(__x86_64__)
    "sse4.2",
#elif defined(__aarch64__)
    "armv8",
#endif
    "plain",
    NULL,
};

_Static_assert(sizeof gcoll_crc32c_sets / sizeof gcoll_crc32c_sets[0] == sizeof sets / sizeof sets[0] + 1,
               "one name a set, and NULL");

gcoll_crc32c_fn gcoll_crc32c_find(void) {
    size_t i = 0;
    while (!sets[i].available()) /* "plain", the last, is always available */
        i++;
    return sets[i].compute;
}

gcoll_crc32c_fn gcoll_crc32c_find_in(const char *set) {
    for (size_t i = 0; gcoll_crc32c_sets[i]; i++)
        if (strcmp(set, gcoll_crc32c_sets[i]) == 0)
            return sets[i].available() ? sets[i].compute : NULL;
    return NULL;
}
