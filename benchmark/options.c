/* benchmark/options.c - checks and completes combinations of flags. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "benchmark/arrival.h"
#include "benchmark/flags.h"
#include "benchmark/options.h"
#include "benchmark/pairs.h"
#include "benchmark/plan.h"
#include "benchmark/plugin.h"
#include "benchmark/shape.h"

#define DEFAULT_LOCAL 2u
#define DEFAULT_BYTES "4:64Mi:x4"
#define TUNED_BYTES   "4:16Mi:x4"
#define TUNE_SETTLE_S 1.5
/* Buffers of all ranks of this machine may take 1 part in so many of its memory: algorithms and sockets need
 * some, too. */
#define MEMORY_SHARE 2u

const char cli_program[] = "gcoll_bench";

/* Takes rank, size, store and job from the launcher, if it started this process as one of several. */
static bool read_launcher(bench_options *o) {
    gcoll_environment *found = &o->environment;
    gcoll_environment_init(found);
    const gcoll_status status = gcoll_environment_read(found);
    if (status != GCOLL_OK && status != GCOLL_ERR_NOT_FOUND) {
        cli_complain("%s; or type --local N, for a job of this process alone", gcoll_last_error());
        return false;
    }
    if (status == GCOLL_ERR_NOT_FOUND || found->size == 1)
        return true;
    if (!o->store && found->store[0] == '\0') {
        cli_complain(
            "this is rank %u of %u by the variables of %s, which do not say where ranks meet: give --store, "
            "or set GCOLL_STORE; or type --local N, for a job of this process alone",
            found->rank, found->size, found->source);
        return false;
    }
    o->rank = found->rank;
    o->size = found->size;
    o->store = o->store ? o->store : found->store;
    o->job = o->job ? o->job : found->job;
    return true;
}

static bool check_ranks(bench_options *o) {
    if (o->local > 0 && (o->rank >= 0 || o->size > 0)) {
        cli_complain(
            "--local starts all ranks on this machine; --rank and --size are for one rank of a job on "
            "several hosts: give one or the other");
        return false;
    }
    if (o->local == 0 && o->rank < 0 && o->size == 0 && !read_launcher(o))
        return false;
    if (o->rank < 0 && o->size == 0) {
        o->size = o->local = o->local > 0 ? o->local : o->planned ? bench_plan_ranks(o) : DEFAULT_LOCAL;
    } else if (o->rank < 0 || o->size == 0 || !o->store) {
        cli_complain("a job on several hosts needs --rank, --size and --store; %s is missing",
                     o->rank < 0    ? "--rank"
                     : o->size == 0 ? "--size"
                                    : "--store");
        return false;
    } else if (o->rank >= (int64_t)o->size) {
        cli_complain("--rank: is %" PRId64 "; allowed with --size %u is 0 to %u", o->rank, o->size,
                     o->size - 1);
        return false;
    }
    if (o->planned && o->size != bench_plan_ranks(o)) {
        cli_complain("%s: is %" PRIu32 "; allowed with --plan is %" PRIu32 ", the ranks of '%s'",
                     o->local > 0 ? "--local" : "--size", o->size, bench_plan_ranks(o), o->plan);
        return false;
    }
    if (o->inproc && (o->local == 0 || o->store || o->interface)) {
        cli_complain("--transport inproc runs threads of this process: give --local N, and no --store or "
                     "--interface");
        return false;
    }
    if (o->has_ibverbs && strcmp(o->transport, "ibverbs") != 0) {
        cli_complain("--ib-device, --ib-port, --ib-gid-index, --ib-mtu: are for --transport ibverbs");
        return false;
    }
    if (o->root >= o->size) {
        cli_complain("--root: is %u; allowed with %u ranks is 0 to %u", o->root, o->size, o->size - 1);
        return false;
    }
    return true;
}

static bool check_repeats(const bench_options *o) {
    if (o->iterations > 0 && o->time_given) {
        cli_complain("--iterations and --time: give one or the other");
        return false;
    }
    return true;
}

static bool add_case(bench_options *o, gcoll_collective collective, const char *algorithm, bool optional) {
    bench_case *cases = realloc(o->cases, (o->case_count + 1) * sizeof *cases);
    if (!cases) {
        cli_complain("out of memory");
        return false;
    }
    o->cases = cases;
    char *copy = strdup(algorithm);
    if (!copy) {
        cli_complain("out of memory");
        return false;
    }
    cases[o->case_count++] = (bench_case){collective, copy, optional};
    return true;
}

/* Only a tuning file has a tour. */
static bool may_have_tour(const bench_options *o) {
    const char *variable = getenv("GCOLL_TUNING");
    return o->tuning || (variable && variable[0] != '\0');
}

static bool add_all(bench_options *o, gcoll_collective collective) {
    const char *name;
    for (uint32_t i = 0; (name = bench_algorithm_at(o, collective, i)); i++) {
        /* In host memory these are what others are. */
        const bool is_other = !o->on_device && strncmp(name, "cuda_", 5) == 0;
        const bool lacks_tour = !may_have_tour(o) && strcmp(name, "tour_ring") == 0;
        if (!is_other && !lacks_tour && !add_case(o, collective, name, true))
            return false;
    }
    return true;
}

/* Adds what one part of --algorithm means for a collective. *known: it has such an algorithm. */
static bool add_part(bench_options *o, gcoll_collective collective, const char *part, bool *known) {
    if (strcmp(part, "all") == 0) {
        *known = true;
        return add_all(o, collective);
    }
    if (!bench_algorithm_known(o, collective, part))
        return true;
    *known = true;
    return add_case(o, collective, part, false);
}

static bool wanted(const bench_options *o, int collective) {
    return strcmp(o->collective, "all") == 0 ||
           strcmp(o->collective, gcoll_collective_name((gcoll_collective)collective)) == 0;
}

/* Every part must be known to one of the collectives at least. */
static bool check_parts(const bench_options *o, char *parts) {
    size_t length = strlen(parts);
    if (parts[0] == ',' || (length > 0 && parts[length - 1] == ',') || strstr(parts, ",,")) {
        cli_complain("--algorithm: is '%s'; a name is missing beside a comma", parts);
        return false;
    }
    char *rest = NULL;
    for (char *part = strtok_r(parts, ",", &rest); part; part = strtok_r(NULL, ",", &rest)) {
        bool known = strcmp(part, "all") == 0;
        for (int c = 0; c < GCOLL_COLLECTIVE_COUNT && !known; c++)
            known = wanted(o, c) && bench_algorithm_known(o, (gcoll_collective)c, part);
        if (!known) {
            cli_complain("--algorithm: %s", gcoll_last_error());
            return false;
        }
    }
    return true;
}

static bool read_algorithms(bench_options *o) {
    char *parts = strdup(o->algorithm);
    bool good = parts && check_parts(o, parts);
    for (int c = 0; c < GCOLL_COLLECTIVE_COUNT && good; c++) {
        if (!wanted(o, c))
            continue;
        bool any = false;
        memcpy(parts, o->algorithm, strlen(o->algorithm) + 1);
        char *rest = NULL;
        for (char *part = strtok_r(parts, ",", &rest); part && good; part = strtok_r(NULL, ",", &rest))
            good = add_part(o, (gcoll_collective)c, part, &any);
        if (good && !any) {
            cli_complain("--algorithm %s names no algorithm of %s, which is left out", o->algorithm,
                         gcoll_collective_name((gcoll_collective)c));
        }
    }
    free(parts);
    if (good && o->case_count == 0) {
        cli_complain("--algorithm: is '%s'; allowed is all, auto, or names joined by commas (see --help)",
                     o->algorithm);
        return false;
    }
    return good;
}

typedef bool (*has_fn)(gcoll_collective collective);

static bool any_case(const bench_options *o, has_fn has) {
    for (size_t i = 0; i < o->case_count; i++)
        if (has(o->cases[i].collective))
            return true;
    return false;
}

static bool is_power_of_two(double factor) {
    int exponent;
    return fabs(frexp(factor, &exponent)) == 0.5;
}

/* Floats and complex numbers: integers have bit operations, and no others have averages. */
static bool takes_factors(gcoll_type type) {
    return gcoll_op_check(type, GCOLL_AVG) == GCOLL_OK && gcoll_op_check(type, GCOLL_BAND) != GCOLL_OK;
}

/* The results that are checked are those of inputs without factors. */
static bool check_factors(const bench_options *o) {
    const double pre = o->prescale != 0 ? o->prescale : 1, post = o->postscale != 0 ? o->postscale : 1;
    if ((o->prescale != 0 || o->postscale != 0) && !takes_factors(o->type)) {
        cli_complain("%s: found with --type %s; allowed are types of floating-point or complex numbers",
                     o->prescale != 0 ? "--prescale" : "--postscale", gcoll_type_name(o->type));
        return false;
    }
    if (o->no_check ||
        (pre * post == 1 && is_power_of_two(pre) && (o->op == GCOLL_SUM || o->op == GCOLL_AVG)))
        return true;
    if (pre == 1 && post == 1)
        return true;
    cli_complain(
        "--prescale, --postscale: are %g and %g with --op %s; allowed are powers of two whose product is 1, "
        "with sum or avg, as other results cannot be checked; or --no-check",
        pre, post, gcoll_op_name(o->op));
    return false;
}

static bool reduces_by_codec(gcoll_collective c) {
    return gcoll_collective_reduces(c) && bench_takes_codec(c);
}

const char *bench_order_name(gcoll_order order) {
    return order == GCOLL_ORDER_PAIRS ? "pairs" : order == GCOLL_ORDER_LEFT ? "left" : "any";
}

/* The ranks would refuse these, too. */
static bool check_codec(const bench_options *o) {
    const bool reduces = any_case(o, reduces_by_codec);
    if (!o->codec)
        return true;
    if (o->type != GCOLL_FLOAT32) {
        cli_complain("--codec: found with --type %s; allowed is float32", gcoll_type_name(o->type));
        return false;
    }
    if (reduces && o->op != GCOLL_SUM && o->op != GCOLL_AVG) {
        cli_complain("--codec: found with --op %s; allowed are sum, avg", gcoll_op_name(o->op));
        return false;
    }
    if (o->on_device) {
        cli_complain("--codec: found with --device %s; allowed is host", o->device);
        return false;
    }
    if (reduces && o->size > 1 && o->order > GCOLL_ORDER_ANY) {
        cli_complain("--codec: is %s with --order %s; allowed is one of the two", o->codec,
                     bench_order_name(o->order));
        return false;
    }
    return true;
}

/* Refuses flags that have no effect: they are mistakes. */
static bool check_meaning(const bench_options *o) {
    const struct {
        bool given;
        has_fn has;
        const char *flag, *what;
    } flags[] = {
        {o->root > 0, gcoll_collective_has_root, "--root", "has a root"},
        {o->op != GCOLL_SUM, gcoll_collective_reduces, "--op", "reduces"},
        {o->rounding, gcoll_collective_reduces, "--rounding", "reduces"},
        {o->prescale != 0, gcoll_collective_reduces, "--prescale", "reduces"},
        {o->postscale != 0, gcoll_collective_reduces, "--postscale", "reduces"},
        {o->in_place, gcoll_collective_takes_in_place, "--in-place", "works in place"},
        {o->exchanges > 0, bench_has_exchanges, "--exchanges", "has a number of exchanges"},
        {o->codec, bench_takes_codec, "--codec", "takes a codec"},
        {o->inputs > 1, gcoll_collective_takes_buffers, "--inputs", "takes more than one input a rank"},
    };
    for (size_t i = 0; i < sizeof flags / sizeof flags[0]; i++) {
        if (flags[i].given && !any_case(o, flags[i].has)) {
            cli_complain("%s: is set with --collective %s; allowed is a collective that %s", flags[i].flag,
                         o->collective, flags[i].what);
            return false;
        }
    }
    if (any_case(o, gcoll_collective_reduces) && gcoll_op_check(o->type, o->op) != GCOLL_OK) {
        cli_complain("--%s", gcoll_last_error());
        return false;
    }
    if (!check_factors(o))
        return false;
    if (o->rounding && o->type != GCOLL_FLOAT32 && o->type != GCOLL_FLOAT64) {
        cli_complain("--rounding: found with --type %s; allowed are float32, float64",
                     gcoll_type_name(o->type));
        return false;
    }
    if (!check_codec(o))
        return false;
    if (o->rounding && o->op != GCOLL_SUM && o->op != GCOLL_AVG) {
        cli_complain("--rounding: found with --op %s; allowed are sum, avg", gcoll_op_name(o->op));
        return false;
    }
    return true;
}

/* Leaves out collectives that take only one input if there are several. */
static bool drop_single_inputs(bench_options *o) {
    size_t kept = 0;
    for (size_t i = 0; i < o->case_count; i++) {
        gcoll_collective c = o->cases[i].collective;
        if (o->inputs == 1 || c == GCOLL_BARRIER || gcoll_collective_takes_buffers(c)) {
            o->cases[kept++] = o->cases[i];
            continue;
        }
        cli_complain("--inputs %u: %s by %s takes one input and is left out", o->inputs,
                     gcoll_collective_name(c), o->cases[i].algorithm);
        free(o->cases[i].algorithm);
    }
    o->case_count = kept;
    return true;
}

uint64_t bench_largest_size(const bench_options *options) {
    uint64_t largest = 0;
    bool moves_data = false;
    for (size_t i = 0; i < options->case_count; i++)
        moves_data = moves_data || options->cases[i].collective != GCOLL_BARRIER;
    if (!moves_data)
        return 0;
    for (size_t i = 0; i < options->sizes.count; i++)
        largest = options->sizes.values[i] > largest ? options->sizes.values[i] : largest;
    return largest;
}

int64_t bench_timeout_ms(const bench_options *options) {
    return (int64_t)ceil(options->timeout_ms);
}

bool bench_needs_input(const bench_options *options) {
    return !options->in_place || !options->no_check; /* checks use both placements */
}

/* Of those on devices, what is in one and what is staged, which may be more. */
static uint64_t host_buffers(const bench_options *o) {
    const uint64_t messages = o->paced ? 2 : 0; /* arrival.c times some */
    return messages + (o->on_device ? 2 : (uint64_t)o->inputs * (bench_needs_input(o) ? 2 : 1));
}

uint64_t bench_buffer_bytes(const bench_options *options) {
    uint64_t bytes;
    return __builtin_mul_overflow(bench_largest_size(options), host_buffers(options), &bytes) ? UINT64_MAX
                                                                                              : bytes;
}

static bool check_memory(const bench_options *o) {
    uint64_t ranks = o->local > 0 ? o->local : 1;
    uint64_t each = bench_buffer_bytes(o);
    long pages = sysconf(_SC_PHYS_PAGES);
    long page_bytes = sysconf(_SC_PAGESIZE);
    if (pages <= 0 || page_bytes <= 0)
        return true;
    uint64_t allowed = (uint64_t)pages * (uint64_t)page_bytes / MEMORY_SHARE / ranks;
    if (each > allowed) {
        uint64_t most = allowed / host_buffers(o);
        cli_complain("--bytes: is %" PRIu64 "; allowed on this machine with %" PRIu64
                     " ranks here and %u inputs each is up to %" PRIu64 " (half of the memory)",
                     bench_largest_size(o), ranks, o->inputs, most);
        return false;
    }
    return true;
}

static int smaller_first(const void *a, const void *b) {
    const uint64_t x = *(const uint64_t *)a;
    const uint64_t y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

/* A tuner goes from size to size: upwards, and each once. */
static void order_sizes(bench_options *o) {
    size_t kept = 0;
    qsort(o->sizes.values, o->sizes.count, sizeof *o->sizes.values, smaller_first);
    for (size_t i = 0; i < o->sizes.count; i++)
        if (kept == 0 || o->sizes.values[i] > o->sizes.values[kept - 1])
            o->sizes.values[kept++] = o->sizes.values[i];
    o->sizes.count = kept;
}

static bool read_sizes(bench_options *o) {
    const char *initial = o->network_out ? "0" : o->tune ? TUNED_BYTES : DEFAULT_BYTES;
    if (o->sizes.count == 0 && !cli_parse_list("--bytes", initial, 0, UINT64_MAX, &o->sizes))
        return false;
    size_t element = gcoll_type_size(o->type);
    for (size_t i = 0; i < o->sizes.count; i++) {
        uint64_t odd = o->sizes.values[i] % element;
        if (odd != 0 && (o->verbose || o->sizes.values[i] < element)) {
            cli_complain("--bytes: %" PRIu64
                         " is no multiple of the %zu bytes of %s and is rounded down to %" PRIu64,
                         o->sizes.values[i], element, gcoll_type_name(o->type), o->sizes.values[i] - odd);
        }
        o->sizes.values[i] -= odd;
    }
    if (o->tune)
        order_sizes(o);
    return check_memory(o);
}

/* A tuner looks at everything, up to where choices have long been the same. */
static bool set_defaults(bench_options *o) {
    const bool tunes = o->tune || o->tune_check;
    o->paced = o->paced || o->monitor != BENCH_MONITOR_OFF;
    if (o->tune && o->tune_check) {
        cli_complain("--tune and --tune-check: give one or the other");
        return false;
    }
    if (o->tune && o->tuning) {
        cli_complain("--tuning: found with --tune, which measures by itself");
        return false;
    }
    if (o->on_device && tunes) {
        cli_complain("%s: found with --device %s; it is about buffers in host memory",
                     o->tune ? "--tune" : "--tune-check", o->device);
        return false;
    }
    if (o->on_device && o->shared) {
        cli_complain("--shared: found with --device %s; it is about buffers in host memory", o->device);
        return false;
    }
    if (!o->on_device && o->local_reduction != GCOLL_MEMORY_LOCAL_AUTO) {
        cli_complain("--local-reduction: is for buffers on devices (--device)");
        return false;
    }
    if (!o->transport && !bench_find_transport(o))
        return false;
    if (o->checksum && strcmp(o->transport, "shm") == 0)
        o->transport = "tcp"; /* shm has no checksums: auto passes it over, and shm by name is refused */
    if (!o->collective)
        o->collective = o->tune ? "all" : gcoll_collective_name(GCOLL_ALLREDUCE);
    if (!o->algorithm)
        o->algorithm = tunes ? "all" : "auto";
    if (tunes && !(o->settle_s > 0) && o->iterations == 0)
        o->settle_s = TUNE_SETTLE_S;
    return true;
}

/* Refuses flags that have no effect on messages of two ranks. */
static bool check_network(const bench_options *o) {
    const struct {
        const char *flag;
        bool given;
    } others[] = {{"--tune", o->tune},
                  {"--tune-check", o->tune_check},
                  {"--collective", o->collective},
                  {"--algorithm", o->algorithm},
                  {"--bytes", o->sizes.count > 0},
                  {"--iterations", o->iterations > 0},
                  {"--device", o->on_device},
                  {"--shared", o->shared},
                  {"--arrival", o->arrival.text},
                  {"--compute", o->compute_ms > 0},
                  {"--monitor", o->monitor != BENCH_MONITOR_OFF},
                  {"--rounding", o->rounding},
                  {"--in-place", o->in_place},
                  {"--one-shot", o->one_shot},
                  {"--settle", o->settle_s > 0},
                  {"--back-to-back", o->back_to_back},
                  {"--line-up", o->line_up},
                  {"--with-barrier", o->with_barrier}};
    for (size_t i = 0; i < sizeof others / sizeof others[0] && o->network_out; i++)
        if (others[i].given) {
            cli_complain("%s: found with --network-out, which measures messages of two ranks",
                         others[i].flag);
            return false;
        }
    return true;
}

/* Once the ranks are known. A rank that meets nobody in a round waits for the others. */
static bool check_network_ranks(const bench_options *o) {
    if (o->network_out && (o->size < 2 || o->size > BENCH_PAIRS_MOST_RANKS)) {
        cli_complain("--network-out: found with %u rank%s; allowed are 2 to %u", o->size,
                     o->size == 1 ? "" : "s", BENCH_PAIRS_MOST_RANKS);
        return false;
    }
    if (o->network_out && 2e3 * o->seconds > o->timeout_ms) {
        cli_complain("--time: is %g s; allowed with --network-out is up to half of --timeout, %g s",
                     o->seconds, o->timeout_ms / 2e3);
        return false;
    }
    return true;
}

gcoll_same bench_same(const bench_options *options) {
    const bool tunes = options->tune || options->tune_check; /* for calls that leave it to the default */
    const bool is_named = strcmp(options->algorithm, "auto") != 0 && !tunes;
    return options->same >= 0 ? (gcoll_same)options->same
           : is_named         ? GCOLL_SAME_NOWHERE
                              : GCOLL_SAME_ON_RANKS;
}

/* A page is of tables of results. */
static bool check_report(const bench_options *o) {
    const char *other = o->tune          ? "--tune"
                        : o->tune_check  ? "--tune-check"
                        : o->network_out ? "--network-out"
                                         : NULL;
    if (o->report && other) {
        cli_complain("--report: found with %s, whose results it cannot show", other);
        return false;
    }
    if (o->results && !o->report) {
        cli_complain("--results: found without --report, which says where the page is to be written");
        return false;
    }
    for (int i = 1; i < o->argc && o->results; i++) {
        const size_t length = strcspn(o->argv[i], "=");
        const bool is_good = (length == strlen("--report") && strncmp(o->argv[i], "--report", length) == 0) ||
                             (length == strlen("--results") && strncmp(o->argv[i], "--results", length) == 0);
        if (!is_good) {
            cli_complain("%.*s: found with --results, which measures nothing; allowed is --report",
                         (int)length, o->argv[i]);
            return false;
        }
        i += o->argv[i][length] == '\0'; /* its value */
    }
    return true;
}

static bool check_line_up(const bench_options *o) {
    const char *flag = o->with_barrier ? "--with-barrier" : "--line-up";
    const char *other = o->back_to_back ? "--back-to-back, which leaves the barrier out"
                        : o->paced ? "--arrival, --compute or --monitor, whose calls begin at other moments"
                        : o->tune  ? "--tune, which takes the time of calls alone"
                        : o->tune_check                 ? "--tune-check, which takes the time of calls alone"
                        : o->line_up && o->with_barrier ? "--line-up, which leaves that barrier out"
                                                        : NULL;
    const bool is_good = !other || (!o->with_barrier && !o->line_up);
    if (!is_good)
        cli_complain("%s: found with %s", flag, other);
    return is_good;
}

bool bench_options_parse(bench_options *options, int argc, char **argv) {
    *options = (bench_options){.rank = -1, .same = -1, .argc = argc, .argv = argv};
    gcoll_ibverbs_options_init(&options->ibverbs);
    if (!bench_flags_parse(options, argc, argv))
        return false;
    if (options->help || options->version || options->list_devices)
        return true;
    if (!check_report(options))
        return false;
    if (options->results)
        return true;
    if (options->plan && !bench_plan_read(options))
        return false;
    return check_network(options) && set_defaults(options) && check_ranks(options) &&
           check_network_ranks(options) && check_repeats(options) && read_algorithms(options) &&
           check_meaning(options) && drop_single_inputs(options) && read_sizes(options) &&
           check_line_up(options) && bench_arrival_check(options);
}

void bench_options_free(bench_options *options) {
    for (size_t i = 0; i < options->case_count; i++)
        free(options->cases[i].algorithm);
    free(options->cases);
    free(options->sizes.values);
    free(options->devices.values);
    cli_arrival_free(&options->arrival);
    bench_unload(options);
    bench_plan_free(options);
}
