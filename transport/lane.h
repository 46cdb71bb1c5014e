/*
 * transport/lane.h - what moves the bytes of messages between two ranks that have a session.
 *
 * A session (transport/session) knows who is there: it connects two ranks, watches whether the other is
 * alive, and tells of aborts and departures. Flow control (transport/flow) decides when a message may be
 * sent. A lane carries it. An endpoint has a port of each lane that it may use: a device, a queue of
 * completions. A session takes one lane, the first that both ranks offer in the order of the lower rank; the
 * lane then says when it stands, or refuses, and the session takes the next one. Messages wait until a lane
 * stands.
 *
 * A lane has a folder of its own, and a row in the table of transport/transports.c. A small one is
 * test/transport/pipe_lane.c.
 */
#ifndef GCOLL_LANE_H
#define GCOLL_LANE_H

#include "gcoll/base/text.h"
#include "transport/choice.h"
#include "transport/flow/flow.h"
#include "transport/transport.h"

/* Bytes of one word between the two ends of a lane. */
#define GCOLL_LANE_WORD_MAX 256

typedef struct gcoll_net gcoll_net;             /* an endpoint */
typedef struct gcoll_session gcoll_session;     /* its state for one peer; begins with a gcoll_flow */
typedef struct gcoll_lane_port gcoll_lane_port; /* what an endpoint has of a lane: the lane's own */

/* Lanes by number, as they travel. A number is never given to another lane. */
enum { GCOLL_LANE_TCP = 1, GCOLL_LANE_IBVERBS = 2, GCOLL_LANE_STRIPES = 3, GCOLL_LANE_SHM = 4 };

/* Signs of life that a lane can see; both grow. */
typedef struct gcoll_lane_sight {
    uint64_t heard; /* what came from the peer */
    uint64_t taken; /* what the peer's side acknowledged */
} gcoll_lane_sight;

typedef struct gcoll_lane gcoll_lane;

/* NULL: the lane has no use for it. All are called on the thread that drives the endpoint. */
struct gcoll_lane {
    const char *name;
    uint8_t number;
    /* Control frames and credit go by the session's own connection, as those of the lane tcp. */
    bool uses_stream;
    /* What it moves to other hosts is never encrypted. */
    bool is_clear;
    /* A lane that the options ask for by this one's name, and that is offered before it; NULL: none. */
    const gcoll_lane *(*wider)(const gcoll_endpoint_options *options);
    /* Lists the devices that it could use on this machine, or says why it has none. */
    void (*list)(gcoll_device_fn fn, void *arg);
    /* Whether this machine seems to have such a device: "auto" then takes the lane before tcp, if it can be
     * had. Costs little. */
    bool (*is_likely)(void);

    /* ---- The endpoint's port ---- */

    /* Errors: INVALID names an option; UNSUPPORTED or IO say what is missing. *port is closed then, too, if
     * set. */
    gcoll_status (*open)(gcoll_net *net, const gcoll_endpoint_options *options, gcoll_lane_port **port);
    /* All sessions have ended, and the loop still runs. */
    void (*close)(gcoll_lane_port *port);
    /* Or NULL: nothing is freed. Instead of `close`, in a forked child: frees what can be freed without
     * touching what the two processes share. */
    void (*forget)(gcoll_lane_port *port);
    /* Hands over what is held back. */
    void (*flush)(gcoll_lane_port *port);
    /* Moves what can be moved. Returns whether anything did. */
    bool (*poll)(gcoll_lane_port *port);
    /* A wait is about to sleep: from now on the descriptor that the lane gave to gcoll_net_watch becomes
     * readable when `poll` will find something. Polled once more afterwards. */
    void (*arm)(gcoll_lane_port *port);
    /* The descriptor was readable. */
    void (*disarm)(gcoll_lane_port *port);

    /* ---- A session ---- */

    const gcoll_flow_lane *flow;
    /* The session takes this lane. It calls gcoll_session_stand or gcoll_session_refuse, at once or later. */
    void (*begin)(gcoll_session *session, gcoll_lane_port *port);
    /* A word from the peer's end; only after `begin` on both sides. Not trusted. */
    void (*hear)(gcoll_session *session, const uint8_t *bytes, uint32_t count);
    /* Prepares to leave: what was sent is to arrive. Messages are dropped already. */
    void (*leave)(gcoll_session *session);
    /* Whether something that was sent before `leave` has not arrived yet. */
    bool (*is_leaving)(const gcoll_session *session);
    /* Forgets all messages: touches no memory of theirs from now on. */
    void (*drop)(gcoll_session *session);
    /* The same, and frees what it has of the session. Also of one that never stood. */
    void (*end)(gcoll_session *session);
    void (*look)(const gcoll_session *session, gcoll_lane_sight *sight);
    /* As in transport.h; only where it stands. */
    bool (*send_now)(gcoll_session *session, gcoll_message *message);
    bool (*recv_now)(gcoll_session *session, gcoll_message *message, uint32_t looks);
    /* Takes all that has come for this session; NULL: `poll` does, again and again. */
    void (*catch_up)(gcoll_session *session);
    /* Whether something that the peer sent before its goodbye may still be on its way, by connections of the
     * lane's own. Only where it stands. */
    bool (*is_coming)(const gcoll_session *session);
    /* The peer's kernel has our goodbye: nothing follows by connections of the lane's own, either. */
    void (*finish)(gcoll_session *session);
    /* Whether a posted receive, of which flow says that it may be taken back, may be so here too. */
    bool (*may_take_back)(const gcoll_session *session, const gcoll_message *message);

    /* ---- Memory: all, or none; as in transport.h ---- */

    gcoll_status (*attach)(gcoll_lane_port *port, void *data, uint64_t bytes, bool is_written,
                           uint64_t largest, void **handle);
    void (*detach)(gcoll_lane_port *port, void *handle);
    uint32_t (*device_memory)(const gcoll_lane_port *port);
    gcoll_status (*attach_device)(gcoll_lane_port *port, const gcoll_foreign_memory *memory, bool is_written,
                                  void **handle);
    gcoll_status (*expose)(gcoll_lane_port *port, void *data, uint64_t bytes, gcoll_exposed *exposed);
    void (*conceal)(gcoll_lane_port *port, gcoll_exposed *exposed);
    void (*access)(gcoll_session *session, gcoll_remote_access *access);

    /* What gcoll_context_lanes calls it where it stands; NULL: its name. */
    void (*describe)(const gcoll_session *session, gcoll_text *text);
    /* How often memory was registered with the port's device. */
    uint64_t (*registrations)(const gcoll_lane_port *port);
    /* Segments that TCP has sent again on connections of the lane's own. */
    uint64_t (*retransmitted)(const gcoll_session *session);
};

extern const gcoll_lane gcoll_lane_tcp;
extern const gcoll_lane_option gcoll_tcp_options[];
extern const gcoll_lane gcoll_lane_stripes;
extern const gcoll_lane gcoll_lane_ibverbs;
extern const gcoll_lane gcoll_lane_shm;

/* The number that the text of options.transport gives for an option of a lane, else `fallback`. */
int64_t gcoll_lane_option_number(const gcoll_endpoint_options *options, const char *lane, const char *option,
                                 int64_t fallback);
/* Messages that a lane sends unasked, and what is held of them for one peer: by the text of
 * options.transport, else by the endpoint's options. 0: the lane's default. */
void gcoll_lane_limits(const gcoll_endpoint_options *options, const char *lane, uint64_t *eager,
                       uint64_t *pool);
/* The same with the lane's defaults filled in, as flow control needs them: the pool is checked (INVALID), and
 * eager is at most eager_most, and less than half of the pool. */
gcoll_status gcoll_lane_set_limits(const gcoll_endpoint_options *options, const char *lane,
                                   uint64_t eager_default, uint64_t eager_most, uint64_t *eager,
                                   uint64_t *pool);

/* ---- What a lane may call ------------------------------------------------------------------------- */

uint32_t gcoll_session_rank(const gcoll_session *session);
gcoll_net *gcoll_session_net(const gcoll_session *session);
/* Whether the session has taken this lane, and has not left it for another. */
bool gcoll_session_has_taken(const gcoll_session *session, const gcoll_lane *lane);
/* What the lane that it has taken has of this session; NULL before it is set. */
void *gcoll_session_lane_state(const gcoll_session *session);
void gcoll_session_set_lane_state(gcoll_session *session, void *state);
/* Whether the peer is there and nothing is wrong with the session or the lane. */
bool gcoll_session_is_well(const gcoll_session *session);
/* The same, and this endpoint is not leaving either. */
bool gcoll_session_may_move(const gcoll_session *session);
/* The lane stands: messages may go. `own` and `peer`: what is taken unasked, and the pool. */
void gcoll_session_stand(gcoll_session *session, uint64_t own_eager, uint64_t own_pool, uint64_t peer_eager,
                         uint64_t peer_pool);
/* The lane cannot be had between these two, which may end what it has of the session. Not after it stood.
 * Without another lane the session fails by status and text, which is as in gcoll_events.failed. text NULL:
 * this rank lacks something, which the last error names; without another lane the endpoint fails by it. */
void gcoll_session_refuse(gcoll_session *session, gcoll_status status, const char *text);
/* Whether there is another lane to fall back on. The same on both sides until one of them refuses. */
bool gcoll_session_has_choice(const gcoll_session *session);
/* Sends a word to the peer's end of the lane. */
void gcoll_session_say(gcoll_session *session, const uint8_t *bytes, uint32_t count);
/* Writes what was said at once. Else the next progress does: lanes are flushed after connections. Not from
 * `hear`, or what a connection brings besides. */
void gcoll_session_flush(gcoll_session *session);
/* The session is broken; `failed` follows. text as in gcoll_events.failed. */
void gcoll_session_fail(gcoll_session *session, gcoll_status status, const char *format, ...)
    GCOLL_PRINTF(3, 4);
/* The lane broke. The session may know better why: if it hears nothing within ms, it fails by this text.
 * follows: a consequence, of which the cause may be told yet. */
void gcoll_session_doubt(gcoll_session *session, int64_t ms, bool follows, const char *format, ...)
    GCOLL_PRINTF(4, 5);
/* A message has moved: its `done` follows. */
void gcoll_session_complete(gcoll_session *session, gcoll_message *message);
/* A receive, at that. */
void gcoll_session_complete_receive(gcoll_session *session, gcoll_message *message);
/* A message without a receive came: ends a wait of a caller who peeks. */
void gcoll_session_unexpected(gcoll_session *session);
/* A fingerprint came. */
void gcoll_session_opened(gcoll_session *session, uint64_t stream, const uint8_t *fingerprint);
/* The next `count` bytes of a message came, which gcoll_flow_begin or gcoll_flow_fragment has found: puts
 * them into the receive's memory, its `consume`, or slot->held. The last ones finish a posted receive. bytes
 * NULL: the lane has put them into the receive's memory itself. */
void gcoll_session_accept(gcoll_session *session, gcoll_slot *slot, const uint8_t *bytes, uint64_t count);
/* The same, but the lane finishes the receive itself (gcoll_flow_finish). */
void gcoll_session_put(gcoll_session *session, gcoll_slot *slot, const uint8_t *bytes, uint64_t count);

/* What most lanes have in their gcoll_flow_lane: flow control reports to the session. */
#define GCOLL_LANE_REPORTS                                                                                   \
    .complete = gcoll_lane_report_complete, .unexpected = gcoll_lane_report_unexpected,                      \
    .fail = gcoll_lane_report_fail
void gcoll_lane_report_complete(gcoll_flow *flow, gcoll_message *message);
void gcoll_lane_report_unexpected(gcoll_flow *flow);
void gcoll_lane_report_fail(gcoll_flow *flow, gcoll_status status, const char *text);
/* ... and `deliver`, of lanes that use gcoll_session_accept. */
void gcoll_lane_deliver(gcoll_flow *flow, gcoll_slot *slot);

/* What concerns no single session, and is this rank's own: progress returns it from now on. The text is the
 * last error. */
void gcoll_net_fail(gcoll_net *net, gcoll_status status);
bool gcoll_net_is_leaving(const gcoll_net *net);
/* The state of a rank, if there is one. */
gcoll_session *gcoll_net_session(const gcoll_net *net, uint32_t rank);
/* Something moved data: for `moves`. */
void gcoll_net_moved(gcoll_net *net);
/* A lane may have worked for long: everything is looked at next, if it has not been for a tick of the clock.
 */
void gcoll_net_look_in_time(gcoll_net *net);
/* Whether that is due: a lane leaves what it need not take now for its next poll. */
bool gcoll_net_is_late(const gcoll_net *net);
/* The endpoint's port of a lane; NULL: it has none. */
gcoll_lane_port *gcoll_net_port(gcoll_endpoint *endpoint, const gcoll_lane *lane);
/* What this endpoint publishes, the preferred address first. */
const struct gcoll_address *gcoll_net_own_address(const gcoll_net *net);
/* From now on a wait that sleeps ends when fd is readable, and calls `disarm` of this lane. To be called
 * once, from `open` or `begin`. */
gcoll_status gcoll_net_watch(gcoll_net *net, const gcoll_lane *lane, int fd);

#endif
