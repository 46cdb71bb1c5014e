/* test/tools/plan_tool_broken.c - plugins that are wrong in one way each, by what BROKEN is defined as. */
#include <stdlib.h>

#include "gcoll/plan.h"

#define DROP    1 /* the last rank but one does not pass the result on */
#define CLAIM   2 /* claims more than holds */
#define MODEST  3 /* claims less than holds */
#define CRASH   4 /* ends the program, on more than 3 ranks */
#define VERSION 5 /* of another release */
#define SAME    6 /* a name that there is */
#define RELUCT  7 /* does even numbers of ranks only */
#define REFUSE  8 /* the same, but says so where it should plan */

static void plan(const gcoll_problem *p, gcoll_builder *b) {
    const uint32_t rank = p->rank, last = p->size - 1;
    const gcoll_ref in = gcoll_in(0, 0), out = gcoll_out(0, 0);
    if (BROKEN == CRASH && p->size > 3)
        abort();
    if (BROKEN == REFUSE && p->size % 2)
        gcoll_plan_refuse(b, GCOLL_ERR_UNSUPPORTED, "odd numbers of ranks are too odd");
    if (p->size == 1)
        gcoll_plan_copy(b, out, in, p->count);
    if (rank > 0)
        gcoll_plan_recv_reduce_left(b, rank - 1, out, in, p->count);
    if (rank < last) {
        gcoll_plan_send(b, rank + 1, rank > 0 ? out : in, p->count);
        gcoll_plan_recv(b, rank + 1, out, p->count);
    }
    if (rank > 0 && !(BROKEN == DROP && p->size > 2 && rank + 1 == last))
        gcoll_plan_send(b, rank - 1, out, p->count);
}

static uint32_t claims(const gcoll_problem *p) {
    if (p->size == 1 || p->count == 0)
        return GCOLL_CLAIM_ALL;
    return BROKEN == MODEST ? GCOLL_CLAIM_RANK_IDENTICAL | GCOLL_CLAIM_RUN_IDENTICAL : gcoll_left_claims(p);
}

/* The same in the other direction: not in rank order. */
static void plan_down(const gcoll_problem *p, gcoll_builder *b) {
    const uint32_t rank = p->rank, last = p->size - 1;
    if (p->size == 1)
        gcoll_plan_copy(b, gcoll_out(0, 0), gcoll_in(0, 0), p->count);
    if (rank < last)
        gcoll_plan_recv_reduce_left(b, rank + 1, gcoll_out(0, 0), gcoll_in(0, 0), p->count);
    if (rank > 0) {
        gcoll_plan_send(b, rank - 1, rank < last ? gcoll_out(0, 0) : gcoll_in(0, 0), p->count);
        gcoll_plan_recv(b, rank - 1, gcoll_out(0, 0), p->count);
    }
    if (rank < last)
        gcoll_plan_send(b, rank + 1, gcoll_out(0, 0), p->count);
}

static void cost(const gcoll_problem *p, gcoll_cost *c) {
    const double hops = p->size - 1.0, n = (double)p->count;
    *c = (gcoll_cost){2 * hops, 2 * hops * n, hops * n, 0};
}

static gcoll_status applies(const gcoll_problem *p) {
    return BROKEN == RELUCT && p->size % 2 ? gcoll_unsupported("odd numbers of ranks are too odd") : GCOLL_OK;
}

static const gcoll_algorithm row = {
    .name = BROKEN == SAME ? "ring" : "broken",
    .collective = GCOLL_ALLREDUCE,
    .summary = "a chain with a fault",
    .source = "test/tools/plan_tool_broken.c",
    .plan = BROKEN == CLAIM ? plan_down : plan,
    .claims = claims,
    .cost = cost,
    .applies = applies,
};
static const gcoll_algorithm *const rows[] = {&row, NULL};

#if BROKEN == VERSION
GCOLL_API extern const gcoll_plugin gcoll_plugin_table;
const gcoll_plugin gcoll_plugin_table = {GCOLL_VERSION_MAJOR, GCOLL_VERSION_MINOR + 1, rows};
#else
GCOLL_PLUGIN(rows);
#endif
