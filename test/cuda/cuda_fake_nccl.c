/* Stands for libnccl.so.2 in tests of the executor: its functions, over the tests' own CUDA runtime, which is
 * in the program that opens this. A group is reduced as a whole when it ends. */
#include <cuda_runtime_api.h>
#include <stdlib.h>

struct ncclComm {
    int device, count;
};

enum { MAX_GROUP = 16 };

static struct {
    const void *send[MAX_GROUP];
    void *recv;
    size_t count;
    int type, op, root, entries, devices[MAX_GROUP];
    cudaStream_t streams[MAX_GROUP];
} group;

int fake_nccl_called(const char *name);
void fake_nccl_reduce(const void *const *send, void *recv, size_t count, int type, int op, int n,
                      const int *devices, int root, cudaStream_t *streams);

int ncclGetVersion(int *version);
int ncclCommInitAll(struct ncclComm **comms, int count, const int *devices);
int ncclCommDestroy(struct ncclComm *comm);
int ncclCommAbort(struct ncclComm *comm);
int ncclReduce(const void *send, void *recv, size_t count, int type, int op, int root, struct ncclComm *comm,
               cudaStream_t stream);
int ncclGroupStart(void);
int ncclGroupEnd(void);
const char *ncclGetErrorString(int result);

#define EXPORTED __attribute__((visibility("default")))

EXPORTED int ncclGetVersion(int *version) {
    int result = fake_nccl_called("ncclGetVersion");
    *version = result == 0 ? 22000 : result;
    return 0;
}

EXPORTED int ncclCommInitAll(struct ncclComm **comms, int count, const int *devices) {
    int result = fake_nccl_called("ncclCommInitAll");
    for (int i = 0; i < count && result == 0; i++) {
        comms[i] = malloc(sizeof **comms);
        *comms[i] = (struct ncclComm){.device = devices[i], .count = count};
        (void)cudaSetDevice(devices[i]); /* and leaves it so */
    }
    return result;
}

EXPORTED int ncclCommDestroy(struct ncclComm *comm) {
    free(comm);
    return fake_nccl_called("ncclCommDestroy");
}

EXPORTED int ncclCommAbort(struct ncclComm *comm) {
    free(comm);
    return fake_nccl_called("ncclCommAbort");
}

EXPORTED int ncclReduce(const void *send, void *recv, size_t count, int type, int op, int root,
                        struct ncclComm *comm, cudaStream_t stream) {
    int result = fake_nccl_called("ncclReduce");
    if (result != 0)
        return result;
    group.send[group.entries] = send;
    group.devices[group.entries] = comm->device;
    group.streams[group.entries] = stream;
    if (group.entries == root)
        group.recv = recv;
    group.count = count;
    group.type = type;
    group.op = op;
    group.root = root;
    return ++group.entries <= comm->count ? 0 : 5;
}

EXPORTED int ncclGroupStart(void) {
    group.entries = 0;
    return fake_nccl_called("ncclGroupStart");
}

EXPORTED int ncclGroupEnd(void) {
    int result = fake_nccl_called("ncclGroupEnd");
    if (result == 0 && group.entries > 0)
        fake_nccl_reduce(group.send, group.recv, group.count, group.type, group.op, group.entries,
                         group.devices, group.root, group.streams);
    return result;
}

EXPORTED const char *ncclGetErrorString(int result) {
    return result == 3 ? "internal error of the fake NCCL" : "?";
}
