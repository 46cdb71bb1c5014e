/*
 * transport/transport.h - the interface of a transport: a const table of operations on an endpoint.
 *
 * An endpoint is one rank's end of a group: it listens, connects to peers when asked, and moves
 * messages. It knows bytes and peers; it knows no collective, no plan and no store. It is driven by one
 * thread at a time; only `wake` may be called from another thread. Events and `done` are called from inside
 * an operation, on the thread that drives the endpoint.
 *
 * A message is matched by (peer, stream, index): each such key is used once in each direction of a pair of
 * ranks. Streams are chosen by the caller (an operation's number, or a user's tag). Messages may be posted
 * and arrive in any order.
 *
 * The transport does flow control. It bounds the bytes that no receive waits for (eager_pool_bytes a peer).
 * Larger messages wait at the sender until the receiver has posted. No order of posting deadlocks, as long as
 * each message that a rank waits for is eventually posted on both sides.
 */
#ifndef GCOLL_TRANSPORT_H
#define GCOLL_TRANSPORT_H

#include "gcoll/base/base.h"
#include "gcoll/device.h"
#include "transport/message.h"

#define GCOLL_ADDRESS_MAX   4096
#define GCOLL_NOTE_TEXT_MAX 256
/* The longest message of send_now and recv_now: copied, it takes about as long as it would wait for a peer.
 */
#define GCOLL_NOW_BYTES (UINT64_C(16) << 10)
/* The address of an endpoint that shares connections: this, and the address of its trunk. */
#define GCOLL_SHARED_ADDRESS "shared/"

typedef struct gcoll_endpoint gcoll_endpoint;

/* The cause of an abort, as it is sent to all peers. */
typedef struct gcoll_note {
    int32_t status;                 /* gcoll_status */
    uint32_t culprit;               /* the rank at fault, UINT32_MAX if none */
    bool passed_on;                 /* another rank reported it first; the text names that rank */
    char text[GCOLL_NOTE_TEXT_MAX]; /* NUL-terminated, printable */
} gcoll_note;

/* The answer to a probe. */
typedef struct gcoll_answer {
    uint64_t position; /* as set */
    uint32_t moves;    /* counts how often data of messages moved there, modulo 2^32: see `moves` */
    uint32_t news_of;  /* as set: another rank, or UINT32_MAX */
    uint32_t news;     /* and its moves */
} gcoll_answer;

/* Signs of life of a peer that this host can see without asking the peer. */
typedef struct gcoll_sight {
    uint64_t heard;   /* grows with everything that comes from the peer */
    uint64_t taken;   /* grows with the data of messages that the peer's host acknowledges, as long as a probe
                       * is still on its way behind them */
    int64_t mute_ms;  /* how long the peer's host has acknowledged nothing, though what is due was sent again
                       * and again; 0: it does, or nothing is due */
    uint32_t repeats; /* how often it was sent again, if mute_ms is not 0 */
} gcoll_sight;

/* What an endpoint has counted since it was opened. */
typedef struct gcoll_endpoint_counts {
    uint64_t sleeps; /* waits that gave up their processor, */
    uint64_t asleep_ns;
    uint64_t registrations; /* of memory, with a device */
} gcoll_endpoint_counts;

typedef struct gcoll_peer_counts {
    const char *lane;       /* by which messages go, never freed; NULL: not connected */
    uint64_t retransmitted; /* segments that TCP has sent again on the connections that there are */
} gcoll_peer_counts;

typedef struct gcoll_events {
    void *arg;
    /* A fingerprint arrived with a message of `stream` from peer (also before any receive is posted). It
     * comes before `consume` and `done` of that message, and of every message of the stream that peer posted
     * after it. */
    void (*opened)(void *arg, uint32_t peer, uint64_t stream,
                   const uint8_t fingerprint[GCOLL_FINGERPRINT_BYTES]);
    /* The connection to the peer broke, and no more events of it follow. text, without the rank: "closed the
     * connection", "sent garbage (...)", "refused the connection at 10.0.0.7:4711". NO_MEMORY: the peer is
     * not at fault; text says what this rank has run out of: "no memory for messages of rank 3". */
    void (*failed)(void *arg, uint32_t peer, gcoll_status status, const char *text);
    /* The peer closed its endpoint in good order, after all that it had to say. */
    void (*departed)(void *arg, uint32_t peer);
    /* A peer aborted. */
    void (*aborted)(void *arg, uint32_t from, const gcoll_note *note);
    /* The answer to `probe`: the peer's thread is driving its endpoint. */
    void (*answered)(void *arg, uint32_t peer, const gcoll_answer *answer);
    /* The rank `by` says that the rank of `set_doubt` was alive ago_ms ago. NULL: never called. */
    void (*witnessed)(void *arg, uint32_t by, uint32_t about, int64_t ago_ms);
    /* Called instead of `failed` by an endpoint with checksums: data was changed on its way, and neither rank
     * is at fault. text: "a payload with a wrong checksum". */
    void (*changed)(void *arg, uint32_t peer, const char *text);
} gcoll_events;

/* How what goes over the network is encrypted (gcoll/base/tls.h). */
typedef struct gcoll_encryption {
    struct gcoll_tls_setup *setup;
    char *names; /* NULL: any; else the name that a rank's certificate must have, with "{rank}" for its number
                  */
    uint32_t *numbers; /* of each rank; NULL: the rank itself */
    bool lets_ibverbs; /* the lane ibverbs, which cannot encrypt, may move data */
} gcoll_encryption;

typedef struct gcoll_endpoint_options {
    uint32_t rank, size;
    uint8_t group[16];     /* random, the same on every rank of this group and no other */
    const uint8_t *secret; /* NULL, or 32 bytes made of the job's secret, the same on every rank: without
                            * them nobody can connect. Used by open only. Not of inproc */
    const gcoll_encryption
        *encryption;            /* NULL: none. The same on every rank. Used by open only. Not of inproc */
    const char *interface;      /* NULL, or a list; see transport/interfaces.h */
    const char *interface_from; /* what errors call it; NULL: "interface" */
    const char *route_to; /* NULL, or host:port of the store: the interface that routes there is preferred if
                             the host is numeric */
    uint16_t port_min, port_max; /* 0,0: any free port; else a port in this range, inclusive */
    uint64_t eager_bytes;        /* messages up to this go without waiting; 0: default */
    uint64_t eager_pool_bytes;   /* most unexpected bytes held for one peer; 0: default */
    int64_t connect_timeout_ms;
    bool connects_on;  /* tcp: does not give up a peer then, as the owner knows better how long to wait */
    int64_t spin_us;   /* progress polls this long before it blocks; 0: never spins */
    void *hub;         /* inproc: the gcoll_hub; else NULL */
    bool is_part;      /* inproc: a group of some of the hub's ranks, among which this one is hub_rank */
    uint32_t hub_rank; /* if is_part */
    const struct gcoll_ibverbs_options *ibverbs; /* NULL: defaults. Used by open only. */
    bool checksum; /* data that was changed on its way is detected before it is used. The same on every rank,
                    * or connect gives MISMATCH. open gives UNSUPPORTED if the transport has no checksums */
    /* Which lanes may move the bytes, by preference (transport/lane.h). count 0: the one of the transport's
     * name. Not of inproc. Used by open only. */
    const struct gcoll_lane_choice *lanes;
    uint32_t lane_count;
    bool may_lack; /* "auto" chose the lanes: one that cannot be opened is passed over, but not the last */
    /* For the table `shared` only: the endpoint whose connections it shares, and the rank there of each of
     * its own ranks. Used by open only. */
    gcoll_endpoint *trunk;
    const uint32_t *members;
} gcoll_endpoint_options;

typedef struct gcoll_transport gcoll_transport;
struct gcoll_transport {
    const char *name;
    const char *beyond; /* the transport that takes messages to other hosts; NULL: itself */
    bool yields;        /* progress that polls lets others have its core: more ranks than cores may poll */
    /* Starts listening. Errors: INVALID names the option (unknown interface, port range full), IO. */
    gcoll_status (*open)(const gcoll_endpoint_options *options, const gcoll_events *events,
                         gcoll_endpoint **endpoint);
    /* The address that peers need to connect: printable text without spaces of at most GCOLL_ADDRESS_MAX - 1
     * bytes. */
    gcoll_status (*address)(gcoll_endpoint *endpoint, char *text, size_t bytes);
    /* Starts connecting to a peer by its address text (which is checked, not trusted). At once; the
     * outcome is known by messages moving or by `failed`. A second call for a peer does nothing, as does one
     * for a peer that connected to us first. After an abort, the peer is told of that. */
    gcoll_status (*connect)(gcoll_endpoint *endpoint, uint32_t peer, const char *address);
    /* Post a message. They never block, may be called before the pair is connected, and do nothing on a
     * broken pair. Sends may be held back until the next flush, progress or post. */
    void (*post_send)(gcoll_endpoint *endpoint, uint32_t peer, gcoll_message *message);
    void (*post_recv)(gcoll_endpoint *endpoint, uint32_t peer, gcoll_message *message);
    /* All three, or NULL. Move a message of at most GCOLL_NOW_BYTES whole within the call, if that is
     * possible now and no earlier message would be overtaken. True: it has moved, and the caller goes on as
     * `done` would, which is not called. False: nothing has happened, and the message is to be posted.
     * recv_now: `looks` is how often it may look for the message, at least once; it looks once where a peer
     * may share this core. moves_now: whether any message of this endpoint may move so. What completed
     * before such a message may be reported after it, by the next progress. */
    bool (*moves_now)(const gcoll_endpoint *endpoint);
    bool (*send_now)(gcoll_endpoint *endpoint, uint32_t peer, gcoll_message *message);
    bool (*recv_now)(gcoll_endpoint *endpoint, uint32_t peer, gcoll_message *message, uint32_t looks);
    /* Writes the sends that were held back. */
    void (*flush)(gcoll_endpoint *endpoint);
    /* Moves all messages that can be moved. wait_us > 0: if none can, waits up to that long (spins for
     * spin_us, then blocks). Sets *moved if any `done` or event was called. An error is this rank's own: it
     * has run out of something (NO_MEMORY), or its device is broken. */
    gcoll_status (*progress)(gcoll_endpoint *endpoint, int64_t wait_us, bool *moved);
    /* Whether the message (stream, index) from peer, with no receive posted for it, has come or begun to
     * come, or is known to wait at the peer; *bytes is then its size. If not, the next progress returns with
     * *moved as soon as any message without a receive comes. */
    bool (*peek)(gcoll_endpoint *endpoint, uint32_t peer, uint64_t stream, uint32_t index, uint64_t *bytes);
    /* Makes a waiting progress return. From any thread. */
    void (*wake)(gcoll_endpoint *endpoint);
    /* Asks whether the peer's thread is alive; `answered` follows, or nothing. */
    void (*probe)(gcoll_endpoint *endpoint, uint32_t peer);
    /* Sets the position that this rank answers to probes. */
    void (*set_position)(gcoll_endpoint *endpoint, uint64_t position);
    /* Sets the fingerprint that probes carry from now on; the peer gets it as `opened`. It is copied; NULL:
     * none. By it, ranks that wait for one another in different operations, and never send, learn of the
     * mismatch. */
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
    /* All four, or NULL: this transport cannot reach a peer's memory. Lets peers access it until it is
     * concealed, or the endpoint aborts or closes. */
    gcoll_status (*expose)(gcoll_endpoint *endpoint, void *data, uint64_t bytes, gcoll_exposed *exposed);
    void (*conceal)(gcoll_endpoint *endpoint, gcoll_exposed *exposed);
    /* Whether memory of that peer can be accessed. As long as it is not connected, true only if any peer's
     * can. */
    bool (*reaches)(const gcoll_endpoint *endpoint, uint32_t peer);
    /* Is done when the bytes are there (a put: in the peer's memory). Messages that are posted to that peer
     * afterwards arrive after what is put. The owner has no part in it, and sees nothing of it. */
    void (*access)(gcoll_endpoint *endpoint, uint32_t peer, gcoll_remote_access *access);
    /* Tells every connected peer, and drops all posted messages: no byte of theirs is read or written from
     * now on, and no `done` follows. Takes at most limit_ms. Peers that connect later are told by progress.
     */
    void (*abort)(gcoll_endpoint *endpoint, const gcoll_note *note, int64_t limit_ms);
    /* Says goodbye, lets what was sent arrive (at most limit_ms), closes, frees. Posted messages are dropped.
     */
    void (*close)(gcoll_endpoint *endpoint, int64_t limit_ms);
    /* The four that follow serve long waits, and may cost system calls. Counts how often data of messages
     * moved: was received, or handed to the system, or was found acknowledged by a peer's host. */
    uint32_t (*moves)(gcoll_endpoint *endpoint);
    void (*look)(gcoll_endpoint *endpoint, uint32_t peer, gcoll_sight *sight);
    /* Sets what answers to probes tell about another rank; UINT32_MAX: about none. */
    void (*set_news)(gcoll_endpoint *endpoint, uint32_t rank, uint32_t moves);
    /* Or NULL: nobody can tell. Probes ask from now on when that rank was last known to be alive, and
     * `witnessed` may follow; UINT32_MAX: they do not ask. */
    void (*set_doubt)(gcoll_endpoint *endpoint, uint32_t rank);
    /* A function of the caller's has taken lasted_ms, inside progress or not, and may be called again: probes
     * are answered before much more is done. May be called from within `consume`. */
    void (*look_soon)(gcoll_endpoint *endpoint, int64_t lasted_ms);
    /* Takes back a posted receive that nothing belongs to yet: the message is the caller's again, and `done`
     * does not follow. False if its bytes have come or begun to come, if it is known to wait at the peer, or
     * if the peer has been told that it may send: then all stays as it was. */
    bool (*take_back)(gcoll_endpoint *endpoint, uint32_t peer, gcoll_message *message);
    /* Instead of close, in a process that was forked from the one that opened the endpoint: frees what can be
     * freed without touching anything that the two share. Nobody hears of it. No thread was inside the
     * endpoint when the process forked. */
    void (*abandon)(gcoll_endpoint *endpoint);
    /* Or NULL. Says by which lane messages to that peer go, and why not by a better one: "tcp (ibverbs: the
     * other rank does not offer it)". */
    void (*explain)(gcoll_endpoint *endpoint, uint32_t peer, char *text, size_t bytes);
    /* Both, or NULL: nothing is counted. The second costs a system call a connection. */
    void (*count)(gcoll_endpoint *endpoint, gcoll_endpoint_counts *counts);
    void (*count_peer)(gcoll_endpoint *endpoint, uint32_t peer, gcoll_peer_counts *counts);
    /* Or NULL. The transport of endpoints that share descriptors and connections with one of this transport,
     * their trunk, and with others of that trunk. Each has ranks of its own, events, flow control, and aborts
     * and closes by itself. They live on when the trunk is closed. If the trunk aborts, they get `aborted`.
     * All are driven by one thread at a time: what one of them does may call events and `done` of the
     * others. */
    const gcoll_transport *shared;
};

extern const gcoll_transport gcoll_transport_tcp;
extern const gcoll_transport gcoll_transport_inproc;
/* Also in a build without it: then open says so. */
extern const gcoll_transport gcoll_transport_ibverbs;
extern const gcoll_transport gcoll_transport_shm;

/* NULL-terminated. */
extern const gcoll_transport *const gcoll_transports[];

#endif
