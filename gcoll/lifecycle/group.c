/*
 * gcoll/lifecycle/group.c - contexts of all or some ranks of another one, over its connections and without a
 * store: duplicates, splits, and groups that only their members create.
 *
 * Each of the three needs two exchanges over the parent. In the first one the ranks agree on the members of
 * each new context, and the lowest rank of the new context draws its generation. Then each rank opens an
 * endpoint under this generation. In the second exchange members give each other their records. A rank whose
 * endpoint does not open still takes part, with the reason in place of its record.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gcoll/base/bytes.h"
#include "gcoll/lifecycle/child.h"
#include "gcoll/run/run.h"

/* Each rank's data in the first exchange of a split: color, key and a generation. */
#define WISH_BYTES (2 * sizeof(uint32_t) + GCOLL_GENERATION_TEXT - 1)

/* Breaks the parent if this rank cannot take part for lack of memory: the others would wait forever, and the
 * ranks' next operations would not match. The last error becomes the cause. */
static gcoll_status fall_out(const gcoll_child *c, gcoll_status status) {
    gcoll_break(c->parent, status, c->parent->rank, "rank %u cannot %s: %s", c->parent->rank, c->doing,
                gcoll_last_error());
    const gcoll_status cause = gcoll_context_settle(c->parent);
    return cause != GCOLL_OK ? cause : status;
}

static gcoll_status no_memory(const gcoll_child *c) {
    gcoll_error(GCOLL_ERR_NO_MEMORY, "no memory for the addresses of %u ranks", c->parent->size);
    return fall_out(c, GCOLL_ERR_NO_MEMORY);
}

/* Ends the creation: gives the new context, or frees its parts. If a rank runs out of memory or descriptors
 * after the others were through with the exchanges, that breaks the parent. */
static gcoll_status conclude(gcoll_child *c, gcoll_status status, gcoll_context **out) {
    if (status == GCOLL_OK && c->opened != GCOLL_OK)
        status = gcoll_error(c->opened, "%s", c->reason);
    if (status == GCOLL_OK && c->size > 0)
        status = gcoll_child_complete(c);
    free(c->ranks);
    if (status == GCOLL_OK) {
        if (c->context && c->parent->guard.family)
            gcoll_family_join(c->context, c->parent->guard.family);
        *out = c->context;
        return GCOLL_OK;
    }
    char text[1024];
    snprintf(text, sizeof text, "%s", gcoll_last_error());
    gcoll_context_destroy(c->context);
    gcoll_error(status, "%s", text);
    return status == GCOLL_ERR_NO_MEMORY && !c->parent->health.broken ? fall_out(c, status) : status;
}

/* ---- Duplicates and splits ---------------------------------------------------------------- */

/* A rank that wants to be in the same context. */
struct candidate {
    int32_t key;
    uint32_t rank; /* of the parent */
};

static int by_key(const void *a, const void *b) {
    const struct candidate *x = a, *y = b;
    if (x->key != y->key)
        return x->key < y->key ? -1 : 1;
    return (x->rank > y->rank) - (x->rank < y->rank);
}

static int32_t color_of(const uint8_t *wish) {
    return (int32_t)(uint32_t)gcoll_get_le(wish, sizeof(uint32_t));
}

static int32_t key_of(const uint8_t *wish) {
    return (int32_t)(uint32_t)gcoll_get_le(wish + sizeof(uint32_t), sizeof(uint32_t));
}

/* Finds the ranks of this rank's color in their new order, and the generation of the first one. */
static gcoll_status choose(gcoll_child *c, const uint8_t *wishes, int32_t color) {
    struct candidate *found = calloc(c->parent->size, sizeof *found);
    c->ranks = calloc(c->parent->size, sizeof *c->ranks);
    if (!found || !c->ranks) {
        free(found);
        return no_memory(c);
    }
    for (uint32_t rank = 0; rank < c->parent->size; rank++)
        if (color_of(wishes + rank * WISH_BYTES) == color)
            found[c->size++] = (struct candidate){key_of(wishes + rank * WISH_BYTES), rank};
    qsort(found, c->size, sizeof *found, by_key);
    for (uint32_t rank = 0; rank < c->size; rank++) {
        c->ranks[rank] = found[rank].rank;
        if (found[rank].rank == c->parent->rank)
            c->rank = rank;
    }
    memcpy(c->generation, wishes + c->ranks[0] * WISH_BYTES + 2 * sizeof(uint32_t),
           GCOLL_GENERATION_TEXT - 1);
    free(found);
    return GCOLL_OK;
}

/* The first exchange: the color and key of each rank. */
static gcoll_status hear_wishes(gcoll_child *c, int32_t color, int32_t key) {
    uint8_t mine[WISH_BYTES];
    char generation[GCOLL_GENERATION_TEXT] = "";
    gcoll_status status = gcoll_generation_make(generation);
    if (status != GCOLL_OK)
        return fall_out(c, status);
    gcoll_put_le(mine, (uint32_t)color, sizeof(uint32_t));
    gcoll_put_le(mine + sizeof(uint32_t), (uint32_t)key, sizeof(uint32_t));
    memcpy(mine + 2 * sizeof(uint32_t), generation, GCOLL_GENERATION_TEXT - 1);
    uint8_t *wishes = calloc(c->parent->size, WISH_BYTES);
    if (!wishes)
        return no_memory(c);
    status = gcoll_bytes_share(c->parent, mine, wishes, WISH_BYTES);
    if (status == GCOLL_OK && color != GCOLL_COLOR_NONE)
        status = choose(c, wishes, color);
    free(wishes);
    return status;
}

/* The second exchange: every rank gets the records of all, and keeps those of its members. */
static gcoll_status share_records(gcoll_child *c, const char *record) {
    gcoll_texts texts = {0};
    if (c->parent->size == 1)
        return GCOLL_OK;
    gcoll_status status = gcoll_texts_share(c->parent, record, GCOLL_RECORD_MAX, &texts);
    for (uint32_t rank = 0; status == GCOLL_OK && c->size > 1 && rank < c->size; rank++)
        status = gcoll_child_take_record(c, rank, gcoll_texts_of(&texts, c->ranks[rank]));
    free(texts.table);
    return status;
}

static gcoll_status split(gcoll_child *c, int32_t color, int32_t key, gcoll_context **out) {
    char record[GCOLL_RECORD_MAX] = "";
    gcoll_status status = gcoll_context_settle(c->parent);
    if (status == GCOLL_OK)
        status = hear_wishes(c, color, key);
    if (status == GCOLL_OK && c->size > 0) {
        status = gcoll_child_allocate(c);
        if (status != GCOLL_OK)
            status = fall_out(c, status);
        else
            gcoll_child_offer(c, record);
    }
    if (status == GCOLL_OK)
        status = share_records(c, record);
    return conclude(c, status, out);
}

/* The body of the public calls. */
static gcoll_status split_call(gcoll_context *parent, const char *doing, int32_t color, int32_t key,
                               gcoll_context **out) {
    if (!parent || !out)
        return gcoll_error(GCOLL_ERR_INVALID, "%s: is NULL", parent ? "context" : "parent");
    if (color < 0 && color != GCOLL_COLOR_NONE)
        return gcoll_error(GCOLL_ERR_INVALID,
                           "color: is %d; allowed are 0 and more, and GCOLL_COLOR_NONE (%d)", color,
                           GCOLL_COLOR_NONE);
    gcoll_status status = gcoll_enter(parent);
    if (status != GCOLL_OK)
        return status;
    status = split(&(gcoll_child){.parent = parent, .doing = doing}, color, key, out);
    gcoll_leave(parent);
    return status;
}

gcoll_status gcoll_context_duplicate(gcoll_context *parent, gcoll_context **context) {
    return split_call(parent, "duplicate the context", 0, 0, context);
}

gcoll_status gcoll_context_split(gcoll_context *parent, int32_t color, int32_t key, gcoll_context **context) {
    return split_call(parent, "split the context", color, key, context);
}

/* ---- Groups that their members create ------------------------------------------------------ */

/* A member: its rank of the parent, and its place in the caller's list, which is its rank of the child. */
struct member {
    uint32_t rank, index;
};

static int by_rank(const void *a, const void *b) {
    const uint32_t x = ((const struct member *)a)->rank, y = ((const struct member *)b)->rank;
    return (x > y) - (x < y);
}

/* The list in increasing order. Errors name the entry. */
static gcoll_status sort_members(const gcoll_context *parent, const uint32_t *ranks, uint32_t count,
                                 struct member *members) {
    bool found = false;
    for (uint32_t i = 0; i < count; i++) {
        if (ranks[i] >= parent->size)
            return gcoll_error(GCOLL_ERR_INVALID, "ranks[%u]: is %u; allowed are 0 to %u", i, ranks[i],
                               parent->size - 1);
        members[i] = (struct member){ranks[i], i};
        found = found || ranks[i] == parent->rank;
    }
    qsort(members, count, sizeof *members, by_rank);
    for (uint32_t i = 1; i < count; i++)
        if (members[i].rank == members[i - 1].rank) {
            const uint32_t one = members[i - 1].index, two = members[i].index;
            return gcoll_error(GCOLL_ERR_INVALID, "ranks[%u]: is %u, as ranks[%u]; allowed is each rank once",
                               one > two ? one : two, members[i].rank, one > two ? two : one);
        }
    if (!found)
        return gcoll_error(GCOLL_ERR_INVALID,
                           "ranks: %u entries without this rank, %u; only members create a group", count,
                           parent->rank);
    return GCOLL_OK;
}

/* Takes the records as gcoll_members_gather gives them: from peers, so they are checked. */
static gcoll_status take_blocks(gcoll_child *c, const struct member *members, uint8_t *all, uint64_t bytes) {
    uint8_t *at = all, *end = all + bytes;
    uint32_t taken = 0;
    bool *seen = calloc(c->size, sizeof *seen);
    gcoll_status status = seen ? GCOLL_OK : no_memory(c);
    while (status == GCOLL_OK && end - at >= 2 * (int64_t)sizeof(uint32_t)) {
        const uint64_t place = gcoll_get_le(at, sizeof(uint32_t));
        const uint64_t size = gcoll_get_le(at + sizeof(uint32_t), sizeof(uint32_t));
        at += 2 * sizeof(uint32_t);
        if (place >= c->size || seen[place] || size == 0 || size > (uint64_t)(end - at) ||
            at[size - 1] != '\0')
            break;
        seen[place] = true;
        taken++;
        status = gcoll_child_take_record(c, members[place].index, (char *)at);
        at += size;
    }
    free(seen);
    if (status == GCOLL_OK && taken < c->size)
        status = fall_out(c, gcoll_error(GCOLL_ERR_PROTOCOL, "the records of its members make no sense"));
    return status;
}

static gcoll_status meet_members(gcoll_child *c, const gcoll_members *members, const struct member *sorted) {
    char record[GCOLL_RECORD_MAX];
    uint8_t *all = NULL;
    uint64_t bytes = 0;
    gcoll_status status = members->place == 0 ? gcoll_generation_make(c->generation) : GCOLL_OK;
    if (status != GCOLL_OK)
        return fall_out(c, status);
    status = gcoll_members_agree(c->parent, members, c->generation, sizeof c->generation);
    if (status != GCOLL_OK)
        return status;
    status = gcoll_child_allocate(c);
    if (status != GCOLL_OK)
        return fall_out(c, status);
    gcoll_child_offer(c, record);
    status = gcoll_members_gather(c->parent, members, record, (uint32_t)strlen(record) + 1, GCOLL_RECORD_MAX,
                                  &all, &bytes);
    if (status == GCOLL_OK)
        status = take_blocks(c, sorted, all, bytes);
    free(all);
    return status;
}

static gcoll_status create_group(gcoll_child *c, const uint32_t *ranks, uint32_t tag, struct member *sorted,
                                 uint32_t *numbers, gcoll_context **out) {
    gcoll_members members = {.ranks = ranks, .sorted = numbers, .count = c->size, .tag = tag};
    for (uint32_t i = 0; i < c->size; i++) {
        numbers[i] = sorted[i].rank;
        c->ranks[i] = ranks[i];
        if (sorted[i].rank == c->parent->rank) {
            members.place = i;
            c->rank = sorted[i].index;
        }
    }
    gcoll_status status = gcoll_context_settle(c->parent);
    if (status == GCOLL_OK && c->size > 1)
        status = meet_members(c, &members, sorted);
    else if (status == GCOLL_OK) {
        status = gcoll_child_allocate(c);
        if (status != GCOLL_OK)
            status = fall_out(c, status);
    }
    return conclude(c, status, out);
}

gcoll_status gcoll_context_create_group(gcoll_context *parent, const uint32_t *ranks, uint32_t count,
                                        uint32_t tag, gcoll_context **out) {
    if (!parent || !ranks || !out)
        return gcoll_error(GCOLL_ERR_INVALID, "%s: is NULL",
                           !parent ? "parent"
                           : ranks ? "context"
                                   : "ranks");
    if (count == 0 || count > parent->size)
        return gcoll_error(GCOLL_ERR_INVALID, "count: is %u; allowed are 1 to %u", count, parent->size);
    gcoll_status status = gcoll_enter(parent);
    if (status != GCOLL_OK)
        return status;
    gcoll_child c = {
        .parent = parent, .doing = "create a group", .size = count, .ranks = calloc(count, sizeof *c.ranks)};
    struct member *sorted = calloc(count, sizeof *sorted);
    uint32_t *numbers = calloc(count, sizeof *numbers);
    status = c.ranks && sorted && numbers ? sort_members(parent, ranks, count, sorted) : no_memory(&c);
    if (status == GCOLL_OK)
        status = create_group(&c, ranks, tag, sorted, numbers, out);
    else
        free(c.ranks);
    free(numbers);
    free(sorted);
    gcoll_leave(parent);
    return status;
}
