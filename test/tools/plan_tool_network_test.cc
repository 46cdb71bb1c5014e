// gcoll_plan --network: files of hosts and links, what is said of bad ones, and the order of a ring.
#include "test/tools/plan_tool_run.h"

#include <numeric>

namespace {

using namespace program_test;

const char two_hosts[] = R"({"gcoll_network": 1,
  "hosts": [{"name": "a", "ranks": [0, 1]}, {"name": "b", "ranks": [2, 3]}],
  "default": {"delay_us": 8, "rate_bit_per_s": 8e9},
  "within": {"delay_us": 2, "rate_bit_per_s": 64e9}})";

std::string file_of(const folder &here, const std::string &text) {
    const std::string path = here.path + "/net.json";
    std::ofstream(path) << text;
    return path;
}

// The lines of a comparison but for its heading.
strings rows_of(const outcome &o) {
    strings all = lines(o.out);
    EXPECT_GT(all.size(), 5u) << o.err;
    all.erase(all.begin());
    return all;
}

// What flags can say as well, a file says with the same result.
TEST(PlanNetwork, AFileLikeTheFlagsGivesTheSameTimes) {
    folder here;
    const std::string path = file_of(here, two_hosts);
    for (const char *bytes : {"64", "1Mi"}) {
        const strings common = {"compare", std::string("--bytes=") + bytes, "--host-ports=1"};
        strings by_flags = {"--ranks=4",  "--ranks-per-host=2", "--alpha=8us",
                            "--beta=1ns", "--host-alpha=2us",   "--host-beta=0.125ns"},
                by_file = {"--network=" + path};
        by_flags.insert(by_flags.begin(), common.begin(), common.end());
        by_file.insert(by_file.begin(), common.begin(), common.end());
        const outcome flags = plan(by_flags), file = plan(by_file);
        EXPECT_EQ(file.status, 0) << file.err;
        EXPECT_EQ(rows_of(file), rows_of(flags));
        EXPECT_TRUE(contains(file.out, "4 ranks on " + path + ", by simulation")) << file.out;
    }
}

// A matrix of what the links of a file come to.
TEST(PlanNetwork, AMatrixSaysTheSameAsLinks) {
    folder here;
    const std::string links = here.path + "/links.json", matrix = here.path + "/matrix.json",
                      hosts = here.path + "/hosts.json";
    std::ofstream(links) << R"({"gcoll_network": 1, "about": "three hosts, one far away",
        "hosts": [{"name": "a", "ranks": [0, 3]}, {"name": "b", "ranks": [1]}, {"name": "c", "ranks": [2]}],
        "default": {"delay_us": 4, "rate_bit_per_s": 8e9},
        "links": [{"between": ["c", "a"], "delay_us": 50, "rate_bit_per_s": 1e9},
                  {"between": ["a", "a"], "delay_us": 1, "rate_bit_per_s": 80e9}]})";
    const char *all_hosts =
        R"("hosts": [{"name": "a", "ranks": [0, 3]}, {"name": "b", "ranks": [1]}, {"name": "c", "ranks": [2]}],)";
    std::ofstream(matrix) << R"({"gcoll_network": 1, )" << all_hosts << R"("matrix": {"of": "ranks",
        "delay_us": [[0, 4, 50, 1], [4, 0, 4, 4], [50, 4, 0, 50], [1, 4, 50, 0]],
        "ns_per_byte": [[0, 1, 8, 0.1], [1, 0, 1, 1], [8, 1, 0, 8], [0.1, 1, 8, 0]]}})";
    std::ofstream(hosts) << R"({"gcoll_network": 1, )" << all_hosts << R"("matrix": {"of": "hosts",
        "delay_us": [[1, 4, 50], [4, 4, 4], [50, 4, 4]], "ns_per_byte": [[0.1, 1, 8], [1, 1, 1], [8, 1, 1]]}})";
    const outcome first = plan({"compare", "--bytes=64Ki", "--network=" + links});
    EXPECT_EQ(first.status, 0) << first.err;
    for (const std::string &other : {matrix, hosts})
        EXPECT_EQ(rows_of(plan({"compare", "--bytes=64Ki", "--network=" + other})), rows_of(first)) << other;
    // A slow link makes a plan slow that uses it, and not one that does not: of the first two ranks.
    outcome few = plan({"simulate", "--ranks=2", "--bytes=4", "--algorithm=recursive_doubling",
                        "--network=" + links, "--gamma=0ns", "--format=json"});
    ASSERT_EQ(few.status, 0) << few.err;
    EXPECT_NEAR(number(records(few)[0], "time_us"), 4.004, 1e-6);
    outcome all = plan({"simulate", "--bytes=4", "--algorithm=recursive_doubling", "--network=" + links,
                        "--format=json", "--gamma=0ns"});
    ASSERT_EQ(all.status, 0) << all.err;
    EXPECT_GT(number(records(all)[0], "time_us"), 50);
}

TEST(PlanNetwork, MistakesInFilesAreNamed) {
    folder here;
    const std::string head = R"({"gcoll_network": 1, )",
                      hosts = R"("hosts": [{"name": "a", "ranks": [0, 1]}], )",
                      link = R"("default": {"delay_us": 1, "rate_bit_per_s": 1e9})";
    const struct {
        std::string text;
        const char *said;
    } table[] = {
        {"", "ends too early, after 0 bytes"},
        {"{\"gcoll_network\" 1}", "is no JSON at byte 17"},
        {"[1]", "is no JSON object"},
        {"{}", "'gcoll_network' is missing"},
        {"{\"gcoll_network\": 0}", "'gcoll_network' is 0; allowed is 1"},
        {"{\"gcoll_network\": 2}", "'gcoll_network' is 2; allowed is 1"},
        {head + "\"rates\": 3}",
         "'rates' is unknown; allowed are 'gcoll_network', 'about', 'hosts', 'default'"},
        {head + link + "}", "'hosts' is missing; allowed are hosts, or a matrix of ranks"},
        {head + "\"hosts\": 3}", "'hosts' is no array"},
        {head + "\"hosts\": [], " + link + "}", "'hosts' has 0 entries; allowed are 1 to 1024"},
        {head + "\"hosts\": [3], " + link + "}", "hosts[0]: is no object"},
        {head + R"("hosts": [{"ranks": [0]}], )" + link + "}", "hosts[0]: 'name' is missing"},
        {head + R"("hosts": [{"name": "", "ranks": [0]}], )" + link + "}", "hosts[0]: 'name' has 0 bytes"},
        {head + R"("hosts": [{"name": "a"}], )" + link + "}", "hosts[0]: 'ranks' is missing or empty"},
        {head + R"("hosts": [{"name": "a", "ranks": [0]}, {"name": "a", "ranks": [1]}], )" + link + "}",
         "hosts[1]: 'name' is 'a', as that of hosts[0]"},
        {head + R"("hosts": [{"name": "a", "ranks": [0, 2]}], )" + link + "}",
         "hosts[0]: 'ranks[1]' is 2; allowed are 0 to 1, as the file has 2 ranks"},
        {head + R"("hosts": [{"name": "a", "ranks": [0, "x"]}], )" + link + "}",
         "hosts[0]: 'ranks[1]' is \"x\";"},
        {head + R"("hosts": [{"name": "a", "ranks": [0, -1]}], )" + link + "}",
         "hosts[0]: 'ranks[1]' is -1;"},
        {head + R"("hosts": [{"name": "a", "ranks": [0]}, {"name": "b", "ranks": [0]}], )" + link + "}",
         "hosts[1]: 'ranks[0]' is 0, which is on host 'a' already"},
        {head + hosts + "\"within\": 1}", "'within' is no object"},
        {head + hosts + "\"links\": []}", "'default' is missing; allowed is a link, or a 'matrix' instead"},
        {head + hosts + R"("default": {"delay_us": 1}})", "default: 'rate_bit_per_s' is missing"},
        {head + hosts + R"("default": {"delay_us": 1, "rate_bit_per_s": 0}})",
         "default: 'rate_bit_per_s' is 0; allowed are 1 to 1e+15"},
        {head + hosts + R"("default": {"delay_us": "1", "rate_bit_per_s": 1}})",
         "default: 'delay_us' is no number"},
        {head + hosts + R"("default": {"delay_us": NaN, "rate_bit_per_s": 1}})",
         "default: 'delay_us' is nan;"},
        {head + hosts + R"("default": {"delay_us": 1, "rate_bit_per_s": 1, "overhead_us": 2}})",
         "default: 'overhead_us' is 2; allowed are 0 to 1"},
        {head + hosts + R"("default": {"delay_us": 1, "rate_bit_per_s": 1, "rate": 2}})",
         "default: 'rate' is unknown; allowed are 'delay_us', 'rate_bit_per_s', 'overhead_us'"},
        {head + hosts + link + R"(, "links": [{"delay_us": 1, "rate_bit_per_s": 1}]})",
         "links[0]: 'between' is missing or has 0 entries"},
        {head + hosts + link + R"(, "links": [{"between": ["a", "z"], "delay_us": 1, "rate_bit_per_s": 1}]})",
         "links[0]: 'between[1]' is 'z'; allowed is a name of 'hosts'"},
        {head + hosts + link + R"(, "links": [{"between": ["a", "a"], "delay_us": 1, "rate_bit_per_s": 1},
                                              {"between": ["a", "a"], "delay_us": 1, "rate_bit_per_s": 1}]})",
         "links[1]: is the second link between 'a' and 'a'"},
        {head + link + R"(, "matrix": {"of": "ranks"}})", "'default' is found with 'matrix'"},
        {head + R"("matrix": {"of": "rank"}})", "matrix: 'of' is 'rank'; allowed are hosts, ranks"},
        {head + R"("matrix": {"of": "hosts"}})", "matrix: 'of' is 'hosts', but the file has no 'hosts'"},
        {head + R"("matrix": {"of": "ranks"}})", "matrix: 'delay_us' has 0 rows; allowed are 1 to 1024"},
        {head + R"("matrix": {"of": "ranks", "delay_us": [[0]]}})",
         "matrix: 'ns_per_byte' has 0 rows; allowed are 1, one for each rank"},
        {head + R"("matrix": {"of": "ranks", "delay_us": [[0, 1], [0]], "ns_per_byte": [[0, 1], [1, 0]]}})",
         "matrix: 'delay_us[1]' is no row of 2 numbers"},
        {head + hosts + R"("matrix": {"of": "ranks", "delay_us": [[0]], "ns_per_byte": [[0]]}})",
         "matrix: 'delay_us' has 1 rows; allowed are 2, one for each rank"},
        {head +
             R"("matrix": {"of": "ranks", "delay_us": [[0, null], [1, 0]], "ns_per_byte": [[0, 1], [1, 0]]}})",
         "matrix: 'delay_us[0][1]' is null; allowed are 0 to 1e+09"},
        {head +
             R"("matrix": {"of": "ranks", "delay_us": [[0, 1], [1, 0]], "ns_per_byte": [[0, 1], [-1, 0]]}})",
         "matrix: 'ns_per_byte[1][0]' is -1; allowed are 0 to 8e+09"},
    };
    for (const auto &row : table) {
        const std::string path = file_of(here, row.text);
        outcome o = plan({"compare", "--network=" + path});
        EXPECT_EQ(o.status, 2) << row.text;
        EXPECT_TRUE(contains(o.err, "--network: network file '" + path + "': " + row.said))
            << row.text << "\n"
            << o.err;
    }
    EXPECT_TRUE(
        contains(plan({"compare", "--network=" + here.path}).err, "is no regular file of up to 33554432"));
    EXPECT_TRUE(contains(plan({"compare", "--network=/no/such"}).err, "cannot be read: No such file"));
}

TEST(PlanNetwork, MistakesOnTheCommandLineAreNamed) {
    folder here;
    const std::string network = "--network=" + file_of(here, two_hosts);
    const struct {
        strings arguments;
        const char *said;
    } table[] = {
        {{"compare", network, "--alpha=6us"}, "--alpha: found with --network"},
        {{"compare", network, "--beta=1ns"}, "--beta: found with --network"},
        {{"compare", network, "--overhead=1us"}, "--overhead: found with --network"},
        {{"compare", network, "--ranks-per-host=2"}, "--ranks-per-host: found with --network"},
        {{"compare", network, "--host-beta=2ns"}, "--host-beta: found with --network"},
        {{"compare", network, "--ranks=2,5"}, "--ranks: is 5; allowed with "},
        {{"compare", network, "--by=formula"}, "--network: found with --by formula"},
        {{"explain", network}, "unknown argument '--network'"},
        {{"order"}, "--ranks: is missing"},
        {{"order", "--ranks=4"}, "--network: is missing; allowed is a network file"},
        {{"order", network, "--ranks=1"}, "--ranks: is 1; allowed for order is 2 to 1024"},
        {{"order", network, "--bytes=1,2"}, "order takes one number of --ranks and one of --bytes"},
        {{"order", network, "--tries=0"}, "--tries: is '0'"},
        {{"order", network, "--ranks=3", "--format=tuning"},
         "--ranks: is 3; allowed for a tuning file is 4, all of"},
        {{"simulate", network, "--tour=0,1,2"},
         "--tour: has 3 ranks; allowed with 4 ranks is each of them once"},
        {{"simulate", network, "--tour=0,1,2,2"}, "--tour[3] is 2, allowed is each of 0 to 3 once"},
        {{"verify", "--tour=0,1,2"}, "unknown argument '--tour'"},
    };
    for (const auto &row : table) {
        outcome o = plan(row.arguments);
        EXPECT_EQ(o.status, 2) << row.said;
        EXPECT_TRUE(contains(o.err, row.said)) << "found: " << o.err << "expected: " << row.said;
    }
}

// A ring of fast links is hidden in a slow network. The time of an allreduce along it, one port each: 2(P-1)
// messages over the same links, and P-1 reductions.
TEST(PlanNetwork, OrderFindsTheRingOfFastLinks) {
    folder here;
    const std::vector<uint32_t> hidden = {0, 5, 2, 7, 1, 4, 6, 3};
    const size_t size = hidden.size();
    std::vector<std::vector<double>> us(size, std::vector<double>(size, 100));
    for (size_t i = 0; i < size; i++)
        us[hidden[i]][hidden[(i + 1) % size]] = us[hidden[(i + 1) % size]][hidden[i]] = 10;
    std::ostringstream text;
    for (const char *name : {"delay_us", "ns_per_byte"}) {
        text << (text.str().empty() ? R"({"gcoll_network": 1, "matrix": {"of": "ranks", )" : ", ") << '"'
             << name << "\": [";
        for (size_t a = 0; a < size; a++) {
            text << (a ? ", [" : "[");
            for (size_t b = 0; b < size; b++)
                text << (b ? ", " : "") << (std::string(name) == "delay_us" ? us[a][b] : 0.5);
            text << "]";
        }
        text << "]";
    }
    text << "}}";
    const std::string network = "--network=" + file_of(here, text.str());
    outcome o = plan({"order", network, "--bytes=32Ki", "--gamma=0ns", "--format=json"});
    ASSERT_EQ(o.status, 0) << o.err;
    json found = parse(json_object_to_json_string(field(records(o)[0], "found"))),
         by_rank = parse(json_object_to_json_string(field(records(o)[0], "by_rank")));
    std::vector<uint32_t> order;
    for (size_t i = 0; i < size; i++)
        order.push_back(uint32_t(json_object_get_int(json_object_array_get_idx(field(found, "order"), i))));
    std::vector<uint32_t> other = hidden;
    std::reverse(other.begin() + 1, other.end());
    EXPECT_TRUE(order == hidden || order == other) << json_object_to_json_string(found.get());
    const double message = 10 + 0.5e-3 * 4096;
    EXPECT_NEAR(number(found, "slowest_us"), message, 1e-6);
    EXPECT_NEAR(number(found, "around_us"), 8 * message, 1e-6);
    EXPECT_NEAR(number(found, "time_us"), 14 * message, 1e-3);
    EXPECT_GT(number(by_rank, "time_us"), 14 * 100);
    EXPECT_EQ(plan({"order", network, "--bytes=32Ki", "--gamma=0ns", "--format=json"}).out, o.out);
    // The table has both, and the time is that of `simulate` for the order of ranks.
    outcome table = plan({"order", network, "--bytes=32Ki"});
    outcome ring = plan({"simulate", network, "--bytes=32Ki", "--algorithm=ring", "--format=json"});
    ASSERT_EQ(ring.status, 0) << ring.err;
    char time[400];
    snprintf(time, sizeof time, " %.3f  by rank  0 1 2 3 4 5 6 7\n", number(records(ring)[0], "time_us"));
    EXPECT_TRUE(contains(table.out, time)) << time << table.out;
    EXPECT_TRUE(contains(table.out, "  found    0 ")) << table.out;
    // tour_ring along the order found takes as long as the search says, and a tuning file has the same order.
    std::string list, words;
    for (uint32_t rank : order) {
        list += (list.empty() ? "" : ",") + std::to_string(rank);
        words += " " + std::to_string(rank);
    }
    for (const char *command : {"simulate", "compare"}) {
        ring = plan({command, network, "--bytes=32Ki", "--gamma=0ns", "--algorithm=tour_ring",
                     "--tour=" + list, "--format=json"});
        ASSERT_EQ(ring.status, 0) << ring.err;
        EXPECT_NEAR(number(records(ring)[0], "time_us"), 14 * message, 1e-3) << ring.out;
    }
    EXPECT_TRUE(contains(plan({"order", network, "--format=tuning", "--local=4"}).out, " ranks=8 local=4\n"));
    for (const char *wrong : {"--transport=TCP", "--transport=a b", "--local=9"}) {
        const outcome refused = plan({"order", network, "--format=tuning", wrong});
        EXPECT_EQ(refused.status, 1) << wrong;
        EXPECT_TRUE(contains(refused.err, "--format tuning: line 3: ")) << refused.err;
        EXPECT_EQ(refused.out, "");
    }
    EXPECT_TRUE(contains(plan({"compare", network, "--bytes=32Ki"}).out, " tour_ring: does not apply\n"));
    outcome tuning =
        plan({"order", network, "--bytes=32Ki", "--gamma=0.3ns", "--format=tuning", "--transport=shm"});
    ASSERT_EQ(tuning.status, 0) << tuning.err;
    EXPECT_EQ(tuning.out.rfind("gcoll-tuning 1\n# gcoll_plan order: a ring takes ", 0), 0u) << tuning.out;
    EXPECT_TRUE(contains(tuning.out, "\nfor transport=shm ranks=8 local=1\ncost alpha_ns=")) << tuning.out;
    EXPECT_TRUE(contains(tuning.out, " beta_ps=500 gamma_ps=300\ntour" + words + "\n")) << tuning.out;
}

// docs/network.md: the file that it shows, and the outputs of the commands below it.
TEST(PlanNetwork, ThePageShowsWhatTheToolPrints) {
    folder here;
    const std::string page = file_text(SOURCE "/docs/network.md");
    std::ofstream(here.path + "/lab.json") << block_of(page, "json");
    EXPECT_GE(check_commands(page, here), 2u);
}

} // namespace
