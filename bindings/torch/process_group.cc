// bindings/torch/process_group.cc - the operations of torch.distributed: each checks its tensors, puts a
// gcoll call together, and starts it.
#include "process_group.h"

#include <ATen/core/grad_mode.h>
#include <Python.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <stdexcept>

#include "elements.h"

namespace gcoll_torch {

using c10d::OpType;
using std::chrono::milliseconds;
using WorkPtr = c10::intrusive_ptr<Work>;
using Tensors = std::vector<at::Tensor>;

// ---- Arguments -----------------------------------------------------------------------------

[[noreturn]] static void refuse(const char *name, const std::string &text) {
    throw std::invalid_argument(std::string("gcoll: ") + name + ": " + text);
}

static void check(bool is_right, const char *name, const char *text) {
    if (!is_right)
        refuse(name, text);
}

static void check_tensor(const char *name, const at::Tensor &tensor) {
    check(tensor.defined(), name, "a tensor is None");
    if (tensor.layout() != at::kStrided)
        refuse(name, std::string("a tensor is ") + (tensor.is_sparse() ? "sparse" : "not strided") +
                         "; allowed are dense tensors");
    if (tensor.device().type() != at::kCPU)
        refuse(name, "a tensor is on " + tensor.device().str() + "; allowed are tensors of the CPU");
    if (tensor.is_quantized()) // peers would read the numbers by their own scale
        refuse(name, "a tensor is quantized; allowed are plain numbers, such as those of int_repr()");
    if (tensor.is_nested())
        refuse(name, "a tensor is nested; allowed are tensors of one shape");
}

static at::Tensor &only(const char *name, Tensors &tensors) {
    if (tensors.size() != 1)
        refuse(name, "got " + std::to_string(tensors.size()) + " tensors; allowed is one for each process");
    return tensors[0];
}

static Tensors &only(const char *name, std::vector<Tensors> &lists) {
    if (lists.size() != 1)
        refuse(name,
               "got " + std::to_string(lists.size()) + " lists of tensors; allowed is one for each process");
    return lists[0];
}

static void check_same_type(const char *name, const at::Tensor &a, const at::Tensor &b) {
    if (a.scalar_type() != b.scalar_type())
        refuse(name, std::string("tensors are torch.") + c10::toString(a.scalar_type()) + " and torch." +
                         c10::toString(b.scalar_type()) + "; allowed is one type");
}

static void check_types(const char *name, const Tensors &tensors, const at::Tensor &like) {
    for (const at::Tensor &tensor : tensors) {
        check_tensor(name, tensor);
        check_same_type(name, tensor, like);
    }
}

static void check_elements(const char *name, const char *which, int64_t found, int64_t wanted) {
    if (found != wanted)
        refuse(name, std::string(which) + " has " + std::to_string(found) + " elements; needed are " +
                         std::to_string(wanted));
}

static uint32_t checked_root(const char *name, int64_t root, int size) {
    if (root < 0 || root >= size)
        refuse(name, "root is " + std::to_string(root) + "; allowed are 0 to " + std::to_string(size - 1));
    return (uint32_t)root;
}

// Whether two dense tensors have bytes in common.
static bool overlap(const at::Tensor &a, const at::Tensor &b) {
    const auto *const a_begin = static_cast<const char *>(a.data_ptr());
    const auto *const b_begin = static_cast<const char *>(b.data_ptr());
    return a.numel() > 0 && b.numel() > 0 && a_begin < b_begin + b.nbytes() && b_begin < a_begin + a.nbytes();
}

// ---- A call --------------------------------------------------------------------------------

// The tensor itself if its memory has its elements one after the other, as they are; else a copy that has. A
// view by conj() or -x.imag may share memory whose elements have other signs.
static at::Tensor plain(const at::Tensor &tensor) {
    return tensor.contiguous().resolve_conj().resolve_neg();
}

// Puts a collective together and starts it. Tensors whose memory is not plain travel as copies.
class Call {
  public:
    Call(ProcessGroupGcoll &group, gcoll_collective collective, OpType type, const char *name,
         const char *title, const Tensors &inputs, milliseconds timeout);

    // What the operation does: moves elements of this type, or reduces them.
    void move(at::ScalarType type);
    void reduce(const at::Tensor &like, const c10d::ReduceOp &op);

    void input(const at::Tensor &tensor);
    void output(const at::Tensor &tensor);
    void inputs(const Tensors &tensors);
    void outputs(const Tensors &tensors);
    // Inputs of a reduction, which may have a factor.
    void reduced_input(const at::Tensor &tensor) { input(factor_.times(tensor)); }
    void reduced_inputs(const Tensors &tensors);
    void count(int64_t elements) { call_.count = (uint64_t)elements * each_; }
    void counts(const std::vector<int64_t> &elements) { call_.counts = in_elements(elements, counts_); }
    void receive_counts(const std::vector<int64_t> &elements) {
        call_.recv_counts = in_elements(elements, receive_counts_);
    }
    // Blocks of these sizes, one for each rank: of one size, or with counts.
    void blocks(const std::vector<int64_t> &elements);
    void entries(const Tensors &tensors);
    void root(uint32_t rank) { call_.root = rank; }
    void results(const Tensors &tensors) { work_->results_ = tensors; }
    // The outputs get their bytes of `gathered` at the end.
    void unpack(const at::Tensor &gathered, const std::vector<Tensors> &outputs);
    void ends_after_earlier();

    WorkPtr start();

  private:
    at::Tensor dense(const at::Tensor &tensor);
    at::Tensor source(const at::Tensor &tensor);
    const uint64_t *in_elements(const std::vector<int64_t> &elements, std::vector<uint64_t> &counts) const;
    at::Tensor dense_output(const at::Tensor &tensor);
    bool is_output_in_part(const at::Tensor &tensor) const;

    ProcessGroupGcoll &group_;
    Channel &channel_;
    c10::intrusive_ptr<GcollWork> work_;
    gcoll_collective_call call_;
    gcoll_collective_options options_;
    uint64_t each_ = 1;
    Factor factor_; // of inputs that are reduced
    Tensors dense_outputs_;
    std::vector<const void *> inputs_;
    std::vector<void *> outputs_;
    std::vector<uint64_t> counts_, receive_counts_;
};

Call::Call(ProcessGroupGcoll &group, gcoll_collective collective, OpType type, const char *name,
           const char *title, const Tensors &inputs, milliseconds timeout)
    : group_(group), channel_(*group.channel_),
      work_(c10::make_intrusive<GcollWork>(group.channel_, type, name, title, inputs)) {
    gcoll_collective_options_init(&options_);
    gcoll_collective_call_init(&call_);
    call_.collective = collective;
    call_.options = &options_;
    options_.done = GcollWork::on_done;
    options_.done_arg = work_.get();
    if (!channel_.settings().algorithm.empty() && collective == GCOLL_ALLREDUCE)
        call_.algorithm = channel_.settings().algorithm.c_str();
    if (timeout != c10d::kUnsetTimeout)
        options_.timeout_ms = std::clamp<int64_t>(timeout.count(), 1, LONGEST_MS);
}

void Call::move(at::ScalarType type) {
    const Elements elements = elements_to_move(type);
    call_.type = elements.type;
    each_ = elements.each;
}

void Call::reduce(const at::Tensor &like, const c10d::ReduceOp &op) {
    const Reduction reduction = reduction_of(work_->name_, like.scalar_type(), op);
    call_.type = reduction.type;
    call_.op = reduction.op;
    factor_ = factor_of_premul(work_->name_, like, op);
    options_.prescale = factor_.prescale;
}

void Call::reduced_inputs(const Tensors &tensors) {
    Tensors products;
    for (const at::Tensor &tensor : tensors)
        products.push_back(factor_.times(tensor));
    inputs(products);
}

at::Tensor Call::dense(const at::Tensor &tensor) {
    check_tensor(work_->name_, tensor);
    at::NoGradGuard no_grad;
    at::Tensor dense = plain(tensor);
    work_->kept_.push_back(dense);
    return dense;
}

at::Tensor Call::dense_output(const at::Tensor &tensor) {
    at::Tensor result = dense(tensor);
    if (!result.is_same(tensor))
        work_->staged_.push_back({tensor, result});
    dense_outputs_.push_back(result);
    return result;
}

// gcoll takes an input that is an output, or this rank's block of one. Others get a copy.
bool Call::is_output_in_part(const at::Tensor &tensor) const {
    const auto rank = (uint64_t)group_.getRank();
    for (size_t i = 0; i < dense_outputs_.size(); i++) {
        const at::Tensor &output = dense_outputs_[i];
        if (!overlap(tensor, output))
            continue;
        const auto *const begin = static_cast<const char *>(output.data_ptr());
        const bool is_whole = tensor.data_ptr() == begin && tensor.nbytes() == output.nbytes();
        const bool is_block = call_.collective == GCOLL_ALLGATHER && outputs_.empty() &&
                              tensor.data_ptr() == begin + rank * tensor.nbytes();
        const bool is_listed = call_.collective == GCOLL_ALLGATHER && is_whole && i == rank;
        const bool is_reduced = is_whole && outputs_.empty() &&
                                (call_.collective == GCOLL_ALLREDUCE || call_.collective == GCOLL_REDUCE);
        if (!is_block && !is_listed && !is_reduced)
            return true;
    }
    return false;
}

void Call::output(const at::Tensor &tensor) {
    call_.output = dense_output(tensor).data_ptr();
}

// Outputs first: an input that shares bytes with them may need a copy.
at::Tensor Call::source(const at::Tensor &tensor) {
    at::Tensor source = dense(tensor);
    if (is_output_in_part(source)) {
        source = source.clone();
        work_->kept_.push_back(source);
    }
    return source;
}

void Call::input(const at::Tensor &tensor) {
    call_.input = source(tensor).data_ptr();
}

void Call::outputs(const Tensors &tensors) {
    outputs_.reserve(tensors.size());
    for (const at::Tensor &tensor : tensors)
        outputs_.push_back(dense_output(tensor).data_ptr());
    call_.outputs = outputs_.data();
}

void Call::inputs(const Tensors &tensors) {
    inputs_.reserve(tensors.size());
    for (const at::Tensor &tensor : tensors)
        inputs_.push_back(source(tensor).data_ptr());
    call_.inputs = inputs_.data();
}

// Counts of a tensor's elements as counts of gcoll's.
const uint64_t *Call::in_elements(const std::vector<int64_t> &elements, std::vector<uint64_t> &counts) const {
    for (const int64_t n : elements)
        counts.push_back((uint64_t)n * each_);
    return counts.data();
}

void Call::blocks(const std::vector<int64_t> &elements) {
    if (std::all_of(elements.begin(), elements.end(), [&](int64_t n) { return n == elements[0]; }))
        count(elements[0]);
    else
        counts(elements);
}

// Buffers that are reduced as one vector, in place.
void Call::entries(const Tensors &tensors) {
    std::vector<int64_t> elements;
    for (const at::Tensor &tensor : tensors)
        elements.push_back(tensor.numel());
    outputs(tensors);
    counts(elements);
    call_.entries = (uint32_t)tensors.size();
}

// Tensors that travel as bytes of one vector start at multiples of 16, which suits all their types.
static int64_t padded(size_t bytes) {
    return (int64_t)(bytes + 15) / 16 * 16;
}

void Call::unpack(const at::Tensor &gathered, const std::vector<Tensors> &outputs) {
    auto *next = static_cast<char *>(gathered.data_ptr());
    for (const Tensors &list : outputs)
        for (const at::Tensor &output : list) {
            work_->staged_.push_back({output, at::from_blob(next, output.sizes(), output.options())});
            next += padded(output.nbytes());
        }
}

void Call::ends_after_earlier() {
    work_->kind_ = GcollWork::Kind::BARRIER;
    work_->earlier_ = channel_.collectives_in_flight();
}

WorkPtr Call::start() {
    std::lock_guard<std::mutex> order(channel_.start_lock);
    work_->number_ = channel_.started;
    channel_.add(work_);
    const gcoll_status status = gcoll_call_start(channel_.context(), &call_, &work_->request_);
    if (status != GCOLL_OK) {
        channel_.remove(work_.get());
        throw_refusal(work_->name_, status);
    }
    channel_.started++;
    work_->give_up_claim();
    return work_;
}

// ---- The group -----------------------------------------------------------------------------

ProcessGroupGcoll::ProcessGroupGcoll(const c10::intrusive_ptr<c10d::Store> &store, const Settings &settings)
    : Base((int)settings.rank, (int)settings.size), channel_(Channel::open(store, settings)) {}

// Python destroys a group with its lock held, which callbacks of futures need.
ProcessGroupGcoll::~ProcessGroupGcoll() {
    if (!channel_->belongs_to_this_process()) {
        new std::shared_ptr<Channel>(channel_); // never freed: its thread is the parent's
        return;
    }
    PyThreadState *const state = Py_IsInitialized() && PyGILState_Check() ? PyEval_SaveThread() : nullptr;
    channel_->close();
    if (state)
        PyEval_RestoreThread(state);
}

uint64_t ProcessGroupGcoll::getSequenceNumberForGroup() {
    std::lock_guard<std::mutex> order(channel_->start_lock);
    return channel_->started;
}

void ProcessGroupGcoll::break_group(const std::string &reason) {
    channel_->abort(reason);
}

int64_t ProcessGroupGcoll::culprit() const {
    return channel_->culprit();
}

// ---- Reductions ----------------------------------------------------------------------------

WorkPtr ProcessGroupGcoll::allreduce(Tensors &tensors, const c10d::AllreduceOptions &options) {
    at::Tensor &tensor = only("allreduce", tensors);
    if (tensor.is_sparse())
        return allreduce_sparse_tensor(tensor, options);
    check_tensor("allreduce", tensor);
    Call call(*this, GCOLL_ALLREDUCE, OpType::ALLREDUCE, "allreduce", "gcoll:all_reduce", tensors,
              options.timeout);
    call.reduce(tensor, options.reduceOp);
    call.output(tensor);
    call.reduced_input(tensor);
    call.count(tensor.numel());
    call.results(tensors);
    return call.start();
}

WorkPtr ProcessGroupGcoll::allreduce_coalesced(Tensors &tensors,
                                               const c10d::AllreduceCoalescedOptions &options) {
    const char *const name = "allreduce_coalesced";
    check(!tensors.empty(), name, "got no tensors");
    check(options.reduceOp.op_ != c10d::ReduceOp::PREMUL_SUM, name,
          "op is PREMUL_SUM; only allreduce has it");
    check_types(name, tensors, tensors[0]);
    Call call(*this, GCOLL_ALLREDUCE, OpType::ALLREDUCE_COALESCED, name, "gcoll:all_reduce", tensors,
              options.timeout);
    call.reduce(tensors[0], options.reduceOp);
    call.entries(tensors);
    call.results(tensors);
    return call.start();
}

WorkPtr ProcessGroupGcoll::reduce(Tensors &tensors, const c10d::ReduceOptions &options) {
    at::Tensor &tensor = only("reduce", tensors);
    check_tensor("reduce", tensor);
    Call call(*this, GCOLL_REDUCE, OpType::REDUCE, "reduce", "gcoll:reduce", tensors, options.timeout);
    call.root(checked_root("reduce", options.rootRank, size_));
    call.reduce(tensor, options.reduceOp);
    call.output(tensor);
    call.reduced_input(tensor);
    call.count(tensor.numel());
    call.results(tensors);
    return call.start();
}

// The elements of each tensor of a list that has one for each rank.
static std::vector<int64_t> elements_of(const char *name, const Tensors &tensors, int size,
                                        const at::Tensor &like) {
    if (tensors.size() != (size_t)size)
        refuse(name, "the list has " + std::to_string(tensors.size()) + " tensors; needed are " +
                         std::to_string(size));
    check_types(name, tensors, like);
    std::vector<int64_t> elements;
    for (const at::Tensor &tensor : tensors)
        elements.push_back(tensor.numel());
    return elements;
}

// Checks a list that has a tensor of the size of `like` for each rank.
static void check_blocks(const char *name, const char *which, const Tensors &tensors, int size,
                         const at::Tensor &like) {
    for (const int64_t elements : elements_of(name, tensors, size, like))
        check_elements(name, which, elements, like.numel());
}

WorkPtr ProcessGroupGcoll::reduce_scatter(Tensors &outputs, std::vector<Tensors> &inputs,
                                          const c10d::ReduceScatterOptions &options) {
    const char *const name = "reduce_scatter";
    at::Tensor &output = only(name, outputs);
    const Tensors &parts = only(name, inputs);
    check_tensor(name, output);
    const std::vector<int64_t> elements = elements_of(name, parts, size_, output);
    check_elements(name, "the output", output.numel(), elements[(size_t)rank_]);
    Call call(*this, GCOLL_REDUCE_SCATTER, OpType::REDUCE_SCATTER, name, "gcoll:reduce_scatter", parts,
              options.timeout);
    call.reduce(output, options.reduceOp);
    call.output(output);
    call.reduced_inputs(parts);
    call.blocks(elements);
    call.results(outputs);
    return call.start();
}

WorkPtr ProcessGroupGcoll::_reduce_scatter_base(at::Tensor &output, at::Tensor &input,
                                                const c10d::ReduceScatterOptions &options) {
    const char *const name = "_reduce_scatter_base";
    check_tensor(name, output);
    check_tensor(name, input);
    check_same_type(name, output, input);
    check_elements(name, "the input", input.numel(), output.numel() * size_);
    Call call(*this, GCOLL_REDUCE_SCATTER, OpType::_REDUCE_SCATTER_BASE, name, "gcoll:_reduce_scatter_base",
              {input}, options.timeout);
    call.reduce(output, options.reduceOp);
    call.output(output);
    call.reduced_input(input);
    call.count(output.numel());
    call.results({output});
    return call.start();
}

// ---- Data movement -------------------------------------------------------------------------

WorkPtr ProcessGroupGcoll::broadcast(Tensors &tensors, const c10d::BroadcastOptions &options) {
    at::Tensor &tensor = only("broadcast", tensors);
    check_tensor("broadcast", tensor);
    Call call(*this, GCOLL_BROADCAST, OpType::BROADCAST, "broadcast", "gcoll:broadcast", tensors,
              options.timeout);
    call.root(checked_root("broadcast", options.rootRank, size_));
    call.move(tensor.scalar_type());
    call.output(tensor);
    call.count(tensor.numel());
    call.results(tensors);
    return call.start();
}

WorkPtr ProcessGroupGcoll::allgather(std::vector<Tensors> &outputs, Tensors &inputs,
                                     const c10d::AllgatherOptions &options) {
    const char *const name = "allgather";
    at::Tensor &input = only(name, inputs);
    const Tensors &parts = only(name, outputs);
    check_tensor(name, input);
    const std::vector<int64_t> elements = elements_of(name, parts, size_, input);
    check_elements(name, "the input", input.numel(), elements[(size_t)rank_]);
    Call call(*this, GCOLL_ALLGATHER, OpType::ALLGATHER, name, "gcoll:all_gather", inputs, options.timeout);
    call.move(input.scalar_type());
    call.outputs(parts);
    call.input(input);
    call.blocks(elements);
    call.results(parts);
    return call.start();
}

WorkPtr ProcessGroupGcoll::_allgather_base(at::Tensor &output, at::Tensor &input,
                                           const c10d::AllgatherOptions &options) {
    const char *const name = "_allgather_base";
    check_tensor(name, output);
    check_tensor(name, input);
    check_same_type(name, output, input);
    check_elements(name, "the output", output.numel(), input.numel() * size_);
    Call call(*this, GCOLL_ALLGATHER, OpType::_ALLGATHER_BASE, name, "gcoll:_allgather_base", {input},
              options.timeout);
    call.move(input.scalar_type());
    call.output(output);
    call.input(input);
    call.count(input.numel());
    call.results({output});
    return call.start();
}

// Bytes of all tensors of a list, one after the other.
static int64_t bytes_of(const char *name, const Tensors &tensors) {
    int64_t bytes = 0;
    for (const at::Tensor &tensor : tensors) {
        check_tensor(name, tensor);
        bytes += padded(tensor.nbytes());
    }
    return bytes;
}

// Tensors of any types travel as one vector of bytes.
WorkPtr ProcessGroupGcoll::allgather_coalesced(std::vector<Tensors> &outputs, Tensors &inputs,
                                               const c10d::AllgatherOptions &options) {
    const char *const name = "allgather_coalesced";
    check(!inputs.empty(), name, "got no tensors");
    if (outputs.size() != (size_t)size_)
        refuse(name, "got " + std::to_string(outputs.size()) + " lists of outputs; needed are " +
                         std::to_string(size_));
    const int64_t bytes = bytes_of(name, inputs);
    for (const Tensors &list : outputs) {
        check(list.size() == inputs.size(), name, "a list of outputs is not as long as the inputs");
        bytes_of(name, list);
        for (size_t i = 0; i < list.size(); i++) {
            check_same_type(name, list[i], inputs[i]);
            check_elements(name, "an output", list[i].numel(), inputs[i].numel());
        }
    }
    at::NoGradGuard no_grad;
    const auto as_bytes = at::TensorOptions().dtype(at::kByte);
    at::Tensor packed = at::zeros({bytes}, as_bytes), gathered = at::empty({bytes * size_}, as_bytes);
    Call call(*this, GCOLL_ALLGATHER, OpType::ALLGATHER_COALESCED, name, "gcoll:all_gather", inputs,
              options.timeout);
    call.move(at::kByte);
    call.output(gathered);
    int64_t offset = 0;
    for (const at::Tensor &input : inputs) {
        const at::Tensor dense = plain(input);
        if (dense.nbytes() > 0)
            memcpy(static_cast<char *>(packed.data_ptr()) + offset, dense.data_ptr(), dense.nbytes());
        offset += padded(dense.nbytes());
    }
    call.input(packed);
    call.count(bytes);
    Tensors results;
    call.unpack(gathered, outputs);
    for (const Tensors &list : outputs)
        results.insert(results.end(), list.begin(), list.end());
    call.results(results);
    return call.start();
}

WorkPtr ProcessGroupGcoll::gather(std::vector<Tensors> &outputs, Tensors &inputs,
                                  const c10d::GatherOptions &options) {
    const char *const name = "gather";
    at::Tensor &input = only(name, inputs);
    const uint32_t root = checked_root(name, options.rootRank, size_);
    const bool is_root = (int)root == rank_;
    check_tensor(name, input);
    if (is_root)
        check_blocks(name, "an output", only(name, outputs), size_, input);
    else
        check(outputs.empty() || (outputs.size() == 1 && outputs[0].empty()), name,
              "there are outputs on a rank that is not the root");
    Call call(*this, GCOLL_GATHER, OpType::GATHER, name, "gcoll:gather", inputs, options.timeout);
    call.root(root);
    call.move(input.scalar_type());
    if (is_root)
        call.outputs(outputs[0]);
    call.input(input);
    call.count(input.numel());
    call.results(is_root ? outputs[0] : Tensors());
    return call.start();
}

WorkPtr ProcessGroupGcoll::scatter(Tensors &outputs, std::vector<Tensors> &inputs,
                                   const c10d::ScatterOptions &options) {
    const char *const name = "scatter";
    at::Tensor &output = only(name, outputs);
    const uint32_t root = checked_root(name, options.rootRank, size_);
    const bool is_root = (int)root == rank_;
    check_tensor(name, output);
    if (is_root)
        check_blocks(name, "an input", only(name, inputs), size_, output);
    else
        check(inputs.empty() || (inputs.size() == 1 && inputs[0].empty()), name,
              "there are inputs on a rank that is not the root");
    Call call(*this, GCOLL_SCATTER, OpType::SCATTER, name, "gcoll:scatter", is_root ? inputs[0] : outputs,
              options.timeout);
    call.root(root);
    call.move(output.scalar_type());
    call.output(output);
    if (is_root)
        call.inputs(inputs[0]);
    call.count(output.numel());
    call.results(outputs);
    return call.start();
}

// The elements that each rank gets of, or gives to, a tensor that is split along its first dimension.
static std::vector<int64_t> split_elements(const char *name, const at::Tensor &tensor,
                                           const std::vector<int64_t> &splits, int size) {
    check(tensor.dim() > 0, name, "a tensor has no dimension to split");
    const int64_t rows = tensor.size(0), row = rows > 0 ? tensor.numel() / rows : 1;
    if (splits.empty()) {
        if (rows % size != 0)
            refuse(name, "dimension 0 is " + std::to_string(rows) + ", which " + std::to_string(size) +
                             " ranks cannot divide equally");
        return std::vector<int64_t>((size_t)size, rows / size * row);
    }
    std::vector<int64_t> elements;
    int64_t sum = 0;
    for (const int64_t split : splits) {
        check(split >= 0, name, "a split is negative");
        sum += split;
        elements.push_back(split * row);
    }
    if (splits.size() != (size_t)size || sum != rows)
        refuse(name, "got " + std::to_string(splits.size()) + " splits of " + std::to_string(sum) +
                         " rows in all; needed are " + std::to_string(size) + " of " + std::to_string(rows));
    return elements;
}

WorkPtr ProcessGroupGcoll::alltoall_base(at::Tensor &output, at::Tensor &input,
                                         std::vector<int64_t> &output_splits,
                                         std::vector<int64_t> &input_splits,
                                         const c10d::AllToAllOptions &options) {
    const char *const name = "alltoall_base";
    check_tensor(name, output);
    check_tensor(name, input);
    check_same_type(name, output, input);
    const std::vector<int64_t> receives = split_elements(name, output, output_splits, size_),
                               sends = split_elements(name, input, input_splits, size_);
    const bool is_equal = output_splits.empty() && input_splits.empty();
    if (is_equal)
        check_elements(name, "the output", output.numel(), input.numel());
    Call call(*this, GCOLL_ALLTOALL, OpType::ALLTOALL_BASE, name, "gcoll:all_to_all", {input},
              options.timeout);
    call.move(input.scalar_type());
    call.output(output);
    call.input(input);
    if (is_equal) {
        call.count(sends[0]);
    } else {
        call.counts(sends);
        call.receive_counts(receives);
    }
    call.results({output});
    return call.start();
}

// Sizes of a list may differ, and no rank knows those of others. So this is always the form with counts.
WorkPtr ProcessGroupGcoll::alltoall(Tensors &outputs, Tensors &inputs, const c10d::AllToAllOptions &options) {
    const char *const name = "alltoall";
    check(!inputs.empty() && !outputs.empty(), name, "got no tensors");
    const std::vector<int64_t> receives = elements_of(name, outputs, size_, inputs[0]),
                               sends = elements_of(name, inputs, size_, inputs[0]);
    Call call(*this, GCOLL_ALLTOALL, OpType::ALLTOALL, name, "gcoll:all_to_all", inputs, options.timeout);
    call.move(inputs[0].scalar_type());
    call.outputs(outputs);
    call.inputs(inputs);
    call.counts(sends);
    call.receive_counts(receives);
    call.results(outputs);
    return call.start();
}

// ---- Barriers ------------------------------------------------------------------------------

WorkPtr ProcessGroupGcoll::barrier(const c10d::BarrierOptions &options) {
    Call call(*this, GCOLL_BARRIER, OpType::BARRIER, "barrier", "gcoll:barrier", {}, options.timeout);
    call.ends_after_earlier();
    return call.start();
}

// What rank 0 says of ranks that have not come. The words are those of torch, which tests and users look for.
static std::string late_text(const std::vector<uint8_t> &here, bool wait_all_ranks, int64_t timeout_ms) {
    std::string ranks;
    int late = 0;
    for (size_t rank = 0; rank < here.size(); rank++) {
        if (here[rank] || (late > 0 && !wait_all_ranks))
            continue;
        ranks += (late++ > 0 ? ", " : "") + std::to_string(rank);
    }
    return (wait_all_ranks ? "Ranks " : "Rank ") + ranks + " failed to pass monitoredBarrier in " +
           std::to_string(timeout_ms) + " ms";
}

void ProcessGroupGcoll::monitoredBarrier(const c10d::BarrierOptions &options, bool wait_all_ranks) {
    const bool is_unset = options.timeout == c10d::kUnsetTimeout;
    const int64_t timeout_ms = is_unset ? channel_->settings().timeout_ms : options.timeout.count();
    const std::string me = "Rank " + std::to_string(rank_);
    if (timeout_ms <= 0 && size_ > 1)
        throw std::runtime_error("gcoll: " + me + " timed out in monitoredBarrier after " +
                                 std::to_string(timeout_ms) + " ms");
    std::vector<uint8_t> here((size_t)size_, 0);
    const gcoll_status status = gcoll_barrier_report(
        channel_->context(), std::clamp<int64_t>(timeout_ms, 1, LONGEST_MS), here.data());
    if (status != GCOLL_OK)
        throw_refusal("monitoredBarrier", status);
    if (std::all_of(here.begin(), here.end(), [](uint8_t is_here) { return is_here != 0; }))
        return;
    if (rank_ == 0)
        throw std::runtime_error("gcoll: [Rank 0]: " + late_text(here, wait_all_ranks, timeout_ms));
    throw std::runtime_error("gcoll: " + me +
                             " successfully reached monitoredBarrier, but received errors while waiting for "
                             "send/recv from rank 0. Please check rank 0 logs for faulty rank.");
}

// ---- Messages ------------------------------------------------------------------------------

// peer: -1 for a receive from any rank.
WorkPtr ProcessGroupGcoll::start_message(const c10::intrusive_ptr<GcollWork> &work, at::Tensor &tensor,
                                         int peer, int tag) {
    check_tensor(work->name_, tensor);
    check(tensor.is_contiguous(), work->name_, "the tensor has to be contiguous");
    check(!tensor.is_conj() && !tensor.is_neg(), work->name_,
          "the tensor is a view that changes signs; resolve_conj() and resolve_neg() make one that can be "
          "sent");
    check(tag >= 0, work->name_, "tag is negative");
    if (peer >= size_ || peer == rank_)
        refuse(work->name_, "the peer is " + std::to_string(peer) + "; allowed are 0 to " +
                                std::to_string(size_ - 1) + " without this rank");
    channel_->end_forgotten_messages();
    work->kept_.push_back(tensor);
    work->results_.push_back(tensor);
    work->expected_bytes_ = tensor.nbytes();
    std::vector<uint32_t> peers;
    for (int rank = 0; rank < size_; rank++)
        if (rank != rank_)
            peers.push_back((uint32_t)rank);

    std::lock_guard<std::mutex> order(channel_->start_lock);
    work->number_ = channel_->started;
    gcoll_pair *pair = nullptr;
    gcoll_status status = GCOLL_OK;
    if (peer >= 0)
        status = gcoll_context_pair(channel_->context(), (uint32_t)peer, &pair);
    if (status != GCOLL_OK)
        throw_refusal(work->name_, status);
    if (work->kind_ == GcollWork::Kind::SEND)
        status =
            gcoll_pair_send_start(pair, (uint32_t)tag, tensor.data_ptr(), tensor.nbytes(), &work->request_);
    else if (pair)
        status =
            gcoll_pair_recv_start(pair, (uint32_t)tag, tensor.data_ptr(), tensor.nbytes(), &work->request_);
    else
        status =
            gcoll_context_recv_any_start(channel_->context(), peers.data(), (uint32_t)peers.size(),
                                         (uint32_t)tag, tensor.data_ptr(), tensor.nbytes(), &work->request_);
    if (status != GCOLL_OK)
        throw_refusal(work->name_, status);
    channel_->started++;
    channel_->add(work);
    work->give_up_claim();
    return work;
}

WorkPtr ProcessGroupGcoll::send(Tensors &tensors, int to, int tag) {
    at::Tensor &tensor = only("send", tensors);
    check(to >= 0, "send", "the peer is negative");
    auto work = c10::make_intrusive<GcollWork>(channel_, OpType::SEND, "send", "gcoll:send", tensors);
    work->kind_ = GcollWork::Kind::SEND;
    return start_message(work, tensor, to, tag);
}

WorkPtr ProcessGroupGcoll::recv(Tensors &tensors, int from, int tag) {
    at::Tensor &tensor = only("recv", tensors);
    check(from >= 0, "recv", "the peer is negative");
    auto work = c10::make_intrusive<GcollWork>(channel_, OpType::RECV, "recv", "gcoll:recv", tensors);
    work->kind_ = GcollWork::Kind::RECEIVE;
    return start_message(work, tensor, from, tag);
}

WorkPtr ProcessGroupGcoll::recvAnysource(Tensors &tensors, int tag) {
    at::Tensor &tensor = only("recv from any rank", tensors);
    auto work = c10::make_intrusive<GcollWork>(channel_, OpType::RECVANYSOURCE, "recv from any rank",
                                               "gcoll:recvAnySource", tensors);
    work->kind_ = GcollWork::Kind::RECEIVE;
    return start_message(work, tensor, -1, tag);
}

// ---- Sparse tensors ------------------------------------------------------------------------

// Sums sparse tensors: gathers the indices and values of all ranks, and adds them up. Ends before it returns,
// because a rank needs the sizes of others first.
WorkPtr ProcessGroupGcoll::allreduce_sparse_tensor(at::Tensor &tensor,
                                                   const c10d::AllreduceOptions &options) {
    const char *const name = "allreduce of a sparse tensor";
    check(options.reduceOp.op_ == c10d::ReduceOp::SUM, name, "only SUM is allowed");
    check(tensor.layout() == at::kSparse, name, "the layout is not COO");
    if (tensor.device().type() != at::kCPU)
        refuse(name, "the tensor is on " + tensor.device().str() + "; allowed are tensors of the CPU");
    at::NoGradGuard no_grad;
    const at::Tensor mine = tensor.coalesce();
    const at::Tensor indices = mine._indices().contiguous(), values = mine._values().contiguous();

    // The shape, and the number of entries, of each rank.
    std::vector<int64_t> shape = {mine.sparse_dim(), mine.dense_dim()};
    shape.insert(shape.end(), mine.sizes().begin(), mine.sizes().end());
    const auto width = (int64_t)shape.size() + 1;
    shape.push_back(mine._nnz());
    at::Tensor row = at::tensor(shape, at::kLong), table = at::empty({size_ * width}, at::kLong);
    _allgather_base(table, row, {})->wait();
    Tensors all_indices, all_values;
    for (int64_t rank = 0; rank < size_; rank++) {
        const at::Tensor theirs = table.narrow(0, rank * width, width);
        if (!at::equal(theirs.narrow(0, 0, width - 1), row.narrow(0, 0, width - 1)))
            refuse(name, "the shape of " + channel_->rank_text(rank) + " differs from that of this rank");
        const auto entries = theirs[width - 1].item<int64_t>();
        all_indices.push_back(at::empty({indices.size(0), entries}, indices.options()));
        std::vector<int64_t> sizes = values.sizes().vec();
        sizes[0] = entries;
        all_values.push_back(at::empty(sizes, values.options()));
    }
    std::vector<Tensors> outputs = {all_indices};
    Tensors inputs = {indices};
    allgather(outputs, inputs, {})->wait();
    outputs = {all_values};
    inputs = {values};
    allgather(outputs, inputs, {})->wait();

    at::Tensor sum = at::zeros_like(mine);
    for (size_t rank = 0; rank < (size_t)size_; rank++)
        sum +=
            at::_sparse_coo_tensor_unsafe(all_indices[rank], all_values[rank], mine.sizes(), mine.options());
    tensor.copy_(sum.coalesce());
    auto work = c10::make_intrusive<GcollWork>(channel_, OpType::ALLREDUCE, name, nullptr, Tensors());
    work->results_ = {tensor};
    work->has_ended_ = true;
    work->finish(nullptr);
    return work;
}

} // namespace gcoll_torch
