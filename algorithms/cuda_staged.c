/* algorithms/cuda_staged.c - the algorithms that Gloo names after CUDA.
 *
 * Each is another row of the table with a fixed way of staging buffers in device memory. The other rows also
 * accept such buffers: they are staged range by range, and reduced where that is cheapest. On a rank whose
 * buffers are in host memory nothing is staged, and the algorithm is the other row. Ranks of one job may
 * differ in this.
 *
 * Source: Gloo, docs/algorithms.md, cuda_allreduce_ring, ..., and gloo/cuda_*.cc for bcube and broadcast.
 *
 * Steps, elements, claims: those of the other row. Scratch: n elements more (cuda_ring: n for each buffer of
 * the process), in host memory. */
#include "algorithms/allreduce/allreduce_bcube.h"
#include "algorithms/planners.h"

#define MIB (UINT64_C(1) << 20)

/* Defines functions that call those of row `base`: a constant cannot be made from another one. */
#define STAND_ON(name, base)                                                                                 \
    static void name##_plan(const gcoll_problem *problem, gcoll_builder *b) {                                \
        gcoll_##base##_algorithm.plan(problem, b);                                                           \
    }                                                                                                        \
    static uint32_t name##_claims(const gcoll_problem *problem) {                                            \
        return gcoll_##base##_algorithm.claims ? gcoll_##base##_algorithm.claims(problem) : GCOLL_CLAIM_ALL; \
    }                                                                                                        \
    static void name##_cost(const gcoll_problem *problem, gcoll_cost *cost) {                                \
        gcoll_##base##_algorithm.cost(problem, cost);                                                        \
    }                                                                                                        \
    static void name##_load(const gcoll_problem *problem, gcoll_load *load) {                                \
        if (gcoll_##base##_algorithm.load)                                                                   \
            gcoll_##base##_algorithm.load(problem, load);                                                    \
    }                                                                                                        \
    static gcoll_status name##_applies(const gcoll_problem *problem) {                                       \
        return gcoll_##base##_algorithm.applies ? gcoll_##base##_algorithm.applies(problem) : GCOLL_OK;      \
    }

/* The functions that STAND_ON has defined. */
#define STOOD_ON(name)                                                                                       \
    .plan = name##_plan, .claims = name##_claims, .cost = name##_cost, .applies = name##_applies,            \
    .load = name##_load

STAND_ON(ring, allreduce_ring_full)
static const gcoll_staging ring_staging = {.local = GCOLL_LOCAL_HOST, .whole = true};

const gcoll_algorithm gcoll_allreduce_cuda_ring_algorithm = {
    .name = "cuda_ring",
    .collective = GCOLL_ALLREDUCE,
    .summary =
        "ring_full; device buffers are copied to the host before it, reduced there, and copied back after",
    .source = "Gloo, docs/algorithms.md, cuda_allreduce_ring",
    .staging = &ring_staging,
    STOOD_ON(ring),
};

STAND_ON(ring_chunked, allreduce_ring_chunked)
static const gcoll_staging ring_chunked_staging = {.local = GCOLL_LOCAL_DEVICE};

const gcoll_algorithm gcoll_allreduce_cuda_ring_chunked_algorithm = {
    .name = "cuda_ring_chunked",
    .collective = GCOLL_ALLREDUCE,
    .summary = "ring_chunked; devices reduce their buffers, chunk by chunk while others are on their way",
    .source = "Gloo, docs/algorithms.md, cuda_allreduce_ring_chunked",
    .staging = &ring_chunked_staging,
    STOOD_ON(ring_chunked),
};

STAND_ON(halving_doubling, allreduce_halving_doubling)
static const gcoll_staging whole_staging = {.local = GCOLL_LOCAL_DEVICE, .whole = true};
static const gcoll_staging pipelined_staging = {.local = GCOLL_LOCAL_DEVICE, .segment_bytes = MIB};

const gcoll_algorithm gcoll_allreduce_cuda_halving_doubling_algorithm = {
    .name = "cuda_halving_doubling",
    .collective = GCOLL_ALLREDUCE,
    .summary = "halving_doubling; devices reduce their buffers, copies and messages one after the other",
    .source = "Gloo, docs/algorithms.md, cuda_allreduce_halving_doubling",
    .staging = &whole_staging,
    STOOD_ON(halving_doubling),
};

const gcoll_algorithm gcoll_allreduce_cuda_halving_doubling_pipelined_algorithm = {
    .name = "cuda_halving_doubling_pipelined",
    .collective = GCOLL_ALLREDUCE,
    .summary =
        "halving_doubling in segments of 1 MiB; reductions on devices and copies overlap with messages",
    .source = "Gloo, docs/algorithms.md, cuda_allreduce_halving_doubling_pipelined",
    .staging = &pipelined_staging,
    STOOD_ON(halving_doubling),
};

STAND_ON(bcube, allreduce_bcube)

const gcoll_algorithm gcoll_allreduce_cuda_bcube_algorithm = {
    .name = "cuda_bcube",
    .collective = GCOLL_ALLREDUCE,
    .summary = "bcube; devices reduce their buffers, copies and messages one after the other",
    .source = "Gloo, gloo/cuda_allreduce_bcube.h",
    .options = gcoll_bcube_options,
    .staging = &whole_staging,
    STOOD_ON(bcube),
};

STAND_ON(one_to_all, broadcast_one_to_all)
static const gcoll_staging broadcast_staging = {.local = GCOLL_LOCAL_DEVICE};

const gcoll_algorithm gcoll_broadcast_cuda_one_to_all_algorithm = {
    .name = "cuda_broadcast_one_to_all",
    .collective = GCOLL_BROADCAST,
    .summary = "one_to_all; the root's buffer is copied to the host once, and back on each rank",
    .source = "Gloo, gloo/cuda_broadcast_one_to_all.h",
    .staging = &broadcast_staging,
    STOOD_ON(one_to_all),
};
