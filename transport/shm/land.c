/*
 * transport/shm/land.c - puts large messages into the memory of their receives by stores past the caches.
 *
 * A store to a line that is in no cache reads the line from memory first, and drives another one out. If the
 * vectors of all ranks are larger than the cache that they share, both are for nothing: the line is written
 * as a whole, and is gone again before anybody reads it. Stores past the caches (non-temporal ones) write it
 * and do no more. What is reduced is not put here, as its result is read next.
 */
#include <string.h>

#include "transport/shm/shm.h"

/* ThreadSanitizer does not see such stores. Other processors than x86-64 have none that promise as much. */
#if defined(__SSE2__) && !defined(__SANITIZE_THREAD__)
#include <emmintrin.h>
#define HAS_STREAMS 1
#endif

/* The cache that some cores share, in many processors. What the system says is of no use: sysconf means all
 * such caches of a socket together, of which a virtual machine has a part. */
#define CACHE_BYTES (UINT64_C(32) << 20)
/* Messages of that part of a rank's share of the cache are large. A collective then handles some of them, in
 * two vectors of each rank. */
#define SHARE_PARTS 16
/* Whatever the number of ranks: those of other hosts are counted, too. */
#define PAST_LEAST (UINT64_C(256) << 10)
/* Shorter pieces are not worth the fence. */
#define PIECE_LEAST 4096

uint64_t gcoll_shm_past_bytes(uint64_t ranks) {
    const uint64_t part = CACHE_BYTES / SHARE_PARTS / (ranks > 0 ? ranks : 1);
    return part > PAST_LEAST ? part : PAST_LEAST;
}

#ifdef HAS_STREAMS
#define LINE 64

void gcoll_shm_copy_past(void *to, const void *from, size_t bytes) {
    uint8_t *at = to;
    const uint8_t *next = from;
    const size_t ahead = (size_t)(-(uintptr_t)at % LINE);
    const size_t lead = ahead < bytes ? ahead : bytes;
    memcpy(at, next, lead);
    at += lead;
    next += lead;
    bytes -= lead;
    for (; bytes >= LINE; at += LINE, next += LINE, bytes -= LINE) {
        const __m128i *source = (const __m128i *)(const void *)next;
        __m128i *line = (__m128i *)(void *)at;
        const __m128i a = _mm_loadu_si128(source), b = _mm_loadu_si128(source + 1);
        const __m128i c = _mm_loadu_si128(source + 2), d = _mm_loadu_si128(source + 3);
        _mm_stream_si128(line, a);
        _mm_stream_si128(line + 1, b);
        _mm_stream_si128(line + 2, c);
        _mm_stream_si128(line + 3, d);
    }
    memcpy(at, next, bytes);
    _mm_sfence(); /* whoever is told of the message later sees it */
}
#else
void gcoll_shm_copy_past(void *to, const void *from, size_t bytes) {
    memcpy(to, from, bytes);
}
#endif

const uint8_t *gcoll_shm_land(const gcoll_shm_pair *pair, const gcoll_slot *slot, const uint8_t *bytes,
                              uint64_t count) {
    const gcoll_message *message = slot->message;
    if (slot->total < pair->shm->past_bytes || count < PIECE_LEAST || !message || message->consume)
        return bytes;
    gcoll_shm_copy_past((uint8_t *)message->data + slot->received, bytes, (size_t)count);
    return NULL;
}
