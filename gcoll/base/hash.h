/* gcoll/base/hash.h - hashes of bytes, texts and numbers. They do not resist an adversary. */
#ifndef GCOLL_BASE_HASH_H
#define GCOLL_BASE_HASH_H

#include <stddef.h>
#include <stdint.h>

/* 64-bit FNV-1a: start with GCOLL_HASH_START, and add one item after the other. All ranks and versions
 * must compute the same, because such hashes are compared between processes. */
#define GCOLL_HASH_START UINT64_C(0xcbf29ce484222325)

/* Adds one byte, or a number at once, which is cheaper than adding its bytes. */
static inline uint64_t gcoll_hash_word(uint64_t hash, uint64_t word) {
    return (hash ^ word) * UINT64_C(0x100000001b3);
}

static inline uint64_t gcoll_hash_words(uint64_t hash, const uint64_t *words, size_t count) {
    for (size_t i = 0; i < count; i++)
        hash = gcoll_hash_word(hash, words[i]);
    return hash;
}

static inline uint64_t gcoll_hash_bytes(uint64_t hash, const void *bytes, size_t count) {
    const uint8_t *each = (const uint8_t *)bytes;
    for (size_t i = 0; i < count; i++)
        hash = gcoll_hash_word(hash, each[i]);
    return hash;
}

static inline uint64_t gcoll_hash_text(uint64_t hash, const char *text) {
    for (; *text != '\0'; text++)
        hash = gcoll_hash_word(hash, (uint8_t)*text);
    return hash;
}

/* Hashes a number for a table whose size is a power of two: the slot is the low bits of the result. The
 * multiplication (2^64 / golden ratio) spreads consecutive numbers, such as ranks. The shifts mix high bits
 * in. */
static inline uint64_t gcoll_hash_mix(uint64_t number) {
    number ^= number >> 32;
    number *= UINT64_C(0x9e3779b97f4a7c15);
    return number ^ (number >> 29);
}

#endif
