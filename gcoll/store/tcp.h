/*
 * gcoll/store/tcp.h - what the client and the server of a tcp store share: the frames, and the server's life.
 *
 * A client greets with the text GCOLL_STORE_HELLO. It is a line, so that servers of other kinds which read
 * lines answer it, and the client can tell what they are. The server answers with a frame
 * GCOLL_ANSWER_WELCOME, whose number is an identity: a server that was started anew has another one. Then a
 * client sends one request at a time, each with an id larger than the one before, and gets one answer with
 * its id. It need not await an answer: an answer to an older request is skipped, and a request ends the wait
 * before it.
 *
 * A frame, little-endian: 4 bytes GCOLL_STORE_MAGIC, 1 byte version, 1 byte kind, 2 bytes length of the key,
 * 4 bytes length of the value, 4 bytes id, 8 bytes number; key; value.
 */
#ifndef GCOLL_STORE_TCP_H
#define GCOLL_STORE_TCP_H

#include "gcoll/base/bytes.h"
#include "gcoll/store/connect.h"

#define GCOLL_STORE_MAGIC   0x53434721u /* "!GCS": no text of another protocol begins so */
#define GCOLL_STORE_VERSION 1
/* The greeting: these words, the version, and an empty line, which ends a request for an HTTP server. */
#define GCOLL_STORE_HELLO_START "GCOLL-STORE "
#define GCOLL_STORE_HELLO       GCOLL_STORE_HELLO_START "1\r\n\r\n"
#define GCOLL_STORE_HELLO_BYTES (sizeof GCOLL_STORE_HELLO - 1)

#define GCOLL_STORE_HEAD_BYTES  24
#define GCOLL_STORE_FRAME_BYTES (GCOLL_STORE_HEAD_BYTES + GCOLL_STORE_KEY_MAX + GCOLL_STORE_VALUE_MAX)

/* Kinds of frames, with the meaning of `number`. */
typedef enum gcoll_store_kind {
    GCOLL_REQUEST_SET = 1, /* 0 */
    GCOLL_REQUEST_SET_NEW, /* 0 */
    GCOLL_REQUEST_GET,     /* 0 */
    GCOLL_REQUEST_LOOK,    /* 0; answered at once */
    GCOLL_REQUEST_WAIT,    /* 0; answered when the key is there */
    GCOLL_REQUEST_ADD,     /* what to add */
    GCOLL_REQUEST_REMOVE,  /* 0 */
    GCOLL_REQUEST_KEEP,    /* the lifetime in ms */
    GCOLL_REQUEST_LAST = GCOLL_REQUEST_KEEP,
    GCOLL_ANSWER_OK = 64,   /* of an add the sum, else 0; of a get, the frame has the value */
    GCOLL_ANSWER_NOT_FOUND, /* 0 */
    GCOLL_ANSWER_EXISTS,    /* 0 */
    GCOLL_ANSWER_NO_NUMBER, /* 0: the value is no counter */
    GCOLL_ANSWER_OVERFLOW,  /* the counter's value */
    GCOLL_ANSWER_KEYS_FULL, /* how many keys the server holds at most */
    GCOLL_ANSWER_FULL,      /* how many bytes the server holds at most */
    GCOLL_ANSWER_NO_MEMORY, /* 0 */
    GCOLL_ANSWER_WELCOME,   /* the server's identity */
    GCOLL_ANSWER_LAST = GCOLL_ANSWER_WELCOME,
} gcoll_store_kind;

typedef struct gcoll_store_frame {
    uint8_t version, kind;
    uint16_t key_bytes;
    uint32_t value_bytes, id;
    uint64_t number;
} gcoll_store_frame;

static inline void gcoll_store_frame_put(uint8_t head[GCOLL_STORE_HEAD_BYTES],
                                         const gcoll_store_frame *frame) {
    gcoll_put_le(head, GCOLL_STORE_MAGIC, 4);
    gcoll_put_le(head + 4, frame->version, 1);
    gcoll_put_le(head + 5, frame->kind, 1);
    gcoll_put_le(head + 6, frame->key_bytes, 2);
    gcoll_put_le(head + 8, frame->value_bytes, 4);
    gcoll_put_le(head + 12, frame->id, 4);
    gcoll_put_le(head + 16, frame->number, 8);
}

/* false: it has not the magic. Nothing else is checked. */
static inline bool gcoll_store_frame_get(const uint8_t head[GCOLL_STORE_HEAD_BYTES],
                                         gcoll_store_frame *frame) {
    frame->version = (uint8_t)gcoll_get_le(head + 4, 1);
    frame->kind = (uint8_t)gcoll_get_le(head + 5, 1);
    frame->key_bytes = (uint16_t)gcoll_get_le(head + 6, 2);
    frame->value_bytes = (uint32_t)gcoll_get_le(head + 8, 4);
    frame->id = (uint32_t)gcoll_get_le(head + 12, 4);
    frame->number = gcoll_get_le(head + 16, 8);
    return gcoll_get_le(head, 4) == GCOLL_STORE_MAGIC;
}

typedef struct gcoll_store_server gcoll_store_server;

/* Starts a server in a thread of its own, at those addresses of the list that are this host's. Gives the end
 * of a connection to it, entered in `descriptor`: the server ends when that is closed. GCOLL_ERR_NOT_FOUND:
 * none of the addresses is this host's; with `anywhere` it then listens at all addresses of this host.
 * GCOLL_ERR_STATE: the port is taken. An empty list: it listens at all addresses of this host. Port 0: at a
 * port that is free. */
gcoll_status gcoll_store_server_start(const gcoll_store_place *place, const struct addrinfo *list,
                                      bool anywhere, gcoll_descriptor *descriptor,
                                      gcoll_store_server **server);

/* The port at which the server listens, and the identity that its greeting tells. */
void gcoll_store_server_tell(const gcoll_store_server *server, uint16_t *port, uint64_t *identity);

/* After the connection was closed: returns when the server has ended, which takes GCOLL_STORE_LINGER_MS at
 * most. */
void gcoll_store_server_join(gcoll_store_server *server);

#endif
