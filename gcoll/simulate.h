/*
 * gcoll/simulate.h - the simulator: runs the plans of all ranks in virtual time.
 *
 * The simulator keeps the rules of gcoll/plan.h and the order of the engine. It charges time for messages,
 * reductions and copies by the alpha-beta-gamma model of the literature, with ports. docs/simulator.md has
 * the formulas, and lists what the model neglects.
 *
 *     gcoll_simulate_options options;
 *     gcoll_simulation *simulation;
 *     gcoll_simulate_options_init(&options);
 *     options.network.alpha = 5e-6;
 *     options.network.beta = 1e-10;
 *     options.type_bytes = 4;
 *     if (gcoll_simulate(plans, size, &options, &simulation) == GCOLL_OK)
 *         printf("%g s\n", simulation->time);
 *     gcoll_simulation_destroy(simulation);
 *
 * All times are in seconds. Each duration is rounded to whole picoseconds. The same input gives the same
 * result, bit by bit, on every machine.
 */
#ifndef GCOLL_SIMULATE_H
#define GCOLL_SIMULATE_H

#include "gcoll/plan.h"

GCOLL_BEGIN_DECLS

#define GCOLL_SIMULATE_NOBODY    UINT32_MAX /* no peer, no port */
#define GCOLL_SIMULATE_MAX_PORTS 1024u

/* The cost of messages between two ranks. A message of m bytes arrives alpha + beta m after its start. It
 * holds a send port of its sender for that time less `latency`, and a receive port of its receiver for as
 * long, `latency` later. With latency 0 this is the one-port linear model of the papers. Messages of one
 * round between the same two ranks are pieces of one message, unless splitting cut them: only the first to
 * start pays alpha - latency. */
typedef struct gcoll_simulate_link {
    double alpha;   /* s, time of an empty message */
    double beta;    /* s per byte */
    double latency; /* s, 0 to alpha: the part of alpha that holds no port */
} gcoll_simulate_link;

/* Links that differ from pair to pair. Every rank is at a place, which is a host, or the rank alone. There is
 * a link from each place to each other one, and one within each place. */
typedef struct gcoll_network gcoll_network;

#define GCOLL_NETWORK_MAX_PLACES 1024u

/* Makes a network of `ranks` ranks, 1 to 1048576. place: NULL, each rank is at the place of its own number;
 * or by rank, below GCOLL_NETWORK_MAX_PLACES, copied. All links are `link` until gcoll_network_set changes
 * them. Takes 24 bytes for each pair of places. INVALID: a place beyond the limit, or times that a
 * gcoll_simulate_link must not have; NO_MEMORY. Any thread; the caller destroys the network. */
GCOLL_API gcoll_status gcoll_network_create(uint32_t ranks, const uint32_t *place,
                                            const gcoll_simulate_link *link, gcoll_network **network);
/* Sets the link from one place to another, and only in this direction; with from = to, the link within a
 * place. INVALID: no rank is at such a place, or the link's times. Not while a simulation uses the network.
 */
GCOLL_API gcoll_status gcoll_network_set(gcoll_network *network, uint32_t from, uint32_t to,
                                         const gcoll_simulate_link *link);
/* Gives the link by which messages go from rank `sender` to rank `receiver`. INVALID: the network has no such
 * rank. */
GCOLL_API gcoll_status gcoll_network_link(const gcoll_network *network, uint32_t sender, uint32_t receiver,
                                          gcoll_simulate_link *link);
/* Frees a network. NULL is allowed. */
GCOLL_API void gcoll_network_destroy(gcoll_network *network);

/* The cost of device steps: the copies and reductions of staged plans. A device does one copy to the host,
 * one copy from the host, and one step within its memory at a time, each in the order in which its rank
 * begins them. The rank's processor and ports are free meanwhile. A device belongs to one rank, also if ranks
 * share a host. */
typedef struct gcoll_simulate_device {
    double alpha;   /* s, of each step, from its begin */
    double in, out; /* s per byte copied to the host, and from the host */
    double within; /* s per byte read or written by a step within devices: 2 a byte copied or divided, k + 1 a
                    * byte that k buffers are reduced to */
} gcoll_simulate_device;

/* Options of gcoll_simulate. Zero is the default of every field. Numbers are finite and not negative. */
typedef struct gcoll_simulate_options {
    size_t struct_size;          /* set by gcoll_simulate_options_init */
    gcoll_simulate_link network; /* between ranks; with nodes, between ranks of different nodes */
    double gamma;                /* s per byte reduced */
    double copy;                 /* s per byte copied or divided on a rank */
    uint32_t type_bytes;         /* bytes of an element; 0: 1 */
    uint32_t ports;              /* of each rank, to send, and as many to receive; 0: 1 */
    uint64_t eager_bytes;        /* a message up to this size may start before its receive is posted; it is
                                  * then held at the receiver and costs `copy` a byte more. 0: every message,
                                  * empty ones too, waits for its receive */

    /* Nodes: ranks with the same number share a host. node NULL and ranks_per_node 0: every rank has its own.
     */
    const uint32_t *node;     /* NULL, or by rank */
    uint32_t ranks_per_node;  /* the node of rank r is r / ranks_per_node; 0: see `node`; not both */
    gcoll_simulate_link host; /* between ranks of one node; ignored without nodes */
    uint32_t node_ports; /* of a node, to send, and as many to receive, for messages to and from other nodes;
                          * each message also holds a port of its rank. 0: no limit */
    uint32_t
        memory_ports; /* of a node's memory, for messages within the node: so many at the same time, each with
                       * the bandwidth of `host`; a message also holds ports of its ranks. 0: no limit */

    const double *slowness; /* NULL, or a factor > 0 for each rank, by which its reductions and copies take
                             * longer, and its messages without their latency, by the slower of both ends */
    const double *arrival;  /* s, when each rank enters; NULL: all at 0 */
    bool timeline;          /* true: fill in `events` */
    gcoll_simulate_device device; /* `slowness` does not slow it down */
    const gcoll_network *links;   /* NULL, or the link of each pair of at least so many ranks as there are
                                   * plans, in the place of `network` and `host`; borrowed. Ports are shared
                                   * by `node` or `ranks_per_node`, whatever the places */
} gcoll_simulate_options;

/* Fills `options` with defaults. Always call it first: later versions add fields. */
GCOLL_API void gcoll_simulate_options_init(gcoll_simulate_options *options);

/* Kinds of events: what takes time. */
typedef enum gcoll_simulate_kind {
    GCOLL_SIMULATE_ARRIVAL = 0, /* from 0 until the rank enters; on the critical path only */
    GCOLL_SIMULATE_SEND = 1, /* a message holds the send port; on the path, only as long as that mattered */
    GCOLL_SIMULATE_RECV =
        2, /* a message holds the receive port; on the path, from its start to its arrival */
    GCOLL_SIMULATE_REDUCE = 3, /* a reduction of received or local data */
    GCOLL_SIMULATE_COPY = 4,   /* a copy; also one of a message that was held at the receiver */
    GCOLL_SIMULATE_DIVIDE = 5,
    /* Of devices: */
    GCOLL_SIMULATE_COPY_IN = 6,  /* from a device to the host */
    GCOLL_SIMULATE_COPY_OUT = 7, /* from the host to a device */
    GCOLL_SIMULATE_FOLD = 8,     /* a reduction of buffers */
    GCOLL_SIMULATE_DEVICE_COPY = 9,
    GCOLL_SIMULATE_DEVICE_DIVIDE = 10,
    GCOLL_SIMULATE_KIND_COUNT = 11
} gcoll_simulate_kind;

/* Why an event did not begin earlier. */
typedef enum gcoll_simulate_reason {
    GCOLL_SIMULATE_BY_ARRIVAL = 0,    /* it waited until the rank entered */
    GCOLL_SIMULATE_BY_DEPENDENCY = 1, /* it waited for an older step of the rank, or for a message */
    GCOLL_SIMULATE_BY_WINDOW = 2,     /* it waited for an older round of the rank */
    GCOLL_SIMULATE_BY_PEER = 3,       /* it waited for the other end of the message */
    GCOLL_SIMULATE_BY_PORT = 4,       /* it waited for a port */
    GCOLL_SIMULATE_BY_PROCESSOR = 5,  /* it waited for the rank's processor */
    GCOLL_SIMULATE_BY_DEVICE = 6,     /* it waited for an earlier step of that kind on the device */
    GCOLL_SIMULATE_REASON_COUNT = 7
} gcoll_simulate_reason;

/* Return the name of a kind of event or of a reason: "send", ... or "dependency", ...; "?" for any other
 * number. */
GCOLL_API const char *gcoll_simulate_kind_name(gcoll_simulate_kind kind);
GCOLL_API const char *gcoll_simulate_reason_name(gcoll_simulate_reason reason);

/* An entry of the timeline. */
typedef struct gcoll_simulate_event {
    double ready;      /* when its own rank could have begun it; until `begin` it waits for others */
    double begin, end; /* SEND and RECV: the time in which they hold the port */
    uint64_t bytes;
    uint32_t rank, step; /* step: as gcoll_plan_print numbers them */
    uint32_t peer;       /* SEND, RECV; else GCOLL_SIMULATE_NOBODY */
    uint32_t port;       /* SEND, RECV: port of the rank, from 0; else GCOLL_SIMULATE_NOBODY */
    uint32_t device;     /* COPY_IN and later kinds; else GCOLL_SIMULATE_NOBODY */
    gcoll_simulate_kind kind;
} gcoll_simulate_event;

/* A piece of the critical path. rank and step are those whose end mattered: the receiver's for RECV. */
typedef struct gcoll_simulate_piece {
    double begin, end;
    uint32_t rank, step; /* step: GCOLL_SIMULATE_NOBODY for an arrival */
    uint32_t peer;       /* SEND, RECV; else GCOLL_SIMULATE_NOBODY */
    gcoll_simulate_kind kind;
    gcoll_simulate_reason reason; /* why it began when the next piece ended */
} gcoll_simulate_piece;

/* The result of a simulation. */
typedef struct gcoll_simulation {
    double time;         /* when the last rank is done */
    double mean_elapsed; /* mean over ranks of the time from own arrival to finish */
    uint32_t size;
    const double *finish;           /* by rank */
    const uint64_t *sent_bytes;     /* by rank */
    const uint64_t *received_bytes; /* by rank */
    /* The critical path, from the end back to 0 without a gap: path[0].end is `time`, each piece begins where
     * the next one ends, the last one begins at 0. Pieces that take no time are left out. */
    const gcoll_simulate_piece *path;
    uint64_t path_count;
    /* The timeline, with options.timeline, else NULL: in order of `begin`, then rank, then step. Events that
     * take no time are in it, fences are not. */
    const gcoll_simulate_event *events;
    uint64_t event_count;
} gcoll_simulation;

/* Simulates the plans of all ranks; plans[r] is the plan of rank r, all of one size, collective and count.
 * options: costs, and what is simulated. *simulation: the result, which the caller frees. Takes
 * O(S log S) time and O(S) memory for S steps of all ranks (but see docs/simulator.md on many messages that
 * wait for one port). Pure: no clock, no I/O; any thread. Errors: NO_MEMORY; INVALID, which names the option,
 * or rank and step: a message without a partner or of another size, a deadlock, a time beyond 100 days. */
GCOLL_API gcoll_status gcoll_simulate(const gcoll_plan *const *plans, uint32_t size,
                                      const gcoll_simulate_options *options, gcoll_simulation **simulation);
/* Frees the result of a simulation. NULL is allowed. */
GCOLL_API void gcoll_simulation_destroy(gcoll_simulation *simulation);

GCOLL_END_DECLS

#endif
