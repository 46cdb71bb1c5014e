/* options.c - one table of flags gives the reading, the help and the messages. */
#include "options.h"

#include <errno.h>
#include <gcoll/gcoll.h>
#include <math.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void complain(const char *format, ...) {
    char text[1000];
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    (void)fprintf(stderr, "train: %s\n", text);
}

typedef enum kind { HEADING, WHOLE, WHOLE64, REAL, TEXT, MONITOR, SET, SLOW } kind;

typedef struct flag {
    const char *name; /* or the heading */
    kind kind;
    size_t offset;       /* of the value in options */
    double least, most;  /* of numbers */
    const char *initial; /* NULL: none */
    const char *help;
} flag;

#define AT(field) offsetof(train_options, field)
#define MANY      4294967295.0

static const flag flags[] = {
    {.name = "Who takes part"},
    {"--local", WHOLE, AT(local), 1, 1024, NULL, "so many ranks, which are started on this machine (2)"},
    {"--rank", WHOLE, AT(rank), 0, MANY, NULL, "or: this one is the rank of this number; also needs"},
    {"--size", WHOLE, AT(size), 1, MANY, NULL, "  the number of ranks, and"},
    {"--store", TEXT, AT(store), 0, 0, NULL, "  where they meet, as file:DIR or redis://HOST"},
    {"--job", TEXT, AT(job), 0, 0, NULL, "name of the job in the store (train)"},
    {.name = "What is trained"},
    {"--epochs", WHOLE, AT(epochs), 1, 1000000, "5", "how often each image is used"},
    {"--images", WHOLE, AT(images), 1, 100000000, "2000", "to train with"},
    {"--test-images", WHOLE, AT(test_images), 0, 100000000, "500", "to test with after each epoch"},
    {"--batch", WHOLE, AT(batch), 1, 65536, "8", "images of each rank in a step"},
    {"--channels", WHOLE, AT(channels), 1, 512, "32", "of the first convolution: the width of the network"},
    {"--rate", REAL, AT(rate), 1e-9, 10, "0.005", "of learning"},
    {"--seed", WHOLE64, AT(seed), 0, 0, "1", "of images, their order and the first weights"},
    {"--checkpoint", TEXT, AT(checkpoint), 0, 0, NULL, "file that rank 0 writes after each epoch"},
    {"--resume", SET, AT(resume), 0, 0, NULL, "go on from the checkpoint"},
    {.name = "How gradients are averaged"},
    {"--algorithm", TEXT, AT(algorithm), 0, 0, "auto", "of the allreduce"},
    {"--monitor", MONITOR, AT(monitor), 0, 0, "off",
     "on, off, edges: lets auto heed who comes late, of 3 to 64 ranks"},
    {"--timeout", WHOLE, AT(timeout_s), 1, 86400, "30", "how long a rank waits for others, in seconds"},
    {.name = "For measurements"},
    {"--slow", SLOW, 0, 0, 1000, NULL, "RANK:PERCENT; its computation takes so much longer"},
    {"--step-ms", REAL, AT(step_ms), 0, 60000, "0", "the computation of a step lasts at least so long"},
};

static bool bad(const flag *f, const char *text, const char *allowed) {
    complain("%s: found '%s'; allowed: %s", f->name, text, allowed);
    return false;
}

static bool read_number(const flag *f, const char *text, void *to) {
    char allowed[80];
    char *end;
    (void)snprintf(allowed, sizeof allowed, f->kind == REAL ? "%g to %g" : "whole numbers, %.0f to %.0f",
                   f->least, f->most);
    const double value = strtod(text, &end);
    const bool plain = strspn(text, f->kind == REAL ? "0123456789.e-" : "0123456789") == strlen(text);
    if (end == text || *end != '\0' || !plain || !(value >= f->least && value <= f->most)) {
        return bad(f, text, allowed);
    }
    if (f->kind == REAL) {
        *(double *)to = value;
    } else {
        *(uint32_t *)to = (uint32_t)value;
    }
    return true;
}

static bool read_whole64(const flag *f, const char *text, uint64_t *to) {
    errno = 0;
    *to = strtoull(text, NULL, 10);
    if (text[0] == '\0' || strspn(text, "0123456789") != strlen(text) || errno != 0) {
        return bad(f, text, "whole numbers below 2^64");
    }
    return true;
}

static bool read_slow(const flag *f, const char *text, train_options *self) {
    unsigned rank;
    double percent;
    int used = 0;
    if (strspn(text, "0123456789.:") != strlen(text) ||
        sscanf(text, "%9u:%lf%n", &rank, &percent, &used) != 2 || text[used] != '\0' ||
        !(percent >= f->least && percent <= f->most)) {
        return bad(f, text, "RANK:PERCENT, 0 to 1000 percent, as 1:10");
    }
    self->slow_rank = rank;
    self->slow_percent = percent;
    return true;
}

const char *monitoring_name(monitoring monitor) {
    static const char *const names[] = {"off", "on", "edges"};
    return names[monitor];
}

static bool read_monitor(const flag *f, const char *text, monitoring *to) {
    for (int m = MONITOR_OFF; m <= MONITOR_EDGES; m++) {
        if (strcmp(text, monitoring_name(m)) == 0) {
            *to = (monitoring)m;
            return true;
        }
    }
    return bad(f, text, "off, on, edges");
}

static bool read_value(const flag *f, const char *text, train_options *self) {
    void *to = (char *)self + f->offset;
    switch (f->kind) {
    case TEXT:
        *(const char **)to = text;
        return text[0] != '\0' || bad(f, text, "a text that is not empty");
    case MONITOR:
        return read_monitor(f, text, to);
    case SLOW:
        return read_slow(f, text, self);
    case WHOLE64:
        return read_whole64(f, text, to);
    default:
        return read_number(f, text, to);
    }
}

static void print_help(void) {
    (void)printf("usage: train [--local N] [OPTION...]\n"
                 "       train --rank R --size N --store URL [OPTION...]\n\n"
                 "Trains a network that tells images of ten kinds apart, on several ranks at once.\n");
    for (size_t f = 0; f < sizeof flags / sizeof flags[0]; f++) {
        if (flags[f].kind == HEADING) {
            (void)printf("\n%s:\n", flags[f].name);
        } else if (flags[f].initial != NULL) {
            (void)printf("  %-14s %s (%s)\n", flags[f].name, flags[f].help, flags[f].initial);
        } else {
            (void)printf("  %-14s %s\n", flags[f].name, flags[f].help);
        }
    }
}

static const flag *find(const char *name) {
    for (size_t f = 0; f < sizeof flags / sizeof flags[0]; f++) {
        if (flags[f].kind != HEADING && strcmp(flags[f].name, name) == 0) {
            return &flags[f];
        }
    }
    complain("unknown argument '%s'; --help lists what there is", name);
    return NULL;
}

/* What no flag can know by itself. */
static bool check(train_options *self, bool has_rank) {
    if (self->local > 0 && (has_rank || self->size > 0)) {
        complain("--local starts all ranks; it does not go with --rank and --size");
        return false;
    }
    if ((has_rank || self->size > 0) && (!has_rank || self->size == 0 || self->store == NULL)) {
        complain("--rank, --size and --store need one another");
        return false;
    }
    if (self->local == 0 && self->size == 0) {
        self->local = 2;
    }
    self->size = self->local > 0 ? self->local : self->size;
    if (self->rank >= self->size) {
        complain("--rank: found %u; allowed: below --size, %u", self->rank, self->size);
        return false;
    }
    if (self->slow_rank >= self->size) {
        complain("--slow: found rank %u; allowed: below the number of ranks, %u", self->slow_rank,
                 self->size);
        return false;
    }
    if (self->monitor != MONITOR_OFF && strcmp(self->algorithm, "auto") != 0) {
        complain("--monitor %s: it is auto that heeds arrivals, not --algorithm %s",
                 monitoring_name(self->monitor), self->algorithm);
        return false;
    }
    if (self->resume && self->checkpoint == NULL) {
        complain("--resume: needs --checkpoint FILE to go on from");
        return false;
    }
    if (strlen(self->algorithm) >= ALGORITHM_BYTES) {
        complain("--algorithm: found %zu bytes; allowed: up to %d", strlen(self->algorithm),
                 ALGORITHM_BYTES - 1);
        return false;
    }
    if (strcmp(self->algorithm, "auto") != 0 &&
        gcoll_algorithm_check("allreduce", self->algorithm) != GCOLL_OK) {
        complain("--algorithm: %s", gcoll_last_error());
        return false;
    }
    return true;
}

static bool read_all(int argc, char **argv, train_options *self, bool *has_rank) {
    for (int a = 1; a < argc; a++) {
        const flag *f = find(argv[a]);
        if (f == NULL) {
            return false;
        }
        *has_rank = *has_rank || strcmp(f->name, "--rank") == 0;
        if (f->kind == SET) {
            *(bool *)(void *)((char *)self + f->offset) = true;
        } else if (a + 1 == argc) {
            complain("%s: needs a value", f->name);
            return false;
        } else if (!read_value(f, argv[++a], self)) {
            return false;
        }
    }
    return true;
}

bool options_read(int argc, char **argv, train_options *self, int *status) {
    bool has_rank = false;
    *self = (train_options){0};
    *status = TRAIN_GOOD;
    for (int a = 1; a < argc; a++) {
        if (strcmp(argv[a], "--help") == 0) {
            print_help();
            return false;
        }
    }
    for (size_t f = 0; f < sizeof flags / sizeof flags[0]; f++) {
        if (flags[f].initial != NULL) {
            (void)read_value(&flags[f], flags[f].initial, self);
        }
    }
    *status = TRAIN_USAGE;
    return read_all(argc, argv, self, &has_rank) && check(self, has_rank);
}
