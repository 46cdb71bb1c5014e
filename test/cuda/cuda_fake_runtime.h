// A CUDA runtime for tests of the executor: the functions that it calls, over host memory, with no device
// behind them. Streams are queues; what is in them happens late, in a random order between streams, and only
// when a test says so or the executor asks how far they are. Every call can be made to fail. What is not
// defined here the executor does not call: it would not link.
#ifndef GCOLL_TEST_CUDA_FAKE_RUNTIME_H
#define GCOLL_TEST_CUDA_FAKE_RUNTIME_H

#include <cuda_runtime_api.h>

#include <functional>
#include <set>
#include <string>
#include <vector>

namespace fake_cuda {

// Begins anew: so many devices, device 0 current, nothing allocated.
void reset(int devices, unsigned seed);

// The call of this name after `skip` more of them fails, once. What it would have done does not happen.
void fail(const std::string &call, cudaError_t error, int skip = 0);
int calls(const std::string &call); // since the reset
const std::set<int> &touched();     // devices that were made current

// Does the next thing of one stream that may go on. False: there is none.
bool step();
void run_all();
void freeze(bool is_frozen); // being asked does not bring streams on
void hold(cudaStream_t stream, bool is_held);

void *allocate(int device, size_t bytes, cudaMemoryType type = cudaMemoryTypeDevice);
cudaStream_t make_stream(int device); // of the caller's
void enqueue(int device, cudaStream_t stream, std::function<void()> work);
void allow_peers(bool is_allowed);

int current_device();
cudaError_t pending_error(); // what the caller's cudaGetLastError would say; stays
size_t live_events(), live_streams(), live_pinned_bytes();
std::vector<std::string> violations(); // what a device would have died of

// For the library that stands for NCCL: what its function of this name returns, 0 unless it is made to fail.
void fail_nccl(const std::string &call, int result);

} // namespace fake_cuda

#endif
