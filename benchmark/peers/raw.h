/*
 * benchmark/peers/raw.h - the floor: what TCP sockets themselves cost, with no library above them. raw.c says
 * what is exchanged.
 */
#ifndef GCOLL_PEER_RAW_H
#define GCOLL_PEER_RAW_H

#include "peer.h"

/* Connected sockets to every other rank. */
typedef struct raw_mesh {
    uint32_t rank, size;
    int *fds;         /* by rank; -1 for our own */
    int buffer_bytes; /* of each socket and direction; 0: as the kernel finds */
    bool spin;        /* else blocks in the kernel */
    bool yield;       /* spinning, with more ranks than processors: lets the others run */
} raw_mesh;

/* Meets the others in options->store. False has been said, and there is nothing to close. */
bool raw_connect(const peer_options *options, int buffer_bytes, raw_mesh *mesh);
void raw_close(raw_mesh *mesh);

/* One direction between this rank and a peer. */
typedef struct raw_transfer {
    uint32_t peer;
    bool send;
    uint64_t at; /* first byte: of our input (or output, with from_output), or where it lands in our output */
    uint64_t bytes; /* may be 0 */
    bool from_output;
    uint64_t from; /* of a receive: `at` of the peer's send */
    bool reduce; /* of a receive: float32 that are added to our input (or output, with from_output) at `at` */
    bool behind; /* of such a one: what is sent meanwhile lies there too, so never more of it than was sent */
} raw_transfer;

#define RAW_STEPS_MOST     40u
#define RAW_TRANSFERS_MOST 4096u

/* Transfers of one step are under way at once; the next step begins when all of them are done. */
typedef struct raw_pattern {
    const char *name;
    uint32_t steps;
    uint32_t ends[RAW_STEPS_MOST]; /* index after the last transfer of the step */
    raw_transfer transfers[RAW_TRANSFERS_MOST];
    uint64_t own_at, own_bytes; /* what of our input is copied to our output before anything is sent */
} raw_pattern;

/* raw_pattern.c: fills a pattern for `bytes`; with `sum` its outcome is the sum of all inputs. False: it does
 * not apply. */
#define RAW_PATTERNS 4u
extern const char *const raw_pattern_names[RAW_PATTERNS];
bool raw_pattern_make(uint32_t which, uint32_t rank, uint32_t size, uint64_t bytes, bool sum,
                      raw_pattern *pattern);

/* raw_check.c: what a rank begins with; float32 for a sum, whose output is then the sum of all ranks', else
 * every byte of the output is what was sent last to that place. */
void raw_fill(uint32_t rank, bool sum, unsigned char *in, unsigned char *out, uint64_t bytes);
uint64_t raw_wrong_sums(uint32_t size, const unsigned char *out, uint64_t bytes);
uint64_t raw_wrong_bytes(const raw_pattern *pattern, const unsigned char *out, uint64_t bytes);

/* Received bytes that are to be reduced lie here until they are, so that they stay in cache. */
#define RAW_HOT_BYTES (1u << 20)

/* raw_move.c: runs it, in system calls of at most `chunk` bytes, and sending at most two chunks more than has
 * come in, so that what is under way stays in cache. `hot` is for patterns that reduce. */
bool raw_move(const raw_mesh *mesh, const raw_pattern *pattern, const unsigned char *in, unsigned char *out,
              unsigned char *hot, uint64_t chunk);

#endif
