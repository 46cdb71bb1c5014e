/*
 * transport/inproc/inproc.h - faults for tests, on a hub of the in-process transport.
 *
 * Private: not installed. Everything here may be called from any thread, and acts on every group of the hub.
 * Nothing here is needed, and nothing costs anything, in normal use.
 *
 * With all endpoints of a hub driven by one thread in turn, the order of events depends on nothing but
 * the calls and the seed, so a failure can be replayed.
 */
#ifndef GCOLL_INPROC_H
#define GCOLL_INPROC_H

#include "gcoll/context.h"
#include "transport/transport.h"

#define GCOLL_INPROC_ANY_STREAM UINT64_MAX

/* Delivers in a pseudo-random order: each message, completion and event is held back for some of its
 * receiver's progress calls and overtaken by others, messages arrive in portions of random size over several
 * progress calls, some ordered pairs of ranks are consistently slower than others, and `done` is sometimes
 * called from within post. What the contract orders stays ordered. GCOLL_ERR_STATE once a rank has attached.
 */
gcoll_status gcoll_inproc_shuffle(gcoll_hub *hub, uint64_t seed);

/* The process of `rank` dies: peers connected to it get failed(GCOLL_ERR_PEER, "closed the connection"),
 * those that connect later "refused the connection"; messages under way are cut off anywhere. The rank's own
 * endpoint goes inert: it calls nothing back, takes no post, and its progress only waits. Its owner still
 * closes it, and must keep its messages' memory until then. Nothing happens to a rank that is not attached.
 */
gcoll_status gcoll_inproc_kill(gcoll_hub *hub, uint32_t rank);

/* Stops (true) or continues (false) `rank`, like SIGSTOP: its progress moves nothing, calls nothing back and
 * answers no probe. What it posted before can still be received. */
gcoll_status gcoll_inproc_stall(gcoll_hub *hub, uint32_t rank, bool stopped);

/* Cuts (true) or mends (false) the connection of a and b: until mended nothing passes between them, not
 * even failures, and nothing is lost. */
gcoll_status gcoll_inproc_partition(gcoll_hub *hub, uint32_t a, uint32_t b, bool cut);

/* Loses the n-th message (from 0, counted since both attached) that goes from `from` to `to`, its
 * fingerprint too: the sender's `done` is called as if it had arrived; the receiver never hears of it. */
gcoll_status gcoll_inproc_drop(gcoll_hub *hub, uint32_t from, uint32_t to, uint64_t n);

/* Flips the lowest bit of byte `byte` of one message from `from` to `to`, in the receiver's copy only: of
 * (stream, index), or of the first that is long enough if stream is GCOLL_INPROC_ANY_STREAM. */
gcoll_status gcoll_inproc_corrupt(gcoll_hub *hub, uint32_t from, uint32_t to, uint64_t stream, uint32_t index,
                                  uint64_t byte);

#endif
