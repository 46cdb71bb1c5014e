/*
 * gcoll/simulate.h - what plans would cost: all ranks' plans run in virtual time.
 *
 * The simulator obeys the rules of gcoll/plan.h and the order of the engine, and charges time for messages,
 * reductions and copies by the alpha-beta-gamma model of the literature, with ports. docs/simulator.md has
 * the model with its formulas, and what it neglects.
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
 * All times are in seconds, and counted in whole picoseconds inside: each duration is rounded to that. Same
 * input, same result, to the bit and on every machine.
 */
#ifndef GCOLL_SIMULATE_H
#define GCOLL_SIMULATE_H

#include "gcoll/plan.h"

GCOLL_BEGIN_DECLS

#define GCOLL_SIMULATE_NOBODY    UINT32_MAX /* no peer, no port */
#define GCOLL_SIMULATE_MAX_PORTS 1024u

/* What messages between two ranks take. One of m bytes arrives alpha + beta m after its start; for all that
 * time but `latency` it holds a send port of its sender and, `latency` later, a receive port of its receiver.
 * With latency 0 this is the one-port linear model of the papers. Messages of one round between the same two
 * ranks are pieces of one message (unless splitting cut them): the first to start pays alpha - latency, the
 * others do not. */
typedef struct gcoll_simulate_link {
    double alpha;   /* s, an empty message from end to end */
    double beta;    /* s per byte */
    double latency; /* s, 0 to alpha: the part of alpha that holds no port */
} gcoll_simulate_link;

/* What steps in the memory of devices take: the copies and reductions of staged plans. A device does one copy
 * to the host, one from there, and one step within its memory at a time, each in the order in which its rank
 * begins them; the rank's processor and ports are free meanwhile. Devices belong to one rank: those of ranks
 * that share a host are not the same. */
typedef struct gcoll_simulate_device {
    double alpha;   /* s, of each step, from when it is begun */
    double in, out; /* s per byte copied to the host, and from there */
    double within; /* s per byte read or written by a step within devices: 2 a byte copied or divided, k + 1 a
                    * byte that k buffers are reduced to */
} gcoll_simulate_device;

/* Zero is the default of every field. Numbers are finite and not negative. */
typedef struct gcoll_simulate_options {
    size_t struct_size;          /* set by gcoll_simulate_options_init */
    gcoll_simulate_link network; /* between ranks (of different nodes, where there are nodes) */
    double gamma;                /* s per byte reduced */
    double copy;                 /* s per byte copied or divided on a rank */
    uint32_t type_bytes;         /* of an element; 0: 1 */
    uint32_t ports;              /* each rank has so many to send and so many to receive; 0: 1 */
    uint64_t eager_bytes;        /* a message up to this size starts before its receive has been posted, is
                                  * held at the receiver and then costs `copy` a byte. 0 is no message: each
                                  * one, empty ones too, waits for its receive */

    /* Ranks with the same number share a host. Both NULL and 0: every rank has its own. */
    const uint32_t *node;     /* NULL, or by rank */
    uint32_t ranks_per_node;  /* node of rank r is r / ranks_per_node; 0: see `node`; not both */
    gcoll_simulate_link host; /* between ranks of one node; only read where there are nodes */
    uint32_t node_ports; /* of a node, to send and to receive, shared by its ranks' messages to and from other
                          * nodes, each of which also holds its rank's own port; 0: no limit */

    const double *slowness; /* NULL, or by rank, > 0: its reductions and copies take so many times longer, and
                             * its messages (but for their latency), by the slower of the two ends */
    const double *arrival;  /* NULL: all at 0; or by rank, when it enters, s */
    bool timeline;          /* fill in `events` */
    gcoll_simulate_device device; /* `slowness` does not slow it down */
} gcoll_simulate_options;

GCOLL_API void gcoll_simulate_options_init(gcoll_simulate_options *options);

/* What takes time. */
typedef enum gcoll_simulate_kind {
    GCOLL_SIMULATE_ARRIVAL = 0, /* on the path only: from 0 until the rank enters */
    GCOLL_SIMULATE_SEND = 1,    /* a message leaves (on the path: and no longer than that mattered) */
    GCOLL_SIMULATE_RECV = 2,    /* a message comes in (on the path: from its start to its arrival) */
    GCOLL_SIMULATE_REDUCE = 3,  /* received or local data are reduced */
    GCOLL_SIMULATE_COPY = 4,    /* also: a message is taken out of the buffer for early ones */
    GCOLL_SIMULATE_DIVIDE = 5,
    /* By devices: */
    GCOLL_SIMULATE_COPY_IN = 6,  /* from a device to the host */
    GCOLL_SIMULATE_COPY_OUT = 7, /* from the host to a device */
    GCOLL_SIMULATE_FOLD = 8,     /* buffers are reduced */
    GCOLL_SIMULATE_DEVICE_COPY = 9,
    GCOLL_SIMULATE_DEVICE_DIVIDE = 10,
    GCOLL_SIMULATE_KIND_COUNT = 11
} gcoll_simulate_kind;

/* Why something began when it did, and no earlier. */
typedef enum gcoll_simulate_reason {
    GCOLL_SIMULATE_BY_ARRIVAL = 0,    /* the rank entered */
    GCOLL_SIMULATE_BY_DEPENDENCY = 1, /* an older step of the rank was done, or the message had come */
    GCOLL_SIMULATE_BY_WINDOW = 2,     /* an older round of the rank was done */
    GCOLL_SIMULATE_BY_PEER = 3,       /* the other end was ready */
    GCOLL_SIMULATE_BY_PORT = 4,       /* another message freed a port */
    GCOLL_SIMULATE_BY_PROCESSOR = 5,  /* the rank's processor was free */
    GCOLL_SIMULATE_BY_DEVICE = 6,     /* the device had done what it was given before, of the same kind */
    GCOLL_SIMULATE_REASON_COUNT = 7
} gcoll_simulate_reason;

/* "send", ..., and "dependency", ...; "?" for a number that is none. */
GCOLL_API const char *gcoll_simulate_kind_name(gcoll_simulate_kind kind);
GCOLL_API const char *gcoll_simulate_reason_name(gcoll_simulate_reason reason);

typedef struct gcoll_simulate_event {
    double ready;      /* when its own rank could have begun it: the rest is waiting for others */
    double begin, end; /* SEND and RECV: while they hold the port */
    uint64_t bytes;
    uint32_t rank, step; /* step: as gcoll_plan_print numbers them */
    uint32_t peer;       /* SEND, RECV; else GCOLL_SIMULATE_NOBODY */
    uint32_t port;       /* of the rank, from 0, SEND, RECV; else GCOLL_SIMULATE_NOBODY */
    uint32_t device;     /* of COPY_IN and those that follow it; else GCOLL_SIMULATE_NOBODY */
    gcoll_simulate_kind kind;
} gcoll_simulate_event;

/* A piece of the critical path. `rank` and `step` are those whose end mattered: of the receiver for RECV. */
typedef struct gcoll_simulate_piece {
    double begin, end;
    uint32_t rank, step; /* step: GCOLL_SIMULATE_NOBODY for an arrival */
    uint32_t peer;       /* SEND, RECV; else GCOLL_SIMULATE_NOBODY */
    gcoll_simulate_kind kind;
    gcoll_simulate_reason reason; /* links it to the next piece */
} gcoll_simulate_piece;

typedef struct gcoll_simulation {
    double time;         /* when the last rank is done */
    double mean_elapsed; /* mean over ranks of (finish - own arrival) */
    uint32_t size;
    const double *finish;           /* by rank */
    const uint64_t *sent_bytes;     /* by rank */
    const uint64_t *received_bytes; /* by rank */
    /* From the end back to 0, without a gap: path[0].end is `time`, each piece begins where the next one
     * ends, the last one begins at 0. Pieces that take no time are left out. */
    const gcoll_simulate_piece *path;
    uint64_t path_count;
    /* With options.timeline, else NULL: in order of `begin`, then rank, then step. What takes no time is
     * there too, but not fences. */
    const gcoll_simulate_event *events;
    uint64_t event_count;
} gcoll_simulation;

/* Runs plans[0..size) (plans[r] is rank r's; same collective and count). O(S log S) time and O(S) memory
 * for S steps of all ranks (but see docs/simulator.md on many messages that wait for one port). Pure: no
 * clock, no I/O; any thread. Errors: INVALID names the option, or rank and step: a message without
 * partner or of another size, a deadlock, a time beyond 100 days; NO_MEMORY. */
GCOLL_API gcoll_status gcoll_simulate(const gcoll_plan *const *plans, uint32_t size,
                                      const gcoll_simulate_options *options, gcoll_simulation **simulation);
GCOLL_API void gcoll_simulation_destroy(gcoll_simulation *simulation);

GCOLL_END_DECLS

#endif
