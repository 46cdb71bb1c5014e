/* test/fuzz/fuzz_wire.c - decoders of frames, of the handshake and of its proofs. The first byte says which.
 */
#include "test/fuzz/fuzz.h"

#include "transport/session/proof.h"
#include "transport/session/wire.h"

/* What a decoder takes it must be able to write again, and read as the same. */
static void frame(const uint8_t *bytes, size_t size) {
    gcoll_wire_header header, back;
    uint8_t again[GCOLL_WIRE_HEADER_BYTES + GCOLL_NOTE_TEXT_MAX];
    if (size < GCOLL_WIRE_HEADER_BYTES || gcoll_wire_get_header(bytes, &header))
        return;
    MUST(gcoll_wire_extra_bytes(&header) <= GCOLL_WIRE_FRAGMENT_MAX);
    gcoll_wire_put_header(again, &header);
    MUST(memcmp(again, bytes, GCOLL_WIRE_HEADER_BYTES) == 0);
    if (header.kind != GCOLL_WIRE_ABORT || size - GCOLL_WIRE_HEADER_BYTES < header.fragment_bytes)
        return;
    gcoll_note note, other;
    gcoll_wire_get_note(&header, bytes + GCOLL_WIRE_HEADER_BYTES, &note);
    MUST(memchr(note.text, 0, sizeof note.text));
    for (const char *at = note.text; *at != '\0'; at++)
        MUST(*at >= ' ' && *at <= '~');
    const size_t count = gcoll_wire_put_note(again, &note);
    MUST(count <= sizeof again);
    MUST(gcoll_wire_get_header(again, &back) == NULL);
    gcoll_wire_get_note(&back, again + GCOLL_WIRE_HEADER_BYTES, &other);
    MUST(strcmp(other.text, note.text) == 0 && other.status == note.status && other.culprit == note.culprit);
}

static void checked(const uint8_t *bytes, size_t size) {
    gcoll_wire_header header;
    gcoll_wire_sums sums;
    uint8_t copy[GCOLL_WIRE_HEADER_BYTES + GCOLL_WIRE_CHECK_BYTES];
    if (size < sizeof copy)
        return;
    memcpy(copy, bytes, sizeof copy);
    const gcoll_crc32c_fn crc = gcoll_crc32c_find();
    if (!gcoll_wire_is_intact(copy, crc)) { /* hardly any input is, so it is made so */
        sums = (gcoll_wire_sums){1, 2};
        gcoll_wire_put_sums(copy, crc, &sums);
        MUST(gcoll_wire_is_intact(copy, crc));
    }
    if (!gcoll_wire_get_checked(copy, &header, &sums))
        MUST(header.fragment_bytes <= GCOLL_WIRE_CHECKED_MAX);
    if (!gcoll_wire_get_stripe(bytes, &header))
        MUST(header.fragment_bytes > 0 && header.fragment_bytes <= GCOLL_WIRE_STRIPE_BYTES);
}

static void greeting(const uint8_t *bytes, size_t size) {
    gcoll_wire_hello hello, back;
    uint8_t again[GCOLL_WIRE_HELLO_BYTES];
    if (size < GCOLL_WIRE_HELLO_BYTES || gcoll_wire_get_hello(bytes, &hello))
        return;
    gcoll_wire_put_hello(again, &hello);
    MUST(gcoll_wire_get_hello(again, &back) == NULL);
    MUST(back.from == hello.from && back.to == hello.to && back.stripe == hello.stripe);
    gcoll_proof proof = {.key = {1}};
    memcpy(proof.hello, bytes, sizeof proof.hello);
    MUST(!gcoll_proof_is_hello(&proof)); /* nobody finds the tag */
}

static void answer(const uint8_t *bytes, size_t size) {
    gcoll_wire_reply reply;
    gcoll_proof proof = {.key = {1}, .hello = {2}};
    if (size >= GCOLL_WIRE_REPLY_BYTES && !gcoll_wire_get_reply(bytes, &reply)) {
        MUST(reply.verdict < GCOLL_WIRE_VERDICTS);
        MUST(!gcoll_proof_is_reply(&proof, bytes));
    }
    if (size >= GCOLL_WIRE_CHALLENGE_BYTES && gcoll_wire_is_challenge(bytes))
        MUST(!gcoll_proof_take_challenge(&proof, bytes));
    proof.is_challenged = true;
    if (size >= GCOLL_WIRE_PROOF_BYTES)
        MUST(!gcoll_proof_take_proof(&proof, bytes));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
    static void (*const decoders[])(const uint8_t *, size_t) = {frame, checked, greeting, answer};
    if (bytes > 0)
        decoders[data[0] % 4](data + 1, bytes - 1);
    return 0;
}
