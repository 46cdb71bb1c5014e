/* gcoll/core/rendezvous.h - finding the other ranks in a store (rendezvous.c), which of them share what
 * (rendezvous_hosts.c), and where they are once all have met (rendezvous_peers.c). */
#ifndef GCOLL_CORE_RENDEZVOUS_H
#define GCOLL_CORE_RENDEZVOUS_H

#include "gcoll/core/core_internal.h"

/* "gcoll/<job>/" and what the format says. */
GCOLL_PRINTF(3, 4)
void gcoll_rendezvous_key(const gcoll_context *context, char key[GCOLL_STORE_KEY_MAX + 1], const char *format,
                          ...);

/* Fills in a fresh generation. */
gcoll_status gcoll_generation_make(char generation[33]);
/* The generation as the 16 bytes that endpoints compare. */
void gcoll_generation_bytes(const char generation[33], uint8_t bytes[16]);
/* Agrees on a generation with all ranks: on return context->generation is set. */
gcoll_status gcoll_rendezvous_begin(gcoll_context *context, int64_t deadline_ms);
/* Publishes the address and returns when every rank has, or, on ranks that have no part in what is agreed
 * then (gcoll_fit_asks), when that is done, well or not; counts the ranks that share this one's
 * processors. */
gcoll_status gcoll_rendezvous_finish(gcoll_context *context, const char *address, int64_t deadline_ms,
                                     uint32_t *local_ranks);
/* Tells the ranks that wait for "go" that it will not come, for the reason in the last error, which stays. */
void gcoll_rendezvous_refuse(gcoll_context *context, gcoll_status status);
/* The error that a text in the store stands for: "!", a status, a space and what to say. */
gcoll_status gcoll_rendezvous_verdict(const char *text);
/* The processors that a record names, or 0. */
uint64_t gcoll_rendezvous_processors(const char *record);
/* Rank 0: tells how many ranks have the same processors. Sorts them. */
gcoll_status gcoll_rendezvous_publish_shared(gcoll_context *context, uint64_t *processors);
gcoll_status gcoll_rendezvous_count_shared(gcoll_context *context, uint32_t *ranks);
gcoll_status gcoll_rendezvous_remove_shared(gcoll_context *context);
/* GCOLL_ERR_NOT_FOUND if the peer has left. One that broke leaves the cause in place of its address: then
 * GCOLL_ERR_STATE, and *cause is set. */
gcoll_status gcoll_rendezvous_lookup(gcoll_context *context, uint32_t peer, char *address, size_t bytes,
                                     gcoll_note *cause);
#define GCOLL_RECORD_MAX (GCOLL_ADDRESS_MAX + 40)
/* What a rank publishes of itself: its address, its host and its processors, with spaces between. */
void gcoll_rendezvous_record(const char *address, char record[GCOLL_RECORD_MAX]);
/* Fills in context->node: which ranks share a host. A look-up for each rank. */
gcoll_status gcoll_rendezvous_hosts(gcoll_context *context);
/* Puts the cause that the context broke for in place of this rank's address. */
void gcoll_rendezvous_leave_cause(gcoll_context *context);
void gcoll_rendezvous_leave(gcoll_context *context);

#endif
