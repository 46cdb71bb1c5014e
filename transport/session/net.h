/*
 * transport/session/net.h - the parts of an endpoint that has sessions. Only transport/session,
 * transport/tcp and their tests include it.
 *
 * net.h declares the endpoint, session.h its state for one peer, connect.h the making of connections. One
 * endpoint owns one libuv loop and is driven by one thread. libuv connects, keeps timers and says which
 * descriptor is ready when progress blocks; data is read and written on the descriptors, past libuv. A
 * session exists from the first post or connection on.
 *
 * Callbacks (`done` and events) are called from progress alone: posting and flushing only note them. So no
 * table changes while a frame is read or written, but where reading itself calls `opened` or `consume`.
 */
#ifndef GCOLL_NET_H
#define GCOLL_NET_H

#include <string.h>
#include <uv.h>

#include "gcoll/base/crc32c.h"
#include "gcoll/base/fork.h"
#include "gcoll/base/sha256.h"
#include "gcoll/base/tls.h"
#include "transport/address.h"
#include "transport/lane.h"
#include "transport/queue.h"
#include "transport/session/patience.h"
#include "transport/transport.h"

/* The largest default message that goes unasked: below it a copy at the receiver costs less than waiting. */
#define GCOLL_NET_EAGER_BYTES      (UINT64_C(256) << 10)
#define GCOLL_NET_CONNECT_MS       30000
#define GCOLL_NET_TIME_MAX         (INT64_C(1) << 52) /* the longest time, in any unit; in us 142 years */
#define GCOLL_SESSION_VERDICT_TEXT 192
#define GCOLL_NET_CONTROL_BYTES    17 /* TCP_CA_NAME_MAX of the kernel, and one for the end */

typedef struct gcoll_link gcoll_link;
typedef struct gcoll_dial gcoll_dial;
typedef struct gcoll_socket gcoll_socket;
typedef struct gcoll_branch gcoll_branch;
typedef struct gcoll_channel gcoll_channel;

/* A lane that this endpoint offers. */
typedef struct gcoll_net_lane {
    const gcoll_lane *lane;
    gcoll_lane_port *port;
    uv_poll_t poll; /* if watched */
    bool watched;
} gcoll_net_lane;

/* A question about a rank that we are not connected to. */
typedef struct gcoll_net_inquiry {
    uint32_t about, hops;
    int64_t forwarded_ms;
} gcoll_net_inquiry;

/* What an endpoint puts into its probes and its answers to those of others. */
typedef struct gcoll_net_voice {
    uint64_t position;
    bool concerned; /* probes carry what follows */
    uint64_t concern_stream;
    uint8_t concern[GCOLL_FINGERPRINT_BYTES];
    uint32_t news_of; /* what answers tell: a rank, or UINT32_MAX */
    uint32_t news;
    uint32_t doubt; /* the rank of the connections' endpoint that probes ask about, or UINT32_MAX */
} gcoll_net_voice;

/* fingerprint NULL: none. */
static inline void gcoll_net_voice_concern(gcoll_net_voice *voice, uint64_t stream,
                                           const uint8_t *fingerprint) {
    voice->concerned = fingerprint;
    voice->concern_stream = stream;
    if (fingerprint)
        memcpy(voice->concern, fingerprint, sizeof voice->concern);
}

struct gcoll_net {
    uv_loop_t loop;
    uv_async_t waker;
    uv_timer_t alarm;                 /* ends a blocked wait */
    uv_timer_t sweeper;               /* drops strangers that do not speak */
    uv_timer_t pause;                 /* ends a time without accepting */
    struct gcoll_listener *listeners; /* one for each address */
    uint32_t listener_count;
    int accept_error; /* why connections wait to be accepted: an error number; 0: none do */
    bool watches_listeners;
    bool has_secret;                       /* `secret` is set */
    bool has_control;                      /* the listeners were given another congestion control than */
    char control[GCOLL_NET_CONTROL_BYTES]; /* ... this, the system's */
    gcoll_events events;
    uint32_t rank, size;
    uint8_t group[16];
    uint8_t secret[GCOLL_SHA256_BYTES]; /* made of the job's */
    gcoll_encryption encryption;        /* its own; setup NULL: none */
    uint64_t eager_bytes, pool_bytes;
    int64_t connect_timeout_ms;
    gcoll_patience patience;
    gcoll_net_voice voice;
    gcoll_address address; /* ours */

    /* Endpoints that share the connections (branch.c). */
    gcoll_branch *branches;
    gcoll_map branch_map, channel_map; /* by number; by number and rank */
    gcoll_channel *faults;             /* that failed by themselves, to be reported */
    bool is_gone;                      /* the endpoint itself is closed, and lives for them alone */

    gcoll_session **sessions; /* by rank; NULL until needed */
    gcoll_session *outputs;
    gcoll_session *hot;      /* connected, and somebody waits for something of theirs */
    gcoll_socket *unwatched; /* not polled by libuv, as they are read directly; their sessions are hot */
    uint32_t hot_count;
    uint32_t streak; /* direct reads that found something since libuv last had all sockets */
    gcoll_session *verdicts, *last_verdict;
    gcoll_message_queue completed; /* to be reported */
    gcoll_link *strangers;

    uint8_t *hot_bytes;                    /* GCOLL_SESSION_HOT_BYTES */
    gcoll_net_lane lanes[GCOLL_LANES_MAX]; /* in the order of preference */
    uint32_t lane_count;
    char *passed_over;    /* why lanes of "auto" were not opened; NULL: all were */
    bool polls_lanes;     /* some lane has to be polled */
    uint32_t begun_count; /* sessions that wait for their lane to stand */
    uint32_t doubt_count; /* sessions in doubt, or that await the rest of what the peer has sent */
    uint32_t stranger_count, trusted_count; /* of `strangers` */
    uint32_t polls;
    int64_t timed_ms; /* the clock when gcoll_net_look_in_time was last called */
    int64_t told_ms;  /* when peers were last told unasked that this rank is alive */
    bool is_late;     /* it has gone on since, and nobody has looked at everything: what takes long is broken
                       * off for that */
    bool moved, busy; /* something was reported in this progress; bytes moved in this poll */
    /* Of `wake`, from any thread: the flag is set, and the waker rung only if it may be needed. Both sides
     * write their own flag before they read the other's. */
    bool woken;
    bool asleep; /* in the kernel, or about to be */
    uint64_t sleeps, asleep_ns;
    bool curious;         /* a message without a receive counts as reported, until progress returns */
    bool leaving;         /* abort or close has begun: messages are dropped, nothing is reported */
    bool discards;        /* leaving or is_gone: data of its own messages are thrown away */
    bool has_note;        /* `note` is set */
    bool connects_on;     /* after connect_timeout_ms, too */
    uint32_t moves;       /* reads and writes that moved data of messages */
    gcoll_status problem; /* of this rank: what progress returns from now on; GCOLL_OK: there is none */
    char problem_text[512];
    int spare[2]; /* descriptors that abort gives up, so that the store can be told why; -1: none */
    gcoll_net_inquiry inquiry;
    gcoll_note note; /* of our abort, if there is one (has_note) */

    uint32_t fragment_max; /* the longest payload that is sent in one frame */
    gcoll_crc32c_fn crc;   /* NULL: frames have no checksums */
    size_t batch_bytes;    /* enough for one system call */
    gcoll_descriptor loop_descriptor;
};

static inline gcoll_net *gcoll_net_of(gcoll_endpoint *endpoint) {
    return (gcoll_net *)(void *)endpoint;
}

/* NULL: the job has none. */
static inline const uint8_t *gcoll_net_secret(const gcoll_net *net) {
    return net->has_secret ? net->secret : NULL;
}

/* NULL: connections are not encrypted. */
static inline gcoll_tls_setup *gcoll_net_tls(const gcoll_net *net) {
    return net->encryption.setup;
}

/* Whether the event loop exists. Its four descriptors are taken when it is first needed, so that a context
 * that is never used takes few. */
static inline bool gcoll_net_has_loop(const gcoll_net *net) {
    return net->loop.data == net;
}

/* A time as given by a caller, small enough to be added to the clock and to be converted to any unit. */
static inline int64_t gcoll_net_bounded(int64_t time) {
    return time < GCOLL_NET_TIME_MAX ? time : GCOLL_NET_TIME_MAX;
}

/* The operations of the table, by file. */

/* lane.c */
/* Opens the lanes that the options name. */
gcoll_status gcoll_net_open_lanes(gcoll_net *net, const gcoll_endpoint_options *options);
void gcoll_net_close_lanes(gcoll_net *net);
/* In a forked child: nothing is touched of those with means of their own, as that would reach the parent's
 * devices or memory. */
void gcoll_net_forget_lanes(gcoll_net *net);
/* Polls all lanes. Returns whether anything moved. */
bool gcoll_net_poll_lanes(gcoll_net *net);
void gcoll_net_flush_lanes(gcoll_net *net);
void gcoll_net_arm_lanes(gcoll_net *net);
void gcoll_net_list_offers(const gcoll_net *net, uint8_t lanes[GCOLL_LANES_MAX]);
/* Ends doubts whose time is over, and waits for the rest of what departing peers have sent. */
void gcoll_net_settle_doubts(gcoll_net *net);
void gcoll_net_explain(gcoll_endpoint *endpoint, uint32_t peer, char *text, size_t bytes);
void gcoll_net_count(gcoll_endpoint *endpoint, gcoll_endpoint_counts *counts);
void gcoll_net_count_peer(gcoll_endpoint *endpoint, uint32_t peer, gcoll_peer_counts *counts);

/* memory.c: of lanes that can reach the memory of peers */
gcoll_status gcoll_net_attach(gcoll_endpoint *endpoint, void *data, uint64_t bytes, bool is_written,
                              uint64_t largest, void **handle);
void gcoll_net_detach(gcoll_endpoint *endpoint, void *handle);
uint32_t gcoll_net_device_memory(const gcoll_endpoint *endpoint);
gcoll_status gcoll_net_attach_device(gcoll_endpoint *endpoint, const gcoll_foreign_memory *memory,
                                     bool is_written, void **handle);
gcoll_status gcoll_net_expose(gcoll_endpoint *endpoint, void *data, uint64_t bytes, gcoll_exposed *exposed);
void gcoll_net_conceal(gcoll_endpoint *endpoint, gcoll_exposed *exposed);
bool gcoll_net_reaches(const gcoll_endpoint *endpoint, uint32_t peer);
void gcoll_net_access(gcoll_endpoint *endpoint, uint32_t peer, gcoll_remote_access *access);

/* messages.c */
void gcoll_net_post_send(gcoll_endpoint *endpoint, uint32_t peer, gcoll_message *message);
void gcoll_net_post_recv(gcoll_endpoint *endpoint, uint32_t peer, gcoll_message *message);
bool gcoll_net_moves_now(const gcoll_endpoint *endpoint);
bool gcoll_net_send_now(gcoll_endpoint *endpoint, uint32_t peer, gcoll_message *message);
bool gcoll_net_recv_now(gcoll_endpoint *endpoint, uint32_t peer, gcoll_message *message, uint32_t looks);
bool gcoll_net_peek(gcoll_endpoint *endpoint, uint32_t peer, uint64_t stream, uint32_t index,
                    uint64_t *bytes);
bool gcoll_net_take_back(gcoll_endpoint *endpoint, uint32_t peer, gcoll_message *message);

/* write.c */
void gcoll_net_flush_all(gcoll_net *net);
void gcoll_net_flush(gcoll_endpoint *endpoint);

/* dial.c */
gcoll_status gcoll_net_connect(gcoll_endpoint *endpoint, uint32_t peer, const char *address);

/* alive.c */
void gcoll_net_probe(gcoll_endpoint *endpoint, uint32_t peer);
void gcoll_net_set_position(gcoll_endpoint *endpoint, uint64_t position);
void gcoll_net_set_concern(gcoll_endpoint *endpoint, uint64_t stream,
                           const uint8_t fingerprint[GCOLL_FINGERPRINT_BYTES]);
void gcoll_net_look_soon(gcoll_endpoint *endpoint, int64_t lasted_ms);
/* Whether a rank whose own functions take that long tells its peers so now: not each time. */
bool gcoll_net_is_time_to_tell(gcoll_net *net, int64_t lasted_ms);
void gcoll_net_set_news(gcoll_endpoint *endpoint, uint32_t rank, uint32_t moves);
void gcoll_net_set_doubt(gcoll_endpoint *endpoint, uint32_t rank);
uint32_t gcoll_net_moves(gcoll_endpoint *endpoint);
void gcoll_net_look(gcoll_endpoint *endpoint, uint32_t peer, gcoll_sight *sight);

/* progress.c */
gcoll_status gcoll_net_progress(gcoll_endpoint *endpoint, int64_t wait_us, bool *moved);
void gcoll_net_wake(gcoll_endpoint *endpoint);
/* Whether it was woken since this was asked. */
static inline bool gcoll_net_take_wake(gcoll_net *net) {
    return __atomic_load_n(&net->woken, __ATOMIC_RELAXED) &&
           __atomic_exchange_n(&net->woken, false, __ATOMIC_ACQUIRE);
}
/* Waits in libuv for up to wait_us, and handles what became ready. */
void gcoll_net_block(gcoll_net *net, int64_t wait_us);
/* Calls `done` for each completed message. */
void gcoll_net_report_completed(gcoll_net *net);
/* What concerns no single session: progress returns it from now on. The first one counts. */
void gcoll_net_problem(gcoll_net *net, gcoll_status status, const char *format, ...) GCOLL_PRINTF(3, 4);

/* leave.c */
void gcoll_net_abort(gcoll_endpoint *endpoint, const gcoll_note *note, int64_t limit_ms);
void gcoll_net_close(gcoll_endpoint *endpoint, int64_t limit_ms);
void gcoll_net_abandon(gcoll_endpoint *endpoint);
/* Frees an endpoint that was opened in part. */
void gcoll_net_destroy(gcoll_net *net);
/* Closes the endpoint, which has no branches. */
void gcoll_net_end(gcoll_net *net, int64_t limit_ms);
/* Makes the event loop, unless it exists. GCOLL_ERR_NO_MEMORY: too few descriptors are left. */
gcoll_status gcoll_net_start(gcoll_net *net);
/* Closes the spare descriptors. */
void gcoll_net_drop_spare(gcoll_net *net);

/* list_interfaces.c */
void gcoll_net_list(gcoll_device_fn fn, void *arg);

#endif
