/*
 * cuda/nccl.c - reductions of buffers on several devices by libnccl.
 *
 * The library is opened on first use, and is not needed to build. The declarations here are the part of its
 * interface that has not changed since version 2.10, the first with bfloat16. It chooses its own order of
 * operands, and its own precision of intermediate float16 sums. So only integer results are the same, bit for
 * bit, as those of kernels.
 */
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "cuda/internal.h"

static const char library_name[] = "libnccl.so.2";
enum { LEAST_VERSION = 21000 };

typedef struct ncclComm *nccl_comm;
typedef int nccl_result; /* 0: success */

typedef struct functions {
    nccl_result (*get_version)(int *version);
    nccl_result (*comm_init_all)(nccl_comm *comms, int count, const int *devices);
    nccl_result (*comm_destroy)(nccl_comm comm);
    nccl_result (*comm_abort)(nccl_comm comm);
    nccl_result (*reduce)(const void *send, void *recv, size_t count, int type, int op, int root,
                          nccl_comm comm, cudaStream_t stream);
    nccl_result (*group_start)(void);
    nccl_result (*group_end)(void);
    const char *(*get_error_string)(nccl_result result);
} functions;

typedef struct entry {
    const char *name;
    size_t offset;
} entry;

static const entry entries[] = {
    {"ncclGetVersion", offsetof(functions, get_version)},
    {"ncclCommInitAll", offsetof(functions, comm_init_all)},
    {"ncclCommDestroy", offsetof(functions, comm_destroy)},
    {"ncclCommAbort", offsetof(functions, comm_abort)},
    {"ncclReduce", offsetof(functions, reduce)},
    {"ncclGroupStart", offsetof(functions, group_start)},
    {"ncclGroupEnd", offsetof(functions, group_end)},
    {"ncclGetErrorString", offsetof(functions, get_error_string)},
};

/* The communicators of one list of devices, in the order of the list. */
typedef struct clique {
    struct clique *next;
    uint32_t count;
    nccl_comm *comms;
    int *devices;
} clique;

struct gcoll_cuda_nccl {
    functions call;
    clique *cliques;
};

/* ncclDataType_t and ncclRedOp_t. Later types are not in every version of the library. */
static const int nccl_types[GCOLL_FLOAT64 + 1] = {
    [GCOLL_INT8] = 0,   [GCOLL_UINT8] = 1,   [GCOLL_INT32] = 2,    [GCOLL_UINT32] = 3,  [GCOLL_INT64] = 4,
    [GCOLL_UINT64] = 5, [GCOLL_FLOAT16] = 6, [GCOLL_BFLOAT16] = 9, [GCOLL_FLOAT32] = 7, [GCOLL_FLOAT64] = 8,
};

static bool nccl_op(gcoll_op op, int *number) {
    switch (op) {
    case GCOLL_SUM:
    case GCOLL_AVG:
        *number = 0;
        return true;
    case GCOLL_PRODUCT:
        *number = 1;
        return true;
    case GCOLL_MAX:
        *number = 2;
        return true;
    case GCOLL_MIN:
        *number = 3;
        return true;
    default:
        return false;
    }
}

static gcoll_status failed(const gcoll_cuda_nccl *nccl, nccl_result result, const char *call) {
    (void)cudaGetLastError();
    return gcoll_error(GCOLL_ERR_IO, "cuda: %s: %s (%d)", call, nccl->call.get_error_string(result), result);
}

static gcoll_status look_up(functions *call) {
    int version = 0;
    void *library = dlopen(library_name, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (!library)
        return gcoll_error(GCOLL_ERR_UNSUPPORTED, "cuda: NCCL cannot be loaded: %s", dlerror());
    for (size_t i = 0; i < sizeof entries / sizeof entries[0]; i++) {
        void *found = dlsym(library, entries[i].name);
        if (!found) {
            dlclose(library);
            return gcoll_error(GCOLL_ERR_UNSUPPORTED, "cuda: %s has no function %s", library_name,
                               entries[i].name);
        }
        memcpy((char *)call + entries[i].offset, &found, sizeof found);
    }
    dlclose(library); /* it stays: RTLD_NODELETE */
    if (call->get_version(&version) != 0 || version < LEAST_VERSION)
        return gcoll_error(GCOLL_ERR_UNSUPPORTED, "cuda: %s has the version %d, needed is %d", library_name,
                           version, (int)LEAST_VERSION);
    return GCOLL_OK;
}

gcoll_status gcoll_cuda_nccl_load(gcoll_accelerator *accelerator) {
    gcoll_cuda_nccl *nccl = NULL;
    gcoll_status status = GCOLL_OK;
    if (accelerator->nccl)
        return GCOLL_OK;
    nccl = calloc(1, sizeof *nccl);
    if (!nccl)
        return gcoll_error(GCOLL_ERR_NO_MEMORY, "cuda: out of memory for NCCL");
    status = look_up(&nccl->call);
    if (status != GCOLL_OK) {
        free(nccl);
        return status;
    }
    accelerator->nccl = nccl;
    return GCOLL_OK;
}

static void free_clique(clique *c) {
    free(c->comms);
    free(c->devices);
    free(c);
}

/* Finds the operand on the fold's own device; each device must have exactly one operand. */
static gcoll_status find_root(const gcoll_fold *fold, int *root) {
    *root = -1;
    for (uint32_t i = 0; i < fold->operand_count; i++) {
        if (fold->devices[i] == fold->device)
            *root = (int)i;
        for (uint32_t j = 0; j < i; j++)
            if (fold->devices[i] == fold->devices[j])
                return gcoll_error(GCOLL_ERR_UNSUPPORTED,
                                   "cuda: NCCL takes one buffer of a device; device %u has two",
                                   fold->devices[i]);
    }
    if (*root < 0)
        return gcoll_error(GCOLL_ERR_UNSUPPORTED, "cuda: NCCL reduces to device %u, which has no operand",
                           fold->device);
    return GCOLL_OK;
}

static bool joins(const clique *c, const gcoll_fold *fold) {
    if (c->count != fold->operand_count)
        return false;
    for (uint32_t i = 0; i < c->count; i++)
        if (c->devices[i] != (int)fold->devices[i])
            return false;
    return true;
}

/* Makes the fold's device current again, as NCCL changes the current device. */
static void restore(const gcoll_fold *fold) {
    if (cudaSetDevice((int)fold->device) != cudaSuccess)
        (void)cudaGetLastError();
}

static gcoll_status new_clique(const gcoll_cuda_nccl *nccl, const gcoll_fold *fold, clique **made) {
    nccl_result result = 0;
    clique *c = calloc(1, sizeof *c);
    if (c) {
        c->count = fold->operand_count;
        c->comms = calloc(c->count, sizeof(nccl_comm));
        c->devices = calloc(c->count, sizeof *c->devices);
    }
    if (!c || !c->comms || !c->devices) {
        if (c)
            free_clique(c);
        return gcoll_error(GCOLL_ERR_NO_MEMORY, "cuda: out of memory for NCCL");
    }
    for (uint32_t i = 0; i < c->count; i++)
        c->devices[i] = (int)fold->devices[i];
    result = nccl->call.comm_init_all(c->comms, (int)c->count, c->devices);
    restore(fold);
    if (result != 0) {
        free_clique(c);
        return failed(nccl, result, "ncclCommInitAll");
    }
    *made = c;
    return GCOLL_OK;
}

static gcoll_status find_clique(gcoll_cuda_nccl *nccl, const gcoll_fold *fold, clique **found) {
    gcoll_status status = GCOLL_OK;
    clique *c = nccl->cliques;
    while (c && !joins(c, fold))
        c = c->next;
    if (!c) {
        status = new_clique(nccl, fold, &c);
        if (status != GCOLL_OK)
            return status;
        c->next = nccl->cliques;
        nccl->cliques = c;
    }
    *found = c;
    return GCOLL_OK;
}

/* Makes the lanes of the other devices wait for the gates, too; the lane of the fold's device does already.
 */
static gcoll_status prepare_others(gcoll_accelerator *accelerator, const gcoll_fold *fold,
                                   gcoll_gate *const *gates, uint32_t gate_count) {
    for (uint32_t i = 0; i < fold->operand_count; i++) {
        const uint32_t device = fold->devices[i];
        int before = 0;
        if (device == fold->device)
            continue;
        gcoll_status status = gcoll_cuda_enter(accelerator, device, &before);
        if (status != GCOLL_OK)
            return status;
        status = gcoll_cuda_wait_for_gates(accelerator->devices[device].lanes[GCOLL_CUDA_WITHIN], gates,
                                           gate_count);
        gcoll_cuda_leave(accelerator, device, before);
        if (status != GCOLL_OK)
            return status;
    }
    return GCOLL_OK;
}

/* Makes the fold's lane wait for the other lanes, so that its ticket covers all of them. */
static gcoll_status join(gcoll_accelerator *accelerator, const gcoll_fold *fold) {
    cudaStream_t own = accelerator->devices[fold->device].lanes[GCOLL_CUDA_WITHIN];
    for (uint32_t i = 0; i < fold->operand_count; i++) {
        const uint32_t number = fold->devices[i];
        const gcoll_cuda_device *device = &accelerator->devices[number];
        int before = 0;
        if (number == fold->device)
            continue;
        gcoll_status status = gcoll_cuda_enter(accelerator, number, &before);
        if (status != GCOLL_OK)
            return status;
        cudaError_t error = cudaEventRecord(device->joined, device->lanes[GCOLL_CUDA_WITHIN]);
        if (error == cudaSuccess)
            error = cudaStreamWaitEvent(own, device->joined, 0);
        if (error != cudaSuccess)
            status = gcoll_cuda_failed(
                error, "cudaEventRecord or cudaStreamWaitEvent after ncclReduce on device %u", number);
        gcoll_cuda_leave(accelerator, number, before);
        if (status != GCOLL_OK)
            return status;
    }
    return GCOLL_OK;
}

static gcoll_status reduce(gcoll_accelerator *accelerator, const gcoll_fold *fold, const clique *c, int op,
                           int root) {
    const gcoll_cuda_nccl *nccl = accelerator->nccl;
    nccl_result result = nccl->call.group_start(), ended = 0;
    if (result != 0)
        return failed(nccl, result, "ncclGroupStart");
    for (uint32_t i = 0; i < fold->operand_count && result == 0; i++)
        result = nccl->call.reduce(fold->operands[i], i == (uint32_t)root ? fold->dst : NULL,
                                   (size_t)fold->count, nccl_types[fold->type], op, root, c->comms[i],
                                   accelerator->devices[fold->devices[i]].lanes[GCOLL_CUDA_WITHIN]);
    ended = nccl->call.group_end();
    restore(fold);
    if (result != 0)
        return failed(nccl, result, "ncclReduce");
    return ended == 0 ? GCOLL_OK : failed(nccl, ended, "ncclGroupEnd after ncclReduce");
}

/* Creates communicators before any step has begun, as that takes long. */
gcoll_status gcoll_cuda_nccl_prepare(gcoll_accelerator *accelerator, const gcoll_fold *fold) {
    int root = 0, op = 0, before = 0;
    clique *c = NULL;
    gcoll_status status = gcoll_cuda_nccl_load(accelerator);
    if (status == GCOLL_OK)
        status = find_root(fold, &root);
    if (status == GCOLL_OK && fold->type > GCOLL_FLOAT64)
        status =
            gcoll_error(GCOLL_ERR_UNSUPPORTED, "cuda: NCCL has no type '%s'", gcoll_type_name(fold->type));
    if (status == GCOLL_OK && !nccl_op(fold->op, &op))
        status =
            gcoll_error(GCOLL_ERR_UNSUPPORTED, "cuda: NCCL has no operation '%s'", gcoll_op_name(fold->op));
    if (status == GCOLL_OK)
        status = gcoll_cuda_enter(accelerator, fold->device, &before);
    if (status != GCOLL_OK)
        return status;
    status = find_clique(accelerator->nccl, fold, &c);
    gcoll_cuda_leave(accelerator, fold->device, before);
    return status;
}

gcoll_status gcoll_cuda_nccl_fold(gcoll_accelerator *accelerator, const gcoll_fold *fold,
                                  gcoll_gate *const *gates, uint32_t gate_count) {
    int root = 0, op = 0;
    clique *c = NULL;
    gcoll_status status = find_root(fold, &root);
    (void)nccl_op(fold->op, &op);
    if (status == GCOLL_OK)
        status = find_clique(accelerator->nccl, fold, &c);
    if (status == GCOLL_OK)
        status = prepare_others(accelerator, fold, gates, gate_count);
    if (status == GCOLL_OK)
        status = reduce(accelerator, fold, c, op, root);
    return status == GCOLL_OK ? join(accelerator, fold) : status;
}

void gcoll_cuda_close_nccl(gcoll_accelerator *accelerator) {
    gcoll_cuda_nccl *nccl = accelerator->nccl;
    if (!nccl)
        return;
    for (clique *c = nccl->cliques, *next = NULL; c; c = next) {
        next = c->next;
        for (uint32_t i = 0; i < c->count; i++) {
            /* Destroying a communicator waits for its work in flight; aborting it does not. */
            (void)(!accelerator->tickets ? nccl->call.comm_destroy : nccl->call.comm_abort)(c->comms[i]);
        }
        free_clique(c);
    }
    free(nccl);
    accelerator->nccl = NULL;
}
