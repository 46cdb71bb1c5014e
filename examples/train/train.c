/* train.c - data-parallel training over gcoll: each rank computes the gradients for its share of the images,
 * and one allreduce makes the mean of all ranks' gradients. README.md says how to run it. */
#include <errno.h>
#include <gcoll/gcoll.h>
#include <inttypes.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "network.h"

#define MOST_RANKS 1024 /* on one machine */

typedef struct options {
    uint32_t local, rank, size; /* local: ranks to start here; 0: this process is `rank` of `size` */
    const char *store, *launch;
    uint32_t epochs, images, test_images, batch, channels, seed;
    const char *algorithm, *codec;
    bool monitor, feedback;
    uint32_t timeout_s, step_ms, slow_rank;
    double slow_percent; /* 0: no rank is slow */
} options;

/* The training, as one rank does it. */
typedef struct trainer {
    const options *options;
    gcoll_store *store;
    gcoll_context *context;
    gcoll_allreduce_options allreduce;
    network net;
    float *velocity; /* of each parameter */
    float *lost;     /* of each gradient: what rounding has lost of it so far */
    /* So far, on this rank: */
    uint64_t steps, images;
    double steps_s, compute_s, allreduce_s;
    uint64_t weights; /* a hash of them */
} trainer;

/* What is counted over images: numbers of one type, so that one allreduce adds them up. */
typedef struct tally {
    double loss, right, seen;
} tally;

/* To standard error, in one piece. */
#define complain(format, ...) (void)fprintf(stderr, "train: " format "\n", __VA_ARGS__)

static double now(void) { /* seconds since some time in the past */
    struct timespec time;
    (void)clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

/* ---- The use of gcoll ---------------------------------------------------------------------------- */

static void leave(trainer *t) {
    gcoll_context_destroy(t->context);
    gcoll_store_destroy(t->store);
}

/* Ends this process if a call failed. gcoll's text names the operation and the rank at fault; the other
 * ranks' calls fail as well. */
static void check(trainer *t, gcoll_status status) {
    if (status != GCOLL_OK) {
        complain("rank %u: %s: %s", t->options->rank, gcoll_status_text(status), gcoll_last_error());
        leave(t);
        exit(EXIT_FAILURE);
    }
}

/* Returns when all ranks are there. */
static void join(trainer *t) {
    const options *o = t->options;
    gcoll_context_options how;
    gcoll_context_options_init(&how);
    how.rank = o->rank;
    how.size = o->size;
    how.job = "train";
    how.launch = o->launch;
    how.timeout_ms = (int64_t)o->timeout_s * 1000;
    how.monitor = o->monitor;
    check(t, gcoll_store_open(o->store, how.timeout_ms, &t->store));
    how.store = t->store;
    check(t, gcoll_context_create(&how, &t->context));
}

/* Ends the job on all ranks. */
static void stop_all(trainer *t, const char *reason) {
    gcoll_context_abort(t->context, reason);
    check(t, gcoll_barrier(t->context, NULL)); /* the next call, whichever it is, tells the others */
}

/* With a codec, messages carry gradients with fewer bits. Error feedback: what rounding takes from the
 * gradients of this step is added to those of the next, so that nothing is lost for good. The allreduce
 * begins with the rounded gradients, which its first messages carry as they are.
 *
 * Source: F. Seide, H. Fu, J. Droppo, G. Li and D. Yu, 1-bit stochastic gradient descent and its application
 * to data-parallel distributed training of speech DNNs, Interspeech 2014, section 3. */
static void feed_back(trainer *t) {
    float *gradients = t->net.gradients;
    if (!t->options->feedback || strcmp(t->options->codec, "none") == 0)
        return;
    for (size_t i = 0; i < t->net.count; i++)
        t->lost[i] += gradients[i];
    check(t, gcoll_codec_round(t->options->codec, t->lost, gradients, t->net.count, t->steps));
    for (size_t i = 0; i < t->net.count; i++)
        t->lost[i] -= gradients[i];
}

/* All gradients, of all layers, become the mean of those of all ranks.
 *
 * Every rank updates weights of its own, so the mean must have the same bits on every rank, or the weights
 * would drift apart, step by step. Not every algorithm gives that, as a sum of floats depends on its order.
 * By default gcoll takes one that does, and refuses others by name. */
static void average_gradients(trainer *t) {
    const double arrived_at = now();
    feed_back(t);
    check(t, gcoll_allreduce(t->context, NULL, t->net.gradients, t->net.count, GCOLL_FLOAT32, GCOLL_AVG,
                             &t->allreduce));
    t->allreduce_s += now() - arrived_at;
}

/* All ranks begin with rank 0's weights. The first allreduce makes connections; it adds zeros here, so that
 * no step is charged for that. */
static void begin(trainer *t) {
    gcoll_allreduce_options_init(&t->allreduce);
    t->allreduce.algorithm = t->options->algorithm;
    t->allreduce.codec = t->options->codec;
    if (t->options->rank == 0)
        network_initialise(&t->net, t->options->seed);
    check(t, gcoll_broadcast(t->context, t->net.parameters, t->net.count, GCOLL_FLOAT32, 0, NULL));
    average_gradients(t);
    t->allreduce_s = 0;
}

/* Ranks whose weights differ, by a fault in a processor's memory for example, must not go on. */
static void compare_weights(trainer *t) {
    const unsigned char *bytes = (const unsigned char *)t->net.parameters;
    uint64_t hash = UINT64_C(0xcbf29ce484222325); /* FNV-1a */
    for (size_t i = 0; i < t->net.count * sizeof(float); i++)
        hash = (hash ^ bytes[i]) * UINT64_C(0x100000001b3);
    t->weights = hash;
    check(t, gcoll_broadcast(t->context, &hash, 1, GCOLL_UINT64, 0, NULL));
    if (hash != t->weights)
        stop_all(t, "its weights are not those of rank 0");
}

/* The algorithm that averaged the gradients of the latest step; and with a monitor in how many steps it went
 * by late ranks. */
static void find_algorithm(trainer *t, char *name, size_t bytes, uint64_t *heeded) {
    gcoll_site_stats site = {.struct_size = sizeof site};
    gcoll_operation *operation;
    *heeded = 0;
    if (!t->options->monitor) { /* of the same kind as those of the steps, so of the same algorithm */
        check(t, gcoll_allreduce_create(t->context, NULL, t->net.gradients, t->net.count, GCOLL_FLOAT32,
                                        GCOLL_AVG, &t->allreduce, &operation));
        (void)snprintf(name, bytes, "%s", gcoll_operation_algorithm(operation));
        gcoll_operation_destroy(operation);
        return;
    }
    uint32_t s = 0;
    do {
        check(t, gcoll_arrival_stats(t->context, s++, &site, NULL));
    } while (site.collective != GCOLL_ALLREDUCE || site.type != GCOLL_FLOAT32);
    *heeded = site.heeded;
    (void)snprintf(name, bytes, "%s", site.algorithm);
}

/* ---- The training --------------------------------------------------------------------------------
 *
 * Stochastic gradient descent with momentum. Each step takes the next batch * size images of the epoch, and
 * each rank a share of them. The mean of the ranks' gradients is the gradient that one rank would have got
 * from all these images, so training by many ranks is training by one with a larger batch. */

#define RATE     0.005F
#define MOMENTUM 0.9F

/* Of `count` images: where the share of a rank begins. Shares differ by one at most. */
static uint64_t share_begins(const options *o, uint64_t count, uint32_t rank) {
    return count * rank / o->size;
}

/* For measurements: the computation for an image began at `begun_at` and is over. Sleeps for as long as it
 * should have lasted beyond that. */
static void keep_pace(const options *o, double begun_at) {
    const double slower = o->rank == o->slow_rank ? o->slow_percent / 100 : 0;
    const double least_s = o->step_ms / 1e3 / o->batch, lasted_s = now() - begun_at;
    const double left_s = fmax(lasted_s, least_s) * (1 + slower) - lasted_s;
    if (left_s > 0)
        (void)usleep((useconds_t)(1e6 * left_s));
}

static void look_at(trainer *t, uint64_t number, tally *counts) {
    real pixels[IMAGE_PIXELS];
    bool right;
    image_make(t->options->seed, number, pixels);
    counts->loss += network_forward(&t->net, pixels, image_class(number), &right);
    counts->right += right ? 1 : 0;
    counts->seen += 1;
}

static void compute_gradients(trainer *t, uint64_t first, uint64_t count, tally *counts) {
    const options *o = t->options;
    const uint64_t end = share_begins(o, count, o->rank + 1);
    /* The allreduce divides by the number of ranks; the mean over images is wanted. */
    const real scale = (real)o->size / (real)count;
    memset(t->net.gradients, 0, t->net.count * sizeof(real));
    for (uint64_t i = share_begins(o, count, o->rank); i < end; i++) {
        const double begun_at = now();
        look_at(t, first + i, counts);
        network_backward(&t->net, image_class(first + i), scale);
        keep_pace(o, begun_at);
        t->images++;
    }
}

static void train_epoch(trainer *t, tally *counts) {
    const options *o = t->options;
    const uint64_t batch = (uint64_t)o->batch * o->size;
    const double begun_at = now();
    for (uint64_t first = 0; first < o->images; first += batch) {
        const double step_at = now();
        compute_gradients(t, first, o->images - first < batch ? o->images - first : batch, counts);
        t->compute_s += now() - step_at;
        average_gradients(t);
        for (size_t i = 0; i < t->net.count; i++) {
            t->velocity[i] = MOMENTUM * t->velocity[i] - RATE * t->net.gradients[i];
            t->net.parameters[i] += t->velocity[i];
        }
        t->steps++;
    }
    t->steps_s += now() - begun_at;
}

/* One epoch. Returns how many of all ranks' test images came out right, in percent. */
static double run_epoch(trainer *t, uint32_t epoch) {
    const options *o = t->options;
    const uint64_t end = share_begins(o, o->test_images, o->rank + 1);
    const double before_s = t->steps_s;
    tally sums[2] = {{0}}; /* of the training, of the test */
    train_epoch(t, &sums[0]);
    for (uint64_t i = share_begins(o, o->test_images, o->rank); i < end; i++)
        look_at(t, FIRST_TEST_IMAGE + i, &sums[1]);
    check(t, gcoll_allreduce(t->context, NULL, sums, 6, GCOLL_FLOAT64, GCOLL_SUM, NULL));
    compare_weights(t);
    const double accuracy = 100 * sums[1].right / fmax(sums[1].seen, 1);
    if (o->rank == 0) {
        (void)printf("epoch %u/%u   training: loss %.4f, %5.1f %% right", epoch + 1, o->epochs,
                     sums[0].loss / sums[0].seen, 100 * sums[0].right / sums[0].seen);
        if (sums[1].seen > 0)
            (void)printf("   test: loss %.4f, %5.1f %% right", sums[1].loss / sums[1].seen, accuracy);
        (void)printf("   %.2f s\n", t->steps_s - before_s);
        (void)fflush(stdout);
    }
    return accuracy;
}

/* Each rank prints a line, and rank 0 the table, as table 5 of the paper has it. False: they were not
 * written. */
static bool report(trainer *t, double accuracy) {
    const options *o = t->options;
    double means[] = {t->compute_s, 1000 * t->allreduce_s / (double)t->steps};
    double total_s = t->steps_s;
    char algorithm[128], percent[16] = "-"; /* nothing was tested */
    uint64_t heeded;
    find_algorithm(t, algorithm, sizeof algorithm, &heeded);
    (void)printf("rank %u: %" PRIu64 " images, compute %.3f s, allreduce %.3f ms, weights %016" PRIx64 "\n",
                 o->rank, t->images, means[0], means[1], t->weights);
    bool good = fflush(stdout) == 0; /* before the next call, which no rank leaves before all have come */
    check(t, gcoll_allreduce(t->context, NULL, means, 2, GCOLL_FLOAT64, GCOLL_AVG, NULL));
    check(t, gcoll_allreduce(t->context, NULL, &total_s, 1, GCOLL_FLOAT64, GCOLL_MAX, NULL));
    if (o->rank == 0) {
        if (o->monitor)
            (void)printf("late ranks were heeded in %" PRIu64 " steps\n", heeded);
        if (o->test_images > 0)
            (void)snprintf(percent, sizeof percent, "%.1f", accuracy);
        (void)printf("\n%-24s  %7s  %6s  %10s  %10s  %13s  %10s  %16s\n", "algorithm", "monitor", "steps",
                     "total s", "compute s", "allreduce ms", "accuracy %", "weights");
        (void)printf("%-24s  %7s  %6" PRIu64 "  %10.3f  %10.3f  %13.3f  %10s  %016" PRIx64 "\n", algorithm,
                     o->monitor ? "on" : "off", t->steps, total_s, means[0], means[1], percent, t->weights);
        good = fflush(stdout) == 0 && good;
    }
    if (!good)
        complain("rank %u: standard output did not take the results", o->rank);
    return good;
}

/* ---- The command line ---------------------------------------------------------------------------- */

/* SHARED: a number that must be the same on all ranks. */
typedef enum kind { NUMBER, SHARED, TEXT, SWITCH, SLOW } kind;

typedef struct flag {
    const char *name;
    kind kind;
    size_t offset; /* of the value in options */
    double least, most;
    const char *initial, *help;
} flag;

#define AT(field) offsetof(options, field)
#define MANY      4294967295.0

static const flag flags[] = {
    {"--local", NUMBER, AT(local), 1, MOST_RANKS, NULL, "start so many ranks on this machine (2)"},
    {"--rank", NUMBER, AT(rank), 0, MANY, "0", "or be this rank; needs --size and --store"},
    {"--size", NUMBER, AT(size), 1, MANY, NULL, "the number of ranks"},
    {"--store", TEXT, AT(store), 0, 0, NULL, "where they meet: file:DIR or redis://HOST"},
    {"--epochs", SHARED, AT(epochs), 1, 1e6, "5", "how often each image is used"},
    {"--images", SHARED, AT(images), 1, 1e8, "2000", "to train with"},
    {"--test-images", SHARED, AT(test_images), 0, 1e8, "500", "to test with after each epoch"},
    {"--batch", SHARED, AT(batch), 1, 65536, "8", "images of each rank in a step"},
    {"--channels", SHARED, AT(channels), 1, 512, "32", "the width of the network"},
    {"--seed", SHARED, AT(seed), 0, MANY, "1", "of images and first weights"},
    {"--algorithm", TEXT, AT(algorithm), 0, 0, "auto", "of the allreduce"},
    {"--codec", TEXT, AT(codec), 0, 0, "none", "of the allreduce: bf16, fp16, int8:block=128, ..."},
    {"--feedback", SWITCH, AT(feedback), 0, 0, "on", "on or off; on: a codec's errors go into the next step"},
    {"--monitor", SWITCH, AT(monitor), 0, 0, "off", "on or off; on: auto heeds late ranks"},
    {"--timeout", NUMBER, AT(timeout_s), 1, 86400, "30", "how long a rank waits for others, in s"},
    {"--slow", SLOW, 0, 0, 1000, NULL, "RANK:PERCENT; so much longer a rank computes"},
    {"--step-ms", NUMBER, AT(step_ms), 0, 60000, "0", "a step's computation lasts at least so long"},
};

#define FLAGS (sizeof flags / sizeof flags[0])

static void print_help(void) {
    (void)printf("usage: train [--local N] [OPTION...]\n"
                 "       train --rank R --size N --store URL [OPTION...]\n\n"
                 "Trains a network that tells images of ten kinds apart, on several ranks at once.\n\n");
    for (size_t f = 0; f < FLAGS; f++) {
        (void)printf("  %-14s %s", flags[f].name, flags[f].help);
        if (flags[f].initial)
            (void)printf(" (%s)", flags[f].initial);
        (void)printf("\n");
    }
}

static bool read_value(const flag *f, const char *text, options *o) {
    void *to = (char *)o + f->offset;
    double number;
    char rest;
    bool good = sscanf(text, "%lf%c", &number, &rest) == 1 && number >= f->least && number <= f->most;
    switch (f->kind) {
    case NUMBER:
    case SHARED:
        good = good && number == floor(number);
        *(uint32_t *)to = good ? (uint32_t)number : 0;
        break;
    case TEXT:
        *(const char **)to = text;
        return true;
    case SWITCH:
        *(bool *)to = strcmp(text, "on") == 0;
        good = *(bool *)to || strcmp(text, "off") == 0;
        break;
    case SLOW:
        good = sscanf(text, "%9u:%lf%c", &o->slow_rank, &o->slow_percent, &rest) == 2 &&
               o->slow_percent >= f->least && o->slow_percent <= f->most;
    }
    if (!good && f->kind <= SHARED)
        complain("%s: found '%s'; allowed: %.10g to %.10g", f->name, text, f->least, f->most);
    else if (!good)
        complain("%s: found '%s'; allowed: %s", f->name, text, f->help);
    return good;
}

/* What no flag can know by itself. */
static bool check_options(options *o) {
    const bool by_hand = o->store || o->size > 0;
    if (by_hand && (o->local > 0 || o->size == 0 || !o->store)) {
        complain("%s need one another, and do not go with --local", "--rank, --size and --store");
        return false;
    }
    if (!by_hand) {
        o->local = o->local > 0 ? o->local : 2;
        o->size = o->local;
    }
    if (o->rank >= o->size || o->slow_rank >= o->size) {
        complain("--rank %u, --slow %u: allowed: below the number of ranks, %u", o->rank, o->slow_rank,
                 o->size);
        return false;
    }
    if (o->monitor && strcmp(o->algorithm, "auto") != 0) {
        complain("--monitor on: it is auto that heeds late ranks, not --algorithm %s", o->algorithm);
        return false;
    }
    return true;
}

static bool read_options(int argc, char **argv, options *o) {
    *o = (options){0};
    for (size_t f = 0; f < FLAGS; f++)
        if (flags[f].initial)
            (void)read_value(&flags[f], flags[f].initial, o);
    for (int a = 1; a < argc; a += 2) {
        size_t f = 0;
        while (f < FLAGS && strcmp(argv[a], flags[f].name) != 0)
            f++;
        if (f == FLAGS || a + 1 == argc) {
            complain("%s '%s'; --help lists what there is", f == FLAGS ? "unknown argument" : "no value for",
                     argv[a]);
            return false;
        }
        if (!read_value(&flags[f], argv[a + 1], o))
            return false;
    }
    return check_options(o);
}

/* Ends the job if ranks were started with different options. */
static void compare_options(trainer *t) {
    uint32_t own[FLAGS] = {0}, first[FLAGS]; /* first: rank 0's */
    for (size_t f = 0; f < FLAGS; f++)
        if (flags[f].kind == SHARED)
            memcpy(&own[f], (const char *)t->options + flags[f].offset, sizeof own[f]);
    memcpy(first, own, sizeof first);
    check(t, gcoll_broadcast(t->context, first, FLAGS, GCOLL_UINT32, 0, NULL));
    for (size_t f = 0; f < FLAGS; f++) {
        if (own[f] != first[f]) {
            char reason[100];
            (void)snprintf(reason, sizeof reason, "it has %s %u, rank 0 has %u", flags[f].name, own[f],
                           first[f]);
            stop_all(t, reason);
        }
    }
}

/* ---- The ranks ----------------------------------------------------------------------------------- */

static int run_rank(const options *o) {
    trainer t = {.options = o};
    double accuracy = 0;
    const bool made = network_make(&t.net, o->channels);
    t.velocity = calloc(t.net.count, sizeof *t.velocity);
    t.lost = calloc(t.net.count, sizeof *t.lost);
    if (!made || !t.velocity || !t.lost) {
        complain("rank %u: no memory", o->rank);
        exit(EXIT_FAILURE);
    }
    join(&t);
    compare_options(&t);
    begin(&t);
    for (uint32_t epoch = 0; epoch < o->epochs; epoch++)
        accuracy = run_epoch(&t, epoch);
    const bool good = report(&t, accuracy);
    leave(&t);
    free(t.lost);
    free(t.velocity);
    network_free(&t.net);
    return good ? EXIT_SUCCESS : EXIT_FAILURE;
}

/* With --local, ranks are children of this process, and if it ends, the kernel kills them. If a rank is lost,
 * gcoll tells the others, which then end by themselves. If they do not, this process ends. */

#define GRACE_S 5 /* gcoll takes about a second to tell of a loss, once the others are in a call */

static int run_local(const options *o) {
    const char *place = getenv("TMPDIR");
    char folder[1000], store[1010]; /* in which the ranks meet */
    pid_t ranks[MOST_RANKS], pid;
    const pid_t parent = getpid();
    options own = *o; /* of the next rank */
    int status = EXIT_SUCCESS, how;
    (void)snprintf(folder, sizeof folder, "%s/train-XXXXXX", place ? place : "/tmp");
    if (!mkdtemp(folder)) {
        complain("making the folder %s: %s", folder, strerror(errno));
        return EXIT_FAILURE;
    }
    (void)snprintf(store, sizeof store, "file:%s", folder);
    own.store = store;
    own.launch = strrchr(folder, '/') + 1; /* a name that no other launch has */
    (void)signal(SIGCHLD, SIG_DFL);        /* ignored, it would hide how ranks end */
    for (own.rank = 0; own.rank < o->local; own.rank++) {
        ranks[own.rank] = fork();
        if (ranks[own.rank] == 0) {
            const bool tied = prctl(PR_SET_PDEATHSIG, SIGKILL) == 0 && getppid() == parent;
            exit(tied ? run_rank(&own) : EXIT_FAILURE);
        }
        if (ranks[own.rank] < 0) {
            complain("starting rank %u: %s", own.rank, strerror(errno));
            return EXIT_FAILURE;
        }
    }
    while ((pid = waitpid(-1, &how, 0)) > 0) {
        uint32_t r = 0;
        while (r < o->local && ranks[r] != pid)
            r++;
        if (how == 0 || r == o->local)
            continue;
        if (WIFSIGNALED(how)) { /* else the rank has said why it ended */
            complain("rank %u (process %d) was killed by signal %d (%s)", r, (int)pid, WTERMSIG(how),
                     strsignal(WTERMSIG(how)));
        }
        status = EXIT_FAILURE;
        (void)alarm(GRACE_S); /* ends this process */
    }
    (void)rmdir(folder); /* ranks that were killed have left their keys in it */
    return status;
}

int main(int argc, char **argv) {
    options o;
    if (argc == 2 && strcmp(argv[1], "--help") == 0) {
        print_help();
        return 0;
    }
    if (!read_options(argc, argv, &o))
        return 2; /* as usual for the command line */
    return o.local > 0 ? run_local(&o) : run_rank(&o);
}
