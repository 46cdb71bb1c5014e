/*
 * test/fuzz/fuzz.h - targets for fuzzing: each takes any bytes, and must neither crash, hang nor leak.
 *
 * A target is a program of one file with LLVMFuzzerTestOneInput. Built with Clang's libFuzzer (scripts/fuzz)
 * it searches for inputs; else replay.c runs it on the corpus and on random changes of it, as a test.
 */
#ifndef GCOLL_FUZZ_H
#define GCOLL_FUZZ_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

/* What must hold whatever the input is. */
#define MUST(condition)                                                                                      \
    do {                                                                                                     \
        if (!(condition)) {                                                                                  \
            fprintf(stderr, "%s:%d: does not hold: %s\n", __FILE__, __LINE__, #condition);                   \
            abort();                                                                                         \
        }                                                                                                    \
    } while (0)

/* The input as text, which ends with its first NUL. The caller frees it. */
static inline char *fuzz_text(const uint8_t *data, size_t bytes) {
    char *text = malloc(bytes + 1);
    if (!text)
        abort();
    if (bytes > 0)
        memcpy(text, data, bytes);
    text[bytes] = '\0';
    return text;
}

/* Writes the input to a file in memory. Returns its path, the same each time. Silences stderr, as programs
 * complain there of most inputs. */
static inline const char *fuzz_file(const uint8_t *data, size_t bytes) {
    static int fd = -1;
    static char path[32];
    if (fd < 0) {
        fd = memfd_create("input", MFD_CLOEXEC);
        MUST(fd >= 0);
#ifndef FUZZING_BUILD_MODE_UNSAFE_FOR_PRODUCTION /* libFuzzer closes it by a flag */
        MUST(freopen("/dev/null", "w", stderr));
#endif
        snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    }
    MUST(ftruncate(fd, 0) == 0 && pwrite(fd, data, bytes, 0) == (ssize_t)bytes);
    return path;
}

#endif
