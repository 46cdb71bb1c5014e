/* gcoll/call/explain.c - gcoll_context_explain: which algorithm a call takes, which others there are, and
 * why. */
#include <stdio.h>
#include <stdlib.h>

#include "gcoll/base/text.h"
#include "gcoll/call/call.h"
#include "gcoll/call/ranking.h"
#include "gcoll/context/hooks.h"
#include "gcoll/tuning/tuning.h"

#define BASIS_BYTES 1280

/* Says where the result has the same bits, whichever algorithm is taken. */
static void describe_sameness(const gcoll_call *call, gcoll_text *said) {
    static const char *const words[] = {
        [GCOLL_SAME_ON_RANKS] = "the same bits on every rank (options.same: on ranks)",
        [GCOLL_SAME_IN_RUNS] = "the same bits on every rank and in every run (options.same: in runs)",
        [GCOLL_SAME_NOWHERE] = "bits may differ between ranks and runs (options.same: nowhere)"};
    const gcoll_collective collective = (gcoll_collective)call->collective;
    if (!gcoll_collective_reduces(collective))
        return;
    const bool on_one = collective != GCOLL_ALLREDUCE;
    const char *text = words[gcoll_call_same(call)];
    if (!gcoll_order_matters((gcoll_type)call->type, (gcoll_op)call->op))
        text = "the same bits in any order of evaluation";
    else if (gcoll_call_order(call) == GCOLL_ORDER_PAIRS)
        text = "the same bits for every size, algorithm, transport and run (options.order: pairs)";
    else if (gcoll_call_order(call) == GCOLL_ORDER_LEFT)
        text = "the same bits for every size, algorithm, transport and run (options.order: left)";
    else if (on_one && !gcoll_call_is_fixed(call))
        text = "each element is on one rank; bits may differ between runs";
    else if (on_one)
        text = "each element is on one rank, with the same bits in every run (options.same: in runs)";
    gcoll_text_add(said, "result: %s\n", text);
}

/* The algorithm that the next call takes. */
static void name_choice(gcoll_context *context, const gcoll_call *call, const gcoll_choice *choice,
                        char *name, size_t bytes) {
    const char *learned = gcoll_call_learned(context, call);
    if (learned)
        snprintf(name, bytes, "%s", learned);
    else
        gcoll_choice_format(choice, name, bytes);
}

static void describe(const gcoll_ranking *ranking, const gcoll_call *call, gcoll_context *context,
                     const gcoll_choice *choice, const gcoll_tuning_rule *rule, gcoll_status status,
                     gcoll_text *said) {
    char name[GCOLL_ALGORITHM_TEXT_MAX], basis[BASIS_BYTES], codec[GCOLL_CODEC_TEXT_MAX];
    const bool has_codec = gcoll_codec_is_set(&call->codec);
    name_choice(context, call, choice, name, sizeof name);
    gcoll_codec_format(&call->codec, codec);
    gcoll_text_add(said, "%s of %llu %s%s%s by %u ranks: %s\n",
                   gcoll_collective_name((gcoll_collective)call->collective), (unsigned long long)call->count,
                   gcoll_type_name((gcoll_type)call->type), has_codec ? " as " : "", has_codec ? codec : "",
                   context->size, status == GCOLL_OK ? name : gcoll_last_error());
    for (size_t i = 0; i < ranking->count; i++) {
        const gcoll_candidate *candidate = &ranking->candidates[i];
        gcoll_choice_format(&candidate->choice, name, sizeof name);
        if (candidate->status != GCOLL_OK) {
            gcoll_text_add(said, "  %-28s no: %s\n", name, candidate->reason);
            continue;
        }
        gcoll_text_add(said, "  %-28s %10.1f us  turns %.0f, sent %.0f, reduced %.0f, scratch %.0f", name,
                       candidate->seconds * 1e6, candidate->cost.steps, candidate->cost.sent,
                       candidate->cost.reduced, candidate->cost.scratch);
        if (candidate->load.within_steps > 0)
            gcoll_text_add(said, "; within hosts: turns %.0f, sent %.0f", candidate->load.within_steps,
                           candidate->load.within_sent);
        gcoll_text_add(said, "%s\n", candidate->is_for_trials ? "; not chosen by cost" : "");
    }
    gcoll_basis_describe(context, rule, gcoll_call_is_fixed(call), basis, sizeof basis);
    describe_sameness(call, said);
    gcoll_text_add(said, "%s", basis);
    if (context->learner)
        context->learner->explain(context, call, said);
}

gcoll_status gcoll_context_explain(gcoll_context *context, gcoll_collective collective, uint64_t count,
                                   gcoll_type type, gcoll_op op, uint32_t root,
                                   const gcoll_collective_options *options, char *text, size_t bytes) {
    gcoll_call call = {0};
    if (!context || !text || bytes == 0)
        return gcoll_error(GCOLL_ERR_INVALID, "%s",
                           context ? "text: is NULL or of 0 bytes" : "context: is NULL");
    gcoll_status status = gcoll_enter(context); /* hosts may be looked up in the store */
    if (status != GCOLL_OK)
        return status;
    status = gcoll_arguments_shape(&call, context, collective, count, type, op, root, options);
    if (status != GCOLL_OK) {
        gcoll_leave(context);
        return status;
    }
    gcoll_problem problem = gcoll_call_problem(context, &call, &(gcoll_blocks){0});
    problem.rank = 0;
    gcoll_choice choice = {0};
    gcoll_ranking ranking = {0};
    gcoll_text said = {text, bytes, 0};
    const gcoll_tuning_rule *rule;
    text[0] = '\0';
    status = gcoll_call_rank(context, &call, &problem, &ranking, &choice, &rule);
    if (!ranking.short_of_memory)
        describe(&ranking, &call, context, &choice, rule, status, &said);
    free(ranking.candidates);
    gcoll_leave(context);
    return status == GCOLL_ERR_UNSUPPORTED ? GCOLL_OK : status; /* the text contains the reason */
}
