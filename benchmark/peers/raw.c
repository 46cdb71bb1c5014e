/* benchmark/peers/raw.c - gcoll_peer_raw: the floor of an allreduce over TCP.
 *
 * Processes that have one socket to each other, with TCP_NODELAY, move the bytes that an allreduce of S bytes
 * must move, and nothing else: no headers, no reduction, no copies but the kernel's. What is moved is
 *
 *   exchange  ceil(log2 P) times: S bytes out and S bytes in, at once, with one partner (rank xor 1, 2, 4,
 * ... ; for P that are no power of two to rank + 2^k and from rank - 2^k). No allreduce has fewer steps. At P
 * = 2 this is one exchange of S bytes each way, and it is also what the fewest bytes are: 2(P-1)/P S = S. So
 * at P = 2 it is the floor at every size. halving   P a power of two above 2: exchanges of S/2, S/4, ...,
 * S/P, and then S/P, ..., S/2. The fewest bytes, 2(P-1)/P S each way, in 2 log2 P steps that wait for one
 * another. ring      2(P-1)/P S bytes to the right neighbour while as many come from the left one, as a
 * stream in which nothing waits for anything: no allreduce is as free, so for large S it is a bound and not a
 * model. direct    S/P bytes to each other rank and as many from each, twice: the fewest bytes, in two steps.
 *
 * With --algorithm auto all that apply to P and S are tried, each with several sizes of the longest send()
 * and recv() (16 KiB to 1 MiB, and unlimited), and the fastest is timed. Data land in a buffer of S bytes, in
 * a buffer of their own beside those that are sent. The received bytes are checked.
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
        "Algorithms: WAIT[:PATTERN[:CHUNK]]. WAIT is spin or block (both, if nothing is said). PATTERN is\n"
        "exchange, halving, ring or direct, and CHUNK the longest send and recv in bytes, as 256Ki: without\n"
        "them, the fastest of several for each size. Collectives: allreduce and barrier.\n",
    .starts_ranks = true,
};

#define CHUNK_UNLIMITED (UINT64_C(1) << 30)

static const uint64_t chunks[] = {CHUNK_UNLIMITED, 16384, 65536, 262144, 1048576};
#define CHUNKS (sizeof chunks / sizeof chunks[0])

/* What is run: the `self` of calls. */
typedef struct raw_state {
    const peer_options *options;
    raw_mesh mesh;
    raw_pattern barrier;
    raw_pattern pattern;
    raw_pattern one; /* a single transfer */
    uint64_t chunk;
    uint64_t bytes;
    unsigned char *in, *out;
    unsigned char token[2];
} raw_state;

static bool run(void *self) {
    raw_state *s = self;
    return raw_move(&s->mesh, &s->pattern, s->in, s->out, s->chunk);
}

static bool barrier(void *self) {
    raw_state *s = self;
    return raw_move(&s->mesh, &s->barrier, &s->token[0], &s->token[1], CHUNK_UNLIMITED);
}

/* One block of numbers to or from a rank. */
static bool pass(raw_state *s, uint32_t peer, bool send, double *values, uint32_t count) {
    raw_pattern *one = &s->one;
    one->steps = 1;
    one->ends[0] = 1;
    one->transfers[0] = (raw_transfer){.peer = peer, .send = send, .bytes = count * sizeof *values};
    return raw_move(&s->mesh, one, (unsigned char *)values, (unsigned char *)values, CHUNK_UNLIMITED);
}

/* By way of rank 0. */
static bool max(void *self, double *values, uint32_t count) {
    raw_state *s = self;
    double *theirs = calloc(count, sizeof *theirs);
    bool good = theirs != NULL;
    if (s->mesh.rank > 0) {
        good = good && pass(s, 0, true, values, count) && pass(s, 0, false, values, count);
    }
    for (uint32_t r = 1; good && s->mesh.rank == 0 && r < s->mesh.size; r++) {
        good = pass(s, r, false, theirs, count);
        for (uint32_t i = 0; good && i < count; i++) {
            values[i] = values[i] > theirs[i] ? values[i] : theirs[i];
        }
    }
    for (uint32_t r = 1; good && s->mesh.rank == 0 && r < s->mesh.size; r++) {
        good = pass(s, r, true, values, count);
    }
    free(theirs);
    return good;
}

/* ---- The check: every byte of the output is what was sent last to that place
 * -------------------------------- */

static unsigned char input_byte(uint32_t rank, uint64_t at) {
    return (unsigned char)(rank * 37 + at * 7 + (at >> 8) * 3);
}

static void fill(void *self) {
    raw_state *s = self;
    memset(s->out, 0xa5, s->bytes);
    for (uint64_t i = 0; i < s->bytes; i++) {
        s->in[i] = input_byte(s->mesh.rank, i);
    }
}

/* What was passed on is taken as it is: it came to the one who passed it on from an input. */
static uint64_t count_wrong(void *self) {
    const raw_state *s = self;
    const raw_pattern *p = &s->pattern;
    unsigned char *expected = malloc(s->bytes + 1);
    uint64_t wrong = 0;
    if (expected == NULL) {
        cli_complain("out of memory for a check of %" PRIu64 " bytes", s->bytes);
        return 1;
    }
    memset(expected, 0xa5, s->bytes);
    for (uint32_t n = 0; n < p->ends[p->steps]; n++) {
        const raw_transfer *t = &p->transfers[n];
        for (uint64_t i = 0; !t->send && i < t->bytes; i++) {
            expected[t->at + i] = t->from_output ? s->out[t->at + i] : input_byte(t->peer, t->from + i);
        }
    }
    for (uint64_t i = 0; i < s->bytes; i++) {
        wrong += s->out[i] != expected[i];
    }
    free(expected);
    return wrong;
}

/* ---- The fastest pattern and chunk for a size
 * --------------------------------------------------------------- */

/* Longer vectors are not exchanged whole by more than two ranks: that would take very long. In shorter ones
 * the steps count that an allreduce must do one after the other, which a stream leaves out. */
#define LONGEST_EXCHANGE (1u << 20)
#define SHORTEST_RING    (64u << 10)
#define RING             2u
#define TRIAL_CALLS      3u
#define TRIAL_SECONDS    0.02

static bool make(raw_state *s, uint32_t which) {
    bool useful = which == 0 ? s->mesh.size == 2 || s->bytes <= LONGEST_EXCHANGE
                             : which != RING || s->bytes >= SHORTEST_RING;
    return useful && raw_pattern_make(which, s->mesh.rank, s->mesh.size, s->bytes, &s->pattern);
}

/* A call, then as many as are needed for a median that means something. */
static bool try_one(const peer_job *job, const peer_call *call, double *median_us) {
    double first_us;
    if (!peer_try(job, call, 1, &first_us)) {
        return false;
    }
    double fit = TRIAL_SECONDS * 1e6 / (first_us + 1);
    uint32_t calls = fit > 1000 ? 1000 : fit > TRIAL_CALLS ? (uint32_t)fit : TRIAL_CALLS;
    return peer_try(job, call, calls, median_us);
}

/* Every pattern with the longest calls, then other lengths for the best of them; all ranks see the same
 * medians. */
static bool search(raw_state *s, const peer_job *job, const peer_call *call, uint32_t *which) {
    double best_us = 0;
    double us;
    *which = RAW_PATTERNS;
    s->chunk = CHUNK_UNLIMITED;
    for (uint32_t w = 0; w < RAW_PATTERNS; w++) {
        if (!make(s, w)) {
            continue;
        }
        if (!try_one(job, call, &us)) {
            return false;
        }
        if (*which == RAW_PATTERNS || us < best_us) {
            *which = w;
            best_us = us;
        }
    }
    uint64_t best_chunk = CHUNK_UNLIMITED;
    (void)make(s, *which);
    for (uint32_t c = 1; c < CHUNKS && chunks[c] < s->bytes; c++) {
        s->chunk = chunks[c];
        if (!try_one(job, call, &us)) {
            return false;
        }
        if (us < best_us) {
            best_us = us;
            best_chunk = chunks[c];
        }
    }
    s->chunk = best_chunk;
    return true;
}

/* ---- One size, all sizes
 * ------------------------------------------------------------------------------------ */

/* "spin[:PATTERN[:CHUNK]]", as the flag has it. */
typedef struct raw_choice {
    bool spin, block;
    uint32_t which; /* RAW_PATTERNS: the fastest */
    uint64_t chunk;
} raw_choice;

static bool parse_pattern(const char *text, raw_choice *choice) {
    size_t length = strcspn(text, ":");
    for (choice->which = 0; choice->which < RAW_PATTERNS; choice->which++) {
        const char *name = raw_pattern_names[choice->which];
        if (strlen(name) == length && memcmp(name, text, length) == 0) {
            return text[length] == '\0' ||
                   (cli_parse_size(text + length + 1, strlen(text + length + 1), &choice->chunk) &&
                    choice->chunk > 0);
        }
    }
    return false;
}

static bool parse_choice(const char *text, raw_choice *choice) {
    *choice = (raw_choice){.which = RAW_PATTERNS, .chunk = CHUNK_UNLIMITED};
    if (text == NULL) {
        choice->spin = choice->block = true;
        return true;
    }
    size_t length = strcspn(text, ":");
    choice->spin = length == 4 && memcmp(text, "spin", 4) == 0;
    choice->block = length == 5 && memcmp(text, "block", 5) == 0;
    if ((choice->spin || choice->block) &&
        (text[length] == '\0' || parse_pattern(text + length + 1, choice))) {
        return true;
    }
    return cli_bad("--algorithm", text,
                   "spin or block, then :exchange, :halving, :ring or :direct, then :CHUNK");
}

static void name_of(const raw_state *s, char *name, size_t bytes) {
    if (s->chunk == CHUNK_UNLIMITED) {
        (void)snprintf(name, bytes, "%s", s->pattern.name);
    } else {
        (void)snprintf(name, bytes, "%s:%" PRIu64 "Ki", s->pattern.name, s->chunk / 1024);
    }
}

static bool measure(raw_state *s, const peer_job *job, const raw_choice *choice) {
    char name[64];
    peer_call call = {.program = s->mesh.spin ? "raw_spin" : "raw_block",
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
    uint32_t which = choice->which;
    s->chunk = choice->chunk;
    fill(s); /* pages are touched before anything is timed */
    if (which == RAW_PATTERNS && !search(s, job, &call, &which)) {
        return false;
    }
    if (!raw_pattern_make(which, s->mesh.rank, s->mesh.size, s->bytes, &s->pattern)) {
        cli_complain("%s is not for %u ranks and %" PRIu64 " bytes", raw_pattern_names[which], s->mesh.size,
                     s->bytes);
        return false;
    }
    name_of(s, name, sizeof name);
    call.algorithm = name;
    return peer_measure(job, s->options, &call);
}

static bool measure_sizes(raw_state *s, const peer_job *job, const raw_choice *choice) {
    size_t sizes = s->options->collective == PEER_BARRIER ? 1 : s->options->sizes.count;
    for (size_t i = 0; i < sizes; i++) {
        s->bytes = peer_round_bytes(s->options->collective, s->options->sizes.values[i], s->mesh.size);
        if (s->bytes == 0 && s->options->collective != PEER_BARRIER) {
            continue;
        }
        s->in = aligned_alloc(64, (s->bytes + 127) / 64 * 64);
        s->out = aligned_alloc(64, (s->bytes + 127) / 64 * 64);
        bool good = s->in != NULL && s->out != NULL && measure(s, job, choice);
        free(s->in);
        free(s->out);
        if (!good) {
            return false;
        }
    }
    return true;
}

static int one_rank(const peer_options *options) {
    raw_choice choice;
    raw_state *s = calloc(1, sizeof *s);
    if (s == NULL || !parse_choice(options->algorithm, &choice) || !raw_connect(options, &s->mesh)) {
        free(s);
        return PEER_FAILED;
    }
    s->options = options;
    peer_job job = {.rank = s->mesh.rank, .size = s->mesh.size, .self = s, .barrier = barrier, .max = max};
    bool good = raw_pattern_make(0, job.rank, job.size, 1, &s->barrier);
    for (int spin = 1; good && spin >= 0; spin--) {
        s->mesh.spin = spin == 1;
        if (s->mesh.spin ? choice.spin : choice.block) {
            good = measure_sizes(s, &job, &choice);
        }
    }
    raw_close(&s->mesh);
    free(s);
    return good ? PEER_OK : PEER_FAILED;
}

int main(int argc, char **argv) {
    peer_options options;
    raw_choice choice;
    if (!peer_options_parse(&about, argc, argv, &options)) {
        return CLI_USAGE;
    }
    int status = CLI_USAGE;
    if (options.help) {
        peer_print_help(&about);
        status = PEER_OK;
    } else if (options.size > 1024) {
        cli_complain("%u ranks: at most 1024", options.size);
    } else if (options.collective != PEER_ALLREDUCE && options.collective != PEER_BARRIER) {
        cli_complain("--collective: only allreduce and barrier");
    } else if (parse_choice(options.algorithm, &choice)) {
        status = peer_launch(&options, one_rank);
    }
    peer_options_free(&options);
    return status;
}
