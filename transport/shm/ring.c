/* transport/shm/ring.c - frames in shared memory; see ring.h for the order of reads and writes. */
#include "transport/shm/ring.h"

#include <string.h>

_Static_assert(sizeof(gcoll_ring_head) + GCOLL_FINGERPRINT_BYTES == GCOLL_RING_LINE, "any frame's head fits");
_Static_assert(2 * sizeof(gcoll_ring_side) <= GCOLL_RING_PAGE, "both sides fit");
_Static_assert(offsetof(gcoll_ring_side, sleeps) == GCOLL_RING_APART &&
                   sizeof(gcoll_ring_side) % GCOLL_RING_APART == 0,
               "what changes at each message is apart from what does not");

bool gcoll_ring_is_size(uint64_t ring_bytes) {
    return ring_bytes >= GCOLL_RING_LEAST && ring_bytes <= GCOLL_RING_MOST &&
           (ring_bytes & (ring_bytes - 1)) == 0;
}

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wpragmas"
#pragma GCC diagnostic ignored "-Wunknown-warning-option"
#pragma GCC diagnostic ignored                                                                               \
    "-Wtsan" /* ThreadSanitizer does not see it, and needs not: it publishes no data */
void gcoll_ring_fence(void) {
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
}
#pragma GCC diagnostic pop

static uint8_t *ring_of(void *memory, uint32_t ring_bytes, uint32_t from) {
    return (uint8_t *)memory + GCOLL_RING_PAGE + (size_t)from * ring_bytes;
}

/* ---- Writing ---------------------------------------------------------------------------------------- */

void gcoll_ring_write_to(gcoll_ring_writer *writer, void *memory, uint32_t ring_bytes, uint32_t which) {
    *writer = (gcoll_ring_writer){.bytes = ring_of(memory, ring_bytes, which),
                                  .reader = gcoll_ring_side_of(memory, 1 - which),
                                  .size = ring_bytes};
}

/* A line stays free: the word of the frame behind the last one stands there. */
static uint32_t known_room(const gcoll_ring_writer *writer) {
    const uint32_t room = writer->size - (uint32_t)(writer->written - writer->taken) - GCOLL_RING_LINE;
    const uint32_t to_end = writer->size - (uint32_t)(writer->written & (writer->size - 1));
    return room < to_end ? room : to_end;
}

bool gcoll_ring_room(gcoll_ring_writer *writer, uint32_t wanted, uint32_t *room) {
    *room = known_room(writer);
    if (*room >= wanted)
        return true;
    const uint64_t taken = __atomic_load_n(&writer->reader->taken, __ATOMIC_ACQUIRE);
    if (taken - writer->taken > writer->written - writer->taken || taken % GCOLL_RING_LINE != 0)
        return false;
    writer->taken = taken;
    *room = known_room(writer);
    return true;
}

static void store_word(const gcoll_ring_writer *writer, uint64_t at, uint32_t word, int order) {
    uint32_t *to = (uint32_t *)(void *)(writer->bytes + (at & (writer->size - 1)));
    if (order == __ATOMIC_RELEASE)
        __atomic_store_n(to, word, __ATOMIC_RELEASE);
    else
        __atomic_store_n(to, word, __ATOMIC_RELAXED);
}

void gcoll_ring_publish(gcoll_ring_writer *writer, uint32_t word, uint32_t frame_bytes) {
    store_word(writer, writer->written + frame_bytes, 0, __ATOMIC_RELAXED);
    store_word(writer, writer->written, word, __ATOMIC_RELEASE);
    writer->written += frame_bytes;
}

/* ---- Reading ---------------------------------------------------------------------------------------- */

void gcoll_ring_read_from(gcoll_ring_reader *reader, void *memory, uint32_t ring_bytes, uint32_t which) {
    *reader = (gcoll_ring_reader){.bytes = ring_of(memory, ring_bytes, 1 - which),
                                  .own = gcoll_ring_side_of(memory, which),
                                  .size = ring_bytes};
}

/* Reads each field but the word once: a compiler may read again what it has copied by memcpy, and the peer
 * may have changed it by then. */
static void copy_head(gcoll_ring_head *head, const uint8_t *at) {
    const gcoll_ring_head *from = (const gcoll_ring_head *)(const void *)at;
    head->bytes = __atomic_load_n(&from->bytes, __ATOMIC_RELAXED);
    head->stream = __atomic_load_n(&from->stream, __ATOMIC_RELAXED);
    head->total = __atomic_load_n(&from->total, __ATOMIC_RELAXED);
    head->index = __atomic_load_n(&from->index, __ATOMIC_RELAXED);
    head->credit = __atomic_load_n(&from->credit, __ATOMIC_RELAXED);
}

gcoll_ring_found gcoll_ring_next(const gcoll_ring_reader *reader, gcoll_ring_frame *frame) {
    const uint32_t offset = (uint32_t)(reader->read & (reader->size - 1));
    const uint8_t *at = reader->bytes + offset;
    const uint32_t word = __atomic_load_n((const uint32_t *)(const void *)at, __ATOMIC_ACQUIRE);
    if (word == 0)
        return GCOLL_RING_EMPTY;
    copy_head(&frame->head, at);
    frame->head.word = word;
    frame->payload = at + sizeof frame->head;
    if (word & GCOLL_RING_OPEN) {
        memcpy(frame->open, frame->payload, sizeof frame->open);
        frame->payload += sizeof frame->open;
    }
    const uint32_t most = reader->size - (uint32_t)(frame->payload - reader->bytes);
    return (word & ~(GCOLL_RING_KIND | GCOLL_RING_FLAGS)) == GCOLL_RING_MARK && frame->head.bytes <= most
               ? GCOLL_RING_FRAME
               : GCOLL_RING_GARBAGE;
}

void gcoll_ring_pass(gcoll_ring_reader *reader, const gcoll_ring_frame *frame) {
    reader->read += gcoll_ring_frame_bytes(frame->head.word, frame->head.bytes);
}

bool gcoll_ring_tell(gcoll_ring_reader *reader) {
    if (reader->told == reader->read)
        return false;
    reader->told = reader->read;
    __atomic_store_n(&reader->own->taken, reader->read, __ATOMIC_RELEASE);
    return true;
}
