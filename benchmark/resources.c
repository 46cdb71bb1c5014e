/*
 * benchmark/resources.c - --resources: start-up time, memory, sockets and CPU time of a rank, as the least,
 * median and greatest over the ranks.
 *
 * Memory is the process's private memory (Private_Dirty) and its proportional share (Pss), from
 * /proc/self/smaps_rollup. The figures at the end include the benchmark's own buffers.
 */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "benchmark/clock.h"
#include "benchmark/resources.h"
#include "tools/cli_value.h"

enum { STARTUP_US, JOINED_DIRTY, JOINED_PSS, JOINED_SOCKETS, DIRTY, PSS, SOCKETS, CPU_US, SWITCHES, FIGURES };

static const struct {
    const char *name;
    double unit;
} figures[FIGURES] = {
    [STARTUP_US] = {"start-up, ms", 1000},
    [JOINED_DIRTY] = {"private memory joined, KiB", 1},
    [JOINED_PSS] = {"share of memory joined, KiB", 1},
    [JOINED_SOCKETS] = {"sockets joined", 1},
    [DIRTY] = {"private memory at the end, KiB", 1},
    [PSS] = {"share of memory at the end, KiB", 1},
    [SOCKETS] = {"sockets at the end", 1},
    [CPU_US] = {"processor time since joined, ms", 1000},
    [SWITCHES] = {"sleeps since joined", 1},
};

static uint64_t count_sockets(void) {
    DIR *folder = opendir("/proc/self/fd");
    uint64_t count = 0;
    struct dirent *entry;
    while (folder && (entry = readdir(folder))) {
        char target[16] = "";
        ssize_t bytes = readlinkat(dirfd(folder), entry->d_name, target, sizeof target - 1);
        count += bytes > 0 && strncmp(target, "socket:", 7) == 0;
    }
    if (folder)
        (void)closedir(folder);
    return count;
}

/* In KiB; 0 where the kernel does not say. */
static void read_memory(uint64_t *dirty, uint64_t *pss) {
    FILE *file = fopen("/proc/self/smaps_rollup", "re");
    char line[128];
    *dirty = *pss = 0;
    while (file && fgets(line, sizeof line, file))
        if (strncmp(line, "Private_Dirty:", 14) == 0)
            *dirty = strtoull(line + 14, NULL, 10);
        else if (strncmp(line, "Pss:", 4) == 0)
            *pss = strtoull(line + 4, NULL, 10);
    if (file)
        (void)fclose(file);
}

static void read_usage(uint64_t *cpu_us, uint64_t *switches) {
    struct rusage usage;
    (void)getrusage(RUSAGE_SELF, &usage);
    *cpu_us = (uint64_t)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1000000 +
              (uint64_t)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
    *switches = (uint64_t)usage.ru_nvcsw;
}

void bench_resources_joined(bench_resources *r, int64_t started_ns) {
    r->startup_us = (uint64_t)(bench_now_ns() - started_ns) / 1000;
    read_memory(&r->dirty_kib, &r->pss_kib);
    r->sockets = count_sockets();
    read_usage(&r->cpu_us, &r->switches);
}

static int ascending(const void *a, const void *b) {
    uint64_t x = *(const uint64_t *)a;
    uint64_t y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

static void print_figure(const char *name, double unit, uint64_t *values, uint32_t count) {
    qsort(values, count, sizeof *values, ascending);
    uint64_t median = values[count / 2];
    (void)fprintf(stderr, "# %-32s %12.1f %12.1f %12.1f\n", name, (double)values[0] / unit,
                  (double)median / unit, (double)values[count - 1] / unit);
}

bool bench_resources_report(const bench_resources *r, gcoll_context *context) {
    uint32_t size = gcoll_context_size(context);
    uint64_t mine[FIGURES] = {r->startup_us, r->dirty_kib, r->pss_kib, r->sockets};
    read_memory(&mine[DIRTY], &mine[PSS]);
    mine[SOCKETS] = count_sockets();
    read_usage(&mine[CPU_US], &mine[SWITCHES]);
    mine[CPU_US] -= r->cpu_us;
    mine[SWITCHES] -= r->switches;
    bool root = gcoll_context_rank(context) == 0;
    uint64_t *all = root ? calloc((size_t)size * FIGURES, sizeof *all) : NULL;
    uint64_t *column = root ? calloc(size, sizeof *column) : NULL;
    bool good = !root || (all && column);
    if (!good) {
        cli_complain("out of memory for the resources of %u ranks", size);
    } else if (gcoll_gather(context, mine, all, FIGURES, GCOLL_UINT64, 0, NULL) != GCOLL_OK) {
        cli_complain("collecting the resources: %s", gcoll_last_error());
        good = false;
    }
    if (good && root) {
        (void)fprintf(stderr, "# %-32s %12s %12s %12s\n", "a rank's", "least", "median", "greatest");
        for (size_t i = 0; i < FIGURES; i++) {
            for (uint32_t rank = 0; rank < size; rank++)
                column[rank] = all[(size_t)rank * FIGURES + i];
            print_figure(figures[i].name, figures[i].unit, column, size);
        }
    }
    free(column);
    free(all);
    return good;
}
