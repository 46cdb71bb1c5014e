/*
 * gcoll/base/block.h - memory of gcoll_memory_alloc: which block an address lies in, and its descriptor.
 *
 * A block has an identity that no other block of the process ever has. So whoever remembers a block is not
 * misled by another one at the same address.
 */
#ifndef GCOLL_BASE_BLOCK_H
#define GCOLL_BASE_BLOCK_H

#include "gcoll/base/base.h"

/* Where some bytes lie. */
typedef struct gcoll_block_place {
    uint64_t id;    /* of the block; not 0 */
    uint8_t *start; /* of the block */
    uint64_t bytes; /* of the block */
    uint64_t offset;
} gcoll_block_place;

/* Whether these bytes lie in one block. Costs a load while the process has no block, and else a lock and a
 * search among all blocks. */
bool gcoll_block_find(const void *data, uint64_t bytes, gcoll_block_place *place);
/* Whether a block that was found once is still there. */
bool gcoll_block_is_alive(const gcoll_block_place *place);
/* Its descriptor, or -1 if it was freed. Valid while forks are held (gcoll/base/fork.h). */
int gcoll_block_descriptor_held(const gcoll_block_place *place);
/* Counts the blocks that were freed. */
uint64_t gcoll_blocks_freed(void);

#endif
