/*
 * tools/kernels/main.c - gcoll_kernels: compares the bandwidth of the reduction kernels with a streaming
 * triad and plain loops.
 *
 * All contestants run in turns, round by round. A ratio compares times of the same round; the printed figures
 * are medians over the rounds. Bandwidth counts two reads and one write of one operand's bytes, but not the
 * read of the cache lines that are overwritten.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "tools/cli.h"
#include "tools/cli_types.h"
#include "tools/kernels/measure.h"
#include "tools/progress.h"

const char cli_program[] = "gcoll_kernels";

typedef struct options {
    const char *set;
    int type; /* -1: all */
    gcoll_op op;
    uint32_t rounds;
    cli_list bytes, chunks;
    bool in_place, help;
} options;

static bool read_set(const cli_flag *flag, const char *text, void *to) {
    if (!gcoll_kernel_table_of(text))
        return cli_bad(flag->name, text, "a set of this build that this processor has");
    return cli_read_text(flag, text, to);
}

#define CLI_OPTIONS options

static const cli_flag rows[] = {
    {.help = "Flags"},
    {"--set", "NAME", "kernels of this instruction set (the best)", NULL, CLI_OTHER(read_set, set)},
    {"--type", "NAME", "one type (all)", NULL, CLI_OTHER(cli_read_type, type)},
    {"--op", "NAME", "one operation", "sum", CLI_OTHER(cli_read_op, op)},
    {"--bytes", "LIST", "bytes of each of the three buffers", "8Ki,128Ki,4Mi,64Mi",
     CLI_LIST(bytes, 0, CLI_MOST_SIZE)},
    {"--rounds", "N", "rounds", "9", CLI_WHOLE32(rounds, 1, MEASURE_ROUNDS_MAX)},
    {"--in-place", NULL, "the result goes where the first operand is", NULL, CLI_SWITCH(in_place)},
    {"--chunks", "LIST", "float32 sum by chunks, each read once after: ordinary and non-temporal stores",
     NULL, CLI_LIST(chunks, 0, CLI_MOST_SIZE)},
    {"--help", NULL, "print this", NULL, CLI_SWITCH(help)},
};

static const cli_flags flags = {.rows = rows, .count = sizeof rows / sizeof rows[0]};

/* ---- The table --------------------------------------------------------------------------------------- */

static void print_head(const options *o) {
    printf("# set %s, %s, %s, medians of %u rounds, GB/s of two reads and one write\n", o->set,
           gcoll_op_name(o->op), o->in_place ? "in place" : "out of place", o->rounds);
    printf("# /x: the kernel's speed over that of x, and its least and greatest in a round\n");
    printf("%-9s %10s %8s %8s %8s %8s %8s %19s %19s %19s\n", "type", "bytes", "kernel", "triad", "stream",
           "plain", "plain-v3", "/triad", "/plain", "/plain-v3");
}

static void print_speed(const measure_result *r, size_t which, int width) {
    if (r->speed[which] > 0)
        printf(" %*.2f", width, r->speed[which]);
    else
        printf(" %*s", width, "-");
}

static void print_ratio(const measure_result *r, size_t which) {
    char text[40] = "-";
    if (r->speed[which] > 0)
        (void)snprintf(text, sizeof text, "%.2f (%.2f-%.2f)", r->ratio[which], r->least[which],
                       r->greatest[which]);
    printf(" %19s", text);
}

/* False: the kernel and a plain loop gave different results. */
static bool print_case(const options *o, measure_buffers *buffers, gcoll_type type, uint64_t bytes) {
    measure_case c = {.set = o->set,
                      .type = type,
                      .op = o->op,
                      .bytes = bytes,
                      .rounds = o->rounds,
                      .in_place = o->in_place};
    measure_result r;
    if (!measure_agree(buffers, &c)) {
        cli_complain("%s %s: the kernel and the plain loop differ", gcoll_type_name(type),
                     gcoll_op_name(o->op));
        return false;
    }
    measure_kernel(buffers, &c, &r);
    cli_progress_hide();
    printf("%-9s %10" PRIu64, gcoll_type_name(type), bytes);
    for (size_t i = 0; i < MEASURE_COUNT; i++)
        print_speed(&r, i, 8);
    print_ratio(&r, MEASURE_TRIAD);
    print_ratio(&r, MEASURE_PLAIN);
    print_ratio(&r, MEASURE_PLAIN_V3);
    printf("\n");
    (void)fflush(stdout);
    return true;
}

static bool is_wanted(const options *o, int type) {
    return (o->type < 0 || o->type == type) && gcoll_kernel_find_in(o->set, (gcoll_type)type, o->op);
}

static bool print_table(const options *o, measure_buffers *buffers) {
    bool right = true;
    size_t types = 0;
    for (int type = 0; type < GCOLL_TYPE_COUNT; type++)
        types += is_wanted(o, type);
    cli_progress_begin("gcoll_kernels", (double)(types * o->bytes.count));
    print_head(o);
    for (int type = 0; type < GCOLL_TYPE_COUNT; type++) {
        for (size_t i = 0; is_wanted(o, type) && i < o->bytes.count; i++) {
            right &= print_case(o, buffers, (gcoll_type)type, o->bytes.values[i]);
            cli_progress_add(1);
        }
    }
    cli_progress_end();
    return right;
}

static void print_chunks(const options *o, measure_buffers *buffers) {
    printf("# float32 sum of %" PRIu64
           " bytes, chunk by chunk; then each chunk is copied away, as a send does\n",
           buffers->bytes);
    printf("%10s %10s %10s %19s\n", "chunk", "ordinary", "stream", "stream/ordinary");
    for (size_t i = 0; i < o->chunks.count; i++) {
        measure_result r;
        uint64_t chunk = o->chunks.values[i];
        measure_chunks(buffers, chunk, o->rounds, &r);
        printf("%10" PRIu64, chunk);
        print_speed(&r, 0, 10);
        print_speed(&r, 1, 10);
        print_ratio(&r, 1);
        printf("\n");
    }
}

static bool sizes_fit(const char *flag, const cli_list *list, uint64_t *largest) {
    for (size_t i = 0; i < list->count; i++) {
        uint64_t bytes = list->values[i];
        if (bytes < MEASURE_BYTES_MIN || bytes > MEASURE_BYTES_MAX || bytes % MEASURE_BYTES_MIN != 0) {
            cli_complain("%s: is %" PRIu64 "; allowed are multiples of %d up to 1Gi", flag, bytes,
                         MEASURE_BYTES_MIN);
            return false;
        }
        if (bytes > *largest)
            *largest = bytes;
    }
    return true;
}

static int run(const options *o) {
    uint64_t largest = 0;
    measure_buffers buffers;
    if (!sizes_fit("--bytes", &o->bytes, &largest) || !sizes_fit("--chunks", &o->chunks, &largest))
        return CLI_USAGE;
    if (!measure_allocate(&buffers, largest)) {
        cli_complain("no memory for three times %" PRIu64 " bytes", largest);
        return 1;
    }
    bool right = true;
    if (o->chunks.count > 0)
        print_chunks(o, &buffers);
    else
        right = print_table(o, &buffers);
    measure_release(&buffers);
    return right ? 0 : 1;
}

int main(int argc, char **argv) {
    options o = {.type = -1};
    int status = CLI_USAGE;
    o.set = gcoll_kernel_sets[0];
    for (size_t i = 0; !gcoll_kernel_table_of(o.set); i++)
        o.set = gcoll_kernel_sets[i];
    if (cli_parse(&flags, argc, argv, &o)) {
        if (o.help) {
            printf("gcoll_kernels - measures the reduction kernels beside a triad and plain loops\n");
            cli_print_flags(stdout, &flags);
            status = 0;
        } else {
            status = run(&o);
        }
    }
    free(o.bytes.values);
    free(o.chunks.values);
    return status;
}
