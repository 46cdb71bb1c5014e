// test/kit/pretend_memory.cc - the memory of pretend devices, and the report when the host touches it.
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "test/kit/pretend_device.h"

namespace pretend {

namespace {

constexpr size_t kFences = 256;

// ---- Protected addresses, for the signal handler -------------------------------------------------------

struct Fence {
    std::atomic<uintptr_t> begin{0}; // 0: not in use
    std::atomic<uint64_t> bytes{0};
    std::atomic<uint32_t> device{0};
};
Fence fences[kFences];
struct sigaction handler_before;
std::once_flag handler_installed;

// Writes a number, by means that a signal handler may use.
size_t put_number(char *text, uint64_t number) {
    char digits[20];
    size_t n = 0, at = 0;
    do
        digits[n++] = static_cast<char>('0' + number % 10);
    while ((number /= 10) > 0);
    while (n > 0)
        text[at++] = digits[--n];
    return at;
}

void tell(uint32_t device, uint64_t offset) {
    char text[160];
    size_t at = 0;
    const auto put = [&](const char *words) {
        for (; *words; words++)
            text[at++] = *words;
    };
    put("host touched the memory of pretend device ");
    at += put_number(text + at, device);
    put(" at offset ");
    at += put_number(text + at, offset);
    put("\n");
    if (write(STDERR_FILENO, text, at) < 0)
        return;
}

// Reports whose memory was touched. Then the access is repeated with the previous handler, which ends the
// process.
void on_fault(int, siginfo_t *info, void *) {
    const auto address = reinterpret_cast<uintptr_t>(info->si_addr);
    for (const Fence &fence : fences) {
        const uintptr_t begin = fence.begin.load(std::memory_order_relaxed);
        if (begin != 0 && address >= begin && address - begin < fence.bytes.load(std::memory_order_relaxed))
            tell(fence.device.load(std::memory_order_relaxed), address - begin);
    }
    sigaction(SIGSEGV, &handler_before, nullptr);
}

void install_handler() {
    struct sigaction action = {};
    action.sa_sigaction = on_fault;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK;
    sigemptyset(&action.sa_mask);
    sigaction(SIGSEGV, &action, &handler_before);
}

size_t put_fence(const void *base, uint64_t bytes, uint32_t device) {
    std::call_once(handler_installed, install_handler);
    for (size_t i = 0; i < kFences; i++) {
        uintptr_t none = 0;
        if (fences[i].begin.compare_exchange_strong(none, reinterpret_cast<uintptr_t>(base))) {
            fences[i].bytes = bytes;
            fences[i].device = device;
            return i;
        }
    }
    fprintf(stderr, "more than %zu pretend devices at once\n", kFences);
    abort();
}

uint8_t *poisoned(uint64_t bytes, uint64_t alignment) {
    const uint64_t whole = (bytes + alignment) / alignment * alignment; // at least one unit
    auto *memory = static_cast<uint8_t *>(aligned_alloc(alignment, whole));
    if (!memory)
        abort();
    memset(memory, kPoison, whole);
    return memory;
}

thread_local Machine *machine_here = nullptr;
thread_local gcoll_accelerator *latest_opened = nullptr;

} // namespace

// ---- A machine -----------------------------------------------------------------------------------------

Machine::Machine(const Kit &kit) : kit_(kit), arenas_(kit.devices) {
    for (uint32_t device = 0; device < kit.devices; device++) {
        void *base =
            mmap(nullptr, kit.device_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (base == MAP_FAILED) {
            perror("mmap");
            abort();
        }
        arenas_[device].base = static_cast<uint8_t *>(base);
        arenas_[device].fence = put_fence(base, kit.device_bytes, device);
        default_streams_.emplace_back(device, kit.seed * 97 + device);
        for (uint32_t lane = 0; lane < 3 * kit.lanes; lane++)
            lanes_.push_back(std::make_unique<Lane>(kit.seed * 31 + device * 7 + lane));
    }
}

Machine::~Machine() {
    lanes_.clear();
    accelerators_.clear();
    default_streams_.clear();
    streams_.clear();
    for (Arena &arena : arenas_) {
        for (auto &[offset, block] : arena.blocks)
            ::free(block.secret);
        fences[arena.fence].begin = 0;
        munmap(arena.base, kit_.device_bytes);
    }
    for (auto &[address, block] : pinned_)
        ::free(block.secret);
}

void *Machine::allocate(uint32_t device, uint64_t bytes, gcoll_memory_kind kind) {
    Block block;
    block.bytes = bytes;
    block.kind = kind;
    block.secret = poisoned(bytes, kit_.alignment);
    std::lock_guard<std::mutex> guard(lock_);
    if (kind == GCOLL_MEMORY_PINNED) {
        pinned_[reinterpret_cast<uintptr_t>(block.secret)] = block;
        return block.secret;
    }
    // Uses addresses again only after all others were used, so that a stale address is detected.
    Arena &arena = arenas_.at(device);
    const uint64_t whole =
        // Leaves a gap before the next block.
        (bytes + 2 * kit_.alignment - 1) / kit_.alignment * kit_.alignment;
    for (int lap = 0; lap < 2; lap++) {
        auto at = arena.blocks.lower_bound(arena.next);
        for (; at != arena.blocks.end() && at->first - arena.next < whole; ++at)
            arena.next =
                (at->first + at->second.bytes + 2 * kit_.alignment - 1) / kit_.alignment * kit_.alignment;
        if (arena.next + whole <= kit_.device_bytes)
            break;
        arena.next = 0;
    }
    if (arena.next + whole > kit_.device_bytes || arena.blocks.count(arena.next)) {
        fprintf(stderr, "pretend device %u is full\n", device);
        abort();
    }
    arena.blocks[arena.next] = block;
    uint8_t *address = arena.base + arena.next;
    arena.next += whole;
    return address;
}

void Machine::free(void *memory) {
    if (!memory)
        return;
    std::lock_guard<std::mutex> guard(lock_);
    const auto pinned = pinned_.find(reinterpret_cast<uintptr_t>(memory));
    if (pinned != pinned_.end()) {
        ::free(pinned->second.secret);
        pinned_.erase(pinned);
        return;
    }
    for (Arena &arena : arenas_) {
        const auto *at = static_cast<uint8_t *>(memory);
        if (at < arena.base || at >= arena.base + kit_.device_bytes)
            continue;
        const auto block = arena.blocks.find(static_cast<uint64_t>(at - arena.base));
        if (block != arena.blocks.end()) {
            ::free(block->second.secret);
            arena.blocks.erase(block);
            return;
        }
    }
    fprintf(stderr, "%p was not allocated on a pretend machine\n", memory);
    abort();
}

Machine::Found Machine::find(const void *address, uint64_t bytes) {
    const auto *at = static_cast<const uint8_t *>(address);
    const auto within = [bytes](uint64_t inner, const Block &block) {
        return inner <= block.bytes && bytes <= block.bytes - inner;
    };
    Found found;
    std::lock_guard<std::mutex> guard(lock_);
    for (uint32_t device = 0; device < arenas_.size(); device++) {
        const Arena &arena = arenas_[device];
        if (at < arena.base || at >= arena.base + kit_.device_bytes)
            continue;
        found.is_of_device = true;
        found.device = device;
        found.offset = static_cast<uint64_t>(at - arena.base);
        auto block = arena.blocks.upper_bound(found.offset);
        if (block == arena.blocks.begin())
            return found;
        --block;
        found.is_whole = within(found.offset - block->first, block->second);
        found.kind = block->second.kind;
        found.bytes = block->second.secret + (found.offset - block->first);
        return found;
    }
    auto block = pinned_.upper_bound(reinterpret_cast<uintptr_t>(address));
    if (block != pinned_.begin() &&
        within(reinterpret_cast<uintptr_t>(address) - std::prev(block)->first, std::prev(block)->second))
        found.kind = GCOLL_MEMORY_PINNED;
    found.bytes = const_cast<uint8_t *>(at);
    found.is_whole = true;
    return found;
}

namespace {

uint8_t *must_be_whole(const Machine::Found &found, const void *memory) {
    if (found.is_whole)
        return found.bytes;
    fprintf(stderr, "%p: so many bytes are not allocated there\n", memory);
    abort();
}

} // namespace

void Machine::write(void *memory, const void *from, uint64_t bytes) {
    if (bytes > 0)
        memcpy(must_be_whole(find(memory, bytes), memory), from, bytes);
}

void Machine::read(const void *memory, void *to, uint64_t bytes) {
    if (bytes > 0)
        memcpy(to, must_be_whole(find(memory, bytes), memory), bytes);
}

// ---- Streams -------------------------------------------------------------------------------------------

void Stream::hold(bool held) {
    held_.store(held, std::memory_order_release);
    std::lock_guard<std::mutex> guard(lock_);
    if (lane_)
        lane_->ring();
}

void Stream::push(std::function<void()> kernel) {
    std::lock_guard<std::mutex> guard(lock_);
    if (!lane_)
        lane_ = std::make_unique<Lane>(seed_ + 1);
    Task &task = tasks_.emplace_back();
    task.work = [kernel = std::move(kernel)](Random &) { kernel(); };
    task.held = &held_;
    task.at_ns = gcoll_now_ns() + static_cast<int64_t>(random_() % 200) * 1000;
    lane_->push(&task);
}

const Task *Stream::latest() {
    std::lock_guard<std::mutex> guard(lock_);
    return tasks_.empty() ? nullptr : &tasks_.back();
}

void Stream::wait() {
    const Task *last = latest();
    while (last && !last->done.load(std::memory_order_acquire))
        std::this_thread::sleep_for(std::chrono::microseconds(50));
}

Stream *Machine::new_stream(uint32_t device) {
    std::lock_guard<std::mutex> guard(lock_);
    return &streams_.emplace_back(device, kit_.seed * 193 + ++seeds_);
}

Stream *Machine::stream_of(uint32_t device, void *handle) {
    std::lock_guard<std::mutex> guard(lock_);
    if (!handle)
        return &default_streams_[device];
    for (Stream &stream : streams_)
        if (&stream == handle && stream.device() == device)
            return &stream;
    return nullptr;
}

void Machine::write_later(Stream *stream, void *memory, const void *from, uint64_t bytes) {
    if (bytes == 0)
        return;
    uint8_t *to = must_be_whole(find(memory, bytes), memory);
    const auto *begin = static_cast<const uint8_t *>(from);
    stream->push([to, payload = std::vector<uint8_t>(begin, begin + bytes)] {
        memcpy(to, payload.data(), payload.size());
    });
}

void Machine::read_later(Stream *stream, const void *memory, void *to, uint64_t bytes) {
    if (bytes == 0)
        return;
    const uint8_t *from = must_be_whole(find(memory, bytes), memory);
    stream->push([from, to, bytes] { memcpy(to, from, bytes); });
}

// ---- Accelerators of a machine --------------------------------------------------------------------------

Machine::Here::Here(Machine &machine) : before_(machine_here) {
    machine_here = &machine;
}

Machine::Here::~Here() {
    machine_here = before_;
}

gcoll_accelerator *Machine::opened() {
    return latest_opened && &latest_opened->machine() == this ? latest_opened : nullptr;
}

gcoll_accelerator *Machine::open(const gcoll_accelerator_options &options) {
    std::lock_guard<std::mutex> guard(lock_);
    accelerators_.push_back(std::make_unique<gcoll_accelerator>(*this, options, kit_.seed * 389 + ++seeds_));
    return accelerators_.back().get();
}

void Machine::violate(const std::string &text) {
    std::lock_guard<std::mutex> guard(lock_);
    violations_.push_back(text);
}

std::vector<std::string> Machine::violations() {
    std::lock_guard<std::mutex> guard(lock_);
    return violations_;
}

Statistics Machine::statistics() {
    std::lock_guard<std::mutex> guard(lock_);
    Statistics all;
    for (const std::unique_ptr<gcoll_accelerator> &accelerator : accelerators_)
        all.add(accelerator->statistics());
    return all;
}

void Statistics::add(const Statistics &other) {
    in_bytes += other.in_bytes;
    out_bytes += other.out_bytes;
    local_bytes += other.local_bytes;
    copies += other.copies;
    folds += other.folds;
    divides += other.divides;
    gates_made += other.gates_made;
    shares += other.shares;
    arrivals += other.arrivals;
    pinned_bytes += other.pinned_bytes;
    most_pinned_bytes += other.most_pinned_bytes;
    tickets += other.tickets;
    gates += other.gates;
    open += other.open;
}

// ---- The table -----------------------------------------------------------------------------------------

namespace {

gcoll_status table_open(const gcoll_accelerator_options *options, gcoll_accelerator **out) {
    if (!machine_here)
        return gcoll_error(GCOLL_ERR_UNSUPPORTED, "pretendInit: this thread has no pretend machine");
    gcoll_accelerator *accelerator = machine_here->open(options ? *options : gcoll_accelerator_options());
    const gcoll_status status = accelerator->enter(Call::kOpen);
    if (status != GCOLL_OK) {
        accelerator->close();
        return status;
    }
    *out = latest_opened = accelerator;
    return GCOLL_OK;
}

uint32_t table_device_count(const gcoll_accelerator *accelerator) {
    return const_cast<gcoll_accelerator *>(accelerator)->machine().kit().devices;
}

gcoll_status table_locate(gcoll_accelerator *accelerator, const void *address, gcoll_place *place) {
    const gcoll_status status = accelerator->enter(Call::kLocate);
    if (status != GCOLL_OK)
        return status;
    const Machine::Found found = accelerator->machine().find(address, 0);
    if (!found.is_whole)
        return gcoll_error(GCOLL_ERR_INVALID,
                           "pretendPointerGetAttributes: %p is not, or no longer, allocated", address);
    place->kind = found.kind;
    place->device = found.device;
    return GCOLL_OK;
}

gcoll_status table_reaches(gcoll_accelerator *accelerator, gcoll_reach reach, uint32_t from, uint32_t to) {
    const Kit &kit = accelerator->machine().kit();
    if (from >= kit.devices || to >= kit.devices)
        return accelerator->refuse("reaches: there is no such device");
    if (reach == GCOLL_REACH_PEER ? kit.peers : kit.nccl)
        return GCOLL_OK;
    return gcoll_error(GCOLL_ERR_UNSUPPORTED, "%s: pretend devices %u and %u do not",
                       reach == GCOLL_REACH_PEER ? "pretendCanAccessPeer" : "pretend nccl", from, to);
}

gcoll_status table_copy(gcoll_accelerator *accelerator, void *dst, uint32_t dst_memory, const void *src,
                        uint32_t src_memory, uint64_t bytes, gcoll_gate *const *gates, uint32_t gate_count,
                        gcoll_ticket **ticket) {
    return accelerator->copy({dst_memory, src_memory, dst, src, bytes}, dst, gates, gate_count, ticket);
}

} // namespace

const gcoll_accelerator_table table = {
    "pretend",
    table_open,
    [](gcoll_accelerator *accelerator) { accelerator->close(); },
    table_device_count,
    table_locate,
    table_reaches,
    [](gcoll_accelerator *a, uint64_t bytes, void **memory) { return a->pin(bytes, memory); },
    [](gcoll_accelerator *a, void *memory, uint64_t bytes) { a->unpin(memory, bytes); },
    [](gcoll_accelerator *a, uint32_t device, void *stream, gcoll_gate **gate) {
        return a->make_gate(device, stream, gate);
    },
    [](gcoll_accelerator *a, gcoll_gate *gate) { a->put_gate(gate); },
    [](gcoll_accelerator *a, gcoll_gate *gate, bool *done) { return a->test_gate(gate, done); },
    table_copy,
    [](gcoll_accelerator *a, const gcoll_fold *fold, gcoll_gate *const *gates, uint32_t gate_count,
       gcoll_ticket **ticket) { return a->fold(*fold, gates, gate_count, ticket); },
    [](gcoll_accelerator *a, uint32_t device, void *data, uint64_t count, gcoll_type type, uint32_t divisor,
       gcoll_gate *const *gates, uint32_t gate_count, gcoll_ticket **ticket) {
        return a->divide(device, data, count, type, divisor, gates, gate_count, ticket);
    },
    [](gcoll_accelerator *a, gcoll_ticket *ticket, bool *done, gcoll_ticket_time *time) {
        return a->test(ticket, done, time);
    },
    [](gcoll_accelerator *a, const void *address, uint64_t bytes, gcoll_shared *shared) {
        return a->share(address, bytes, shared);
    },
    [](gcoll_accelerator *a, uint32_t device) { return a->arrived(device); },
    [](gcoll_accelerator *a, int64_t timeout_ms) { return a->drain(timeout_ms); },
};

} // namespace pretend
