/* gcoll/base/bytes.h - reads and writes integers in messages: little-endian, of 1 to 8 bytes, at any
 * address. */
#ifndef GCOLL_BASE_BYTES_H
#define GCOLL_BASE_BYTES_H

#include <endian.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

static inline void gcoll_put_le(uint8_t *at, uint64_t value, size_t bytes) {
    value = htole64(value);
    memcpy(at, &value, bytes); /* one store if the compiler knows `bytes` */
}

static inline uint64_t gcoll_get_le(const uint8_t *at, size_t bytes) {
    uint64_t value = 0;
    memcpy(&value, at, bytes);
    return le64toh(value);
}

#endif
