/*
 * gcoll/context.h - contexts: groups of ranks that run collectives together; requests; messages of two ranks.
 *
 * A context belongs to one job of `size` ranks. Each rank creates it with the same job name, size and store.
 * Creation is a rendezvous: it returns when all ranks have joined, or names the ranks that have not. Each
 * visit to the store has a time limit, set by gcoll_store_set_timeout and reset afterwards. Connections are
 * made later, when an operation first needs them.
 *
 * Threads. One thread at a time uses a context. Contexts share nothing (without options.share), so different
 * threads may use different contexts at once. gcoll_context_abort, gcoll_context_wake and gcoll_context_dump
 * may be called from any thread. The work is done by the thread that calls and, with options.progress_thread,
 * by a thread of the context between calls. These calls are refused with GCOLL_ERR_STATE and do nothing:
 *
 *   - a call while another thread is inside a call on the same context, if that has no progress thread;
 *   - a call by a callback (user operation, done, log, allocator, store) on the context that called it,
 *     except gcoll_context_abort, gcoll_context_wake, gcoll_context_health, gcoll_context_culprit and
 *     gcoll_context_dump;
 *   - a call by a callback on another context that has a progress thread, if other threads keep that context
 *     for a quarter of its timeout. So callbacks of two contexts that call each other's context end.
 *
 * A function without a result then leaves the object as it is, and gcoll_last_error gives the reason.
 *
 * Several threads may use a context that has a progress thread. A thread that waits (for an operation, a
 * request, a message or notifications) does not keep other threads from starting work or from waiting for
 * theirs. Two kinds of calls may make other threads wait until they are done: calls that make, split or
 * shrink contexts, or agree, and blocking collectives with options.monitor. The caller has three duties:
 *
 *   - Every rank starts the same collectives in the same order. Starts of two threads have an order only
 *     if the program gives them one. So let one thread start all collectives, or give each thread a context
 *     (gcoll_context_duplicate). Messages of pairs need an order only among those of one tag and peer.
 *   - A request, operation or region is used by one thread at a time. While a thread waits for it, calls of
 *     others on it are GCOLL_ERR_STATE.
 *   - gcoll_context_destroy comes when all other threads are done with the context.
 *
 * Forks. A context belongs to the process that created it. In a forked child every call on it, or on its
 * pairs, requests, operations and regions, is GCOLL_ERR_STATE with a text that names that process. The child
 * may create contexts of its own. It has no copies of the sockets, so peers notice when the parent dies while
 * the child lives. The child may destroy the objects: that frees memory, and no peer notices it. These are
 * left as they are: a context that another thread was using at the fork, memory of devices, and memory of the
 * ibverbs library. A callback that forks must not return in the child. Programs that are started by fork and
 * exec, vfork or posix_spawn are not affected. A process made by a bare clone system call is not recognised
 * as a child.
 *
 * Failures. An error between ranks breaks the context for good. A call whose part is not done yet, and every
 * later call, return the same cause. A call that notices the error when its own part is already done returns
 * GCOLL_OK, because its buffers are right; the log and gcoll_context_health have the cause at once. The
 * connected ranks are told at once and pass it on. gcoll_context_destroy still returns in bounded time. An
 * error in an argument breaks nothing. A rank that runs out of memory or descriptors in a collective breaks
 * the context too, because the others wait for it: every rank then gets GCOLL_ERR_NO_MEMORY, and the rank
 * that ran out is the culprit. If it has no memory to tell them so, others get GCOLL_ERR_PEER, with the same
 * culprit.
 *
 * Parameters that functions of contexts do not describe themselves:
 *
 *   context    the context
 *   *context   receives the context
 *   pair       as gcoll_context_pair gives it
 *   tag        a number; a receive takes messages of its own tag
 */
#ifndef GCOLL_CONTEXT_H
#define GCOLL_CONTEXT_H

#include "gcoll/ibverbs.h"
#include "gcoll/memory.h"
#include "gcoll/plan.h"
#include "gcoll/status.h"
#include "gcoll/store.h"
#include "gcoll/types.h"

GCOLL_BEGIN_DECLS

typedef struct gcoll_context gcoll_context;

/* How important a log message is. */
typedef enum gcoll_log_level {
    GCOLL_LOG_ERROR = 0,
    GCOLL_LOG_WARNING = 1,
    GCOLL_LOG_INFO = 2,
    GCOLL_LOG_DEBUG = 3
} gcoll_log_level;

/* Receives a log message. arg: options.log_arg. level: how important it is. text: one line without a newline,
 * valid during the call only. Called on the thread that drives the context. Must not call gcoll. */
typedef void (*gcoll_log_fn)(void *arg, gcoll_log_level level, const char *text);

/* Functions that allocate the memory which grows with messages and plans: scratch, and the state of runs.
 * alignment is a power of two. Called on the thread that drives the context. */
typedef struct gcoll_allocator {
    void *(*allocate)(void *arg, size_t bytes, size_t alignment);
    void (*release)(void *arg, void *memory, size_t bytes);
    void *arg;
} gcoll_allocator;

/* An allgather that the caller implements: gives every rank the data of all ranks. The function blocks until
 * all ranks have called it. If a rank does not come, it must return in bounded time, with any status other
 * than GCOLL_OK. It may set a text by gcoll_store_error, which becomes part of the error of
 * gcoll_context_create. It must not call any other function of gcoll. arg: options.exchange_arg. mine:
 * `bytes` bytes; `bytes` is the same on every rank. all: receives `bytes` bytes of each rank, this one
 * included, in the order of ranks. */
typedef gcoll_status (*gcoll_exchange_fn)(void *arg, const void *mine, size_t bytes, void *all);

/* Create and destroy a hub, which connects the ranks of one process, for transport "inproc". It is shared by
 * `size` contexts, in one thread or several. Destroy it after them; NULL is allowed. */
typedef struct gcoll_hub gcoll_hub;
GCOLL_API gcoll_status gcoll_hub_create(uint32_t size, gcoll_hub **hub);
GCOLL_API void gcoll_hub_destroy(gcoll_hub *hub);

/* Options of gcoll_context_create. Call gcoll_context_options_init first; then rank, size and store are
 * enough. Texts and structs are copied, except where "borrowed" is said. */
typedef struct gcoll_context_options {
    size_t struct_size; /* set by gcoll_context_options_init */
    uint32_t rank;      /* 0 .. size-1 */
    uint32_t size;      /* ranks of the job, >= 1 */
    gcoll_store *store; /* borrowed while the context lives; NULL if size is 1, or with `exchange` */

    /* Name of this job in the store, [A-Za-z0-9._-]{1,64}; NULL is "default". Two jobs that start at the same
     * time on one store need different names, or launches (see `launch`). A rank that two processes claim is
     * GCOLL_ERR_MISMATCH on all ranks. */
    const char *job;

    /* What moves the data: "tcp", "shm" (memory that ranks of one host share), "ibverbs" (RDMA devices; both
     * with TCP beside them) or "inproc", with options behind colons: "tcp:eager_bytes=64Ki",
     * "ibverbs:device=mlx5_0:gid=3" (docs/transports.md; gcoll_transport_options). Options here count before
     * other fields of this struct and of `ibverbs`, those before environment variables. What is named and
     * cannot be had is an error. A list, "ibverbs,tcp", goes by preference: each two ranks take the first in
     * the list of the lower rank that the other names, too, and that works between them
     * (gcoll_context_lanes). So ranks with RDMA use it among one another, and TCP with those without. NULL
     * and "auto": the environment variable GCOLL_TRANSPORT, or else "shm,ibverbs,tcp" if this machine has an
     * RDMA device (which is passed over if it cannot be opened), or else "shm,tcp". */
    const char *transport;
    gcoll_hub *hub; /* inproc only; borrowed while the context lives */

    /* tcp, ibverbs: where this rank listens, and what it tells its peers: interfaces ("eth0", "eth*"),
     * addresses and subnets ("10.0.0.0/8"), joined by commas, the preferred one first; of each interface one
     * address. Items that this host lacks are passed over; INVALID if nothing is left. "^docker0,veth*": all
     * but these. "::": all, those that the host gets later included. NULL: the environment variable
     * GCOLL_INTERFACE, or else the addresses of all interfaces; a peer on the same host is then reached by
     * loopback, a peer on another host never. */
    const char *interface;
    /* tcp, ibverbs: listen on a port of this range, inclusive; 0,0: any free port. */
    uint16_t port_min, port_max;

    /* Timeout of a blocking call in ms, counted from the last progress: 1 to 86400000; 0: 30000. The call
     * fails if one of these lasts for so long:
     *   - a rank that it waits for has sent nothing, not even an answer to a probe;
     *   - all ranks answer, but no data moves at any of the ranks that this rank waits for, directly or
     *     through others. The call then waits a quarter longer, so that a better informed rank can name the
     *     culprit; or half longer, if the ranks that it waits for have begun the operation, too. Then
     *     none of them is the culprit.
     *
     * A transfer that moves never times out, however slow the network. A call that meets a rank for the first
     * time asks the store for its address, and may take as long again if the store does not answer.
     *
     * It is also the limit of connecting and of creation. Creation may take three quarters of a second
     * longer, in which ranks tell one another why they failed and take their keys away from the store. It
     * takes no longer if the store does not answer. It may take an eighth of the limit longer if the last
     * rank comes late. The store's own timeout is in none of these. */
    int64_t timeout_ms;

    /* tcp, ibverbs: messages up to this size are sent before the receiver asks, but none that fills half of
     * the pool; up to 1 GiB; 0: default. */
    uint64_t eager_bytes;
    uint64_t eager_pool_bytes; /* most bytes held for one peer that no operation waits for yet; 0: default */

    /* How long a waiting call polls before it sleeps, in us. 0: default, which is 200 over tcp (the call
     * yields its core meanwhile), and over inproc never if ranks outnumber cores. -1: never polls. */
    int64_t spin_us;
    gcoll_log_fn log; /* NULL: no log */
    void *log_arg;
    const gcoll_allocator *allocator; /* NULL: malloc */

    /* 1: a thread of the context makes progress with what is in flight while the caller computes, and answers
     * probes of peers. It also calls log, allocator, store and user operations, but never while a gcoll call
     * is under way on this context. So the store must be used by this context only, or be one for several
     * threads. A call that finds the thread at work waits some 20 us until it steps back; with nothing in
     * flight no call waits. Several threads may then make calls (Threads, above). 0: no thread, and no lock
     * is taken. */
    int progress_thread;

    /* Costs of messages and bytes that auto uses: the same on every rank, or given on rank 0 only. NULL: as
     * `tuning` says. */
    const gcoll_cost_parameters *cost;
    /* What auto goes by at first, and whether it learns: calls that come often then try other algorithms for
     * a few calls and keep the fastest, on all ranks alike (docs/tuning.md). Rank 0's value counts, and all
     * ranks get it from there. Not together with `cost`, with which nothing is learned.
     *
     *   "fit"      costs measured between a few ranks at creation: some milliseconds, and their connections
     *   a path     a tuning file, as gcoll_bench --tune writes it
     *   "fixed"    as "fit", and "fixed:PATH" as that file, but nothing is learned
     *   "default"  6 us a message, 0.25 ns a byte, 0.1 ns a byte reduced; nothing is learned
     *   NULL       the environment variable GCOLL_TUNING, or else "fit"
     *
     * Errors: IO, INVALID (file, line and field); on the other ranks PEER with the same text. */
    const char *tuning;

    const gcoll_ibverbs_options *ibverbs; /* ibverbs only; NULL: defaults (gcoll/ibverbs.h) */

    /* Whose memory buffers may lie in (gcoll/memory.h). "none"; "cuda", which is UNSUPPORTED if it is
     * missing; NULL or "auto": cuda, if it works and this process has opened it before it creates the
     * context. Without an accelerator, pointers to device memory are taken for pointers to host memory, and
     * crash. */
    const char *accelerator;
    int accelerator_times; /* 1: devices time their work for gcoll_context_device_times; costs events */

    /* 1, the same on every rank: the context learns when ranks enter collectives, and auto takes that into
     * account (gcoll/arrival.h). GCOLL_ERR_MISMATCH if it differs from rank 0's. */
    int monitor;

    /* Identity of this launch of the job, the same on every rank, up to 255 bytes. Launches with different
     * identities do not see each other, so one may start while an earlier one of the same job is dying.
     *   NULL  the environment variable GCOLL_LAUNCH; or the launcher's identity, if it started exactly the
     *         ranks of this job: srun's (SLURM_JOB_ID, SLURM_STEP_ID and SLURM_RESTART_COUNT, if SLURM_NTASKS
     *         is `size`) or Open MPI's (PMIX_NAMESPACE, if OMPI_COMM_WORLD_SIZE is)
     *   ""    none, whatever these variables say
     * Without an identity launches are still kept apart: rank 0 claims the job and each rank its number, and
     * all ranks are told if one is claimed twice. So that two launches at once are noticed, rank 0 then waits
     * when all ranks have joined: as long as they took to arrive, at least 200 ms and at most 1 s; not if all
     * ranks are threads of one process. Launches at once whose ranks arrive further apart may still mix, and
     * should have an identity. */
    const char *launch;

    /* tcp, ibverbs: a call fails if the host of a rank that it waits for acknowledges nothing for so long,
     * although data is sent again and again. That host or network is gone; the host of a rank that is stopped
     * or busy still acknowledges. In ms: 500 to 86400000; 0: 5000; -1: only timeout_ms counts. Checked during
     * blocking calls, at intervals of a fifth of it. The call fails at the last check within that time: by
     * default after 4 to 5 s. */
    int64_t silence_ms;

    /* 1, the same on every rank: everything that ranks send each other carries a CRC32C, which is checked
     * before use. Data that were changed on the way break the context: GCOLL_ERR_IO names the rank that sent
     * them, and no rank is the culprit. Both sides read each byte once more (docs/checksum.md). 0: only the
     * network's own checksums. Ranks that differ get GCOLL_ERR_MISMATCH when they first connect, which may be
     * in gcoll_context_create. GCOLL_ERR_UNSUPPORTED over ibverbs, whose devices check packets themselves,
     * and over shm, whose messages leave no memory. */
    int checksum;

    /* gcoll_same, the same on every rank: where results are the same, for calls that do not say it. 0: on
     * every rank. */
    int same;

    /* An allgather of the caller's own, in place of a store, on every rank. gcoll_context_create calls it
     * three times, in the creating thread; it is never called later. Afterwards all ranks know each other's
     * addresses, some 100 bytes a rank. There are no claims and no leases, and `launch` has no meaning: each
     * rank that takes part belongs to this launch. options.timeout_ms does not limit the allgather, only what
     * follows it. Rank 0's tuning reaches the others by broadcasts, so creation also connects each rank with
     * up to log2(size) others. The function and its argument are not used after creation. */
    gcoll_exchange_fn exchange;
    void *exchange_arg;

    /* 1, the same on every rank: contexts that gcoll_context_duplicate, gcoll_context_split and
     * gcoll_context_create_group make of this one, and of those, share its connections and take no
     * descriptors of their own. For programs with many groups that one thread uses. What differs from
     * contexts of their own:
     *   - one thread at a time uses all of them: a call by a second thread fails with GCOLL_ERR_STATE, and so
     *     does one by a callback of any of them;
     *   - a call on one of them makes progress for messages of all, and may call log of all;
     *   - if this context breaks, so do those made of it. If one of those breaks or is destroyed, this one
     *     and the others go on, and if this one is destroyed, those go on.
     *   - their messages use one connection to each peer, also where transport is "tcp:connections=4", which
     *     then counts for messages of this context alone.
     * A rank that dies breaks all that it is a member of. Over inproc, which has no descriptors, only the
     * first rule holds. Ranks that differ get GCOLL_ERR_MISMATCH when they make a context of this one.
     * GCOLL_ERR_UNSUPPORTED where transport names ibverbs or shm; "auto" then is tcp. GCOLL_ERR_INVALID
     * together with progress_thread. */
    int share;

    /* 1, the same on every rank: after a failure the ranks that are left can agree and make a context of
     * their own (gcoll/recovery.h). Takes one more descriptor, and a port of port_min to port_max, if these
     * are given; and at creation an allgather of some 60 bytes a rank. Contexts that are made of this one
     * have it, too. Ranks that differ do not get beyond their first collective, which is GCOLL_ERR_MISMATCH,
     * or GCOLL_ERR_TIMEOUT. GCOLL_ERR_INVALID together with share. */
    int recovery;

    /* The job's secret, the same on every rank: GCOLL_SECRET_MIN to GCOLL_SECRET_MAX random bytes, as
     * "openssl rand -hex 32" makes them. Whoever does not know it can be no rank, though he reads the store
     * and all that goes by (docs/security.md): ranks prove to each other that they do, and values in the
     * store are signed with it. It does not hide anything. secret_file: a file with it, without the line end;
     * it must belong to this process's user or root, and others may not read it. Both NULL: the environment
     * variable GCOLL_SECRET_FILE or GCOLL_SECRET, or else there is none. Not needed, and not used, by inproc.
     * A rank with another secret or none is PROTOCOL or MISMATCH, or TIMEOUT if it never comes so far. */
    const void *secret;
    size_t secret_bytes;
    const char *secret_file;

    /* What protects messages between hosts, the same on every rank; not of inproc and shm. NULL or "": the
     * variable GCOLL_ENCRYPTION, or else "auth" if there is a secret, and "off" if not.
     *   "off"   nothing; there may be no secret
     *   "auth"  ranks prove that they know the secret; all that they send can be read and changed on its way
     *   "on"    TLS 1.3, by a key of the secret, or by certificates if tls_certificate is set. What cannot
     *           encrypt is refused, and passed over by "auto": ibverbs, and tcp with several connections
     *   "on:ibverbs"  the same, but the lane ibverbs may move data in clear
     * GCOLL_ERR_UNSUPPORTED: the build has no TLS (OpenSSL 3), or this host lacks its libraries. */
    const char *encryption;
    /* PEM files: this rank's certificate with its chain, the key of it (as private as secret_file), and the
     * authorities that sign the certificates of all ranks. All three or none; NULL: GCOLL_TLS_CERTIFICATE,
     * GCOLL_TLS_KEY, GCOLL_TLS_CA. Each rank is a client and a server. */
    const char *tls_certificate, *tls_key, *tls_ca;
    /* The DNS name that a rank's certificate must have, with {rank} for its number in the context that was
     * created first, and {job} for options.job: "train-{rank}.pods.example". NULL: GCOLL_TLS_NAME, or else
     * any that the authorities have signed. With {rank} no rank can join later (gcoll_context_grow). */
    const char *tls_name;

    /* gcoll_order, the same on every rank: the tree of operations of reductions that do not say it. 0: any.
     */
    int order;
} gcoll_context_options;

#define GCOLL_SECRET_MIN 16
#define GCOLL_SECRET_MAX 4096

/* Fills `options` with defaults. Always call it first: later versions add fields. */
GCOLL_API void gcoll_context_options_init(gcoll_context_options *options);

/* Joins the job, and returns when all ranks have joined. Blocks up to options->timeout_ms; after a failure
 * up to three quarters of a second longer (see there). Errors:
 *   INVALID   names the field
 *   TIMEOUT   names the ranks that did not join; or says that no launch came, or that the store was too slow
 *             to see who is missing
 *   PEER      a rank died while it joined, which is noticed within a second on the same host; it showed no
 *             life for 3 s on another host; or a rank could not join, with its reason
 *   MISMATCH  two processes claim one rank (the text names both), or the sizes differ
 *   IO        store, sockets
 *
 * The next launch of the same name takes over from a launch that died while it joined. Ranks of the old
 * launch that still wait end with an error.
 *
 * Keys that a crashed job leaves in the store have a lifetime of a day; those of a launch that failed, of an
 * hour, or of twice timeout_ms. A context that lives renews them about hourly, in calls that wait, in
 * gcoll_request_test, gcoll_operation_test and gcoll_request_wait_for, and in its progress thread. A context
 * that makes no such call for a day may seem to have left. */
GCOLL_API gcoll_status gcoll_context_create(const gcoll_context_options *options, gcoll_context **context);

/* Creates a second context for the same ranks over the first one's connections, without the store.
 * Collective: every rank calls it in the same order as other operations on `parent`. The new context has its
 * own sequence, listener and pairs, and may be used by another thread, unless the parent has options.share.
 * It takes its timeout and other options from the parent. The parent may be destroyed first. */
GCOLL_API gcoll_status gcoll_context_duplicate(gcoll_context *parent, gcoll_context **context);

/* The color of a rank that gets no context from gcoll_context_split. */
#define GCOLL_COLOR_NONE (-1)

/* Divides the ranks of a context into groups, and creates a context for each group, over the parent's
 * connections and without the store. Collective on `parent`, as gcoll_context_duplicate. Blocks like one.
 * color: 0 or more; ranks of one color get a context together. GCOLL_COLOR_NONE: this rank gets none, and
 * *context is NULL. key: the ranks of the new context are ordered by key. Ranks with equal keys are ordered
 * by their ranks of the parent.
 * The new context is independent of its parent, as a duplicate is, unless the parent has options.share. Each
 * may be used by a thread of its own, may break alone, and may be destroyed first. A rank that dies breaks
 * both. Errors and culprits of a context name its own ranks. gcoll_context_parent_rank translates a rank;
 * error texts also give the culprit's rank of the parent. `auto` uses the parent's costs. A split costs two
 * small collectives on the parent, in which a rank gets some 100 bytes from every other.
 *
 * Errors:
 *   INVALID   names the argument; breaks nothing
 *   PEER      a rank of the group could not open its end, with its reason; breaks nothing
 *   others    as of a collective on `parent`, which they break; the cause, if `parent` is broken already
 */
GCOLL_API gcoll_status gcoll_context_split(gcoll_context *parent, int32_t color, int32_t key,
                                           gcoll_context **context);

/* Creates a context for some ranks of `parent`. Only these ranks, the members, call it. All else is as in
 * gcoll_context_split.
 * ranks: `count` ranks of the parent, each once, and this rank among them. Every member gives the same list.
 * Rank i of the new context is ranks[i] of the parent. tag: any number, the same on all members. It tells
 * this group from others that some of the same ranks create, and never matches a tag of gcoll_pair_send.
 * Blocks up to the parent's timeout, counted from the last progress. Costs two exchanges of messages among
 * the members, up and down a tree in which a rank has up to 32 others below it. Errors, beyond those of a
 * split:
 *   MISMATCH  the lists of two members differ; the text names both and the entry
 *   TIMEOUT   a member has not come; the text and gcoll_context_culprit of the parent name it
 * Both break the parent, because its ranks are out of step. */
GCOLL_API gcoll_status gcoll_context_create_group(gcoll_context *parent, const uint32_t *ranks,
                                                  uint32_t count, uint32_t tag, gcoll_context **context);

/* Translates a rank of this context to its rank of the parent, if a split, gcoll_context_create_group,
 * gcoll_context_shrink or gcoll_context_grow made the context. In other contexts, duplicates included, the
 * result is the rank itself. UINT32_MAX for a newcomer (gcoll/recovery.h); and for NULL and a rank that the
 * context does not have, where gcoll_last_error says so. */
GCOLL_API uint32_t gcoll_context_parent_rank(const gcoll_context *context, uint32_t rank);

/* Return this rank, and the number of ranks of the context. For NULL: UINT32_MAX, and 0; gcoll_last_error
 * then says so. */
GCOLL_API uint32_t gcoll_context_rank(const gcoll_context *context);
GCOLL_API uint32_t gcoll_context_size(const gcoll_context *context);

/* Writes how messages travel to each other rank, a line for each rank or row of ranks: "to ranks 1 to 3:
 * ibverbs", "to rank 4: tcp (ibverbs: the other rank does not offer it)", "to rank 5: not connected". The
 * transport between two ranks, their lane, is chosen when two ranks connect, which they do when they first
 * exchange messages. text has room for `bytes` bytes; longer text is cut. Sends nothing. GCOLL_ERR_INVALID:
 * context or text is NULL, or bytes is 0; GCOLL_ERR_STATE as any call. */
GCOLL_API gcoll_status gcoll_context_lanes(gcoll_context *context, char *text, size_t bytes);

/* Returns GCOLL_OK while the context works; else the status that it broke with, and sets gcoll_last_error to
 * the cause. GCOLL_ERR_STATE in a forked child; GCOLL_ERR_INVALID for NULL. */
GCOLL_API gcoll_status gcoll_context_health(const gcoll_context *context);

/* Returns the rank that broke the context, or -1 if the context is not broken or no rank is known to be at
 * fault. A rank that aborts is the culprit. If nothing arrives from a rank any more, that rank is the
 * culprit. But if a third rank still hears from it, the network between two ranks is at fault: the result is
 * -1, and gcoll_last_error names both. It is -1 too if two ranks called different operations, because either
 * may be wrong; the text names both. -1 for NULL. */
GCOLL_API int64_t gcoll_context_culprit(const gcoll_context *context);

/* Breaks the context on every rank: calls that wait return GCOLL_ERR_ABORTED with `reason` (up to 200 bytes).
 * May be called from any thread until gcoll_context_destroy is called. Does not wait. A call that waits, or
 * the progress thread, tells the other ranks at once; without either the next gcoll call on this context
 * does. */
GCOLL_API void gcoll_context_abort(gcoll_context *context, const char *reason);

/* Ends a gcoll_wait_any on this context: it returns GCOLL_WOKEN, and all requests go on. If no thread is in
 * gcoll_wait_any, the next gcoll_wait_any returns at once. Wakes do not add up: several before a wait count
 * as one. No other call heeds them. Use it if a thread that waits for requests has to be told of other work.
 * May be called from any thread and from callbacks until gcoll_context_destroy is called. Does not wait;
 * takes some microseconds. GCOLL_ERR_STATE in a forked child and while the context is being destroyed. */
GCOLL_API gcoll_status gcoll_context_wake(gcoll_context *context);

/* Gives a descriptor, *fd, for the caller's own event loop (epoll, poll). It becomes readable in four cases:
 * an operation or a request of this context has ended, with success or not; a put has notified a region of
 * this rank; the context has broken; gcoll_context_wake was called. Now and then it becomes readable without
 * a reason. It stays readable until it is read. Read 8 bytes first, and then look what has ended
 * (options.done, gcoll_request_test); in this order nothing is missed. A read does not block. Each call gives
 * the same descriptor. It belongs to the context, which closes it. GCOLL_ERR_UNSUPPORTED without a progress
 * thread, because only that thread works while the caller sleeps, and for a context of one rank. */
GCOLL_API gcoll_status gcoll_context_fd(gcoll_context *context, int *fd);

/* Leaves the job and frees the context. Destroy its operations, requests and pairs first. NULL is allowed.
 * Does nothing while a thread is inside a call on the context. Takes at most about a second, even if peers
 * are gone or the store does not answer; keys that it must leave there have a lifetime of a day. It takes
 * longer, up to half a minute, while data that this rank has sent still arrive at peers over a slow network.
 */
GCOLL_API void gcoll_context_destroy(gcoll_context *context);

/* ---- Requests ---------------------------------------------------------------------------------------
 * A request stands for a message (gcoll_pair_send_start, gcoll_pair_recv_start) or a collective
 * (gcoll/operations.h) that has begun. It belongs to its context. The call that waits for it, or sees it
 * done, ends it, exactly once, and sets the caller's pointer to NULL; ending it twice is GCOLL_ERR_STATE.
 * Requests that are never ended are freed with the context, which logs it. Destroying a context with requests
 * in flight breaks it on all ranks.
 */

typedef struct gcoll_request gcoll_request;

/* Waits for the request and ends it, whether it succeeds or not. The timeout is that of the request's
 * operation or pair, or else the context's. A timeout breaks the context, because ranks are out of step. */
GCOLL_API gcoll_status gcoll_request_wait(gcoll_request **request);
/* Tests whether a request has finished: makes progress, and does not wait. *done is 1 if it has. That, and
 * any error of the request, ends it. The request's timeout counts for tests, too: from the eighth test that
 * finds it unfinished, and at most a quarter of the timeout between two tests, because a rank that computes
 * between tests does not wait. About eight times within the timeout a test takes up to a millisecond. */
GCOLL_API gcoll_status gcoll_request_test(gcoll_request **request, int *done);
/* Waits for at most wait_ms, 0 (like one test) to 86400000. If the request has not finished by then, the
 * result is GCOLL_ERR_TIMEOUT: this ends nothing and breaks nothing, and *request stays. The request's own
 * timeout counts meanwhile; when it passes, the context is broken, the request ended and *request NULL. */
GCOLL_API gcoll_status gcoll_request_wait_for(gcoll_request **request, int64_t wait_ms);
/* Cancels a receive (gcoll_pair_recv_start, gcoll_context_recv_any_start) whose message is not on its way
 * yet, and ends the request. The buffer is the caller's again. The next receive of that tag from that rank
 * takes its place, so no message is lost. Does not wait. GCOLL_ERR_STATE, and the request goes on, if
 *   - it is no such receive;
 *   - its message has come or begun to come, or the sender is known to wait for it;
 *   - the sender has been told that it may send. Over tcp and ibverbs that happens at once for messages too
 *     large to be sent unasked (options.eager_bytes).
 * If the context is broken, the result is its cause, and the request is ended. */
GCOLL_API gcoll_status gcoll_request_cancel(gcoll_request **request);
/* Waits until one of `count` requests has finished, and gives the index of the first such. Ends nothing:
 * gcoll_request_wait then ends that request at once. All requests are of one context. NULL entries are
 * skipped, so a list can be worked off in place; GCOLL_ERR_STATE if all are NULL. If the context breaks
 * first, the result is its cause, for this call and for each request. GCOLL_WOKEN: gcoll_context_wake was
 * called since the last such result. Then *index is not set, and the next call finds a request that has
 * finished. Such a call has made progress, and counts as a test of each request (gcoll_request_test). If
 * several threads wait in this call on one context, a wake ends the wait of one of them. */
GCOLL_API gcoll_status gcoll_wait_any(gcoll_request *const *requests, uint32_t count, uint32_t *index);
/* Give the source of a finished receive (the rank that sent the message), and the size of the message in
 * bytes. The message may be smaller than the buffer; if it is larger, gcoll_request_wait will fail. Both work
 * on a receive that has finished and not ended, as after gcoll_wait_any. Neither waits. GCOLL_ERR_STATE for
 * any other request. After the end, gcoll_context_last_received gives the same. */
GCOLL_API gcoll_status gcoll_request_source(gcoll_request *request, uint32_t *source);
GCOLL_API gcoll_status gcoll_request_bytes(gcoll_request *request, uint64_t *bytes);

/* ---- Pairs: messages between two ranks -------------------------------------------------------------- */

/* An ordered two-way channel to one peer, to build algorithms of your own on. */
typedef struct gcoll_pair gcoll_pair;

/* Gives the pair to `peer`, which is another rank. The context owns it. It connects when it is first used. */
GCOLL_API gcoll_status gcoll_context_pair(gcoll_context *context, uint32_t peer, gcoll_pair **pair);

/* Sets the timeout of later sends and receives on this pair, in ms: 1 to 86400000 as timeout_ms in
 * gcoll_collective_options; 0, the default: the context's; -1: none. It concerns this rank only, and no
 * message that has begun. A message that exceeds it breaks the context. gcoll_context_recv_any takes the
 * shortest timeout of its pairs. */
GCOLL_API gcoll_status gcoll_pair_set_timeout(gcoll_pair *pair, int64_t timeout_ms);

/* Send or receive a message over a pair. Messages of one tag between the same two ranks match in order. Block
 * up to the pair's timeout. gcoll_pair_send returns when data may be reused. bytes: size of the message, or
 * of the buffer for it.
 *
 * A message may be smaller than the buffer of its receive. Then the rest of the buffer stays as it is, and
 * gcoll_context_last_received or gcoll_request_bytes gives the size. If the message is larger, the receive
 * fails with GCOLL_ERR_MISMATCH, and the text names both sizes. That breaks nothing: the message is dropped,
 * the buffer stays as it is, and the send succeeds. It holds for every form of receive. */
GCOLL_API gcoll_status gcoll_pair_send(gcoll_pair *pair, uint32_t tag, const void *data, uint64_t bytes);
GCOLL_API gcoll_status gcoll_pair_recv(gcoll_pair *pair, uint32_t tag, void *data, uint64_t bytes);

/* Sends and receives at once, with one peer or two. Ranks that all call it in a circle do not deadlock. to,
 * send_tag, send, send_bytes: as in gcoll_pair_send. from, recv_tag, recv, recv_bytes: as in gcoll_pair_recv.
 */
GCOLL_API gcoll_status gcoll_pair_sendrecv(gcoll_pair *to, uint32_t send_tag, const void *send,
                                           uint64_t send_bytes, gcoll_pair *from, uint32_t recv_tag,
                                           void *recv, uint64_t recv_bytes);

/* Begin a send or a receive and give its request. data must stay until the request has ended. pair, tag,
 * bytes: as in gcoll_pair_send and gcoll_pair_recv. */
GCOLL_API gcoll_status gcoll_pair_send_start(gcoll_pair *pair, uint32_t tag, const void *data, uint64_t bytes,
                                             gcoll_request **request);
GCOLL_API gcoll_status gcoll_pair_recv_start(gcoll_pair *pair, uint32_t tag, void *data, uint64_t bytes,
                                             gcoll_request **request);

/* Gives the source and the size in bytes of the message that this context received last: of the receive that
 * ended last, in whichever call or thread, even if the message was too large for its buffer. source and bytes
 * may be NULL. GCOLL_ERR_STATE if no receive has ended. */
GCOLL_API gcoll_status gcoll_context_last_received(gcoll_context *context, uint32_t *source, uint64_t *bytes);

/* Receives from the first of several ranks whose next message of that tag has arrived. If several have sent,
 * the first in the list is taken. Messages of the other ranks stay for later receives. If a rank has sent
 * 65536 messages that were not received, later ones are seen only after some have been. A rank that has left
 * and sent nothing is skipped; GCOLL_ERR_PEER if all have. Blocks up to the shortest timeout of the pairs.
 * peers: `count` ranks other than this one. data, bytes: the buffer and its size, as in gcoll_pair_recv.
 * *source: the rank, not NULL. */
GCOLL_API gcoll_status gcoll_context_recv_any(gcoll_context *context, const uint32_t *peers, uint32_t count,
                                              uint32_t tag, void *data, uint64_t bytes, uint32_t *source);
/* Begins a receive from any of several ranks, as gcoll_context_recv_any, and gives its request. Any number of
 * them may be in flight. If several could take the same message, the one that began first takes it. A receive
 * from one rank (gcoll_pair_recv) goes before all of them: it takes the next message of its rank, even if it
 * began later. gcoll_request_source or gcoll_context_last_received gives the source. While such receives are
 * in flight, each progress of this context costs a table look-up for each of their ranks. peers, count, tag,
 * data, bytes: as in gcoll_context_recv_any; peers is copied. */
GCOLL_API gcoll_status gcoll_context_recv_any_start(gcoll_context *context, const uint32_t *peers,
                                                    uint32_t count, uint32_t tag, void *data, uint64_t bytes,
                                                    gcoll_request **request);

/* Looks, without waiting, whether a message of that tag has arrived from one of several ranks, and no receive
 * has taken it. *found is 1 or 0. If it is 1, *source is the first such rank in the list, and *bytes is the
 * size of its message; source and bytes may be NULL. The message stays. The next receive of that tag from
 * that rank takes it, if no receive from any of several ranks is in flight. Messages beyond 65536 that were
 * not received are seen later (see gcoll_context_recv_any). Makes progress; has no timeout. GCOLL_ERR_PEER,
 * which breaks nothing, if all these ranks have left and no message of theirs is left. peers, count: as in
 * gcoll_context_recv_any. */
GCOLL_API gcoll_status gcoll_context_probe(gcoll_context *context, const uint32_t *peers, uint32_t count,
                                           uint32_t tag, int *found, uint32_t *source, uint64_t *bytes);
/* Looks for a message of that tag from the rank of a pair. found, bytes: as in gcoll_context_probe. */
GCOLL_API gcoll_status gcoll_pair_probe(gcoll_pair *pair, uint32_t tag, int *found, uint64_t *bytes);

GCOLL_END_DECLS

#endif
