/*
 * gcoll/plan/simulate_internal.h - what the files of the simulator share.
 *
 *   simulate.c          the entry: options, memory, results
 *   simulate_nodes.c    who shares a host, and what a message takes
 *   network.c           links that differ from pair to pair
 *   simulate_heap.c     a heap of what is to come
 *   simulate_run.c      events and ranks: the engine's rules in virtual time
 *   simulate_ports.c    which message gets which port when
 *   simulate_devices.c  what the devices of a rank do, and what that takes
 *   simulate_path.c     the critical path and the timeline, from what the run noted
 *
 * Time counts in picoseconds, so that equal times are equal whatever they were added up from: what happens
 * at one instant is handled together, and who is first does not hang on rounding.
 */
#ifndef GCOLL_SIMULATE_INTERNAL_H
#define GCOLL_SIMULATE_INTERNAL_H

#include "gcoll/plan/verify_internal.h"
#include "gcoll/simulate.h"

#define GCOLL_SIM_NONE  UINT32_MAX
#define GCOLL_SIM_LIMIT INT64_C(8640000000000000000) /* ps: 100 days; fits with room to spare */

/* ---- A heap, smallest (time, tie) first ------------------------------------------------------------- */

typedef struct gcoll_sim_entry {
    int64_t time;
    uint64_t tie;
    uint32_t what, id;
} gcoll_sim_entry;

typedef struct gcoll_sim_heap {
    gcoll_sim_entry *at;
    uint64_t count, room;
} gcoll_sim_heap;

gcoll_status gcoll_sim_heap_push(gcoll_sim_heap *heap, gcoll_sim_entry entry);
gcoll_sim_entry gcoll_sim_heap_pop(gcoll_sim_heap *heap); /* not empty */

/* ---- The state ---------------------------------------------------------------------------------- */

enum { GCOLL_SIM_IDLE = 0, GCOLL_SIM_POSTED, GCOLL_SIM_DONE };

/* A step, all ranks' numbered through. A message is known by its SEND. */
typedef struct gcoll_sim_step {
    int64_t ready;   /* when it may begin by the plan's rules */
    int64_t posted;  /* when its rank began it */
    int64_t matched; /* SEND: when the message may start but for ports */
    int64_t start;   /* SEND: when it does */
    int64_t moved;   /* SEND: when it has left; RECV, RECV_REDUCE: when it has come; -1 before */
    int64_t work;    /* when the processor takes it up: a local step, or a message that has moved */
    int64_t end;
    uint32_t rank;
    uint32_t missing;     /* dependencies not yet done */
    uint32_t order;       /* among what its rank posted at that instant; SEND, once matched: of both ends */
    uint32_t next, child; /* the list or heap that it is in */
    uint32_t cause;       /* what `posted` followed: a step; NONE: the rank's arrival */
    uint32_t port_cause;  /* SEND that started after it was matched: the message that freed the port */
    uint32_t work_cause;  /* the step that kept the processor until `work`; NONE if none did */
    uint32_t port;        /* SEND, RECV, RECV_REDUCE */
    uint32_t lane;        /* of steps that a device does: in sim->lanes; else NONE */
    uint32_t whole; /* SEND: the first, by place, of the pieces of one message; itself if there is one */
    uint8_t reason; /* gcoll_simulate_reason of `posted` */
    uint8_t state;
    bool started; /* SEND: one of the pieces of which it is the first has its ports, or had */
} gcoll_sim_step;

typedef struct gcoll_sim_list {
    uint32_t head, tail;
} gcoll_sim_list;

/* A rank: one thread that posts messages, does local steps, and takes up messages that have moved. */
typedef struct gcoll_sim_rank {
    gcoll_sim_list ready; /* steps that may begin: served first, as the engine does */
    gcoll_sim_list moved; /* messages that have left or come */
    uint32_t current;     /* the step that the processor is at; NONE */
    uint32_t latest;      /* the last step that took the processor any time; NONE */
    uint32_t oldest;      /* the first unfinished step, within the rank */
    uint32_t released;    /* steps before this one, within the rank, are within the window */
    uint32_t unfinished;
    uint32_t last_step; /* the one that ended last; NONE */
    uint32_t posts;     /* at `posts_time` */
    int64_t posts_time;
    int64_t arrival, finish;
    bool entered, awake;
} gcoll_sim_rank;

/* A port is held up to free_at: the sender's clock for send ports, the receiver's for receive ports. */
typedef struct gcoll_sim_slot {
    int64_t free_at;
    uint32_t message; /* that holds or held it; NONE */
} gcoll_sim_slot;

/* The ports of a rank or node in one direction. */
typedef struct gcoll_sim_ports {
    gcoll_sim_slot *slots;
    uint32_t count;
    uint32_t waiting; /* a heap of messages that found them held; NONE */
    uint32_t listed;  /* the waiting message that they stand in sim->candidates with; NONE */
} gcoll_sim_ports;

/* What a device does one at a time: copies to the host, copies from there, or steps within its memory. */
typedef struct gcoll_sim_lane {
    gcoll_sim_list waiting;
    uint32_t current; /* the step that it is at; NONE */
    uint32_t latest;  /* the last one that took it any time; NONE */
} gcoll_sim_lane;

/* What a message takes. */
typedef struct gcoll_sim_price {
    int64_t latency, hold;
} gcoll_sim_price;

typedef struct gcoll_sim {
    gcoll_verifier v; /* plans, size, base, partner */
    gcoll_simulate_options options;
    uint32_t *node;    /* by rank: 0 .. nodes-1; NULL: every rank its own */
    uint32_t nodes;    /* that have ports: 0 without a limit */
    uint32_t memories; /* of nodes, that have ports: the same */
    bool mixed;        /* messages differ in latency */
    gcoll_sim_step *steps;
    gcoll_sim_rank *ranks;
    uint32_t *awake; /* ranks that have something to do now */
    uint32_t awake_count;
    gcoll_sim_heap events;
    gcoll_sim_heap candidates; /* ports that may take a message now, by their first waiting one */
    gcoll_sim_list matched;    /* messages that were matched now */
    gcoll_sim_ports *ports;    /* ranks' send, ranks' receive, nodes' send, nodes' receive, nodes' memories */
    gcoll_sim_slot *slots;
    gcoll_sim_lane *lanes; /* three a device */
    uint64_t lane_count, lane_room;
    int64_t now;
    uint64_t pushed; /* events so far */
} gcoll_sim;

static inline const gcoll_step *gcoll_sim_plan_step(const gcoll_sim *sim, uint32_t id) {
    uint32_t rank = sim->steps[id].rank;
    return &sim->v.plans[rank]->steps[id - sim->v.base[rank]];
}
static inline uint32_t gcoll_sim_local(const gcoll_sim *sim, uint32_t id) {
    return (uint32_t)(id - sim->v.base[sim->steps[id].rank]);
}
/* The other end of a message's step. */
static inline uint32_t gcoll_sim_partner(const gcoll_sim *sim, uint32_t id) {
    return (uint32_t)(sim->v.base[gcoll_sim_plan_step(sim, id)->peer] + sim->v.partner[id]);
}
static inline uint64_t gcoll_sim_bytes(const gcoll_sim *sim, uint32_t id) {
    return gcoll_sim_plan_step(sim, id)->count * sim->options.type_bytes; /* checked at the start */
}
static inline bool gcoll_sim_is_eager(const gcoll_sim *sim, uint32_t id) {
    return sim->options.eager_bytes > 0 && gcoll_sim_bytes(sim, id) <= sim->options.eager_bytes;
}
/* What a message was held for, on its way in: it came before its receive was posted. */
static inline bool gcoll_sim_is_early(const gcoll_sim_step *receive) {
    return receive->posted > receive->moved;
}

/* INVALID, which names the field of `name`, if a time is negative or not finite, or the latency above alpha.
 */
gcoll_status gcoll_sim_check_link(const char *name, const gcoll_simulate_link *link);

/* Zeroed; at least one element. NULL with the error text set. */
void *gcoll_sim_allocate(uint64_t count, size_t element_bytes);

static inline void gcoll_sim_append(gcoll_sim *sim, gcoll_sim_list *list, uint32_t id) {
    sim->steps[id].next = GCOLL_SIM_NONE;
    if (list->head == GCOLL_SIM_NONE)
        list->head = id;
    else
        sim->steps[list->tail].next = id;
    list->tail = id;
}
static inline uint32_t gcoll_sim_take(gcoll_sim *sim, gcoll_sim_list *list) {
    uint32_t id = list->head;
    list->head = sim->steps[id].next;
    return id;
}

/* ---- simulate_nodes.c --------------------------------------------------------------------------- */

/* Fills in node and nodes. */
gcoll_status gcoll_sim_nodes(gcoll_sim *sim);
/* 0: over the network, 1: within a host. */
static inline int gcoll_sim_level(const gcoll_sim *sim, uint32_t sender, uint32_t receiver) {
    return sim->node && sim->node[sender] == sim->node[receiver];
}
/* Fills in the steps' `whole`. */
gcoll_status gcoll_sim_pieces(gcoll_sim *sim);
/* Seconds as picoseconds; INVALID, naming the step, if the run would get longer than the limit. */
gcoll_status gcoll_sim_duration(const gcoll_sim *sim, uint32_t id, double seconds, int64_t *ps);
gcoll_status gcoll_sim_price_message(const gcoll_sim *sim, uint32_t send, gcoll_sim_price *price);
/* What a step takes of its rank's processor, once moved if it is a message. */
gcoll_status gcoll_sim_price_work(const gcoll_sim *sim, uint32_t id, int64_t *ps);

/* ---- network.c ---------------------------------------------------------------------------------- */

uint32_t gcoll_network_ranks(const gcoll_network *network);
bool gcoll_network_latencies_differ(const gcoll_network *network);
/* The link from one rank to another; both are ranks of the network. */
const gcoll_simulate_link *gcoll_network_at(const gcoll_network *network, uint32_t sender, uint32_t receiver);

/* ---- simulate_devices.c -------------------------------------------------------------------------- */

/* Fills in lanes, and the steps'. */
gcoll_status gcoll_sim_lanes(gcoll_sim *sim);
/* What a step that a device does is, and whose. */
gcoll_simulate_kind gcoll_sim_device_kind(const gcoll_sim *sim, uint32_t id);
uint32_t gcoll_sim_device(const gcoll_sim *sim, uint32_t id);
/* What it takes of its lane. */
gcoll_status gcoll_sim_price_device(const gcoll_sim *sim, uint32_t id, int64_t *ps);

/* ---- simulate_run.c, simulate_ports.c --------------------------------------------------------------- */

enum {
    GCOLL_SIM_ENTER,  /* id is a rank */
    GCOLL_SIM_LEFT,   /* a message has left its sender, ... */
    GCOLL_SIM_CAME,   /* ... and come to its receiver */
    GCOLL_SIM_FREED,  /* the receive ports that a message waits for can be had again, by its latency */
    GCOLL_SIM_WORKED, /* id is the step that its processor has done */
    GCOLL_SIM_STAGED, /* id is the step that a device has done */
};

/* An event `after` from now; not later than the limit. */
gcoll_status gcoll_sim_push(gcoll_sim *sim, int64_t after, uint32_t what, uint32_t id);
/* Runs all to the end, or names the deadlock. */
gcoll_status gcoll_sim_run(gcoll_sim *sim);

gcoll_status gcoll_sim_ports_create(gcoll_sim *sim);
/* The ports of a message may have become free, at its sender or receiver. */
gcoll_status gcoll_sim_ports_freed(gcoll_sim *sim, uint32_t send, bool at_receiver);
/* Starts what can start now. */
gcoll_status gcoll_sim_dispatch(gcoll_sim *sim);

/* ---- simulate_path.c ----------------------------------------------------------------------------- */

gcoll_status gcoll_sim_path(const gcoll_sim *sim, gcoll_simulation *result);
gcoll_status gcoll_sim_timeline(const gcoll_sim *sim, gcoll_simulation *result);

static inline double gcoll_sim_seconds(int64_t ps) {
    return (double)ps / 1e12;
}

#endif
