// test/kit/pretend_device.cc - operations on pretend devices, and checks that refuse what their user must not
// begin.
#include "test/kit/pretend_device.h"

#include <fcntl.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

using pretend::Call;
using pretend::Copied;
using pretend::Machine;

namespace {

const char *const kCalls[] = {"pretendInit",
                              "pretendPointerGetAttributes",
                              "pretendHostAlloc",
                              "pretendEventRecord",
                              "pretendMemcpyAsync",
                              "pretendLaunchKernel(fold)",
                              "pretendLaunchKernel(divide)",
                              "pretendEventQuery",
                              "pretendMemGetHandle"};

using pretend::Range;

Range range_of(const void *begin, uint64_t bytes) {
    const auto at = reinterpret_cast<uintptr_t>(begin);
    return {at, at + bytes};
}

bool overlap(const Range &a, const Range &b) {
    return a.begin < b.end && b.begin < a.end;
}

std::string hex(uintptr_t number) {
    char text[20];
    snprintf(text, sizeof text, "0x%zx", static_cast<size_t>(number));
    return text;
}

} // namespace

namespace pretend {

Accesses::Begins &Accesses::of(const Range &range) {
    size_t bits = 0;
    for (uintptr_t length = range.end - range.begin; length > 0; length >>= 1)
        bits++;
    return by_length_[bits];
}

void Accesses::remove(const Range &range) {
    Begins &begins = of(range);
    const auto same = begins.equal_range(range.begin);
    for (auto at = same.first; at != same.second; ++at)
        if (at->second == range.end) {
            begins.erase(at);
            return;
        }
}

bool Accesses::overlap(const Range &range) const {
    uintptr_t longest = 0; // of the ranges whose length has so many bits
    for (const Begins &begins : by_length_) {
        for (auto at = begins.lower_bound(range.begin - std::min(range.begin, longest));
             at != begins.end() && at->first < range.end; ++at)
            if (at->second > range.begin)
                return true;
        longest = 2 * longest + 1;
    }
    return false;
}

} // namespace pretend

gcoll_accelerator::gcoll_accelerator(Machine &machine, const gcoll_accelerator_options &options,
                                     uint64_t seed)
    : machine_(machine), options_(options), random_(seed) {
    fail_.fill(-1);
    statistics_.open = 1;
}

gcoll_accelerator::~gcoll_accelerator() { // the lanes have ended
    for (gcoll_ticket *ticket : live_)
        delete ticket;
    for (gcoll_ticket *ticket : forgotten_)
        delete ticket;
    for (gcoll_gate *gate : gates_)
        delete gate;
    for (auto &[address, bytes] : pins_)
        machine_.free(reinterpret_cast<void *>(address));
}

void gcoll_accelerator::close() {
    sweep();
    if (!live_.empty() || !forgotten_.empty())
        refuse("closed with " + std::to_string(live_.size() + forgotten_.size()) + " things under way");
    statistics_.open = 0;
}

// ---- Orders of a test -----------------------------------------------------------------------------------

void gcoll_accelerator::fail_at(Call call, uint64_t nth) {
    fail_[static_cast<size_t>(call)] = static_cast<int64_t>(nth);
}

void gcoll_accelerator::let_go() {
    for (auto *tickets : {&live_, &forgotten_})
        for (gcoll_ticket *ticket : *tickets) {
            ticket->task.stuck.store(false, std::memory_order_release);
            ticket->lane->ring();
        }
}

void gcoll_accelerator::hold(bool held) {
    held_.store(held, std::memory_order_release);
    for (gcoll_ticket *ticket : live_)
        ticket->lane->ring();
}

void gcoll_accelerator::hurry(const void *slow, uint32_t asks) {
    hurries_ = true;
    slow_ = reinterpret_cast<uintptr_t>(slow);
    slow_asks_ = asks;
}

std::vector<Copied> gcoll_accelerator::copied(size_t from) const {
    std::lock_guard<std::mutex> guard(log_lock_);
    return std::vector<Copied>(copied_.begin() + static_cast<std::ptrdiff_t>(from), copied_.end());
}

gcoll_status gcoll_accelerator::enter(Call call) {
    const auto kind = static_cast<size_t>(call);
    calls_[kind]++;
    if (fail_[kind] < 0 || fail_[kind]-- > 0)
        return GCOLL_OK;
    return gcoll_error(GCOLL_ERR_IO, "%s: call %llu fails, as it was told to", kCalls[kind],
                       static_cast<unsigned long long>(calls_[kind]));
}

gcoll_status gcoll_accelerator::refuse(const std::string &text) {
    machine_.violate(text);
    return gcoll_error(GCOLL_ERR_INTERNAL, "pretend device: %s", text.c_str());
}

// ---- Pinned memory and gates ---------------------------------------------------------------------------

gcoll_status gcoll_accelerator::pin(uint64_t bytes, void **memory) {
    const gcoll_status status = enter(Call::kPin);
    if (status != GCOLL_OK)
        return status;
    *memory = machine_.allocate(0, bytes, GCOLL_MEMORY_PINNED);
    pins_[reinterpret_cast<uintptr_t>(*memory)] = bytes;
    statistics_.pinned_bytes += bytes;
    statistics_.most_pinned_bytes = std::max(statistics_.most_pinned_bytes, statistics_.pinned_bytes);
    return GCOLL_OK;
}

void gcoll_accelerator::unpin(void *memory, uint64_t bytes) {
    const auto pin = pins_.find(reinterpret_cast<uintptr_t>(memory));
    if (pin == pins_.end() || pin->second != bytes) {
        refuse("unpin of " + std::to_string(bytes) + " bytes that were not pinned so");
        return;
    }
    const Range all = range_of(memory, bytes);
    sweep();
    bool is_used = reads_.overlap(all) || writes_.overlap(all);
    for (const gcoll_ticket *ticket : forgotten_) {
        is_used = is_used || overlap(all, ticket->written);
        for (const Range &read : ticket->read)
            is_used = is_used || overlap(all, read);
    }
    if (is_used) {
        refuse("unpinned under what is under way");
        return; // an operation under way still needs it
    }
    pins_.erase(pin);
    statistics_.pinned_bytes -= bytes;
    machine_.free(memory);
}

gcoll_status gcoll_accelerator::make_gate(uint32_t device, void *handle, gcoll_gate **gate) {
    const gcoll_status status = enter(Call::kMakeGate);
    if (status != GCOLL_OK)
        return status;
    if (device >= machine_.kit().devices)
        return refuse("make_gate: there is no device " + std::to_string(device));
    pretend::Stream *stream = machine_.stream_of(device, handle);
    if (!stream) // this is how CUDA reports such a mistake
        return gcoll_error(GCOLL_ERR_INVALID, "pretendEventRecord: %p is no stream of device %u", handle,
                           device);
    *gate = new gcoll_gate{stream->latest(), device};
    gates_.insert(*gate);
    statistics_.gates++;
    statistics_.gates_made++;
    return GCOLL_OK;
}

void gcoll_accelerator::put_gate(gcoll_gate *gate) {
    if (gates_.erase(gate) == 0) {
        refuse("put_gate of what is no gate");
        return;
    }
    statistics_.gates--;
    delete gate;
}

gcoll_status gcoll_accelerator::test_gate(gcoll_gate *gate, bool *done) {
    if (gates_.count(gate) == 0)
        return refuse("test_gate of what is no gate");
    *done = !gate->after || gate->after->done.load(std::memory_order_acquire);
    return GCOLL_OK;
}

// ---- Sharing with a network's device --------------------------------------------------------------------

// Gives the network's device the real place of the bytes. The host's addresses of them stay protected.
gcoll_status gcoll_accelerator::share(const void *address, uint64_t bytes, gcoll_shared *shared) {
    const gcoll_status status = enter(Call::kShare);
    if (status != GCOLL_OK)
        return gcoll_error(GCOLL_ERR_UNSUPPORTED, "pretendMemGetHandle: not this time, as it was told to");
    const Machine::Found found = machine_.find(address, bytes);
    if (!found.is_of_device || !found.is_whole)
        return refuse("share of what is not memory of a device");
    if (found.kind != GCOLL_MEMORY_DEVICE)
        return gcoll_error(GCOLL_ERR_UNSUPPORTED, "pretendMemGetHandle: not of managed memory");
    *shared = {machine_.kit().has_dmabufs ? open("/dev/null", O_RDWR | O_CLOEXEC) : -1, 0, found.bytes};
    statistics_.shares++;
    return GCOLL_OK;
}

gcoll_status gcoll_accelerator::arrived(uint32_t device) {
    if (device >= machine_.kit().devices)
        return refuse("arrived: there is no device " + std::to_string(device));
    statistics_.arrivals++;
    return GCOLL_OK;
}

// ---- Beginning -----------------------------------------------------------------------------------------

gcoll_status gcoll_accelerator::check_place(const char *what, const void *address, uint64_t bytes,
                                            uint32_t memory, Machine::Found *found) {
    *found = machine_.find(address, bytes);
    const uint32_t lies_in = found->is_of_device ? found->device + 1 : 0;
    if (lies_in != memory)
        return refuse(std::string(what) + " " + hex(reinterpret_cast<uintptr_t>(address)) +
                      " lies in memory " + std::to_string(lies_in) + " and not in " + std::to_string(memory));
    if (!found->is_whole)
        return refuse(std::string(what) + ": " + std::to_string(bytes) + " bytes at offset " +
                      std::to_string(found->offset) + " of device " + std::to_string(found->device) +
                      " are not allocated");
    return GCOLL_OK;
}

// Returns whether an operation under way conflicts with the new one. The engine must not begin an operation
// before those on which it depends are done, even if they are in the same lane.
bool gcoll_accelerator::is_in_the_way(const gcoll_ticket &wanted) const {
    bool found = reads_.overlap(wanted.written) || writes_.overlap(wanted.written);
    for (const Range &read : wanted.read)
        found = found || writes_.overlap(read);
    return found;
}

bool gcoll_accelerator::is_slow(const gcoll_ticket &wanted) const {
    return slow_ != 0 &&
           (wanted.written.begin == slow_ || (!wanted.read.empty() && wanted.read[0].begin == slow_));
}

gcoll_status gcoll_accelerator::begin(std::unique_ptr<gcoll_ticket> wanted, pretend::Lane &lane,
                                      gcoll_gate *const *gates, uint32_t gate_count, gcoll_ticket **ticket) {
    if (is_in_the_way(*wanted))
        return refuse("what writes " + hex(wanted->written.begin) +
                      " was begun while something under way reads or writes the same");
    for (uint32_t i = 0; i < gate_count; i++) {
        if (gates_.count(gates[i]) == 0)
            return refuse("begun behind what is no gate");
        if (gates[i]->after)
            wanted->task.behind.push_back(&gates[i]->after->done);
    }
    pretend::Task &task = wanted->task;
    task.held = &held_;
    task.asks_needed = static_cast<uint32_t>(random_() % 8 == 0 ? 20 + random_() % 50 : 1 + random_() % 6);
    task.at_ns = gcoll_now_ns() + 200000 + static_cast<int64_t>(random_() % 800) * 1000;
    if (hurries_) {
        task.asks_needed = is_slow(*wanted) ? slow_asks_ : 0;
        task.at_ns = INT64_MAX;
    }
    wanted->lane = &lane;
    *ticket = wanted.release();
    live_.insert(*ticket);
    writes_.add((*ticket)->written);
    for (const Range &read : (*ticket)->read)
        reads_.add(read);
    statistics_.tickets++;
    if (!hurries_ || (*ticket)->task.asks_needed > 0 || !(*ticket)->task.is_ripe()) {
        lane.push(&(*ticket)->task);
        return GCOLL_OK;
    }
    (*ticket)->task.work(random_);
    (*ticket)->task.done.store(true, std::memory_order_relaxed);
    return GCOLL_OK;
}

gcoll_status gcoll_accelerator::copy(const Copied &wanted, void *dst, gcoll_gate *const *gates,
                                     uint32_t gate_count, gcoll_ticket **ticket) {
    gcoll_status status = enter(Call::kCopy);
    Machine::Found from, to;
    if (status == GCOLL_OK && (wanted.bytes == 0 || (wanted.src_memory == 0 && wanted.dst_memory == 0)))
        status = refuse("copy: there is nothing to do for a device");
    if (status == GCOLL_OK)
        status = check_place("copy: src", wanted.src, wanted.bytes, wanted.src_memory, &from);
    if (status == GCOLL_OK)
        status = check_place("copy: dst", wanted.dst, wanted.bytes, wanted.dst_memory, &to);
    const bool in = wanted.dst_memory == 0, out = wanted.src_memory == 0;
    if (status == GCOLL_OK && !in && !out && from.device != to.device && !machine_.kit().peers)
        status = refuse("copy: these devices do not reach each other");
    if (status != GCOLL_OK)
        return status;
    auto made = std::make_unique<gcoll_ticket>();
    made->written = range_of(dst, wanted.bytes);
    made->read.push_back(range_of(wanted.src, wanted.bytes));
    if (overlap(made->written, made->read[0]))
        return refuse("copy: src and dst overlap");
    made->task.work = [from = from.bytes, to = to.bytes, bytes = wanted.bytes](pretend::Random &random) {
        pretend::copy_in_pieces(to, from, bytes, true, random);
    };
    made->task.stuck.store(stick_ == 0, std::memory_order_relaxed);
    stick_ -= stick_ >= 0;
    if (in && gate_count == 0) // at once, so that a reader that does not wait finds poison
        memset(to.bytes, pretend::kPoison, wanted.bytes);
    pretend::Lane &lane =
        machine_.lane(in ? from.device : to.device, in ? 0 : (out ? 1 : 2), random_() % machine_.kit().lanes);
    status = begin(std::move(made), lane, gates, gate_count, ticket);
    if (status != GCOLL_OK)
        return status;
    (in ? statistics_.in_bytes : (out ? statistics_.out_bytes : statistics_.local_bytes)) += wanted.bytes;
    statistics_.copies++;
    std::lock_guard<std::mutex> guard(log_lock_);
    copied_.push_back(wanted);
    return GCOLL_OK;
}

gcoll_status gcoll_accelerator::check_operands(const gcoll_fold &fold, uint64_t bytes,
                                               std::vector<const uint8_t *> *places) {
    if (fold.operand_count < 2 || fold.count == 0 || fold.op == GCOLL_USER)
        return refuse("fold: there is nothing to do, or nothing that a device knows");
    bool far = false;
    for (uint32_t i = 0; i < fold.operand_count; i++) {
        Machine::Found found;
        const gcoll_status status =
            check_place("fold: operand", fold.operands[i], bytes, fold.devices[i] + 1, &found);
        if (status != GCOLL_OK)
            return status;
        if (fold.operands[i] != fold.dst &&
            overlap(range_of(fold.operands[i], bytes), range_of(fold.dst, bytes)))
            return refuse("fold: an operand overlaps dst");
        far = far || found.device != fold.device;
        places->push_back(found.bytes);
    }
    const pretend::Kit &kit = machine_.kit();
    if (far && !(fold.reach == GCOLL_REACH_PEER ? kit.peers : kit.nccl))
        return refuse("fold: an operand is on a device that is not reached");
    return GCOLL_OK;
}

gcoll_status gcoll_accelerator::fold(const gcoll_fold &fold, gcoll_gate *const *gates, uint32_t gate_count,
                                     gcoll_ticket **ticket) {
    gcoll_status status = enter(Call::kFold);
    const uint64_t bytes = fold.count * gcoll_type_size(fold.type);
    Machine::Found to;
    std::vector<const uint8_t *> places;
    if (status == GCOLL_OK)
        status = check_place("fold: dst", fold.dst, bytes, fold.device + 1, &to);
    if (status == GCOLL_OK)
        status = check_operands(fold, bytes, &places);
    if (status != GCOLL_OK)
        return status;
    auto made = std::make_unique<gcoll_ticket>();
    made->written = range_of(fold.dst, bytes);
    bool is_operand = false;
    for (uint32_t i = 0; i < fold.operand_count; i++) {
        made->read.push_back(range_of(fold.operands[i], bytes));
        is_operand = is_operand || fold.operands[i] == fold.dst;
    }
    made->task.work = [to = to.bytes, places, bytes, is_operand, type = fold.type, op = fold.op,
                       count = fold.count](pretend::Random &random) {
        std::vector<uint8_t> result(places[0], places[0] + bytes);
        for (size_t i = 1; i < places.size(); i++)
            pretend::reduce_elements(type, op, result.data(), places[i], count);
        pretend::copy_in_pieces(to, result.data(), bytes, !is_operand, random);
    };
    status = begin(std::move(made), machine_.lane(fold.device, 2, random_()), gates, gate_count, ticket);
    statistics_.folds += status == GCOLL_OK;
    return status;
}

gcoll_status gcoll_accelerator::divide(uint32_t device, void *data, uint64_t count, gcoll_type type,
                                       uint32_t divisor, gcoll_gate *const *gates, uint32_t gate_count,
                                       gcoll_ticket **ticket) {
    gcoll_status status = enter(Call::kDivide);
    const uint64_t bytes = count * gcoll_type_size(type);
    Machine::Found to;
    if (status == GCOLL_OK && (count == 0 || divisor == 0))
        status = refuse("divide: of nothing, or by it");
    if (status == GCOLL_OK)
        status = check_place("divide: data", data, bytes, device + 1, &to);
    if (status != GCOLL_OK)
        return status;
    auto made = std::make_unique<gcoll_ticket>();
    made->written = range_of(data, bytes);
    made->task.work = [to = to.bytes, type, count, divisor](pretend::Random &) {
        pretend::divide_elements(type, to, count, divisor);
    };
    status = begin(std::move(made), machine_.lane(device, 2, random_()), gates, gate_count, ticket);
    statistics_.divides += status == GCOLL_OK;
    return status;
}

// ---- Ending --------------------------------------------------------------------------------------------

void gcoll_accelerator::end(gcoll_ticket *ticket) {
    live_.erase(ticket);
    writes_.remove(ticket->written);
    for (const Range &read : ticket->read)
        reads_.remove(read);
    statistics_.tickets--;
}

gcoll_status gcoll_accelerator::test(gcoll_ticket *ticket, bool *done, gcoll_ticket_time *time) {
    if (live_.count(ticket) == 0)
        return refuse("test of what is no ticket, or not one any more");
    const gcoll_status status = enter(Call::kTest);
    if (status != GCOLL_OK) {
        end(ticket);
        forgotten_.insert(ticket);
        return status;
    }
    ticket->task.asked.fetch_add(1, std::memory_order_relaxed);
    *done = ticket->task.done.load(std::memory_order_acquire);
    if (!*done) {
        ticket->lane->ring();
        return GCOLL_OK;
    }
    if (time)
        time->ns = options_.times ? ticket->task.ns : 0;
    end(ticket);
    delete ticket;
    return GCOLL_OK;
}

// Frees the forgotten tickets that have ended. Returns whether all have.
bool gcoll_accelerator::sweep() {
    for (auto at = forgotten_.begin(); at != forgotten_.end();) {
        if (!(*at)->task.done.load(std::memory_order_acquire)) {
            ++at;
            continue;
        }
        delete *at;
        at = forgotten_.erase(at);
    }
    return forgotten_.empty();
}

gcoll_status gcoll_accelerator::drain(int64_t timeout_ms) {
    const int64_t limit = gcoll_now_ms() + timeout_ms;
    while (!live_.empty()) {
        gcoll_ticket *ticket = *live_.begin();
        end(ticket);
        ticket->task.asked.store(UINT32_MAX, std::memory_order_relaxed); // time passes
        ticket->lane->ring();
        forgotten_.insert(ticket);
    }
    while (!sweep()) {
        if (gcoll_now_ms() >= limit)
            return gcoll_error(GCOLL_ERR_TIMEOUT, "pretendEventQuery: %zu things have not ended in %lld ms",
                               forgotten_.size(), static_cast<long long>(timeout_ms));
        std::this_thread::sleep_for(std::chrono::microseconds(100));
    }
    return GCOLL_OK;
}
