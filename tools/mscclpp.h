/* tools/mscclpp.h - an execution plan of MSCCL++ as its file has it: GPUs, channels, thread blocks,
 * operations; all numbers checked. */
#ifndef GCOLL_TOOL_MSCCLPP_H
#define GCOLL_TOOL_MSCCLPP_H

#include "tools/plan_file.h"

#define MSCCLPP_ENDS 8 /* channels and places of one operation, as in MSCCL++ */

/* The operations, in the order of the table in mscclpp_read.c. */
typedef enum mscclpp_type {
    MSCCLPP_NOP = 0, /* waits for operations of other blocks */
    MSCCLPP_BARRIER, /* of blocks of the GPU */
    MSCCLPP_PUT,     /* remote = local, on each channel; and then perhaps a signal */
    MSCCLPP_PWS,
    MSCCLPP_PWSF,
    MSCCLPP_GET, /* local = remote */
    MSCCLPP_COPY,
    MSCCLPP_SIGNAL,
    MSCCLPP_WAIT,
    MSCCLPP_FLUSH, /* the data of puts have been read: here they always have */
    MSCCLPP_RE,    /* dst = src op local ... */
    MSCCLPP_RS,    /* the same, and remote = dst */
    MSCCLPP_RRC,   /* dst = src op remote ... */
    MSCCLPP_RRCS,  /* the same, and remote = dst */
    MSCCLPP_TYPE_COUNT
} mscclpp_type;

/* One end of a connection, which has another end at the peer. */
typedef struct mscclpp_channel {
    uint16_t local, remote; /* gcoll_space */
    uint8_t kind;           /* a number of its ctype */
    uint32_t peer, other;   /* which of the peer's channels is the other end */
} mscclpp_channel;

/* A channel of the GPU, and an offset in chunks where there is one. */
typedef struct mscclpp_end {
    uint32_t channel, offset;
} mscclpp_end;

typedef struct mscclpp_op {
    uint32_t line, block;
    mscclpp_type type;
    mscclpp_end in[MSCCLPP_ENDS], out[MSCCLPP_ENDS]; /* i_cids, o_cids */
    gcoll_ref srcs[MSCCLPP_ENDS], dsts[MSCCLPP_ENDS];
    uint32_t ins, outs, src_count, dst_count;
    gcoll_ref src, dst; /* offsets in chunks */
    uint32_t chunks;
    uint32_t first_dep, deps; /* of the GPU's */
    uint32_t barrier, participants;
} mscclpp_op;

typedef struct mscclpp_dep {
    uint32_t block, step;
} mscclpp_dep;

typedef struct mscclpp_block {
    uint32_t first, count; /* of the GPU's operations */
} mscclpp_block;

typedef struct mscclpp_gpu {
    uint32_t chunks[3]; /* by gcoll_space */
    mscclpp_channel *channels;
    mscclpp_block *blocks;
    mscclpp_op *ops;
    mscclpp_dep *deps;
    uint32_t channel_count, block_count, op_count, dep_count, channel_room, op_room, dep_room;
} mscclpp_gpu;

typedef struct mscclpp_schedule {
    gcoll_collective collective;
    bool in_place;
    uint32_t chunks; /* of the vector */
    uint32_t gpu_count;
    mscclpp_gpu *gpus;
} mscclpp_schedule;

/* Whether a JSON file is of this format. */
bool mscclpp_is(struct json_object *all);
/* Reads a schedule (mscclpp_read.c). It is freed by the caller, also on failure. */
bool mscclpp_read(tool_plan_text *from, struct json_object *all, mscclpp_schedule *to);
void mscclpp_free(mscclpp_schedule *schedule);

/* Makes the drafts of all ranks (mscclpp_plan.c). elements: of the vector, a multiple of its chunks. */
bool mscclpp_plan(field_reader *fields, const mscclpp_schedule *schedule, uint64_t elements,
                  tool_plan_file *to);

#endif
