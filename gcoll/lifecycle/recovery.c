/*
 * gcoll/lifecycle/recovery.c - contexts that can recover: their councils meet at creation, and the ranks that
 * are left of a broken one make a new one (gcoll/recovery.h).
 *
 * The new context needs three agreements. By the first, the ranks agree on who is left, and on a generation:
 * that of the lowest. Each opens its ends under this generation. By the second, they give each other their
 * records. If it finds that more ranks are gone, it all begins again. A rank whose end does not open still
 * takes part, with the reason in place of its record. The third, on the new context's council, connects that.
 * So a rank that is stopped before it uses the new context, and left out, is told by what has come meanwhile.
 * Without a connection, it would find nobody and go on by itself.
 */
#include "gcoll/recovery.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gcoll/council/council.h"
#include "gcoll/lifecycle/child.h"

#define GIVE_UP_MS 100 /* for a context that was made in vain to end */

/* ---- Creation ------------------------------------------------------------------------------- */

/* Gives the addresses of all councils to all ranks, over the context itself. */
gcoll_status gcoll_recovery_meet(gcoll_context *context) {
    char address[GCOLL_ADDRESS_MAX] = "";
    gcoll_texts texts = {0};
    gcoll_status status = gcoll_council_open(context, address);
    if (context->size == 1)
        return status;
    if (status != GCOLL_OK) {
        char reason[GCOLL_REASON_BYTES];
        snprintf(reason, sizeof reason, "%.*s", (int)sizeof reason - 1, gcoll_last_error());
        gcoll_break(context, status, context->rank, "rank %u cannot open its council: %s", context->rank,
                    reason);
        gcoll_context_settle(context);
        return gcoll_error(status, "%s", context->health.cause.text);
    }
    status = gcoll_texts_share(context, address, GCOLL_ADDRESS_MAX, &texts);
    for (uint32_t rank = 0; status == GCOLL_OK && rank < context->size; rank++)
        if (rank != context->rank)
            status = gcoll_council_know(context, rank, gcoll_texts_of(&texts, rank));
    free(texts.table);
    if (status == GCOLL_OK)
        return status;
    char text[1024]; /* may be that of a rank that does not meet, but goes on to a collective of its own */
    snprintf(text, sizeof text, "%s", gcoll_last_error());
    return gcoll_error(status, "%s (when the ranks met for options.recovery, which must be the same on all)",
                       text);
}

/* ---- The context of the ranks that are left ------------------------------------------------- */

void gcoll_shrink_options_init(gcoll_shrink_options *options) {
    memset(options, 0, sizeof *options);
    options->struct_size = sizeof *options;
}

/* The first agreement: who is left, and the generation. */
static gcoll_status agree_on_members(gcoll_child *c, gcoll_motion motion, gcoll_agree_bytes *accord) {
    const gcoll_context *parent = c->parent;
    char generation[GCOLL_GENERATION_TEXT];
    c->ranks = calloc(parent->size, sizeof *c->ranks); /* now: the others wait for a rank that fails later */
    if (!c->ranks)
        return gcoll_error(GCOLL_ERR_NO_MEMORY, "no memory for %u ranks", parent->size);
    gcoll_status status = gcoll_generation_make(generation);
    if (status != GCOLL_OK)
        return status;
    motion.doing = "calls gcoll_context_shrink";
    motion.row = generation;
    motion.row_bytes = sizeof generation;
    status = gcoll_council_agree(c->parent, &motion, accord);
    if (status != GCOLL_OK)
        return status;
    for (uint32_t rank = 0; rank < parent->size; rank++) {
        if (gcoll_accord_is_gone(accord, rank))
            continue;
        if (rank == parent->rank)
            c->rank = c->size;
        c->ranks[c->size++] = rank;
    }
    size_t bytes = 0;
    const uint8_t *row = gcoll_council_row(parent, accord, c->ranks[0], &bytes);
    if (bytes != sizeof c->generation || row[bytes - 1] != '\0')
        return gcoll_error(GCOLL_ERR_PROTOCOL, "rank %u brought a broken generation", c->ranks[0]);
    memcpy(c->generation, row, bytes);
    return GCOLL_OK;
}

size_t gcoll_child_open_ends(gcoll_child *c, char row[GCOLL_ENDS_MAX]) {
    char address[GCOLL_ADDRESS_MAX] = "";
    gcoll_status status = gcoll_child_allocate(c);
    row[0] = '\0';
    if (status == GCOLL_OK) {
        gcoll_child_offer(c, row);
        status = c->opened;
    }
    if (status == GCOLL_OK && row[0] != '!')
        status = gcoll_council_open(c->context, address);
    if (status != GCOLL_OK && row[0] != '!') {
        c->opened = status;
        snprintf(c->reason, sizeof c->reason, "%.*s", (int)sizeof c->reason - 1, gcoll_last_error());
        snprintf(row, GCOLL_ENDS_MAX, "!%s", c->reason);
    }
    const size_t length = strlen(row) + 1;
    if (row[0] == '!')
        return length;
    memcpy(row + length, address, strlen(address) + 1);
    return length + strlen(address) + 1;
}

/* Takes the ends of another rank, which may be broken. */
static gcoll_status take_ends(const gcoll_child *c, uint32_t rank, const gcoll_agree_bytes *accord) {
    size_t bytes = 0;
    const uint8_t *given = gcoll_council_row(c->parent, accord, c->ranks[rank], &bytes);
    char row[GCOLL_ENDS_MAX];
    if (bytes == 0 || bytes > sizeof row || given[bytes - 1] != '\0')
        return gcoll_error(GCOLL_ERR_PROTOCOL, "rank %u brought a broken record", c->ranks[rank]);
    memcpy(row, given, bytes);
    const size_t length = strlen(row) + 1;
    gcoll_status status = gcoll_child_take_record(c, rank, row);
    if (status != GCOLL_OK || rank == c->rank)
        return status;
    return length < bytes ? gcoll_council_know(c->context, rank, (const char *)given + length)
                          : gcoll_error(GCOLL_ERR_PROTOCOL, "rank %u has no council", c->ranks[rank]);
}

static void give_up(gcoll_child *c) {
    char text[1024];
    snprintf(text, sizeof text, "%s", gcoll_last_error());
    if (c->context) /* soon: the others may be in the next agreement */
        gcoll_context_end(c->context, gcoll_now_ms() + GIVE_UP_MS, 0);
    free(c->ranks);
    *c = (gcoll_child){.parent = c->parent, .doing = c->doing};
    gcoll_error(GCOLL_ERR_STATE, "%s", text); /* the caller has the status */
}

/* One try. *again: more ranks are gone. */
static gcoll_status try_once(gcoll_child *c, gcoll_motion motion, bool *again) {
    gcoll_agree_bytes members = {0}, ends = {0};
    char row[GCOLL_ENDS_MAX];
    gcoll_status status = agree_on_members(c, motion, &members);
    *again = false;
    if (status == GCOLL_OK) {
        motion.doing = "calls gcoll_context_shrink (addresses)";
        motion.row = row;
        motion.row_bytes = gcoll_child_open_ends(c, row);
        motion.child = c->context;
        status = gcoll_council_agree(c->parent, &motion, &ends);
    }
    if (status == GCOLL_OK)
        *again = !gcoll_accord_have_same_gone(&members, &ends, c->parent->size);
    if (status == GCOLL_OK && !*again && c->size > 1 && c->opened != GCOLL_OK)
        status = take_ends(c, c->rank, &ends); /* gives the reason, as on the other ranks */
    for (uint32_t rank = 0; status == GCOLL_OK && !*again && c->size > 1 && rank < c->size; rank++)
        status = take_ends(c, rank, &ends);
    if (status == GCOLL_OK && !*again && c->opened != GCOLL_OK)
        status = gcoll_error(c->opened, "%s", c->reason);
    free(members.data);
    free(ends.data);
    return status;
}

/* The third agreement. */
static gcoll_status meet(gcoll_context *context, int64_t timeout_ms, gcoll_agree_bytes *accord) {
    const gcoll_motion motion = {
        .doing = "calls gcoll_context_shrink (entry)", .bits = UINT64_MAX, .timeout_ms = timeout_ms};
    return gcoll_council_agree(context, &motion, accord);
}

/* Breaks the new context if ranks have died since they entered it. */
static gcoll_status heed_gone(gcoll_context *context, const gcoll_agree_bytes *accord) {
    const gcoll_status status = gcoll_enter(context);
    if (status != GCOLL_OK)
        return status;
    gcoll_council_break_for_gone(context, accord);
    gcoll_leave(context);
    return GCOLL_OK;
}

static gcoll_status shrink(gcoll_context *context, const gcoll_shrink_options *o, gcoll_context **out) {
    gcoll_child c = {.parent = context, .doing = "shrink the context"};
    const gcoll_motion motion = {
        .bits = UINT64_MAX, .timeout_ms = o->timeout_ms, .majority = o->majority != 0};
    gcoll_context_settle(context); /* the others may not know yet that it is broken */
    gcoll_agree_bytes accord = {0};
    gcoll_status status;
    bool again = false;
    do {
        if (again)
            give_up(&c);
        status = try_once(&c, motion, &again);
    } while (status == GCOLL_OK && again);
    if (status == GCOLL_OK)
        status = meet(c.context, o->timeout_ms, &accord);
    if (status == GCOLL_OK)
        status = gcoll_child_complete(&c);
    if (status == GCOLL_OK)
        status = heed_gone(c.context, &accord);
    free(accord.data);
    if (status != GCOLL_OK) {
        give_up(&c);
        return status;
    }
    free(c.ranks);
    *out = c.context;
    return GCOLL_OK;
}

gcoll_status gcoll_context_shrink(gcoll_context *context, const gcoll_shrink_options *options,
                                  gcoll_context **out) {
    if (!context || !out)
        return gcoll_error(GCOLL_ERR_INVALID, "%s: is NULL", context ? "shrunk" : "context");
    gcoll_shrink_options known;
    gcoll_shrink_options_init(&known);
    gcoll_status status = gcoll_options_read(&known, sizeof known, sizeof known, options);
    if (status == GCOLL_OK)
        status = gcoll_timeout_check("options.timeout_ms", known.timeout_ms);
    if (status == GCOLL_OK && known.majority != 0 && known.majority != 1)
        status =
            gcoll_error(GCOLL_ERR_INVALID, "options.majority: is %d; allowed are 0 and 1", known.majority);
    if (status == GCOLL_OK)
        status = gcoll_enter(context);
    if (status != GCOLL_OK)
        return status;
    status = shrink(context, &known, out);
    gcoll_leave(context);
    return status;
}
