/*
 * transport/session/proof.h - how both ends of a new connection prove that they belong to the job.
 *
 * Both know a key that does not travel: of the job's secret, if it has one, and of a token. For a session the
 * token is the one in the called endpoint's address, for stripes one that has travelled by their session.
 *
 *     dialer      HELLO      who calls whom, a nonce, a tag         knows the key
 *     listener    CHALLENGE  a nonce, a tag over HELLO and it       knows the key, and is there now
 *     dialer      PROOF      a tag over HELLO and CHALLENGE         is there now
 *     listener    reply      welcome or refusal, a tag over all
 *
 * A tag is an HMAC-SHA-256 by the key of a label and all bytes so far, so that none is of use in another
 * place, in another direction, or again. Whoever only listened has nothing to show. A refusal may come
 * instead of the CHALLENGE; one that says "a stranger" has no valid tag, as its sender may not have the key.
 */
#ifndef GCOLL_SESSION_PROOF_H
#define GCOLL_SESSION_PROOF_H

#include "gcoll/base/sha256.h"
#include "transport/session/wire.h"

typedef struct gcoll_proof {
    uint8_t key[GCOLL_SHA256_BYTES];
    uint8_t hello[GCOLL_WIRE_HELLO_BYTES]; /* as it travels */
    uint8_t challenge[GCOLL_WIRE_CHALLENGE_BYTES];
    bool is_challenged;                  /* there is one */
    bool is_proved;                      /* the PROOF was sent, or it came and was right */
    bool has_channel;                    /* it goes by a TLS connection, */
    uint8_t channel[GCOLL_SHA256_BYTES]; /* which these tell from all others */
} gcoll_proof;

/* The key by which an endpoint with that token is called. secret NULL: the job has none. */
void gcoll_proof_key_of_link(uint8_t key[GCOLL_SHA256_BYTES], const uint8_t *secret, const uint8_t group[16],
                             const uint8_t token[GCOLL_WIRE_TOKEN_BYTES]);
/* That of connections which a session makes for a purpose of its own. */
void gcoll_proof_key_within(uint8_t key[GCOLL_SHA256_BYTES], const uint8_t session[GCOLL_SHA256_BYTES],
                            const uint8_t token[GCOLL_WIRE_TOKEN_BYTES]);
/* That of the session whose connection was proved: of this key and both nonces. */
void gcoll_proof_key_of_session(uint8_t key[GCOLL_SHA256_BYTES], const gcoll_proof *proof);

/* That of its encryption, the same when the CHALLENGE has gone or come. */
void gcoll_proof_key_of_tls(uint8_t key[GCOLL_SHA256_BYTES], const gcoll_proof *proof);

/* Writes proof->hello by proof->key, with a new nonce. */
gcoll_status gcoll_proof_greet(gcoll_proof *proof, const gcoll_wire_hello *hello);
/* Whether proof->hello, which came, has its tag. */
bool gcoll_proof_is_hello(const gcoll_proof *proof);
/* Writes proof->challenge, with a new nonce. */
gcoll_status gcoll_proof_challenge(gcoll_proof *proof);
/* Whether a CHALLENGE that came has its tag; then it is the proof's. */
bool gcoll_proof_take_challenge(gcoll_proof *proof, const uint8_t *bytes);
/* Writes GCOLL_WIRE_PROOF_BYTES. */
void gcoll_proof_prove(gcoll_proof *proof, uint8_t *bytes);
bool gcoll_proof_take_proof(gcoll_proof *proof, const uint8_t *bytes);
/* Adds the tag to a reply of gcoll_wire_put_reply. */
void gcoll_proof_sign_reply(const gcoll_proof *proof, uint8_t *bytes);
bool gcoll_proof_is_reply(const gcoll_proof *proof, const uint8_t *bytes);

#endif
