/* benchmark/peers/shm.c - gcoll_peer_shm: the floor of an allreduce among processes of one machine.
 *
 * Processes that share memory do an allreduce of float32 and nothing else: no headers, no matching, no
 * failures. Three ways:
 *
 * flags: each rank writes its vector and a number into a cache line of its own, and reads those of all
 * others. One step, for vectors of at most 56 bytes.
 *
 * ring: each ordered pair of ranks has a ring of cells. A sender copies into a cell, and the receiver adds
 * straight from it. "whole" sends whole vectors to all others, in one step. "blocks" sends each rank the
 * block that it adds up, and then the sums to all: the fewest bytes, in two steps.
 *
 * mapped: the vectors themselves lie in shared memory. Each rank adds up one block of all inputs, and no byte
 * is copied before. With "copy" it writes the sum to its own output, and the others copy it from there; with
 * "all" it writes it to all outputs, and with "stream" it does that past the caches.
 *
 * With --algorithm auto, or without one, the fastest of those that apply is timed. Waiting ranks spin, and
 * yield the processor if there are more ranks than processors. The barrier, also the one before each timed
 * call, is an exchange of flags. */
#include <inttypes.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#include "peer.h"

const char cli_program[] = "gcoll_peer_shm";

static const peer_program about = {
    .about = "what an allreduce in shared memory costs, without any library\n",
    .algorithms =
        "Algorithms: flags, for at most 56 bytes; ring:whole:CELL and ring:blocks:CELL, where CELL is the\n"
        "bytes of a cell, 1Ki to 64Ki; mapped:copy, mapped:all and mapped:stream. Without one, or with auto, "
        "the\n"
        "fastest of them for each size. Collectives: allreduce and barrier. Ranks: --local, 2 to 16.\n",
    .starts_ranks = true,
};

#define LINE          64u
#define RANKS_MOST    16u
#define FLAG_BYTES    56u
#define CELLS         16u
#define CELL_LEAST    1024u
#define CELL_MOST     65536u
#define TRIAL_CALLS   5u
#define TRIAL_BATCHES 40u
#define TRIAL_US      20000.0

/* ---- What is shared ------------------------------------------------------------------------------ */

/* A number and what belongs to it; one rank writes it. */
typedef struct shm_line {
    _Alignas(LINE) _Atomic uint64_t number;
    unsigned char bytes[FLAG_BYTES];
} shm_line;

/* Cells of one ordered pair. A cell is full from its number in `sent` on, until that in `taken`. */
typedef struct shm_ring {
    shm_line sent, taken;
    _Alignas(LINE) unsigned char cells[CELLS][CELL_MOST];
} shm_ring;

typedef struct shm_area {
    /* Two of each rank, in turn: nobody writes the second one before all have read the first one. */
    shm_line flags[RANKS_MOST][2];
    shm_ring rings[]; /* size x size, from x to; then the vectors: in and out of each rank */
} shm_area;

typedef enum shm_way { FLAGS, RING_WHOLE, RING_BLOCKS, MAPPED_COPY, MAPPED_ALL, MAPPED_STREAM, WAYS } shm_way;

static const char *const way_names[WAYS] = {"flags",       "ring:whole", "ring:blocks",
                                            "mapped:copy", "mapped:all", "mapped:stream"};

typedef struct shm_setting {
    shm_way way; /* WAYS: the fastest */
    uint64_t cell;
} shm_setting;

typedef struct shm_state {
    const peer_options *options;
    uint32_t rank, size;
    bool yields;
    shm_area *area;
    unsigned char *vectors;
    uint64_t room; /* of each vector */
    uint64_t number;
    uint64_t sent[RANKS_MOST], taken[RANKS_MOST]; /* cells to and from each rank, ever */
    shm_setting setting;
    uint64_t bytes;
} shm_state;

static shm_area *shared; /* mapped before the ranks are started, who inherit it */
static uint64_t shared_room;

static shm_ring *ring_of(const shm_state *s, uint32_t from, uint32_t to) {
    return &s->area->rings[from * s->size + to];
}

static float *in_of(const shm_state *s, uint32_t rank) {
    return (float *)(void *)(s->vectors + 2 * rank * s->room);
}

static float *out_of(const shm_state *s, uint32_t rank) {
    return (float *)(void *)(s->vectors + (2 * rank + 1) * s->room);
}

static void rest(const shm_state *s) {
    if (s->yields)
        (void)sched_yield();
#if defined(__SSE2__)
    else
        _mm_pause();
#endif
}

/* ---- Flags --------------------------------------------------------------------------------------- */

static void publish(shm_state *s, const void *bytes, size_t count) {
    shm_line *own = &s->area->flags[s->rank][++s->number & 1];
    if (count > 0)
        memcpy(own->bytes, bytes, count);
    atomic_store_explicit(&own->number, s->number, memory_order_release);
}

/* The latest line of a rank, when it has written it. */
static const unsigned char *read_from(const shm_state *s, uint32_t rank) {
    shm_line *line = &s->area->flags[rank][s->number & 1];
    while (atomic_load_explicit(&line->number, memory_order_acquire) != s->number)
        rest(s);
    return line->bytes;
}

static bool barrier(void *self) {
    shm_state *s = self;
    publish(s, NULL, 0);
    for (uint32_t r = 0; r < s->size; r++)
        (void)read_from(s, r);
    return true;
}

static bool max(void *self, double *values, uint32_t count) {
    shm_state *s = self;
    const uint32_t most = FLAG_BYTES / sizeof *values;
    for (uint32_t at = 0; at < count; at += most) {
        const uint32_t part = count - at < most ? count - at : most;
        publish(s, values + at, part * sizeof *values);
        for (uint32_t r = 0; r < s->size; r++) {
            const double *theirs = (const double *)(const void *)read_from(s, r);
            for (uint32_t i = 0; i < part; i++)
                values[at + i] = values[at + i] > theirs[i] ? values[at + i] : theirs[i];
        }
    }
    return true;
}

static void by_flags(shm_state *s) {
    const uint64_t count = s->bytes / sizeof(float);
    float *out = out_of(s, s->rank), theirs[FLAG_BYTES / sizeof(float)];
    publish(s, in_of(s, s->rank), s->bytes);
    memcpy(out, read_from(s, 0), s->bytes);
    for (uint32_t r = 1; r < s->size; r++) {
        memcpy(theirs, read_from(s, r), s->bytes);
        for (uint64_t i = 0; i < count; i++)
            out[i] += theirs[i];
    }
}

/* ---- Rings --------------------------------------------------------------------------------------- */

/* One direction of a step between this rank and a peer. */
typedef struct shm_transfer {
    float *at;
    const float *plus; /* of a receive: what the bytes are added to; NULL: they are copied */
    uint64_t left;     /* elements */
} shm_transfer;

static bool push(shm_state *s, uint32_t to, shm_transfer *t) {
    shm_ring *ring = ring_of(s, s->rank, to);
    const uint64_t most = s->setting.cell / sizeof(float), part = t->left < most ? t->left : most;
    if (part == 0 || s->sent[to] - atomic_load_explicit(&ring->taken.number, memory_order_acquire) == CELLS)
        return false;
    memcpy(ring->cells[s->sent[to] % CELLS], t->at, part * sizeof(float));
    atomic_store_explicit(&ring->sent.number, ++s->sent[to], memory_order_release);
    t->at += part;
    t->left -= part;
    return true;
}

static void add(float *restrict sum, const float *restrict a, const float *restrict b, uint64_t count) {
    for (uint64_t i = 0; i < count; i++)
        sum[i] = a[i] + b[i];
}

static void add_to(float *restrict sum, const float *restrict a, uint64_t count) {
    for (uint64_t i = 0; i < count; i++)
        sum[i] += a[i];
}

static bool pop(shm_state *s, uint32_t from, shm_transfer *t) {
    shm_ring *ring = ring_of(s, from, s->rank);
    const uint64_t most = s->setting.cell / sizeof(float), part = t->left < most ? t->left : most;
    if (part == 0 || atomic_load_explicit(&ring->sent.number, memory_order_acquire) == s->taken[from])
        return false;
    const float *cell = (const float *)(const void *)ring->cells[s->taken[from] % CELLS];
    if (!t->plus)
        memcpy(t->at, cell, part * sizeof(float));
    else if (t->plus == t->at)
        add_to(t->at, cell, part);
    else
        add(t->at, t->plus, cell, part);
    atomic_store_explicit(&ring->taken.number, ++s->taken[from], memory_order_release);
    t->at += part;
    t->plus = t->plus ? t->plus + part : NULL;
    t->left -= part;
    return true;
}

/* All transfers of a step at once. What several peers send to one place is added up peer by peer. */
static void move(shm_state *s, shm_transfer *sends, shm_transfer *receives, bool in_turn) {
    for (bool left = true; left;) {
        bool moved = false;
        left = false;
        bool earlier = false; /* an earlier peer's bytes have not all come */
        for (uint32_t i = 1; i < s->size; i++) {
            const uint32_t to = (s->rank + i) % s->size, from = (s->rank + s->size - i) % s->size;
            moved |= push(s, to, &sends[to]);
            if (!(in_turn && earlier))
                moved |= pop(s, from, &receives[from]);
            earlier = earlier || receives[from].left > 0;
            left = left || sends[to].left > 0 || receives[from].left > 0;
        }
        if (!moved)
            rest(s);
    }
}

/* The first element of a rank's block; blocks begin at cache lines. */
static uint64_t block_at(const shm_state *s, uint32_t rank) {
    const uint64_t count = s->bytes / sizeof(float), unit = LINE / sizeof(float);
    const uint64_t lines = (count + unit - 1) / unit, at = lines * rank / s->size * unit;
    return at < count ? at : count;
}

static uint64_t block_count(const shm_state *s, uint32_t rank) {
    return block_at(s, rank + 1) - block_at(s, rank);
}

/* The first sender's bytes are added to this rank's input, into the output; the others' to the output. */
static void by_ring_whole(shm_state *s) {
    shm_transfer sends[RANKS_MOST], receives[RANKS_MOST];
    const uint32_t first = (s->rank + s->size - 1) % s->size;
    for (uint32_t r = 0; r < s->size; r++) {
        float *in = in_of(s, s->rank), *out = out_of(s, s->rank);
        sends[r] = (shm_transfer){.at = in, .left = s->bytes / sizeof(float)};
        receives[r] = (shm_transfer){.at = out, .plus = r == first ? in : out, .left = sends[r].left};
    }
    move(s, sends, receives, true);
}

static void by_ring_blocks(shm_state *s) {
    shm_transfer sends[RANKS_MOST], receives[RANKS_MOST];
    const uint32_t first = (s->rank + s->size - 1) % s->size;
    const uint64_t own = block_at(s, s->rank), count = block_count(s, s->rank);
    float *in = in_of(s, s->rank), *out = out_of(s, s->rank);
    for (uint32_t r = 0; r < s->size; r++) {
        sends[r] = (shm_transfer){.at = in + block_at(s, r), .left = block_count(s, r)};
        receives[r] =
            (shm_transfer){.at = out + own, .plus = r == first ? in + own : out + own, .left = count};
    }
    move(s, sends, receives, true);
    for (uint32_t r = 0; r < s->size; r++) {
        sends[r] = (shm_transfer){.at = out + own, .left = count};
        receives[r] = (shm_transfer){.at = out + block_at(s, r), .left = block_count(s, r)};
    }
    move(s, sends, receives, false);
}

/* ---- Mapped vectors ------------------------------------------------------------------------------ */

#define PIECE 4096u /* elements that stay in cache while all inputs are added */

static void sum_piece(const shm_state *s, uint64_t at, uint64_t count, float *to) {
    add(to, in_of(s, 0) + at, in_of(s, 1) + at, count);
    for (uint32_t r = 2; r < s->size; r++)
        add_to(to, in_of(s, r) + at, count);
}

/* Copies past the caches where the processor can; `to` begins a cache line. */
static void stream(float *to, const float *from, uint64_t count) {
    uint64_t i = 0;
#if defined(__SSE2__)
    for (; i + 4 <= count; i += 4)
        _mm_stream_ps(to + i, _mm_loadu_ps(from + i));
#endif
    for (; i < count; i++)
        to[i] = from[i];
}

static void by_mapped(shm_state *s) {
    _Alignas(LINE) float sums[PIECE];
    const uint64_t own = block_at(s, s->rank), count = block_count(s, s->rank);
    (void)barrier(s);
    for (uint64_t at = own; at < own + count; at += PIECE) {
        const uint64_t left = own + count - at, part = left < PIECE ? left : PIECE;
        if (s->setting.way == MAPPED_COPY) {
            sum_piece(s, at, part, out_of(s, s->rank) + at);
            continue;
        }
        sum_piece(s, at, part, sums);
        for (uint32_t i = 0; i < s->size; i++) {
            float *out = out_of(s, (s->rank + i) % s->size) + at;
            if (s->setting.way == MAPPED_STREAM)
                stream(out, sums, part);
            else
                memcpy(out, sums, part * sizeof(float));
        }
    }
#if defined(__SSE2__)
    if (s->setting.way == MAPPED_STREAM)
        _mm_sfence();
#endif
    (void)barrier(s);
    if (s->setting.way != MAPPED_COPY)
        return;
    for (uint32_t i = 1; i < s->size; i++) {
        const uint32_t r = (s->rank + i) % s->size;
        const uint64_t at = block_at(s, r);
        memcpy(out_of(s, s->rank) + at, out_of(s, r) + at, block_count(s, r) * sizeof(float));
    }
    (void)barrier(s);
}

static bool run(void *self) {
    shm_state *s = self;
    switch (s->setting.way) {
    case FLAGS:
        by_flags(s);
        break;
    case RING_WHOLE:
        by_ring_whole(s);
        break;
    case RING_BLOCKS:
        by_ring_blocks(s);
        break;
    default:
        by_mapped(s);
    }
    return true;
}

/* ---- The fastest ----------------------------------------------------------------------------------- */

static bool applies(const shm_state *s, shm_way way) {
    return way == FLAGS ? s->bytes <= FLAG_BYTES : way != RING_WHOLE || s->bytes <= CELL_MOST * CELLS;
}

static bool try_one(const peer_job *job, const peer_call *call, double *us) {
    double spent_us = 0, sum_us = 0;
    uint32_t batches = 0;
    if (!peer_try(job, call, 1, us))
        return false;
    const uint32_t calls = *us > TRIAL_US ? 1 : TRIAL_CALLS;
    for (; batches < TRIAL_BATCHES && spent_us < TRIAL_US; batches++) {
        if (!peer_try(job, call, calls, us))
            return false;
        sum_us += *us;
        spent_us += *us * calls;
    }
    *us = sum_us / batches;
    return true;
}

static bool search(shm_state *s, const peer_job *job, const peer_call *call) {
    shm_setting best = {.way = WAYS};
    double best_us = 0, us;
    for (shm_way way = FLAGS; way < WAYS; way++) {
        const bool has_cells = way == RING_WHOLE || way == RING_BLOCKS;
        for (uint64_t cell = CELL_LEAST; cell <= (has_cells ? CELL_MOST : CELL_LEAST); cell *= 2) {
            if (!applies(s, way))
                continue;
            s->setting = (shm_setting){way, cell};
            if (!try_one(job, call, &us))
                return false;
            if (best.way == WAYS || us < best_us) {
                best = s->setting;
                best_us = us;
            }
        }
    }
    s->setting = best;
    return true;
}

/* ---- One size, all sizes --------------------------------------------------------------------------- */

static bool measure(shm_state *s, const peer_job *job, shm_setting setting) {
    char name[64];
    peer_call call = {.program = "shm", .collective = s->options->collective, .bytes = s->bytes, .self = s};
    if (call.collective == PEER_BARRIER) {
        call.run = barrier;
        call.algorithm = "flags";
        return peer_measure(job, s->options, &call);
    }
    call.in = in_of(s, s->rank);
    call.out = out_of(s, s->rank);
    call.run = run;
    memset(call.in, 0, s->bytes); /* pages are touched before anything is timed, each by its owner */
    memset(call.out, 0, s->bytes);
    s->setting = setting;
    if (setting.way != WAYS && !applies(s, setting.way)) {
        if (s->rank == 0)
            cli_complain("%s is not for %" PRIu64 " bytes", way_names[setting.way], s->bytes);
        return false;
    }
    if (setting.way == WAYS && !search(s, job, &call))
        return false;
    if (s->setting.way == RING_WHOLE || s->setting.way == RING_BLOCKS)
        (void)snprintf(name, sizeof name, "%s:%" PRIu64 "Ki", way_names[s->setting.way],
                       s->setting.cell / 1024);
    else
        (void)snprintf(name, sizeof name, "%s", way_names[s->setting.way]);
    call.algorithm = name;
    return peer_measure(job, s->options, &call);
}

static bool parse_setting(const char *text, shm_setting *setting) {
    *setting = (shm_setting){.way = WAYS, .cell = CELL_LEAST};
    if (!text || strcmp(text, "auto") == 0)
        return true;
    for (shm_way way = FLAGS; way < WAYS; way++) {
        const size_t length = strlen(way_names[way]);
        const bool has_cells = way == RING_WHOLE || way == RING_BLOCKS;
        if (strncmp(text, way_names[way], length) != 0 || text[length] != (has_cells ? ':' : '\0'))
            continue;
        setting->way = way;
        if (!has_cells)
            return true;
        const char *cell = text + length + 1;
        if (cli_parse_size(cell, strlen(cell), &setting->cell) && setting->cell >= CELL_LEAST &&
            setting->cell <= CELL_MOST && setting->cell % LINE == 0)
            return true;
    }
    return cli_bad("--algorithm", text, "what --help says, as flags, ring:blocks:16Ki or mapped:copy");
}

static int one_rank(const peer_options *options) {
    shm_state s = {.options = options, .rank = options->rank, .size = options->local, .area = shared};
    shm_setting setting;
    const long processors = sysconf(_SC_NPROCESSORS_ONLN);
    s.yields = s.size > (processors > 0 ? (uint32_t)processors : 1);
    s.room = shared_room;
    s.vectors = (unsigned char *)&shared->rings[(size_t)s.size * s.size];
    const peer_job job = {.rank = s.rank, .size = s.size, .self = &s, .barrier = barrier, .max = max};
    if (!parse_setting(options->algorithm, &setting))
        return PEER_FAILED;
    const size_t sizes = options->collective == PEER_BARRIER ? 1 : options->sizes.count;
    for (size_t i = 0; i < sizes; i++) {
        s.bytes = options->collective == PEER_BARRIER ? 0 : options->sizes.values[i];
        if ((s.bytes > 0 || options->collective == PEER_BARRIER) && !measure(&s, &job, setting))
            return PEER_FAILED;
    }
    return PEER_OK;
}

/* Maps what the ranks share. */
static bool share(const peer_options *options) {
    uint64_t longest = LINE;
    for (size_t i = 0; i < options->sizes.count; i++) {
        if (options->sizes.values[i] % sizeof(float) != 0) {
            cli_complain("--bytes %" PRIu64 ": float32 are added up, of 4 bytes each",
                         options->sizes.values[i]);
            return false;
        }
        longest = options->sizes.values[i] > longest ? options->sizes.values[i] : longest;
    }
    const uint64_t page = 4096, size = options->local;
    shared_room = (longest + 2 * page - 1) / page * page; /* vectors do not lie one page behind the other */
    if (longest > UINT64_C(1) << 34) {
        cli_complain("--bytes %" PRIu64 ": at most 16Gi", longest);
        return false;
    }
    const uint64_t bytes = sizeof *shared + size * size * sizeof shared->rings[0] + 2 * size * shared_room;
    shared = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED) {
        cli_complain("no memory for %" PRIu64 " bytes that %" PRIu64 " ranks share", bytes, size);
        return false;
    }
    return true;
}

static bool accepts(const peer_options *options) {
    shm_setting setting;
    if (options->local < 2 || options->local > RANKS_MOST)
        cli_complain("--local: is %u; allowed is 2 to %u", options->local, RANKS_MOST);
    else if (options->collective != PEER_ALLREDUCE && options->collective != PEER_BARRIER)
        cli_complain("--collective: only allreduce and barrier");
    else
        return parse_setting(options->algorithm, &setting) && share(options);
    return false;
}

int main(int argc, char **argv) {
    return peer_main(&about, argc, argv, accepts, one_rank);
}
