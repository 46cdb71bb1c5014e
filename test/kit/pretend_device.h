// test/kit/pretend_device.h - a machine with accelerators that is not there, for tests of staging.
//
// Device memory is inaccessible to the host: its addresses lie in protected pages, and the bytes elsewhere. A
// stray access dies with "host touched the memory of pretend device D at offset O". What is begun runs on
// other threads, late, in pieces, and out of order between lanes. What was not written reads as poison: new
// memory, and the destination of whatever is under way. Everything that a user of accelerator.h must not do
// (begin what something under way conflicts with, name a wrong memory, unpin too early, ...) is refused, and
// noted in `violations`.
//
// Under ThreadSanitizer, a device's threads are ordered by what the interface promises, and nothing else: see
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

// What can be told to fail.
enum class Call { kOpen, kLocate, kPin, kMakeGate, kCopy, kFold, kDivide, kTest, kShare, kCount };

// What a machine has.
struct Kit {
    uint32_t devices = 1;
    uint32_t lanes = 1; // threads for each of: copies to the host, copies from it, all else
    uint64_t seed = 1;
    uint64_t device_bytes = uint64_t{256} << 20; // of addresses; memory is taken as it is allocated
    bool peers = true;                           // kernels read the memory of other devices
    bool nccl = false;
    bool has_dmabufs = false; // a file that is none stands for each
    uint64_t alignment = 256; // of memory. 4096: a network's device may be told of it (share)
};

struct Copied {
    uint32_t dst_memory, src_memory;
    const void *dst, *src;
    uint64_t bytes;
};

struct Statistics {
    uint64_t in_bytes = 0, out_bytes = 0; // from devices to the host, from the host to devices
    uint64_t local_bytes = 0;             // copied within and between devices
    uint64_t copies = 0, folds = 0, divides = 0, gates_made = 0, shares = 0, arrivals = 0;
    uint64_t pinned_bytes = 0, most_pinned_bytes = 0;
    // Now:
    uint64_t tickets = 0, gates = 0, open = 0;

    void add(const Statistics &other);
};

// The caller's stream: does late what a test gives it, in order.
class Stream {
  public:
    Stream(uint32_t device, uint64_t seed) : device_(device), seed_(seed) {}
    uint32_t device() const { return device_; }
    // Whether what was given is kept from beginning.
    void hold(bool held);
    void push(std::function<void()> kernel);
    // The latest that was pushed, or NULL.
    const Task *latest();
    // Until all that was pushed is done.
    void wait();

  private:
    const uint32_t device_;
    const uint64_t seed_;
    std::mutex lock_;            // guards all below
    std::unique_ptr<Lane> lane_; // with the first task
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

    // Poisoned, aligned to 256 bytes. kind DEVICE, MANAGED (as inaccessible) or PINNED, of host memory.
    void *allocate(uint32_t device, uint64_t bytes, gcoll_memory_kind kind = GCOLL_MEMORY_DEVICE);
    void free(void *memory);
    // By the test itself, at once.
    void write(void *memory, const void *from, uint64_t bytes);
    void read(const void *memory, void *to, uint64_t bytes);

    // Lives as long as the machine.
    Stream *new_stream(uint32_t device);
    Stream *default_stream(uint32_t device) { return &default_streams_[device]; }
    // Kernels of a caller's: these bytes are written, or read, when the stream gets there.
    void write_later(Stream *stream, void *memory, const void *from, uint64_t bytes);
    void read_later(Stream *stream, const void *memory, void *to, uint64_t bytes);

    // While it lives, accelerators that this thread opens are of this machine.
    class Here {
      public:
        explicit Here(Machine &machine);
        ~Here();

      private:
        Machine *before_;
    };
    // The latest that was opened on this machine by this thread. Lives as long as the machine.
    gcoll_accelerator *opened();

    // What was done wrong, in words.
    std::vector<std::string> violations();
    // Of all accelerators. None of them may be in use.
    Statistics statistics();

    // ---- For the accelerators
    struct Block {
        uint64_t bytes = 0;
        gcoll_memory_kind kind = GCOLL_MEMORY_DEVICE;
        uint8_t *secret = nullptr;
    };
    struct Found {
        uint32_t device = 0;
        bool is_of_device = false; // an address that is some device's
        bool is_whole = false;     // and all of it allocated
        gcoll_memory_kind kind = GCOLL_MEMORY_HOST;
        uint64_t offset = 0;
        uint8_t *bytes = nullptr; // where they really are, if is_whole
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
    std::mutex lock_; // guards all below, but for lanes
    std::vector<Arena> arenas_;
    std::map<uintptr_t, Block> pinned_;
    std::deque<Stream> streams_, default_streams_;
    std::vector<std::unique_ptr<gcoll_accelerator>> accelerators_;
    std::vector<std::string> violations_;
    uint64_t seeds_ = 0;
    std::vector<std::unique_ptr<Lane>> lanes_; // last: they end before what they touch
};

extern const gcoll_accelerator_table table;

} // namespace pretend

struct gcoll_gate {
    const pretend::Task *after; // of a stream; NULL: it had nothing
    uint32_t device;
};

namespace pretend {

struct Range {
    uintptr_t begin, end;
};

// What things under way read and write.
class Accesses {
  public:
    void add(const Range &range) {
        begins_.emplace(range.begin, range.end), longest_ = std::max(longest_, range.end - range.begin);
    }
    void remove(const Range &range);
    bool overlap(const Range &range) const;

  private:
    std::multimap<uintptr_t, uintptr_t> begins_; // and ends
    uintptr_t longest_ = 0;
};

} // namespace pretend

struct gcoll_ticket {
    pretend::Task task;
    pretend::Lane *lane = nullptr;
    pretend::Range written{};
    std::vector<pretend::Range> read;
};

// One that was opened. The methods are for tests, on the thread that uses the context.
struct gcoll_accelerator {
    gcoll_accelerator(pretend::Machine &machine, const gcoll_accelerator_options &options, uint64_t seed);
    ~gcoll_accelerator();

    // The nth call from now of this kind fails; 0: the next one.
    void fail_at(pretend::Call call, uint64_t nth);
    // The nth copy from now never ends, until let_go().
    void stick_at(uint64_t nth) { stick_ = static_cast<int64_t>(nth); }
    void let_go();
    // Whether what was begun is kept from running.
    void hold(bool held);
    // From now on everything is done as soon as it is begun, but for what reads or writes first of all
    // `slow`: that is not done before it was asked for so often.
    void hurry(const void *slow = nullptr, uint32_t asks = 0);
    const pretend::Statistics &statistics() const { return statistics_; }
    // All copies but the first `from`, in the order of their beginning. From any thread.
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
    std::unordered_set<gcoll_ticket *> live_, forgotten_; // the latter still run, but nobody asks
    pretend::Accesses reads_, writes_;                    // of live ones
    std::unordered_set<gcoll_gate *> gates_;
    std::map<uintptr_t, uint64_t> pins_;
    bool hurries_ = false;
    uintptr_t slow_ = 0;
    uint32_t slow_asks_ = 0;
    std::atomic<bool> held_{false};
};

#endif
