/*
 * gcoll/store/tcp.h - what the client (tcp.c) and the server (tcp_server.c) of a tcp store share: the format
 * of messages, and the server's start and end.
 *
 * A client begins with the greeting, the text GCOLL_STORE_HELLO. It is a line, so that servers of other
 * protocols that read lines answer it, and the client can recognise them. The server answers with a frame
 * GCOLL_ANSWER_WELCOME. The number in it identifies the server: a restarted server has another one.
 *
 * Then the client sends requests, one at a time. Each has a larger id than the one before, and gets one
 * answer with the same id. A client may send a request before the answer to the last one has come: it skips
 * answers to older requests. A new request also ends the client's wait, if it has one.
 *
 * A frame, little-endian: 4 bytes GCOLL_STORE_MAGIC, 1 byte version, 1 byte kind, 2 bytes length of the key,
 * 4 bytes length of the value, 4 bytes id, 8 bytes number; key; value.
 */
#ifndef GCOLL_STORE_TCP_H
#define GCOLL_STORE_TCP_H

#include "gcoll/base/bytes.h"
#include "gcoll/store/connect.h"

#define GCOLL_STORE_MAGIC   0x53434721u /* "!GCS": no other protocol's answer begins with it */
#define GCOLL_STORE_VERSION 1
/* The greeting: this word, the version, and an empty line, which ends a request for an HTTP server. */
#define GCOLL_STORE_HELLO_START "GCOLL-STORE "
#define GCOLL_STORE_HELLO       GCOLL_STORE_HELLO_START "1\r\n\r\n"
#define GCOLL_STORE_HELLO_BYTES (sizeof GCOLL_STORE_HELLO - 1)

#define GCOLL_STORE_HEAD_BYTES  24
#define GCOLL_STORE_FRAME_BYTES (GCOLL_STORE_HEAD_BYTES + GCOLL_STORE_KEY_MAX + GCOLL_STORE_VALUE_MAX)

/* Kinds of frames. Each comment says what `number` is. */
typedef enum gcoll_store_kind {
    GCOLL_REQUEST_SET = 1, /* 0 */
    GCOLL_REQUEST_SET_NEW, /* 0 */
    GCOLL_REQUEST_GET,     /* 0 */
    GCOLL_REQUEST_LOOK,    /* 0; answered at once */
    GCOLL_REQUEST_WAIT,    /* 0; answered as soon as the key exists */
    GCOLL_REQUEST_ADD,     /* the number to add */
    GCOLL_REQUEST_REMOVE,  /* 0 */
    GCOLL_REQUEST_KEEP,    /* the lifetime in ms */
    GCOLL_REQUEST_LAST = GCOLL_REQUEST_KEEP,
    GCOLL_ANSWER_OK = 64,   /* the sum after an add, else 0; the answer to a get has the value */
    GCOLL_ANSWER_NOT_FOUND, /* 0 */
    GCOLL_ANSWER_EXISTS,    /* 0 */
    GCOLL_ANSWER_NO_NUMBER, /* 0; the value is not a counter */
    GCOLL_ANSWER_OVERFLOW,  /* the counter's value */
    GCOLL_ANSWER_KEYS_FULL, /* the server's limit of keys */
    GCOLL_ANSWER_FULL,      /* the server's limit of bytes */
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

/* Reads the head of a frame. Returns false if the magic is wrong. Checks nothing else. */
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

/* Starts a server in a thread of its own. It listens at those addresses of the list that belong to this host.
 * Gives a connection to the server, entered in `descriptor`. The server ends when this connection is closed.
 * If no address belongs to this host, returns GCOLL_ERR_NOT_FOUND or, with `anywhere`, listens at all
 * addresses of this host. Returns GCOLL_ERR_STATE if the port is taken. With an empty list it
 * listens at all addresses of this host; with port 0, at a port that is free. */
gcoll_status gcoll_store_server_start(const gcoll_store_place *place, const struct addrinfo *list,
                                      bool anywhere, gcoll_descriptor *descriptor,
                                      gcoll_store_server **server);

/* The port at which the server listens, and the identity that its greeting tells. */
void gcoll_store_server_tell(const gcoll_store_server *server, uint16_t *port, uint64_t *identity);

/* Waits until the server has ended, and frees it. The caller has closed the connection. Takes
 * GCOLL_STORE_LINGER_MS at most. */
void gcoll_store_server_join(gcoll_store_server *server);

#endif
