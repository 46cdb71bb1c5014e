/* gcoll/stats.h - what a context has done so far: operations, bytes, waits, by collective and by peer.
 *
 *     gcoll_stats stats = {sizeof stats};
 *     if (gcoll_context_stats(context, &stats) == GCOLL_OK)
 *         printf("%llu bytes sent\n", (unsigned long long)stats.sent_bytes);
 *
 * All numbers count from the creation of the context. The calls may come from any thread while the context
 * exists, also while another thread is inside a call; they send nothing and do not wait. The flight recorder
 * (gcoll/trace.h) counts, so that GCOLL_ERR_STATE is the answer where GCOLL_RECORD is "off".
 *
 * What the transport counts (`retransmitted`, `sleeps`, `asleep_ns`, `registrations`, `lane`) only a thread
 * inside a call can read. These numbers are as of the creation, of gcoll_context_refresh_stats, or of the
 * latest call of an operation that noticed that somebody had asked for them: the next one does within 16
 * operations, and a wait within a tenth of a second. age_ns says how old they are.
 */
#ifndef GCOLL_STATS_H
#define GCOLL_STATS_H

#include "gcoll/context.h"
#include "gcoll/plan.h"

GCOLL_BEGIN_DECLS

/* Statistics of a context. */
typedef struct gcoll_stats {
    size_t struct_size; /* sizeof, set by the caller */
    uint64_t begun;     /* the number of the newest collective operation; making the context takes some */
    uint64_t done, failed;
    uint64_t sent_messages, sent_bytes; /* to all peers; of collectives, pairs, puts and gets */
    uint64_t received_messages, received_bytes;
    uint64_t waits;     /* waits of operations for peers that were not over at once, the one that goes on */
    uint64_t waited_ns; /* included; waiting for another step, or another rank, is the next one */
    uint64_t sleeps;    /* waits that gave up their processor; 0 with inproc. Of all contexts that share */
    uint64_t asleep_ns; /* connections together */
    uint64_t registrations; /* of memory with an RDMA device */
    uint64_t retransmitted; /* segments that TCP has sent again, to all peers, as far as was read */
    int64_t age_ns;         /* of the last four */
} gcoll_stats;

/* Statistics of one collective. */
typedef struct gcoll_collective_stats {
    size_t struct_size; /* sizeof, set by the caller */
    uint64_t done, failed;
    uint64_t bytes;      /* of the operations that are done: their elements, of all blocks together */
    uint64_t sent_bytes; /* by this rank for them */
    uint64_t busy_ns;    /* from their begin to their end, summed, though they may overlap */
} gcoll_collective_stats;

/* Statistics of one peer. */
typedef struct gcoll_peer_stats {
    size_t struct_size; /* sizeof, set by the caller */
    uint64_t sent_messages, sent_bytes, received_messages, received_bytes;
    uint64_t waits, waited_ns; /* waits for this peer, and maybe for others too, as in gcoll_stats */
    uint64_t retransmitted;    /* segments that TCP has sent again, as far as was read */
    const char *lane;          /* by which messages go: "tcp", "shm", ...; NULL: not connected, as far as is
                                * known. Never freed */
} gcoll_peer_stats;

/* Give the statistics of a context, of one collective and of one peer. The caller sets stats->struct_size.
 * peer: another rank. Errors: INVALID (an argument is NULL or out of
 * range, and which), STATE (the recorder is off; a forked child). */
GCOLL_API gcoll_status gcoll_context_stats(gcoll_context *context, gcoll_stats *stats);
GCOLL_API gcoll_status gcoll_context_collective_stats(gcoll_context *context, gcoll_collective collective,
                                                      gcoll_collective_stats *stats);
GCOLL_API gcoll_status gcoll_context_peer_stats(gcoll_context *context, uint32_t peer,
                                                gcoll_peer_stats *stats);

/* Reads what the transport counts now: a system call a connection. Unlike the others an ordinary call, so
 * that one thread at a time may be inside. Errors: INVALID (context is NULL), STATE as any call, or as
 * above. */
GCOLL_API gcoll_status gcoll_context_refresh_stats(gcoll_context *context);

/* Writes the statistics of `count` contexts of this process as text in Prometheus' format (version 0.0.4), as
 * a server of metrics has to answer: names begin with gcoll_, labels are job, group, rank, and collective or
 * peer. Peers and collectives that nothing was done with are left out (docs/statistics.md). *needed, if it is
 * not NULL, is set to the size of the whole text with its terminator, in bytes; text may be NULL if `bytes`
 * is 0. INVALID: `bytes` is smaller than that (the text is then empty), or an argument is wrong; STATE as
 * above; NO_MEMORY. */
GCOLL_API gcoll_status gcoll_metrics(gcoll_context *const *contexts, uint32_t count, char *text, size_t bytes,
                                     size_t *needed);

/* Writes the text of gcoll_metrics for `count` contexts to the file `path`, which is replaced as a whole: for
 * the textfile collector of node_exporter, which reads files named *.prom. IO: it cannot be written, and why.
 */
GCOLL_API gcoll_status gcoll_metrics_write(gcoll_context *const *contexts, uint32_t count, const char *path);

GCOLL_END_DECLS

#endif
