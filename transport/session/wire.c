/* transport/session/wire.c - encodes frames, and checks and decodes them; see wire.h. */
#include "transport/session/wire.h"

#include <string.h>

#include "gcoll/base/text.h"

/* The two bytes "cg" on the wire. */
#define MAGIC 0x6763U
static const uint8_t hello_magic[GCOLL_WIRE_MAGIC_BYTES] = {'g', 'c', 'o', 'l', 'l', 'H', 'I', 0};
static const uint8_t stripe_magic[GCOLL_WIRE_MAGIC_BYTES] = {'g', 'c', 'o', 'l', 'l', 'S', 'T', 0};
static const uint8_t challenge_magic[GCOLL_WIRE_MAGIC_BYTES] = {'g', 'c', 'o', 'l', 'l', 'C', 'H', 0};
static const uint8_t proof_magic[GCOLL_WIRE_MAGIC_BYTES] = {'g', 'c', 'o', 'l', 'l', 'P', 'R', 0};
static const uint8_t reply_magic[GCOLL_WIRE_MAGIC_BYTES] = {'g', 'c', 'o', 'l', 'l', 'R', 'E', 0};

#define KIND_MASK 0x0fU

/* The flags that each kind of frame may have. CHECKED is no kind's: gcoll_wire_get_checked takes it off. */
static const uint8_t flags_of[GCOLL_WIRE_KINDS] = {
    [GCOLL_WIRE_DATA] = GCOLL_WIRE_OPEN | GCOLL_WIRE_CREDITED | GCOLL_WIRE_AHEAD,
    [GCOLL_WIRE_OFFER] = GCOLL_WIRE_OPEN,
    [GCOLL_WIRE_CREDIT] = GCOLL_WIRE_OPEN,
    [GCOLL_WIRE_ABORT] = GCOLL_WIRE_PASSED_ON,
    [GCOLL_WIRE_PING] = GCOLL_WIRE_OPEN,
    [GCOLL_WIRE_STRIPED] = GCOLL_WIRE_OPEN | GCOLL_WIRE_AHEAD,
};

static void put16(uint8_t *bytes, uint32_t value) {
    bytes[0] = (uint8_t)value;
    bytes[1] = (uint8_t)(value >> 8);
}

/* On a little-endian machine compilers turn this into one store. */
static void put32(uint8_t *bytes, uint32_t value) {
    bytes[0] = (uint8_t)value;
    bytes[1] = (uint8_t)(value >> 8);
    bytes[2] = (uint8_t)(value >> 16);
    bytes[3] = (uint8_t)(value >> 24);
}

static void put64(uint8_t *bytes, uint64_t value) {
    put32(bytes, (uint32_t)value);
    put32(bytes + 4, (uint32_t)(value >> 32));
}

static uint32_t get16(const uint8_t *bytes) {
    return (uint32_t)bytes[0] | (uint32_t)bytes[1] << 8;
}

static uint32_t get32(const uint8_t *bytes) {
    return (uint32_t)bytes[0] | (uint32_t)bytes[1] << 8 | (uint32_t)bytes[2] << 16 | (uint32_t)bytes[3] << 24;
}

static uint64_t get64(const uint8_t *bytes) {
    return (uint64_t)get32(bytes) | (uint64_t)get32(bytes + 4) << 32;
}

void gcoll_wire_put_header(uint8_t *bytes, const gcoll_wire_header *header) {
    put16(bytes, MAGIC);
    bytes[2] = GCOLL_WIRE_VERSION;
    bytes[3] = (uint8_t)(header->kind | header->flags);
    put32(bytes + 4, header->index);
    put64(bytes + 8, header->stream);
    put64(bytes + 16, header->total_bytes);
    put32(bytes + 24, header->fragment_bytes);
    put32(bytes + 28, header->credit);
}

void gcoll_wire_put_group(uint8_t *bytes, uint64_t number) {
    const gcoll_wire_header header = {.kind = GCOLL_WIRE_GROUP, .stream = number};
    gcoll_wire_put_header(bytes, &header);
}

static const char *check_data(const gcoll_wire_header *header) {
    if (header->fragment_bytes > GCOLL_WIRE_FRAGMENT_MAX)
        return "a fragment larger than allowed";
    if (header->fragment_bytes > header->total_bytes)
        return "a fragment larger than its message";
    if (header->fragment_bytes == 0 && header->total_bytes > 0)
        return "an empty fragment";
    if ((header->flags & GCOLL_WIRE_OPEN) && (header->flags & GCOLL_WIRE_AHEAD))
        return "a fingerprint twice";
    return NULL;
}

static const char *check_control(const gcoll_wire_header *header) {
    if (header->kind == GCOLL_WIRE_ABORT)
        return header->fragment_bytes < GCOLL_NOTE_TEXT_MAX ? NULL : "an abort with too long a text";
    if (header->kind == GCOLL_WIRE_LANE)
        return header->fragment_bytes <= GCOLL_LANE_WORD_MAX ? NULL : "too long a word of a lane";
    return header->fragment_bytes == 0 ? NULL : "a control frame with a payload";
}

const char *gcoll_wire_get_header(const uint8_t *bytes, gcoll_wire_header *header) {
    if (get16(bytes) != MAGIC)
        return "a frame without its magic number";
    if (bytes[2] != GCOLL_WIRE_VERSION)
        return "a frame of another version";
    header->kind = bytes[3] & KIND_MASK;
    header->flags = (uint8_t)(bytes[3] & ~KIND_MASK);
    header->index = get32(bytes + 4);
    header->stream = get64(bytes + 8);
    header->total_bytes = get64(bytes + 16);
    header->fragment_bytes = get32(bytes + 24);
    header->credit = get32(bytes + 28);
    if (header->kind == 0 || header->kind >= GCOLL_WIRE_KINDS)
        return "a frame of unknown kind";
    if (header->flags & ~flags_of[header->kind])
        return "a flag that is not allowed in this kind of frame";
    return header->kind == GCOLL_WIRE_DATA ? check_data(header) : check_control(header);
}

void gcoll_wire_put_sums(uint8_t *bytes, gcoll_crc32c_fn crc, const gcoll_wire_sums *sums) {
    bytes[3] |= GCOLL_WIRE_CHECKED;
    put32(bytes + 32, sums->payload);
    put32(bytes + 36, sums->extra);
    put32(bytes + 40, 0);
    put32(bytes + 44, crc(0, bytes, 44));
}

bool gcoll_wire_is_intact(const uint8_t *bytes, gcoll_crc32c_fn crc) {
    return get32(bytes + 44) == crc(0, bytes, 44);
}

const char *gcoll_wire_get_checked(const uint8_t *bytes, gcoll_wire_header *header, gcoll_wire_sums *sums) {
    if (!(bytes[3] & GCOLL_WIRE_CHECKED))
        return "a frame without its checksums";
    uint8_t plain[GCOLL_WIRE_HEADER_BYTES];
    memcpy(plain, bytes, sizeof plain);
    plain[3] &= (uint8_t)~GCOLL_WIRE_CHECKED;
    const char *wrong = gcoll_wire_get_header(plain, header);
    if (!wrong && header->fragment_bytes > GCOLL_WIRE_CHECKED_MAX)
        wrong = "a fragment larger than allowed";
    sums->payload = get32(bytes + 32);
    sums->extra = get32(bytes + 36);
    return wrong;
}

const char *gcoll_wire_get_stripe(const uint8_t *bytes, gcoll_wire_header *header) {
    if (get16(bytes) != MAGIC)
        return "a frame without its magic number";
    if (bytes[2] != GCOLL_WIRE_VERSION)
        return "a frame of another version";
    if (bytes[3] != GCOLL_WIRE_STRIPE)
        return "a frame that is no stripe";
    *header = (gcoll_wire_header){.kind = GCOLL_WIRE_STRIPE,
                                  .index = get32(bytes + 4),
                                  .stream = get64(bytes + 8),
                                  .total_bytes = get64(bytes + 16),
                                  .fragment_bytes = get32(bytes + 24)};
    if (header->fragment_bytes == 0 || header->fragment_bytes > GCOLL_WIRE_STRIPE_BYTES)
        return "a stripe of a size that is not allowed";
    return get32(bytes + 28) != 0 ? "a stripe with credit" : NULL;
}

uint32_t gcoll_wire_take_stripe_sum(uint8_t *bytes) {
    bytes[3] &= (uint8_t)~GCOLL_WIRE_CHECKED;
    return get32(bytes + 32);
}

void gcoll_wire_put_hello(uint8_t *bytes, const gcoll_wire_hello *hello) {
    memset(bytes, 0, GCOLL_WIRE_HELLO_BYTES);
    memcpy(bytes, hello->stripe > 0 ? stripe_magic : hello_magic, sizeof hello_magic);
    put32(bytes + 8, hello->version);
    put32(bytes + 12, hello->from);
    put32(bytes + 16, hello->to);
    put32(bytes + 20, hello->stripe > 0 ? hello->stripe : hello->oldest);
    memcpy(bytes + 24, hello->group, sizeof hello->group);
    memcpy(bytes + 40, hello->nonce, sizeof hello->nonce);
    put64(bytes + 56, hello->eager_bytes);
    put64(bytes + 64, hello->pool_bytes);
    memcpy(bytes + 72, hello->lanes, sizeof hello->lanes);
}

bool gcoll_wire_may_be_hello(const uint8_t *bytes, size_t count) {
    const size_t length = count < sizeof hello_magic ? count : sizeof hello_magic;
    return memcmp(bytes, hello_magic, length) == 0 || memcmp(bytes, stripe_magic, length) == 0;
}

const char *gcoll_wire_get_hello(const uint8_t *bytes, gcoll_wire_hello *hello) {
    const bool is_stripe = memcmp(bytes, stripe_magic, sizeof stripe_magic) == 0;
    if (!is_stripe && memcmp(bytes, hello_magic, sizeof hello_magic) != 0)
        return "no greeting";
    hello->version = get32(bytes + 8);
    hello->from = get32(bytes + 12);
    hello->to = get32(bytes + 16);
    hello->oldest = is_stripe ? GCOLL_WIRE_VERSION : get32(bytes + 20);
    hello->stripe = is_stripe ? get32(bytes + 20) : 0;
    if (is_stripe && hello->stripe == 0)
        return "a connection for stripes without a number";
    memcpy(hello->group, bytes + 24, sizeof hello->group);
    memcpy(hello->nonce, bytes + 40, sizeof hello->nonce);
    hello->eager_bytes = get64(bytes + 56);
    hello->pool_bytes = get64(bytes + 64);
    memcpy(hello->lanes, bytes + 72, sizeof hello->lanes);
    return NULL;
}

void gcoll_wire_put_challenge(uint8_t *bytes, const uint8_t nonce[GCOLL_WIRE_NONCE_BYTES]) {
    memset(bytes, 0, GCOLL_WIRE_CHALLENGE_BYTES);
    memcpy(bytes, challenge_magic, sizeof challenge_magic);
    memcpy(bytes + sizeof challenge_magic, nonce, GCOLL_WIRE_NONCE_BYTES);
}

void gcoll_wire_put_proof(uint8_t *bytes) {
    memset(bytes, 0, GCOLL_WIRE_PROOF_BYTES);
    memcpy(bytes, proof_magic, sizeof proof_magic);
}

bool gcoll_wire_is_challenge(const uint8_t *bytes) {
    return memcmp(bytes, challenge_magic, sizeof challenge_magic) == 0;
}

bool gcoll_wire_is_proof(const uint8_t *bytes) {
    return memcmp(bytes, proof_magic, sizeof proof_magic) == 0;
}

void gcoll_wire_put_reply(uint8_t *bytes, const gcoll_wire_reply *reply) {
    memset(bytes, 0, GCOLL_WIRE_REPLY_BYTES);
    memcpy(bytes, reply_magic, sizeof reply_magic);
    put32(bytes + 8, reply->verdict);
    put32(bytes + 12, reply->version);
    put32(bytes + 16, reply->from);
    put32(bytes + 20, reply->to);
    memcpy(bytes + 24, reply->group, sizeof reply->group);
    put64(bytes + 40, reply->eager_bytes);
    put64(bytes + 48, reply->pool_bytes);
    memcpy(bytes + 56, reply->lanes, sizeof reply->lanes);
}

const char *gcoll_wire_get_reply(const uint8_t *bytes, gcoll_wire_reply *reply) {
    if (memcmp(bytes, reply_magic, sizeof reply_magic) != 0)
        return "no answer to a greeting";
    reply->verdict = get32(bytes + 8);
    reply->version = get32(bytes + 12);
    reply->from = get32(bytes + 16);
    reply->to = get32(bytes + 20);
    memcpy(reply->group, bytes + 24, sizeof reply->group);
    reply->eager_bytes = get64(bytes + 40);
    reply->pool_bytes = get64(bytes + 48);
    memcpy(reply->lanes, bytes + 56, sizeof reply->lanes);
    if (reply->verdict >= GCOLL_WIRE_VERDICTS)
        return "an unknown answer to a greeting";
    return NULL;
}

size_t gcoll_wire_extra_bytes(const gcoll_wire_header *header) {
    if (header->kind == GCOLL_WIRE_ABORT || header->kind == GCOLL_WIRE_LANE)
        return header->fragment_bytes;
    return (header->flags & GCOLL_WIRE_OPEN) ? GCOLL_FINGERPRINT_BYTES : 0;
}

void gcoll_wire_get_note(const gcoll_wire_header *header, const uint8_t *text, gcoll_note *note) {
    size_t bytes = header->fragment_bytes < GCOLL_NOTE_TEXT_MAX ? header->fragment_bytes
                                                                : (uint32_t)GCOLL_NOTE_TEXT_MAX - 1;
    note->status = GCOLL_ERR_ABORTED;
    if (header->stream > GCOLL_OK && header->stream <= GCOLL_ERR_INTERNAL)
        note->status = (int32_t)header->stream;
    note->culprit = header->index;
    note->passed_on = (header->flags & GCOLL_WIRE_PASSED_ON) != 0;
    memset(note->text, 0, sizeof note->text);
    if (bytes > 0) /* without a text, `text` may be invalid */
        memcpy(note->text, text, strnlen((const char *)text, bytes));
    gcoll_text_clean(note->text);
}

size_t gcoll_wire_put_note(uint8_t *bytes, const gcoll_note *note) {
    size_t length = strnlen(note->text, GCOLL_NOTE_TEXT_MAX - 1);
    gcoll_wire_header header;
    memset(&header, 0, sizeof header);
    header.kind = GCOLL_WIRE_ABORT;
    header.flags = note->passed_on ? GCOLL_WIRE_PASSED_ON : 0;
    header.index = note->culprit;
    header.stream = (uint32_t)note->status;
    header.fragment_bytes = (uint32_t)length;
    gcoll_wire_put_header(bytes, &header);
    memcpy(bytes + GCOLL_WIRE_HEADER_BYTES, note->text, length);
    return GCOLL_WIRE_HEADER_BYTES + length;
}
