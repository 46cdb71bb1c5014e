/* elastic.c - data-parallel training that goes on when ranks are killed and new ones come. The ranks that are
 * left make a context of their own and repeat the step in flight. Every few steps they admit newcomers, which
 * get the model. docs/elastic.md says how to run it.
 *
 * A step takes a batch of fixed size, of which each rank computes a share, and adds up the gradients of all
 * images. So the sum does not depend on the number of ranks, but for rounding, and neither does the training.
 * Numbers are double, so that rounding does not show in the loss. */
#include <gcoll/gcoll.h>
#include <gcoll/recovery.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "network.h"

typedef struct options {
    uint32_t rank, size, newcomer, steps, admit_every, batch, images, channels, seed, step_ms, timeout_s;
    const char *store;
} options;

/* The training, as one rank does it. Its model is parameters, velocity and the number of steps done: all that
 * a rank needs to go on. */
typedef struct trainer {
    const options *options;
    gcoll_store *store;
    gcoll_context *context;
    network net;
    double *velocity; /* of each parameter */
    double *sums;     /* of the gradients of all images of a step, and then of their losses */
    uint64_t steps;   /* done */
    bool has_model;   /* false: this is a newcomer that has not got it yet */
    double *message;  /* has_model, steps, parameters and velocity, as they go from rank 0 to the others */
} trainer;

#define JOB "elastic"

/* To standard error, in one piece. */
#define complain(format, ...) (void)fprintf(stderr, "elastic: " format "\n", __VA_ARGS__)

static double now(void) { /* seconds on a clock that all processes of this machine share */
    struct timespec time;
    (void)clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

/* ---- The use of gcoll ---------------------------------------------------------------------------- */

static void leave(trainer *t) {
    gcoll_context_destroy(t->context);
    gcoll_store_destroy(t->store);
}

/* Ends this process if a call failed from which there is no going on. */
static void check(trainer *t, gcoll_status status) {
    if (status != GCOLL_OK) {
        complain("process %d: %s: %s", (int)getpid(), gcoll_status_text(status), gcoll_last_error());
        leave(t);
        exit(EXIT_FAILURE);
    }
}

/* Returns when all ranks are there. A newcomer returns when the ranks of the running job have admitted it. */
static void enter(trainer *t) {
    const options *o = t->options;
    gcoll_context_options how;
    gcoll_context_options_init(&how);
    how.rank = o->rank;
    how.size = o->size;
    how.job = JOB;
    how.timeout_ms = (int64_t)o->timeout_s * 1000;
    how.recovery = 1;
    check(t, gcoll_store_open(o->store, how.timeout_ms, &t->store));
    how.store = t->store;
    check(t, o->newcomer ? gcoll_context_join(&how, &t->context) : gcoll_context_create(&how, &t->context));
}

/* A rank may fail to open its end of a new context; then all may try again. */
#define TRIES 3

static void replace(trainer *t, gcoll_context *context) {
    gcoll_context_destroy(t->context);
    t->context = context;
}

/* Goes on with the ranks that are left. */
static void shrink(trainer *t) {
    gcoll_context *survivors = NULL;
    gcoll_status status = GCOLL_ERR_PEER;
    for (int i = 0; i < TRIES && status == GCOLL_ERR_PEER; i++)
        status = gcoll_context_shrink(t->context, NULL, &survivors);
    check(t, status);
    replace(t, survivors);
}

/* Goes on with the ranks that are left and the newcomers that wait in the store. False if nobody waits. */
static bool grow(trainer *t) {
    gcoll_context *grown = NULL;
    gcoll_grow_options how;
    gcoll_status status = GCOLL_ERR_PEER;
    gcoll_grow_options_init(&how);
    how.store = t->store;
    how.job = JOB;
    for (int i = 0; i < TRIES && status == GCOLL_ERR_PEER; i++)
        status = gcoll_context_grow(t->context, &how, &grown);
    check(t, status);
    if (grown)
        replace(t, grown);
    return grown != NULL;
}

/* Whether a call has succeeded on every rank that is left: the same answer on all of them. A call may return
 * on one rank before another dies, and fail on a third, which must not go on differently. */
static bool all_well(trainer *t, gcoll_status status) {
    uint64_t bits = status == GCOLL_OK;
    check(t, gcoll_context_agree(t->context, &bits, NULL, 0));
    return bits != 0;
}

/* Every rank gets the model of rank 0. Newcomers have the highest ranks, so rank 0 has a model, unless all
 * ranks that had one have died. The message is a buffer of its own: a broadcast that fails must not spoil a
 * model. */
static void share_model(trainer *t) {
    const uint64_t count = t->net.count;
    double *parameters = t->message + 2, *velocity = parameters + count;
    for (;;) {
        t->message[0] = t->has_model;
        t->message[1] = (double)t->steps;
        memcpy(parameters, t->net.parameters, count * sizeof(double));
        memcpy(velocity, t->velocity, count * sizeof(double));
        if (all_well(t, gcoll_broadcast(t->context, t->message, 2 + 2 * count, GCOLL_FLOAT64, 0, NULL)))
            break;
        shrink(t);
    }
    if (t->message[0] == 0) {
        complain("process %d: all ranks that had the model have died", (int)getpid());
        leave(t);
        exit(EXIT_FAILURE);
    }
    t->has_model = true;
    t->steps = (uint64_t)t->message[1];
    memcpy(t->net.parameters, parameters, count * sizeof(double));
    memcpy(t->velocity, velocity, count * sizeof(double));
}

/* ---- The training -------------------------------------------------------------------------------- */

#define RATE     0.005
#define MOMENTUM 0.9

/* This rank's share of the images of a step: the sums of their gradients and losses. */
static void compute(trainer *t) {
    const options *o = t->options;
    const uint64_t rank = gcoll_context_rank(t->context), size = gcoll_context_size(t->context);
    const uint64_t end = o->batch * (rank + 1) / size;
    double loss = 0;
    memset(t->net.gradients, 0, t->net.count * sizeof(double));
    for (uint64_t i = o->batch * rank / size; i < end; i++) {
        const uint64_t number = (t->steps * o->batch + i) % o->images;
        real pixels[IMAGE_PIXELS];
        bool right;
        image_make(o->seed, number, pixels);
        loss += network_forward(&t->net, pixels, image_class(number), &right) / o->batch;
        network_backward(&t->net, image_class(number), 1.0 / o->batch);
    }
    memcpy(t->sums, t->net.gradients, t->net.count * sizeof(double));
    t->sums[t->net.count] = loss;
}

/* One step. What a killed rank has computed is lost, and the ranks that are left divide all images of the
 * step anew. So it does not matter that a call that failed has changed its buffer. */
static void step(trainer *t) {
    const double least_s = t->options->step_ms / 1e3, begun_at = now();
    for (;;) {
        compute(t);
        const double left_s = least_s - (now() - begun_at);
        if (left_s > 0)
            (void)usleep((useconds_t)(1e6 * left_s));
        if (all_well(t, gcoll_allreduce(t->context, NULL, t->sums, t->net.count + 1, GCOLL_FLOAT64, GCOLL_SUM,
                                        NULL)))
            break;
        shrink(t);
    }
    for (size_t i = 0; i < t->net.count; i++) {
        t->velocity[i] = MOMENTUM * t->velocity[i] - RATE * t->sums[i];
        t->net.parameters[i] += t->velocity[i];
    }
    t->steps++;
    /* Every rank prints it, as any may be killed. */
    (void)printf("%" PRIu64 " %.3f %u %.15g\n", t->steps, now(), gcoll_context_size(t->context),
                 t->sums[t->net.count]);
    (void)fflush(stdout);
}

static int run(const options *o) {
    trainer t = {.options = o, .has_model = !o->newcomer};
    const bool made = network_make(&t.net, o->channels);
    t.velocity = calloc(t.net.count, sizeof *t.velocity);
    t.sums = calloc(t.net.count + 1, sizeof *t.sums);
    t.message = calloc(2 + 2 * t.net.count, sizeof *t.message);
    if (!made || !t.velocity || !t.sums || !t.message) {
        complain("process %d: no memory", (int)getpid());
        exit(EXIT_FAILURE);
    }
    network_initialise(&t.net, o->seed);
    enter(&t);
    share_model(&t);
    while (t.steps < o->steps) {
        step(&t);
        /* By the number of the step, so that all ranks do it. A newcomer goes on with the step after it. */
        if (t.steps % o->admit_every == 0 && t.steps < o->steps && grow(&t))
            share_model(&t);
    }
    leave(&t);
    free(t.message);
    free(t.sums);
    free(t.velocity);
    network_free(&t.net);
    return EXIT_SUCCESS;
}

/* ---- The command line ---------------------------------------------------------------------------- */

typedef struct flag {
    const char *name;
    size_t offset; /* of the value in options */
    uint32_t initial, least, most;
    const char *help;
} flag;

#define AT(field) offsetof(options, field)

static const flag flags[] = {
    {"--rank", AT(rank), 0, 0, 1023, "be this rank"},
    {"--size", AT(size), 1, 1, 1024, "the number of ranks at the beginning"},
    {"--newcomer", AT(newcomer), 0, 0, 1, "1: join a training that runs, without --rank and --size"},
    {"--steps", AT(steps), 100, 1, 1000000, "to train"},
    {"--admit-every", AT(admit_every), 10, 1, 1000000, "steps between two admissions of newcomers"},
    {"--batch", AT(batch), 24, 1, 65536, "images of all ranks in a step"},
    {"--images", AT(images), 2000, 1, 100000000, "to train with"},
    {"--channels", AT(channels), 8, 1, 512, "the width of the network"},
    {"--seed", AT(seed), 1, 0, 4294967295U, "of images and first weights"},
    {"--step-ms", AT(step_ms), 0, 0, 60000, "a step lasts at least so long"},
    {"--timeout", AT(timeout_s), 30, 1, 86400, "how long a rank waits for a silent one, in s"},
};

#define FLAGS (sizeof flags / sizeof flags[0])

static int usage(void) {
    (void)printf(
        "usage: elastic --rank R --size N --store URL [OPTION...]\n"
        "       elastic --newcomer 1 --store URL [OPTION...]\n\n"
        "Trains a network on several ranks, of which some may be killed, while others join. Prints for each\n"
        "step: its number, the time in s, the number of ranks, and the loss. See docs/elastic.md.\n\n");
    for (size_t f = 0; f < FLAGS; f++)
        (void)printf("  %-13s %s (%u)\n", flags[f].name, flags[f].help, flags[f].initial);
    return 0;
}

static bool read_options(int argc, char **argv, options *o) {
    *o = (options){0};
    for (size_t f = 0; f < FLAGS; f++)
        *(uint32_t *)((char *)o + flags[f].offset) = flags[f].initial;
    for (int a = 1; a < argc; a += 2) {
        const char *text = a + 1 < argc ? argv[a + 1] : "";
        size_t f = 0;
        double number;
        char rest;
        if (strcmp(argv[a], "--store") == 0) {
            o->store = text;
            continue;
        }
        while (f < FLAGS && strcmp(argv[a], flags[f].name) != 0)
            f++;
        if (f == FLAGS) {
            complain("unknown argument '%s'; --help lists what there is", argv[a]);
            return false;
        }
        if (sscanf(text, "%lf%c", &number, &rest) != 1 || number != floor(number) ||
            number < flags[f].least || number > flags[f].most) {
            complain("%s: found '%s'; allowed: %u to %u", argv[a], text, flags[f].least, flags[f].most);
            return false;
        }
        *(uint32_t *)((char *)o + flags[f].offset) = (uint32_t)number;
    }
    if (!o->store || o->rank >= o->size) {
        complain("%s: needed are --store, and a --rank below --size", "arguments");
        return false;
    }
    return true;
}

int main(int argc, char **argv) {
    options o;
    if (argc == 2 && strcmp(argv[1], "--help") == 0)
        return usage();
    if (!read_options(argc, argv, &o))
        return 2; /* as usual for the command line */
    return run(&o);
}
