/* gcoll/base/host.c - identifies this host: for loopback connections, and for ranks that share processors. */
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "gcoll/base/base.h"
#include "gcoll/base/hash.h"

#define BOOT_ID_FILE  "/proc/sys/kernel/random/boot_id"
#define BOOT_ID_BYTES 36
#define NAMESPACE     "/proc/self/ns/net"

static uint64_t hash_name(uint64_t hash) {
    char name[256] = {0};
    gethostname(name, sizeof name - 1);
    return gcoll_hash_text(hash, name);
}

/* Hashes the boot id, which all containers of a machine share. False if it cannot be read. */
static bool hash_boot(uint64_t *hash) {
    char text[BOOT_ID_BYTES];
    FILE *file = fopen(BOOT_ID_FILE, "re");
    size_t bytes = file ? fread(text, 1, sizeof text, file) : 0;
    if (file)
        fclose(file);
    *hash = gcoll_hash_bytes(*hash, text, bytes);
    return bytes > 0;
}

uint64_t gcoll_host_identity(void) {
    uint64_t hash = GCOLL_HASH_START;
    hash_boot(&hash);
    struct stat status;
    if (stat(NAMESPACE, &status) == 0)
        hash = gcoll_hash_bytes(hash, &status.st_ino, sizeof status.st_ino);
    return hash_name(hash); /* in sandboxes that show neither */
}

uint64_t gcoll_processors_identity(void) {
    uint64_t hash = GCOLL_HASH_START;
    if (!hash_boot(&hash))
        hash = hash_name(hash);
    cpu_set_t set;
    memset(&set, 0, sizeof set); /* the kernel may fill only a part */
    return sched_getaffinity(0, sizeof set, &set) == 0 ? gcoll_hash_bytes(hash, &set, sizeof set) : hash;
}
