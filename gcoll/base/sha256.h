/*
 * gcoll/base/sha256.h - SHA-256 (FIPS 180-4) and HMAC-SHA-256 (RFC 2104): proofs that somebody knows a
 * secret.
 *
 * Written here because every connection is proved, also in builds without OpenSSL. No branch and no address
 * depends on the bytes, so time tells nothing of them.
 */
#ifndef GCOLL_BASE_SHA256_H
#define GCOLL_BASE_SHA256_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define GCOLL_SHA256_BYTES 32

typedef struct gcoll_sha256 {
    uint32_t state[8];
    uint64_t bytes; /* that were added */
    uint8_t block[64];
} gcoll_sha256;

void gcoll_sha256_begin(gcoll_sha256 *hash);
void gcoll_sha256_add(gcoll_sha256 *hash, const void *data, size_t bytes);
/* Leaves nothing of the data in *hash. */
void gcoll_sha256_end(gcoll_sha256 *hash, uint8_t digest[GCOLL_SHA256_BYTES]);

/* A key of any length is taken; one of more than 64 bytes counts by its hash. */
typedef struct gcoll_hmac {
    gcoll_sha256 inner, outer;
} gcoll_hmac;

void gcoll_hmac_begin(gcoll_hmac *mac, const void *key, size_t bytes);
void gcoll_hmac_add(gcoll_hmac *mac, const void *data, size_t bytes);
void gcoll_hmac_end(gcoll_hmac *mac, uint8_t digest[GCOLL_SHA256_BYTES]);

/* Takes the same time whatever differs, so that nobody finds the right bytes one by one. */
bool gcoll_is_same_secret(const void *a, const void *b, size_t bytes);
/* Overwrites what must not stay in memory; compilers keep it. */
void gcoll_forget_secret(void *data, size_t bytes);

#endif
