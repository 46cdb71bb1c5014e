// gcoll_bench as its users run it: flags, output, collectives and algorithms.
#include "test/benchmark/bench_support.h"
#include "test/kit/sanitizer.h"

#include <cmath>
#include <map>
#include <thread>
#include <tuple>

#include "gcoll/gcoll.h"

namespace {

using namespace bench_test;

TEST(Bench, HelpAndVersion) {
    outcome help = run({"--help"});
    EXPECT_EQ(help.status, 0);
    for (const char *part : {"--local", "--back-to-back", "Examples", "  ring ", "  dissemination "})
        EXPECT_TRUE(contains(help.out, part)) << part;
    outcome version = run({"--version"});
    EXPECT_EQ(version.status, 0);
    EXPECT_EQ(version.out.rfind("gcoll_bench ", 0), 0u);
}

// The loopback interface is everywhere; devices, or why there are none, follow.
TEST(Bench, ListDevices) {
    outcome list = run({"--list-devices"});
    EXPECT_EQ(list.status, 0) << list.err;
    const size_t tcp = list.out.find("tcp\n"), ibverbs = list.out.find("\nibverbs\n");
    ASSERT_EQ(tcp, 0u) << list.out;
    ASSERT_NE(ibverbs, std::string::npos) << list.out;
    const std::string interfaces = list.out.substr(0, ibverbs), devices = list.out.substr(ibverbs);
    EXPECT_TRUE(contains(interfaces, " 127.0.0.1 ")) << list.out;
    EXPECT_TRUE(contains(interfaces, "loopback")) << list.out;
    EXPECT_TRUE(contains(devices, " port 1 ") || contains(devices, "  none: ")) << list.out;
}

TEST(Bench, BadFlagsSayWhatIsAllowed) {
    const struct {
        strings arguments;
        const char *says;
    } table[] = {
        {{"--loca", "2"}, "unknown argument '--loca'; allowed are --local"},
        {{"2"}, "unknown argument '2'"},
        {{"--local"}, "--local: needs a value"},
        {{"--no-check=1"}, "--no-check: is '1'; the flag takes no value"},
        {{"--local", "0"}, "is '0'; allowed is a whole number from 1 to"},
        {{"--local", "2x"}, "is '2x'"},
        {{"--local=2", "--rank=0"}, "give one or the other"},
        {{"--rank=0", "--size=2"}, "--store is missing"},
        {{"--size=2", "--store=file:/tmp/x"}, "--rank is missing"},
        {{"--rank=2", "--size=2", "--store=file:/tmp/x"}, "allowed with --size 2 is 0 to 1"},
        {{"--job=a/b"}, "allowed is 1 to 64"},
        {{"--transport=rdma"}, "--transport: names 'rdma'; allowed are auto, tcp, inproc, shm, ibverbs"},
        {{"--transport=tcp:speed=9"}, "--transport: tcp has no option 'speed'; allowed are eager_bytes"},
        {{"--transport=ibverbs:gid=900"}, "option gid of ibverbs is '900'; allowed are 0 to 255"},
        {{"--transport=inproc", "--store=file:/tmp/x"}, "no --store"},
        {{"--collective=reduc"},
         "is 'reduc'; allowed is one of all, allreduce, broadcast, barrier, reduce, "},
        {{"--algorithm=rang"}, "ring"},
        {{"--algorithm=ring:speed=9"}, "speed"},
        {{"--algorithm=,"}, "--algorithm: is ','"},
        {{"--algorithm=ring,"}, "a name is missing"},
        {{"--root=1"}, "--root: is set with --collective allreduce; allowed is a collective that has a root"},
        {{"--collective=broadcast", "--op=max"},
         "--op: is set with --collective broadcast; allowed is a collective that reduces"},
        {{"--collective=alltoall", "--in-place"}, "--in-place: is set with --collective alltoall"},
        {{"--collective=reduce", "--inputs=2"}, "--inputs: is set with --collective reduce"},
        {{"--rounding", "--type=int32"}, "allowed are float32, float64"},
        {{"--rounding", "--op=max"}, "allowed are sum, avg"},
        {{"--prescale=0"}, "a finite number other than 0"},
        {{"--postscale=nan"}, "a finite number other than 0"},
        {{"--prescale=3"}, "allowed are powers of two whose product is 1"},
        {{"--prescale=2", "--postscale=0.5", "--op=max"}, "allowed are powers of two whose product is 1"},
        {{"--prescale=2", "--type=int32"},
         "--prescale: found with --type int32; allowed are types of floating-point or complex numbers"},
        {{"--postscale=2", "--type=int32_int32", "--op=minloc", "--no-check"},
         "--postscale: found with --type int32_int32"},
        {{"--codec=bf17"}, "--codec: is 'bf17'; allowed are none, bf16, "},
        {{"--codec=int8:block=3"}, "--codec: int8: block is 3; allowed are multiples of 8"},
        {{"--codec=bf16", "--op=max"}, "--codec: found with --op max; allowed are sum, avg"},
        {{"--codec=bf16", "--type=int32"}, "--codec: found with --type int32; allowed is float32"},
        {{"--codec=bf16", "--order=left"}, "--codec: is bf16 with --order left; allowed is one of the two"},
        {{"--codec=bf16", "--collective=reduce"}, "--codec: is set with --collective reduce"},
        {{"--prescale=2", "--collective=allgather", "--no-check"},
         "--prescale: is set with --collective allgather"},
        {{"--collective=broadcast", "--algorithm=ring"}, "binomial"},
        {{"--bytes=4k"}, "--bytes: is '4k'; allowed is a size"},
        {{"--bytes=1Gi:9000000Gi:x2"}, "half of the memory"},
        {{"--type=float"}, "float32"},
        {{"--op=plus"}, "product"},
        {{"--op=user"}, "built-in"},
        {{"--op=band"}, "--op: is band with type float32; allowed are sum, product, min, max, avg, "},
        {{"--inputs=0"}, "from 1 to 1024"},
        {{"--collective=reduce", "--root=2"}, "allowed with 2 ranks is 0 to 1"},
        {{"--time=nan"}, "--time: is 'nan'; allowed is a time with its unit"},
        {{"--time=2d"}, "allowed is a time with its unit, as 500ms, 3s or 2m"},
        {{"--time=0s"}, "--time: is '0s'; allowed is a time from 1ns to 24h"},
        {{"--time=1s", "--iterations=3"}, "one or the other"},
        {{"--format=xml"}, "allowed is one of table, json, csv"},
        {{"--timeout", "3"}, "--timeout: is '3'; allowed is a time with its unit, as 500ms, 3s or 2m\n"},
        {{"--timeout=-1s"}, "allowed is a time with its unit"},
        {{"--timeout=25h"}, "--timeout: is '25h'; allowed is a time from 1ms to 24h"},
        {{"--timeout=0.5ms"}, "allowed is a time from 1ms to 24h"},
        {{"--ib-port=1"}, "are for --transport ibverbs"},
        {{"--transport=ibverbs", "--ib-port=0"}, "from 1 to 255"},
        {{"--transport=ibverbs", "--ib-gid-index=-1"}, "from 0 to 255"},
        {{"--transport=ibverbs", "--ib-mtu=1500"}, "allowed is one of 256, 512, 1024, 2048, 4096"},
    };
    for (const auto &row : table) {
        outcome result = run(row.arguments);
        EXPECT_EQ(result.status, 2) << row.says;
        EXPECT_EQ(result.out, "") << row.says;
        EXPECT_TRUE(contains(result.err, row.says)) << "wanted: " << row.says << "\nfound: " << result.err;
    }
}

// Which stores there are, the library knows.
TEST(Bench, AStoreThatIsNoneIsNamedByTheLibrary) {
    const outcome result = run({"--rank=0", "--size=2", "--store=http://x"});
    EXPECT_EQ(result.status, 1);
    EXPECT_TRUE(contains(
        result.err,
        "--store: gcoll_store_open: url starts with none of file:, tcp://, redis://, rediss:// and pmi:"))
        << result.err;
}

// The keys in their order, and figures that agree with one another.
void expect_json(const json &object) {
    const strings keys = {"collective", "algorithm", "transport",  "ranks",      "inputs", "bytes",  "count",
                          "type",       "op",        "iterations", "min_us",     "p50_us", "p95_us", "p99_us",
                          "max_us",     "mean_us",   "algbw_GBps", "busbw_GBps", "wrong"};
    strings found;
    json_object_object_foreach(object.get(), key, value) {
        (void)value;
        found.push_back(key);
    }
    EXPECT_EQ(found, keys);
    EXPECT_GT(number(object, "min_us"), 0);
    EXPECT_LE(number(object, "min_us"), number(object, "p50_us"));
    EXPECT_LE(number(object, "p50_us"), number(object, "p95_us"));
    EXPECT_LE(number(object, "p95_us"), number(object, "p99_us"));
    EXPECT_LE(number(object, "p99_us"), number(object, "max_us"));
    EXPECT_GE(number(object, "mean_us"), number(object, "min_us"));
    EXPECT_LE(number(object, "mean_us"), number(object, "max_us"));
    EXPECT_EQ(text(object, "wrong"), "0");
    EXPECT_EQ(number(object, "iterations"), 6);
}

// Without --local, --rank and --size a process is the rank that its launcher says.
TEST(Bench, UnderALauncherIsTheRankThatItSays) {
    const char *const rows[][2] = {{"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
                                   {"PMI_RANK", "PMI_SIZE"},
                                   {"GCOLL_RANK", "GCOLL_SIZE"},
                                   {"RANK", "WORLD_SIZE"}};
    const strings quick = {"--bytes=4", "--iterations=1", "--warmup=0", "--format=json"};
    for (const auto &[rank, size] : rows) {
        const folder store;
        auto one = [&, rank = rank, size = size](const char *number) {
            return run(quick, {std::string(rank) + "=" + number, std::string(size) + "=2",
                               "GCOLL_STORE=file:" + store.path});
        };
        outcome second;
        std::thread thread([&] { second = one("1"); });
        const outcome first = one("0");
        thread.join();
        EXPECT_EQ(first.status, 0) << rank << first.err;
        EXPECT_EQ(second.status, 0) << rank << second.err;
        EXPECT_EQ(second.out, "");
        ASSERT_EQ(lines(first.out).size(), 1u);
        EXPECT_EQ(number(parse(first.out), "ranks"), 2);
    }
}

TEST(Bench, UnderALauncherRanksOfItsOwnMustBeAskedFor) {
    const strings quick = {"--bytes=4", "--iterations=1", "--warmup=0"},
                  of_two = {"PMI_RANK=1", "PMI_SIZE=2"};
    const outcome nowhere = run(quick, of_two);
    EXPECT_EQ(nowhere.status, 2);
    EXPECT_TRUE(contains(nowhere.err,
                         "this is rank 1 of 2 by the variables of pmi, which do not say where ranks meet: "
                         "give --store, or set GCOLL_STORE; or type --local N"))
        << nowhere.err;
    const outcome odd = run(quick, {"PMI_RANK=2", "PMI_SIZE=2"});
    EXPECT_EQ(odd.status, 2);
    EXPECT_TRUE(contains(odd.err, "PMI_RANK: is '2'; allowed is a number of 0 to 1; or type --local N"))
        << odd.err;
    EXPECT_EQ(run({"--local=2", "--bytes=4", "--iterations=1", "--warmup=0"}, of_two).status, 0);
    EXPECT_EQ(run(quick, {"PMI_RANK=0", "PMI_SIZE=1"}).status, 0);
    const outcome help = run({"--help"}, of_two);
    EXPECT_EQ(help.status, 0);
    EXPECT_TRUE(contains(help.out, "GCOLL_RANK")) << help.out;
}

class Transport : public testing::TestWithParam<const char *> {};

// 2(P-1)/P, (P-1)/P or 1, for P = 3.
double bus_factor(const std::string &collective) {
    if (collective == "allreduce")
        return 4.0 / 3;
    bool moves_once =
        collective == "broadcast" || collective == "reduce" || collective == "pairwise_exchange";
    return moves_once ? 1.0 : 2.0 / 3;
}

TEST_P(Transport, JsonOfEveryCollective) {
    outcome result = run({"--local=3", "--transport", GetParam(), "--collective=all", "--bytes=4,1200,256Ki",
                          "--iterations=6", "--format=json"});
    EXPECT_EQ(result.status, 0) << result.err;
    EXPECT_EQ(result.err, "");
    std::map<std::string, std::vector<json>> found;
    for (const std::string &line : lines(result.out)) {
        json object = parse(line);
        ASSERT_NE(object, nullptr) << line;
        expect_json(object);
        EXPECT_EQ(text(object, "transport"), GetParam());
        EXPECT_EQ(number(object, "ranks"), 3);
        found[text(object, "collective")].push_back(std::move(object));
    }
    EXPECT_EQ(found.size(), 10u);
    for (const auto &[collective, objects] : found) {
        SCOPED_TRACE(collective);
        if (collective == "barrier") {
            ASSERT_EQ(objects.size(), 1u);
            for (const char *key : {"inputs", "bytes", "count", "type", "op", "algbw_GBps", "busbw_GBps"})
                EXPECT_EQ(text(objects[0], key), "null") << key;
            continue;
        }
        ASSERT_EQ(objects.size(), 3u);
        for (size_t i = 0; i < 3; i++) {
            // Blocks of an alltoall are equal: 1 element does not go round, 65536 are one too many.
            const double given[] = {4, 1200, 262144}, equal[] = {0, 1200, 262140};
            double bytes = collective == "alltoall" ? equal[i] : given[i];
            EXPECT_EQ(number(objects[i], "bytes"), bytes);
            EXPECT_EQ(number(objects[i], "count"), bytes / 4);
            EXPECT_EQ(number(objects[i], "inputs"), 1);
            double algbw = bytes / number(objects[i], "p50_us") / 1e3;
            EXPECT_NEAR(number(objects[i], "algbw_GBps"), algbw, algbw * 0.01 + 2e-6);
            EXPECT_NEAR(number(objects[i], "busbw_GBps"), algbw * bus_factor(collective),
                        algbw * 0.02 + 2e-6);
            bool reduces =
                collective == "allreduce" || collective == "reduce" || collective == "reduce_scatter";
            EXPECT_EQ(text(objects[i], "op"), reduces ? "sum" : "null");
        }
    }
}

TEST_P(Transport, SeveralInputs) {
    outcome result = run({"--local=3", "--transport", GetParam(), "--collective=all", "--bytes=1200",
                          "--inputs=2", "--iterations=6", "--format=json"});
    EXPECT_EQ(result.status, 0) << result.err;
    strings all = lines(result.out);
    ASSERT_EQ(all.size(), 4u); // allreduce, broadcast, reduce_scatter, barrier
    EXPECT_EQ(number(parse(all[0]), "inputs"), 2);
    for (const char *one : {"reduce", "allgather", "gather", "scatter", "alltoall"}) {
        EXPECT_TRUE(contains(result.err, std::string(one) + " by auto takes one input and is left out"))
            << result.err;
    }
    EXPECT_FALSE(contains(result.err, "reduce_scatter by")) << result.err;
}

// Blocks that are alike, differ or are empty; results and inputs are checked.
TEST_P(Transport, SeveralInputsOfAReduceScatter) {
    for (const char *mode : {"--in-place", "--one-shot", "--op=avg"}) {
        outcome result =
            run({"--local=3", "--transport", GetParam(), "--collective=reduce_scatter", "--algorithm=all",
                 "--bytes=0,4,1200,40004", "--inputs=3", "--iterations=2", "--format=json", mode});
        EXPECT_EQ(result.status, 0) << mode << ": " << result.err;
        const strings all = lines(result.out);
        EXPECT_EQ(all.size() % 4, 0u);
        EXPECT_GE(all.size(), 12u);
        for (const std::string &line : all) {
            EXPECT_EQ(number(parse(line), "inputs"), 3);
            EXPECT_EQ(text(parse(line), "wrong"), "0") << line;
        }
    }
}

// The error of one addition of a few numbers below 1 is some units of 2^-24, and never more than one for each
// rank.
TEST(Bench, RoundingErrors) {
    for (const char *type : {"float32", "float64"}) {
        outcome result =
            run({"--local=5", "--transport=inproc", "--collective=allreduce", "--algorithm=ring,recursive",
                 "--bytes=64Ki", "--iterations=1", "--format=json", "--rounding", "--type", type});
        EXPECT_EQ(result.status, 0) << result.err;
        double unit = std::string(type) == "float32" ? 0x1p-24 : 0x1p-53;
        strings all = lines(result.out);
        ASSERT_EQ(all.size(), 2u);
        for (const std::string &line : all) {
            double rounding = number(parse(line), "rounding");
            EXPECT_LE(rounding, 5 * unit) << line;
            if (unit > 1e-10)
                EXPECT_GT(rounding, unit / 8) << line; // in double precision this sum may be exact
        }
    }
}

TEST(Bench, Factors) {
    for (const char *collective : {"allreduce", "reduce", "reduce_scatter"})
        for (const char *form : {"--one-shot", "--in-place", "--op=avg"}) {
            outcome result =
                run({"--local=3", "--transport=inproc", "--collective", collective, "--bytes=4,4Ki",
                     "--iterations=2", "--prescale=0.5", "--postscale=2", form});
            EXPECT_EQ(result.status, 0) << collective << " " << form << ": " << result.err << result.out;
        }
    for (const char *type : {"float8_e5m2", "bfloat16", "float32", "complex128"}) { // sums of 0 become -0
        outcome result = run({"--local=2", "--transport=inproc", "--bytes=16Ki", "--iterations=2", "--type",
                              type, "--prescale=-2", "--postscale=-0.5"});
        EXPECT_EQ(result.status, 0) << type << ": " << result.err << result.out;
    }
}

// Collectives that take no codec, or reduce nothing, run without it, and do not say that they had it.
TEST(Bench, CodecAndFactorsAreSaid) {
    const strings common = {"--local=3",    "--transport=inproc", "--collective=all", "--bytes=4,4Ki",
                            "--codec=bf16", "--iterations=2",     "--prescale=-2",    "--postscale=-0.5"};
    strings flags = common;
    const outcome table = run(flags);
    EXPECT_EQ(table.status, 0) << table.err;
    for (const char *head : {"# allreduce: 3 ranks, inproc, float32, sum, out of place, codec bf16, prescale "
                             "-2, postscale -0.5\n",
                             "# allgather: 3 ranks, inproc, float32, out of place, codec bf16\n",
                             "# gather: 3 ranks, inproc, float32, out of place, root 0\n",
                             "# reduce: 3 ranks, inproc, float32, sum, out of place, root 0, prescale -2, "
                             "postscale -0.5\n"})
        EXPECT_TRUE(contains(table.out, head)) << head << table.out;
    flags.push_back("--format=json");
    const outcome result = run(flags);
    EXPECT_EQ(result.status, 0) << result.err;
    for (const char *name : {"allreduce", "allgather", "reduce", "barrier"}) {
        const bool is_coded = name[0] == 'a', reduces = contains(name, "reduce");
        const std::string wanted = std::string(",\"codec\":") + (is_coded ? "\"bf16\"" : "null") +
                                   ",\"prescale\":" + (reduces ? "-2" : "null") +
                                   ",\"postscale\":" + (reduces ? "-0.5" : "null") + "}";
        int found = 0;
        for (const std::string &line : lines(result.out)) {
            if (!contains(line, "{\"collective\":\"" + std::string(name) + "\""))
                continue;
            found++;
            EXPECT_TRUE(contains(line, wanted)) << wanted << line;
        }
        EXPECT_GT(found, 0) << name << result.out;
    }
    const outcome plain =
        run({"--local=2", "--transport=inproc", "--bytes=4", "--codec=none", "--format=json"});
    EXPECT_EQ(plain.status, 0) << plain.err;
    EXPECT_FALSE(contains(plain.out, "codec")) << plain.out;
}

// Rank 1 of the faulty program comes 3 ms late to each barrier.
TEST(BenchBarrier, IsTimedWithTheCallOnlyIfAskedFor) {
    const strings flags = {"--local=2", "--bytes=4", "--iterations=20", "--no-check", "--format=json"};
    for (bool with : {false, true}) {
        strings all = flags;
        if (with)
            all.push_back("--with-barrier");
        const outcome result = run(all, {"GCOLL_BENCH_FAULT=pause"}, GCOLL_BENCH_FAULTY);
        ASSERT_EQ(result.status, 0) << result.err;
        const auto row = parse(lines(result.out).at(0));
        EXPECT_EQ(with, number(row, "min_us") > 3000) << result.out;
        EXPECT_EQ(with, contains(result.out, "\"with\":\"barrier\"")) << result.out;
    }
    for (const char *collective : {"allreduce", "barrier"}) {
        const outcome table =
            run({"--local=2", "--bytes=4", "--iterations=2", "--with-barrier", "--collective", collective});
        EXPECT_EQ(collective == std::string("allreduce"),
                  contains(table.out, ", with the barrier before it\n"))
            << table.out;
    }
    for (const char *other : {"--back-to-back", "--arrival=none", "--compute=1ms", "--monitor=on",
                              "--tune=none/file", "--tune-check"}) {
        const outcome refused = run({"--local=3", "--with-barrier", other});
        EXPECT_EQ(refused.status, 2) << other;
        const std::string name = other;
        EXPECT_TRUE(contains(refused.err, "--with-barrier: found with ")) << refused.err;
        EXPECT_TRUE(contains(refused.err, name.substr(0, name.find('=')))) << refused.err;
    }
}

// Rank 1 of the faulty program runs no barrier of the library.
TEST(BenchLineUp, TakesThePlaceOfTheLibrarysBarrier) {
    folder here;
    const std::string line = "--line-up=" + here.path + "/line";
    for (const char *transport : {"shm", "tcp"})
        for (bool with : {false, true}) {
            strings flags = {"--local=3", "--bytes=4,1Ki", "--iterations=20", "--no-check", "--format=json"};
            flags.push_back(std::string("--transport=") + transport);
            if (with)
                flags.push_back(line);
            const outcome result = run(flags, {"GCOLL_BENCH_FAULT=refuse"}, GCOLL_BENCH_FAULTY);
            EXPECT_EQ(result.status, with ? 0 : 1) << result.err;
            EXPECT_EQ(!with, contains(result.err, "rank 1: barrier before an iteration: ")) << result.err;
            EXPECT_EQ(lines(result.out).size(), with ? 2u : 0u) << result.out;
        }
    // But not of those that keep ranks busy at first.
    const outcome unsettled =
        run({"--local=2", "--bytes=4", "--iterations=2", "--no-check", "--settle=1ms", line},
            {"GCOLL_BENCH_FAULT=refuse"}, GCOLL_BENCH_FAULTY);
    EXPECT_EQ(unsettled.status, 1);
    EXPECT_TRUE(contains(unsettled.err, "rank 1: barriers before the first size: ")) << unsettled.err;
    const outcome threads =
        run({"--local=5", "--transport=inproc", "--bytes=4", "--iterations=20", "--settle=1ms", line});
    EXPECT_EQ(threads.status, 0) << threads.err;
    const outcome gone = run({"--local=2", "--bytes=4", "--line-up=" + here.path + "/none/line"});
    EXPECT_EQ(gone.status, 1);
    EXPECT_TRUE(contains(gone.err, "/none/line': No such file or directory; allowed is a file of this job"))
        << gone.err;
    const outcome device = run({"--local=2", "--bytes=4", "--line-up=/dev/null"});
    EXPECT_EQ(device.status, 1);
    EXPECT_TRUE(contains(device.err, "/dev/null': Invalid argument; allowed is a file")) << device.err;
    for (const char *other : {"--back-to-back", "--arrival=none", "--compute=1ms", "--monitor=on",
                              "--tune=none/file", "--tune-check", "--with-barrier"}) {
        const outcome refused = run({"--local=3", line, other});
        EXPECT_EQ(refused.status, 2) << other;
        EXPECT_TRUE(contains(refused.err, ": found with ")) << refused.err;
        EXPECT_TRUE(contains(refused.err, "--line-up")) << refused.err;
    }
}

TEST_P(Transport, EveryAlgorithmInEveryMode) {
    for (const char *mode : {"--in-place", "--one-shot", "--back-to-back", "--no-check"}) {
        outcome result = run({"--local=2", "--transport", GetParam(), "--collective=all", "--algorithm=all",
                              "--bytes=0,64Ki", "--iterations=2", "--format=csv", mode});
        EXPECT_EQ(result.status, 0) << result.err;
        strings all = lines(result.out);
        ASSERT_GE(all.size(), 1u + 2 * 3 + 2 + 1) << "at least three algorithms of allreduce";
        EXPECT_EQ(all[0].rfind("collective,algorithm,transport,ranks,inputs,bytes,", 0), 0u);
        for (size_t i = 1; i < all.size(); i++) {
            std::string wrong = std::string(mode) == "--no-check" ? "," : ",0";
            EXPECT_EQ(all[i].substr(all[i].rfind(',')), wrong) << all[i];
        }
    }
}

TEST_P(Transport, AlgorithmsOfOnesOwn) {
    outcome result = run({"--local=3", "--transport", GetParam(), "--load", EXAMPLE_PLUGIN,
                          "--algorithm=chain,ring", "--bytes=0,4,1200", "--iterations=2", "--format=json"});
    EXPECT_EQ(result.status, 0) << result.err;
    strings all = lines(result.out);
    ASSERT_EQ(all.size(), 6u);
    for (size_t i = 0; i < all.size(); i++) {
        EXPECT_EQ(text(parse(all[i]), "algorithm"), i < 3 ? "chain" : "ring");
        EXPECT_EQ(text(parse(all[i]), "wrong"), "0");
    }
    EXPECT_TRUE(contains(run({"--load=/nowhere.so"}).err, "--load: /nowhere.so"));
    EXPECT_EQ(run({"--load=/nowhere.so"}).status, 2);
    EXPECT_TRUE(
        contains(run({"--load", EXAMPLE_PLUGIN, "--load", EXAMPLE_PLUGIN, "--bytes=4", "--iterations=1"}).err,
                 "has one of that name already"));
}

INSTANTIATE_TEST_SUITE_P(All, Transport, testing::Values("tcp", "inproc"));

// The last number of the line of --resources that begins so; -1 where there is none.
double greatest(const std::string &text, const std::string &name) {
    for (const std::string &line : lines(text))
        if (line.rfind("# " + name, 0) == 0)
            return std::stod(line.substr(line.rfind(' ')));
    return -1;
}

TEST(Bench, TracesOfAllRanks) {
    folder here;
    outcome result = run({"--local=3", "--bytes=4", "--iterations=5", "--trace", here.path});
    EXPECT_EQ(result.status, 0) << result.err;
    for (const char *name : {"/rank0.json", "/rank1.json", "/rank2.json"}) {
        const program_test::json dump = program_test::parse(program_test::file_text(here.path + name));
        EXPECT_EQ(program_test::number(dump, "size"), 3);
        EXPECT_GE(json_object_array_length(program_test::field(dump, "operations")), 10u);
    }
    result = run({"--local=2", "--bytes=4", "--iterations=5", "--trace=/nowhere/at/all"});
    EXPECT_EQ(result.status, 1);
    EXPECT_TRUE(contains(result.err, "--trace: rank 0: cannot write '/nowhere/at/all/rank0.json"))
        << result.err;
}

// By auto, a rank has connections by the logarithm of the ranks: at most 4 for each of 6 rounds, and not 63.
TEST(Bench, SocketsByTheLogarithmOfTheRanks) {
    for (const char *collective : {"allreduce", "broadcast", "barrier", "reduce", "allgather"}) {
        outcome result = run({"--local=64", "--resources", "--collective", collective, "--bytes=4",
                              "--iterations=2", "--warmup=0", "--tuning=default"});
        EXPECT_EQ(result.status, 0) << result.err;
        EXPECT_LE(greatest(result.err, "sockets at the end"), 1 + 4 * 6) << collective << result.err;
        EXPECT_GE(greatest(result.err, "sockets at the end"), 1 + 6) << collective << result.err;
        EXPECT_GT(greatest(result.err, "start-up, ms"), 0) << result.err;
    }
}

// Each with --help behind it, so that the command line is read, and nothing runs for minutes.
TEST(Bench, ExamplesOfTheHelpAreUnderstood) {
    const std::string help = run({"--help"}).out;
    std::istringstream words(help.substr(help.find("\nExamples:")));
    std::vector<strings> examples;
    bool is_command = false;
    for (std::string line; std::getline(words, line);) {
        if (line.compare(0, 13, "  gcoll_bench") != 0)
            continue;
        std::istringstream parts(line);
        for (std::string word; parts >> word;) {
            if (word == "gcoll_bench") {
                examples.emplace_back();
                is_command = true;
            } else if (word == "&&" || word == "on") {
                is_command = false;
            } else if (is_command) {
                examples.back().push_back(word);
            }
        }
    }
    EXPECT_EQ(examples.size(), 7u);
    for (strings example : examples) {
        example.push_back("--help");
        const outcome read = run(example);
        EXPECT_EQ(read.status, 0) << example[0] << " " << example[1] << ": " << read.err;
    }
    EXPECT_EQ(run({"--local", "4", "--rank-identical", "--help"}).status, 2);
}

// Chunks of which the last goes to nobody, one for all, and as many as there can be.
TEST(Bench, ExchangesOfAnyNumber) {
    const strings common = {"--local=5", "--collective=pairwise_exchange", "--bytes=0,4,1200",
                            "--iterations=2", "--warmup=0"};
    for (const char *exchanges : {"1", "2", "4", "32"}) {
        strings arguments = common;
        arguments.push_back(std::string("--exchanges=") + exchanges);
        outcome result = run(arguments);
        EXPECT_EQ(result.status, 0) << exchanges << result.err;
        EXPECT_NE(result.out.find(std::string(", ") + exchanges + " exchange"), std::string::npos)
            << result.out;
    }
    strings chosen = common; // as many as ranks can be doubled, as in the C call
    chosen.push_back("--exchanges=0");
    EXPECT_EQ(run(chosen).status, 0);
    outcome refused = run({"--local=2", "--exchanges=2"});
    EXPECT_EQ(refused.status, 2);
    EXPECT_NE(
        refused.err.find("--exchanges: is set with --collective allreduce; allowed is a collective that has"),
        std::string::npos)
        << refused.err;
}

// All there is, with blocks that 5 ranks do not divide and blocks that are empty. A sanitizer looks at each
// byte of each copy, which are the same for any length: it gets what several messages a block need.
const char *const kBytes = gcoll_test::is_sanitized() ? "--bytes=0,4,1Ki,100000" : "--bytes=0,4,1Ki,1000000";
class Everything : public testing::TestWithParam<std::tuple<const char *, int>> {};

TEST_P(Everything, ByFiveRanks) {
    auto [transport, number] = GetParam();
    const char *collective = gcoll_collective_name(static_cast<gcoll_collective>(number));
    outcome result = run({"--local=5", "--transport", transport, "--collective", collective,
                          "--algorithm=all", kBytes, "--iterations=1", "--warmup=0", "--format=json"});
    EXPECT_EQ(result.status, 0) << result.err;
    std::map<std::string, int> found;
    for (const std::string &line : lines(result.out)) {
        json object = parse(line);
        ASSERT_NE(object, nullptr) << line;
        EXPECT_EQ(text(object, "wrong"), "0") << line;
        EXPECT_EQ(text(object, "collective"), collective);
        std::string algorithm = text(object, "algorithm");
        found[algorithm.substr(0, algorithm.find(':'))]++;
    }
    const char *name = nullptr;
    size_t known = 0;
    for (uint32_t i = 0; gcoll_algorithm_at(collective, i, &name, nullptr) == GCOLL_OK; i++) {
        if (std::string(name).rfind("cuda_", 0) == 0)
            continue; // in host memory it is another one
        if (std::string(name) == "tour_ring")
            continue; // there is no tour
        EXPECT_EQ(found[name], number == GCOLL_BARRIER ? 1 : 4) << name;
        known++;
    }
    EXPECT_EQ(found.size(), known);
    EXPECT_EQ(result.err, "");
}

INSTANTIATE_TEST_SUITE_P(All, Everything,
                         testing::Combine(testing::Values("tcp", "inproc"),
                                          testing::Range(0, static_cast<int>(GCOLL_COLLECTIVE_COUNT))));

TEST(Bench, EveryTypeAndOperation) {
    size_t types = 0;
    for (const auto &family : families) {
        types += family.types.size();
        for (const std::string &type : family.types) {
            for (const std::string &op : family.ops) {
                outcome result = run({"--local=3", "--transport=inproc", "--type", type, "--op", op,
                                      "--bytes=16,24016", "--iterations=1", "--warmup=0", "--format=csv"});
                EXPECT_EQ(result.status, 0) << type << " " << op << ": " << result.err;
            }
        }
    }
    EXPECT_EQ(types, static_cast<size_t>(GCOLL_TYPE_COUNT));
}

// A type without a sum can be moved; what reduces needs an operation that the type has.
TEST(Bench, TypesWithoutTheOperation) {
    const strings common = {"--local=2", "--transport=inproc", "--bytes=16", "--iterations=1"};
    const auto with = [&](const strings &more) {
        strings all = common;
        all.insert(all.end(), more.begin(), more.end());
        return run(all);
    };
    EXPECT_EQ(with({"--collective=broadcast", "--type=float64_int64"}).status, 0);
    outcome result = with({"--collective=all", "--type=bool"});
    EXPECT_NE(result.status, 0);
    EXPECT_TRUE(contains(result.err, "--op: is sum with type bool; allowed are land, lor, lxor, "))
        << result.err;
}

// What is named runs, and the head of its table says what that means, unless --same asks for more.
TEST(Bench, SameSaysWhatResultsMustBeLike) {
    const strings common = {"--local=3", "--transport=inproc", "--bytes=64", "--iterations=2"};
    const auto with = [&](const strings &more) {
        strings all = common;
        all.insert(all.end(), more.begin(), more.end());
        return run(all);
    };
    outcome result = with({"--algorithm=ring_full"});
    EXPECT_EQ(result.status, 0) << result.err;
    EXPECT_TRUE(contains(result.out, ", same nowhere\n")) << result.out;
    result = with({"--algorithm=ring_full", "--same=ranks"});
    EXPECT_NE(result.status, 0);
    EXPECT_TRUE(contains(result.err, "options.same = GCOLL_SAME_NOWHERE")) << result.err;
    result = with({});
    EXPECT_EQ(result.status, 0) << result.err;
    EXPECT_FALSE(contains(result.out, ", same")) << result.out;
    result = with({"--same=runs"});
    EXPECT_TRUE(contains(result.out, ", same in runs\n")) << result.out;
    result = with({"--same=sometimes"});
    EXPECT_EQ(result.status, 2);
    EXPECT_TRUE(contains(result.err, "ranks, runs, nowhere")) << result.err;
}

TEST(Bench, OrderSaysByWhichTree) {
    const auto with = [](const std::string &more) {
        return run({"--local=3", "--transport=inproc", "--bytes=64", "--iterations=2", more});
    };
    outcome result = with("--order=left");
    EXPECT_EQ(result.status, 0) << result.err;
    EXPECT_TRUE(contains(result.out, ", order left\n")) << result.out;
    result = run({"--local=4", "--transport=inproc", "--bytes=64", "--iterations=2", "--order=pairs",
                  "--algorithm=ring"});
    EXPECT_NE(result.status, 0);
    EXPECT_TRUE(contains(result.err, "ring does not build the tree of options.order, pairs")) << result.err;
    result = with("--order=right");
    EXPECT_EQ(result.status, 2);
    EXPECT_TRUE(contains(result.err, "any, pairs, left")) << result.err;
}

TEST(Bench, TableForPeople) {
    outcome result = run({"--local=2", "--bytes=4,64Ki", "--time=0.02s"});
    EXPECT_EQ(result.status, 0) << result.err;
    EXPECT_TRUE(contains(result.out, "allreduce: 2 ranks, shm, float32, sum, out of place")) << result.out;
    EXPECT_TRUE(contains(result.out, "every element of every result was right"));
    size_t rows = 0;
    for (const std::string &line : lines(result.out))
        rows += line.empty() || line[0] == '#' ? 0 : 1;
    EXPECT_EQ(rows, 2u);
}

TEST(Bench, TheEnvironmentSaysWhichTransportIfTheFlagDoesNot) {
    const struct {
        const char *variable, *flag, *transport;
    } rows[] = {{"GCOLL_TRANSPORT=inproc", nullptr, "inproc"},
                {"GCOLL_TRANSPORT=inproc", "--transport=auto", "inproc"},
                {"GCOLL_TRANSPORT=inproc", "--transport=tcp:eager_bytes=1Ki", "tcp"},
                {"GCOLL_TRANSPORT=pigeon", "--transport=inproc", "inproc"},
                {"GCOLL_TRANSPORT=tcp:pool_bytes=64k", nullptr, "tcp"}};
    for (const auto &row : rows) {
        strings flags = {"--local=2", "--bytes=4", "--iterations=3", "--format=json"};
        if (row.flag)
            flags.push_back(row.flag);
        outcome result = run(flags, {row.variable});
        ASSERT_EQ(result.status, 0) << row.variable << ": " << result.err;
        EXPECT_EQ(text(parse(lines(result.out)[0]), "transport"), row.transport) << row.variable;
    }
    outcome wrong = run({"--local=2"}, {"GCOLL_TRANSPORT=pigeon"});
    EXPECT_EQ(wrong.status, 2);
    EXPECT_TRUE(contains(wrong.err, "gcoll_bench: GCOLL_TRANSPORT: names 'pigeon'; allowed are auto, tcp, "))
        << wrong.err;
    wrong = run({"--local=2", "--iterations=1"}, {"GCOLL_INTERFACE=eth987"});
    EXPECT_EQ(wrong.status, 1);
    EXPECT_TRUE(contains(wrong.err, "GCOLL_INTERFACE: is 'eth987', which fits nothing; this host has "))
        << wrong.err;
}

// What --help says of options is what the library says.
TEST(Bench, HelpListsTheOptionsOfTransports) {
    struct list {
        std::string help;
        size_t at;
    } l = {run({"--help"}).out, 0};
    const auto find = [](void *arg, const gcoll_transport_option *option) {
        list *found = static_cast<list *>(arg);
        const size_t name = found->help.find(std::string("\n  ") + option->name + "=", found->at);
        ASSERT_NE(name, std::string::npos) << option->name;
        const std::string line = found->help.substr(name + 1, found->help.find('\n', name + 1) - name - 1);
        for (const char *part : {option->help, option->allowed, option->initial, option->variable})
            EXPECT_TRUE(contains(line, part)) << line;
        found->at = name;
    };
    const char *name;
    for (uint32_t i = 0; gcoll_transport_at(i, &name) == GCOLL_OK; i++) {
        const size_t section = l.help.find(std::string("Options of --transport ") + name);
        l.at = section == std::string::npos ? 0 : section;
        EXPECT_EQ(gcoll_transport_options(name, find, &l), GCOLL_OK);
    }
    EXPECT_TRUE(contains(l.help, "Options of --transport ibverbs, as in ibverbs:device=..."));
    EXPECT_FALSE(contains(l.help, "Options of --transport inproc"));
}

// Processes of one host would go over shm, which has no checksums.
TEST(Bench, WhatCarriesChecksumsIsSaid) {
    const outcome table = run({"--local=2", "--bytes=4", "--iterations=3", "--checksum"});
    EXPECT_EQ(table.status, 0) << table.err;
    EXPECT_TRUE(contains(table.out, "tcp, checksum, float32")) << table.out;
}

TEST(Bench, ChecksumsAreSaid) {
    for (const char *transport : {"tcp", "inproc"}) {
        const strings common = {"--local=2",  "--bytes=4,1Mi", "--iterations=3",
                                "--checksum", "--transport",   transport};
        strings flags = common;
        outcome table = run(flags);
        EXPECT_EQ(table.status, 0) << table.err;
        EXPECT_TRUE(contains(table.out, std::string(transport) + ", checksum, float32")) << table.out;
        flags.push_back("--format=json");
        outcome json = run(flags);
        EXPECT_EQ(json.status, 0) << json.err;
        EXPECT_TRUE(contains(json.out, "\"checksum\":\"crc32c\"")) << json.out;
    }
}

TEST(Bench, BuffersThatPeersRead) {
    for (const char *transport : {"shm", "tcp"}) {
        const outcome table =
            run({"--local=3", "--bytes=4,1Mi,3Mi", "--iterations=3", "--shared", "--transport", transport});
        EXPECT_EQ(table.status, 0) << table.err;
        EXPECT_TRUE(contains(table.out, "float32, sum, out of place, shared memory")) << table.out;
        EXPECT_TRUE(contains(table.out, "every element of every result was right")) << table.out;
    }
}

TEST(Bench, OutputFile) {
    folder place;
    std::string file = place.path + "/results.csv";
    outcome result = run({"--bytes=4,8", "--iterations=1", "--format=csv", "--output", file});
    EXPECT_EQ(result.status, 0) << result.err;
    EXPECT_EQ(result.out, "");
    std::ifstream stream(file);
    std::string content((std::istreambuf_iterator<char>(stream)), std::istreambuf_iterator<char>());
    EXPECT_EQ(lines(content).size(), 3u);
    outcome refused = run({"--output", place.path + "/none/x"});
    EXPECT_EQ(refused.status, 1);
    EXPECT_TRUE(contains(refused.err, "none/x: No such file or directory")) << refused.err;
}

TEST(Bench, OddSizesAreRoundedDownAndSaidSo) {
    outcome result = run({"--transport=inproc", "--bytes=1001", "--type=float64", "--iterations=1",
                          "--format=json", "--verbose"});
    EXPECT_EQ(result.status, 0);
    EXPECT_TRUE(
        contains(result.err, "1001 is no multiple of the 8 bytes of float64 and is rounded down to 1000"));
    EXPECT_EQ(number(parse(result.out), "bytes"), 1000);
}

TEST(Bench, RanksStartedOneByOne) {
    folder place;
    auto arguments = [&](const char *rank) {
        return strings{"--rank",           rank,
                       "--size=3",         "--store=file:" + place.path,
                       "--job=one-by-one", "--collective=all",
                       "--bytes=4,4Ki",    "--iterations=2",
                       "--format=json"};
    };
    process one(GCOLL_BENCH, arguments("1"));
    process two(GCOLL_BENCH, arguments("2"));
    process zero(GCOLL_BENCH, arguments("0"));
    EXPECT_EQ(zero.wait(), 0);
    EXPECT_EQ(one.wait(), 0);
    EXPECT_EQ(two.wait(), 0);
    EXPECT_EQ(lines(read_all(zero.out)).size(), 9u * 2 + 1);
    EXPECT_EQ(read_all(one.out), "");
    EXPECT_EQ(read_all(two.out), "");
    EXPECT_EQ(read_all(zero.err) + read_all(one.err) + read_all(two.err), "");
}

// The ranks that one starts belong to no other, even if both were told the same name.
TEST(Bench, TwoThatStartRanksOfOneJobOnOneStoreBothRun) {
    folder place;
    const strings arguments{"--local=3", "--store=file:" + place.path, "--job=same", "--collective=barrier",
                            "--iterations=2"};
    const strings environment{"GCOLL_LAUNCH=both-inherit-this"};
    process one(GCOLL_BENCH, arguments, environment), two(GCOLL_BENCH, arguments, environment);
    EXPECT_EQ(one.wait(), 0) << read_all(one.err);
    EXPECT_EQ(two.wait(), 0) << read_all(two.err);
}

TEST(Bench, ARankThatNobodyJoinsTimesOut) {
    folder place;
    outcome result = run({"--rank=0", "--size=2", "--store=file:" + place.path, "--timeout=300ms"});
    EXPECT_EQ(result.status, 1);
    EXPECT_TRUE(contains(result.err, "rank 0: joining the job")) << result.err;
}

} // namespace
