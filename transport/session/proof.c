/* transport/session/proof.c - tags and keys of the handshake; see proof.h. */
#include "transport/session/proof.h"

#include <string.h>

#include "gcoll/base/base.h"

/* What a tag or a key is for: the terminating zero is part of it, so that none is the beginning of another.
 */
#define ADD_LABEL(mac, label) gcoll_hmac_add(mac, label, sizeof(label))

void gcoll_proof_key_of_link(uint8_t key[GCOLL_SHA256_BYTES], const uint8_t *secret, const uint8_t group[16],
                             const uint8_t token[GCOLL_WIRE_TOKEN_BYTES]) {
    gcoll_hmac mac;
    gcoll_hmac_begin(&mac, secret, secret ? GCOLL_SHA256_BYTES : 0);
    ADD_LABEL(&mac, "gcoll key of a link");
    gcoll_hmac_add(&mac, group, 16);
    gcoll_hmac_add(&mac, token, GCOLL_WIRE_TOKEN_BYTES);
    gcoll_hmac_end(&mac, key);
}

void gcoll_proof_key_within(uint8_t key[GCOLL_SHA256_BYTES], const uint8_t session[GCOLL_SHA256_BYTES],
                            const uint8_t token[GCOLL_WIRE_TOKEN_BYTES]) {
    gcoll_hmac mac;
    gcoll_hmac_begin(&mac, session, GCOLL_SHA256_BYTES);
    ADD_LABEL(&mac, "gcoll key within a session");
    gcoll_hmac_add(&mac, token, GCOLL_WIRE_TOKEN_BYTES);
    gcoll_hmac_end(&mac, key);
}

/* A key by both nonces. */
static void make_key(uint8_t key[GCOLL_SHA256_BYTES], const gcoll_proof *proof, const char *label) {
    gcoll_hmac mac;
    gcoll_hmac_begin(&mac, proof->key, sizeof proof->key);
    gcoll_hmac_add(&mac, label, strlen(label) + 1);
    gcoll_hmac_add(&mac, proof->hello, sizeof proof->hello);
    gcoll_hmac_add(&mac, proof->challenge, sizeof proof->challenge);
    gcoll_hmac_end(&mac, key);
}

void gcoll_proof_key_of_session(uint8_t key[GCOLL_SHA256_BYTES], const gcoll_proof *proof) {
    make_key(key, proof, "gcoll key of a session");
}

void gcoll_proof_key_of_tls(uint8_t key[GCOLL_SHA256_BYTES], const gcoll_proof *proof) {
    make_key(key, proof, "gcoll key of TLS");
}

/* Over everything so far, and the bytes of one more message. The hello stands for itself. */
static void make_tag(const gcoll_proof *proof, const char *label, const uint8_t *bytes, size_t count,
                     uint8_t tag[GCOLL_WIRE_TAG_BYTES]) {
    gcoll_hmac mac;
    gcoll_hmac_begin(&mac, proof->key, sizeof proof->key);
    gcoll_hmac_add(&mac, label, strlen(label) + 1);
    if (bytes != proof->hello)
        gcoll_hmac_add(&mac, proof->hello, sizeof proof->hello);
    if (proof->is_challenged && bytes != proof->challenge)
        gcoll_hmac_add(&mac, proof->challenge, sizeof proof->challenge);
    if (proof->has_channel)
        gcoll_hmac_add(&mac, proof->channel, sizeof proof->channel);
    gcoll_hmac_add(&mac, bytes, count);
    gcoll_hmac_end(&mac, tag);
}

/* The tag is the end of each message. */
static void sign(const gcoll_proof *proof, const char *label, uint8_t *bytes, size_t count) {
    make_tag(proof, label, bytes, count - GCOLL_WIRE_TAG_BYTES, bytes + count - GCOLL_WIRE_TAG_BYTES);
}

static bool is_signed(const gcoll_proof *proof, const char *label, const uint8_t *bytes, size_t count) {
    uint8_t tag[GCOLL_WIRE_TAG_BYTES];
    make_tag(proof, label, bytes, count - sizeof tag, tag);
    return gcoll_is_same_secret(tag, bytes + count - sizeof tag, sizeof tag);
}

gcoll_status gcoll_proof_greet(gcoll_proof *proof, const gcoll_wire_hello *hello) {
    gcoll_wire_hello fresh = *hello;
    const gcoll_status status = gcoll_random_bytes(fresh.nonce, sizeof fresh.nonce);
    proof->is_challenged = proof->is_proved = proof->has_channel = false;
    gcoll_wire_put_hello(proof->hello, &fresh);
    sign(proof, "hello", proof->hello, sizeof proof->hello);
    return status;
}

bool gcoll_proof_is_hello(const gcoll_proof *proof) {
    return is_signed(proof, "hello", proof->hello, sizeof proof->hello);
}

gcoll_status gcoll_proof_challenge(gcoll_proof *proof) {
    uint8_t nonce[GCOLL_WIRE_NONCE_BYTES];
    const gcoll_status status = gcoll_random_bytes(nonce, sizeof nonce);
    gcoll_wire_put_challenge(proof->challenge, nonce);
    sign(proof, "challenge", proof->challenge, sizeof proof->challenge);
    proof->is_challenged = true;
    return status;
}

bool gcoll_proof_take_challenge(gcoll_proof *proof, const uint8_t *bytes) {
    memcpy(proof->challenge, bytes, sizeof proof->challenge);
    proof->is_challenged = is_signed(proof, "challenge", proof->challenge, sizeof proof->challenge);
    return proof->is_challenged;
}

void gcoll_proof_prove(gcoll_proof *proof, uint8_t *bytes) {
    gcoll_wire_put_proof(bytes);
    sign(proof, "proof", bytes, GCOLL_WIRE_PROOF_BYTES);
    proof->is_proved = true;
}

bool gcoll_proof_take_proof(gcoll_proof *proof, const uint8_t *bytes) {
    proof->is_proved = proof->is_challenged && gcoll_wire_is_proof(bytes) &&
                       is_signed(proof, "proof", bytes, GCOLL_WIRE_PROOF_BYTES);
    return proof->is_proved;
}

void gcoll_proof_sign_reply(const gcoll_proof *proof, uint8_t *bytes) {
    sign(proof, "reply", bytes, GCOLL_WIRE_REPLY_BYTES);
}

bool gcoll_proof_is_reply(const gcoll_proof *proof, const uint8_t *bytes) {
    return is_signed(proof, "reply", bytes, GCOLL_WIRE_REPLY_BYTES);
}
