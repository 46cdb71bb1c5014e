// Every algorithm on buffers in the memory of devices, of all shapes, against plain loops.
// GCOLL_TEST_SEED in the environment: what is drawn; GCOLL_TEST_SOAK: how many times as much.
#include <algorithm>
#include <cstdlib>

#include "test/kit/element_oracle.h"
#include "test/kit/sanitizer.h"
#include "test/kit/setting.h"
#include "test/staging/staging_calls.h"

namespace {

using namespace staging;
using gcoll_test::Job;
using gcoll_test::setting;
using pretend::Kit;

const uint32_t kSamples = gcoll_test::is_sanitized() ? 2 : 4;
const uint64_t kLarge = gcoll_test::is_sanitized() ? 20003 : 100003;
// With more elements than this there are two buffers at most, and no segments of 100 bytes: else there would
// be tens of thousands of copies. Blocks that vary may have anything up to kLarge together.
const uint64_t kMany = 2000;

uint32_t pick(std::mt19937 &random, uint32_t of) {
    return static_cast<uint32_t>(random() % of);
}

constexpr gcoll_op kOps[] = {GCOLL_SUM,    GCOLL_PRODUCT, GCOLL_MIN,  GCOLL_MAX,  GCOLL_AVG,
                             GCOLL_AVG,    GCOLL_BAND,    GCOLL_BXOR, GCOLL_LAND, GCOLL_LXOR,
                             GCOLL_MINLOC, GCOLL_MAXLOC,  GCOLL_USER};

// Sums of many contributions are not exact in 8-bit floats.
bool is_drawn(gcoll_type type, gcoll_op op) {
    const element_oracle::Shape shape = element_oracle::shape_of(type);
    const bool rounds = shape.is_float && shape.bytes == 1 && (op == GCOLL_SUM || op == GCOLL_AVG);
    return op == GCOLL_USER || (element_oracle::defined(type, op) && !rounds);
}

void draw_counts(std::mt19937 &random, Call &call) {
    const uint32_t size = call.size;
    const uint64_t counts[] = {0, 1, size - 1, size, 37, 1000, 1000, kLarge};
    uint64_t count = counts[pick(random, 7 + (pick(random, 12) == 0))];
    const bool varies = call.kind == kReduceScatterV || call.kind == kAllgatherV || call.kind == kGatherV ||
                        call.kind == kScatterV;
    const bool has_blocks = call.kind != kAllreduce && call.kind != kReduce && call.kind != kBroadcast &&
                            call.kind != kPairwiseExchange;
    if (has_blocks)
        count = (count + size - 1) / size;
    for (uint32_t block = 0; block < (has_blocks ? size : 1); block++)
        call.counts.push_back(
            varies ? (pick(random, 4) == 0 ? 0 : pick(random, static_cast<uint32_t>(count) + 2)) : count);
}

Call draw(std::mt19937 &random, uint32_t number, uint32_t size, Kind kind, const std::string &algorithm) {
    static const uint32_t buffers[] = {1, 1, 2, 3, 8};
    Call call;
    call.number = number;
    call.size = size;
    call.kind = kind;
    call.algorithm = algorithm;
    call.root = call.has_root() ? pick(random, size) : 0;
    call.type = static_cast<gcoll_type>(pick(random, GCOLL_TYPE_COUNT));
    do
        call.op = kOps[pick(random, std::size(kOps))];
    while (!is_drawn(call.type, call.op));
    call.form = static_cast<Form>(pick(random, 3));
    draw_counts(random, call);
    uint32_t several = buffers[pick(random, 5)];
    if (call.total() > kMany)
        several = std::min(several, 2u);
    for (uint32_t rank = 0; rank < size; rank++) // equal for an average
        call.buffers.push_back(!call.reduces_buffers() && kind != kBroadcast ? 1
                               : call.op == GCOLL_AVG                        ? several
                                                      : (several + rank - 1) % several + 1);
    if (algorithm != "auto" && pick(random, 2))
        call.algorithm += call.total() > kMany ? ":segment=20Ki"
                          : pick(random, 2)    ? ":segment=100"
                                               : ":segment=2Ki";
    return call;
}

// One of each algorithm, whole and cut.
std::vector<std::unique_ptr<Problem>> problems(std::mt19937 &random, uint32_t size, uint32_t samples) {
    std::vector<std::unique_ptr<Problem>> all;
    for (uint32_t sample = 0; sample < samples; sample++)
        for (int kind = 0; kind < kKinds; kind++) {
            std::vector<std::string> names = gcoll_test::algorithms(collective_of(static_cast<Kind>(kind)));
            names.push_back("auto");
            for (const std::string &name : names) {
                all.push_back(std::make_unique<Problem>(
                    draw(random, static_cast<uint32_t>(all.size()), size, static_cast<Kind>(kind), name)));
            }
        }
    std::shuffle(all.begin(), all.end(), random);
    return all;
}

// One rank's calls, two in flight at a time, each of its own layout.
class Traffic {
  public:
    Traffic(uint32_t rank, gcoll_context *context, gcoll_accelerator *accelerator, uint32_t seed)
        : rank_(rank), context_(context), accelerator_(accelerator), random_(seed * 1000 + rank) {}

    void fly(const std::vector<std::unique_ptr<Problem>> &all) {
        for (const std::unique_ptr<Problem> &problem : all) {
            start(*problem);
            if (testing::Test::HasFailure()) {
                gcoll_context_abort(context_, "the test failed");
                return;
            }
        }
        finish();
    }

  private:
    void start(Problem &problem) {
        pretend::Machine &machine = accelerator_->machine();
        const size_t before = accelerator_->copied().size();
        flights_.push_back(std::make_unique<Flight>(
            problem, rank_, random_layout(random_, problem.call, rank_, machine.kit()), machine));
        Flight &flight = *flights_.back();
        gcoll_status status = flight.start(context_, problem.call.algorithm);
        if (status == GCOLL_ERR_UNSUPPORTED) // by every rank alike: not for so many, or not in order
            status = flight.start(context_, "auto");
        ASSERT_EQ(status, GCOLL_OK) << flight.told() << ": " << gcoll_last_error();
        finish();
        in_flight_ = &flight;
        before_ = before;
        if (problem.call.form == kPersistent && status == GCOLL_OK) { // runs twice
            finish();
            before_ = accelerator_->copied().size();
            in_flight_ = &flight;
            ASSERT_EQ(flight.restart(), GCOLL_OK) << flight.told() << ": " << gcoll_last_error();
        }
    }

    void finish() {
        if (!in_flight_)
            return;
        const gcoll_status status = in_flight_->finish();
        ASSERT_EQ(status, GCOLL_OK) << in_flight_->told() << ": " << gcoll_last_error();
        in_flight_->expect_staged_once(*accelerator_, before_);
        while (flights_.size() > 1 && flights_.front().get() != in_flight_)
            flights_.pop_front();
        in_flight_ = nullptr;
    }

    const uint32_t rank_;
    gcoll_context *const context_;
    gcoll_accelerator *const accelerator_;
    std::mt19937 random_;
    std::deque<std::unique_ptr<Flight>> flights_; // of a call that failed, until the context is gone
    Flight *in_flight_ = nullptr;
    size_t before_ = 0;
};

struct Grid {
    uint32_t ranks, devices, lanes;
    const char *transport;
    bool progress_thread;
};

class Staging : public testing::TestWithParam<Grid> {};

TEST_P(Staging, EveryAlgorithmOnDevices) {
    const Grid grid = GetParam();
    const uint32_t seed = setting("GCOLL_TEST_SEED", std::random_device{}() % 1000000);
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937 random(seed);
    Kit kit;
    kit.devices = grid.devices;
    kit.lanes = grid.lanes;
    kit.seed = seed;
    pretend::Machine machine(kit);
    Job job;
    job.size = grid.ranks;
    job.transport = grid.transport;
    job.adjust = [&](uint32_t, gcoll_context_options *options) {
        options->progress_thread = grid.progress_thread;
    };
    const auto all = problems(random, grid.ranks,
                              std::max(1u, kSamples * setting("GCOLL_TEST_SOAK", 1) / (1 + grid.ranks / 4)));
    std::vector<std::unique_ptr<Traffic>> ranks(grid.ranks);
    run_staged(job, machine, [&](uint32_t rank, gcoll_context *context, gcoll_accelerator *accelerator) {
        SCOPED_TRACE("seed " + std::to_string(seed));
        ranks[rank] = std::make_unique<Traffic>(rank, context, accelerator, seed);
        ranks[rank]->fly(all);
    });
    ranks.clear();
    const pretend::Statistics all_done = machine.statistics();
    EXPECT_GT(all_done.in_bytes, 0u);
    EXPECT_GT(all_done.out_bytes, 0u);
    EXPECT_GT(all_done.gates_made, 0u);
}

INSTANTIATE_TEST_SUITE_P(Inproc, Staging,
                         testing::Values(Grid{1, 3, 1, "inproc", false}, Grid{2, 1, 1, "inproc", false},
                                         Grid{3, 2, 2, "inproc", true}, Grid{4, 3, 1, "inproc", false},
                                         Grid{5, 2, 1, "inproc", false}, Grid{7, 3, 2, "inproc", false},
                                         Grid{8, 1, 1, "inproc", false}, Grid{2, 2, 1, "tcp", false},
                                         Grid{4, 2, 2, "tcp", true}),
                         [](const auto &given) {
                             return std::string(given.param.transport) + "_" +
                                    std::to_string(given.param.ranks) +
                                    (given.param.progress_thread ? "_thread" : "");
                         });

} // namespace
