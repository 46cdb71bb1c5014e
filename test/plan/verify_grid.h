// test/plan/verify_grid.h - problems for all ranks, and their plans, for tests that go through the whole
// table.
#ifndef GCOLL_TEST_VERIFY_GRID_H
#define GCOLL_TEST_VERIFY_GRID_H

#include <cstdint>
#include <string>
#include <vector>

extern "C" {
#include "algorithms/algorithms.h"
#include "test/kit/sanitizer.h"
}

namespace verify_grid {

const bool small_grid = gcoll_test::is_short();

inline uint32_t log2_ceil(uint32_t size) {
    uint32_t log = 0;
    while ((uint64_t{1} << log) < size)
        log++;
    return log;
}

enum class Place { apart, in_place, mixed };

// Where buffers lie. `halves`: the first half of them on one device, the others on the next; `spread`: on two
// devices in turn; `shared`: every other one in host memory; `inputs`, `outputs`: only those on a device (in
// place: all); `ranks`: every other rank has all in host memory, the others on a device of their own number.
enum class Layout { host, device, halves, spread, shared, inputs, outputs, ranks };
constexpr uint32_t layout_count = 8;

// One operation of all ranks. What may differ between ranks is derived from the rank.
struct Operation {
    gcoll_problem problem{}; // its rank, in_place and arrays are filled in by of()
    Place place = Place::apart;
    bool mixed_buffers = false; // 1, 2, 3, 1, 2, 3, ...
    Layout layout = Layout::host;
    std::vector<uint64_t> blocks;             // none, or elements of each block
    std::vector<std::vector<uint64_t>> pairs; // alltoall: none, or [from][to]
    std::vector<uint32_t> node;
    std::vector<int64_t> arrival;
    std::vector<uint32_t> tour;

    Operation(gcoll_collective collective, uint32_t size, uint64_t count);
    // After blocks or pairs are given.
    void use_blocks();
    // After all else is.
    void use_layout(Layout chosen);
    gcoll_problem of(uint32_t rank) const;
    std::string describe(const gcoll_algorithm &algorithm) const;

  private:
    std::string describe_layout() const;
    std::vector<std::vector<uint64_t>> offsets_, recv_offsets_; // one for all, or by rank
    std::vector<std::vector<uint32_t>> in_memory_, out_memory_; // by rank
};

// The plans of all ranks; through the planner alone, unasked whether it applies, if `bare`.
class Plans {
  public:
    Plans(const gcoll_algorithm &algorithm, const Operation &operation, bool bare = false);
    Plans(const Plans &) = delete;
    Plans &operator=(const Plans &) = delete;
    ~Plans();
    gcoll_status verify(gcoll_verify_report *report) const;
    uint64_t largest_step() const;
    uint64_t most_received() const; // elements, by the rank that receives most
    uint64_t scratch(uint32_t rank) const;
    gcoll_status status() const { return status_; }

  private:
    gcoll_status status_ = GCOLL_OK;
    std::vector<gcoll_plan *> plans_;
};

bool has_root(gcoll_collective collective);
bool has_blocks(gcoll_collective collective);
bool has_buffers(gcoll_collective collective);
// Whether any rank may work in place.
bool has_in_place(gcoll_collective collective);

// All settings of an algorithm's options that are worth a try with `size` ranks.
std::vector<std::vector<int64_t>> settings(const gcoll_algorithm &algorithm, uint32_t size);

} // namespace verify_grid

#endif
