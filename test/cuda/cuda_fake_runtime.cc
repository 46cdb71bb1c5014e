#include "test/cuda/cuda_fake_runtime.h"

#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <random>

#include "test/cuda/cuda_fake_internal.h"

using fake_cuda::is_of_device;
using fake_cuda::note;

namespace {

struct Record { // of an event; a wait is for the one that was the last when it was asked for
    bool has_come = false;
    int64_t time = 0;
};

struct EventState {
    int device;
    bool has_time;
    std::shared_ptr<Record> last;
};

struct Item {
    std::function<void()> work;
    std::shared_ptr<Record> waits_for; // if set: no work
};

} // namespace

struct CUstream_st {
    int device = 0;
    unsigned flags = 0;
    bool is_live = true, is_held = false, is_callers = false;
    std::deque<Item> items;
};

struct CUevent_st : EventState {};

namespace {

struct Allocation {
    size_t bytes;
    int device;
    cudaMemoryType type;
};

struct Failure {
    cudaError_t error;
    int skip;
};

struct Runtime {
    int devices = 0, current = 0;
    std::mt19937 random;
    bool is_frozen = false, peers_allowed = true;
    cudaError_t last_error = cudaSuccess;
    std::vector<std::unique_ptr<CUstream_st>> streams; // the first ones are the default streams
    std::set<cudaEvent_t> events;
    std::map<uintptr_t, Allocation> memory;
    std::vector<void *> to_free;
    std::map<std::string, Failure> failures;
    std::map<std::string, int> calls, nccl_failures;
    std::set<int> touched;
    std::set<std::pair<int, int>> peers;
    std::vector<std::string> violations;
    int64_t clock = 0;

    ~Runtime() {
        for (void *p : to_free)
            free(p);
        for (const auto &[address, a] : memory)
            if (a.type == cudaMemoryTypeHost)
                free(reinterpret_cast<void *>(address)); // NOLINT
        for (cudaEvent_t e : events)
            delete e;
    }
};

thread_local std::unique_ptr<Runtime> runtime; // where ranks are threads, each has one of its own

Runtime &rt() {
    return *runtime;
}

cudaStream_t resolve(cudaStream_t stream) {
    return stream ? stream : rt().streams[static_cast<size_t>(rt().current)].get();
}

bool may_go_on(const CUstream_st &s) {
    return !s.is_held && !s.items.empty() &&
           (!s.items.front().waits_for || s.items.front().waits_for->has_come);
}

void nudge() {
    for (unsigned n = rt().is_frozen ? 0 : rt().random() % 3; n > 0; n--)
        fake_cuda::step();
}

const Allocation *find(const void *address, size_t bytes) {
    uintptr_t at = reinterpret_cast<uintptr_t>(address);
    auto next = rt().memory.upper_bound(at);
    if (next == rt().memory.begin())
        return nullptr;
    auto found = std::prev(next);
    return at + bytes <= found->first + found->second.bytes ? &found->second : nullptr;
}

} // namespace

namespace fake_cuda {

cudaError_t note(cudaError_t error) {
    if (error != cudaSuccess)
        rt().last_error = error;
    return error;
}

// True: the call is to fail with *error.
bool fails(const char *call, cudaError_t *error) {
    rt().calls[call]++;
    auto found = rt().failures.find(call);
    if (found == rt().failures.end() || found->second.skip-- > 0)
        return false;
    *error = note(found->second.error);
    rt().failures.erase(found);
    return true;
}

bool is_of_device(const void *address, size_t bytes, int device) {
    const Allocation *a = find(address, bytes);
    return a && a->type != cudaMemoryTypeHost && a->device == device;
}

// A kernel of `device` reads or writes that.
void check_access(const void *address, size_t bytes, int device) {
    const Allocation *a = find(address, bytes);
    bool may =
        a && (a->device == device || a->type == cudaMemoryTypeHost || rt().peers.count({device, a->device}));
    if (!may)
        rt().violations.push_back("a kernel of device " + std::to_string(device) +
                                  " touches memory that is not its");
}

int device_of(cudaStream_t stream) {
    return stream->device;
}

void violate(const std::string &text) {
    rt().violations.push_back(text);
}

int next_nccl_result(const char *name) {
    rt().calls[name]++;
    auto found = rt().nccl_failures.find(name);
    return found == rt().nccl_failures.end() ? 0 : found->second;
}

void fail_nccl(const std::string &call, int result) {
    rt().nccl_failures[call] = result;
}

void reset(int devices, unsigned seed) {
    runtime = std::make_unique<Runtime>();
    rt().devices = devices;
    rt().random.seed(seed);
    for (int d = 0; d < devices; d++) {
        rt().streams.push_back(std::make_unique<CUstream_st>());
        rt().streams.back()->device = d;
        rt().streams.back()->is_callers = true;
    }
}

void fail(const std::string &call, cudaError_t error, int skip) {
    rt().failures[call] = {error, skip};
}

int calls(const std::string &call) {
    return rt().calls[call];
}

const std::set<int> &touched() {
    return rt().touched;
}

bool step() {
    std::vector<CUstream_st *> ready;
    for (const auto &s : rt().streams)
        if (may_go_on(*s))
            ready.push_back(s.get());
    if (ready.empty())
        return false;
    CUstream_st &s = *ready[rt().random() % ready.size()];
    Item item = std::move(s.items.front());
    s.items.pop_front();
    rt().clock++;
    if (item.work)
        item.work();
    return true;
}

void run_all() {
    while (step()) {
    }
}

void freeze(bool is_frozen) {
    rt().is_frozen = is_frozen;
}

void hold(cudaStream_t stream, bool is_held) {
    stream->is_held = is_held;
}

void *allocate(int device, size_t bytes, cudaMemoryType type) {
    void *p = aligned_alloc(256, (bytes + 255) / 256 * 256 + 256);
    rt().to_free.push_back(p);
    rt().memory[reinterpret_cast<uintptr_t>(p)] = {bytes, device, type};
    return p;
}

cudaStream_t make_stream(int device) {
    rt().streams.push_back(std::make_unique<CUstream_st>());
    rt().streams.back()->device = device;
    rt().streams.back()->is_callers = true;
    return rt().streams.back().get();
}

void enqueue(int device, cudaStream_t stream, std::function<void()> work) {
    cudaStream_t s = stream ? stream : rt().streams[static_cast<size_t>(device)].get();
    s->items.push_back({std::move(work), nullptr});
}

void allow_peers(bool is_allowed) {
    rt().peers_allowed = is_allowed;
}

int current_device() {
    return rt().current;
}

cudaError_t pending_error() {
    return rt().last_error;
}

size_t live_events() {
    return rt().events.size();
}

size_t live_streams() {
    size_t n = 0;
    for (const auto &s : rt().streams)
        n += s->is_live && !s->is_callers;
    return n;
}

size_t live_pinned_bytes() {
    size_t bytes = 0;
    for (const auto &entry : rt().memory)
        bytes += entry.second.type == cudaMemoryTypeHost ? entry.second.bytes : 0;
    return bytes;
}

std::vector<std::string> violations() {
    return rt().violations;
}

} // namespace fake_cuda

extern "C" {

// What the executor calls, in the order of the toolkit's header.

cudaError_t cudaGetLastError(void) {
    cudaError_t error = rt().last_error;
    rt().last_error = cudaSuccess;
    return error;
}

const char *cudaGetErrorString(cudaError_t error) {
    return error == cudaErrorNoDevice ? "no device, says the fake" : "words of the fake";
}

const char *cudaGetErrorName(cudaError_t error) {
    return error == cudaErrorMemoryAllocation ? "cudaErrorMemoryAllocation" : "cudaErrorOfTheFake";
}

cudaError_t cudaGetDeviceCount(int *count) {
    FAKE_CALL("cudaGetDeviceCount");
    *count = rt().devices;
    return cudaSuccess;
}

cudaError_t cudaDeviceGetAttribute(int *value, cudaDeviceAttr, int) {
    FAKE_CALL("cudaDeviceGetAttribute");
    *value = 4;
    return cudaSuccess;
}

cudaError_t cudaSetDevice(int device) {
    FAKE_CALL("cudaSetDevice");
    if (device < 0 || device >= rt().devices)
        return note(cudaErrorInvalidDevice);
    rt().current = device;
    rt().touched.insert(device);
    return cudaSuccess;
}

cudaError_t cudaGetDevice(int *device) {
    FAKE_CALL("cudaGetDevice");
    *device = rt().current;
    return cudaSuccess;
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned flags) {
    FAKE_CALL("cudaStreamCreateWithFlags");
    *stream = fake_cuda::make_stream(rt().current);
    (*stream)->is_callers = false;
    (*stream)->flags = flags;
    if (flags != cudaStreamNonBlocking)
        rt().violations.push_back("a stream that waits for the default one");
    return cudaSuccess;
}

cudaError_t cudaStreamDestroy(cudaStream_t stream) {
    FAKE_CALL("cudaStreamDestroy");
    stream->is_live = false; // what is in it still happens
    return cudaSuccess;
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
    FAKE_CALL("cudaStreamWaitEvent");
    if (event->last)
        resolve(stream)->items.push_back({nullptr, event->last});
    return cudaSuccess;
}

cudaError_t cudaStreamQuery(cudaStream_t stream) {
    FAKE_CALL("cudaStreamQuery");
    nudge();
    return resolve(stream)->items.empty() ? cudaSuccess : note(cudaErrorNotReady);
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned flags) {
    FAKE_CALL("cudaEventCreateWithFlags");
    *event = new CUevent_st;
    (*event)->device = rt().current;
    (*event)->has_time = flags == cudaEventDefault;
    rt().events.insert(*event);
    return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
    FAKE_CALL("cudaEventRecord");
    cudaStream_t s = resolve(stream);
    if (event->device != s->device)
        return note(cudaErrorInvalidResourceHandle);
    auto record = std::make_shared<Record>();
    event->last = record;
    s->items.push_back({[record] {
                            record->has_come = true;
                            record->time = rt().clock;
                        },
                        nullptr});
    return cudaSuccess;
}

cudaError_t cudaEventQuery(cudaEvent_t event) {
    FAKE_CALL("cudaEventQuery");
    nudge();
    return !event->last || event->last->has_come ? cudaSuccess : note(cudaErrorNotReady);
}

cudaError_t cudaEventDestroy(cudaEvent_t event) {
    FAKE_CALL("cudaEventDestroy");
    rt().events.erase(event);
    delete event;
    return cudaSuccess;
}

cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t start, cudaEvent_t end) {
    FAKE_CALL("cudaEventElapsedTime");
    if (!start->has_time || !end->has_time || !start->last || !end->last)
        return note(cudaErrorInvalidResourceHandle);
    if (!start->last->has_come || !end->last->has_come)
        return note(cudaErrorNotReady);
    *ms = static_cast<float>(end->last->time - start->last->time);
    return cudaSuccess;
}

cudaError_t cudaHostAlloc(void **memory, size_t bytes, unsigned flags) {
    FAKE_CALL("cudaHostAlloc");
    if (flags != cudaHostAllocPortable)
        rt().violations.push_back("pinned memory of one device alone");
    *memory = aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);
    rt().memory[reinterpret_cast<uintptr_t>(*memory)] = {bytes, rt().current, cudaMemoryTypeHost};
    return cudaSuccess;
}

cudaError_t cudaFreeHost(void *memory) {
    FAKE_CALL("cudaFreeHost");
    if (rt().memory.erase(reinterpret_cast<uintptr_t>(memory)) != 1)
        return note(cudaErrorInvalidValue);
    free(memory);
    return cudaSuccess;
}

cudaError_t cudaMemcpyAsync(void *dst, const void *src, size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream) {
    FAKE_CALL("cudaMemcpyAsync");
    cudaStream_t s = resolve(stream);
    const bool from_device = kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyDeviceToDevice;
    const bool to_device = kind == cudaMemcpyHostToDevice || kind == cudaMemcpyDeviceToDevice;
    if (kind == cudaMemcpyDefault || from_device != is_of_device(src, bytes, s->device) ||
        to_device != is_of_device(dst, bytes, s->device))
        return note(cudaErrorInvalidValue);
    s->items.push_back({[=] { memmove(dst, src, bytes); }, nullptr});
    return cudaSuccess;
}

cudaError_t cudaMemcpyPeerAsync(void *dst, int dst_device, const void *src, int src_device, size_t bytes,
                                cudaStream_t stream) {
    FAKE_CALL("cudaMemcpyPeerAsync");
    if (!is_of_device(src, bytes, src_device) || !is_of_device(dst, bytes, dst_device))
        return note(cudaErrorInvalidValue);
    resolve(stream)->items.push_back({[=] { memmove(dst, src, bytes); }, nullptr});
    return cudaSuccess;
}

cudaError_t cudaPointerGetAttributes(cudaPointerAttributes *attributes, const void *address) {
    FAKE_CALL("cudaPointerGetAttributes");
    const Allocation *a = find(address, 1);
    memset(attributes, 0, sizeof *attributes);
    attributes->type = a ? a->type : cudaMemoryTypeUnregistered;
    attributes->device = a ? a->device : -2;
    return cudaSuccess;
}

cudaError_t cudaDeviceCanAccessPeer(int *can, int, int) {
    FAKE_CALL("cudaDeviceCanAccessPeer");
    *can = rt().peers_allowed;
    return cudaSuccess;
}

cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned) {
    FAKE_CALL("cudaDeviceEnablePeerAccess");
    if (!rt().peers.insert({rt().current, peer}).second)
        return note(cudaErrorPeerAccessAlreadyEnabled);
    return cudaSuccess;
}

} // extern "C"
