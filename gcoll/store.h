/*
 * gcoll/store.h - stores: small key-value stores in which the ranks of a job find each other.
 *
 * A key is text of 1 to GCOLL_STORE_KEY_MAX bytes from [A-Za-z0-9._-], with '/' between parts. A value is 0
 * to GCOLL_STORE_VALUE_MAX bytes. One thread at a time uses a store handle, unless its constructor allows
 * more. Every wait has a time limit. A process that forks after opening a store must not use it in the child.
 *
 * URLs:
 *
 *   file:DIR[?shared=1]                       a folder that all ranks see; it is created if it is missing
 *   tcp://host:port[?serve=auto|yes|no]       a server that one of the ranks runs; needs nothing else
 *   redis://[user:password@]host[:port][/db]  a Redis server (not a cluster); port 6379, db 0 by default
 *   rediss://...                              the same by TLS 1.3
 *   pmi:                                      a server that rank 0 runs; the launcher says where
 *
 * The server of a tcp store. Every rank gives the same URL. The first process on that host which opens the
 * store serves, in a thread of its own. All others connect to it, and try again until it is there. This is
 * `serve=auto`: a process serves if an address of the host belongs to its own host and nobody has the port.
 * If several processes try at once, one of them serves. With `serve=yes` a process serves or fails. If no
 * address of the URL belongs to its host (behind an address translation), it listens at all addresses of its
 * host. With `serve=no` a process only connects.
 *
 * A server keeps any number of jobs apart by their keys. It holds at most GCOLL_STORE_SERVER_KEYS_MAX keys
 * and GCOLL_STORE_SERVER_BYTES_MAX bytes in all; beyond that, a set fails with GCOLL_ERR_NO_MEMORY. It needs
 * a file descriptor for each client. There is no password: everybody who can reach the port can decide where
 * ranks connect.
 *
 * The keys of a tcp store are lost when its server ends. It ends when the handle that serves is destroyed, or
 * with its process. Destroying the handle takes up to GCOLL_STORE_LINGER_MS while other clients still have
 * the store open. After that, requests of clients fail at once with GCOLL_ERR_IO: "the store's server at
 * host:port is gone". Waits that have begun fail, too. So the rank that serves should destroy its handle with
 * the others or after them, or a process that outlives the jobs should serve.
 *
 * The pmi store is a tcp store that needs no port. The process whose PMI_RANK is 0 serves at a free port, at
 * all addresses of its host. The others ask the launcher for the address. The store needs a launcher that
 * sets PMI_FD: mpiexec of MPICH or Intel MPI, or srun --mpi=pmi2. Opening the store waits for all PMI_SIZE
 * processes. A process can open it once. It cannot open it if it also uses an MPI library, which speaks to
 * the launcher by the same PMI_FD.
 *
 * A rediss:// URL may end by ?ca=FILE&certificate=FILE&key=FILE, of which each may be missing; a byte of a
 * name is %xx where it is & or @. They are PEM files: who may have signed the server's certificate (else
 * those whom the system trusts), and a certificate and its key for a server that wants one. What the URL
 * leaves open the variables GCOLL_REDIS_CA, GCOLL_REDIS_CERTIFICATE and GCOLL_REDIS_KEY say. The certificate
 * must have the host of the URL. UNSUPPORTED: the build or this host has no TLS.
 *
 * Trust in the folder of a file store. A process that can write the folder decides where ranks connect. So a
 * folder is accepted in two cases only:
 *
 *   - it belongs to the user of this process, and neither group nor others can write it;
 *   - it has the sticky bit, as /tmp, and belongs to this user or root; then each file in it must be this
 *     user's.
 *
 * Every request checks the open folder and file, not their names. A folder or file of another user is refused
 * with GCOLL_ERR_IO and a text with its owner and mode. Symbolic links to the folder are followed when the
 * store is opened, and never later; their target is checked. A parent folder that everybody can write without
 * the sticky bit is refused when the store is opened. Users who can write a parent in another way, such as a
 * group, can remove the folder, but cannot give the ranks a folder of their own.
 *
 * "?shared=1" switches these checks off: every user who can write the folder is trusted. Use it for ranks of
 * several users, whose umask must let them read and write each other's files. Use it also for file systems
 * that show other owners: NFS that maps root to nobody, containers and virtual machines that map users.
 * Parameters follow the last '?'. If a folder has a '?' in its name, add another '?' at the end.
 *
 * Stores that lack operations. A store of the caller may lack get (one that does not wait), wait, add or
 * remove; torch.distributed's stores can be used in this way. gcoll_context_create then uses only set and
 * get_wait (or wait and get). After creation the context does not use the store, because every rank has all
 * addresses. The consequences:
 *
 *   - No rank is claimed, so two processes with one rank are not noticed: one of them is left out. If two
 *     launches start at the same time under one name, their ranks may mix.
 *   - There are no leases: a rank that dies while it joins "did not join", when options.timeout_ms is over.
 *   - Keys of an earlier launch do no harm. Without remove they stay in the store: 2 to 6 for a rank.
 *   - After creation rank 0 broadcasts its cost parameters and rules, which connects each rank with up to
 *     log2(size) others.
 *
 * Parameters that a function does not describe itself:
 *
 *   store    the store
 *   *store   receives the store
 */
#ifndef GCOLL_STORE_H
#define GCOLL_STORE_H

#include <stddef.h>
#include <stdint.h>

#include "gcoll/export.h"
#include "gcoll/status.h"

GCOLL_BEGIN_DECLS

#define GCOLL_STORE_KEY_MAX   255
#define GCOLL_STORE_VALUE_MAX 65536

/* Limits of the server of a tcp store; and how long the destruction of its handle waits for clients that have
 * not closed theirs. */
#define GCOLL_STORE_SERVER_KEYS_MAX  1048576
#define GCOLL_STORE_SERVER_BYTES_MAX 268435456
#define GCOLL_STORE_LINGER_MS        1000

typedef struct gcoll_store gcoll_store;

/* Operations of a store that the caller implements. Each function gets the `self` of gcoll_store_create. Keys
 * and sizes are already checked. A function may return any GCOLL_ERR_ status, and sets the error text by
 * gcoll_store_error. Another number counts as GCOLL_ERR_IO. */
typedef struct gcoll_store_ops {
    size_t struct_size; /* sizeof(gcoll_store_ops) */
    const char *name;   /* for messages: "file", "redis", ... */
    /* Creates or replaces the value. Readers see the old or the new value, never a part. Wakes the
     * waiters. */
    gcoll_status (*set)(void *self, const char *key, const void *value, size_t bytes);

    /* A store may lack get, wait, add and remove; a function that it lacks is NULL. Without get or wait it
     * must have get_wait. Contexts can use such a store, with fewer checks (see "Stores that lack operations"
     * above). */

    /* Copies the value to `value`, which has room for `capacity` bytes, and its size to *bytes. Does not wait
     * for the key. GCOLL_ERR_NOT_FOUND if there is no such key; GCOLL_ERR_INVALID if the value does not fit.
     */
    gcoll_status (*get)(void *self, const char *key, void *value, size_t capacity, size_t *bytes);
    /* Waits until the key exists. GCOLL_ERR_TIMEOUT after timeout_ms (>= 0). */
    gcoll_status (*wait)(void *self, const char *key, int64_t timeout_ms);
    /* Atomically adds delta to the decimal counter at key (0 if there is none). *value: the new value. */
    gcoll_status (*add)(void *self, const char *key, int64_t delta, int64_t *value);
    /* Removes the key. It is success if there is none. */
    gcoll_status (*remove)(void *self, const char *key);
    /* Releases self. May be NULL. */
    void (*destroy)(void *self);

    /* The functions below may be NULL. They are beyond struct_size in tables of callers that were compiled
     * before these functions existed. */

    /* Like set, but only if the key does not exist; else GCOLL_ERR_STATE. Atomic among all users of the
     * store. If it is NULL, gcoll_store_set_new uses add instead. */
    gcoll_status (*set_new)(void *self, const char *key, const void *value, size_t bytes);
    /* Limits later requests of this handle to timeout_ms (>= 0), or to the store's own timeout again (-1). If
     * several threads use the handle, the limit must hold for the calling thread only, because the limits of
     * two contexts differ. A store that cannot do this has NULL here: then gcoll_store_set_timeout does
     * nothing. */
    gcoll_status (*set_timeout)(void *self, int64_t timeout_ms);
    /* Gives the key a lifetime: the store may drop it after ttl_ms (>= 1), unless it is kept again before.
     * GCOLL_ERR_NOT_FOUND if there is no such key. If it is NULL, keys last. */
    gcoll_status (*keep)(void *self, const char *key, int64_t ttl_ms);
    /* Waits until the key exists, and copies its value as get does. GCOLL_ERR_TIMEOUT after timeout_ms (>=
     * 0); GCOLL_ERR_INVALID if the value does not fit. NULL: gcoll_store_get_wait uses wait and get. */
    gcoll_status (*get_wait)(void *self, const char *key, void *value, size_t capacity, size_t *bytes,
                             int64_t timeout_ms);
} gcoll_store_ops;

/* Opens a store by its url (in the head of gcoll/store.h). timeout_ms limits connecting and every later
 * request to a server; a wait adds its own limit. The password of a URL never appears in an error text.
 * Errors: INVALID (the URL), IO, TIMEOUT. */
GCOLL_API gcoll_status gcoll_store_open(const char *url, int64_t timeout_ms, gcoll_store **store);

/* Creates a store in the memory of this process, for ranks that are threads. Any number of threads may share
 * the handle and use it at once. */
GCOLL_API gcoll_status gcoll_store_memory_create(gcoll_store **store);

/* Creates a view of `base`: key k of the view is key "prefix/k" of base. The view does not own base, which
 * must outlive it. *store: the view. */
GCOLL_API gcoll_status gcoll_store_prefix_create(gcoll_store *base, const char *prefix, gcoll_store **store);

/* Creates a store from the caller's functions. ops must stay valid as long as the store. self: passed to each
 * of them. */
GCOLL_API gcoll_status gcoll_store_create(const gcoll_store_ops *ops, void *self, gcoll_store **store);

/* The operations that a store lacks, as bits. gcoll_store_lacks gives 0 for all stores of this library, and
 * for NULL. A view lacks the operations that its base lacks. */
#define GCOLL_STORE_LACKS_GET    1u
#define GCOLL_STORE_LACKS_WAIT   2u
#define GCOLL_STORE_LACKS_ADD    4u
#define GCOLL_STORE_LACKS_REMOVE 8u
GCOLL_API uint32_t gcoll_store_lacks(const gcoll_store *store);

/* Set, get, wait for, add to, remove, or wait for and get a key, as the functions of the same name in
 * gcoll_store_ops say. key: its name. value: the value; where it is read, a buffer. bytes: size
 * of the value. capacity: room in the buffer, in bytes. delta: is added to the counter; *value is then the
 * new one. timeout_ms: of the wait, 0 or more. Errors: INVALID (key or size), IO (the store), TIMEOUT (the
 * store does not answer, or a wait is over), UNSUPPORTED (the store lacks the operation). */
GCOLL_API gcoll_status gcoll_store_set(gcoll_store *store, const char *key, const void *value, size_t bytes);
GCOLL_API gcoll_status gcoll_store_get(gcoll_store *store, const char *key, void *value, size_t capacity,
                                       size_t *bytes);
GCOLL_API gcoll_status gcoll_store_wait(gcoll_store *store, const char *key, int64_t timeout_ms);
GCOLL_API gcoll_status gcoll_store_add(gcoll_store *store, const char *key, int64_t delta, int64_t *value);
GCOLL_API gcoll_status gcoll_store_remove(gcoll_store *store, const char *key);
GCOLL_API gcoll_status gcoll_store_get_wait(gcoll_store *store, const char *key, void *value, size_t capacity,
                                            size_t *bytes, int64_t timeout_ms);

/* Sets a key that does not exist yet. If it exists, the result is GCOLL_ERR_STATE and nothing changes. If
 * several callers try at once, on any hosts, one succeeds. Readers never see a part of the value. If the
 * answer of a server is lost, the outcome is unknown and the error says so: the key then holds this value,
 * the value of another caller, or none.
 *
 * If the store's table of operations has no set_new, the counter "<key>.new" decides. Then a key has at most
 * GCOLL_STORE_KEY_MAX - 4 bytes, and gcoll_store_remove removes this counter too. A caller that dies between
 * the counter and the value leaves a key that is taken and has no value until it is removed. A remove at the
 * same time may let two callers succeed. */
GCOLL_API gcoll_status gcoll_store_set_new(gcoll_store *store, const char *key, const void *value,
                                           size_t bytes);

/* Sets the time limit of later requests of this handle, and of prefix views of it, in place of the store's
 * own timeout. It covers connecting again and waiting for a lock or an answer; while other ranks add to the
 * same key of a file store, it counts anew, ten times at most. A gcoll_store_wait takes the smaller of this
 * and its own limit. Stores that never wait ignore it: memory, and tables of operations without set_timeout.
 * It cannot end a request that the kernel does not end, such as one to a network file system whose server is
 * gone. timeout_ms: the limit; 0: a request that would wait fails; -1: the store's own timeout again. */
GCOLL_API gcoll_status gcoll_store_set_timeout(gcoll_store *store, int64_t timeout_ms);

/* Gives the key a lifetime: the store may drop it ttl_ms (1 or more) from now, unless it is kept again
 * before. GCOLL_ERR_NOT_FOUND if there is no such key. A later set or add of the key starts its lifetime
 * again and does not shorten it. To make a key last again, remove it first.
 *
 *   redis    drops the key at the end of its lifetime. Keys that were never kept last.
 *   file     drops keys that have a part "gcoll", as all keys of contexts do, a day after they were last set,
 *            added to or kept, or later if they were kept for longer. It does so when a process opens the
 *            folder, and also with keys that were never kept. Other keys last.
 *   tcp      as redis.
 *   memory   drops nothing; neither do tables of operations without keep. */
GCOLL_API gcoll_status gcoll_store_keep(gcoll_store *store, const char *key, int64_t ttl_ms);

/* Sets gcoll_last_error() of this thread to text and returns status. For use by functions that gcoll calls:
 * those of a gcoll_store_ops, options.exchange, and reductions (gcoll_reduce_fn). */
GCOLL_API gcoll_status gcoll_store_error(gcoll_status status, const char *text);

/* Closes the store. The keys remain, unless this handle runs the server of a tcp store: see above. NULL is
 * allowed. */
GCOLL_API void gcoll_store_destroy(gcoll_store *store);

GCOLL_END_DECLS

#endif
