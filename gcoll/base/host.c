/* gcoll/base/host.c - which host this is: for reaching one another, and for sharing processors. */
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "gcoll/base/base.h"

#define BOOT_ID_FILE  "/proc/sys/kernel/random/boot_id"
#define BOOT_ID_BYTES 36
#define NAMESPACE     "/proc/self/ns/net"
#define HASH_START    UINT64_C(0xcbf29ce484222325) /* FNV-1a: nobody gains by a collision */
#define HASH_FACTOR   UINT64_C(0x100000001b3)

static uint64_t hash_bytes(uint64_t hash, const void *bytes, size_t count) {
    const uint8_t *each = bytes;

    for (size_t i = 0; i < count; i++)
        hash = (hash ^ each[i]) * HASH_FACTOR;
    return hash;
}

static uint64_t hash_name(uint64_t hash) {
    char name[256] = {0};

    gethostname(name, sizeof name - 1);
    return hash_bytes(hash, name, strlen(name));
}

/* The same for all containers of a machine. False where it is not shown. */
static bool hash_boot(uint64_t *hash) {
    char text[BOOT_ID_BYTES];
    FILE *file = fopen(BOOT_ID_FILE, "re");
    size_t bytes = file ? fread(text, 1, sizeof text, file) : 0;

    if (file)
        fclose(file);
    *hash = hash_bytes(*hash, text, bytes);
    return bytes > 0;
}

uint64_t gcoll_host_identity(void) {
    uint64_t hash = HASH_START;
    struct stat status;

    hash_boot(&hash);
    if (stat(NAMESPACE, &status) == 0)
        hash = hash_bytes(hash, &status.st_ino, sizeof status.st_ino);
    return hash_name(hash); /* for sandboxes that show neither */
}

uint64_t gcoll_processors_identity(void) {
    uint64_t hash = HASH_START;
    cpu_set_t set;

    if (!hash_boot(&hash))
        hash = hash_name(hash);
    memset(&set, 0, sizeof set); /* the kernel need not fill all of it */
    return sched_getaffinity(0, sizeof set, &set) == 0 ? hash_bytes(hash, &set, sizeof set) : hash;
}
