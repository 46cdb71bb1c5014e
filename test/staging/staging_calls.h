// test/staging/staging_calls.h - collectives of all kinds on buffers that lie anywhere, and what must come of
// them.
#ifndef GCOLL_TEST_STAGING_CALLS_H
#define GCOLL_TEST_STAGING_CALLS_H

#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <vector>

#include "test/kit/harness.h"
#include "test/kit/pretend_device.h"

extern "C" gcoll_status gcoll_context_accelerate(gcoll_context *context, const gcoll_accelerator_table *table,
                                                 const gcoll_accelerator_options *options);

namespace staging {

using pretend::Machine;
using Bytes = std::vector<uint8_t>;

// The context of this thread gets the devices of the machine. NULL, and a failure, if it does not.
gcoll_accelerator *accelerate(gcoll_context *context, Machine &machine, bool times = false);

// Nothing was done wrong, and nothing is left of contexts that are gone.
void expect_clean(Machine &machine);

// Threads with contexts of one job, each with the devices of the machine; afterwards all must be clean.
using Body = std::function<void(uint32_t rank, gcoll_context *context, gcoll_accelerator *accelerator)>;
void run_staged(const gcoll_test::Job &job, Machine &machine, const Body &body);

enum Kind {
    kAllreduce,
    kReduce,
    kReduceScatter,
    kReduceScatterV,
    kBroadcast,
    kAllgather,
    kAllgatherV,
    kGather,
    kGatherV,
    kScatter,
    kScatterV,
    kAlltoall,
    kAlltoallV,
    kPairwiseExchange,
    kKinds
};
const char *collective_of(Kind kind);

enum Form { kBlocking, kStarted, kPersistent };

// The same on every rank.
struct Call {
    uint32_t number = 0, size = 1, root = 0;
    Kind kind = kAllreduce;
    gcoll_type type = GCOLL_INT32;
    gcoll_op op = GCOLL_SUM;
    std::vector<uint64_t> counts;  // of blocks; a vector that has none is one
    std::vector<uint32_t> buffers; // of each rank
    std::string algorithm = "auto";
    Form form = kBlocking;

    uint64_t total() const;
    uint64_t offset(uint32_t block) const;
    // Alltoall: what `from` has for `to`.
    uint64_t sent(uint32_t from, uint32_t to) const;
    bool reduces() const { return kind <= kReduceScatterV; }
    bool scatters_reduced() const { return kind == kReduceScatter || kind == kReduceScatterV; }
    bool reduces_buffers() const { return kind == kAllreduce || scatters_reduced(); } // of each rank
    bool has_root() const;
    uint32_t contributions() const;
    std::string told() const;
};

// A call, and what it must give.
class Problem {
  public:
    explicit Problem(const Call &given) : call(given) {}
    const Call call;
    // The IN of one contribution (buffer of a rank, counted through; where one is all, a rank).
    Bytes input(uint32_t contribution, uint32_t run) const;
    Bytes output(uint32_t rank, uint32_t run);
    uint64_t input_elements(uint32_t rank) const;
    uint64_t output_elements(uint32_t rank) const;

  private:
    const Bytes &reduced(uint32_t run);
    std::mutex lock_;                   // guards reduced_
    std::map<uint32_t, Bytes> reduced_; // by run
};

struct Place {
    gcoll_memory_kind kind = GCOLL_MEMORY_HOST;
    uint32_t device = 0;
    bool is_on_device() const { return kind >= GCOLL_MEMORY_MANAGED; }
    uint32_t memory() const { return is_on_device() ? device + 1 : 0; }
};

// Where a rank's buffers are, and how it wants them to be treated.
struct Layout {
    std::vector<Place> in, out; // by buffer
    bool in_place = false;
    bool has_streams = false; // of its own; kernels on them write inputs, late
    bool is_late = false;     // kernels write inputs, on streams of its own or the default ones
    bool is_declared = false; // what gcoll_memory can say of all, it says
    gcoll_memory_local local = GCOLL_MEMORY_LOCAL_AUTO;
};

// A layout of any kind that is allowed for this rank of the call.
Layout random_layout(std::mt19937 &random, const Call &call, uint32_t rank, const pretend::Kit &kit);

// Memory with a guard on both sides.
class Field {
  public:
    Field(Machine &machine, const Place &place, uint64_t bytes);
    ~Field();
    Field(const Field &) = delete;
    Field &operator=(const Field &) = delete;
    uint8_t *data() const { return data_; }
    uint64_t bytes() const { return bytes_; }
    const Place &place() const { return place_; }
    void write(uint64_t offset, const Bytes &from);
    Bytes read(uint64_t offset, uint64_t bytes) const;
    bool is_intact() const; // the guards of host memory; devices refuse to go beyond

  private:
    Machine &machine_;
    const Place place_;
    const uint64_t bytes_;
    Bytes host_;
    uint8_t *data_ = nullptr;
};

// One rank's part of a call.
class Flight {
  public:
    Flight(Problem &problem, uint32_t rank, const Layout &layout, Machine &machine);
    ~Flight();
    Flight(const Flight &) = delete;
    Flight &operator=(const Flight &) = delete;
    // This rank's own reduction (GCOLL_USER) fails when it is called for the first time.
    void refuse() { refuses_ = true; }
    // New inputs, and begins; a blocking call ends, too.
    gcoll_status start(gcoll_context *context, const std::string &algorithm);
    // Ends, and compares.
    gcoll_status finish();
    // Some progress with one that was started; an error ends it.
    gcoll_status turn();
    // Of one that is persistent and was started, without waiting or comparing.
    gcoll_operation *operation() const { return operation_; }
    // Once more, if it is persistent.
    gcoll_status restart();
    std::string told() const;
    // Where the k-th input or output begins; NULL if there is none.
    void *in(uint32_t k) const;
    void *out(uint32_t k) const;
    // That every byte of device memory was copied at most once each way, and all of them as many as it says.
    void expect_staged_once(const gcoll_accelerator &accelerator, size_t copied_before) const;
    void check() const;
    // What is wrong with the k-th output, or "".
    std::string fault(uint32_t k) const;

  private:
    void prepare();
    void fill(Field &field, uint64_t offset, const Bytes &content, pretend::Stream *stream);
    gcoll_status call(gcoll_context *context);
    gcoll_status call_blocks(gcoll_context *context);
    pretend::Stream *stream(uint32_t k) const;

    Problem &problem_;
    const Call &call_;
    const uint32_t rank_;
    const Layout layout_;
    Machine &machine_;
    std::vector<std::unique_ptr<Field>> in_, out_; // in place: out_ has all
    uint64_t in_shift_ = 0, out_shift_ = 0;        // bytes, in place
    uint64_t in_bytes_, out_bytes_;
    std::vector<pretend::Stream *> streams_;
    std::vector<Bytes> before_; // what kernels saw in outputs before the call wrote them
    uint32_t run_ = 0;
    std::string algorithm_;
    Form form_;
    gcoll_user_op user_{};
    bool refuses_ = false;
    gcoll_memory memory_{};
    std::vector<void *> handles_, outs_;
    std::vector<const void *> ins_;
    std::vector<uint64_t> sends_, recvs_;
    gcoll_request *request_ = nullptr;
    gcoll_operation *operation_ = nullptr;
};

} // namespace staging

#endif
