/* gcoll/base/bytes.h - whole numbers in messages: little-endian, of 1 to 8 bytes, at any address. */
#ifndef GCOLL_BASE_BYTES_H
#define GCOLL_BASE_BYTES_H

#include <stddef.h>
#include <stdint.h>

static inline void gcoll_put_le(uint8_t *at, uint64_t value, size_t bytes) {
    for (size_t i = 0; i < bytes; i++)
        at[i] = (uint8_t)(value >> (8 * i));
}

static inline uint64_t gcoll_get_le(const uint8_t *at, size_t bytes) {
    uint64_t value = 0;
    for (size_t i = 0; i < bytes; i++)
        value |= (uint64_t)at[i] << (8 * i);
    return value;
}

#endif
