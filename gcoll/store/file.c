/*
 * gcoll/store/file.c - the file store: a folder that all ranks can reach, with one file for each key.
 *
 * File names. In the name of a key's file, '/' becomes '+' and a leading '.' becomes ','. No key has these
 * two bytes. So no two keys share a name, no name is "..", and names are as long as their keys. Names with a
 * leading '.' are internal: ".tmp+RANDOM" holds a value that is being written, and ".lock+HASH" is the lock
 * of a counter. Keys with the same hash share a lock, which only costs waiting.
 *
 * A set writes a temporary file and renames it to the key's file, so readers see the old value or the new
 * one. An add locks, reads and sets. The lock belongs to the open file (F_OFD_SETLK), so it holds between
 * threads, processes and, over NFS, hosts. The kernel releases the locks of dead processes. A set takes no
 * lock: an add to the same key at the same time may overwrite its value.
 *
 * Once all keys are removed, the folder is empty, unless a rank was killed in the middle of a set. The files
 * of crashed jobs are removed a day later, by the next process that opens the folder (file_sweep.c).
 *
 * The modification time of a key's file says when the key was last set, added to or kept. It lies in the
 * future if the key is kept for more than a day.
 *
 * Each request checks the owner and the mode of the folder and of the file (file_trust.c), unless the store
 * is shared.
 *
 * An NFS client remembers for seconds that a name is absent. If the folder is opened again by its path, the
 * client asks the server. So each request opens the folder. A folder that was removed and created again
 * works, too.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "gcoll/base/base.h"
#include "gcoll/base/hash.h"
#include "gcoll/store/file_folder.h"
#include "gcoll/store/store_internal.h"

#define FIRST_DELAY_NS     50000   /* another rank of this host may set the key this soon */
#define MAX_DELAY_NS       5000000 /* limits the delay of a wake-up, and the load on a file server */
#define LONG_DELAY_NS      50000000 /* the same for a wait that lasts, of hundreds of ranks on few processors */
#define WAITED_PER_DELAY   8        /* a wait sleeps at most this part of its time too long */
#define FOLDER_MODE        0700     /* for this user only: ranks trust the contents */
#define LOCK_MODE          0600
#define SHARED_LOCK_MODE   0666 /* minus the umask */
#define MS_PER_SEC         1000
#define LONGEST_LIFETIME_S (INT64_C(366) * 86400) /* enough for any job; times stay in range */
#define MOST_TURNS         9                      /* limit of times that waiting for a lock counts anew */
#define STALE_RETRIES      10 /* limit of new tries if another rank replaces a file while NFS reads it */

typedef struct file_store {
    char *folder;
    bool shared;        /* every user who can write the folder is trusted */
    int64_t timeout_ms; /* for waiting for a lock, as given when the store was opened */
    int64_t limit_ms;   /* used instead of timeout_ms; -1: not set */
    unsigned char value[GCOLL_STORE_VALUE_MAX + 1]; /* one byte more, to detect a file that is too long */
} file_store;

/* A request: its key, the key's file, and the open folder. Messages name verb and key. */
typedef struct request {
    file_store *store;
    const char *verb, *key;
    char name[GCOLL_STORE_KEY_MAX + 1]; /* name of the key's file */
    int folder;                         /* descriptor, or -1 */
} request;

/* Reports that an operation of a request failed. */
static gcoll_status fail(const request *r, const char *what, int error) {
    char text[GCOLL_ERRNO_TEXT_MAX];
    gcoll_errno_text(error, text);
    if (gcoll_is_shortage(error)) /* the cause stands first: other ranks are told a short text */
        return gcoll_error(GCOLL_ERR_NO_MEMORY, "%s (file store %.300s, %s \"%s\": cannot %s)", text,
                           r->store->folder, r->verb, r->key, what);
    return gcoll_error(GCOLL_ERR_IO, "file store %.300s, %s \"%s\": cannot %s: %s", r->store->folder, r->verb,
                       r->key, what, text);
}

/* Writes the start of a message of file_trust.c: folder, request and key. */
#define WHERE_MAX (GCOLL_STORE_KEY_MAX + 350)
static const char *heading(const request *r, char text[WHERE_MAX]) {
    snprintf(text, WHERE_MAX, "file store %.300s, %s \"%s\"", r->store->folder, r->verb, r->key);
    return text;
}

/* Checks owner and mode of a file that a request reads or replaces. */
static gcoll_status check_file(const request *r, const char *name, const struct stat *info) {
    char text[WHERE_MAX];
    return r->store->shared || gcoll_file_trusted(info) ? GCOLL_OK
                                                        : gcoll_file_refuse(heading(r, text), name, info);
}

/* Reports a failure at a file. If the file is not trusted, that is the reason, and the message says so. */
static gcoll_status fail_at(const request *r, const char *name, const char *what, int error) {
    struct stat info;
    gcoll_status status = GCOLL_OK;
    if (fstatat(r->folder, name, &info, AT_SYMLINK_NOFOLLOW) == 0)
        status = check_file(r, name, &info);
    return status != GCOLL_OK ? status : fail(r, what, error);
}

static gcoll_status open_folder(request *r) {
    r->folder = open(r->store->folder, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    struct stat info;
    if (r->folder < 0 || fstat(r->folder, &info) != 0)
        return fail(r, "open the folder", errno);
    char text[WHERE_MAX];
    return r->store->shared || gcoll_folder_trusted(&info)
               ? GCOLL_OK
               : gcoll_folder_refuse(heading(r, text), r->store->folder, &info);
}

static void close_folder(request *r) {
    if (r->folder >= 0)
        close(r->folder);
    r->folder = -1;
}

/* Begins a request: derives the name of the key's file, and opens the folder. */
static gcoll_status begin(request *r, file_store *store, const char *verb, const char *key) {
    r->store = store;
    r->verb = verb;
    r->key = key;
    size_t i = 0;
    for (; key[i] != '\0'; i++)
        r->name[i] = key[i] == '/' ? '+' : i == 0 && key[i] == '.' ? ',' : key[i];
    r->name[i] = '\0';
    gcoll_status status = open_folder(r);
    if (status != GCOLL_OK) /* the folder may be open, but refused */
        close_folder(r);
    return status;
}

/* ---- Reading ------------------------------------------------------------------------------------ */

/* Reads up to `capacity` bytes of an open file. Returns -1 with errno on failure. */
static ssize_t read_all(int fd, unsigned char *data, size_t capacity) {
    size_t done = 0;
    while (done < capacity) {
        ssize_t got = read(fd, data + done, capacity - done);
        if (got == 0)
            break;
        if (got < 0 && errno != EINTR)
            return -1;
        done += got < 0 ? 0 : (size_t)got;
    }
    return (ssize_t)done;
}

/* Tries once to read the key's file into the store's buffer. *error is 0, an errno, or EISDIR for anything
 * but a regular file. *info describes the file if *error is 0 or EISDIR. */
static ssize_t read_once(const request *r, struct stat *info, int *error) {
    /* O_NONBLOCK: a pipe that somebody put here must not block the request. */
    int fd = openat(r->folder, r->name, O_RDONLY | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC);
    ssize_t got = -1;
    *error = 0;
    if (fd < 0) {
        *error = errno;
        return -1;
    }
    if (fstat(fd, info) != 0 ||
        (S_ISREG(info->st_mode) && (got = read_all(fd, r->store->value, sizeof r->store->value)) < 0))
        *error = errno;
    else if (!S_ISREG(info->st_mode))
        *error = EISDIR;
    close(fd);
    return got;
}

/* Reads the key's value into the store's buffer. Returns GCOLL_ERR_NOT_FOUND if there is no such key. */
static gcoll_status read_value(const request *r, size_t *bytes) {
    int error = ESTALE;
    ssize_t got = -1;
    struct stat info;
    for (int i = 0; i < STALE_RETRIES && error == ESTALE; i++)
        got = read_once(r, &info, &error);
    if (error == ENOENT)
        return gcoll_error(GCOLL_ERR_NOT_FOUND, "file store %.300s, %s \"%s\": no such key", r->store->folder,
                           r->verb, r->key);
    gcoll_status status = error == 0 || error == EISDIR ? check_file(r, r->name, &info) : GCOLL_OK;
    if (status != GCOLL_OK)
        return status;
    if (error == EISDIR)
        return gcoll_error(GCOLL_ERR_IO, "file store %.300s, %s \"%s\": %s is not a regular file",
                           r->store->folder, r->verb, r->key, r->name);
    if (error != 0)
        return fail_at(r, r->name, "read its file", error);
    if (got > GCOLL_STORE_VALUE_MAX)
        return gcoll_error(GCOLL_ERR_IO,
                           "file store %.300s, %s \"%s\": file %s is longer than a value may be (%d)",
                           r->store->folder, r->verb, r->key, r->name, GCOLL_STORE_VALUE_MAX);
    *bytes = (size_t)got;
    return GCOLL_OK;
}

static gcoll_status file_get(void *self, const char *key, void *value, size_t capacity, size_t *bytes) {
    request r;
    size_t found = 0;
    gcoll_status status = begin(&r, self, "get", key);
    if (status == GCOLL_OK)
        status = read_value(&r, &found);
    close_folder(&r);
    if (status == GCOLL_OK && found > capacity)
        return gcoll_error(GCOLL_ERR_INVALID,
                           "file store %.300s, get \"%s\": the value has %zu bytes; there is room for %zu",
                           r.store->folder, key, found, capacity);
    if (status == GCOLL_OK) {
        memcpy(value, r.store->value, found);
        *bytes = found;
    }
    return status;
}

/* The longest pause of a wait that has lasted since begun_ns. A rank looks at a key in some 10 us. If 512
 * ranks on two processors looked every 5 ms, that alone would take half of both. */
static int64_t longest_pause(int64_t begun_ns) {
    const int64_t pause = (gcoll_now_ns() - begun_ns) / WAITED_PER_DELAY;
    return pause < MAX_DELAY_NS ? MAX_DELAY_NS : pause < LONG_DELAY_NS ? pause : LONG_DELAY_NS;
}

static gcoll_status file_wait(void *self, const char *key, int64_t timeout_ms) {
    const int64_t begun = gcoll_now_ns();
    int64_t deadline = gcoll_store_deadline(timeout_ms), delay = FIRST_DELAY_NS;
    for (;;) {
        request r;
        gcoll_status status = begin(&r, self, "wait", key);
        if (status != GCOLL_OK)
            return status;
        struct stat info;
        int error = fstatat(r.folder, r.name, &info, AT_SYMLINK_NOFOLLOW) == 0 ? 0 : errno;
        close_folder(&r);
        if (error == 0)
            return check_file(&r, r.name, &info);
        if (error != ENOENT && error != ESTALE)
            return fail(&r, "look for its file", error);
        if (!gcoll_store_pause(deadline, &delay, longest_pause(begun)))
            return gcoll_error(GCOLL_ERR_TIMEOUT,
                               "file store %.300s, wait \"%s\": not set within %" PRId64 " ms",
                               r.store->folder, key, timeout_ms);
    }
}

/* ---- Writing ------------------------------------------------------------------------------------ */

static gcoll_status create_temporary(const request *r, char name[GCOLL_FILE_OWN_MAX], int *fd) {
    *fd = gcoll_file_create_temporary(r->folder, r->store->shared, name);
    return *fd < 0 ? fail(r, "create a file", errno) : GCOLL_OK;
}

/* Writes the whole value. Returns 0 or an errno. */
static int write_value(int fd, const void *value, size_t bytes) {
    const unsigned char *data = value;
    size_t done = 0;
    int error = gcoll_file_size_error(bytes);
    while (done < bytes && error == 0) {
        ssize_t put = write(fd, data + done, bytes - done);
        if (put >= 0)
            done += (size_t)put;
        else if (errno != EINTR)
            error = errno;
    }
    return error;
}

/* Closes a file that was written. Returns `error` or else the errno of close: NFS may report a full disk only
 * then. */
static int close_written(int fd, int error) {
    return close(fd) != 0 && errno != EINTR && error == 0 ? errno : error;
}

/* Copies the modification time of the key's old file if it lies in the future, so that the key is kept as
 * long as before. Returns 0 or an errno. */
static int take_over_lifetime(int fd, const struct stat *old) {
    const struct timespec times[2] = {{.tv_nsec = UTIME_OMIT}, old->st_mtim};
    return old->st_mtim.tv_sec <= time(NULL) || futimens(fd, times) == 0 ? 0 : errno;
}

/* Gives the temporary file the key's name, which another one may have. Where the file system can, the two
 * exchange names: ext4 writes a file to the disk before it is renamed over another. That takes ten times as
 * long, and all ranks wait for the lock under which counters are set. */
static bool put_in_place(const request *r, const char *name, bool replaces) {
    if (replaces && renameat2(r->folder, name, r->folder, r->name, RENAME_EXCHANGE) == 0) {
        unlinkat(r->folder, name, 0); /* the old one; a sweep may have removed it, as it is old */
        return true;
    }
    return renameat(r->folder, name, r->folder, r->name) == 0;
}

/* Writes the value to the temporary file `name`, and renames it to the key's file. Removes it on failure. */
static gcoll_status replace(const request *r, const char *name, int fd, const void *value, size_t bytes) {
    struct stat old;
    const bool is_there = fstatat(r->folder, r->name, &old, AT_SYMLINK_NOFOLLOW) == 0;
    gcoll_status status = is_there ? check_file(r, r->name, &old) : GCOLL_OK;
    int error = status == GCOLL_OK ? write_value(fd, value, bytes) : 0;
    if (is_there && status == GCOLL_OK && error == 0)
        error = take_over_lifetime(fd, &old);
    error = close_written(fd, error);
    if (error != 0)
        status = fail(r, "write the value", error);
    else if (status == GCOLL_OK && !put_in_place(r, name, is_there && S_ISREG(old.st_mode)))
        status = fail_at(r, r->name, "rename its file into place", errno);
    if (status != GCOLL_OK)
        unlinkat(r->folder, name, 0);
    return status;
}

static gcoll_status file_set(void *self, const char *key, const void *value, size_t bytes) {
    char name[GCOLL_FILE_OWN_MAX];
    request r;
    int fd = -1;
    gcoll_status status = begin(&r, self, "set", key);
    if (status == GCOLL_OK)
        status = create_temporary(&r, name, &fd);
    if (status == GCOLL_OK)
        status = replace(&r, name, fd, value, bytes);
    close_folder(&r);
    return status;
}

/* Returns whether the temporary file has the key's name as a second one. Over NFS, the link may have been
 * made although the client reports EEXIST: the server's answer was lost, and the client asked again. */
static bool linked(const request *r, const char *name) {
    struct stat info;
    return fstatat(r->folder, name, &info, AT_SYMLINK_NOFOLLOW) == 0 && info.st_nlink == 2;
}

/* Reports that the key of a set_new exists already, or that its file is not trusted. */
static gcoll_status exists(const request *r) {
    struct stat info;
    gcoll_status status = GCOLL_OK;
    if (fstatat(r->folder, r->name, &info, AT_SYMLINK_NOFOLLOW) == 0)
        status = check_file(r, r->name, &info);
    return status != GCOLL_OK
               ? status
               : gcoll_error(GCOLL_ERR_STATE, "file store %.300s, %s \"%s\": the key exists already",
                             r->store->folder, r->verb, r->key);
}

/* Says which operation failed. EPERM and EOPNOTSUPP come from file systems without hard links. */
static const char *cannot_link(int error) {
    return error == EPERM || error == EOPNOTSUPP ? "link its file (the file system must support hard links)"
                                                 : "link its file";
}

/* Does the same as replace, but only if the key has no file: link, unlike rename, never replaces a file. */
static gcoll_status add_name(const request *r, const char *name, int fd, const void *value, size_t bytes) {
    int error = close_written(fd, write_value(fd, value, bytes));
    gcoll_status status = error != 0 ? fail(r, "write the value", error) : GCOLL_OK;
    if (error == 0 && linkat(r->folder, name, r->folder, r->name, 0) != 0) {
        error = errno;
        if (error != EEXIST)
            status = fail(r, cannot_link(error), error);
        else if (!linked(r, name))
            status = exists(r);
    }
    unlinkat(r->folder, name, 0);
    return status;
}

static gcoll_status file_set_new(void *self, const char *key, const void *value, size_t bytes) {
    char name[GCOLL_FILE_OWN_MAX];
    request r;
    int fd = -1;
    gcoll_status status = begin(&r, self, "set_new", key);
    if (status == GCOLL_OK)
        status = create_temporary(&r, name, &fd);
    if (status == GCOLL_OK)
        status = add_name(&r, name, fd, value, bytes);
    close_folder(&r);
    return status;
}

/* ---- Lifetimes ----------------------------------------------------------------------------------- */

/* Sets the modification time of the key's file. A key's lifetime ends a day after that time, so a set starts
 * it again. */
static gcoll_status file_keep(void *self, const char *key, int64_t ttl_ms) {
    request r;
    gcoll_status status = begin(&r, self, "keep", key);
    if (status != GCOLL_OK)
        return status;
    struct timespec times[2] = {{.tv_nsec = UTIME_OMIT}, {.tv_nsec = UTIME_NOW}};
    if (ttl_ms / MS_PER_SEC > GCOLL_FILE_LIFETIME_S) {
        int64_t more = ttl_ms / MS_PER_SEC + 1 - GCOLL_FILE_LIFETIME_S;
        times[1].tv_sec = time(NULL) + (time_t)(more < LONGEST_LIFETIME_S ? more : LONGEST_LIFETIME_S);
        times[1].tv_nsec = 0;
    }
    struct stat info;
    int error = fstatat(r.folder, r.name, &info, AT_SYMLINK_NOFOLLOW) == 0 ? 0 : errno;
    status = error == 0 ? check_file(&r, r.name, &info) : GCOLL_OK;
    if (status == GCOLL_OK && error == 0 && utimensat(r.folder, r.name, times, AT_SYMLINK_NOFOLLOW) != 0)
        error = errno;
    if (status == GCOLL_OK && error == ENOENT)
        status = gcoll_error(GCOLL_ERR_NOT_FOUND, "file store %.300s, keep \"%s\": no such key",
                             r.store->folder, key);
    else if (status == GCOLL_OK && error != 0)
        status = fail(&r, "set its file's time", error);
    close_folder(&r);
    return status;
}

/* ---- Locks -------------------------------------------------------------------------------------- */

static void lock_name(const char *key, char name[GCOLL_FILE_OWN_MAX]) {
    const uint64_t hash = gcoll_hash_text(GCOLL_HASH_START, key); /* keys with the same hash share a lock */
    snprintf(name, GCOLL_FILE_OWN_MAX, GCOLL_FILE_LOCK "%016" PRIx64, hash);
}

/* How long a request may wait for a lock. */
static int64_t request_ms(const file_store *self) {
    return self->limit_ms >= 0 ? self->limit_ms : self->timeout_ms;
}

/* Which file a key has: another one after each change, as changes are new files. */
typedef struct version {
    ino_t file;
    struct timespec time;
} version;

static bool has_changed(const request *r, version *latest) {
    struct stat info = {0};
    const version before = *latest;
    (void)fstatat(r->folder, r->name, &info, AT_SYMLINK_NOFOLLOW); /* no file: zeros */
    *latest = (version){.file = info.st_ino, .time = info.st_mtim};
    return before.file != info.st_ino || before.time.tv_sec != info.st_mtim.tv_sec ||
           before.time.tv_nsec != info.st_mtim.tv_nsec;
}

/* Waits for the lock on an open file. While other ranks take their turns, and change the key, the time counts
 * anew. */
static gcoll_status lock_file(const request *r, int fd, int64_t *deadline) {
    int64_t delay = FIRST_DELAY_NS;
    version latest = {0};
    int turns = MOST_TURNS;
    (void)has_changed(r, &latest);
    struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    while (fcntl(fd, F_OFD_SETLK, &whole) != 0) {
        if (errno != EAGAIN && errno != EACCES && errno != EINTR)
            return fail(r, "lock (the file system must support locks)", errno);
        if (gcoll_store_pause(*deadline, &delay, MAX_DELAY_NS))
            continue;
        if (turns-- > 0 && has_changed(r, &latest))
            *deadline = gcoll_store_deadline(request_ms(r->store));
        else
            return gcoll_error(GCOLL_ERR_TIMEOUT,
                               "file store %.300s, %s \"%s\": another rank held its lock for %" PRId64 " ms",
                               r->store->folder, r->verb, r->key, request_ms(r->store));
    }
    return GCOLL_OK;
}

/* Returns whether the locked file still has its name. The process that held the lock before may have removed
 * the file. */
static bool still_named(const request *r, const char *name, int fd) {
    struct stat ours, named;
    return fstat(fd, &ours) == 0 && fstatat(r->folder, name, &named, AT_SYMLINK_NOFOLLOW) == 0 &&
           ours.st_dev == named.st_dev && ours.st_ino == named.st_ino;
}

/* Opens the lock file `name`. Without `create`, *fd is -1 if there is none. */
static gcoll_status open_lock(const request *r, const char *name, bool create, int *fd) {
    int file = openat(r->folder, name, O_RDWR | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC | (create ? O_CREAT : 0),
                      r->store->shared ? SHARED_LOCK_MODE : LOCK_MODE);
    if (file < 0 && (create || errno != ENOENT))
        return fail_at(r, name, "open its lock file", errno);
    gcoll_status status = GCOLL_OK;
    struct stat info;
    if (file >= 0)
        status =
            fstat(file, &info) == 0 ? check_file(r, name, &info) : fail(r, "look at its lock file", errno);
    if (status == GCOLL_OK)
        *fd = file;
    else
        close(file);
    return status;
}

/* Takes the lock of the request's key. Closing *fd releases it. Without `create`, *fd is -1 if there is no
 * lock file. */
static gcoll_status lock(const request *r, bool create, int64_t deadline, int *fd) {
    char name[GCOLL_FILE_OWN_MAX];
    lock_name(r->key, name);
    int64_t delay = FIRST_DELAY_NS;
    for (;;) {
        int file = -1;
        gcoll_status status = open_lock(r, name, create, &file);
        if (status != GCOLL_OK)
            return status;
        if (file >= 0)
            status = lock_file(r, file, &deadline);
        if (status == GCOLL_OK && (file < 0 || still_named(r, name, file))) {
            *fd = file;
            return GCOLL_OK;
        }
        close(file);
        if (status != GCOLL_OK)
            return status;
        if (!gcoll_store_pause(deadline, &delay, MAX_DELAY_NS))
            return gcoll_error(GCOLL_ERR_TIMEOUT,
                               "file store %.300s, %s \"%s\": its lock file was replaced for %" PRId64 " ms",
                               r->store->folder, r->verb, r->key, request_ms(r->store));
    }
}

/* Removes the key's lock file. The caller holds the lock, so ranks that wait for it notice that the file has
 * lost its name. */
static void remove_lock(const request *r) {
    char name[GCOLL_FILE_OWN_MAX];
    lock_name(r->key, name);
    unlinkat(r->folder, name, 0);
}

/* Adds to the counter: reads it and sets the sum. The caller holds the lock. */
static gcoll_status add_locked(const request *r, int64_t delta, int64_t *value) {
    char name[GCOLL_FILE_OWN_MAX];
    int fd = -1;
    /* Creating a file makes an NFS client refresh the folder. It comes first, so that the newest value is
     * read. */
    gcoll_status status = create_temporary(r, name, &fd);
    if (status != GCOLL_OK)
        return status;
    size_t bytes = 0;
    int64_t sum = delta;
    status = read_value(r, &bytes);
    if (status == GCOLL_OK) {
        char where[GCOLL_STORE_KEY_MAX + 32];
        snprintf(where, sizeof where, "file store, add \"%s\"", r->key);
        status = gcoll_store_counter_add(where, r->store->value, bytes, delta, &sum);
    } else if (status == GCOLL_ERR_NOT_FOUND) {
        status = GCOLL_OK;
    }
    if (status != GCOLL_OK) {
        close(fd);
        unlinkat(r->folder, name, 0);
        return status;
    }
    char text[GCOLL_STORE_COUNTER_TEXT];
    int length = snprintf(text, sizeof text, "%" PRId64, sum);
    status = replace(r, name, fd, text, (size_t)length);
    if (status == GCOLL_OK)
        *value = sum;
    return status;
}

static gcoll_status file_add(void *self, const char *key, int64_t delta, int64_t *value) {
    request r;
    int locked = -1;
    gcoll_status status = begin(&r, self, "add", key);
    if (status != GCOLL_OK)
        return status;
    status = lock(&r, true, gcoll_store_deadline(request_ms(r.store)), &locked);
    if (status == GCOLL_OK) {
        status = add_locked(&r, delta, value);
        if (status != GCOLL_OK)
            remove_lock(&r);
        close(locked);
    }
    close_folder(&r);
    return status;
}

/* Removes a key, and its lock if there is one. It creates no lock: most keys never had one, and a full disk
 * has no room for it. */
static gcoll_status file_remove(void *self, const char *key) {
    request r;
    int locked = -1;
    gcoll_status status = begin(&r, self, "remove", key);
    if (status != GCOLL_OK)
        return status;
    int64_t deadline = gcoll_store_deadline(request_ms(r.store));
    status = lock(&r, false, deadline, &locked);
    while (status == GCOLL_OK) {
        if (unlinkat(r.folder, r.name, 0) != 0 && errno != ENOENT)
            status = fail_at(&r, r.name, "remove its file", errno);
        if (locked >= 0 || status != GCOLL_OK)
            break;
        /* Meanwhile an add may have created the lock and read the value that is now gone. It will set the key
         * again, so remove the key once more after it. */
        status = lock(&r, false, deadline, &locked);
        if (locked < 0)
            break;
    }
    if (locked >= 0) {
        remove_lock(&r);
        close(locked);
    }
    close_folder(&r);
    return status;
}

/* ---- Opening ------------------------------------------------------------------------------------ */

/* Creates a folder with its parents, like mkdir -p. Returns 0 or an errno. */
static int make_folders(const char *path) {
    struct stat info;
    if (stat(path, &info) == 0)
        return S_ISDIR(info.st_mode) ? 0 : ENOTDIR;
    char *part = strdup(path);
    if (!part)
        return ENOMEM;
    int error = 0;
    for (char *p = part + 1; error == 0 && *part != '\0'; p++) {
        if (*p != '/' && *p != '\0')
            continue;
        char kept = *p;
        *p = '\0';
        /* EEXIST: another rank creates the same folders. */
        if (mkdir(part, FOLDER_MODE) != 0 && errno != EEXIST)
            error = errno;
        *p = kept;
        if (kept == '\0')
            break;
    }
    free(part);
    if (error == 0 && stat(path, &info) != 0)
        error = errno;
    return error != 0 || S_ISDIR(info.st_mode) ? error : ENOTDIR;
}

static gcoll_status file_set_timeout(void *handle, int64_t timeout_ms) {
    file_store *self = handle;
    self->limit_ms = timeout_ms;
    return GCOLL_OK;
}

static void file_destroy(void *handle) {
    file_store *self = handle;
    free(self->folder);
    free(self);
}

static const gcoll_store_ops file_ops = {
    .struct_size = sizeof(gcoll_store_ops),
    .name = "file",
    .set = file_set,
    .get = file_get,
    .wait = file_wait,
    .add = file_add,
    .remove = file_remove,
    .destroy = file_destroy,
    .set_new = file_set_new,
    .set_timeout = file_set_timeout,
    .keep = file_keep,
};

static gcoll_status cannot_open(const char *what, const char *folder, int error) {
    char text[GCOLL_ERRNO_TEXT_MAX];
    return gcoll_error(gcoll_status_of_errno(error), "gcoll_store_open: cannot %s folder %.600s: %s", what,
                       folder, gcoll_errno_text(error, text));
}

/* Checks that the folder is trusted, and removes files that crashed jobs left there. */
static gcoll_status enter(const file_store *self) {
    static const char text[] = "gcoll_store_open";
    struct stat info;
    gcoll_status status = GCOLL_OK;
    int fd = open(self->folder, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &info) != 0)
        status = cannot_open("open", self->folder, errno);
    else if (!self->shared && !gcoll_folder_trusted(&info))
        status = gcoll_folder_refuse(text, self->folder, &info);
    else if (!self->shared)
        status = gcoll_folder_check_parents(text, self->folder);
    if (status == GCOLL_OK)
        gcoll_folder_sweep(fd, self->shared);
    if (fd >= 0)
        close(fd);
    return status;
}

gcoll_status gcoll_store_file_create(const char *folder, bool shared, int64_t timeout_ms,
                                     gcoll_store **store) {
    int error = make_folders(folder);
    if (error != 0)
        return cannot_open("make or open", folder, error);
    file_store *self = malloc(sizeof *self);
    if (!self)
        return gcoll_error(GCOLL_ERR_NO_MEMORY, "gcoll_store_open: no memory");
    self->shared = shared;
    self->timeout_ms = timeout_ms;
    self->limit_ms = -1;
    /* Absolute, because the process may change its working directory. */
    self->folder = realpath(folder, NULL);
    gcoll_status status = GCOLL_ERR_IO;
    if (!self->folder) {
        status = cannot_open("resolve", folder, errno);
        goto free_self;
    }
    status = enter(self);
    if (status == GCOLL_OK)
        status = gcoll_store_create(&file_ops, self, store);
    if (status == GCOLL_OK)
        return GCOLL_OK;
    free(self->folder);
free_self:
    free(self);
    return status;
}
