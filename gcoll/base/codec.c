/* gcoll/base/codec.c - texts of codecs, and the choice of their kernels. */
#include "gcoll/base/codec.h"

#include <stdio.h>
#include <string.h>

#include "gcoll/base/hash.h"
#include "gcoll/base/kernels.h"
#include "gcoll/base/text.h"

static const struct {
    const char *name;
    uint32_t block; /* if none is given; 0: elements are encoded one by one */
} rows[GCOLL_CODEC_COUNT] = {
    [GCOLL_CODEC_NONE] = {"none", 0},   [GCOLL_CODEC_BF16] = {"bf16", 0}, [GCOLL_CODEC_FP16] = {"fp16", 0},
    [GCOLL_CODEC_INT8] = {"int8", 128}, [GCOLL_CODEC_FP8] = {"fp8", 32},
};

const char *gcoll_codec_name(uint32_t kind) {
    return kind < GCOLL_CODEC_COUNT ? rows[kind].name : "?";
}

/* ---- Texts ---------------------------------------------------------------------------------------- */

static bool is_allowed_block(uint64_t block) {
    return block > 0 && block <= GCOLL_CODEC_BLOCK_MAX && block % GCOLL_CODEC_BLOCK_STEP == 0;
}

static gcoll_status check_block(const char *name, uint64_t block) {
    if (is_allowed_block(block))
        return GCOLL_OK;
    return gcoll_error(GCOLL_ERR_INVALID, "codec: %s: block is %llu; allowed are multiples of %u up to %u",
                       name, (unsigned long long)block, GCOLL_CODEC_BLOCK_STEP, GCOLL_CODEC_BLOCK_MAX);
}

gcoll_status gcoll_codec_check(const gcoll_codec *codec) {
    if (codec->kind >= GCOLL_CODEC_COUNT)
        return gcoll_error(GCOLL_ERR_INVALID, "codec: kind is %u; allowed are 0 to %d", codec->kind,
                           GCOLL_CODEC_COUNT - 1);
    if (rows[codec->kind].block > 0)
        return check_block(rows[codec->kind].name, codec->block);
    if (codec->block != 0)
        return gcoll_error(GCOLL_ERR_INVALID, "codec: %s: block is %u; allowed is 0", rows[codec->kind].name,
                           codec->block);
    return GCOLL_OK;
}

/* One "key=value" of `length` bytes. */
static gcoll_status parse_option(const char *part, size_t length, bool *block_given, gcoll_codec *codec) {
    const char *name = rows[codec->kind].name;
    const bool has_block = rows[codec->kind].block > 0;
    uint64_t value = 0;
    const size_t key = strcspn(part, "=");
    const bool is_block = has_block && key == 5 && memcmp(part, "block", 5) == 0;
    const bool is_seed = key == 4 && memcmp(part, "seed", 4) == 0;
    if (key >= length || (!is_block && !is_seed))
        return gcoll_error(GCOLL_ERR_INVALID, "codec: %s has no option '%.*s'; allowed are %sseed=NUMBER",
                           name, (int)(length < 40 ? length : 40), part, has_block ? "block=NUMBER, " : "");
    if (is_block ? *block_given : codec->is_stochastic)
        return gcoll_error(GCOLL_ERR_INVALID, "codec: %s: '%.*s' is given twice, allowed is once", name,
                           (int)(length < 40 ? length : 40), part);
    *block_given = *block_given || is_block;
    if (!gcoll_text_parse_whole(part + key + 1, length - key - 1, is_block ? UINT32_MAX : INT64_MAX, &value))
        return gcoll_error(GCOLL_ERR_INVALID, "codec: %s: '%.*s' is no whole number that fits", name,
                           (int)(length < 40 ? length : 40), part);
    if (is_seed) {
        codec->is_stochastic = 1;
        codec->seed = value;
        return GCOLL_OK;
    }
    codec->block = (uint32_t)value;
    return check_block(name, value);
}

gcoll_status gcoll_codec_parse(const char *text, gcoll_codec *codec) {
    gcoll_codec found = {0};
    if (!codec)
        return gcoll_error(GCOLL_ERR_INVALID, "codec: is NULL");
    if (!text || !text[0]) {
        *codec = found;
        return GCOLL_OK;
    }
    const size_t name = strcspn(text, ":");
    while (found.kind < GCOLL_CODEC_COUNT &&
           (strlen(rows[found.kind].name) != name || memcmp(text, rows[found.kind].name, name) != 0))
        found.kind++;
    if (found.kind == GCOLL_CODEC_COUNT || (found.kind == GCOLL_CODEC_NONE && text[name]))
        return gcoll_error(
            GCOLL_ERR_INVALID,
            "codec: is '%.40s'; allowed are none, bf16, fp16, int8:block=128, fp8:block=32, and "
            "with stochastic rounding ...:seed=1 or ...,seed=1",
            text);
    found.block = rows[found.kind].block;
    const char *rest = text + name;
    bool block_given = false;
    while (*rest) {
        const size_t length = strcspn(++rest, ",");
        gcoll_status status = parse_option(rest, length, &block_given, &found);
        if (status != GCOLL_OK)
            return status;
        rest += length;
    }
    *codec = found;
    return GCOLL_OK;
}

void gcoll_codec_format(const gcoll_codec *codec, char text[GCOLL_CODEC_TEXT_MAX]) {
    gcoll_text to = {text, GCOLL_CODEC_TEXT_MAX, 0};
    gcoll_text_add(&to, "%s", gcoll_codec_name(codec->kind));
    if (codec->block > 0)
        gcoll_text_add(&to, ":block=%u", codec->block);
    if (codec->is_stochastic)
        gcoll_text_add(&to, "%sseed=%llu", codec->block > 0 ? "," : ":", (unsigned long long)codec->seed);
}

/* ---- Kernels --------------------------------------------------------------------------------------- */

void gcoll_codec_encode(const gcoll_codec *codec, void *words, const void *src, uint64_t count,
                        uint64_t key) {
    const uint64_t bytes = gcoll_codec_bytes(codec, count);
    const uint32_t noise = (uint32_t)(key ^ key >> 32);
    gcoll_kernels_best()->codec[codec->kind].encode(words, src, count, codec->block,
                                                    codec->is_stochastic ? &noise : NULL);
    memset((char *)words + bytes, 0, (size_t)(4 * gcoll_codec_words(codec, count) - bytes));
}

void gcoll_codec_decode(const gcoll_codec *codec, void *dst, const void *words, uint64_t count) {
    gcoll_kernels_best()->codec[codec->kind].decode(dst, words, count, codec->block);
}

void gcoll_codec_decode_sum(const gcoll_codec *codec, void *dst, const void *a, const void *words,
                            uint64_t count) {
    gcoll_kernels_best()->codec[codec->kind].decode_sum(dst, a, words, count, codec->block);
}

/* Elements that are rounded at a time: whole blocks. */
static uint64_t stretch_of(const gcoll_codec *codec) {
    return codec->block > 0 ? GCOLL_CODEC_BLOCK_MAX / codec->block * codec->block : GCOLL_CODEC_BLOCK_MAX;
}

gcoll_status gcoll_codec_round(const char *text, const float *input, float *output, uint64_t count,
                               uint64_t call) {
    gcoll_codec codec;
    uint32_t words[GCOLL_CODEC_BLOCK_MAX / 2]; /* 2 bytes an element, or less */
    gcoll_status status = gcoll_codec_parse(text, &codec);
    if (status != GCOLL_OK)
        return status;
    if (count > 0 && (!input || !output))
        return gcoll_error(GCOLL_ERR_INVALID, "%s: is NULL, but count is not 0", input ? "output" : "input");
    if (count > 0 && !gcoll_codec_is_set(&codec))
        memmove(output, input, (size_t)count * sizeof *output);
    const uint64_t most = stretch_of(&codec);
    for (uint64_t at = 0, here; at < count && gcoll_codec_is_set(&codec); at += here) {
        here = count - at < most ? count - at : most;
        const uint64_t seeds[] = {codec.seed, call, at};
        gcoll_codec_encode(&codec, words, input + at, here,
                           gcoll_hash_words(GCOLL_HASH_START, seeds, sizeof seeds / sizeof seeds[0]));
        gcoll_codec_decode(&codec, output + at, words, here);
    }
    return GCOLL_OK;
}

const gcoll_codec_kernels *gcoll_codec_kernels_in(const char *set, uint32_t kind) {
    const gcoll_kernel_table *table = gcoll_kernel_table_of(set);
    return table && kind > GCOLL_CODEC_NONE && kind < GCOLL_CODEC_COUNT ? &table->codec[kind] : NULL;
}
