// test/plan/verify_support.h - plans that tests can take apart, and an oracle that runs them on data.
//
// The oracle shares nothing with the verifier: it keeps real elements, picks steps at random, lets
// sends be buffered or not, and writes rubbish wherever the rules allow a step to.
#ifndef GCOLL_TEST_VERIFY_SUPPORT_H
#define GCOLL_TEST_VERIFY_SUPPORT_H

#include <cstdint>
#include <random>
#include <string>
#include <vector>

extern "C" {
#include "gcoll/plan/steps.h"
}

namespace verify_test {

// A plan of one rank whose edges are lists, so that steps can be added and dropped.
struct Plan {
    gcoll_problem problem{};
    std::vector<gcoll_step> steps;
    std::vector<std::vector<uint32_t>> next; // successors, by step
    uint32_t window = GCOLL_WINDOW_UNBOUNDED;
    uint32_t divisor = 1;
    uint64_t scratch = 0;
    std::vector<uint16_t> operands;              // of folds
    std::vector<uint32_t> in_memory, out_memory; // as the problem's, whose pointers are not used; or empty

    static Plan of(const gcoll_plan &plan);

    // These append a step that waits for `after`, and return its number.
    uint32_t add(gcoll_step step, const std::vector<uint32_t> &after);
    uint32_t send(uint32_t peer, gcoll_ref a, uint64_t count, const std::vector<uint32_t> &after = {});
    uint32_t recv(uint32_t peer, gcoll_ref dst, uint64_t count, const std::vector<uint32_t> &after = {});
    uint32_t recv_reduce(uint32_t peer, gcoll_ref dst, gcoll_ref a, uint64_t count,
                         const std::vector<uint32_t> &after = {}, bool received_first = false);
    uint32_t reduce(gcoll_ref dst, gcoll_ref a, gcoll_ref b, uint64_t count,
                    const std::vector<uint32_t> &after = {});
    uint32_t copy(gcoll_ref dst, gcoll_ref a, uint64_t count, const std::vector<uint32_t> &after = {});
    uint32_t divide(gcoll_ref dst, uint64_t count, const std::vector<uint32_t> &after = {});
    uint32_t fold(gcoll_ref dst, gcoll_ref a, const std::vector<uint16_t> &of, uint64_t count,
                  const std::vector<uint32_t> &after = {});
    // Gives a fold other operands.
    void set_operands(uint32_t step, const std::vector<uint16_t> &of);
    std::vector<uint16_t> operands_of(const gcoll_step &step) const;
    // Where the operands of a fold are.
    std::vector<gcoll_ref> places_of(const gcoll_step &step) const;
    // GCOLL_HOST_MEMORY, or which device's.
    uint32_t memory(gcoll_ref ref) const;

    // Takes a step out; what waited for it waits for what it waited for.
    void drop(uint32_t step);
    // Puts a step behind `step`; what waited for `step` waits for it.
    void insert_after(uint32_t step, gcoll_step extra);
    // Numbers messages by their order.
    void number_messages();
    // reaches[i][j]: j waits, directly or not, for i.
    std::vector<std::vector<bool>> closure() const;
};

using Job = std::vector<Plan>;

// A job of empty plans.
Job make_job(gcoll_collective collective, uint32_t size, uint64_t count, bool in_place = true,
             uint32_t buffers = 1);

// The job as the C structures that gcoll_verify takes.
class Flat {
  public:
    explicit Flat(const Job &job);
    gcoll_plan &plan(uint32_t rank) { return plans_[rank]; }
    gcoll_status verify(gcoll_verify_report *report = nullptr);

  private:
    std::vector<gcoll_plan> plans_;
    std::vector<std::vector<gcoll_step>> steps_;
    std::vector<std::vector<uint32_t>> successors_;
    std::vector<std::vector<uint16_t>> operands_;
    std::vector<std::vector<uint32_t>> in_memory_, out_memory_;
};

// "" if the verifier accepts the job, else the text of its error.
std::string verdict(const Job &job, gcoll_verify_report *report = nullptr);

// Which memory of a rank ref is in: SCRATCH is 0, then come IN and OUT, which are one if in place.
uint32_t memory_of(const gcoll_problem &problem, gcoll_ref ref);

// A step of the host that touches the memory of a device, or one of a device that reaches too far.
bool strays(const Job &job);
// An element of a buffer in device memory that is copied to the host twice, or from there.
bool crosses_twice(const Job &job);
// Two conflicting steps that no path joins: looked for pair by pair.
bool has_race(const Job &job);

struct Outcome {
    bool deadlock = false;
    bool right =
        false; // every output is what the collective promises, and the rest of an input in place is kept
    bool rank_identical = false;      // for an operation that commutes but does not associate
    bool ordered = false;             // for one that associates but does not commute
    bool pairs = false, left = false; // for one that commutes but does not associate: that tree, everywhere
    bool read_rubbish = false;        // a step read what was never written
    bool reduced_twice =
        false; // a step, of use or not, added what was in already (up to 16 ranks of 4 buffers)
    bool divided_early = false; // a step, of use or not, divided what was not the sum of all (as above)
    bool misplaced = false;     // a step, of use or not, reduced elements of different places
};

// Which sends end before their receive has started.
enum class Buffering { none, some, all };

// Runs the job once.
Outcome execute(const Job &job, uint32_t seed, Buffering buffering);

// Runs a barrier with each rank late in turn; false if anyone left before the late one came.
bool barrier_holds(const Job &job);

} // namespace verify_test

#endif
