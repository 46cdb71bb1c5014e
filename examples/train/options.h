/* options.h - the command line. */
#ifndef TRAIN_OPTIONS_H
#define TRAIN_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

typedef enum monitoring {
    MONITOR_OFF,
    MONITOR_ON,   /* gcoll goes by when ranks arrived before */
    MONITOR_EDGES /* and by what each says of the step that it is in */
} monitoring;

/* Exit statuses. */
#define TRAIN_GOOD   0
#define TRAIN_FAILED 1
#define TRAIN_USAGE  2

#define ALGORITHM_BYTES 128 /* of the name of an algorithm with its options, and the zero behind it */

typedef struct train_options {
    /* Who takes part. local: so many ranks, started here; 0: this is `rank` of `size`. */
    uint32_t local, rank, size;
    const char *store, *job; /* NULL: not given */
    /* What is trained. */
    uint32_t epochs, batch, images, test_images, channels;
    uint64_t seed;
    double rate;
    const char *checkpoint; /* NULL: none */
    bool resume;
    /* How gradients are averaged. */
    const char *algorithm;
    monitoring monitor;
    uint32_t timeout_s;
    /* For measurements. */
    uint32_t slow_rank;
    double slow_percent; /* 0: nobody is slow */
    double step_ms;
} train_options;

/* False: the program ends with *status. What is wrong has been said. */
bool options_read(int argc, char **argv, train_options *self, int *status);

/* As on the command line. */
const char *monitoring_name(monitoring monitor);

/* "train: ..." to standard error, in one piece. */
void complain(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
