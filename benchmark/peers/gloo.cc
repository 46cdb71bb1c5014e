// benchmark/peers/gloo.cc - gcoll_peer_gloo: the collectives of Gloo over its TCP transport.
//
// Gloo has two generations of interfaces. Objects that are constructed for buffers and run again and again:
// AllreduceRing, AllreduceRingChunked, AllreduceHalvingDoubling, AllreduceBcube,
// ReduceScatterHalvingDoubling; they work in place. And functions with options: allreduce ("new_ring",
// "new_bcube"), allgather, broadcast, alltoall, barrier; out of place here, but for the broadcast. Options
// and their registered buffers are made once, before the timed calls, which is the least that a user of Gloo
// pays.
#include <cstdlib>
#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <gloo/allgather.h>
#include <gloo/allreduce.h>
#include <gloo/allreduce_bcube.h>
#include <gloo/allreduce_halving_doubling.h>
#include <gloo/allreduce_ring.h>
#include <gloo/allreduce_ring_chunked.h>
#include <gloo/alltoall.h>
#include <gloo/barrier.h>
#include <gloo/broadcast.h>
#include <gloo/math.h>
#include <gloo/reduce_scatter.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/rendezvous/prefix_store.h>
#include <gloo/transport/tcp/device.h>

#include "peer.h"

const char cli_program[] = "gcoll_peer_gloo";

namespace {

const peer_program about = {
    "times the collectives of Gloo over TCP\n",
    "Algorithms of allreduce: ring, ring_chunked, halving_doubling, bcube (in place), new_ring, new_bcube "
    "(out of\n"
    "place), or all of them in turn, which is the default. The other collectives have one each.\n",
    true,
};

const char *const allreduces[] = {"ring",  "ring_chunked", "halving_doubling",
                                  "bcube", "new_ring",     "new_bcube"};

using Buffer = std::unique_ptr<float, decltype(&free)>;

// Lines ranks up and combines figures.
struct Job {
    explicit Job(std::shared_ptr<gloo::Context> c) : context(c), options(c) {}
    std::shared_ptr<gloo::Context> context;
    gloo::BarrierOptions options;
};

bool guarded(const std::function<void()> &what) {
    try {
        what();
        return true;
    } catch (const std::exception &error) {
        cli_complain("%s", error.what());
        return false;
    }
}

bool line_up(void *self) {
    return guarded([=] { gloo::barrier(static_cast<Job *>(self)->options); });
}

bool largest(void *self, double *values, uint32_t count) {
    return guarded([=] {
        gloo::AllreduceOptions options(static_cast<Job *>(self)->context);
        options.setOutput(values, count);
        options.setReduceFunction(
            static_cast<void (*)(void *, const void *, const void *, size_t)>(&gloo::max<double>));
        options.setTag(1); // not that of what is measured
        gloo::allreduce(options);
    });
}

// A call that has been prepared, and where its result is.
struct Prepared {
    std::function<void()> run;
    float *in, *out;
};

bool run_prepared(void *self) {
    return guarded(static_cast<Prepared *>(self)->run);
}

template <typename Algorithm>
std::function<void()> object(const std::shared_ptr<gloo::Context> &context, float *data, int count) {
    auto algorithm = std::make_shared<Algorithm>(context, std::vector<float *>{data}, count);
    return [=] { algorithm->run(); };
}

Prepared new_allreduce(const std::shared_ptr<gloo::Context> &context,
                       gloo::detail::AllreduceOptionsImpl::Algorithm how, float *in, float *out,
                       size_t count) {
    auto options = std::make_shared<gloo::AllreduceOptions>(context);
    options->setAlgorithm(how);
    options->setInput(in, count);
    options->setOutput(out, count);
    options->setReduceFunction(
        static_cast<void (*)(void *, const void *, const void *, size_t)>(&gloo::sum<float>));
    return {[=] { gloo::allreduce(*options); }, in, out};
}

Prepared allreduce(const std::shared_ptr<gloo::Context> &context, const std::string &algorithm, float *in,
                   float *out, size_t count) {
    const int n = static_cast<int>(count);
    if (algorithm == "ring")
        return {object<gloo::AllreduceRing<float>>(context, out, n), out, out};
    if (algorithm == "ring_chunked")
        return {object<gloo::AllreduceRingChunked<float>>(context, out, n), out, out};
    if (algorithm == "halving_doubling")
        return {object<gloo::AllreduceHalvingDoubling<float>>(context, out, n), out, out};
    if (algorithm == "bcube")
        return {object<gloo::AllreduceBcube<float>>(context, out, n), out, out};
    using How = gloo::detail::AllreduceOptionsImpl;
    return new_allreduce(context, algorithm == "new_ring" ? How::RING : How::BCUBE, in, out, count);
}

Prepared prepare(const std::shared_ptr<gloo::Context> &context, peer_collective collective,
                 const std::string &algorithm, float *in, float *out, size_t count) {
    const size_t block = count / static_cast<size_t>(context->size);
    switch (collective) {
    case PEER_ALLREDUCE:
        return allreduce(context, algorithm, in, out, count);
    case PEER_ALLGATHER: {
        auto options = std::make_shared<gloo::AllgatherOptions>(context);
        options->setInput(in, block);
        options->setOutput(out, count);
        return {[=] { gloo::allgather(*options); }, in, out};
    }
    case PEER_REDUCE_SCATTER: {
        std::vector<int> blocks(static_cast<size_t>(context->size), static_cast<int>(block));
        auto object = std::make_shared<gloo::ReduceScatterHalvingDoubling<float>>(
            context, std::vector<float *>{out}, static_cast<int>(count), blocks);
        return {[=] { object->run(); }, out, out};
    }
    case PEER_BROADCAST: {
        auto options = std::make_shared<gloo::BroadcastOptions>(context);
        options->setOutput(out, count);
        options->setRoot(0);
        return {[=] { gloo::broadcast(*options); }, out, out};
    }
    case PEER_ALLTOALL: {
        auto options = std::make_shared<gloo::AlltoallOptions>(context);
        options->setInput(in, count);
        options->setOutput(out, count);
        return {[=] { gloo::alltoall(*options); }, in, out};
    }
    default: {
        auto options = std::make_shared<gloo::BarrierOptions>(context);
        options->setTag(2); // not that of the line-up
        return {[=] { gloo::barrier(*options); }, nullptr, nullptr};
    }
    }
}

void measure(const peer_options &options, Job &job, const std::string &algorithm, uint64_t bytes) {
    const size_t room = (bytes + 127) / 64 * 64;
    Buffer in(static_cast<float *>(aligned_alloc(64, room)), &free);
    Buffer out(static_cast<float *>(aligned_alloc(64, room)), &free);
    if (!in || !out)
        throw std::bad_alloc();
    Prepared prepared =
        prepare(job.context, options.collective, algorithm, in.get(), out.get(), bytes / sizeof(float));
    peer_call call = {};
    call.program = "gloo";
    call.algorithm = options.collective == PEER_ALLREDUCE        ? algorithm.c_str()
                     : options.collective == PEER_REDUCE_SCATTER ? "halving_doubling"
                                                                 : nullptr;
    call.collective = options.collective;
    call.bytes = bytes;
    call.in = prepared.in;
    call.out = prepared.out;
    call.self = &prepared;
    call.run = run_prepared;
    const peer_job shared = {static_cast<uint32_t>(job.context->rank),
                             static_cast<uint32_t>(job.context->size), &job, line_up, largest};
    if (!peer_measure(&shared, &options, &call))
        throw std::runtime_error("the measurement ended early");
}

void measure_all(const peer_options &options, Job &job) {
    std::vector<std::string> algorithms{""};
    if (options.collective == PEER_ALLREDUCE) {
        const std::string asked = options.algorithm != nullptr ? options.algorithm : "all";
        algorithms = asked == "all" ? std::vector<std::string>(std::begin(allreduces), std::end(allreduces))
                                    : std::vector<std::string>{asked};
    }
    const bool barrier = options.collective == PEER_BARRIER;
    for (size_t i = 0; i < (barrier ? 1 : options.sizes.count); i++) {
        const uint64_t bytes = peer_round_bytes(options.collective, options.sizes.values[i], options.size);
        for (const std::string &algorithm : algorithms)
            if (barrier || bytes > 0)
                measure(options, job, algorithm, bytes);
    }
}

int one_rank(const peer_options *options) {
    try {
        gloo::transport::tcp::attr attr;
        attr.iface = options->interface;
        auto device = gloo::transport::tcp::CreateDevice(attr);
        gloo::rendezvous::FileStore folder(options->store);
        gloo::rendezvous::PrefixStore store(options->job, folder);
        auto context = std::make_shared<gloo::rendezvous::Context>(static_cast<int>(options->rank),
                                                                   static_cast<int>(options->size));
        context->connectFullMesh(store, device);
        Job job(context);
        measure_all(*options, job);
        return PEER_OK;
    } catch (const std::exception &error) {
        cli_complain("rank %u: %s", options->rank, error.what());
        return PEER_FAILED;
    }
}

bool algorithm_known(const peer_options *options) {
    if (options->algorithm == nullptr)
        return true;
    bool known = std::string(options->algorithm) == "all";
    for (const char *name : allreduces)
        known = known || std::string(options->algorithm) == name;
    return (known && options->collective == PEER_ALLREDUCE) ||
           cli_bad("--algorithm", options->algorithm, "for allreduce, what --help lists");
}

} // namespace

int main(int argc, char **argv) {
    return peer_main(&about, argc, argv, algorithm_known, one_rank);
}
