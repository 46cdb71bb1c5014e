/* test/core/same_peek.c - sets the costs by which a context chooses, for the tests of options.same. */
#include "test/core/same_peek.h"

#include "gcoll/tuning/basis.h"

void same_pretend_measured(gcoll_context *context, const gcoll_cost_parameters *cost, double crowd) {
    gcoll_basis *basis = context->basis;
    basis->kind = GCOLL_BASIS_FITTED;
    basis->cost = *cost;
    basis->sharing = (gcoll_sharing){
        .latency = cost->alpha / 2, .message = cost->alpha / 2, .byte = cost->beta, .crowd = crowd};
}
