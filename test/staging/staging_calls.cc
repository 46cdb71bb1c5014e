#include "test/staging/staging_calls.h"

#include <algorithm>
#include <cstring>

namespace staging {

namespace {

constexpr uint8_t kBefore = 0x5a; // in outputs, and around buffers in host memory
constexpr size_t kGuard = 16;

uint32_t pick(std::mt19937 &random, uint32_t of) {
    return static_cast<uint32_t>(random() % of);
}

// Not commutative: keeps what the higher rank has.
gcoll_status keep_right(void *dst, const void *, const void *b, uint64_t count, gcoll_type type, void *) {
    memmove(dst, b, count * gcoll_type_size(type));
    return GCOLL_OK;
}

// Spoils what the one above computes.
gcoll_status refuse_all(void *dst, const void *, const void *, uint64_t count, gcoll_type type, void *) {
    memset(dst, 0x77, count * gcoll_type_size(type));
    return gcoll_store_error(GCOLL_ERR_IO, "it does not want to");
}

} // namespace

// ---- Contexts with devices -----------------------------------------------------------------------------

gcoll_accelerator *accelerate(gcoll_context *context, Machine &machine, bool times) {
    Machine::Here here(machine);
    gcoll_accelerator_options options = {};
    options.times = times;
    const gcoll_status status = gcoll_context_accelerate(context, &pretend::table, &options);
    EXPECT_GCOLL_OK(status);
    return status == GCOLL_OK ? machine.opened() : nullptr;
}

void expect_clean(Machine &machine) {
    EXPECT_EQ(machine.violations(), std::vector<std::string>());
    const pretend::Statistics left = machine.statistics();
    EXPECT_EQ(left.tickets, 0u);
    EXPECT_EQ(left.gates, 0u);
    EXPECT_EQ(left.pinned_bytes, 0u);
    EXPECT_EQ(left.open, 0u) << "accelerators were not closed";
}

void run_staged(const gcoll_test::Job &job, Machine &machine, const Body &body) {
    gcoll_test::run_threads(job, [&](uint32_t rank, gcoll_context *context) {
        gcoll_accelerator *accelerator = accelerate(context, machine);
        if (accelerator)
            body(rank, context, accelerator);
    });
    expect_clean(machine);
}

// ---- Layouts -------------------------------------------------------------------------------------------

namespace {

Place random_place(std::mt19937 &random, const pretend::Kit &kit, bool only_devices) {
    static const gcoll_memory_kind kinds[] = {GCOLL_MEMORY_DEVICE, GCOLL_MEMORY_DEVICE, GCOLL_MEMORY_MANAGED,
                                              GCOLL_MEMORY_HOST, GCOLL_MEMORY_PINNED};
    Place place;
    place.kind = kinds[pick(random, only_devices ? 3 : 5)];
    place.device = place.is_on_device() ? pick(random, kit.devices) : 0;
    return place;
}

bool may_be_in_place(const Call &call, uint32_t rank) {
    switch (call.kind) {
    case kReduce:
    case kGather:
    case kGatherV:
    case kScatter:
    case kScatterV:
        return rank == call.root;
    case kAlltoall:
    case kAlltoallV:
    case kPairwiseExchange:
        return false;
    default:
        return true;
    }
}

} // namespace

namespace {

// Whether devices can reduce: where several inputs are, there must be an output to do it in.
bool can_reduce(const Layout &layout) {
    for (const Place &in : layout.in) {
        const auto alike = [&](const Place &p) { return p.memory() == in.memory(); };
        if (in.is_on_device() && std::count_if(layout.in.begin(), layout.in.end(), alike) > 1 &&
            std::none_of(layout.out.begin(), layout.out.end(), alike))
            return false;
    }
    return true;
}

// Whether they can as peers, all together: some output lies where some input does.
bool can_reduce_as_peers(const Layout &layout) {
    return std::any_of(
        layout.in.begin(), layout.in.end(),
        [&](const Place &in) {
            return std::any_of(
                layout.out.begin(), layout.out.end(),
                [&](const Place &out) { return out.memory() == in.memory(); });
        });
}

} // namespace

Layout random_layout(std::mt19937 &random, const Call &call, uint32_t rank, const pretend::Kit &kit) {
    const bool is_cuda = call.algorithm.rfind("cuda_", 0) == 0; // refuses ranks that have no device
    Layout layout;
    layout.in_place = call.kind == kBroadcast || (may_be_in_place(call, rank) && pick(random, 2) == 0);
    const uint32_t way = pick(random, 6), device = pick(random, kit.devices);
    for (uint32_t k = 0; k < call.buffers[rank]; k++) {
        Place in, out;
        if (way < 4 || is_cuda) { // on one device, or on all in turn
            in.kind = GCOLL_MEMORY_DEVICE;
            in.device = (device + (way % 2 ? k : 0)) % kit.devices;
        } else if (way == 4) {
            in = random_place(random, kit, false);
        }
        out = !layout.in_place && pick(random, 5) == 0 ? random_place(random, kit, way < 4 || is_cuda) : in;
        layout.in.push_back(in);
        layout.out.push_back(out);
    }
    layout.is_late = pick(random, 2) == 0;
    layout.has_streams = pick(random, 2) == 0;
    for (uint32_t k = 0; k < call.buffers[rank]; k++) // a stream is of one device
        layout.has_streams = layout.has_streams && layout.in[k].memory() == layout.out[k].memory();
    layout.is_declared = pick(random, 3) == 0;
    const bool hosts =
        std::any_of(layout.in.begin(), layout.in.end(), [](const Place &p) { return !p.is_on_device(); }) ||
        std::any_of(layout.out.begin(), layout.out.end(), [](const Place &p) { return !p.is_on_device(); });
    const bool by_host = (call.op == GCOLL_USER && call.reduces()) || !can_reduce(layout) ||
                         (call.scatters_reduced() && call.buffers[rank] > 1);
    static const gcoll_memory_local locals[] = {GCOLL_MEMORY_LOCAL_AUTO, GCOLL_MEMORY_LOCAL_HOST,
                                                GCOLL_MEMORY_LOCAL_DEVICE, GCOLL_MEMORY_LOCAL_PEER};
    const bool by_peers = kit.peers && !hosts && can_reduce_as_peers(layout);
    layout.local = locals[pick(random, by_host ? 2 : by_peers ? 4 : 3)];
    return layout;
}

// ---- Fields --------------------------------------------------------------------------------------------

Field::Field(Machine &machine, const Place &place, uint64_t bytes)
    : machine_(machine), place_(place), bytes_(bytes) {
    if (place.kind == GCOLL_MEMORY_HOST) {
        host_.assign(bytes + 2 * kGuard, kBefore);
        data_ = host_.data() + kGuard;
    } else {
        data_ = static_cast<uint8_t *>(machine.allocate(place.device, bytes, place.kind));
    }
}

Field::~Field() {
    if (place_.kind != GCOLL_MEMORY_HOST)
        machine_.free(data_);
}

void Field::write(uint64_t offset, const Bytes &from) {
    if (place_.kind == GCOLL_MEMORY_HOST && !from.empty())
        memcpy(data_ + offset, from.data(), from.size());
    else
        machine_.write(data_ + offset, from.data(), from.size());
}

Bytes Field::read(uint64_t offset, uint64_t bytes) const {
    Bytes content(bytes);
    if (place_.kind == GCOLL_MEMORY_HOST && bytes > 0)
        memcpy(content.data(), data_ + offset, bytes);
    else
        machine_.read(data_ + offset, content.data(), bytes);
    return content;
}

bool Field::is_intact() const {
    for (size_t i = 0; !host_.empty() && i < kGuard; i++)
        if (host_[i] != kBefore || host_[host_.size() - 1 - i] != kBefore)
            return false;
    return true;
}

// ---- Flights -------------------------------------------------------------------------------------------

Flight::Flight(Problem &problem, uint32_t rank, const Layout &layout, Machine &machine)
    : problem_(problem), call_(problem.call), rank_(rank), layout_(layout), machine_(machine),
      form_(problem.call.form) {
    const size_t size = gcoll_type_size(call_.type);
    in_bytes_ = problem.input_elements(rank) * size;
    out_bytes_ = problem.output_elements(rank) * size;
    if (layout.in_place && call_.kind != kBroadcast && in_bytes_ < out_bytes_)
        in_shift_ = call_.offset(rank) * size;
    if (layout.in_place && in_bytes_ > out_bytes_)
        out_shift_ = call_.offset(rank) * size;
    for (uint32_t k = 0; k < call_.buffers[rank]; k++) {
        if (!layout.in_place)
            in_.push_back(std::make_unique<Field>(machine, layout.in[k], in_bytes_));
        out_.push_back(std::make_unique<Field>(
            machine, layout.out[k], layout.in_place ? std::max(in_bytes_, out_bytes_) : out_bytes_));
        const Place &place = layout.out[k];
        streams_.push_back(layout.has_streams && place.is_on_device() ? machine.new_stream(place.device)
                                                                      : nullptr);
    }
}

Flight::~Flight() {
    gcoll_operation_destroy(operation_);
}

void *Flight::in(uint32_t k) const {
    if (layout_.in_place)
        return out_[k]->data() + in_shift_;
    return in_bytes_ > 0 ? in_[k]->data() : nullptr;
}

void *Flight::out(uint32_t k) const {
    return out_bytes_ > 0 ? out_[k]->data() + out_shift_ : nullptr;
}

std::string Flight::told() const {
    std::string text = call_.told() + ", rank " + std::to_string(rank_) + ", run " + std::to_string(run_);
    text += layout_.in_place ? ", in place, in" : ", in";
    for (const Place &place : layout_.in)
        text += std::string(" ") + gcoll_memory_kind_name(place.kind) + std::to_string(place.device);
    text += ", out";
    for (const Place &place : layout_.out)
        text += std::string(" ") + gcoll_memory_kind_name(place.kind) + std::to_string(place.device);
    return text + ", local " + gcoll_memory_local_name(layout_.local) +
           (layout_.has_streams ? ", own streams" : "") + (layout_.is_late ? ", late" : "");
}

pretend::Stream *Flight::stream(uint32_t k) const {
    const Place &place = layout_.out[k];
    if (!layout_.is_late || !place.is_on_device() || layout_.in[k].memory() != place.memory())
        return nullptr;
    return layout_.has_streams ? streams_[k] : machine_.default_stream(place.device);
}

// By a kernel, if there is a stream for one: then poison stands there for a while.
void Flight::fill(Field &field, uint64_t offset, const Bytes &content, pretend::Stream *stream) {
    field.write(0, Bytes(field.bytes(), stream ? pretend::kPoison : kBefore));
    if (stream && field.place().is_on_device())
        machine_.write_later(stream, field.data() + offset, content.data(), content.size());
    else
        field.write(offset, content);
}

void Flight::prepare() {
    uint32_t first = 0;
    for (uint32_t rank = 0; rank < rank_; rank++)
        first += call_.buffers[rank];
    for (uint32_t k = 0; k < out_.size(); k++) // after a call that was refused
        if (stream(k))
            stream(k)->wait();
    before_.assign(out_.size(), Bytes());
    for (uint32_t k = 0; k < out_.size(); k++) {
        const bool has_input = in_bytes_ > 0 && (call_.kind != kBroadcast || k == 0);
        const Bytes input =
            has_input ? problem_.input(call_.reduces_buffers() ? first + k : rank_, run_) : Bytes();
        if (layout_.in_place) {
            fill(*out_[k], in_shift_, input, stream(k));
            continue;
        }
        fill(*in_[k], 0, input, stream(k));
        out_[k]->write(0, Bytes(out_bytes_, kBefore));
        if (out_bytes_ == 0 || !stream(k))
            continue;
        before_[k].assign(out_bytes_, 0); // the caller still reads what was there
        machine_.read_later(stream(k), out_[k]->data(), before_[k].data(), out_bytes_);
    }
}

gcoll_status Flight::start(gcoll_context *context, const std::string &algorithm) {
    algorithm_ = algorithm;
    prepare();
    gcoll_memory_init(&memory_);
    memory_.local = layout_.local;
    handles_.assign(streams_.begin(), streams_.end());
    if (layout_.has_streams)
        memory_.streams = handles_.data();
    std::vector<Place> all = layout_.out;
    all.insert(all.end(), layout_.in.begin(), layout_.in.end());
    const Place &first = all[0];
    if (layout_.is_declared) {
        if (std::all_of(all.begin(), all.end(), [&](const Place &p) { return p.kind == first.kind; }))
            memory_.kind = first.kind;
        if (first.is_on_device() &&
            std::all_of(all.begin(), all.end(), [&](const Place &p) { return p.memory() == first.memory(); }))
            memory_.device = static_cast<int>(first.device);
    }
    user_ = {refuses_ ? refuse_all : keep_right, nullptr, 0, 0};
    ins_.clear();
    outs_.clear();
    for (uint32_t k = 0; k < out_.size(); k++) {
        ins_.push_back(in(k));
        outs_.push_back(out(k));
    }
    gcoll_status status = call(context);
    if (status == GCOLL_OK && form_ == kPersistent)
        status = gcoll_operation_start(operation_);
    return status;
}

gcoll_status Flight::restart() {
    run_++;
    prepare();
    return gcoll_operation_start(operation_);
}

gcoll_status Flight::turn() {
    int done = 0;
    return request_ ? gcoll_request_test(&request_, &done) : GCOLL_OK;
}

gcoll_status Flight::finish() {
    gcoll_status status = GCOLL_OK;
    if (form_ == kStarted && request_)
        status = gcoll_request_wait(&request_);
    if (form_ == kPersistent)
        status = gcoll_operation_wait(operation_);
    for (uint32_t k = 0; layout_.in_place && k < out_.size(); k++)
        if (stream(k)) // what there was nothing to do with, nothing waited for
            stream(k)->wait();
    if (status == GCOLL_OK)
        check();
    return status;
}

// In the form that is wanted. The arguments are evaluated once.
#define MADE(NAME, ...)                                                                                      \
    (form_ == kBlocking  ? gcoll_##NAME(context, __VA_ARGS__)                                                \
     : form_ == kStarted ? gcoll_##NAME##_start(context, __VA_ARGS__, &request_)                             \
                         : gcoll_##NAME##_create(context, __VA_ARGS__, &operation_))

gcoll_status Flight::call(gcoll_context *context) {
    const gcoll_user_op *user = call_.op == GCOLL_USER ? &user_ : nullptr;
    const uint64_t total = call_.total();
    const bool is_several = out_.size() > 1;
    if (call_.kind == kAllreduce) {
        gcoll_allreduce_options options;
        gcoll_allreduce_options_init(&options);
        options.algorithm = algorithm_.c_str();
        options.user_op = user;
        options.memory = &memory_;
        if (is_several) {
            options.inputs = ins_.data();
            options.outputs = outs_.data();
            options.buffers = static_cast<uint32_t>(out_.size());
        }
        return MADE(allreduce, is_several ? nullptr : ins_[0], is_several ? nullptr : outs_[0], total,
                    call_.type, call_.op, &options);
    }
    if (call_.kind == kBroadcast) {
        gcoll_broadcast_options options;
        gcoll_broadcast_options_init(&options);
        options.algorithm = algorithm_.c_str();
        options.memory = &memory_;
        if (is_several) {
            options.buffers = outs_.data();
            options.buffer_count = static_cast<uint32_t>(out_.size());
        }
        return MADE(broadcast, is_several ? nullptr : outs_[0], total, call_.type, call_.root, &options);
    }
    return call_blocks(context);
}

gcoll_status Flight::call_blocks(gcoll_context *context) {
    gcoll_collective_options options;
    gcoll_collective_options_init(&options);
    options.algorithm = algorithm_.c_str();
    options.user_op = call_.op == GCOLL_USER && call_.reduces() ? &user_ : nullptr;
    options.memory = &memory_;
    const bool is_several = out_.size() > 1 && call_.scatters_reduced();
    if (is_several) {
        options.inputs = ins_.data();
        options.outputs = outs_.data();
        options.buffers = static_cast<uint32_t>(out_.size());
    }
    const void *input = is_several ? nullptr : ins_[0];
    void *output = is_several ? nullptr : outs_[0];
    const uint64_t *counts = call_.counts.data();
    switch (call_.kind) {
    case kReduce:
        return MADE(reduce, input, output, call_.total(), call_.type, call_.op, call_.root, &options);
    case kReduceScatter:
        return MADE(reduce_scatter, input, output, counts[0], call_.type, call_.op, &options);
    case kReduceScatterV:
        return MADE(reduce_scatter_v, input, output, counts, call_.type, call_.op, &options);
    case kAllgather:
        return MADE(allgather, input, output, counts[0], call_.type, &options);
    case kAllgatherV:
        return MADE(allgather_v, input, output, counts, call_.type, &options);
    case kGather:
        return MADE(gather, input, output, counts[0], call_.type, call_.root, &options);
    case kGatherV:
        return MADE(gather_v, input, output, counts, call_.type, call_.root, &options);
    case kScatter:
        return MADE(scatter, input, output, counts[0], call_.type, call_.root, &options);
    case kScatterV:
        return MADE(scatter_v, input, output, counts, call_.type, call_.root, &options);
    case kAlltoall:
        return MADE(alltoall, input, output, counts[0], call_.type, &options);
    case kAlltoallV:
        sends_.clear();
        recvs_.clear();
        for (uint32_t peer = 0; peer < call_.size; peer++) {
            sends_.push_back(call_.sent(rank_, peer));
            recvs_.push_back(call_.sent(peer, rank_));
        }
        return MADE(alltoall_v, input, output, sends_.data(), recvs_.data(), call_.type, &options);
    default:
        return MADE(pairwise_exchange, input, output, call_.total(), call_.type, 0u, &options);
    }
}

#undef MADE

// ---- What came of it -----------------------------------------------------------------------------------

std::string Flight::fault(uint32_t k) const {
    if (out_bytes_ == 0)
        return "";
    const Bytes want = problem_.output(rank_, run_), got = out_[k]->read(out_shift_, out_bytes_);
    if (got == want)
        return "";
    const auto at = std::mismatch(want.begin(), want.end(), got.begin());
    return "buffer " + std::to_string(k) + " is wrong from byte " + std::to_string(at.first - want.begin()) +
           " of " + std::to_string(want.size()) + " on: " + std::to_string(*at.second) + " for " +
           std::to_string(*at.first) + "; " +
           std::to_string(std::count(got.begin(), got.end(), pretend::kPoison)) + " bytes are poison";
}

void Flight::check() const {
    for (uint32_t k = 0; k < out_.size(); k++) {
        EXPECT_EQ(fault(k), "") << told();
        EXPECT_TRUE(out_[k]->is_intact()) << told() << ": written beyond output " << k;
        EXPECT_EQ(before_[k], Bytes(before_[k].size(), kBefore))
            << told() << ": output " << k << " was written before the caller's stream was done with it";
    }
    uint32_t first = 0;
    for (uint32_t rank = 0; rank < rank_; rank++)
        first += call_.buffers[rank];
    for (uint32_t k = 0; k < in_.size(); k++) {
        EXPECT_TRUE(in_[k]->is_intact()) << told() << ": written beyond input " << k;
        if (in_bytes_ > 0) {
            EXPECT_EQ(in_[k]->read(0, in_bytes_),
                      problem_.input(call_.reduces_buffers() ? first + k : rank_, run_))
                << told() << ": input " << k << " changed";
        }
    }
}

namespace {

// How often each byte of a field was copied.
std::vector<uint8_t> times_copied(const Field &field, const std::vector<pretend::Copied> &copied, bool in) {
    std::vector<uint8_t> times(field.bytes());
    for (const pretend::Copied &one : copied) {
        if (in ? one.dst_memory != 0 : one.src_memory != 0)
            continue;
        const auto *at = static_cast<const uint8_t *>(in ? one.src : one.dst);
        if (at < field.data() || at >= field.data() + field.bytes())
            continue;
        const auto begin = static_cast<size_t>(at - field.data());
        for (size_t byte = begin; byte < begin + one.bytes; byte++)
            times[byte]++;
    }
    return times;
}

} // namespace

void Flight::expect_staged_once(const gcoll_accelerator &accelerator, size_t copied_before) const {
    const std::vector<pretend::Copied> copied = accelerator.copied(copied_before);
    uint64_t sums[2] = {0, 0};
    for (const auto *fields : {&in_, &out_})
        for (const std::unique_ptr<Field> &field : *fields)
            for (const bool in : {true, false}) {
                if (!field->place().is_on_device() || field->bytes() == 0)
                    continue;
                const std::vector<uint8_t> times = times_copied(*field, copied, in);
                EXPECT_LE(*std::max_element(times.begin(), times.end()), 1)
                    << told() << ": copied again " << (in ? "in" : "out");
                for (uint8_t n : times)
                    sums[in ? 0 : 1] += n;
            }
    // Where there is but one way, it is known how much that is.
    const bool is_plain = out_.size() == 1 && call_.size > 1 && layout_.out[0].is_on_device();
    if (is_plain && call_.kind == kAllreduce && layout_.in[0].is_on_device()) {
        EXPECT_EQ(sums[0], in_bytes_) << told();
        EXPECT_EQ(sums[1], out_bytes_) << told();
    }
    if (is_plain && call_.kind == kBroadcast) {
        EXPECT_EQ(sums[0], rank_ == call_.root ? in_bytes_ : 0) << told();
        EXPECT_EQ(sums[1], rank_ == call_.root ? 0 : out_bytes_) << told();
    }
}

} // namespace staging
