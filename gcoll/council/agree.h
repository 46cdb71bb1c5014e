/*
 * gcoll/council/agree.h - one agreement among ranks of which some may fail: a pure state machine.
 *
 * Every rank gives bits, a number and a row of bytes. Every rank that is not left out gets the same accord:
 * the AND of the bits, the minimum of the numbers, the set of the ranks that are gone, and the rows of all
 * others.
 *
 * The leader is the lowest rank that is not gone. It collects the contributions of all ranks that are not
 * gone, proposes an accord, and decides once all of them have accepted it. If it is gone before that, the
 * next rank leads: it collects again, and proposes what a rank has accepted already from the latest leader
 * before it. So an accord that any rank has acted upon is the accord of all. This is Paxos with the ranks as
 * ballots; as it needs every rank that is not gone instead of a majority, a single rank can go on.
 *
 * A rank counts as gone once any rank says so, and for good. Sets of ranks that are gone travel with every
 * message. A rank that comes to think that another is gone tells it so: if that one lives, it is left out.
 *
 * After the decision a rank stays until the leader says that all have decided, or is gone. In the latter case
 * it passes the accord on to all. A rank that gets the accord so passes it on, too, and is settled at once;
 * its PASS also tells a leader that it has decided, as it may be gone from the call when that leader asks. So
 * no rank waits for one that has returned.
 *
 * If only ranks that have failed are said to be gone:
 *   - all ranks that decide do so on the same accord, those that fail afterwards included;
 *   - the accord is made of the contributions of all ranks that are not gone in it, and of no others;
 *   - every rank that lives is settled once all messages are delivered and all failures known.
 * If ranks that live are said to be gone, too:
 *   - two ranks decide differently only if, in the end, each thinks that the other is gone: they are parted.
 * One rank's word alone never makes that, nor do the words of several about the same rank;
 *   - every rank that lives is settled or left out. One that had decided before has the accord of those that
 * leave it out, unless they are parted.
 *
 * The machine has no connection and no clock. Its owner
 *   - delivers messages of each other rank in the order in which they were sent, each once, and holds back
 * those of a later instance until it has begun that. Of a rank that is gone it may drop any;
 *   - says which ranks are gone: by gcoll_agree_lose while an instance runs, else in the set. For a rank that
 * is left out or gives up, it must see to it that the others learn of that;
 *   - takes messages to ranks that are gone. It delivers them as long as there is a connection, and drops
 * them else;
 *   - may end the instance once it is settled, and take no messages until it begins the next.
 *
 * test/council/agree_model_test.cc checks all this.
 */
#ifndef GCOLL_COUNCIL_AGREE_H
#define GCOLL_COUNCIL_AGREE_H

#include "gcoll/base/base.h"

#define GCOLL_AGREE_NONE UINT32_MAX

/* Bytes that a part of the machine owns. */
typedef struct gcoll_agree_bytes {
    uint8_t *data;
    size_t count;
} gcoll_agree_bytes;

/* What the leader knows of a rank. */
typedef struct gcoll_agree_voice {
    bool contributed, accepted, decided;
    uint64_t bits, number;
    gcoll_agree_bytes row;
} gcoll_agree_voice;

typedef struct gcoll_agree {
    uint32_t rank, size;
    uint64_t instance; /* of several agreements of the same ranks, one after the other: from 1 on */
    uint8_t *gone;     /* a bit for each rank; the caller's, shared by all instances */
    bool is_left_out;  /* others have decided that this rank is gone */

    /* The contribution of this rank. */
    uint64_t bits, number;
    gcoll_agree_bytes row;

    uint32_t leader;          /* to which this rank has contributed; only grows */
    uint32_t ballot;          /* the leader whose proposal this rank has accepted last; NONE: none */
    gcoll_agree_bytes accord; /* that proposal; when `decided`, the accord */
    bool decided;
    bool settled;    /* decided, and no other rank needs this one to decide */
    uint32_t teller; /* the rank that will say when all have decided; NONE: nobody will */

    /* If this rank leads: */
    gcoll_agree_voice *voices; /* by rank */
    bool proposed;
    uint32_t best_ballot;   /* the latest leader from whom a contributor had accepted something, */
    gcoll_agree_bytes best; /* and what that was */

    /* Takes a message to a rank; copies the bytes. False: no memory, which makes `failed`. */
    bool (*send)(void *arg, uint32_t to, const uint8_t *bytes, size_t count);
    void *arg;
    bool failed; /* memory ran out: this rank cannot go on */
} gcoll_agree;

static inline size_t gcoll_agree_set_bytes(uint32_t size) {
    return ((size_t)size + 7) / 8;
}
static inline bool gcoll_agree_is_gone(const gcoll_agree *a, uint32_t rank) {
    return a->gone[rank / 8] >> rank % 8 & 1;
}

/* Begins the instance: sends, and may decide. The fields rank, size, instance, gone, send and arg are set,
 * the others zero. Copies the row. False: no memory. */
bool gcoll_agree_begin(gcoll_agree *a, uint64_t bits, uint64_t number, const void *row, size_t row_bytes);
void gcoll_agree_end(gcoll_agree *a);
/* The rank is gone. Only between begin and end. */
void gcoll_agree_lose(gcoll_agree *a, uint32_t rank);
/* A message of this instance, or of an earlier one, came from the rank. Returns NULL, or what is wrong with
 * it: "a broken proposal". */
const char *gcoll_agree_take(gcoll_agree *a, uint32_t from, const uint8_t *bytes, size_t count);
/* The instance that a message belongs to; 0 if it is too short to be one. */
uint64_t gcoll_agree_instance_of(const uint8_t *bytes, size_t count);
/* Calls fn for each rank without whom this one cannot go on. */
void gcoll_agree_each_waited(const gcoll_agree *a, void (*fn)(void *arg, uint32_t rank), void *arg);

/* ---- Accords -------------------------------------------------------------------------------- */

uint64_t gcoll_accord_bits(const gcoll_agree_bytes *accord);
uint64_t gcoll_accord_number(const gcoll_agree_bytes *accord);
bool gcoll_accord_is_gone(const gcoll_agree_bytes *accord, uint32_t rank);
/* Whether the same ranks are gone in two accords of ranks of that number. */
bool gcoll_accord_have_same_gone(const gcoll_agree_bytes *a, const gcoll_agree_bytes *b, uint32_t size);
/* The row of a rank; NULL: it is gone. */
const uint8_t *gcoll_accord_row(const gcoll_agree_bytes *accord, uint32_t size, uint32_t rank, size_t *bytes);

#endif
