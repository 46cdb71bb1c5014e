// The simulator on plans whose buffers lie in the memory of devices, against sums worked out by hand.
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "test/plan/simulate_support.h"

namespace gcoll_test {
namespace {

constexpr uint32_t kHost = GCOLL_HOST_MEMORY, kFirst = GCOLL_DEVICE_MEMORY(0),
                   kSecond = GCOLL_DEVICE_MEMORY(1);

struct Job {
    gcoll_problem problem;
    std::vector<uint32_t> in, out;
    std::vector<Plan> plans;

    Job(const char *algorithm, gcoll_collective collective, uint32_t size, uint64_t count,
        const std::vector<uint32_t> &in_memory, const std::vector<uint32_t> &out_memory,
        gcoll_staging staging = {}, uint64_t segment = 0)
        : problem(Problem(collective, 0, size, count)), in(in_memory), out(out_memory) {
        problem.buffers = static_cast<uint32_t>(in.size());
        problem.in_memory = in.data();
        problem.out_memory = out.data();
        problem.staging = staging;
        problem.segment = segment;
        SetFallbacks(&problem, Algorithm(algorithm, collective));
        plans = CreateAll(algorithm, problem);
    }
};

// Microseconds: a message 10 and 1 a byte, a reduction 3 a byte; of devices 100, 2 in, 4 out, 0.5 within.
gcoll_simulate_options Microseconds() {
    gcoll_simulate_options o = Options(10e-6, 1e-6, 3e-6);
    o.device = {100e-6, 2e-6, 4e-6, 0.5e-6};
    return o;
}

double Time(const Job &job, const gcoll_simulate_options &o) {
    Simulation run = Simulate(job.plans, o);
    EXPECT_TRUE(run) << gcoll_last_error();
    return run ? run->time * 1e6 : -1;
}

TEST(SimulateDevice, OneStepAfterTheOther) {
    const std::vector<uint32_t> one{kFirst}, three{kFirst, kFirst, kFirst};
    // Root: to the host; the message; the other: to the device.
    Job job("one_to_all", GCOLL_BROADCAST, 2, 10, one, one, {GCOLL_LOCAL_AUTO, true, 0, false});
    EXPECT_NEAR(Time(job, Microseconds()), (100 + 2 * 10) + (10 + 10) + (100 + 4 * 10), 1e-5);
    // Alone: three are read and one written; then two copies, each of which reads and writes.
    Job alone("ring", GCOLL_ALLREDUCE, 1, 8, three, three);
    EXPECT_NEAR(Time(alone, Microseconds()), (100 + 0.5 * 8 * 4) + 2 * (100 + 0.5 * 8 * 2), 1e-5);
    alone.problem.average = true;
    alone.plans = CreateAll("ring", alone.problem);
    EXPECT_NEAR(Time(alone, Microseconds()), (100 + 0.5 * 8 * 4) + 3 * (100 + 0.5 * 8 * 2), 1e-5);
}

TEST(SimulateDevice, ByDefaultTheyTakeNoTime) {
    const std::vector<uint32_t> two{kFirst, kSecond};
    for (bool whole : {false, true}) {
        Job job("halving_doubling", GCOLL_ALLREDUCE, 4, 64, two, two, {GCOLL_LOCAL_PEER, whole, 0, false});
        gcoll_problem plain = job.problem;
        plain.in_memory = plain.out_memory = nullptr;
        plain.buffers = 1;
        Simulation host = Simulate(CreateAll("halving_doubling", plain), Options(10e-6, 1e-6, 3e-6));
        ASSERT_TRUE(host) << gcoll_last_error();
        EXPECT_NEAR(Time(job, Options(10e-6, 1e-6, 3e-6)), host->time * 1e6, 1e-5);
    }
}

// Copies to the host stand in one queue, those from there in another: each device has its own two.
TEST(SimulateDevice, EachLaneDoesOneThingAtATime) {
    const gcoll_staging by_host = {GCOLL_LOCAL_HOST, false, 0, false};
    const double in = 100 + 2 * 10, out = 100 + 4 * 10, reduction = 3 * 10;
    Job same("ring", GCOLL_ALLREDUCE, 1, 10, {kFirst, kFirst}, {kFirst, kFirst}, by_host);
    EXPECT_NEAR(Time(same, Microseconds()), 2 * in + reduction + 2 * out, 1e-5);
    Job apart("ring", GCOLL_ALLREDUCE, 1, 10, {kFirst, kSecond}, {kFirst, kSecond}, by_host);
    EXPECT_NEAR(Time(apart, Microseconds()), in + reduction + out, 1e-5);
    Job mixed("ring", GCOLL_ALLREDUCE, 1, 10, {kFirst, kHost}, {kHost, kSecond}, by_host);
    EXPECT_NEAR(Time(mixed, Microseconds()), in + reduction + out, 1e-5);
}

// Segments: while one is on its way the next is copied, and the one before it copied back. The slowest of the
// three sets the pace.
TEST(SimulateDevice, SegmentsOverlap) {
    const std::vector<uint32_t> one{kFirst};
    const int segments = 4;
    auto time = [&](const gcoll_simulate_options &o) {
        Job job("one_to_all", GCOLL_BROADCAST, 2, segments * 10, one, one, {}, 10);
        return Time(job, o);
    };
    gcoll_simulate_options o = Microseconds();
    const double message = 10 + 10;
    o.device = {5e-6, 0.5e-6, 0.7e-6, 0}; // the network is the slowest
    EXPECT_NEAR(time(o), (5 + 5) + segments * message + (5 + 7), 1e-5);
    o.device = {5e-6, 2e-6, 0.7e-6, 0}; // copies to the host are
    EXPECT_NEAR(time(o), segments * (5 + 20) + message + (5 + 7), 1e-5);
    o.device = {5e-6, 0.5e-6, 3e-6, 0}; // copies from there are
    EXPECT_NEAR(time(o), (5 + 5) + message + segments * (5 + 30), 1e-5);
    // Not cut, they follow one another.
    o.device = {5e-6, 0.5e-6, 0.7e-6, 0};
    Job whole("one_to_all", GCOLL_BROADCAST, 2, segments * 10, one, one);
    EXPECT_NEAR(Time(whole, o), (5 + 20) + (10 + 40) + (5 + 28), 1e-5);
}

// What is sent and what is reduced with what comes are wanted together: after two copies the first message is
// on its way, not after all that are sent.
TEST(SimulateDevice, BothEndsGetTheirFirstSegmentFirst) {
    const std::vector<uint32_t> one{kFirst};
    Job job("halving_doubling", GCOLL_ALLREDUCE, 2, 80, one, one, {}, 10);
    gcoll_simulate_options o = Options(10e-6, 1e-6);
    o.device = {5e-6, 0.5e-6, 0.7e-6, 0};
    EXPECT_NEAR(Time(job, o), 2 * (5 + 5) + 2 * 4 * (10 + 10) + (5 + 7), 1e-5);
}

TEST(SimulateDevice, TheProcessorIsFreeMeanwhile) {
    // A slow rank has slow messages and a slow processor, but not slow devices.
    const std::vector<uint32_t> one{kFirst};
    Job job("one_to_all", GCOLL_BROADCAST, 2, 10, one, one, {GCOLL_LOCAL_AUTO, true, 0, false});
    gcoll_simulate_options o = Microseconds();
    const std::vector<double> slow{3, 3};
    o.slowness = slow.data();
    EXPECT_NEAR(Time(job, o), (100 + 2 * 10) + 3 * (10 + 10) + (100 + 4 * 10), 1e-5);
    // The host reduces the first two of three buffers while the third one is copied.
    Job three("ring", GCOLL_ALLREDUCE, 1, 10, {kFirst, kFirst, kFirst}, {kHost, kHost, kHost},
              {GCOLL_LOCAL_HOST, false, 0, false});
    o = Microseconds();
    o.device = {0, 2e-6, 0, 0};
    EXPECT_NEAR(Time(three, o), 2 * 20 + 2 * 30, 1e-5) << "the first reduction outlasts the third copy";
    o.gamma = 1.5e-6;
    EXPECT_NEAR(Time(three, o), 3 * 20 + 15, 1e-5) << "hidden altogether";
}

TEST(SimulateDevice, PathAndTimelineNameThem) {
    const std::vector<uint32_t> two{kSecond, kSecond};
    Job job("one_to_all", GCOLL_BROADCAST, 2, 20, two, two, {}, 10);
    gcoll_simulate_options o = Microseconds();
    o.timeline = true;
    Simulation run = Simulate(job.plans, o);
    ASSERT_TRUE(run) << gcoll_last_error();
    // From the end: within the device to the other buffer, two copies out one after the other, the message,
    // the copy in.
    const gcoll_simulate_kind kinds[] = {GCOLL_SIMULATE_DEVICE_COPY, GCOLL_SIMULATE_COPY_OUT,
                                         GCOLL_SIMULATE_COPY_OUT, GCOLL_SIMULATE_RECV,
                                         GCOLL_SIMULATE_COPY_IN};
    ASSERT_EQ(run->path_count, 5u);
    for (int k = 0; k < 5; k++)
        EXPECT_EQ(run->path[k].kind, kinds[k]) << k;
    EXPECT_EQ(run->path[1].reason, GCOLL_SIMULATE_BY_DEVICE);
    EXPECT_EQ(run->path[2].reason, GCOLL_SIMULATE_BY_DEPENDENCY);
    EXPECT_EQ(run->path[1].peer, GCOLL_SIMULATE_NOBODY);
    int copies = 0;
    for (uint64_t i = 0; i < run->event_count; i++) {
        const gcoll_simulate_event &e = run->events[i];
        EXPECT_EQ(e.device, e.kind >= GCOLL_SIMULATE_COPY_IN ? 1u : GCOLL_SIMULATE_NOBODY);
        EXPECT_EQ(e.bytes, 10u);
        copies += e.kind == GCOLL_SIMULATE_COPY_OUT;
    }
    EXPECT_EQ(copies, 2 * 2) << "the root's output is not its input";
    EXPECT_STREQ(gcoll_simulate_kind_name(GCOLL_SIMULATE_COPY_IN), "copy to host");
    EXPECT_STREQ(gcoll_simulate_kind_name(GCOLL_SIMULATE_DEVICE_DIVIDE), "divide on device");
    EXPECT_STREQ(gcoll_simulate_reason_name(GCOLL_SIMULATE_BY_DEVICE), "device");
}

TEST(SimulateDevice, OptionsAreChecked) {
    const std::vector<uint32_t> one{kFirst};
    Job job("ring", GCOLL_ALLREDUCE, 2, 4, one, one);
    gcoll_simulate_options o = Microseconds();
    o.device.within = -1;
    EXPECT_FALSE(Simulate(job.plans, o));
    EXPECT_NE(std::string(gcoll_last_error()).find("options.device.within: is -1"), std::string::npos);
    o = Microseconds();
    o.device.in = 1e9;
    EXPECT_FALSE(Simulate(job.plans, o));
    EXPECT_NE(std::string(gcoll_last_error()).find("a run may last 100 days"), std::string::npos)
        << gcoll_last_error();
}

} // namespace
} // namespace gcoll_test
