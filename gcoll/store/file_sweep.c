/*
 * gcoll/store/file_sweep.c - removes files that crashed jobs left in the folder of a file store.
 *
 * Swept are, once nobody has touched them for a day: files of keys that have a part "gcoll", as all keys of
 * contexts do (other names may be anybody's files), temporary files, and lock files that nobody holds. A set
 * or a keep touches a key's file; a keep for longer puts its time into the future.
 *
 * A job may set a key anew in the moment in which its old file is swept. So the file is renamed first and
 * looked at again: one that turns out to be new is put back.
 *
 * Ranks open the folder by the thousand, and it may hold many files. So each looks at a few, from a place of
 * its own, and goes on only while it finds what to remove.
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
#define MORE_LOOKS  8     /* for each file that was removed */
#define MOST_LOOKS  1024  /* removed or not */
#define MOST_NAMES  65536 /* names read, which costs far less than a look at a file */
#define RANDOM_TEXT 16
#define FILE_MODE   0600
#define SHARED_MODE 0666

typedef struct sweep {
    int folder;
    bool shared;
    bool has_now; /* and `now` is the file system's clock */
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

/* `start` and hexadecimal digits. */
static bool is_own(const char *name, const char *start) {
    size_t bytes = strlen(start);
    return strncmp(name, start, bytes) == 0 && strlen(name + bytes) == RANDOM_TEXT &&
           strspn(name + bytes, "0123456789abcdef") == RANDOM_TEXT;
}

/* The file of a key with a part "gcoll" and others behind it. */
static bool is_key_of_job(const char *name) {
    const char *part = strstr(name, "gcoll+");
    if (!part || (part != name && part[-1] != '+') || part[strlen("gcoll+")] == '\0')
        return false;
    for (const char *at = name; *at != '\0'; at++)
        if (!isalnum((unsigned char)*at) && !strchr("._-+,", *at))
            return false;
    return true;
}

/* The clock by which the file system stamps new files: ours may be wrong by years, or the server's. */
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

/* Only with the lock held: whoever waits for it sees then that the file has lost its name, and makes another.
 */
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
    if (!old) /* a link: it must not replace what somebody has set meanwhile */
        (void)!linkat(s->folder, aside, s->folder, name, 0);
    unlinkat(s->folder, aside, 0);
    return old;
}

/* One look. */
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

/* How many of the first names are candidates. */
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
    int fd = openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC); /* readdir moves a descriptor's place */
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
