// gcoll_bench --network-out: the file that it writes, and that gcoll_plan reads it.
#include "test/benchmark/bench_support.h"

#include <cmath>

namespace {

using namespace bench_test;

json read_json(const std::string &path) {
    return parse(program_test::file_text(path));
}

json_object *member(json_object *object, const char *key) {
    json_object *found = nullptr;
    EXPECT_TRUE(json_object_object_get_ex(object, key, &found)) << key;
    return found;
}

// Every pair has been measured, in both directions, and nothing else.
void expect_matrix(json_object *rows, size_t size) {
    ASSERT_EQ(json_object_array_length(rows), size);
    for (size_t i = 0; i < size; i++) {
        json_object *row = json_object_array_get_idx(rows, i);
        ASSERT_EQ(json_object_array_length(row), size);
        for (size_t k = 0; k < size; k++) {
            const double value = json_object_get_double(json_object_array_get_idx(row, k));
            EXPECT_EQ(value > 0, i != k) << i << " " << k << ": " << value;
            EXPECT_LT(value, 1e6) << i << " " << k; // a second, or 1 KB/s
        }
    }
}

TEST(BenchNetwork, WritesWhatEachPairCosts) {
    folder here;
    const std::string path = here.path + "/net.json";
    for (const char *ranks : {"2", "5"})
        for (const char *transport : {"inproc", "tcp"}) {
            outcome o = run({std::string("--local=") + ranks, std::string("--transport=") + transport,
                             "--time=20ms", "--network-out=" + path});
            ASSERT_EQ(o.status, 0) << o.err;
            json file = read_json(path);
            ASSERT_NE(file, nullptr) << program_test::file_text(path);
            json_object *matrix = member(file.get(), "matrix"), *hosts = member(file.get(), "hosts");
            EXPECT_STREQ(json_object_get_string(member(matrix, "of")), "ranks");
            expect_matrix(member(matrix, "delay_us"), std::stoul(ranks));
            expect_matrix(member(matrix, "ns_per_byte"), std::stoul(ranks));
            ASSERT_EQ(json_object_array_length(hosts), 1u);
            json_object *host = json_object_array_get_idx(hosts, 0);
            char name[256] = "";
            ASSERT_EQ(gethostname(name, sizeof name - 1), 0);
            EXPECT_STREQ(json_object_get_string(member(host, "name")), name);
            EXPECT_EQ(json_object_array_length(member(host, "ranks")), std::stoul(ranks));
#ifdef HAS_PLAN_TOOL
            outcome priced =
                run({"compare", "--network=" + path, "--bytes=64Ki", "--format=json"}, {}, GCOLL_PLAN);
            EXPECT_EQ(priced.status, 0) << priced.err;
            EXPECT_TRUE(contains(priced.out, std::string("\"ranks\":") + ranks)) << priced.out;
#endif
        }
    EXPECT_EQ(
        std::distance(std::filesystem::directory_iterator(here.path), std::filesystem::directory_iterator()),
        1); // nothing beside it
}

TEST(BenchNetwork, RefusesWhatItCannotDo) {
    folder here;
    const std::string out = "--network-out=" + here.path + "/net.json",
                      gone = "--network-out=" + here.path + "/no/f";
    const struct {
        strings arguments;
        int status;
        const char *says;
    } table[] = {
        {{out, "--local=1"}, 2, "--network-out: found with 1 rank; allowed are 2 to 1024"},
        {{out, "--local=1025"}, 2, "--network-out: found with 1025 ranks"},
        {{out, "--time=16s"},
         2,
         "--time: is 16 s; allowed with --network-out is up to half of --timeout, 15 s"},
        {{out, "--tune=x"}, 2, "--tune: found with --network-out"},
        {{out, "--bytes=4"}, 2, "--bytes: found with --network-out"},
        {{out, "--settle=1ms"}, 2, "--settle: found with --network-out"},
        {{out, "--line-up=x"}, 2, "--line-up: found with --network-out"},
        {{out, "--collective=barrier"}, 2, "--collective: found with --network-out"},
        {{out, "--iterations=4"}, 2, "--iterations: found with --network-out"},
        {{out, "--arrival=one-late:1ms"}, 2, "--arrival: found with --network-out"},
        {{gone, "--local=2"}, 1, "--network-out: "},
    };
    for (const auto &row : table) {
        outcome refused = run(row.arguments);
        EXPECT_EQ(refused.status, row.status) << row.says;
        EXPECT_TRUE(contains(refused.err, row.says)) << refused.err;
    }
    EXPECT_TRUE(here.empty());
}

} // namespace
