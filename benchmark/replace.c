/* benchmark/replace.c - writes a file beside another one, and then puts it in its place. */
#include "benchmark/replace.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "benchmark/clock.h"
#include "tools/cli_value.h"

/* What is there and cannot be replaced, as /dev/stdout. */
static bool is_written_itself(const char *path) {
    struct stat is;
    return stat(path, &is) == 0 && !S_ISREG(is.st_mode) && !S_ISDIR(is.st_mode);
}

bool bench_replace_begin(const char *path, bench_replacement *r) {
    const size_t room = strlen(path) + 32;
    if (is_written_itself(path)) {
        *r = (bench_replacement){.path = path, .file = fopen(path, "we")};
        return r->file;
    }
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
    good = fclose(r->file) == 0 && good && keep && (!r->beside || rename(r->beside, r->path) == 0);
    const int why = errno;
    if (!good && r->beside)
        (void)remove(r->beside);
    free(r->beside);
    errno = why;
    return good;
}

bool bench_replace_ready(const char *flag, const char *path) {
    struct stat is;
    bench_replacement trial;
    if (stat(path, &is) == 0 && S_ISDIR(is.st_mode)) {
        cli_complain("%s: %s: %s", flag, path, strerror(EISDIR));
        return false;
    }
    if (is_written_itself(path)) /* opening a pipe waits for its reader */
        return true;
    if (!bench_replace_begin(path, &trial)) {
        cli_complain("%s: %s: %s", flag, path, strerror(errno));
        return false;
    }
    (void)bench_replace_end(&trial, false);
    return true;
}
