/*
 * cuda/accelerator.h - the interface of an accelerator: devices with memory of their own.
 *
 * An accelerator knows bytes and element types; it knows no collective, plan or peer. It begins each copy,
 * reduction or division at once and gives a ticket for it. The caller tests the ticket; only
 * gcoll_accelerator_table.drain waits. Work is done in any order, so the engine begins nothing before its
 * dependencies are done.
 *
 * One accelerator serves one context, under that context's lock.
 */
#ifndef GCOLL_ACCELERATOR_H
#define GCOLL_ACCELERATOR_H

#include "gcoll/base/base.h"
#include "gcoll/memory.h"

typedef struct gcoll_accelerator gcoll_accelerator;
typedef struct gcoll_ticket gcoll_ticket; /* a copy, reduction or division that was begun */
typedef struct gcoll_gate gcoll_gate;     /* the work in a stream of the caller's at some moment */

/* Memories are numbered as in plans: 0 is the host's, d + 1 that of device d. */

/* Where an address lies. */
typedef struct gcoll_place {
    gcoll_memory_kind kind; /* HOST, PINNED, MANAGED or DEVICE; never FIND */
    uint32_t device;        /* MANAGED, DEVICE: whose; else 0 */
} gcoll_place;

/* How a reduction of buffers on several devices reaches those of the others. */
typedef enum gcoll_reach { GCOLL_REACH_PEER = 0, GCOLL_REACH_NCCL = 1 } gcoll_reach;

typedef struct gcoll_fold {
    uint32_t device;             /* that does it, and that dst is on */
    void *dst;                   /* may be one of the operands, and overlaps them in no other way */
    const void *const *operands; /* count elements each, dst = operands[0] op operands[1] op ... */
    const uint32_t *devices;     /* of each operand */
    uint32_t operand_count;      /* 2 and more */
    uint64_t count;
    gcoll_type type;
    gcoll_op op; /* never USER; AVG adds */
    gcoll_reach reach;
} gcoll_fold;

/* Nanoseconds by the device's own clock, where it has one and times were asked for; else 0. */
typedef struct gcoll_ticket_time {
    int64_t ns;
} gcoll_ticket_time;

/* Memory of a device, described so that the driver of a network adapter can register it. */
typedef struct gcoll_shared {
    int dmabuf;      /* a file descriptor, to be closed by whoever asked; -1: there is none */
    uint64_t offset; /* in it, of the first byte */
    void *pages;     /* without one: the address by which the kernel may know the memory */
} gcoll_shared;

typedef struct gcoll_accelerator_options {
    bool times; /* measure how long each thing takes on the device */
} gcoll_accelerator_options;

/* Every gcoll_status that is not GCOLL_OK comes with a text that has the driver's call and its own words. */
typedef struct gcoll_accelerator_table {
    const char *name; /* "cuda" */

    gcoll_status (*open)(const gcoll_accelerator_options *options, gcoll_accelerator **accelerator);
    /* All tickets must have been found done, or drained. */
    void (*close)(gcoll_accelerator *accelerator);
    uint32_t (*device_count)(const gcoll_accelerator *accelerator);

    gcoll_status (*locate)(gcoll_accelerator *accelerator, const void *address, gcoll_place *place);
    /* GCOLL_OK if kernels of device `from` can read the memory of device `to`; else UNSUPPORTED with the
     * reason. reach NCCL: whether that library is there and joins the two. */
    gcoll_status (*reaches)(gcoll_accelerator *accelerator, gcoll_reach reach, uint32_t from, uint32_t to);

    /* Host memory that devices copy from and to at full speed; aligned to 64 bytes, from a pool. */
    gcoll_status (*pin)(gcoll_accelerator *accelerator, uint64_t bytes, void **memory);
    void (*unpin)(gcoll_accelerator *accelerator, void *memory, uint64_t bytes);

    /* All that `stream` (the caller's, of that device; NULL: the default one) has been given until now. What
     * is begun behind the gate waits for that, on the device. Put back when nothing will be begun behind it
     * any more. */
    gcoll_status (*make_gate)(gcoll_accelerator *accelerator, uint32_t device, void *stream,
                              gcoll_gate **gate);
    void (*put_gate)(gcoll_accelerator *accelerator, gcoll_gate *gate);
    /* Whether all work behind the gate is done. For messages, which no device begins. */
    gcoll_status (*test_gate)(gcoll_accelerator *accelerator, gcoll_gate *gate, bool *done);

    /* Begins a copy or a fold; it waits for `gates` first, on the device. *ticket is set on success, and gone
     * once it was found done, or failed. */
    gcoll_status (*copy)(gcoll_accelerator *accelerator, void *dst, uint32_t dst_memory, const void *src,
                         uint32_t src_memory, uint64_t bytes, gcoll_gate *const *gates, uint32_t gate_count,
                         gcoll_ticket **ticket);
    gcoll_status (*fold)(gcoll_accelerator *accelerator, const gcoll_fold *fold, gcoll_gate *const *gates,
                         uint32_t gate_count, gcoll_ticket **ticket);
    /* data[i] /= divisor, as gcoll_divide does. */
    gcoll_status (*divide)(gcoll_accelerator *accelerator, uint32_t device, void *data, uint64_t count,
                           gcoll_type type, uint32_t divisor, gcoll_gate *const *gates, uint32_t gate_count,
                           gcoll_ticket **ticket);

    /* Whether the work is done. If so the ticket is gone, also if the work failed. */
    gcoll_status (*test)(gcoll_accelerator *accelerator, gcoll_ticket *ticket, bool *done,
                         gcoll_ticket_time *time);
    /* Makes memory of a device known to a network's device, which then reads and writes it by itself.
     * UNSUPPORTED, with the reason, for memory that cannot be. */
    gcoll_status (*share)(gcoll_accelerator *accelerator, const void *address, uint64_t bytes,
                          gcoll_shared *shared);
    /* What a network's device was seen to have written to the memory of `device` is there for all that
     * anybody begins on that device from now on. */
    gcoll_status (*arrived)(gcoll_accelerator *accelerator, uint32_t device);

    /* Waits until all that was begun has ended, for `timeout_ms` at most, and forgets all tickets. For the
     * end of a context that broke: memory may be freed after it. GCOLL_ERR_TIMEOUT: it may not. */
    gcoll_status (*drain)(gcoll_accelerator *accelerator, int64_t timeout_ms);
} gcoll_accelerator_table;

/* The accelerator "cuda". Without the toolkit at build time, or a driver at run time, `open` fails with
 * GCOLL_ERR_UNSUPPORTED and says what is missing. */
extern const gcoll_accelerator_table gcoll_accelerator_cuda;

/* Whether this process has a CUDA driver open already, so that there may be buffers in device memory. Cheap,
 * opens nothing. */
bool gcoll_cuda_is_in_use(void);

#endif
