/* transport/shm/blocks.h - memory of gcoll_memory_alloc that the peer maps (blocks.c), and messages that the
 * receiver reads where they lie, in such memory or in any other (pull.c). For shm.h. */
#ifndef GCOLL_SHM_BLOCKS_H
#define GCOLL_SHM_BLOCKS_H

#include "gcoll/base/block.h"
#include "gcoll/base/map.h"
#include "transport/flow/flow.h"
#include "transport/queue.h"
#include "transport/shm/ring.h"

/* A message from this size on is read where it lies, if the peer has that memory mapped. Below, the two ranks
 * wait for each other longer than the copies take. */
#define GCOLL_SHM_MAP_BYTES (UINT64_C(256) << 10)
/* The same of messages in memory that is not mapped. Below, the ring copies twice in less time than the
 * kernel takes to be asked. */
#define GCOLL_SHM_PULL_BYTES (UINT64_C(64) << 10)
/* Read at a time; what the receiver reduces stays in its cache meanwhile. */
#define GCOLL_SHM_PIECE_BYTES (UINT64_C(128) << 10)
/* Most blocks of a peer that are mapped at a time. Messages of others are copied through the ring. */
#define GCOLL_SHM_BLOCKS_MOST 1024U

typedef struct gcoll_shm_pair gcoll_shm_pair;

/* Where a message lies: so many bytes behind the beginning of a block, or, `block` being 0, at this address
 * of the sender's. */
typedef struct gcoll_shm_reference {
    uint64_t block, offset;
} gcoll_shm_reference;

/* A block of the peer's that this rank has mapped. */
typedef struct gcoll_shm_mapped {
    gcoll_map_item item; /* the first member; the hash is the block's identity, which the peer has chosen */
    const uint8_t *memory;
    uint64_t bytes;
    uint32_t uses; /* messages that are being read from it */
    bool is_freed; /* there: it goes when `uses` is 0 */
    bool is_own;   /* it is this process's, and stays mapped when the peer frees it */
} gcoll_shm_mapped;

/* What two ranks know of each other's blocks. */
typedef struct gcoll_shm_blocks {
    gcoll_map lent;          /* this process's blocks, by identity, and what the peer said of them */
    gcoll_block_place asked; /* the one that the peer has not answered for; id 0: none */
    gcoll_map mapped;        /* the peer's */
    uint64_t answer;         /* the peer's block that this rank has to answer for; 0: none */
    uint64_t freed;          /* of gcoll_blocks_freed, when `lent` was last looked through */
} gcoll_shm_blocks;

/* A message that this rank reads from the peer's memory. */
typedef struct gcoll_shm_pull {
    struct gcoll_shm_pull *next;
    gcoll_slot *slot;
    gcoll_shm_mapped *block; /* NULL: in memory that is not mapped, at `address` there */
    const uint8_t *from;
    uint64_t address;
    bool is_asked; /* the read failed: the peer has been asked to write the rest */
} gcoll_shm_pull;

/* Messages that are read where they lie, in both directions. */
typedef struct gcoll_shm_pulls {
    gcoll_message_queue lent; /* sends that the peer has not read yet, in order */
    uint64_t lent_count;      /* as many have been, and are */
    uint64_t lent_bytes;      /* of these */
    uint64_t returned;        /* of those, the peer has read */
    uint64_t seen_bytes;      /* bytes that the peer had read when this rank last looked */
    gcoll_shm_pull *first, *last;
    uint64_t bytes, count; /* read from the peer's memory, and messages read whole */
} gcoll_shm_pulls;

/* ---- blocks.c --------------------------------------------------------------------------------------- */

/* Whether a message may be read where it lies: the peer has mapped its block. If not, the peer may be asked
 * to, for later messages. */
bool gcoll_shm_is_lent(gcoll_shm_pair *pair, const gcoll_message *message, gcoll_block_place *place);
/* A descriptor came for this pair. uid, fd: as in gcoll_shm_on_datagram; elsewhere: where this process has
 * the block itself, with GCOLL_SHM_ONE_MAPPING. */
void gcoll_shm_take_block(gcoll_shm_pair *pair, uint64_t block, uint32_t uid, int fd, const void *elsewhere);
/* LENDS, TAKES or FREED came. */
void gcoll_shm_on_block(gcoll_shm_pair *pair, const gcoll_ring_head *head);
/* Writes the answer to LENDS. */
bool gcoll_shm_put_answer(gcoll_shm_pair *pair);
/* Tells the peer which blocks were freed since it was last told. */
void gcoll_shm_tell_freed(gcoll_shm_pair *pair);
/* NULL: the peer has lent no such block. */
gcoll_shm_mapped *gcoll_shm_find_block(const gcoll_shm_pair *pair, uint64_t block);
/* A message has been read from it, or will not be. */
void gcoll_shm_leave_block(gcoll_shm_pair *pair, gcoll_shm_mapped *block);
/* Forgets all blocks. unmaps: false in a forked child, which has none of them mapped. */
void gcoll_shm_end_blocks(gcoll_shm_pair *pair, bool unmaps);

/* ---- pull.c ----------------------------------------------------------------------------------------- */

/* Whether the next message is to be read where it lies, and where that is. */
bool gcoll_shm_is_referred(gcoll_shm_pair *pair, const gcoll_message *message, gcoll_shm_reference *to);
/* Writes a reference to the first message in place of the message. */
bool gcoll_shm_put_reference(gcoll_shm_pair *pair, const gcoll_shm_reference *to);
/* A reference came. */
void gcoll_shm_on_reference(gcoll_shm_pair *pair, const gcoll_flow_frame *frame, const uint8_t *payload);
/* Reads some bytes of messages that lie in the peer's memory. Returns whether there were any. */
bool gcoll_shm_pull_some(gcoll_shm_pair *pair);
/* The peer could not read a message and asks for its rest. */
void gcoll_shm_on_unread(gcoll_shm_pair *pair, const gcoll_ring_head *head);
/* A fragment for `slot` came, which may be the rest that this rank has asked for. */
void gcoll_shm_on_unread_part(gcoll_shm_pair *pair, const gcoll_slot *slot);
/* Ends the sends that the peer has read. Returns whether there were any. */
bool gcoll_shm_end_lent(gcoll_shm_pair *pair);
/* Forgets all messages. The peer will not use what it reads of this rank's from now on. */
void gcoll_shm_withdraw(gcoll_shm_pair *pair);

#endif
