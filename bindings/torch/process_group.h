// bindings/torch/process_group.h - the backend `gcoll` of torch.distributed.
//
// torch 1.13 has backends derive from c10d::ProcessGroup, torch 2 from c10d::Backend, whose functions have
// the same arguments.
#pragma once

#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/version.h>
#if TORCH_VERSION_MAJOR >= 2
#include <torch/csrc/distributed/c10d/Backend.hpp>
#endif

#include <memory>
#include <string>
#include <vector>

#include "work.h"

namespace gcoll_torch {

#if TORCH_VERSION_MAJOR >= 2
using Base = c10d::Backend;
#else
using Base = c10d::ProcessGroup;
#endif
using c10d::Work;

class ProcessGroupGcoll : public Base {
  public:
    // Meets the other ranks in the store. Throws if they do not come within the time limit of the settings.
    ProcessGroupGcoll(const c10::intrusive_ptr<c10d::Store> &store, const Settings &settings);
    ~ProcessGroupGcoll() override;

    const std::string getBackendName() const override { return "gcoll"; }

    c10::intrusive_ptr<Work> broadcast(std::vector<at::Tensor> &tensors,
                                       const c10d::BroadcastOptions &options) override;
    c10::intrusive_ptr<Work> allreduce(std::vector<at::Tensor> &tensors,
                                       const c10d::AllreduceOptions &options) override;
    c10::intrusive_ptr<Work> allreduce_coalesced(std::vector<at::Tensor> &tensors,
                                                 const c10d::AllreduceCoalescedOptions &options) override;
    c10::intrusive_ptr<Work> reduce(std::vector<at::Tensor> &tensors,
                                    const c10d::ReduceOptions &options) override;
    c10::intrusive_ptr<Work> allgather(std::vector<std::vector<at::Tensor>> &outputs,
                                       std::vector<at::Tensor> &inputs,
                                       const c10d::AllgatherOptions &options) override;
    c10::intrusive_ptr<Work> _allgather_base(at::Tensor &output, at::Tensor &input,
                                             const c10d::AllgatherOptions &options) override;
    c10::intrusive_ptr<Work> allgather_coalesced(std::vector<std::vector<at::Tensor>> &outputs,
                                                 std::vector<at::Tensor> &inputs,
                                                 const c10d::AllgatherOptions &options) override;
    c10::intrusive_ptr<Work> gather(std::vector<std::vector<at::Tensor>> &outputs,
                                    std::vector<at::Tensor> &inputs,
                                    const c10d::GatherOptions &options) override;
    c10::intrusive_ptr<Work> scatter(std::vector<at::Tensor> &outputs,
                                     std::vector<std::vector<at::Tensor>> &inputs,
                                     const c10d::ScatterOptions &options) override;
    c10::intrusive_ptr<Work> reduce_scatter(std::vector<at::Tensor> &outputs,
                                            std::vector<std::vector<at::Tensor>> &inputs,
                                            const c10d::ReduceScatterOptions &options) override;
    c10::intrusive_ptr<Work> _reduce_scatter_base(at::Tensor &output, at::Tensor &input,
                                                  const c10d::ReduceScatterOptions &options) override;
    c10::intrusive_ptr<Work> alltoall_base(at::Tensor &output, at::Tensor &input,
                                           std::vector<int64_t> &output_splits,
                                           std::vector<int64_t> &input_splits,
                                           const c10d::AllToAllOptions &options) override;
    c10::intrusive_ptr<Work> alltoall(std::vector<at::Tensor> &outputs, std::vector<at::Tensor> &inputs,
                                      const c10d::AllToAllOptions &options) override;
    c10::intrusive_ptr<Work> barrier(const c10d::BarrierOptions &options) override;
    void monitoredBarrier(const c10d::BarrierOptions &options, bool wait_all_ranks) override;

    c10::intrusive_ptr<Work> send(std::vector<at::Tensor> &tensors, int to, int tag) override;
    c10::intrusive_ptr<Work> recv(std::vector<at::Tensor> &tensors, int from, int tag) override;
    c10::intrusive_ptr<Work> recvAnysource(std::vector<at::Tensor> &tensors, int tag) override;

    // A rank counts its operations from 0. So the numbers agree as long as all ranks call the same.
    void setSequenceNumberForGroup() override {}
    uint64_t getSequenceNumberForGroup() override;

    // Breaks the group on all ranks: what is in flight ends with an error that has the reason.
    void break_group(const std::string &reason);
    // The rank that broke the group, or -1.
    int64_t culprit() const;

  private:
    friend class Call;
    c10::intrusive_ptr<Work> allreduce_sparse_tensor(at::Tensor &tensor,
                                                     const c10d::AllreduceOptions &options);
    c10::intrusive_ptr<Work> start_message(const c10::intrusive_ptr<GcollWork> &work, at::Tensor &tensor,
                                           int peer, int tag);

    std::shared_ptr<Channel> channel_;
};

} // namespace gcoll_torch
