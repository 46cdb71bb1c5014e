// Messages that an RDMA device moves from and to the memory of devices. Those are pretended: whoever touches
// their memory but the RDMA device, which was told where the bytes really are, dies. Needs an RDMA device.

#include "test/kit/descriptors.h"
#include "test/transport/ibverbs_device_calls.h"
#include "test/transport/ibverbs_support.h"

extern "C" {
#include "test/transport/ibverbs_peek.h"
gcoll_status gcoll_context_accelerate(gcoll_context *context, const gcoll_accelerator_table *table,
                                      const gcoll_accelerator_options *options);
}

namespace {

using namespace ibverbs_devices;

// ---- Jobs ------------------------------------------------------------------------------------------------

struct Logged {
    std::mutex lock;
    std::vector<std::string> warnings;
};

void keep_warning(void *arg, gcoll_log_level level, const char *text) {
    auto *logged = static_cast<Logged *>(arg);
    std::lock_guard<std::mutex> guard(logged->lock);
    if (level == GCOLL_LOG_WARNING)
        logged->warnings.push_back(text);
}

using Body = std::function<void(uint32_t rank, gcoll_context *context, gcoll_accelerator *accelerator)>;

class IbverbsDevices : public ibverbs_support::NeedsDevice {
  protected:
    void run(const std::vector<uint32_t> &device_memory, Machine &machine, const Body &body) {
        std::vector<gcoll_ibverbs_options> ibverbs(device_memory.size());
        gcoll_test::Job job;
        job.size = static_cast<uint32_t>(device_memory.size());
        job.transport = "ibverbs";
        job.adjust = [&](uint32_t rank, gcoll_context_options *options) {
            gcoll_ibverbs_options_init(&ibverbs[rank]);
            ibverbs[rank].device_memory = device_memory[rank];
            options->ibverbs = &ibverbs[rank];
            options->log = keep_warning;
            options->log_arg = &logged_;
        };
        gcoll_test::run_threads(job, [&](uint32_t rank, gcoll_context *context) {
            Machine::Here here(machine);
            const gcoll_accelerator_options options = {};
            ASSERT_GCOLL_OK(gcoll_context_accelerate(context, &pretend::table, &options));
            body(rank, context, machine.opened());
        });
        EXPECT_EQ(machine.violations(), std::vector<std::string>());
        const pretend::Statistics left = machine.statistics();
        EXPECT_EQ(left.tickets + left.gates + left.open + left.pinned_bytes, 0u);
    }

    static pretend::Kit kit() {
        pretend::Kit kit;
        kit.alignment = 4096;
        return kit;
    }

    std::vector<std::string> staged() {
        std::vector<std::string> found;
        for (const std::string &text : logged_.warnings)
            if (text.find("stages buffers in device memory") != std::string::npos)
                found.push_back(text);
        return found;
    }

    Logged logged_;
};

const std::vector<uint32_t> kRequired(kRanks, GCOLL_IB_DEVICE_MEMORY_REQUIRED);
const std::vector<uint32_t> kPossible(kRanks, GCOLL_IB_DEVICE_MEMORY_POSSIBLE);

Call allgather_of(uint64_t bytes, uint32_t number = 0) {
    return {GCOLL_ALLGATHER, "ring", bytes, number, 0};
}

uint64_t crossed(const gcoll_accelerator *accelerator) {
    return accelerator->statistics().in_bytes + accelerator->statistics().out_bytes;
}

// ---- Tests -----------------------------------------------------------------------------------------------

TEST_F(IbverbsDevices, MessagesGoFromAndToTheirMemory) {
    const std::vector<Call> calls = all_calls();
    Machine machine(kit());
    run(kRequired, machine, [&](uint32_t rank, gcoll_context *context, gcoll_accelerator *accelerator) {
        const uint64_t copied = ibverbs_counters_of(context).bytes_copied;
        for (const Call &call : calls) {
            const uint64_t crossed_before = crossed(accelerator), shared = accelerator->statistics().shares;
            const bool is_staged = call.algorithm.rfind("cuda_", 0) == 0;
            Part part(machine, call, rank);
            ASSERT_EQ(part.run(context), GCOLL_OK) << call.told(rank) << ": " << gcoll_last_error();
            part.check();
            if (call.collective == GCOLL_BROADCAST && !is_staged) {
                EXPECT_EQ(crossed(accelerator), crossed_before) << call.told(rank) << " was staged";
                EXPECT_EQ(accelerator->statistics().shares > shared, part.is_on_device());
            }
            if (HasFailure())
                return;
        }
        EXPECT_EQ(ibverbs_counters_of(context).bytes_copied, copied) << "the host touched messages";
        EXPECT_GT(ibverbs_counters_of(context).bytes_written, 0u);
    });
    EXPECT_GT(machine.statistics().arrivals, 0u);
    EXPECT_EQ(staged(), std::vector<std::string>());
}

// Reductions are the host's: what it sums up is staged, in whichever mode.
TEST_F(IbverbsDevices, ReductionsAreStaged) {
    Machine machine(kit());
    run(kRequired, machine, [&](uint32_t rank, gcoll_context *context, gcoll_accelerator *accelerator) {
        Bytes ones(3000, 1), got(3000);
        Buffer buffer(machine, ones.size(), true, GCOLL_MEMORY_DEVICE);
        buffer.write(ones);
        EXPECT_GCOLL_OK(
            gcoll_allreduce(context, nullptr, buffer.data(), ones.size(), GCOLL_UINT8, GCOLL_SUM, nullptr));
        EXPECT_EQ(buffer.read(), Bytes(3000, kRanks)) << rank;
        EXPECT_EQ(crossed(accelerator), 6000u);
        EXPECT_EQ(accelerator->statistics().shares, 0u);
    });
}

TEST_F(IbverbsDevices, MemoryThatIsNotSharedIsStagedAndTheLogSaysSoOnce) {
    Machine machine(kit());
    run(kPossible, machine, [&](uint32_t rank, gcoll_context *context, gcoll_accelerator *accelerator) {
        for (uint32_t number = 0; number < 3; number++) { // in each form
            const Call call = allgather_of(5000, number);
            const uint64_t before = crossed(accelerator);
            accelerator->fail_at(pretend::Call::kShare, 0);
            Part part(machine, call, rank);
            ASSERT_GCOLL_OK(part.run(context));
            part.check();
            EXPECT_GT(crossed(accelerator), before);
        }
        const Call call = allgather_of(5000);
        const uint64_t before = crossed(accelerator);
        Part direct(machine, call, rank);
        ASSERT_GCOLL_OK(direct.run(context));
        direct.check();
        EXPECT_EQ(crossed(accelerator), before);
        Part managed(machine, call, rank, GCOLL_MEMORY_MANAGED);
        ASSERT_GCOLL_OK(managed.run(context));
        managed.check();
        EXPECT_GT(crossed(accelerator), before);
    });
    EXPECT_EQ(staged().size(), kRanks);
}

TEST_F(IbverbsDevices, MemoryThatIsNotSharedButMustBeIsAnError) {
    Machine machine(kit());
    run(kRequired, machine, [&](uint32_t rank, gcoll_context *context, gcoll_accelerator *accelerator) {
        for (uint32_t number = 0; number < 3; number++) {
            const Call call = allgather_of(5000, number);
            Part part(machine, call, rank);
            accelerator->fail_at(pretend::Call::kShare, 1);
            EXPECT_EQ(part.run(context), GCOLL_ERR_UNSUPPORTED);
            EXPECT_NE(std::string(gcoll_last_error()).find("pretendMemGetHandle"), std::string::npos)
                << gcoll_last_error();
        }
        const Call call = allgather_of(5000);
        Part part(machine, call, rank);
        EXPECT_GCOLL_OK(part.run(context));
        part.check();
    });
    EXPECT_EQ(staged(), std::vector<std::string>());
}

// Soft-RoCE takes no dma-buf, and here are none.
TEST_F(IbverbsDevices, ADeviceThatRefusesMemoryIsNotAskedAgain) {
    pretend::Kit with_files = kit();
    with_files.has_dmabufs = true;
    Machine machine(with_files);
    run(kPossible, machine, [&](uint32_t rank, gcoll_context *context, gcoll_accelerator *accelerator) {
        for (uint32_t number = 0; number < 3; number++) {
            const Call call = allgather_of(5000, number);
            Part part(machine, call, rank);
            ASSERT_GCOLL_OK(part.run(context));
            part.check();
            EXPECT_EQ(accelerator->statistics().shares, 1u);
        }
    });
    ASSERT_EQ(staged().size(), kRanks);
    EXPECT_NE(staged()[0].find("dma-buf"), std::string::npos) << staged()[0];
}

TEST_F(IbverbsDevices, ADeviceThatRefusesMemoryThatItMustTakeIsAnError) {
    pretend::Kit with_files = kit();
    with_files.has_dmabufs = true;
    Machine machine(with_files);
    size_t before = 0, after = 0;
    std::atomic<uint32_t> counted{0};
    run({GCOLL_IB_DEVICE_MEMORY_REQUIRED, GCOLL_IB_DEVICE_MEMORY_POSSIBLE}, machine,
        [&](uint32_t rank, gcoll_context *context, gcoll_accelerator *) {
            Buffer buffer(machine, 100, true, GCOLL_MEMORY_DEVICE);
            if (rank == 1) { // keeps its files as long as those of the other are counted
                EXPECT_TRUE(gcoll_test::await(counted, 1));
                return;
            }
            before = gcoll_test::open_descriptors();
            for (int i = 0; i < 3; i++) {
                EXPECT_EQ(gcoll_broadcast(context, buffer.data(), 100, GCOLL_UINT8, 0, nullptr),
                          GCOLL_ERR_UNSUPPORTED);
                EXPECT_NE(std::string(gcoll_last_error()).find("dma-buf"), std::string::npos)
                    << gcoll_last_error();
            }
            after = gcoll_test::open_descriptors();
            counted = 1;
        });
    EXPECT_EQ(before, after) << "files stay open";
}

TEST_F(IbverbsDevices, RanksOfWhichOneDoesWithoutAreTold) {
    Machine machine(kit());
    run({GCOLL_IB_DEVICE_MEMORY_NEVER, GCOLL_IB_DEVICE_MEMORY_POSSIBLE}, machine,
        [&](uint32_t rank, gcoll_context *context, gcoll_accelerator *) {
            Buffer buffer(machine, 100, true, GCOLL_MEMORY_DEVICE);
            EXPECT_NE(gcoll_broadcast(context, buffer.data(), 100, GCOLL_UINT8, 0, nullptr), GCOLL_OK);
            EXPECT_NE(std::string(gcoll_last_error()).find("ibverbs.device_memory"), std::string::npos)
                << rank << ": " << gcoll_last_error();
        });
}

// A message that may be copied comes where one must not be.
TEST_F(IbverbsDevices, RanksThatCallDifferentThingsAreTold) {
    for (const bool early : {false, true}) {
        Machine machine(kit());
        run({GCOLL_IB_DEVICE_MEMORY_REQUIRED, GCOLL_IB_DEVICE_MEMORY_REQUIRED}, machine,
            [&](uint32_t rank, gcoll_context *context, gcoll_accelerator *) {
                Buffer buffer(machine, 100, rank == 1, GCOLL_MEMORY_DEVICE);
                gcoll_allreduce_options options;
                gcoll_allreduce_options_init(&options);
                options.algorithm = "recursive_doubling";
                EXPECT_GCOLL_OK(gcoll_barrier(context, nullptr));
                if ((rank == 1) == early)
                    std::this_thread::sleep_for(std::chrono::milliseconds(50));
                EXPECT_EQ(rank == 0 ? gcoll_allreduce(context, nullptr, buffer.data(), 100, GCOLL_UINT8,
                                                      GCOLL_SUM, &options)
                                    : gcoll_broadcast(context, buffer.data(), 100, GCOLL_UINT8, 0, nullptr),
                          GCOLL_ERR_MISMATCH)
                    << gcoll_last_error();
            });
    }
}

} // namespace
