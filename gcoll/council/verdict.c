/*
 * gcoll/council/verdict.c - options.uniform: a call succeeds on all ranks that are left, or fails on all.
 *
 * When its own part of a call has ended, each rank says by one agreement whether it succeeded. A rank that
 * failed adds its error, which the others report. A context on which a call has failed is broken, also on
 * ranks whose own part succeeded: so no rank makes another call on it that others would not make.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gcoll/base/bytes.h"
#include "gcoll/council/council.h"
#include "gcoll/run/run.h"

/* The row of a rank that failed, with its cause: status and culprit, 32 bits each, little-endian, and the
 * text. A rank that succeeded has an empty row. */
enum { AT_STATUS = 0, AT_CULPRIT = 4, AT_TEXT = 8 };
#define ROW_BYTES (AT_TEXT + GCOLL_NOTE_TEXT_MAX)
_Static_assert(ROW_BYTES <= GCOLL_ROW_MAX, "it fits");

static size_t make_row(const gcoll_context *context, uint8_t row[ROW_BYTES]) {
    const gcoll_note *cause = &context->health.cause;
    gcoll_put_le(row + AT_STATUS, (uint32_t)cause->status, 4);
    gcoll_put_le(row + AT_CULPRIT, cause->culprit, 4);
    snprintf((char *)row + AT_TEXT, GCOLL_NOTE_TEXT_MAX, "%s", cause->text);
    return AT_TEXT + strlen((const char *)row + AT_TEXT) + 1;
}

/* Breaks the context for the cause of the first rank that failed, and sets the error. That rank may have died
 * during the agreement, and its cause with it. */
static gcoll_status fail(gcoll_context *context, const gcoll_agree_bytes *accord) {
    const uint8_t *row = NULL;
    uint32_t rank = 0;
    size_t bytes = 0;
    for (; rank < context->size; rank++) {
        row = gcoll_council_row(context, accord, rank, &bytes);
        if (row && bytes > AT_TEXT && row[bytes - 1] == '\0')
            break;
    }
    if (rank == context->size) {
        gcoll_break(context, GCOLL_ERR_PEER, GCOLL_NO_RANK,
                    "options.uniform: the call succeeded on rank %u, but failed on a rank that is gone",
                    context->rank);
        gcoll_context_settle(context);
        return gcoll_error(GCOLL_ERR_PEER, "%s", context->health.cause.text);
    }
    gcoll_note note = {.status = (int32_t)gcoll_get_le(row + AT_STATUS, 4),
                       .culprit = (uint32_t)gcoll_get_le(row + AT_CULPRIT, 4)};
    snprintf(note.text, sizeof note.text, "%s", (const char *)row + AT_TEXT);
    gcoll_break_reported(context, &note, rank);
    gcoll_context_settle(context);
    return gcoll_error(GCOLL_ERR_PEER,
                       "options.uniform: the call succeeded on rank %u, but failed on rank %u: %s",
                       context->rank, rank, note.text);
}

static gcoll_status agree(gcoll_context *context, gcoll_status own) {
    uint8_t row[ROW_BYTES];
    gcoll_agree_bytes accord = {0};
    const gcoll_motion motion = {.doing = "makes a call with options.uniform",
                                 .bits = own == GCOLL_OK,
                                 .number = gcoll_runs_completed(context),
                                 .row = row,
                                 .row_bytes = own == GCOLL_OK ? 0 : make_row(context, row)};
    gcoll_status status = gcoll_council_agree(context, &motion, &accord);
    if (status != GCOLL_OK) { /* this rank does not know how the call has ended */
        gcoll_break(context, status, status == GCOLL_ERR_MISMATCH ? GCOLL_NO_RANK : context->rank, "%s",
                    gcoll_last_error());
        gcoll_context_settle(context);
    } else if (!(gcoll_accord_bits(&accord) & 1)) {
        status = fail(context, &accord);
        gcoll_council_judge(context);
    } else
        gcoll_council_break_for_gone(context, &accord); /* later calls: this one has succeeded */
    free(accord.data);
    return status;
}

const gcoll_jury gcoll_council_jury = {.agree = agree};
