/*
 * transport/match.h - matching: a table of messages by (stream, index), one for each peer and direction.
 *
 * A slot holds all that one side knows about one message: a posted gcoll_message, bytes that arrived before
 * it, a promise of the peer. The transport gives its fields a meaning; the table only finds, adds and
 * removes. Slots do not move. They come from a free list, so steady traffic allocates nothing.
 */
#ifndef GCOLL_MATCH_H
#define GCOLL_MATCH_H

#include "gcoll/base/map.h"
#include "transport/transport.h"

/* A message up to this size that comes before its receive is held in the slot itself. */
#define GCOLL_SLOT_NEAR_BYTES 64

typedef struct gcoll_slot gcoll_slot;

/* The place of an outgoing slot in a list of untold messages. */
typedef struct gcoll_untold_links {
    gcoll_slot *newer, *older;
} gcoll_untold_links;

struct gcoll_slot {
    gcoll_map_item item; /* of the table; the first member */
    uint64_t stream;
    uint32_t index;
    uint32_t flags;
    gcoll_message *message;
    uint8_t *held; /* bytes of a message that is not posted yet; given back with the slot */
    uint64_t total;
    uint64_t received;
    gcoll_slot *newer; /* of a gcoll_slot_list, or of the table's free slots */
    gcoll_slot *older;
    uint8_t carry[GCOLL_GRANULE_MAX];
    uint32_t carried;
    union {                                  /* not zeroed */
        uint8_t near[GCOLL_SLOT_NEAR_BYTES]; /* of an incoming message */
        gcoll_untold_links untold;           /* of an outgoing one */
    };
};

/* Makes slot->held point to memory for `bytes` bytes; false if there is none. */
bool gcoll_slot_hold(gcoll_slot *slot, uint64_t bytes);
/* Gives that memory back, if any. */
void gcoll_slot_let_go(gcoll_slot *slot);

/* A queue of slots, oldest first. Zeroed is empty. A slot is in at most one, beside a list of untold ones. */
typedef struct gcoll_slot_list {
    gcoll_slot *oldest;
    gcoll_slot *newest;
} gcoll_slot_list;

void gcoll_slot_append(gcoll_slot_list *list, gcoll_slot *slot);
void gcoll_slot_unlink(gcoll_slot_list *list, gcoll_slot *slot);

/* Slots of outgoing messages that the peer should be told of and may not be yet. They may be in another list
 * as well: the order in which messages are told of is not that in which they may be sent. */
void gcoll_untold_append(gcoll_slot_list *list, gcoll_slot *slot);
void gcoll_untold_unlink(gcoll_slot_list *list, gcoll_slot *slot);

/* Zeroed is empty and owns nothing. */
typedef struct gcoll_match {
    gcoll_map slots;
    uint64_t secrets[3]; /* of the hash; made with the first slot */
    gcoll_slot *spare;
    void *chunks;
} gcoll_match;

/* NULL if there is none. */
gcoll_slot *gcoll_match_find(const gcoll_match *match, uint64_t stream, uint32_t index);
/* A zeroed slot for a key that the table does not hold; NULL if memory (or the first time, randomness) ran
 * out. */
gcoll_slot *gcoll_match_add(gcoll_match *match, uint64_t stream, uint32_t index);
/* Gives slot->held back too. The slot must be in no list. */
void gcoll_match_remove(gcoll_match *match, gcoll_slot *slot);
/* Calls visit for each slot; visit may remove the slot it is given and no other. */
void gcoll_match_visit(gcoll_match *match, void (*visit)(void *arg, gcoll_slot *slot), void *arg);
/* Frees everything; the table is empty afterwards. */
void gcoll_match_clear(gcoll_match *match);

#endif
