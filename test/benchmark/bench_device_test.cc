// gcoll_bench --device: what it says where there is no device, and of command lines that make no sense.
#include "test/benchmark/bench_support.h"

namespace {

using namespace bench_test;

const strings kNoDevice = {"CUDA_VISIBLE_DEVICES="};

// One line, however many ranks there would have been.
TEST(BenchDevice, SaysWhatIsMissing) {
    for (const strings &how : std::vector<strings>{{"--local=4"},
                                                   {"--local=4", "--transport=inproc"},
                                                   {"--rank=0", "--size=2", "--store=file:/nowhere"}}) {
        strings arguments = how;
        arguments.push_back("--device=cuda:all");
        outcome result = run(arguments, kNoDevice);
        EXPECT_EQ(result.status, 1);
        EXPECT_EQ(result.out, "");
        EXPECT_EQ(lines(result.err).size(), 1u) << result.err;
        EXPECT_TRUE(contains(result.err, "--device: cudaGetDeviceCount: ") ||
                    contains(result.err, "--device: this gcoll_bench was built without CUDA"))
            << result.err;
    }
}

TEST(BenchDevice, BadFlagsSayWhatIsAllowed) {
    const struct {
        strings arguments;
        const char *says;
    } table[] = {
        {{"--device=gpu"}, "is 'gpu'; allowed is one of host, cuda, cuda:N[,N]..."},
        {{"--device=cuda0"}, "is 'cuda0'; allowed is one of host"},
        {{"--device=cuda:"}, "is 'cuda:'; allowed is one of host"},
        {{"--device=cuda:x"}, "is 'cuda:x'; allowed is one of host"},
        {{"--device=cuda:0,"}, "is 'cuda:0,'; allowed is one of host"},
        {{"--device=cuda:,0"}, "is 'cuda:,0'; allowed is one of host"},
        {{"--device=cuda:0,,1"}, "is 'cuda:0,,1'; allowed is one of host"},
        {{"--device=cuda:0-3"}, "is 'cuda:0-3'; allowed is one of host"},
        {{"--device=cuda:-1"}, "is 'cuda:-1'; allowed is one of host"},
        {{"--device=cuda:1,0,1"}, "each once"},
        {{"--device=cuda:1024"}, "from 0 to 1023"},
        {{"--device=cuda:99999999999999999999"}, "from 0 to 1023"},
        {{"--device=host:0"}, "is 'host:0'; allowed is one of host"},
        {{"--device=cuda", "--local-reduction=gpu"}, "allowed is one of auto, host, device, peer, nccl"},
        {{"--local-reduction=device"}, "--local-reduction: is for buffers on devices"},
        {{"--device=cuda", "--tune=x"}, "--tune: found with --device cuda"},
        {{"--device=cuda", "--tune-check"}, "--tune-check: found with --device cuda"},
        {{"--device=cuda", "--bytes=1Gi:9000000Gi:x2"}, "half of the memory"},
    };
    for (const auto &row : table) {
        outcome result = run(row.arguments);
        EXPECT_EQ(result.status, 2) << row.says;
        EXPECT_EQ(result.out, "") << row.says;
        EXPECT_TRUE(contains(result.err, row.says)) << "wanted: " << row.says << "\nfound: " << result.err;
    }
}

// The default by its name; nothing of devices is in the output.
TEST(BenchDevice, Host) {
    outcome result = run({"--device=host", "--bytes=4", "--iterations=1", "--format=csv"});
    EXPECT_EQ(result.status, 0) << result.err;
    EXPECT_FALSE(contains(result.out, "device")) << result.out;
}

} // namespace
