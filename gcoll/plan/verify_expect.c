/* gcoll/plan/verify_expect.c - the contract of each collective: which ranks contribute which elements, and
 * what each output element must hold in the end. */
#include "gcoll/plan/verify_internal.h"

bool gcoll_verify_contributes(const gcoll_problem *p, uint64_t *position) {
    *position = 0;
    switch (p->collective) {
    case GCOLL_BARRIER:
        return false;
    case GCOLL_BROADCAST:
    case GCOLL_SCATTER:
        return p->rank == p->root;
    case GCOLL_ALLGATHER:
    case GCOLL_GATHER:
        *position = gcoll_block_begin(p, p->rank);
        return true;
    default:
        return true;
    }
}

/* The last index i below n at which begin_of(i) <= at; the block that element `at` lies in. */
static uint32_t block_of(const gcoll_problem *p, uint64_t (*begin_of)(const gcoll_problem *p, uint32_t i),
                         uint32_t n, uint64_t at) {
    uint32_t low = 0, high = n;
    while (high - low > 1) {
        uint32_t middle = low + (high - low) / 2;
        if (begin_of(p, middle) <= at)
            low = middle;
        else
            high = middle;
    }
    return low;
}

static uint64_t exchange_begin(const gcoll_problem *p, uint32_t c) {
    return gcoll_chunk_begin(p->count, gcoll_problem_exchanges(p), c);
}

gcoll_verify_expected gcoll_verify_expect(const gcoll_verifier *v, uint32_t rank, uint64_t begin) {
    const gcoll_problem *p = &v->plans[rank]->problem;
    uint64_t rest = gcoll_problem_out_count(p) - begin;
    switch (p->collective) {
    case GCOLL_BROADCAST:
        return (gcoll_verify_expected){rest, begin, p->root};
    case GCOLL_SCATTER:
        return (gcoll_verify_expected){rest, gcoll_block_begin(p, rank) + begin, p->root};
    case GCOLL_REDUCE_SCATTER:
        return (gcoll_verify_expected){rest, gcoll_block_begin(p, rank) + begin, GCOLL_VERIFY_SUM};
    case GCOLL_ALLGATHER:
    case GCOLL_GATHER: {
        uint32_t owner = block_of(p, gcoll_block_begin, p->size, begin);
        return (gcoll_verify_expected){gcoll_block_begin(p, owner + 1) - begin, begin, owner};
    }
    case GCOLL_ALLTOALL: {
        uint32_t owner = block_of(p, gcoll_recv_begin, p->size, begin);
        uint64_t into = begin - gcoll_recv_begin(p, owner);
        return (gcoll_verify_expected){gcoll_recv_count(p, owner) - into,
                                       gcoll_block_begin(&v->plans[owner]->problem, rank) + into, owner};
    }
    case GCOLL_PAIRWISE_EXCHANGE: {
        uint32_t chunks = gcoll_problem_exchanges(p);
        if (chunks == 0) /* one rank: all stays */
            return (gcoll_verify_expected){rest, begin, rank};
        uint32_t c = block_of(p, exchange_begin, chunks, begin);
        uint64_t partner = rank ^ UINT64_C(1) << c;
        return (gcoll_verify_expected){exchange_begin(p, c + 1) - begin, begin,
                                       partner < p->size ? (uint32_t)partner : rank};
    }
    default:
        return (gcoll_verify_expected){rest, begin, GCOLL_VERIFY_SUM};
    }
}

static gcoll_status check_same_offsets(const gcoll_plan *const *plans, uint32_t rank) {
    const gcoll_problem *p = &plans[rank]->problem, *first = &plans[0]->problem;
    for (uint32_t r = 0; r <= p->size; r++)
        if (gcoll_block_begin(p, r) != gcoll_block_begin(first, r))
            return gcoll_error(GCOLL_ERR_INVALID, "rank %u: block %u begins at %llu, on rank 0 at %llu", rank,
                               r, (unsigned long long)gcoll_block_begin(p, r),
                               (unsigned long long)gcoll_block_begin(first, r));
    return GCOLL_OK;
}

static gcoll_status check_alltoall(const gcoll_plan *const *plans, uint32_t rank) {
    const gcoll_problem *p = &plans[rank]->problem;
    for (uint32_t r = 0; r < p->size; r++) {
        uint64_t sent = gcoll_block_count(&plans[r]->problem, rank), received = gcoll_recv_count(p, r);
        if (sent != received)
            return gcoll_error(GCOLL_ERR_INVALID,
                               "rank %u: expects %llu elements of rank %u, which has %llu for it", rank,
                               (unsigned long long)received, r, (unsigned long long)sent);
    }
    return GCOLL_OK;
}

gcoll_status gcoll_verify_blocks(const gcoll_plan *const *plans, uint32_t size) {
    bool alltoall = plans[0]->problem.collective == GCOLL_ALLTOALL, given = false;
    gcoll_status status = GCOLL_OK;
    for (uint32_t r = 0; r < size; r++)
        given = given || plans[r]->problem.offsets;
    for (uint32_t r = 0; r < size && given && status == GCOLL_OK; r++)
        status = alltoall ? check_alltoall(plans, r) : check_same_offsets(plans, r);
    return status;
}
