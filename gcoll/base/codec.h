/*
 * gcoll/base/codec.h - codecs: float32 vectors written with fewer bytes, for messages.
 *
 * bf16 and fp16 write each element by itself. int8 and fp8 write blocks: a byte for the scale, a power of
 * two, then one byte an element. docs/codecs.md has the formats and the bounds of their errors.
 *
 * A vector that was decoded is encoded again without any change, if each block lies within one block of the
 * first encoding. So a rank that passes on what it decoded passes on the same bits.
 */
#ifndef GCOLL_BASE_CODEC_H
#define GCOLL_BASE_CODEC_H

#include "gcoll/base/base.h"
#include "gcoll/base/bytes.h"

#define GCOLL_CODEC_TEXT_MAX 64 /* bytes of the longest text, and more */

/* Allowed lengths of blocks. They are multiples of GCOLL_CODEC_BLOCK_STEP, so that a fingerprint has room for
 * them. */
#define GCOLL_CODEC_BLOCK_STEP 8u
#define GCOLL_CODEC_BLOCK_MAX  4096u

/* The first byte of a block whose elements are all NaN, because one was no finite number. */
#define GCOLL_CODEC_NAN_BLOCK 0xffu

/* Kernels of one codec. src, dst, a: float32 of any alignment. code: gcoll_codec_bytes of any alignment.
 * noise: NULL rounds to nearest; else the key of the random bits, by which element i is rounded up or down.
 */
typedef struct gcoll_codec_kernels {
    void (*encode)(void *code, const void *src, uint64_t count, uint32_t block, const uint32_t *noise);
    void (*decode)(void *dst, const void *code, uint64_t count, uint32_t block);
    void (*decode_sum)(void *dst, const void *a, const void *code, uint64_t count, uint32_t block);
} gcoll_codec_kernels;

/* Writes it as a text that gcoll_codec_parse reads. */
void gcoll_codec_format(const gcoll_codec *codec, char text[GCOLL_CODEC_TEXT_MAX]);
/* "bf16", ...; "?" for any other number. */
const char *gcoll_codec_name(uint32_t kind);
/* INVALID if a field has a value that gcoll_codec_parse never gives. */
gcoll_status gcoll_codec_check(const gcoll_codec *codec);

static inline bool gcoll_codec_is_set(const gcoll_codec *codec) {
    return codec->kind != GCOLL_CODEC_NONE;
}

/* Bytes of `count` encoded elements. */
static inline uint64_t gcoll_codec_bytes(const gcoll_codec *codec, uint64_t count) {
    if (codec->block > 0)
        return count + count / codec->block + (count % codec->block != 0);
    return codec->kind == GCOLL_CODEC_NONE ? 4 * count : 2 * count;
}

/* The same in words of 4 bytes, the size of a float32: plans count in them. */
static inline uint64_t gcoll_codec_words(const gcoll_codec *codec, uint64_t count) {
    return gcoll_codec_bytes(codec, count) / 4 + (gcoll_codec_bytes(codec, count) % 4 != 0);
}

/* Bytes of long vectors, as a part of those of float32. */
static inline double gcoll_codec_ratio(const gcoll_codec *codec) {
    if (codec->block > 0)
        return (1 + 1.0 / codec->block) / 4;
    return codec->kind == GCOLL_CODEC_NONE ? 1 : 0.5;
}

/* Encodes `count` elements; clears the rest of the last word. key: with a seed, the source of the random
 * bits. A caller takes another key for each call. */
void gcoll_codec_encode(const gcoll_codec *codec, void *words, const void *src, uint64_t count, uint64_t key);
/* Decodes `count` elements. */
void gcoll_codec_decode(const gcoll_codec *codec, void *dst, const void *words, uint64_t count);
/* dst = a + decoded. dst may be a. */
void gcoll_codec_decode_sum(const gcoll_codec *codec, void *dst, const void *a, const void *words,
                            uint64_t count);

/* The kernels of an instruction set, as gcoll_kernel_find_in; NULL: this processor lacks it. For tests and
 * benchmarks. */
const gcoll_codec_kernels *gcoll_codec_kernels_in(const char *set, uint32_t kind);

#endif
