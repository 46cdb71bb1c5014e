// Staging that is broken on purpose: copies that are missing, dependencies that are missing, places in the
// wrong memory. Each is noticed by what the devices refuse, or by what comes out.
//
// One thread drives all ranks, and devices are as fast or as slow as the case wants them, so nothing hangs on
// the machine's own timing.
#include "test/staging/staging_calls.h"

extern "C" {
#include "test/staging/staging_peek.h"
}

namespace {

using namespace staging;
using gcoll_test::Group;
using gcoll_test::Job;

constexpr uint32_t kRanks = 3, kVictim = 1; // the rank whose plan is spoiled
constexpr uint32_t kSlowAsks = 300;         // far longer than all else takes together
constexpr int kTurns = 20000;

struct Case {
    const char *algorithm;
    uint32_t buffers;
    bool in_place;
    gcoll_memory_local local;
};

// ---- Plans as graphs -----------------------------------------------------------------------------------

struct Access {
    uint32_t space, index;
    uint64_t begin, end;
    bool writes;
};

// A copy of a plan that outlives it.
struct Graph {
    explicit Graph(const gcoll_plan &plan)
        : steps(plan.steps, plan.steps + plan.step_count), window(plan.window) {
        for (const gcoll_step &step : steps) {
            on_device.push_back(gcoll_step_is_on_device(&plan, &step));
            successors.emplace_back(plan.successors + step.first_successor,
                                    plan.successors + step.first_successor + step.successors);
            accesses.push_back(accesses_of(plan, step));
        }
    }

    static std::vector<Access> accesses_of(const gcoll_plan &plan, const gcoll_step &step) {
        std::vector<Access> found;
        const auto add = [&](gcoll_ref ref, bool writes) {
            found.push_back({ref.space, ref.index, ref.offset, ref.offset + step.count, writes});
        };
        if (step.count == 0)
            return found;
        if (step.kind != GCOLL_STEP_SEND)
            add(step.dst, true);
        if (step.kind == GCOLL_STEP_FOLD)
            for (uint32_t i = 0; i < step.operand_count; i++) {
                gcoll_ref ref = step.a;
                ref.index = plan.operands[step.first_operand + i];
                add(ref, false);
            }
        else if (step.kind != GCOLL_STEP_RECV && step.kind != GCOLL_STEP_DIVIDE)
            add(step.a, false);
        if (step.kind == GCOLL_STEP_REDUCE)
            add(step.b, false);
        return found;
    }

    bool conflict(uint32_t x, uint32_t y) const {
        for (const Access &a : accesses[x])
            for (const Access &b : accesses[y])
                if (a.space == b.space && a.index == b.index && a.begin < b.end && b.begin < a.end &&
                    (a.writes || b.writes))
                    return true;
        return false;
    }

    // Whether y waits for x, if the edge from u to v is left out.
    bool is_ordered(uint32_t x, uint32_t y, uint32_t u, uint32_t v) const {
        if (window != GCOLL_WINDOW_UNBOUNDED && steps[y].round > steps[x].round + window)
            return true;
        std::vector<bool> reached(steps.size());
        reached[x] = true;
        for (uint32_t from = x; from < y; from++)
            for (uint32_t to : successors[from])
                if (reached[from] && !(from == u && to == v))
                    reached[to] = true;
        return reached[y];
    }

    // A step of a device's, and one that touches the same and need not be after it (or before it) any more.
    bool find_unordered(uint32_t u, uint32_t v, uint32_t *earlier) const {
        for (uint32_t x = 0; x < steps.size(); x++)
            for (uint32_t y = x + 1; y < steps.size(); y++)
                if ((on_device[x] || on_device[y]) && conflict(x, y) && !is_ordered(x, y, u, v)) {
                    *earlier = x;
                    return true;
                }
        return false;
    }

    std::vector<gcoll_step> steps;
    const uint32_t window;
    std::vector<bool> on_device;
    std::vector<std::vector<uint32_t>> successors;
    std::vector<std::vector<Access>> accesses;
};

void drop_step(gcoll_plan *plan, uint32_t step) { // a fence keeps the order
    plan->steps[step].kind = GCOLL_STEP_COPY;
    plan->steps[step].count = 0;
    plan->steps[step].dst = plan->steps[step].a = gcoll_scratch(0);
}

void drop_edge(gcoll_plan *plan, uint32_t from, uint32_t to) {
    gcoll_step *step = &plan->steps[from];
    uint32_t *begin = plan->successors + step->first_successor, *end = begin + step->successors;
    uint32_t *edge = std::find(begin, end, to);
    ASSERT_NE(edge, end);
    *edge = end[-1];
    step->successors--;
    plan->steps[to].dependencies--;
}

// ---- A job with one spoiled plan -----------------------------------------------------------------------

class Scene {
  public:
    explicit Scene(const Case &given) : group_(job()), problem_(call(given)) {
        for (uint32_t rank = 0; rank < kRanks; rank++) {
            layout_.push_back(Layout());
            layout_[rank].in_place = given.in_place;
            layout_[rank].local = given.local;
            for (uint32_t k = 0; k < given.buffers; k++) {
                Place place;
                place.kind = GCOLL_MEMORY_DEVICE;
                layout_[rank].in.push_back(place);
                layout_[rank].out.push_back(place);
            }
            accelerators_.push_back(accelerate(group_[rank], machine_));
            accelerators_[rank]->hurry();
        }
    }

    // Once as it should be, so that there are plans.
    gcoll_plan *plan() {
        make_flights();
        EXPECT_EQ(run(), "");
        flights_.clear();
        return staging_plan_of(group_[kVictim]);
    }

    // Again, with one step of the victim's (of a device) slow, or none. What was noticed, or "".
    std::string run_spoiled(const gcoll_step *slow) {
        make_flights();
        if (slow)
            accelerators_[kVictim]->hurry(address_of(*slow), kSlowAsks);
        std::string noticed = run();
        if (!machine_.violations().empty())
            noticed = machine_.violations()[0];
        return noticed;
    }

  private:
    static Job job() {
        Job job;
        job.size = kRanks;
        return job;
    }

    static Call call(const Case &given) {
        Call call;
        call.size = kRanks;
        call.counts = {30};
        call.buffers.assign(kRanks, given.buffers);
        call.algorithm = given.algorithm;
        call.form = kPersistent;
        return call;
    }

    void make_flights() {
        for (uint32_t rank = 0; rank < kRanks; rank++)
            flights_.push_back(std::make_unique<Flight>(problem_, rank, layout_[rank], machine_));
    }

    // The place in device memory that a step reads or writes first of all.
    const void *address_of(const gcoll_step &step) {
        const gcoll_ref ref = step.dst.space == GCOLL_SCRATCH ? step.a : step.dst;
        const Flight &flight = *flights_[kVictim];
        auto *base =
            static_cast<uint8_t *>(ref.space == GCOLL_IN ? flight.in(ref.index) : flight.out(ref.index));
        return base + ref.offset * gcoll_type_size(problem_.call.type);
    }

    std::string run() {
        std::vector<uint32_t> left;
        for (uint32_t rank = 0; rank < kRanks; rank++) {
            if (flights_[rank]->start(group_[rank], problem_.call.algorithm) != GCOLL_OK)
                return gcoll_last_error();
            left.push_back(rank);
        }
        for (int turn = 0; turn < kTurns && !left.empty(); turn++)
            for (size_t i = 0; i < left.size(); i++) {
                int done = 0;
                if (gcoll_operation_test(flights_[left[i]]->operation(), &done) != GCOLL_OK)
                    return gcoll_last_error();
                if (done)
                    left.erase(left.begin() + static_cast<std::ptrdiff_t>(i--));
            }
        if (!left.empty())
            return "did not end";
        for (const auto &flight : flights_)
            for (uint32_t k = 0; k < problem_.call.buffers[0]; k++)
                if (!flight->fault(k).empty())
                    return flight->fault(k);
        return "";
    }

    pretend::Machine machine_;
    std::vector<std::unique_ptr<Flight>> flights_; // gone after the contexts
    Group group_;
    Problem problem_;
    std::vector<Layout> layout_;
    std::vector<gcoll_accelerator *> accelerators_;
};

class Broken : public testing::TestWithParam<Case> {};

std::string text_of(const Graph &graph, uint32_t step) {
    static const char *const kinds[] = {"send", "recv", "recv_reduce", "reduce", "copy", "divide", "fold"};
    const gcoll_step &s = graph.steps[step];
    static const char *const spaces[] = {"in", "out", "scratch"};
    return "step " + std::to_string(step) + " (" + kinds[s.kind] + " of " + std::to_string(s.count) + ", " +
           spaces[s.dst.space] + std::to_string(s.dst.index) + "+" + std::to_string(s.dst.offset) + ", " +
           spaces[s.a.space] + std::to_string(s.a.index) + "+" + std::to_string(s.a.offset) + ", round " +
           std::to_string(s.round) + ")";
}

TEST_P(Broken, AMissingCopyOrReductionIsNoticed) {
    const Graph graph(*Scene(GetParam()).plan());
    uint32_t dropped = 0;
    for (uint32_t step = 0; step < graph.steps.size(); step++) {
        if (!graph.on_device[step])
            continue;
        Scene scene(GetParam());
        drop_step(scene.plan(), step);
        EXPECT_NE(scene.run_spoiled(nullptr), "") << text_of(graph, step);
        dropped++;
    }
    EXPECT_GE(dropped, 2u); // there and back
}

TEST_P(Broken, AMissingDependencyIsNoticed) {
    const Graph graph(*Scene(GetParam()).plan());
    uint32_t dropped = 0;
    for (uint32_t from = 0; from < graph.steps.size(); from++)
        for (uint32_t to : graph.successors[from]) {
            uint32_t earlier = 0; // dependencies between steps of the host's are the algorithm's own
            if (!(graph.on_device[from] || graph.on_device[to]) || !graph.find_unordered(from, to, &earlier))
                continue;
            Scene scene(GetParam());
            drop_edge(scene.plan(), from, to);
            const gcoll_step *slow = graph.on_device[earlier] ? &graph.steps[earlier] : nullptr;
            EXPECT_NE(scene.run_spoiled(slow), "") << text_of(graph, from) << " -> " << text_of(graph, to)
                                                   << ", slow is " << text_of(graph, earlier);
            dropped++;
        }
    EXPECT_GE(dropped, 2u);
}

// The host in a device's memory: which kinds of steps, and which of their places.
void redirect(const Case &given, gcoll_step_kind kind, bool dst) {
    Scene scene(given);
    gcoll_plan *plan = scene.plan();
    for (uint32_t i = 0; i < plan->step_count; i++) {
        gcoll_step *step = &plan->steps[i];
        gcoll_ref *ref = dst ? &step->dst : &step->a;
        if (step->kind != kind || step->count == 0 || ref->space != GCOLL_SCRATCH)
            continue;
        *ref = gcoll_out(0, 3);
        scene.run_spoiled(nullptr);
        return;
    }
    fprintf(stderr, "no such step\n");
}

using BrokenDeathTest = Broken;

TEST_P(BrokenDeathTest, ASpaceThatIsWrongKills) {
    testing::GTEST_FLAG(death_test_style) = "threadsafe";
    const std::string told = "host touched the memory of pretend device 0 at offset";
    const Graph graph(*Scene(GetParam()).plan());
    uint32_t killed = 0;
    for (const auto &[kind, dst] :
         {std::make_pair(GCOLL_STEP_SEND, false), std::make_pair(GCOLL_STEP_RECV, true),
          std::make_pair(GCOLL_STEP_RECV_REDUCE, true)}) {
        const auto is_one = [kind = kind](const gcoll_step &step) { return step.kind == kind; };
        if (std::none_of(graph.steps.begin(), graph.steps.end(), is_one))
            continue;
        EXPECT_DEATH(redirect(GetParam(), kind, dst), told) << "kind " << kind;
        killed++;
    }
    EXPECT_GE(killed, 2u);
}

const Case kCases[] = {{"ring", 1, true, GCOLL_MEMORY_LOCAL_AUTO},
                       {"ring:segment=16", 1, false, GCOLL_MEMORY_LOCAL_AUTO},
                       {"ring", 3, false, GCOLL_MEMORY_LOCAL_DEVICE},
                       {"ring", 2, true, GCOLL_MEMORY_LOCAL_HOST},
                       {"cuda_ring", 2, false, GCOLL_MEMORY_LOCAL_AUTO},
                       {"cuda_halving_doubling", 2, true, GCOLL_MEMORY_LOCAL_AUTO},
                       {"cuda_halving_doubling_pipelined", 2, false, GCOLL_MEMORY_LOCAL_AUTO},
                       {"cuda_bcube", 2, true, GCOLL_MEMORY_LOCAL_AUTO}};

std::string case_name(const testing::TestParamInfo<Case> &info) {
    std::string name = info.param.algorithm;
    std::replace_if(
        name.begin(), name.end(), [](char c) { return !isalnum(c); }, '_');
    return name + "_" + std::to_string(info.param.buffers) + "_" + gcoll_memory_local_name(info.param.local) +
           (info.param.in_place ? "_in_place" : "");
}

INSTANTIATE_TEST_SUITE_P(Some, Broken, testing::ValuesIn(kCases), case_name);
INSTANTIATE_TEST_SUITE_P(Some, BrokenDeathTest, testing::Values(kCases[0], kCases[2], kCases[4]), case_name);

} // namespace
