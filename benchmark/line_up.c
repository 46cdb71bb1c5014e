/* benchmark/line_up.c - a barrier of processes of one machine, in a file that they share. */
#include "benchmark/line_up.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "benchmark/clock.h"
#include "tools/cli.h"

#define SPINS 64u /* looks before another process may run */

/* What the file holds, at first zeros. `come` is of ranks that wait for the present round to end. */
struct bench_line_up_page {
    _Alignas(64) _Atomic uint32_t come;
    _Alignas(64) _Atomic uint32_t rounds;
};

bool bench_line_up_open(bench_line_up *line_up, const char *path, uint32_t ranks, double limit_ms) {
    *line_up = (bench_line_up){.ranks = ranks, .limit_ms = limit_ms};
    const int file = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    void *page = MAP_FAILED;
    struct stat found;
    if (file >= 0 && fstat(file, &found) == 0 && !S_ISREG(found.st_mode))
        errno = EINVAL; /* a pipe or a device */
    else if (file >= 0 && ftruncate(file, sizeof *line_up->page) == 0)
        page = mmap(NULL, sizeof *line_up->page, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (page == MAP_FAILED)
        cli_complain("--line-up: '%s': %s; allowed is a file of this job alone", path, strerror(errno));
    else
        line_up->page = page;
    if (file >= 0)
        (void)close(file);
    return page != MAP_FAILED;
}

bool bench_line_up_wait(const bench_line_up *line_up) {
    bench_line_up_page *page = line_up->page;
    const uint32_t round = atomic_load(&page->rounds);
    const uint32_t come = atomic_fetch_add(&page->come, 1) + 1;
    if (come > line_up->ranks) {
        cli_complain("--line-up: %u have come, and the job has %u ranks; the file is another job's, too",
                     come, line_up->ranks);
        return false;
    }
    if (come == line_up->ranks) {
        atomic_store(&page->come, 0);
        atomic_fetch_add(&page->rounds, 1);
        return true;
    }
    const int64_t end_ns = bench_now_ns() + (int64_t)(line_up->limit_ms * 1e6);
    for (uint32_t looks = 1; atomic_load(&page->rounds) == round; looks++) {
        if (looks % SPINS)
            continue;
        (void)sched_yield();
        if (bench_now_ns() > end_ns) {
            cli_complain("--line-up: %u of %u ranks have come within %g s", atomic_load(&page->come),
                         line_up->ranks, line_up->limit_ms / 1e3);
            return false;
        }
    }
    return true;
}

void bench_line_up_close(bench_line_up *line_up) {
    if (line_up->page)
        (void)munmap(line_up->page, sizeof *line_up->page);
    line_up->page = NULL;
}
