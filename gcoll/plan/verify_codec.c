/*
 * gcoll/plan/verify_codec.c - what codecs do to symbolic values.
 *
 * Encoding rounds. A rounded value is the value, together with its origin: the ENCODE that rounded it. So two
 * ranks have the same bits only if what they have was rounded once, by one rank, and passed on.
 *
 * Encoding rounded values again changes nothing, by the rule of gcoll/base/codec.h: if the codec has no
 * blocks, or if all elements of a block come from one block of one ENCODE. Such elements keep their values.
 * All others are rounded anew, also where their bits would happen to stay.
 *
 * Encoded elements are words. A word holds the number of the encoding, and its place is the word's position;
 * so words are decoded only if all of one encoding are there, in order.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "gcoll/plan/verify_internal.h"

/* Origins: by node. Of words: WORDS and the number of the encoding. Of rounded values: FIRST plus twice the
 * number, plus 1 if the element was rounded together with elements of other places of the vector; its block
 * is then not known again. ANYWHERE: rounded by itself and to nearest, which gives the same bits on every
 * rank. 0: neither. */
#define ANYWHERE UINT32_C(1)
#define FIRST    UINT32_C(2)
#define WORDS    (UINT32_C(1) << 31)

typedef gcoll_verify_piece piece_t;
typedef gcoll_verify_pieces pieces_t;

bool gcoll_verify_is_encoded(const gcoll_verifier *v, gcoll_verify_value value) {
    return (gcoll_verify_origin(v, value) & WORDS) != 0;
}

/* ---- Encoding --------------------------------------------------------------------------------------- */

typedef struct encoder {
    gcoll_verifier *v;
    const pieces_t *from;
    pieces_t *to;
    uint32_t number; /* of the encoding */
    uint32_t block;
    bool is_alike;     /* rounding gives the same on every rank */
    uint64_t position; /* of the first element */
} encoder;

static uint32_t origin_of(const encoder *x, uint64_t i) {
    return gcoll_verify_origin(x->v, x->from->at[i].value);
}

/* Appends elements [begin, end) of piece i, as they are or rounded. */
static gcoll_status take(const encoder *x, uint64_t i, uint64_t begin, uint64_t end, bool keeps) {
    piece_t piece = x->from->at[i];
    gcoll_status status = GCOLL_OK;
    if (begin == end)
        return GCOLL_OK;
    if (!keeps)
        status = gcoll_verify_round(
            x->v, piece.value,
            x->is_alike ? ANYWHERE : FIRST + 2 * x->number + (piece.shift == x->position ? 0 : 1),
            &piece.value);
    piece.begin = begin;
    return status ? status : gcoll_verify_append(x->to, piece);
}

static bool has_block(uint32_t origin) {
    return origin >= FIRST && (origin - FIRST) % 2 == 0;
}

/* The place of element `at` of piece i within the encoding that it was rounded by. */
static uint64_t place_of(const encoder *x, uint64_t i, uint64_t at) {
    return at + x->from->at[i].shift - x->v->encodings.at[(origin_of(x, i) - FIRST) / 2].position;
}

/* Whether elements [begin, end), from piece i on, come from one block of one encoding. */
static bool is_one_block(const encoder *x, uint64_t i, uint64_t begin, uint64_t end) {
    const pieces_t *from = x->from;
    const uint32_t origin = origin_of(x, i);
    if (!has_block(origin))
        return false;
    for (uint64_t k = i + 1; k < from->count && from->at[k].begin < end; k++)
        if (origin_of(x, k) != origin || from->at[k].shift != from->at[i].shift)
            return false;
    return place_of(x, i, begin) / x->block == place_of(x, i, end - 1) / x->block;
}

/* The end of the blocks from `begin` on that are treated alike, as they lie in piece i. */
static uint64_t end_of_run(const encoder *x, uint64_t i, uint64_t begin, uint64_t end) {
    const uint64_t piece_end = gcoll_verify_end(x->from, i),
                   whole = (piece_end - begin) / x->block * x->block;
    const bool alike = !has_block(origin_of(x, i)) || place_of(x, i, begin) % x->block == 0;
    return alike && whole > 0 ? begin + whole : end;
}

static gcoll_status encode_blocks(const encoder *x) {
    const pieces_t *from = x->from;
    gcoll_status status = GCOLL_OK;
    uint64_t i = 0;
    for (uint64_t begin = 0, end; begin < from->size && !status; begin = end) {
        while (gcoll_verify_end(from, i) <= begin)
            i++;
        end = from->size - begin < x->block ? from->size : begin + x->block;
        const bool keeps = is_one_block(x, i, begin, end);
        end = end_of_run(x, i, begin, end);
        for (uint64_t k = i; !status && k < from->count && from->at[k].begin < end; k++) {
            const uint64_t first = from->at[k].begin > begin ? from->at[k].begin : begin;
            const uint64_t last = gcoll_verify_end(from, k) < end ? gcoll_verify_end(from, k) : end;
            status = take(x, k, first, last, keeps);
        }
    }
    return status;
}

static gcoll_status encode_elements(const encoder *x) {
    gcoll_status status = GCOLL_OK;
    for (uint64_t i = 0; i < x->from->count && !status; i++)
        status = take(x, i, x->from->at[i].begin, gcoll_verify_end(x->from, i), origin_of(x, i) != 0);
    return status;
}

gcoll_status gcoll_verify_encode(gcoll_verifier *v, pieces_t *list) {
    gcoll_verify_encodings *encodings = &v->encodings;
    const gcoll_codec *codec = &v->plans[0]->problem.codec;
    const uint64_t words = gcoll_codec_words(codec, list->size);
    gcoll_status status = gcoll_verify_reserve(&encodings->at, &encodings->room, encodings->count + 1,
                                               sizeof(gcoll_verify_encoding));
    if (status)
        return status;
    if (encodings->count >= WORDS / 4)
        return gcoll_error(GCOLL_ERR_NO_MEMORY, "the verifier ran out of numbers for encodings");
    const uint32_t number = (uint32_t)encodings->count++;
    gcoll_verify_encoding *made = &encodings->at[number];
    *made = (gcoll_verify_encoding){.position = list->at[0].shift};
    made->decoded.size = list->size;
    const encoder x = {v,
                       list,
                       &made->decoded,
                       number,
                       codec->block,
                       codec->block == 0 && !codec->is_stochastic,
                       made->position};
    status = codec->block > 0 ? encode_blocks(&x) : encode_elements(&x);
    piece_t piece = {0, 0, 0};
    if (!status)
        status = gcoll_verify_words(v, WORDS | number, &piece.value);
    list->count = 0;
    list->size = words;
    return status ? status : gcoll_verify_append(list, piece);
}

/* ---- Decoding --------------------------------------------------------------------------------------- */

gcoll_status gcoll_verify_decode(gcoll_verifier *v, uint32_t rank, uint32_t step, uint64_t count,
                                 pieces_t *list) {
    const piece_t words = list->at[0];
    if (list->count != 1 || words.shift != 0 || !gcoll_verify_is_encoded(v, words.value))
        return gcoll_verify_fail(v, rank, step, "decodes words that are not one encoding from its begin on");
    const pieces_t *decoded = &v->encodings.at[gcoll_verify_origin(v, words.value) & ~WORDS].decoded;
    if (decoded->size != count)
        return gcoll_verify_fail(v, rank, step, "decodes an encoding of %" PRIu64 " elements", decoded->size);
    gcoll_status status = gcoll_verify_reserve(&list->at, &list->room, decoded->count, sizeof(piece_t));
    if (status)
        return status;
    memcpy(list->at, decoded->at, decoded->count * sizeof(piece_t));
    list->count = decoded->count;
    list->size = count;
    return GCOLL_OK;
}

void gcoll_verify_encodings_free(gcoll_verify_encodings *encodings) {
    for (uint64_t i = 0; i < encodings->count; i++)
        free(encodings->at[i].decoded.at);
    free(encodings->at);
}
