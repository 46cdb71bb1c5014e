/* gcoll/plan/append.c - makes the plan of a sub-group part of a larger plan. */
#include "gcoll/plan/builder_internal.h"

typedef struct placing {
    const gcoll_plan *plan;
    gcoll_ref in, out, scratch; /* where its buffers lie in the larger plan */
} placing;

static gcoll_ref place(const placing *p, gcoll_ref ref) {
    gcoll_ref base = ref.space == GCOLL_IN ? p->in : ref.space == GCOLL_OUT ? p->out : p->scratch;
    return gcoll_ref_add(base, ref.offset);
}

static void append_step(gcoll_builder *b, const placing *p, const gcoll_step *s, const uint32_t *ranks) {
    gcoll_ref dst = place(p, s->dst), a = place(p, s->a);
    switch ((gcoll_step_kind)s->kind) {
    case GCOLL_STEP_SEND:
        if (s->count == 0)
            gcoll_plan_signal(b, ranks[s->peer]);
        gcoll_plan_send(b, ranks[s->peer], a, s->count);
        break;
    case GCOLL_STEP_RECV:
        if (s->count == 0)
            gcoll_plan_await(b, ranks[s->peer]);
        gcoll_plan_recv(b, ranks[s->peer], dst, s->count);
        break;
    case GCOLL_STEP_RECV_REDUCE:
        if (s->received_first)
            gcoll_plan_recv_reduce_left(b, ranks[s->peer], dst, a, s->count);
        else
            gcoll_plan_recv_reduce(b, ranks[s->peer], dst, a, s->count);
        break;
    case GCOLL_STEP_REDUCE:
        gcoll_plan_reduce(b, dst, a, place(p, s->b), s->count);
        break;
    case GCOLL_STEP_COPY:
        if (s->count == 0)
            gcoll_plan_fence(b);
        gcoll_plan_copy(b, dst, a, s->count);
        break;
    default:
        gcoll_plan_refuse(b, GCOLL_ERR_INTERNAL, "plan: a step of kind %u cannot be appended", s->kind);
    }
}

void gcoll_plan_append(gcoll_builder *b, const gcoll_plan *plan, const uint32_t *ranks, gcoll_ref in,
                       gcoll_ref out) {
    placing p = {plan, in, out, gcoll_plan_scratch(b, plan->scratch)};
    uint32_t first = gcoll_builder_next_round(b);
    for (uint32_t i = 0; i < plan->step_count; i++) {
        gcoll_plan_round_at_least(b, first + plan->steps[i].round);
        append_step(b, &p, &plan->steps[i], ranks);
    }
}
