/*
 * gcoll/base/crc32c.h - CRC32C (Castagnoli, RFC 3720 section B.4), a checksum that detects corrupted bytes.
 * It detects every change of up to 32 adjacent bits, and misses one in 2^32 of other changes. It does not
 * protect from deliberate changes.
 */
#ifndef GCOLL_BASE_CRC32C_H
#define GCOLL_BASE_CRC32C_H

#include <stddef.h>
#include <stdint.h>

/* CRC32C of a stream of bytes, computed piece by piece. `crc` is the result for the bytes before this piece,
 * and 0 at the beginning. Returns the result including the `bytes` bytes at data. data may be NULL if bytes
 * is 0. */
typedef uint32_t (*gcoll_crc32c_fn)(uint32_t crc, const void *data, size_t bytes);

/* The fastest version for this processor. */
gcoll_crc32c_fn gcoll_crc32c_find(void);

/* The names of all versions in this build, best first; ends with NULL. */
extern const char *const gcoll_crc32c_sets[];
/* The version of this name; NULL if this build has none, or this processor lacks the instruction. */
gcoll_crc32c_fn gcoll_crc32c_find_in(const char *set);

/* The versions: by a table, by the instruction of x86-64, and by that of AArch64. */
uint32_t gcoll_crc32c_plain(uint32_t crc, const void *data, size_t bytes);
#if defined(__x86_64__)
uint32_t gcoll_crc32c_sse42(uint32_t crc, const void *data, size_t bytes);
#elif defined(__aarch64__)
uint32_t gcoll_crc32c_armv8(uint32_t crc, const void *data, size_t bytes);
#endif

#endif
