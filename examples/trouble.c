/* A job in which something goes wrong, to try gcoll_trace and gcoll_top on (docs/cases.md). Ranks sum 100
 * numbers again and again, and compute for a millisecond in between. Rank, size and store are the launcher's.
 *
 *   trouble late PERCENT  rank 2 computes so much longer; 2,000 sums
 *   trouble mismatch      rank 1 gives 50 numbers, the 50th time
 *   trouble none          until a call fails: stop a rank, or kill one
 *
 * Each rank writes what its flight recorder has into the folder GCOLL_DUMP_DIR: itself at the end, or the
 * library when the context breaks. */
#include <gcoll/gcoll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define COMPUTE_NS 1000000
#define TIMEOUT_MS 3000
#define SUMS       2000 /* of a late job */

static void compute(long ns) {
    const struct timespec pause = {ns / 1000000000, ns % 1000000000};
    nanosleep(&pause, NULL);
}

static int fail(gcoll_status status) {
    fprintf(stderr, "%s: %s\n", gcoll_status_text(status), gcoll_last_error());
    return 1;
}

/* What a late job has recorded; the context of a broken one has written by itself. */
static int write_record(gcoll_context *context, const char *folder) {
    char path[4096];
    snprintf(path, sizeof path, "%s/rank%u.json", folder, gcoll_context_rank(context));
    gcoll_status status = gcoll_context_dump(context, path);
    return status == GCOLL_OK ? 0 : fail(status);
}

int main(int argc, char **argv) {
    const char *what = argc > 1 ? argv[1] : "", *folder = getenv("GCOLL_DUMP_DIR");
    const int is_late = strcmp(what, "late") == 0 && argc == 3, differs = strcmp(what, "mismatch") == 0;
    if (!is_late && !differs && strcmp(what, "none") != 0) {
        fputs("usage: trouble late PERCENT | mismatch | none\n", stderr);
        return 2;
    }
    gcoll_context_options options;
    gcoll_context *context;
    gcoll_context_options_init(&options);
    options.timeout_ms = TIMEOUT_MS;
    gcoll_status status = gcoll_context_create_from_env(&options, &context);
    if (status != GCOLL_OK)
        return fail(status);

    const uint32_t rank = gcoll_context_rank(context);
    const long late = is_late && rank == 2 ? COMPUTE_NS / 100 * strtol(argv[2], NULL, 10) : 0;
    float numbers[100] = {0};
    int result = 0;
    for (int i = 1; status == GCOLL_OK && (!is_late || i <= SUMS); i++) {
        const uint64_t count = differs && i == 50 && rank == 1 ? 50 : 100;
        compute(COMPUTE_NS + late);
        status = gcoll_allreduce(context, NULL, numbers, count, GCOLL_FLOAT32, GCOLL_SUM, NULL);
    }
    if (status != GCOLL_OK)
        result = fail(status);
    else if (folder)
        result = write_record(context, folder);
    gcoll_context_destroy(context);
    return result;
}
