/*
 * transport/transport.h - what a transport is: a const table of operations on an endpoint.
 *
 * An endpoint is one rank's end of a group: it listens, connects to peers when asked, and moves
 * messages. It knows bytes and peers; it knows no collective, no plan and no store. It is driven by one
 * thread at a time (only `wake` may be called from another). All events and `done` calls happen inside a call
 * of that thread.
 *
 * A message is matched by (peer, stream, index): each pair of those is used once in each direction.
 * Streams are chosen by the caller (an operation's number, or a user's tag). Messages may be posted and
 * arrive in any order.
 *
 * Flow control is the transport's: bytes that no receive waits for are bounded (eager_pool_bytes a peer),
 * larger messages wait at the sender until the receiver has posted; no order of posting deadlocks as long as
 * each message that a rank waits for is eventually posted on both sides.
 */
#ifndef GCOLL_TRANSPORT_H
#define GCOLL_TRANSPORT_H

#include "gcoll/base/base.h"
#include "gcoll/device.h"

#define GCOLL_FINGERPRINT_BYTES 32
#define GCOLL_ADDRESS_MAX       4096
#define GCOLL_NOTE_TEXT_MAX     256

typedef struct gcoll_endpoint gcoll_endpoint;
typedef struct gcoll_message gcoll_message;

/* Takes `bytes` received bytes at byte `offset` of the message; bytes is a multiple of the granule. */
typedef void (*gcoll_consume_fn)(void *arg, uint64_t offset, const void *data, uint64_t bytes);

/* A posted send or receive. The caller owns it and its data; from post to `done` (or close) neither may
 * be moved or changed. `done` is called exactly once unless the peer fails or the endpoint closes, after
 * which the message is the caller's again. It may be called from within post or progress; it may post. */
struct gcoll_message {
    uint64_t stream;
    uint32_t index;
    uint32_t granule;         /* receive with consume: the element size, 1..16 */
    uint64_t bytes;           /* exact; 0 is a message too */
    void *data;               /* send: source. receive: destination, unless consume is set */
    gcoll_consume_fn consume; /* receive: NULL, or is given the bytes while they are hot */
    void *consume_arg;
    const uint8_t *open; /* send: NULL, or GCOLL_FINGERPRINT_BYTES that travel ahead of it */
    bool by_device;      /* the data may lie in the memory of a device: the network's device moves them, the
                          * host never touches them. The same on both sides */
    bool announced;      /* send: the peer may peek for it, so it is told of it even while it has to wait */
    bool background;     /* receive: nobody waits for it, so it is not looked for as often as the others */
    void (*done)(gcoll_message *message);
    void *owner; /* the caller's */

    /* The transport's own, between post and done. */
    gcoll_message *next;
    gcoll_message *previous;
    uint64_t moved;
    uint32_t flags;
    void *region; /* of registered memory */
};

/* Memory of a device, and how the driver of a network's device is told of it. */
typedef struct gcoll_foreign_memory {
    void *data; /* as messages name it */
    uint64_t bytes;
    int dmabuf;      /* a file descriptor, which stays the caller's; -1: none */
    uint64_t offset; /* of data in it */
    void *pages;     /* without one: the address by which the kernel may know the memory */
} gcoll_foreign_memory;

/* Memory of this rank that peers may access by themselves; address and key are what they need for it. */
typedef struct gcoll_exposed {
    void *handle; /* the transport's */
    uint64_t address;
    uint32_t key;
} gcoll_exposed;

/* An access to memory that a peer has exposed. The caller's, as a message is. */
typedef struct gcoll_direct gcoll_direct;
struct gcoll_direct {
    gcoll_message message; /* data, bytes (1 and more), done, owner: of this side */
    bool gets;             /* else it puts */
    uint64_t address;      /* of the first byte there */
    uint32_t key;
    gcoll_direct *next; /* the transport's */
};

/* Why an operation died, as told to everybody. */
typedef struct gcoll_note {
    int32_t status;                 /* gcoll_status */
    uint32_t culprit;               /* the rank at fault, UINT32_MAX if none */
    char text[GCOLL_NOTE_TEXT_MAX]; /* NUL-terminated, printable */
} gcoll_note;

typedef struct gcoll_events {
    void *arg;
    /* A fingerprint arrived with the first message of `stream` from peer (also before any receive is posted).
     */
    void (*opened)(void *arg, uint32_t peer, uint64_t stream,
                   const uint8_t fingerprint[GCOLL_FINGERPRINT_BYTES]);
    /* The pair broke; nothing more will happen on it. text: "closed the connection", "sent garbage (...)",
     * "refused the connection at 10.0.0.7:4711", without the rank. */
    void (*failed)(void *arg, uint32_t peer, gcoll_status status, const char *text);
    /* The peer closed its endpoint in good order, after all that it had to say. */
    void (*departed)(void *arg, uint32_t peer);
    /* A peer aborted. */
    void (*aborted)(void *arg, uint32_t from, const gcoll_note *note);
    /* The answer to `probe`: the peer's thread is driving its endpoint, and says `position`. */
    void (*answered)(void *arg, uint32_t peer, uint64_t position);
} gcoll_events;

typedef struct gcoll_endpoint_options {
    uint32_t rank, size;
    uint8_t group[16]; /* random, the same on every rank of this group and no other */
    const char
        *interface; /* NULL, or name ("eth0"), address ("10.0.0.7", "fe80::1%eth0"), subnet ("10.0.0.0/8") */
    const char *route_to; /* NULL, or host:port of the store: the interface that routes there is preferred if
                             the host is numeric */
    uint16_t port_min, port_max; /* 0,0: any free port; else a port in this range, inclusive */
    uint64_t eager_bytes;        /* messages up to this go without waiting; 0: default */
    uint64_t eager_pool_bytes;   /* most unexpected bytes held for one peer; 0: default */
    int64_t connect_timeout_ms;
    int64_t spin_us; /* progress polls this long before it blocks; 0: never spins */
    void *hub;       /* inproc: the gcoll_hub; else NULL */
    const struct gcoll_ibverbs_options *ibverbs; /* NULL: defaults. Used by open only. */
} gcoll_endpoint_options;

typedef struct gcoll_transport {
    const char *name;
    bool yields; /* progress that polls lets others have its core: more ranks than cores may poll */
    /* What it sees on this machine; or why it cannot be used. NULL: nothing to tell. */
    void (*list)(gcoll_device_fn fn, void *arg);
    /* Starts listening. Errors: INVALID names the option (unknown interface, port range full), IO. */
    gcoll_status (*open)(const gcoll_endpoint_options *options, const gcoll_events *events,
                         gcoll_endpoint **endpoint);
    /* What peers need to connect: printable text without spaces of at most GCOLL_ADDRESS_MAX - 1 bytes. */
    gcoll_status (*address)(gcoll_endpoint *endpoint, char *text, size_t bytes);
    /* Starts connecting to a peer by its address text (which is checked, not trusted). At once; the
     * outcome is known by messages moving or by `failed`. A second call for a peer does nothing, as does one
     * for a peer that connected to us first. */
    gcoll_status (*connect)(gcoll_endpoint *endpoint, uint32_t peer, const char *address);
    /* Never block. May be posted before the pair is connected. On a broken pair nothing happens. Sends
     * may be held back until the next flush, progress or post. */
    void (*post_send)(gcoll_endpoint *endpoint, uint32_t peer, gcoll_message *message);
    void (*post_recv)(gcoll_endpoint *endpoint, uint32_t peer, gcoll_message *message);
    /* Writes what post_send held back. */
    void (*flush)(gcoll_endpoint *endpoint);
    /* Moves what can be moved. wait_us > 0: if nothing moved, waits for something up to that long (spinning
     * for spin_us, then blocked). Sets *moved if any done or event was called. */
    gcoll_status (*progress)(gcoll_endpoint *endpoint, int64_t wait_us, bool *moved);
    /* Whether the message (stream, index) from peer, with no receive posted for it, has come or begun to
     * come, or is known to wait at the peer. If not, the next progress returns with *moved as soon as any
     * message without a receive comes. */
    bool (*peek)(gcoll_endpoint *endpoint, uint32_t peer, uint64_t stream, uint32_t index);
    /* Makes a waiting progress return. From any thread. */
    void (*wake)(gcoll_endpoint *endpoint);
    /* Asks whether the peer's thread is alive; `answered` follows, or nothing. */
    void (*probe)(gcoll_endpoint *endpoint, uint32_t peer);
    /* What this rank answers to probes. */
    void (*set_position)(gcoll_endpoint *endpoint, uint64_t position);
    /* What probes carry from now on: the peer gets it as `opened`. Copied; NULL for nothing. So that ranks
     * which wait for one another in different operations, and never send, learn of it. */
    void (*set_concern)(gcoll_endpoint *endpoint, uint64_t stream,
                        const uint8_t fingerprint[GCOLL_FINGERPRINT_BYTES]);
    void (*set_spin)(gcoll_endpoint *endpoint, int64_t spin_us);
    /* Both, or NULL: this transport registers nothing. Keeps `bytes` at data registered until they are
     * detached, for messages of at most `largest` bytes; is_written: received ones too. *handle is NULL if
     * messages of that size need no registration. Whoever sends and receives without it pays for it each
     * time. */
    gcoll_status (*attach)(gcoll_endpoint *endpoint, void *data, uint64_t bytes, bool is_written,
                           uint64_t largest, void **handle);
    void (*detach)(gcoll_endpoint *endpoint, void *handle);
    /* Both, or NULL: no message of this transport goes from or to device memory. Whether they may, as the
     * options say: 0 never, 1 where it is possible, 2 always, and what cannot is an error. If not never,
     * messages are by_device wherever one end of them may be. */
    uint32_t (*device_memory)(const gcoll_endpoint *endpoint);
    /* As attach, of memory that the host cannot touch: it must be attached while messages use it. UNSUPPORTED
     * says what the device, its driver or the library lacks. */
    gcoll_status (*attach_device)(gcoll_endpoint *endpoint, const gcoll_foreign_memory *memory,
                                  bool is_written, void **handle);
    /* All three, or NULL: this transport cannot reach a peer's memory. Lets peers access it until it is
     * concealed, or the endpoint aborts or closes. */
    gcoll_status (*expose)(gcoll_endpoint *endpoint, void *data, uint64_t bytes, gcoll_exposed *exposed);
    void (*conceal)(gcoll_endpoint *endpoint, gcoll_exposed *exposed);
    /* Is done when the bytes are there (a put: in the peer's memory). Messages that are posted to that peer
     * afterwards arrive after what is put. The owner has no part in it, and sees nothing of it. */
    void (*access)(gcoll_endpoint *endpoint, uint32_t peer, gcoll_direct *direct);
    /* Tells every connected peer, and drops all posted messages: no byte of theirs is read or written from
     * now on, and no `done` follows. Takes at most limit_ms. */
    void (*abort)(gcoll_endpoint *endpoint, const gcoll_note *note, int64_t limit_ms);
    /* Says goodbye, lets what was sent arrive (at most limit_ms), closes, frees. Posted messages are dropped.
     */
    void (*close)(gcoll_endpoint *endpoint, int64_t limit_ms);
} gcoll_transport;

extern const gcoll_transport gcoll_transport_tcp;
extern const gcoll_transport gcoll_transport_inproc;
/* Also in a build without it: then open says so. */
extern const gcoll_transport gcoll_transport_ibverbs;

/* NULL-terminated. */
extern const gcoll_transport *const gcoll_transports[];

#endif
