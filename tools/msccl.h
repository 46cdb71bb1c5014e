/* tools/msccl.h - a schedule of MSCCL as its file has it: GPUs, thread blocks, steps; all numbers checked. */
#ifndef GCOLL_TOOL_MSCCL_H
#define GCOLL_TOOL_MSCCL_H

#include "tools/plan_file.h"

#define MSCCL_NONE INT32_MAX /* no peer, no block */

/* The types of steps, in the order of the table in msccl_read.c. */
typedef enum msccl_type {
    MSCCL_S = 0, /* send src */
    MSCCL_R,     /* dst = received */
    MSCCL_RCS,   /* dst = received, then send dst */
    MSCCL_RRS,   /* send src op received, which is not kept */
    MSCCL_RRC,   /* dst = src op received */
    MSCCL_RRCS,  /* the same, then send dst */
    MSCCL_CPY,   /* dst = src */
    MSCCL_RE,    /* dst = dst op src */
    MSCCL_NOP,   /* only waits */
    MSCCL_TYPE_COUNT
} msccl_type;

static inline bool msccl_sends(msccl_type type) {
    return type == MSCCL_S || type == MSCCL_RCS || type == MSCCL_RRS || type == MSCCL_RRCS;
}
static inline bool msccl_receives(msccl_type type) {
    return type >= MSCCL_R && type <= MSCCL_RRCS;
}

typedef struct msccl_step {
    uint32_t line;
    uint32_t block; /* of the GPU */
    msccl_type type;
    gcoll_ref src, dst; /* offsets in chunks */
    uint32_t chunks;
    int32_t on_block, on_step; /* waits for this step of this block of the GPU; MSCCL_NONE: for none */
    bool awaited;              /* "hasdep": tells others that it is done */
} msccl_step;

typedef struct msccl_block {
    uint32_t line;
    int32_t send, recv; /* peers; MSCCL_NONE */
    int32_t channel;
    uint32_t first, count; /* of the GPU's steps */
} msccl_block;

typedef struct msccl_gpu {
    uint32_t line;
    uint32_t scratch; /* chunks */
    msccl_block *blocks;
    msccl_step *steps;
    uint32_t block_count, step_count, block_room, step_room;
} msccl_gpu;

typedef struct msccl_schedule {
    char name[TOOL_PLAN_NAME_BYTES];
    gcoll_collective collective;
    bool in_place;
    uint32_t chunks; /* of the vector */
    uint32_t gpu_count;
    msccl_gpu *gpus;
} msccl_schedule;

/* Reads a schedule (msccl_read.c). It is freed by the caller, also on failure. */
bool msccl_read(field_reader *fields, const char *text, size_t bytes, msccl_schedule *to);
void msccl_free(msccl_schedule *schedule);

/* Makes the plans of all ranks (msccl_plan.c). elements: of the vector, a multiple of its chunks. They are
 * freed by the caller, also on failure. */
bool msccl_plan(field_reader *fields, const msccl_schedule *schedule, uint64_t elements, tool_plan_file *to);

#endif
