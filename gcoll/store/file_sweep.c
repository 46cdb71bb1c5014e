/*
 * gcoll/store/file_sweep.c - removes files that crashed jobs left in the folder of a file store.
 *
 * Three kinds of files are removed once nobody has touched them for a day: files of keys that have a part
 * "gcoll", as all keys of contexts do; temporary files; and lock files that nobody holds. Other files may
 * belong to anybody. A set, an add and a keep touch the key's file. A keep for more than a day puts the
 * file's modification time into the future.
 *
 * A job may set a key again at the moment at which its old file is removed. So the file is renamed first and
 * checked again. If it turns out to be new, it is put back.
 *
 * Thousands of ranks may open the folder, and it may hold many files. So each rank checks a few files,
 * beginning at a random one, and continues only while it finds files to remove.
 */
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "gcoll/base/base.h"
#include "gcoll/store/file_folder.h"

#define FEW_LOOKS   64
#define MORE_LOOKS  8     /* further files to check for each file that was removed */
#define MOST_LOOKS  1024  /* limit of files to check */
#define MOST_NAMES  65536 /* names to read: reading a name costs far less than checking a file */
#define RANDOM_TEXT 16
#define FILE_MODE   0600
#define SHARED_MODE 0666

typedef struct sweep {
    int folder;
    bool shared;
    bool has_now; /* `now` is set, by the file system's clock */
    time_t now;
} sweep;

int gcoll_file_create_temporary(int folder, bool shared, char name[GCOLL_FILE_OWN_MAX]) {
    uint64_t random;
    if (gcoll_random_bytes(&random, sizeof random) != GCOLL_OK) {
        errno = EIO;
        return -1;
    }
    snprintf(name, GCOLL_FILE_OWN_MAX, GCOLL_FILE_TEMPORARY "%016" PRIx64, random);
    return openat(folder, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
                  shared ? SHARED_MODE : FILE_MODE);
}

/* ---- Which files ------------------------------------------------------------------------------- */

/* Returns whether a name is that of an internal file: `start` and hexadecimal digits. */
static bool is_own(const char *name, const char *start) {
    size_t bytes = strlen(start);
    return strncmp(name, start, bytes) == 0 && strlen(name + bytes) == RANDOM_TEXT &&
           strspn(name + bytes, "0123456789abcdef") == RANDOM_TEXT;
}

/* Returns whether a name is that of a key's file, and the key has a part "gcoll" with other parts after
 * it. */
static bool is_key_of_job(const char *name) {
    const char *part = strstr(name, "gcoll+");
    if (!part || (part != name && part[-1] != '+') || part[strlen("gcoll+")] == '\0')
        return false;
    for (const char *at = name; *at != '\0'; at++)
        if (!isalnum((unsigned char)*at) && !strchr("._-+,", *at))
            return false;
    return true;
}

/* Reads the file system's clock from the time of a new file. This host's clock, or that of the file server,
 * may be wrong by years. */
static bool read_clock(sweep *s) {
    if (s->has_now)
        return true;
    char name[GCOLL_FILE_OWN_MAX];
    int fd = gcoll_file_create_temporary(s->folder, s->shared, name);
    if (fd < 0)
        return false;
    struct stat info;
    s->has_now = fstat(fd, &info) == 0;
    s->now = info.st_mtim.tv_sec;
    close(fd);
    unlinkat(s->folder, name, 0);
    return s->has_now;
}

/* Returns whether a file may be removed: it is old by this host's clock and by the file system's, and, unless
 * the store is shared, it belongs to this user. */
static bool is_old(sweep *s, const struct stat *info) {
    const bool ours = s->shared || gcoll_file_trusted(info);
    return ours && S_ISREG(info->st_mode) && info->st_mtim.tv_sec < time(NULL) - GCOLL_FILE_LIFETIME_S &&
           read_clock(s) && info->st_mtim.tv_sec < s->now - GCOLL_FILE_LIFETIME_S;
}

static bool is_old_name(sweep *s, const char *name) {
    struct stat info;
    return fstatat(s->folder, name, &info, AT_SYMLINK_NOFOLLOW) == 0 && is_old(s, &info);
}

/* ---- Removing ---------------------------------------------------------------------------------- */

/* Removes a lock file while this process holds the lock. A rank that waits for the lock then notices that the
 * file has lost its name, and creates another. */
static bool remove_lock_file(const sweep *s, const char *name) {
    struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    int fd = openat(s->folder, name, O_RDWR | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC);
    bool held = fd >= 0 && fcntl(fd, F_OFD_SETLK, &whole) == 0;
    struct stat ours, named;
    bool removed =
        held && fstat(fd, &ours) == 0 && fstatat(s->folder, name, &named, AT_SYMLINK_NOFOLLOW) == 0 &&
        ours.st_ino == named.st_ino && ours.st_dev == named.st_dev && unlinkat(s->folder, name, 0) == 0;
    if (fd >= 0)
        close(fd);
    return removed;
}

static bool remove_key_file(sweep *s, const char *name) {
    uint64_t random;
    if (gcoll_random_bytes(&random, sizeof random) != GCOLL_OK)
        return false;
    char aside[GCOLL_FILE_OWN_MAX];
    snprintf(aside, sizeof aside, GCOLL_FILE_TEMPORARY "%016" PRIx64, random);
    if (renameat(s->folder, name, s->folder, aside) != 0)
        return false;
    bool old = is_old_name(s, aside);
    if (!old) /* link, not rename: it must not replace a value set meanwhile */
        (void)!linkat(s->folder, aside, s->folder, name, 0);
    unlinkat(s->folder, aside, 0);
    return old;
}

/* Checks one file, and removes it if it is old. */
static bool remove_if_old(sweep *s, const char *name) {
    if (!is_old_name(s, name))
        return false;
    if (is_own(name, GCOLL_FILE_TEMPORARY))
        return unlinkat(s->folder, name, 0) == 0;
    return is_own(name, GCOLL_FILE_LOCK) ? remove_lock_file(s, name) : remove_key_file(s, name);
}

/* ---- The folder -------------------------------------------------------------------------------- */

static bool is_candidate(const char *name) {
    return is_own(name, GCOLL_FILE_TEMPORARY) || is_own(name, GCOLL_FILE_LOCK) || is_key_of_job(name);
}

/* Counts the candidates among the first MOST_NAMES names. */
static uint64_t count_candidates(DIR *names) {
    uint64_t count = 0;
    const struct dirent *entry;
    for (int read = 0; read < MOST_NAMES && (entry = readdir(names)); read++)
        count += is_candidate(entry->d_name);
    rewinddir(names);
    return count;
}

void gcoll_folder_sweep(int folder, bool shared) {
    sweep s = {.folder = folder, .shared = shared};
    uint64_t random = 0;
    /* A descriptor of its own, because readdir moves its position. */
    int fd = openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *names = fd < 0 ? NULL : fdopendir(fd);
    if (!names) {
        if (fd >= 0)
            close(fd);
        return;
    }
    const uint64_t count = count_candidates(names);
    if (count > FEW_LOOKS && gcoll_random_bytes(&random, sizeof random) == GCOLL_OK)
        random %= count;
    const uint64_t first = count > FEW_LOOKS ? random : 0;
    uint64_t seen = 0, looks = 0, allowed = FEW_LOOKS;
    const struct dirent *entry;
    for (int read = 0; read < MOST_NAMES && looks < allowed && (entry = readdir(names)); read++) {
        if (!is_candidate(entry->d_name) || seen++ < first)
            continue;
        looks++;
        if (remove_if_old(&s, entry->d_name) && allowed < MOST_LOOKS)
            allowed += MORE_LOOKS;
    }
    closedir(names);
}
