/* transport/shm/lane.c - the lane's table and options; polling, sleeping. */
#include <stdlib.h>

#include "transport/shm/shm.h"

static const uint64_t ring_sizes[] = {GCOLL_RING_LEAST, 8 << 10,   16 << 10,  32 << 10,        64 << 10,
                                      128 << 10,        256 << 10, 512 << 10, GCOLL_RING_MOST, 0};

const gcoll_lane_option gcoll_shm_options[] = {
    GCOLL_LANE_EAGER_OPTION("32Ki"),
    GCOLL_LANE_POOL_OPTION,
    {.name = "ring_bytes",
     .form = GCOLL_LANE_SIZE,
     .least = GCOLL_RING_LEAST,
     .values = ring_sizes,
     .help = "memory for messages on their way to one peer; the smaller of two ranks' counts",
     .initial = "by the number of ranks"},
    {.name = "map_bytes",
     .form = GCOLL_LANE_SIZE,
     .least = 0,
     .most = INT64_C(1) << 40,
     .help = "messages from this size on that lie in memory of gcoll_memory_alloc are read there by the "
             "receiver; 0: none",
     .initial = "256Ki"},
    {.name = "pull_bytes",
     .form = GCOLL_LANE_SIZE,
     .least = 0,
     .most = INT64_C(1) << 40,
     .help = "messages from this size on that lie in any memory are read there by the receiver, where the "
             "kernel lets it; 0: none",
     .initial = "64Ki"},
    {.name = NULL},
};

/* ---- The port --------------------------------------------------------------------------------------- */

/* Whether there are others on this host is known when they meet. */
static bool is_likely(void) {
    return true;
}

static uint32_t usual_ring(uint64_t size) {
    uint32_t bytes = size <= 2 ? GCOLL_SHM_RING_OF_TWO : GCOLL_SHM_RING_MOST;
    while (bytes > GCOLL_SHM_RING_LEAST && bytes * size * size > GCOLL_SHM_RING_SQUARE)
        bytes /= 2;
    return bytes;
}

static gcoll_status read_options(gcoll_shm *shm, const gcoll_endpoint_options *options) {
    if (options->checksum)
        return gcoll_error(GCOLL_ERR_UNSUPPORTED,
                           "options.checksum: is 1; allowed is 0 over shm, whose messages leave no memory");
    const int64_t ring = gcoll_lane_option_number(options, "shm", "ring_bytes", 0);
    shm->ring_bytes = ring > 0 ? (uint32_t)ring : usual_ring(options->size);
    shm->map_bytes =
        (uint64_t)gcoll_lane_option_number(options, "shm", "map_bytes", (int64_t)GCOLL_SHM_MAP_BYTES);
    shm->pull_bytes =
        (uint64_t)gcoll_lane_option_number(options, "shm", "pull_bytes", (int64_t)GCOLL_SHM_PULL_BYTES);
    shm->past_bytes = gcoll_shm_past_bytes(options->size);
    return gcoll_lane_set_limits(options, "shm", GCOLL_SHM_EAGER_BYTES, GCOLL_SHM_EAGER_MOST,
                                 &shm->eager_bytes, &shm->pool_bytes);
}

static gcoll_status open_port(gcoll_net *net, const gcoll_endpoint_options *options, gcoll_lane_port **port) {
    gcoll_shm *shm = calloc(1, sizeof *shm);
    if (!shm)
        return gcoll_error(GCOLL_ERR_NO_MEMORY, "no memory for an endpoint");
    shm->net = net;
    shm->rank = options->rank;
    shm->fd = -1;
    shm->limit_ms = options->connect_timeout_ms;
    *port = (gcoll_lane_port *)(void *)shm;
    return read_options(shm, options);
}

static void close_port(gcoll_lane_port *port) {
    gcoll_shm *shm = gcoll_shm_of(port);
    shm->outputs = NULL;
    for (gcoll_shm_pair *pair = shm->pairs; pair; pair = pair->next)
        pair->in_outputs = false;
    gcoll_shm_sweep(shm); /* all have ended */
    gcoll_shm_door_close(shm);
    free(shm->piece);
    free(shm);
}

/* The memory is not mapped in a forked child. */
static void forget(gcoll_lane_port *port) {
    for (gcoll_shm_pair *pair = gcoll_shm_of(port)->pairs; pair; pair = pair->next) {
        pair->state = GCOLL_SHM_ENDED;
        gcoll_shm_end_blocks(pair, false);
    }
    close_port(port);
}

static bool write_one(gcoll_shm_pair *pair) {
    const bool moved = gcoll_shm_write(pair);
    if (gcoll_shm_moves(pair))
        gcoll_shm_ring_bell(pair);
    return moved;
}

static void flush(gcoll_lane_port *port) {
    gcoll_shm *shm = gcoll_shm_of(port);
    gcoll_shm_pair *pair = shm->outputs;
    shm->outputs = NULL;
    while (pair) {
        gcoll_shm_pair *next = pair->next_output;
        pair->in_outputs = false;
        if (pair->state == GCOLL_SHM_STANDS) {
            write_one(pair);
            if (gcoll_shm_has_output(pair))
                gcoll_shm_want_output(pair);
        }
        pair = next;
    }
}

/* ---- Polling and sleeping --------------------------------------------------------------------------- */

/* Says of this rank to all peers whether it sleeps. */
static void say_asleep(gcoll_shm *shm, bool sleeps) {
    shm->is_armed = shm->looks_once_more = sleeps;
    for (gcoll_shm_pair *pair = shm->pairs; pair; pair = pair->next) {
        if (pair->state != GCOLL_SHM_STANDS)
            continue;
        pair->sleeps &= ~(uint32_t)(GCOLL_RING_COUNTS - 1);
        if (sleeps) {
            pair->sleeps += GCOLL_RING_COUNTS;
            pair->sleeps |= GCOLL_RING_SLEEPS | (gcoll_shm_has_output(pair) ? GCOLL_RING_WANTS_ROOM : 0U);
        }
        __atomic_store_n(&gcoll_ring_side_of(pair->memory, pair->which)->sleeps, pair->sleeps,
                         __ATOMIC_RELAXED);
    }
    if (sleeps)
        gcoll_ring_fence(); /* before the last look: see ring.h */
}

static void arm(gcoll_lane_port *port) {
    say_asleep(gcoll_shm_of(port), true);
}

static void disarm(gcoll_lane_port *port) {
    gcoll_shm *shm = gcoll_shm_of(port);
    gcoll_shm_door_read(shm);
    if (shm->is_armed)
        say_asleep(shm, false);
}

static bool write_and_ring(gcoll_shm_pair *pair) {
    const bool moved = gcoll_shm_has_output(pair) && gcoll_shm_write(pair);
    if (gcoll_shm_moves(pair))
        gcoll_shm_ring_bell(pair);
    return moved;
}

static bool poll_one(gcoll_shm_pair *pair) {
    bool moved = false;
    if (pair->state == GCOLL_SHM_SENDS && gcoll_session_may_move(pair->session))
        gcoll_shm_send_again(pair);
    if (pair->state != GCOLL_SHM_STANDS)
        return false;
    if (gcoll_ring_has_frame(&pair->in))
        moved = gcoll_shm_read(pair, false);
    if (pair->pulls.first) { /* that takes a while, in which the peer is to have what it waits for */
        write_and_ring(pair);
        if (gcoll_shm_moves(pair))
            moved = gcoll_shm_pull_some(pair) || moved;
    }
    if (pair->pulls.lent.first && gcoll_shm_moves(pair))
        moved = gcoll_shm_end_lent(pair) || moved;
    if (pair->blocks.lent.count > 0 && pair->blocks.freed != gcoll_blocks_freed())
        gcoll_shm_tell_freed(pair);
    return write_and_ring(pair) || moved;
}

static bool poll_port(gcoll_lane_port *port) {
    gcoll_shm *shm = gcoll_shm_of(port);
    bool moved = false;
    if (shm->is_armed && !shm->looks_once_more) /* it has slept */
        say_asleep(shm, false);
    if (shm->has_ended)
        gcoll_shm_sweep(shm);
    for (gcoll_shm_pair *next, *pair = shm->pairs; pair; pair = next) {
        next = pair->next;
        moved = poll_one(pair) || moved;
    }
    shm->looks_once_more = false;
    if (shm->is_armed && moved)
        say_asleep(shm, false);
    return moved;
}

/* ---- A session -------------------------------------------------------------------------------------- */

static void look(const gcoll_session *session, gcoll_lane_sight *sight) {
    const gcoll_shm_pair *pair = gcoll_session_lane_state(session);
    const uint64_t taken =
        __atomic_load_n(&gcoll_ring_side_of(pair->memory, 1 - pair->which)->taken, __ATOMIC_RELAXED);
    const uint64_t pulled =
        __atomic_load_n(&gcoll_ring_side_of(pair->memory, 1 - pair->which)->pulled_bytes, __ATOMIC_RELAXED);
    const uint64_t lent = pair->pulls.lent_bytes;
    /* What it cannot have taken is found out when room is needed. */
    *sight = (gcoll_lane_sight){.heard = pair->in.read + pair->pulls.bytes,
                                .taken = (taken <= pair->out.written ? taken : pair->out.written) +
                                         (pulled < lent ? pulled : lent)};
}

/* All that was there when the news came fits into the ring. Messages that the peer has lent do not count: it
 * has them back. */
static void catch_up(gcoll_session *session) {
    gcoll_shm_pair *pair = gcoll_session_lane_state(session);
    if (pair && gcoll_shm_moves(pair)) {
        gcoll_shm_read(pair, true);
        gcoll_shm_end_lent(pair);
    }
}

const gcoll_lane gcoll_lane_shm = {
    .name = "shm",
    .number = GCOLL_LANE_SHM,
    .is_likely = is_likely,
    .open = open_port,
    .close = close_port,
    .forget = forget,
    .flush = flush,
    .poll = poll_port,
    .arm = arm,
    .disarm = disarm,
    .flow = &gcoll_shm_flow,
    .begin = gcoll_shm_begin,
    .hear = gcoll_shm_hear,
    .drop = gcoll_shm_drop,
    .end = gcoll_shm_end,
    .look = look,
    .send_now = gcoll_shm_send_now,
    .recv_now = gcoll_shm_recv_now,
    .catch_up = catch_up,
};
