/* benchmark/peers/raw.c - gcoll_peer_raw: the floor of an allreduce over TCP.
 *
 * Processes that have one socket to each other, with TCP_NODELAY, move the bytes that an allreduce of S bytes
 * must move, and nothing else: no headers, no reduction, no copies but the kernel's. What is moved is
 *
 * exchange: ceil(log2 P) times S bytes out and S bytes in, at once, with one partner (rank xor 1, 2, 4, ...;
 * for P that are no power of two to rank + 2^k and from rank - 2^k). No allreduce has fewer steps. At P = 2
 * this is one exchange of S bytes each way, and it is also what the fewest bytes are: 2(P-1)/P S = S. So at P
 * = 2 it is the floor at every size.
 *
 * halving: P a power of two above 2, exchanges of S/2, S/4, ..., S/P, and then S/P, ..., S/2. The fewest
 * bytes, 2(P-1)/P S each way, in 2 log2 P steps that wait for one another.
 *
 * ring: 2(P-1)/P S bytes to the right neighbour while as many come from the left one, as a stream in which
 * nothing waits for anything. No allreduce is as free, so for large S it is a bound and not a model.
 *
 * direct: S/P bytes to each other rank and as many from each, twice: the fewest bytes, in two steps.
 *
 * With --algorithm auto all that apply to P and S are tried, the best one with several sizes of the longest
 * send() and recv() (16 KiB to 1 MiB, and unlimited), and the fastest is timed. Data come from a buffer of S
 * bytes and land in another one, as those of an allreduce do. The received bytes are checked.
 *
 * "raw_sum" spins, and is an allreduce: what comes is added up, straight from a buffer that stays in cache,
 * by a plain loop. Of the patterns those are tried that can be one: exchange and halving for P a power of
 * two, halving at P = 2 as well, and direct. What it takes beyond raw_spin is what any allreduce has to.
 *
 * Two ways to wait: "raw_spin" asks the sockets over and over again (and yields the processor between if
 * there are more ranks than processors); "raw_block" sleeps in the kernel, in recv() where one direction is
 * left and in poll() where more are. The barrier before each timed call, and the collective "barrier", are
 * exchanges of one byte. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "raw.h"

const char cli_program[] = "gcoll_peer_raw";

static const peer_program about = {
    .about = "what the sockets of an allreduce over TCP cost, without any library\n",
    .algorithms =
        "Algorithms: WAIT[:PATTERN[:CHUNK[:BUFFER]]]. WAIT is spin or block (both, if nothing is said), or "
        "sum: to\n"
        "spin, and to add up what comes, so that it is an allreduce. PATTERN is exchange, halving, ring or "
        "direct,\n"
        "CHUNK the longest send and recv in bytes, as 256Ki (0: no limit), and BUFFER the size of socket "
        "buffers,\n"
        "0 (the kernel's own) or 4Mi. With WAIT alone, the fastest of them for each size. Collectives: "
        "allreduce and\n"
        "barrier; of sum only allreduce.\n",
    .starts_ranks = true,
};

#define CHUNK_UNLIMITED (UINT64_C(1) << 30)

static const uint64_t chunks[] = {CHUNK_UNLIMITED, 16384, 32768, 65536, 131072, 262144, 524288, 1048576};
#define CHUNKS (sizeof chunks / sizeof chunks[0])

static const int buffers[] = {0, 4 << 20};
#define BUFFERS (sizeof buffers / sizeof buffers[0])

/* What is run: the `self` of calls. */
typedef struct raw_state {
    const peer_options *options;
    raw_mesh meshes[BUFFERS]; /* one for each size of socket buffers */
    raw_mesh *mesh;           /* the one that is used */
    raw_pattern barrier;
    raw_pattern pattern;
    raw_pattern one; /* a single transfer */
    uint64_t chunk;
    uint64_t bytes;
    unsigned char *in, *out, *hot;
    unsigned char token[2];
    bool sum; /* what comes is added up */
} raw_state;

static bool run(void *self) {
    raw_state *s = self;
    return raw_move(s->mesh, &s->pattern, s->in, s->out, s->hot, s->chunk);
}

static bool barrier(void *self) {
    raw_state *s = self;
    return raw_move(s->mesh, &s->barrier, &s->token[0], &s->token[1], NULL, CHUNK_UNLIMITED);
}

/* One block of numbers to or from a rank. */
static bool pass(raw_state *s, uint32_t peer, bool send, double *values, uint32_t count) {
    raw_pattern *one = &s->one;
    one->steps = 1;
    one->ends[0] = 1;
    one->transfers[0] = (raw_transfer){.peer = peer, .send = send, .bytes = count * sizeof *values};
    return raw_move(s->mesh, one, (unsigned char *)values, (unsigned char *)values, NULL, CHUNK_UNLIMITED);
}

/* By way of rank 0. */
static bool max(void *self, double *values, uint32_t count) {
    raw_state *s = self;
    double *theirs = calloc(count, sizeof *theirs);
    bool good = theirs;
    if (s->mesh->rank > 0)
        good = good && pass(s, 0, true, values, count) && pass(s, 0, false, values, count);
    for (uint32_t r = 1; good && s->mesh->rank == 0 && r < s->mesh->size; r++) {
        good = pass(s, r, false, theirs, count);
        for (uint32_t i = 0; good && i < count; i++)
            values[i] = values[i] > theirs[i] ? values[i] : theirs[i];
    }
    for (uint32_t r = 1; good && s->mesh->rank == 0 && r < s->mesh->size; r++)
        good = pass(s, r, true, values, count);
    free(theirs);
    return good;
}

static void fill(void *self) {
    raw_state *s = self;
    raw_fill(s->mesh->rank, s->sum, s->in, s->out, s->bytes);
}

static uint64_t count_wrong(void *self) {
    const raw_state *s = self;
    return s->sum ? raw_wrong_sums(s->mesh->size, s->out, s->bytes)
                  : raw_wrong_bytes(&s->pattern, s->out, s->bytes);
}

/* ---- The fastest pattern and chunk for a size ------------------------------------------------------ */

/* Longer vectors are not exchanged whole by more than two ranks: that would take very long. In shorter ones
 * the steps count that an allreduce must do one after the other, which a stream leaves out. */
#define LONGEST_EXCHANGE (1u << 20)
#define SHORTEST_RING    (64u << 10)
#define RING             2u
/* Shorter ones fit into any socket's buffer. */
#define SHORTEST_TUNED (16u << 10)
/* What long vectors' patterns are compared by: unlimited calls leave the cache. */
#define FIRST_CHUNK   262144u
#define TRIAL_CALLS   5u
#define TRIAL_BATCHES 40u
#define TRIAL_US      20000.0

static bool make(raw_state *s, uint32_t which) {
    bool useful = which == 0 ? s->mesh->size == 2 || s->bytes <= LONGEST_EXCHANGE
                             : which != RING || s->bytes >= SHORTEST_RING;
    return useful && raw_pattern_make(which, s->mesh->rank, s->mesh->size, s->bytes, s->sum, &s->pattern);
}

/* There is none for some numbers of ranks and bytes. */
static bool any_pattern(raw_state *s) {
    for (uint32_t w = 0; w < RAW_PATTERNS; w++)
        if (make(s, w))
            return true;
    return false;
}

/* Which of all that can be chosen. */
typedef struct raw_setting {
    uint32_t which; /* RAW_PATTERNS: none yet */
    uint32_t buffer;
    uint64_t chunk;
    double us;
} raw_setting;

#define SETTINGS_MOST (RAW_PATTERNS + BUFFERS * CHUNKS)
#define TWICE         3u /* settings whose first trial was best and that are tried again */

/* A call that brings the sockets up to speed, then a few at a time for as long as a trial may take. A
 * setting counts by the worse of its trials; all ranks see the same medians. */
static bool try_one(raw_state *s, const peer_job *job, const peer_call *call, raw_setting *setting) {
    double first_us;
    double us;
    s->mesh = &s->meshes[setting->buffer];
    s->chunk = setting->chunk;
    (void)make(s, setting->which);
    if (!peer_try(job, call, 1, &first_us))
        return false;
    uint32_t calls = first_us > TRIAL_US ? 1 : TRIAL_CALLS;
    double spent_us = 0;
    double sum_us = 0;
    uint32_t batches = 0;
    for (; batches < TRIAL_BATCHES && spent_us < TRIAL_US; batches++) {
        if (!peer_try(job, call, calls, &us))
            return false;
        sum_us += us;
        spent_us += us * calls;
    }
    us = sum_us / batches;
    setting->us = us > setting->us ? us : setting->us;
    return true;
}

static int faster_first(const void *a, const void *b) {
    double x = ((const raw_setting *)a)->us;
    double y = ((const raw_setting *)b)->us;
    return (x > y) - (x < y);
}

/* Tries settings from `first` on, and sorts all. */
static bool try_and_sort(raw_state *s, const peer_job *job, const peer_call *call, raw_setting *settings,
                         uint32_t first, uint32_t count) {
    for (uint32_t i = first; i < count; i++)
        if (!try_one(s, job, call, &settings[i]))
            return false;
    qsort(settings, count, sizeof settings[0], faster_first);
    return true;
}

/* Patterns first, then for the best one sizes of calls and of buffers. What was fast is tried again, as one
 * good moment is no good setting. */
static bool search(raw_state *s, const peer_job *job, const peer_call *call, raw_setting *best) {
    raw_setting settings[SETTINGS_MOST];
    uint32_t count = 0;
    uint64_t first = s->bytes > FIRST_CHUNK ? FIRST_CHUNK : CHUNK_UNLIMITED;
    for (uint32_t w = 0; w < RAW_PATTERNS; w++)
        if (make(s, w))
            settings[count++] = (raw_setting){.which = w, .chunk = first};
    if (!try_and_sort(s, job, call, settings, 0, count))
        return false;
    uint32_t which = settings[0].which;
    uint32_t patterns = count;
    for (uint32_t i = 0; s->bytes > SHORTEST_TUNED && i < BUFFERS * CHUNKS; i++) {
        uint64_t chunk = chunks[i % CHUNKS];
        bool tried = chunk == first && i < CHUNKS;
        if (!tried && (chunk == CHUNK_UNLIMITED || chunk < s->bytes))
            settings[count++] = (raw_setting){.which = which, .chunk = chunk, .buffer = i / CHUNKS};
    }
    uint32_t again = count < TWICE ? count : TWICE;
    bool good = try_and_sort(s, job, call, settings, patterns, count) &&
                (count == 1 || try_and_sort(s, job, call, settings, 0, again));
    *best = settings[0];
    return good;
}

/* ---- One size, all sizes --------------------------------------------------------------------------- */

/* "spin[:PATTERN[:CHUNK[:BUFFER]]]", as the flag has it. */
typedef struct raw_choice {
    bool spin, block, sum;
    raw_setting setting; /* which == RAW_PATTERNS: the fastest */
} raw_choice;

/* The size that begins at *text, behind a colon; nothing there is 0. */
static bool parse_part(const char **text, uint64_t *value) {
    *value = 0;
    if (**text == '\0')
        return true;
    size_t length = strcspn(*text + 1, ":");
    bool good = cli_parse_size(*text + 1, length, value);
    *text += length + 1;
    return good;
}

static bool parse_setting(const char *text, raw_setting *setting) {
    size_t length = strcspn(text, ":");
    uint64_t buffer;
    for (setting->which = 0; setting->which < RAW_PATTERNS; setting->which++) {
        const char *name = raw_pattern_names[setting->which];
        if (strlen(name) == length && memcmp(name, text, length) == 0)
            break;
    }
    text += length;
    if (setting->which == RAW_PATTERNS || !parse_part(&text, &setting->chunk) ||
        !parse_part(&text, &buffer) || *text != '\0')
        return false;
    setting->chunk = setting->chunk == 0 ? CHUNK_UNLIMITED : setting->chunk;
    for (setting->buffer = 0; setting->buffer < BUFFERS; setting->buffer++)
        if ((uint64_t)buffers[setting->buffer] == buffer)
            return true;
    return false;
}

static bool parse_choice(const char *text, raw_choice *choice) {
    *choice = (raw_choice){.setting = {.which = RAW_PATTERNS}};
    if (!text) {
        choice->spin = choice->block = true;
        return true;
    }
    size_t length = strcspn(text, ":");
    choice->spin = length == 4 && memcmp(text, "spin", 4) == 0;
    choice->block = length == 5 && memcmp(text, "block", 5) == 0;
    choice->sum = length == 3 && memcmp(text, "sum", 3) == 0;
    bool named = choice->spin || choice->block || choice->sum;
    if (named && (text[length] == '\0' || parse_setting(text + length + 1, &choice->setting)))
        return true;
    return cli_bad("--algorithm", text, "what --help says, as spin, block:ring:256Ki:4Mi or sum");
}

/* As the flag takes it, behind "spin:" or "block:". */
static void name_of(const raw_state *s, char *name, size_t bytes) {
    uint64_t chunk_ki = s->chunk == CHUNK_UNLIMITED ? 0 : s->chunk / 1024;
    if (s->mesh->buffer_bytes > 0) {
        (void)snprintf(name, bytes, "%s:%" PRIu64 "Ki:%dMi", s->pattern.name, chunk_ki,
                       s->mesh->buffer_bytes >> 20);
    } else if (chunk_ki > 0) {
        (void)snprintf(name, bytes, "%s:%" PRIu64 "Ki", s->pattern.name, chunk_ki);
    } else {
        (void)snprintf(name, bytes, "%s", s->pattern.name);
    }
}

static bool measure(raw_state *s, const peer_job *job, const raw_choice *choice) {
    char name[64];
    peer_call call = {.program = s->sum          ? "raw_sum"
                                 : s->mesh->spin ? "raw_spin"
                                                 : "raw_block",
                      .collective = s->options->collective,
                      .bytes = s->bytes,
                      .in = s->in,
                      .out = s->out,
                      .self = s,
                      .fill = fill,
                      .count_wrong = count_wrong};
    if (call.collective == PEER_BARRIER) {
        call.run = barrier;
        call.algorithm = "exchange";
        return peer_measure(job, s->options, &call);
    }
    call.run = run;
    raw_setting setting = choice->setting;
    fill(s); /* pages are touched before anything is timed */
    if (setting.which == RAW_PATTERNS && !any_pattern(s)) {
        if (s->mesh->rank == 0) {
            cli_complain("%s: nothing for %" PRIu64
                         " bytes and %u ranks: no power of two, and no equal parts",
                         call.program, s->bytes, s->mesh->size);
        }
        return true;
    }
    if (setting.which == RAW_PATTERNS && !search(s, job, &call, &setting))
        return false;
    s->chunk = setting.chunk;
    s->mesh = &s->meshes[setting.buffer];
    if (!raw_pattern_make(setting.which, s->mesh->rank, s->mesh->size, s->bytes, s->sum, &s->pattern)) {
        cli_complain("%s is not for %u ranks and %" PRIu64 " bytes", raw_pattern_names[setting.which],
                     s->mesh->size, s->bytes);
        return false;
    }
    name_of(s, name, sizeof name);
    call.algorithm = name;
    return peer_measure(job, s->options, &call);
}

static bool measure_sizes(raw_state *s, const peer_job *job, const raw_choice *choice) {
    size_t sizes = s->options->collective == PEER_BARRIER ? 1 : s->options->sizes.count;
    for (size_t i = 0; i < sizes; i++) {
        s->bytes = peer_round_bytes(s->options->collective, s->options->sizes.values[i], s->mesh->size);
        if (s->bytes == 0 && s->options->collective != PEER_BARRIER)
            continue;
        s->in = aligned_alloc(64, (s->bytes + 127) / 64 * 64);
        s->out = aligned_alloc(64, (s->bytes + 127) / 64 * 64);
        bool good = s->in && s->out && measure(s, job, choice);
        free(s->in);
        free(s->out);
        if (!good)
            return false;
    }
    return true;
}

static bool connect_all(raw_state *s) {
    for (size_t b = 0; b < BUFFERS; b++)
        if (!raw_connect(s->options, buffers[b], &s->meshes[b]))
            return false;
    s->mesh = &s->meshes[0];
    return raw_pattern_make(0, s->mesh->rank, s->mesh->size, 1, false, &s->barrier);
}

static bool measure_by(raw_state *s, const peer_job *job, const raw_choice *choice, bool spin, bool sum) {
    for (size_t b = 0; b < BUFFERS; b++)
        s->meshes[b].spin = spin;
    s->sum = sum;
    return measure_sizes(s, job, choice);
}

static int one_rank(const peer_options *options) {
    raw_choice choice;
    raw_state *s = calloc(1, sizeof *s);
    unsigned char *hot = aligned_alloc(64, RAW_HOT_BYTES);
    if (!s || !hot) {
        free(s);
        free(hot);
        return PEER_FAILED;
    }
    s->options = options;
    s->hot = hot;
    bool good = parse_choice(options->algorithm, &choice) && connect_all(s);
    peer_job job = {.rank = options->rank, .size = options->size, .self = s, .barrier = barrier, .max = max};
    if (good && choice.spin)
        good = measure_by(s, &job, &choice, true, false);
    if (good && choice.block)
        good = measure_by(s, &job, &choice, false, false);
    if (good && choice.sum)
        good = measure_by(s, &job, &choice, true, true);
    for (size_t b = 0; b < BUFFERS; b++)
        raw_close(&s->meshes[b]);
    free(hot);
    free(s);
    return good ? PEER_OK : PEER_FAILED;
}

static bool may_be_summed(const peer_options *options, const raw_choice *choice) {
    if (choice->sum && options->collective != PEER_ALLREDUCE) {
        cli_complain("--algorithm sum: only allreduce");
        return false;
    }
    for (size_t i = 0; choice->sum && i < options->sizes.count; i++) {
        if (options->sizes.values[i] % sizeof(float) != 0) {
            cli_complain("--bytes %" PRIu64 ": --algorithm sum adds up float32, of 4 bytes each",
                         options->sizes.values[i]);
            return false;
        }
    }
    return true;
}

static bool accepts(const peer_options *options) {
    raw_choice choice;
    if (options->size > 1024)
        cli_complain("%u ranks: at most 1024", options->size);
    else if (options->collective != PEER_ALLREDUCE && options->collective != PEER_BARRIER)
        cli_complain("--collective: only allreduce and barrier");
    else
        return parse_choice(options->algorithm, &choice) && may_be_summed(options, &choice);
    return false;
}

int main(int argc, char **argv) {
    return peer_main(&about, argc, argv, accepts, one_rank);
}
