// test/kit/pretend_device.h - a pretend machine with accelerators, for tests of device memory without a
// device.
//
// The host cannot access device memory: its addresses are in protected pages, and the bytes are elsewhere. A
// stray access ends the process with "host touched the memory of pretend device D at offset O". Operations
// run on other threads: late, in pieces, and between lanes in any order. Memory that was not written yet
// reads as poison. That is new memory, and the destination of every operation under way. Misuse of
// accelerator.h is refused, and noted in `violations`: for example an operation that conflicts with one under
// way, a wrong memory, or an unpin that comes too early.
//
// Under ThreadSanitizer, a device's threads are ordered only by what the interface promises: see
// pretend_work.h.
#ifndef GCOLL_TEST_PRETEND_DEVICE_H
#define GCOLL_TEST_PRETEND_DEVICE_H

#include <array>
#include <deque>
#include <map>
#include <mutex>
#include <string>
#include <unordered_set>
#include <vector>

#include "test/kit/pretend_work.h"

extern "C" {
#include "cuda/accelerator.h"
}

namespace pretend {

// Kinds of calls. A test can make each of them fail.
enum class Call { kOpen, kLocate, kPin, kMakeGate, kCopy, kFold, kDivide, kTest, kShare, kCount };

// The equipment of a machine.
struct Kit {
    uint32_t devices = 1;
    uint32_t lanes = 1; // threads for each of: copies to the host, copies from the host, everything else
    uint64_t seed = 1;
    // Size of the address range. Memory is taken only when it is allocated.
    uint64_t device_bytes = uint64_t{256} << 20;
    bool peers = true; // kernels can read the memory of other devices
    bool nccl = false;
    bool has_dmabufs = false; // a pretend file stands for each
    uint64_t alignment = 256; // alignment of memory; with 4096 a network's device may use it (share)
};

struct Copied {
    uint32_t dst_memory, src_memory;
    const void *dst, *src;
    uint64_t bytes;
};

struct Statistics {
    uint64_t in_bytes = 0, out_bytes = 0; // bytes from devices to the host, and from the host to devices
    uint64_t local_bytes = 0;             // bytes copied within and between devices
    uint64_t copies = 0, folds = 0, divides = 0, gates_made = 0, shares = 0, arrivals = 0;
    uint64_t pinned_bytes = 0, most_pinned_bytes = 0;
    // Current numbers:
    uint64_t tickets = 0, gates = 0, open = 0;

    void add(const Statistics &other);
};

// A stream of the application. Runs the kernels that a test gives it late, and in order.
class Stream {
  public:
    Stream(uint32_t device, uint64_t seed) : device_(device), seed_(seed) {}
    uint32_t device() const { return device_; }
    // Keeps the kernels from beginning, or allows it again.
    void hold(bool held);
    void push(std::function<void()> kernel);
    // The last kernel that was pushed, or NULL.
    const Task *latest();
    // Waits until all kernels are done.
    void wait();

  private:
    const uint32_t device_;
    const uint64_t seed_;
    std::mutex lock_;            // guards all fields below
    std::unique_ptr<Lane> lane_; // created with the first kernel
    std::deque<Task> tasks_;
    std::atomic<bool> held_{false};
    Random random_{seed_};
};

class Machine {
  public:
    explicit Machine(const Kit &kit = Kit());
    ~Machine();
    Machine(const Machine &) = delete;
    Machine &operator=(const Machine &) = delete;
    const Kit &kit() const { return kit_; }

    // Allocates poisoned memory, aligned to 256 bytes. kind is DEVICE, MANAGED (as inaccessible as DEVICE)
    // or, for host memory, PINNED.
    void *allocate(uint32_t device, uint64_t bytes, gcoll_memory_kind kind = GCOLL_MEMORY_DEVICE);
    void free(void *memory);
    // Access device memory directly, for the test itself.
    void write(void *memory, const void *from, uint64_t bytes);
    void read(const void *memory, void *to, uint64_t bytes);

    // Creates a stream that lives as long as the machine.
    Stream *new_stream(uint32_t device);
    Stream *default_stream(uint32_t device) { return &default_streams_[device]; }
    // Push a kernel that writes or reads these bytes.
    void write_later(Stream *stream, void *memory, const void *from, uint64_t bytes);
    void read_later(Stream *stream, const void *memory, void *to, uint64_t bytes);

    // While an object of this class lives, accelerators that this thread opens belong to its machine.
    class Here {
      public:
        explicit Here(Machine &machine);
        ~Here();

      private:
        Machine *before_;
    };
    // The last accelerator that this thread opened on this machine. It lives as long as the machine.
    gcoll_accelerator *opened();

    // Descriptions of all misuse so far.
    std::vector<std::string> violations();
    // Sums of all accelerators. None of them may be in use.
    Statistics statistics();

    // ---- For the accelerators
    struct Block {
        uint64_t bytes = 0;
        gcoll_memory_kind kind = GCOLL_MEMORY_DEVICE;
        uint8_t *secret = nullptr;
    };
    struct Found {
        uint32_t device = 0;
        bool is_of_device = false; // the address belongs to a device
        bool is_whole = false;     // and the whole range is allocated
        gcoll_memory_kind kind = GCOLL_MEMORY_HOST;
        uint64_t offset = 0;
        uint8_t *bytes = nullptr; // the real place of the bytes, if is_whole
    };
    Found find(const void *address, uint64_t bytes);
    Stream *stream_of(uint32_t device, void *handle);
    void violate(const std::string &text);
    Lane &lane(uint32_t device, uint32_t kind, uint64_t number) {
        return *lanes_[(device * 3 + kind) * kit_.lanes + number % kit_.lanes];
    }
    gcoll_accelerator *open(const gcoll_accelerator_options &options);

  private:
    struct Arena {
        uint8_t *base = nullptr;
        uint64_t next = 0;
        std::map<uint64_t, Block> blocks; // by offset
        size_t fence = 0;
    };

    const Kit kit_;
    std::mutex lock_; // guards all fields below but lanes_
    std::vector<Arena> arenas_;
    std::map<uintptr_t, Block> pinned_;
    std::deque<Stream> streams_, default_streams_;
    std::vector<std::unique_ptr<gcoll_accelerator>> accelerators_;
    std::vector<std::string> violations_;
    uint64_t seeds_ = 0;
    std::vector<std::unique_ptr<Lane>> lanes_; // last, so that the lanes end before what they use
};

extern const gcoll_accelerator_table table;

} // namespace pretend

struct gcoll_gate {
    const pretend::Task *after; // last kernel of the stream; NULL: it had none
    uint32_t device;
};

namespace pretend {

struct Range {
    uintptr_t begin, end;
};

// Ranges that operations under way read or write.
class Accesses {
  public:
    void add(const Range &range) { of(range).emplace(range.begin, range.end); }
    void remove(const Range &range);
    bool overlap(const Range &range) const;

  private:
    using Begins = std::multimap<uintptr_t, uintptr_t>; // begin and end of each range
    Begins &of(const Range &range);
    // By how many bits the length has. With all in one, a long range made a search go through all the short
    // ones that might have been as long: seconds, where a vector was cut into thousands of segments.
    std::array<Begins, 65> by_length_;
};

} // namespace pretend

struct gcoll_ticket {
    pretend::Task task;
    pretend::Lane *lane = nullptr;
    pretend::Range written{};
    std::vector<pretend::Range> read;
};

// An open accelerator. Tests call the methods on the thread that uses the context.
struct gcoll_accelerator {
    gcoll_accelerator(pretend::Machine &machine, const gcoll_accelerator_options &options, uint64_t seed);
    ~gcoll_accelerator();

    // Makes the nth call of this kind from now fail; 0: the next one.
    void fail_at(pretend::Call call, uint64_t nth);
    // Makes the nth copy from now hang until let_go().
    void stick_at(uint64_t nth) { stick_ = static_cast<int64_t>(nth); }
    void let_go();
    // Keeps operations from running, or allows it again.
    void hold(bool held);
    // Makes each operation end at once from now on. Exception: an operation whose first access is to `slow`
    // ends only after `asks` tests of its ticket.
    void hurry(const void *slow = nullptr, uint32_t asks = 0);
    const pretend::Statistics &statistics() const { return statistics_; }
    // All copies in the order of their beginning, without the first `from`. May be called from any thread.
    std::vector<pretend::Copied> copied(size_t from = 0) const;
    uint64_t calls(pretend::Call call) const { return calls_[static_cast<size_t>(call)]; }

    // ---- For the table
    gcoll_status enter(pretend::Call call);
    gcoll_status refuse(const std::string &text);
    gcoll_status pin(uint64_t bytes, void **memory);
    void unpin(void *memory, uint64_t bytes);
    gcoll_status make_gate(uint32_t device, void *stream, gcoll_gate **gate);
    void put_gate(gcoll_gate *gate);
    gcoll_status copy(const pretend::Copied &wanted, void *dst, gcoll_gate *const *gates, uint32_t gate_count,
                      gcoll_ticket **ticket);
    gcoll_status fold(const gcoll_fold &fold, gcoll_gate *const *gates, uint32_t gate_count,
                      gcoll_ticket **ticket);
    gcoll_status divide(uint32_t device, void *data, uint64_t count, gcoll_type type, uint32_t divisor,
                        gcoll_gate *const *gates, uint32_t gate_count, gcoll_ticket **ticket);
    gcoll_status test_gate(gcoll_gate *gate, bool *done);
    gcoll_status share(const void *address, uint64_t bytes, gcoll_shared *shared);
    gcoll_status arrived(uint32_t device);
    gcoll_status test(gcoll_ticket *ticket, bool *done, gcoll_ticket_time *time);
    gcoll_status drain(int64_t timeout_ms);
    void close();
    pretend::Machine &machine() { return machine_; }

  private:
    gcoll_status check_place(const char *what, const void *address, uint64_t bytes, uint32_t memory,
                             pretend::Machine::Found *found);
    gcoll_status check_operands(const gcoll_fold &fold, uint64_t bytes, std::vector<const uint8_t *> *places);
    bool is_in_the_way(const gcoll_ticket &wanted) const;
    bool is_slow(const gcoll_ticket &wanted) const;
    gcoll_status begin(std::unique_ptr<gcoll_ticket> wanted, pretend::Lane &lane, gcoll_gate *const *gates,
                       uint32_t gate_count, gcoll_ticket **ticket);
    void end(gcoll_ticket *ticket);
    bool sweep();

    pretend::Machine &machine_;
    const gcoll_accelerator_options options_;
    pretend::Random random_;
    pretend::Statistics statistics_;
    mutable std::mutex log_lock_; // guards copied_
    std::vector<pretend::Copied> copied_;
    std::array<uint64_t, static_cast<size_t>(pretend::Call::kCount)> calls_{};
    std::array<int64_t, static_cast<size_t>(pretend::Call::kCount)> fail_;
    int64_t stick_ = -1;
    // forgotten_: still running, but nobody asks for them
    std::unordered_set<gcoll_ticket *> live_, forgotten_;
    pretend::Accesses reads_, writes_; // of the operations in live_
    std::unordered_set<gcoll_gate *> gates_;
    std::map<uintptr_t, uint64_t> pins_;
    bool hurries_ = false;
    uintptr_t slow_ = 0;
    uint32_t slow_asks_ = 0;
    std::atomic<bool> held_{false};
};

#endif
