/* gcoll/base/sha256.c - SHA-256 as FIPS 180-4 describes it, and HMAC by it; see sha256.h. */
#include "gcoll/base/sha256.h"

#include <string.h>

#define BLOCK_BYTES 64
#define ROUNDS      64

/* The first 32 bits of the fractional parts of the cube roots of the first 64 primes. */
static const uint32_t round_constants[ROUNDS] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

static uint32_t rotated(uint32_t word, int bits) {
    return word >> bits | word << (32 - bits);
}

static uint32_t get_be32(const uint8_t *bytes) {
    return (uint32_t)bytes[0] << 24 | (uint32_t)bytes[1] << 16 | (uint32_t)bytes[2] << 8 | (uint32_t)bytes[3];
}

static void put_be32(uint8_t *bytes, uint32_t word) {
    for (int i = 0; i < 4; i++)
        bytes[i] = (uint8_t)(word >> (24 - 8 * i));
}

static void expand(uint32_t schedule[ROUNDS], const uint8_t block[BLOCK_BYTES]) {
    for (int i = 0; i < 16; i++)
        schedule[i] = get_be32(block + (size_t)4 * (size_t)i);
    for (int i = 16; i < ROUNDS; i++) {
        const uint32_t early = schedule[i - 15], late = schedule[i - 2];
        schedule[i] = schedule[i - 16] + (rotated(early, 7) ^ rotated(early, 18) ^ early >> 3) +
                      schedule[i - 7] + (rotated(late, 17) ^ rotated(late, 19) ^ late >> 10);
    }
}

static void compress(uint32_t state[8], const uint8_t block[BLOCK_BYTES]) {
    uint32_t schedule[ROUNDS];
    uint32_t a = state[0], b = state[1], c = state[2], d = state[3];
    uint32_t e = state[4], f = state[5], g = state[6], h = state[7];
    expand(schedule, block);
    for (int i = 0; i < ROUNDS; i++) {
        const uint32_t choice = (e & f) ^ (~e & g), majority = (a & b) ^ (a & c) ^ (b & c);
        const uint32_t first =
            h + (rotated(e, 6) ^ rotated(e, 11) ^ rotated(e, 25)) + choice + round_constants[i] + schedule[i];
        const uint32_t second = (rotated(a, 2) ^ rotated(a, 13) ^ rotated(a, 22)) + majority;
        h = g;
        g = f;
        f = e;
        e = d + first;
        d = c;
        c = b;
        b = a;
        a = first + second;
    }
    const uint32_t mixed[8] = {a, b, c, d, e, f, g, h};
    for (int i = 0; i < 8; i++)
        state[i] += mixed[i];
    gcoll_forget_secret(schedule, sizeof schedule);
}

void gcoll_sha256_begin(gcoll_sha256 *hash) {
    *hash = (gcoll_sha256){.state = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c,
                                     0x1f83d9ab, 0x5be0cd19}};
}

void gcoll_sha256_add(gcoll_sha256 *hash, const void *data, size_t bytes) {
    const uint8_t *next = data;
    while (bytes > 0) {
        const size_t have = hash->bytes % BLOCK_BYTES;
        const size_t count = bytes < BLOCK_BYTES - have ? bytes : BLOCK_BYTES - have;
        memcpy(hash->block + have, next, count);
        hash->bytes += count;
        next += count;
        bytes -= count;
        if (have + count == BLOCK_BYTES)
            compress(hash->state, hash->block);
    }
}

void gcoll_sha256_end(gcoll_sha256 *hash, uint8_t digest[GCOLL_SHA256_BYTES]) {
    static const uint8_t padding[BLOCK_BYTES] = {0x80};
    const uint64_t bits = hash->bytes * 8;
    const size_t have = hash->bytes % BLOCK_BYTES;
    uint8_t length[8];
    put_be32(length, (uint32_t)(bits >> 32));
    put_be32(length + 4, (uint32_t)bits);
    gcoll_sha256_add(hash, padding, (have < 56 ? 56 : 120) - have);
    gcoll_sha256_add(hash, length, sizeof length);
    for (size_t i = 0; i < 8; i++)
        put_be32(digest + 4 * i, hash->state[i]);
    gcoll_forget_secret(hash, sizeof *hash);
}

void gcoll_hmac_begin(gcoll_hmac *mac, const void *key, size_t bytes) {
    uint8_t block[BLOCK_BYTES] = {0};
    if (bytes > BLOCK_BYTES) {
        gcoll_sha256_begin(&mac->inner);
        gcoll_sha256_add(&mac->inner, key, bytes);
        gcoll_sha256_end(&mac->inner, block);
    } else if (bytes > 0) {
        memcpy(block, key, bytes);
    }
    for (size_t i = 0; i < BLOCK_BYTES; i++)
        block[i] ^= 0x36;
    gcoll_sha256_begin(&mac->inner);
    gcoll_sha256_add(&mac->inner, block, sizeof block);
    for (size_t i = 0; i < BLOCK_BYTES; i++)
        block[i] ^= 0x36 ^ 0x5c;
    gcoll_sha256_begin(&mac->outer);
    gcoll_sha256_add(&mac->outer, block, sizeof block);
    gcoll_forget_secret(block, sizeof block);
}

void gcoll_hmac_add(gcoll_hmac *mac, const void *data, size_t bytes) {
    gcoll_sha256_add(&mac->inner, data, bytes);
}

void gcoll_hmac_end(gcoll_hmac *mac, uint8_t digest[GCOLL_SHA256_BYTES]) {
    uint8_t inner[GCOLL_SHA256_BYTES];
    gcoll_sha256_end(&mac->inner, inner);
    gcoll_sha256_add(&mac->outer, inner, sizeof inner);
    gcoll_sha256_end(&mac->outer, digest);
}

bool gcoll_is_same_secret(const void *a, const void *b, size_t bytes) {
    const uint8_t *one = a, *other = b;
    uint32_t differs = 0;
    for (size_t i = 0; i < bytes; i++)
        differs |= (uint32_t)(one[i] ^ other[i]);
    return differs == 0;
}

void gcoll_forget_secret(void *data, size_t bytes) {
    memset(data, 0, bytes);
    __asm__ __volatile__("" : : "r"(data) : "memory");
}
