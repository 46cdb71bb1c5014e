/*
 * gcoll/base/crc32c.h - CRC32C (Castagnoli, RFC 3720 section B.4), a checksum that detects bytes changed on
 * their way.
 *
 * It finds every change of up to 32 bits in a row, and misses one in 2^32 of any other. It is no protection
 * from changes on purpose.
 */
#ifndef GCOLL_BASE_CRC32C_H
#define GCOLL_BASE_CRC32C_H

#include <stddef.h>
#include <stdint.h>

/* CRC32C of a stream of bytes, computed piece by piece. `crc` is the result for the bytes before this piece,
 * and 0 at the beginning. Returns the result including the `bytes` bytes at data. data may be NULL if bytes
 * is 0. */
typedef uint32_t (*gcoll_crc32c_fn)(uint32_t crc, const void *data, size_t bytes);

/* The fastest for this processor. */
gcoll_crc32c_fn gcoll_crc32c_find(void);

/* All of this build by name, best first; ends with NULL. */
extern const char *const gcoll_crc32c_sets[];
/* By name. NULL if this build has no such set, or this processor lacks it. */
gcoll_crc32c_fn gcoll_crc32c_find_in(const char *set);

/* What the sets are made of: with a table, with the instruction of x86-64 or that of AArch64. */
uint32_t gcoll_crc32c_plain(uint32_t crc, const void *data, size_t bytes);
#if defined(__x86_64__)
uint32_t gcoll_crc32c_sse42(uint32_t crc, const void *data, size_t bytes);
#elif defined(__aarch64__)
uint32_t gcoll_crc32c_armv8(uint32_t crc, const void *data, size_t bytes);
#endif

#endif
