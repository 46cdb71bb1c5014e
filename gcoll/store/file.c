/*
 * gcoll/store/file.c - a store in a folder that all ranks see: one file a key.
 *
 * File names. '/' becomes '+' and a leading '.' becomes ',', bytes that no key has: names are as long as
 * keys, no two keys share one, and none is "..". Names with a leading '.' are this file's own: ".tmp+RANDOM"
 * for a value being written, ".lock+HASH" for the lock of a counter (keys may share one, which costs waiting
 * only).
 *
 * A set writes a file beside the key's and renames it: readers see the old value or the new one. An add
 * locks, reads and sets. The locks belong to the open file (F_OFD_SETLK), so that they hold between threads,
 * processes and, by NFS, hosts; the kernel releases those of the dead. A set takes no lock: one that
 * meets an add to the same key may be overwritten by it.
 *
 * Once all keys are removed the folder is empty; only a rank that is killed in the middle of a set leaves a
 * file.
 *
 * NFS clients remember for seconds that a name is absent, unless the folder is opened anew, by its path: that
 * makes them ask the server. So every look opens the folder. It also makes a folder that was made again just
 * work.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "gcoll/base/base.h"
#include "gcoll/store/store_internal.h"

#define FIRST_DELAY_NS 50000   /* a rank on this host may well be that close behind */
#define MAX_DELAY_NS   5000000 /* bounds both the lateness of a wake-up and the load on a file server */
#define FOLDER_MODE    0700    /* what a rank reads here it trusts */
#define FILE_MODE      0600
#define OWN_NAME_MAX   32 /* ".lock+" or ".tmp+" and 16 hexadecimal digits */
#define STALE_RETRIES  10 /* a file replaced while NFS reads it is read again that often */

typedef struct file_store {
    char *folder;
    int64_t timeout_ms;
    unsigned char value[GCOLL_STORE_VALUE_MAX + 1]; /* one more, to tell a file that is too long */
} file_store;

/* What a request works on, and what its messages name. */
typedef struct request {
    file_store *store;
    const char *verb, *key;
    char name[GCOLL_STORE_KEY_MAX + 1]; /* the key's file */
    int folder;                         /* descriptor, or -1 */
} request;

static gcoll_status fail(const request *r, const char *what, int error) {
    return gcoll_error(GCOLL_ERR_IO, "file store %.300s, %s \"%s\": cannot %s: %s", r->store->folder, r->verb,
                       r->key, what, strerror(error));
}

static gcoll_status open_folder(request *r) {
    r->folder = open(r->store->folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return r->folder < 0 ? fail(r, "open the folder", errno) : GCOLL_OK;
}

static void close_folder(request *r) {
    if (r->folder >= 0)
        close(r->folder);
    r->folder = -1;
}

static gcoll_status begin(request *r, file_store *store, const char *verb, const char *key) {
    r->store = store;
    r->verb = verb;
    r->key = key;
    size_t i = 0;
    for (; key[i] != '\0'; i++)
        r->name[i] = key[i] == '/' ? '+' : i == 0 && key[i] == '.' ? ',' : key[i];
    r->name[i] = '\0';
    return open_folder(r);
}

/* ---- Reading ------------------------------------------------------------------------------------ */

/* Up to `capacity` bytes of an open file. -1 and errno on failure. */
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

/* One try to read the key's file into the store's buffer. *error is 0 or an errno. */
static ssize_t read_once(const request *r, int *error) {
    /* O_NONBLOCK: a pipe that someone put here must not block us. */
    int fd = openat(r->folder, r->name, O_RDONLY | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC);
    struct stat info;
    ssize_t got = -1;
    *error = 0;
    if (fd < 0) {
        *error = errno;
        return -1;
    }
    if (fstat(fd, &info) != 0 ||
        (S_ISREG(info.st_mode) && (got = read_all(fd, r->store->value, sizeof r->store->value)) < 0))
        *error = errno;
    else if (!S_ISREG(info.st_mode))
        *error = EISDIR;
    close(fd);
    return got;
}

/* The key's value to the store's buffer, or GCOLL_ERR_NOT_FOUND. */
static gcoll_status read_value(const request *r, size_t *bytes) {
    int error = ESTALE;
    ssize_t got = -1;
    for (int i = 0; i < STALE_RETRIES && error == ESTALE; i++)
        got = read_once(r, &error);
    if (error == ENOENT)
        return gcoll_error(GCOLL_ERR_NOT_FOUND, "file store %.300s, %s \"%s\": no such key", r->store->folder,
                           r->verb, r->key);
    if (error == EISDIR)
        return gcoll_error(GCOLL_ERR_IO, "file store %.300s, %s \"%s\": %s is not a regular file",
                           r->store->folder, r->verb, r->key, r->name);
    if (error != 0)
        return fail(r, "read its file", error);
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

static gcoll_status file_wait(void *self, const char *key, int64_t timeout_ms) {
    int64_t deadline = gcoll_store_deadline(timeout_ms), delay = FIRST_DELAY_NS;
    request r;
    for (;;) {
        gcoll_status status = begin(&r, self, "wait", key);
        if (status != GCOLL_OK)
            return status;
        struct stat info;
        int error = fstatat(r.folder, r.name, &info, AT_SYMLINK_NOFOLLOW) == 0 ? 0 : errno;
        close_folder(&r);
        if (error == 0)
            return GCOLL_OK;
        if (error != ENOENT && error != ESTALE)
            return fail(&r, "look for its file", error);
        if (!gcoll_store_pause(deadline, &delay, MAX_DELAY_NS))
            return gcoll_error(GCOLL_ERR_TIMEOUT,
                               "file store %.300s, wait \"%s\": not set within %" PRId64 " ms",
                               r.store->folder, key, timeout_ms);
    }
}

/* ---- Writing ------------------------------------------------------------------------------------ */

/* A new file of a name that no one else has. */
static gcoll_status create_temporary(const request *r, char name[OWN_NAME_MAX], int *fd) {
    uint64_t random;
    gcoll_status status = gcoll_random_bytes(&random, sizeof random);
    if (status != GCOLL_OK)
        return status;
    snprintf(name, OWN_NAME_MAX, ".tmp+%016" PRIx64, random);
    *fd = openat(r->folder, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, FILE_MODE);
    return *fd < 0 ? fail(r, "create a file", errno) : GCOLL_OK;
}

/* Writes the value to a temporary file, closes it, and puts it in the key's place. On failure it is gone. */
static gcoll_status replace(const request *r, const char *name, int fd, const void *value, size_t bytes) {
    const unsigned char *data = value;
    size_t done = 0;
    int error = 0;
    while (done < bytes && error == 0) {
        ssize_t put = write(fd, data + done, bytes - done);
        if (put >= 0)
            done += (size_t)put;
        else if (errno != EINTR)
            error = errno;
    }
    /* NFS may report a full disk only here. */
    if (close(fd) != 0 && errno != EINTR && error == 0)
        error = errno;
    if (error == 0 && renameat(r->folder, name, r->folder, r->name) == 0)
        return GCOLL_OK;
    gcoll_status status =
        error != 0 ? fail(r, "write the value", error) : fail(r, "rename its file into place", errno);
    unlinkat(r->folder, name, 0);
    return status;
}

static gcoll_status file_set(void *self, const char *key, const void *value, size_t bytes) {
    char name[OWN_NAME_MAX];
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

/* ---- Locks -------------------------------------------------------------------------------------- */

static void lock_name(const char *key, char name[OWN_NAME_MAX]) {
    uint64_t hash = 14695981039346656037u; /* FNV-1a; a collision only makes two keys share a lock */
    for (; *key != '\0'; key++)
        hash = (hash ^ (unsigned char)*key) * 1099511628211u;
    snprintf(name, OWN_NAME_MAX, ".lock+%016" PRIx64, hash);
}

/* Waits for the lock on an open file. */
static gcoll_status lock_file(const request *r, int fd, int64_t deadline) {
    int64_t delay = FIRST_DELAY_NS;
    struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    while (fcntl(fd, F_OFD_SETLK, &whole) != 0) {
        if (errno != EAGAIN && errno != EACCES && errno != EINTR)
            return fail(r, "lock (the file system must support locks)", errno);
        if (!gcoll_store_pause(deadline, &delay, MAX_DELAY_NS))
            return gcoll_error(GCOLL_ERR_TIMEOUT,
                               "file store %.300s, %s \"%s\": another rank held its lock for %" PRId64 " ms",
                               r->store->folder, r->verb, r->key, r->store->timeout_ms);
    }
    return GCOLL_OK;
}

/* Whether the locked file still has its name: whoever held the lock before may have removed it. */
static bool still_named(const request *r, const char *name, int fd) {
    struct stat ours, named;
    return fstat(fd, &ours) == 0 && fstatat(r->folder, name, &named, AT_SYMLINK_NOFOLLOW) == 0 &&
           ours.st_dev == named.st_dev && ours.st_ino == named.st_ino;
}

/* Takes the lock of the request's key; closing *fd releases it. Without `create`, *fd is -1 where there is no
 * lock file. */
static gcoll_status lock(const request *r, bool create, int64_t deadline, int *fd) {
    char name[OWN_NAME_MAX];
    lock_name(r->key, name);
    int64_t delay = FIRST_DELAY_NS;
    for (;;) {
        int file =
            openat(r->folder, name, O_RDWR | O_NOFOLLOW | O_CLOEXEC | (create ? O_CREAT : 0), FILE_MODE);
        if (file < 0 && (create || errno != ENOENT))
            return fail(r, "open its lock file", errno);
        gcoll_status status = file < 0 ? GCOLL_OK : lock_file(r, file, deadline);
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
                               r->store->folder, r->verb, r->key, r->store->timeout_ms);
    }
}

/* The lock must be held: no one else then trusts a lock file of this name that is not ours. */
static void remove_lock(const request *r) {
    char name[OWN_NAME_MAX];
    lock_name(r->key, name);
    unlinkat(r->folder, name, 0);
}

/* Reads, adds, sets. The lock is held. */
static gcoll_status add_locked(const request *r, int64_t delta, int64_t *value) {
    char name[OWN_NAME_MAX], text[GCOLL_STORE_COUNTER_TEXT], where[GCOLL_STORE_KEY_MAX + 32];
    int fd = -1;
    /* First, as making a file has an NFS client look at the folder anew: we must read the newest value. */
    gcoll_status status = create_temporary(r, name, &fd);
    if (status != GCOLL_OK)
        return status;
    size_t bytes = 0;
    int64_t sum = delta;
    status = read_value(r, &bytes);
    if (status == GCOLL_OK) {
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
    status = lock(&r, true, gcoll_store_deadline(r.store->timeout_ms), &locked);
    if (status == GCOLL_OK) {
        status = add_locked(&r, delta, value);
        if (status != GCOLL_OK)
            remove_lock(&r);
        close(locked);
    }
    close_folder(&r);
    return status;
}

/* Takes the lock only where there is one: most keys never had one, and a full disk has no room for it. */
static gcoll_status file_remove(void *self, const char *key) {
    request r;
    int locked = -1;
    gcoll_status status = begin(&r, self, "remove", key);
    if (status != GCOLL_OK)
        return status;
    int64_t deadline = gcoll_store_deadline(r.store->timeout_ms);
    status = lock(&r, false, deadline, &locked);
    while (status == GCOLL_OK) {
        if (unlinkat(r.folder, r.name, 0) != 0 && errno != ENOENT)
            status = fail(&r, "remove its file", errno);
        if (locked >= 0 || status != GCOLL_OK)
            break;
        /* An add may have made the lock meanwhile, and read the value that is gone now: go after it. */
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

/* mkdir -p. 0 or an errno. */
static int make_folders(const char *path) {
    struct stat info;
    if (stat(path, &info) == 0)
        return S_ISDIR(info.st_mode) ? 0 : ENOTDIR;
    char *part = strdup(path);
    if (part == NULL)
        return ENOMEM;
    int error = 0;
    for (char *p = part + 1; error == 0 && *part != '\0'; p++) {
        if (*p != '/' && *p != '\0')
            continue;
        char kept = *p;
        *p = '\0';
        /* Another rank may be making the same folders. */
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
};

gcoll_status gcoll_store_file_create(const char *folder, int64_t timeout_ms, gcoll_store **store) {
    int error = make_folders(folder);
    if (error != 0)
        return gcoll_error(GCOLL_ERR_IO, "gcoll_store_open: cannot make or open folder %.600s: %s", folder,
                           strerror(error));
    file_store *self = malloc(sizeof *self);
    if (self == NULL)
        return gcoll_error(GCOLL_ERR_NO_MEMORY, "gcoll_store_open: no memory");
    self->timeout_ms = timeout_ms;
    /* Absolute, as the process may change its working directory. */
    self->folder = realpath(folder, NULL);
    gcoll_status status = GCOLL_ERR_IO;
    if (self->folder == NULL) {
        gcoll_error(status, "gcoll_store_open: cannot resolve folder %.600s: %s", folder, strerror(errno));
        goto free_self;
    }
    int fd = open(self->folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) {
        gcoll_error(status, "gcoll_store_open: cannot open folder %.600s: %s", folder, strerror(errno));
        goto free_folder;
    }
    close(fd);
    status = gcoll_store_create(&file_ops, self, store);
    if (status == GCOLL_OK)
        return GCOLL_OK;
free_folder:
    free(self->folder);
free_self:
    free(self);
    return status;
}
