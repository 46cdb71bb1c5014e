/* benchmark/replace.c - writes a file beside another one, and then puts it in its place. */
#include "benchmark/replace.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "benchmark/clock.h"

bool bench_replace_begin(const char *path, bench_replacement *r) {
    const size_t room = strlen(path) + 32;
    *r = (bench_replacement){.path = path, .beside = malloc(room)};
    if (!r->beside)
        return false;
    (void)snprintf(r->beside, room, "%s.%llx", path, (unsigned long long)bench_now_ns());
    r->file = fopen(r->beside, "wxe");
    if (r->file)
        return true;
    const int why = errno;
    free(r->beside);
    errno = why;
    return false;
}

bool bench_replace_end(bench_replacement *r, bool keep) {
    bool good = ferror(r->file) == 0;
    good = fclose(r->file) == 0 && good && keep && rename(r->beside, r->path) == 0;
    const int why = errno;
    if (!good)
        (void)remove(r->beside);
    free(r->beside);
    errno = why;
    return good;
}
