/* test/fuzz/replay.c - runs a target on each file of a folder, and on random changes of them.
 * Usage: TARGET FOLDER [CHANGES], by default 2000. */
#include <dirent.h>

#include "test/fuzz/fuzz.h"

#define FILES_MAX 256
#define BYTES_MAX 65536

static uint8_t *inputs[FILES_MAX];
static size_t sizes[FILES_MAX];
static size_t count;

static uint64_t random_state = 1;

static size_t below(size_t limit) {
    random_state = random_state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return limit > 0 ? (size_t)(random_state >> 33) % limit : 0;
}

static void read_file(const char *folder, const char *name) {
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "rb");
    uint8_t *bytes = malloc(BYTES_MAX);
    if (!file || !bytes) {
        fprintf(stderr, "%s: cannot be read\n", path);
        exit(2);
    }
    inputs[count] = bytes;
    sizes[count++] = fread(bytes, 1, BYTES_MAX, file);
    fclose(file);
}

/* Flips, replaces, removes and doubles some bytes, or takes the rest of another input. The copy is as large
 * as it must be, so that AddressSanitizer sees what is read beyond. */
static void run_changed(void) {
    const size_t which = below(count), other = below(count);
    uint8_t *bytes = malloc(2 * BYTES_MAX);
    size_t size = sizes[which];
    memcpy(bytes, inputs[which], size);
    for (size_t i = 0; i <= below(4); i++) {
        const size_t at = below(size + 1), length = below(size - at + 1);
        switch (below(6)) {
        case 0:
            if (at < size)
                bytes[at] ^= (uint8_t)(1U << below(8));
            break;
        case 1:
            if (at < size)
                bytes[at] = (uint8_t)below(256);
            break;
        case 2:
            memmove(bytes + at, bytes + at + length, size - at - length);
            size -= length;
            break;
        case 3:
            if (size + length <= BYTES_MAX) {
                memmove(bytes + at + length, bytes + at, size - at);
                size += length;
            }
            break;
        case 4:
            if (at < sizes[other]) {
                memcpy(bytes + at, inputs[other] + at, sizes[other] - at);
                size = sizes[other];
            }
            break;
        default:
            for (size_t k = 0; k < 8 && at + k < size; k++)
                bytes[at + k] = below(2) ? 0xff : 0;
        }
    }
    uint8_t *exact = malloc(size > 0 ? size : 1);
    memcpy(exact, bytes, size);
    LLVMFuzzerTestOneInput(exact, size);
    free(exact);
    free(bytes);
}

int main(int argc, char **argv) {
    DIR *folder = argc >= 2 ? opendir(argv[1]) : NULL;
    const long changes = argc >= 3 ? strtol(argv[2], NULL, 10) : 2000;
    if (!folder) {
        fprintf(stderr, "usage: %s FOLDER [CHANGES]\n", argv[0]);
        return 2;
    }
    for (struct dirent *entry; (entry = readdir(folder)) && count < FILES_MAX;)
        if (entry->d_name[0] != '.')
            read_file(argv[1], entry->d_name);
    closedir(folder);
    if (count == 0) {
        fprintf(stderr, "%s: has no files\n", argv[1]);
        return 2;
    }
    for (size_t i = 0; i < count; i++)
        LLVMFuzzerTestOneInput(inputs[i], sizes[i]);
    for (long i = 0; i < changes; i++)
        run_changed();
    printf("%zu inputs and %ld changes of them\n", count, changes);
    for (size_t i = 0; i < count; i++)
        free(inputs[i]);
    return 0;
}
