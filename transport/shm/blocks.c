/*
 * transport/shm/blocks.c - memory of gcoll_memory_alloc that the peer maps, so that it can read messages
 * where they lie (pull.c).
 *
 *   the block's owner                       the peer
 *   sends a large message of the block, through the ring
 *   BLOCK  ===============================> (by the peer's socket, with the descriptor)
 *   LENDS  -------------------------------> finds it in its socket, checks it, maps it to read
 *          <------------------------------- TAKES: it is mapped, or will not be
 *   from now on refers to messages of the block
 *   FREED  -------------------------------> unmaps it
 *
 * The frames go by the rings, in order with all others. So a reference never comes before its block is
 * mapped, nor after it was freed, and what cannot be mapped costs nothing but the copies through the ring. An
 * owner asks for one block at a time, so neither side has more than one frame of these to keep.
 *
 * What is checked: the user, by the kernel's word; that the memory cannot shrink under a reader; and that its
 * pages are there. Where the kernel can do that, its owner has also sealed it against everyone else's writes
 * and holes (gcoll_sealed_own).
 */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "gcoll/base/sealed.h"
#include "transport/shm/shm.h"

/* A block of this process, and what the peer said of it. */
typedef struct lent_block {
    gcoll_map_item item; /* the first member; the hash is the identity */
    gcoll_block_place place;
    bool is_answered, is_mapped;
} lent_block;

static lent_block *find_lent(const gcoll_shm_pair *pair, uint64_t id) {
    return (lent_block *)(void *)gcoll_map_first(&pair->blocks.lent, id);
}

static void say(gcoll_shm_pair *pair, gcoll_shm_frame kind, const gcoll_block_place *place) {
    const gcoll_flow_frame frame = {
        .kind = (gcoll_flow_kind)kind, .stream = place->id, .total = place->bytes};
    gcoll_shm_flow.control(pair->flow, &frame);
}

/* ---- The owner -------------------------------------------------------------------------------------- */

/* Sends the block's descriptor. False: not now. */
static bool send_descriptor(const gcoll_shm_pair *pair) {
    gcoll_fork_hold(); /* nobody frees it meanwhile */
    const int fd = gcoll_block_descriptor_held(&pair->blocks.asked);
    const bool is_sent = fd >= 0 && gcoll_shm_door_send(pair, GCOLL_SHM_BLOCK, fd) == 0;
    gcoll_fork_release();
    return is_sent;
}

/* Asks the peer to map a block. If its socket is full, the next message of the block tries again. */
static void ask(gcoll_shm_pair *pair, const gcoll_block_place *place) {
    gcoll_shm_blocks *blocks = &pair->blocks;
    if (blocks->asked.id != 0 || blocks->lent.count >= GCOLL_SHM_BLOCKS_MOST)
        return;
    lent_block *lent = calloc(1, sizeof *lent);
    if (!lent)
        return; /* through the ring it goes without */
    lent->place = blocks->asked = *place;
    if (!send_descriptor(pair) || !gcoll_map_add(&blocks->lent, &lent->item, place->id)) {
        blocks->asked.id = 0;
        free(lent);
        return;
    }
    say(pair, GCOLL_SHM_LENDS, place);
}

bool gcoll_shm_is_lent(gcoll_shm_pair *pair, const gcoll_message *message, gcoll_block_place *place) {
    const uint64_t least = pair->shm->map_bytes;
    if (least == 0 || message->bytes < least || !gcoll_block_find(message->data, message->bytes, place))
        return false;
    const lent_block *lent = find_lent(pair, place->id);
    if (!lent)
        ask(pair, place);
    return lent && lent->is_mapped;
}

static void end_lent(gcoll_shm_pair *pair, lent_block *lent) {
    gcoll_map_remove(&pair->blocks.lent, &lent->item);
    free(lent);
}

static void tell_if_freed(void *arg, gcoll_map_item *item) {
    gcoll_shm_pair *pair = arg;
    lent_block *lent = (lent_block *)(void *)item;
    if (!lent->is_answered || gcoll_block_is_alive(&lent->place))
        return;
    if (lent->is_mapped)
        say(pair, GCOLL_SHM_FREED, &lent->place);
    end_lent(pair, lent);
}

void gcoll_shm_tell_freed(gcoll_shm_pair *pair) {
    pair->blocks.freed = gcoll_blocks_freed();
    gcoll_map_visit(&pair->blocks.lent, tell_if_freed, pair);
}

/* ---- The peer --------------------------------------------------------------------------------------- */

gcoll_shm_mapped *gcoll_shm_find_block(const gcoll_shm_pair *pair, uint64_t block) {
    gcoll_shm_mapped *found = (gcoll_shm_mapped *)(void *)gcoll_map_first(&pair->blocks.mapped, block);
    return found && !found->is_freed ? found : NULL;
}

static void unmap(gcoll_shm_pair *pair, gcoll_shm_mapped *block) {
    gcoll_map_remove(&pair->blocks.mapped, &block->item);
    if (!block->is_own)
        munmap((void *)(uintptr_t)block->memory, (size_t)block->bytes);
    free(block);
}

void gcoll_shm_leave_block(gcoll_shm_pair *pair, gcoll_shm_mapped *block) {
    if (--block->uses == 0 && block->is_freed)
        unmap(pair, block);
}

/* Maps a block to read. False: it cannot be, or may not. Forks are held. */
static bool map_held(gcoll_shm_mapped *block, int fd, const void *elsewhere) {
    bool is_whole;
    if (!gcoll_sealed_check(fd, &block->bytes, &is_whole) || !is_whole || block->bytes == 0)
        return false;
    if (elsewhere) {
        block->memory = elsewhere;
        block->is_own = true;
        return true;
    }
    void *memory = mmap(NULL, (size_t)block->bytes, PROT_READ, MAP_SHARED, fd, 0);
    if (memory == MAP_FAILED)
        return false;
    madvise(memory, (size_t)block->bytes, MADV_DONTFORK); /* a child that kept it could only read it */
    block->memory = memory;
    return true;
}

void gcoll_shm_take_block(gcoll_shm_pair *pair, uint64_t block, uint32_t uid, int fd, const void *elsewhere) {
    gcoll_map *mapped = &pair->blocks.mapped;
    /* The peer may stand already, and this rank be about to: its datagram was faster than its last word. */
    if (pair->state == GCOLL_SHM_ENDED || pair->shm->map_bytes == 0 || uid != getuid() || fd < 0 ||
        mapped->count >= GCOLL_SHM_BLOCKS_MOST || gcoll_map_first(mapped, block))
        return; /* the answer will be that it is not mapped */
    gcoll_shm_mapped *made = calloc(1, sizeof *made);
    if (made && map_held(made, fd, elsewhere)) {
        if (gcoll_map_add(mapped, &made->item, block))
            return;
        if (!made->is_own)
            munmap((void *)(uintptr_t)made->memory, (size_t)made->bytes);
    }
    free(made);
}

bool gcoll_shm_put_answer(gcoll_shm_pair *pair) {
    gcoll_ring_head head = {.word = GCOLL_RING_MARK | GCOLL_SHM_TAKES,
                            .stream = pair->blocks.answer,
                            .index = gcoll_shm_find_block(pair, pair->blocks.answer) ? 1 : 0};
    if (!gcoll_shm_put(pair, &head, NULL, NULL))
        return false;
    pair->blocks.answer = 0;
    return true;
}

/* ---- Frames ----------------------------------------------------------------------------------------- */

/* Returns what is wrong; NULL: nothing. */
static const char *on_lends(gcoll_shm_pair *pair, uint64_t id) {
    if (id == 0 || pair->blocks.answer != 0)
        return "a block before the one before it was answered for";
    pair->blocks.answer = id;
    gcoll_shm_door_read(pair->shm);
    gcoll_shm_want_output(pair);
    return NULL;
}

static const char *on_takes(gcoll_shm_pair *pair, uint64_t id, uint32_t answer) {
    if (id == 0 || pair->blocks.asked.id != id || answer > 1)
        return "an answer for a block that was not asked for";
    lent_block *lent = find_lent(pair, id);
    pair->blocks.asked.id = 0;
    lent->is_answered = true;
    lent->is_mapped = answer == 1;
    tell_if_freed(pair, &lent->item);
    return NULL;
}

static const char *on_freed(gcoll_shm_pair *pair, uint64_t id) {
    gcoll_shm_mapped *block = gcoll_shm_find_block(pair, id);
    if (!block)
        return "the end of a block that it has not lent";
    block->is_freed = true;
    if (block->uses == 0)
        unmap(pair, block);
    return NULL;
}

void gcoll_shm_on_block(gcoll_shm_pair *pair, const gcoll_ring_head *head) {
    const uint32_t kind = head->word & GCOLL_RING_KIND;
    const char *wrong = kind == GCOLL_SHM_LENDS   ? on_lends(pair, head->stream)
                        : kind == GCOLL_SHM_TAKES ? on_takes(pair, head->stream, head->index)
                                                  : on_freed(pair, head->stream);
    if (wrong)
        gcoll_session_fail(pair->session, GCOLL_ERR_PROTOCOL, "sent garbage (%s)", wrong);
}

/* ---- The end ---------------------------------------------------------------------------------------- */

static void end_one_lent(void *arg, gcoll_map_item *item) {
    end_lent(arg, (lent_block *)(void *)item);
}

static void unmap_one(void *arg, gcoll_map_item *item) {
    unmap(arg, (gcoll_shm_mapped *)(void *)item);
}

static void forget_one(void *arg, gcoll_map_item *item) {
    ((gcoll_shm_mapped *)(void *)item)->is_own = true;
    unmap_one(arg, item);
}

void gcoll_shm_end_blocks(gcoll_shm_pair *pair, bool unmaps) {
    gcoll_map_visit(&pair->blocks.lent, end_one_lent, pair);
    gcoll_map_visit(&pair->blocks.mapped, unmaps ? unmap_one : forget_one, pair);
    gcoll_map_free(&pair->blocks.lent);
    gcoll_map_free(&pair->blocks.mapped);
}
