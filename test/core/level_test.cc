// test/core/level_test.cc - tests of two levels of cost: within hosts and between them. All ranks agree on
// them, and auto takes a plan by hosts where that is the cheapest.
#include "test/algorithms/tuning_support.h"

#include <cstring>
#include <fstream>
#include <random>
#include <set>

#include "test/core/level_peek.h"

namespace {

using namespace collective_support;
using namespace tuning_support;
using gcoll_test::Folder;
using gcoll_test::run_threads;
using Map = std::vector<uint64_t>; // rank to host

// ---- The map as a text ----------------------------------------------------------------------------------

struct Written {
    bool fits = false;
    std::string text;
    std::vector<uint32_t> node;
};

Written written(const Map &hosts, size_t bytes = 400) {
    Written w;
    std::vector<char> text(bytes + 1, 'x');
    w.node.resize(hosts.size());
    w.fits = level_write(hosts.data(), uint32_t(hosts.size()), w.node.data(), text.data(), bytes) != 0;
    EXPECT_EQ(text[bytes], 'x');
    w.text = text.data();
    return w;
}

Map rows(uint32_t hosts, uint32_t ranks) {
    Map map;
    for (uint32_t i = 0; i < hosts * ranks; i++)
        map.push_back(UINT64_MAX - i / ranks);
    return map;
}

Map dealt(uint32_t hosts, uint32_t ranks) {
    Map map;
    for (uint32_t i = 0; i < hosts * ranks; i++)
        map.push_back(77 * (i % hosts) + 1);
    return map;
}

// A host has the number of its first rank; the text gives that again.
void expect_round_trip(const Map &map) {
    const Written w = written(map, 20 * map.size() + 20);
    ASSERT_TRUE(w.fits) << w.text;
    for (size_t rank = 0; rank < map.size(); rank++) {
        size_t first = 0;
        while (map[first] != map[rank])
            first++;
        EXPECT_EQ(w.node[rank], first) << rank;
    }
    std::vector<uint32_t> read(map.size(), 12345);
    EXPECT_TRUE(level_read(w.text.c_str(), uint32_t(map.size()), read.data())) << w.text;
    EXPECT_EQ(read, w.node) << w.text;
}

TEST(HostMap, IsWrittenAndRead) {
    const struct {
        Map map;
        const char *text;
        uint32_t most;
    } table[] = {{{5}, "0*1", 1},
                 {{5, 5}, "0*2", 1},
                 {{5, 6}, "0-1*1", 1},
                 {rows(4, 8), "0-3*8", 8},
                 {dealt(3, 4), "0-2*1x4", 4},
                 {{1, 1, 1, 2, 2}, "0*3,1*2", 3},
                 {{1, 1, 2, 2, 3}, "0-1*2,2*1", 2},
                 {{9, 4, 4, 9}, "0*1,1*2,0*1", 2},
                 {{1, 1, 2, 2, 1, 1, 2, 2}, "0-1*2x2", 4},
                 {rows(1000, 8), "0-999*8", 8}};
    for (const auto &row : table) {
        const Written w = written(row.map);
        EXPECT_TRUE(w.fits);
        EXPECT_EQ(w.text, row.text);
        EXPECT_EQ(level_most(w.node.data(), uint32_t(row.map.size())), row.most) << w.text;
        expect_round_trip(row.map);
    }
    std::mt19937 random(5);
    for (int i = 0; i < 300; i++) {
        Map map(1 + random() % 40);
        const uint32_t hosts = 1 + random() % 9, run = 1 + random() % 4;
        for (size_t rank = 0; rank < map.size(); rank++)
            map[rank] = rank % run != 0 && rank > 0 ? map[rank - 1] : random() % hosts;
        expect_round_trip(map);
        if (HasFailure())
            return;
    }
}

TEST(HostMap, NeedsRoom) {
    const Map map = {1, 1, 2, 2, 3}; // "0-1*2,2*1": 9 characters
    EXPECT_TRUE(written(map, 11).fits);
    for (size_t bytes = 1; bytes < 10; bytes++)
        EXPECT_FALSE(written(map, bytes).fits) << bytes;
}

TEST(HostMap, OtherTextsAreNone) {
    uint32_t node[4];
    EXPECT_TRUE(level_read("0-1*2", 4, node));
    for (const char *text : {"",
                             "0",
                             "0*",
                             "*4",
                             "0*4 ",
                             " 0*4",
                             "0*5",
                             "0*3",
                             "0*0",
                             "1*4",
                             "0*2,2*2",
                             "0*2,,1*2",
                             "0*2,1*2,",
                             "0*2 1*2",
                             "0-1*1",
                             "0-1*3",
                             "1-0*2",
                             "0-*2",
                             "0*4x",
                             "0*2x0",
                             "0*2x3",
                             "0*2x1x1",
                             "-0*4",
                             "0*-4",
                             "0*4294967300",
                             "0*4294967295x4294967295",
                             "0-4294967295*1",
                             "0*1x4294967295",
                             "a",
                             "0*4\n",
                             "18446744073709551616*4"})
        EXPECT_FALSE(level_read(text, 4, node)) << text;
}

// Whatever is accepted is a map: each rank is on the host of a rank before it, or on one of its own.
TEST(HostMap, ScribblesDoNoHarm) {
    std::mt19937 random(9);
    const std::string letters = "0123456789-*x,, ";
    uint32_t accepted = 0;
    for (int i = 0; i < 100000; i++) {
        std::string text = i % 3 == 0 ? "0-3*2" : i % 3 == 1 ? "0*3,1-2*1,0*1x2,3*1" : "0-1*1x4";
        for (uint32_t changes = random() % 4; changes > 0; changes--) {
            const size_t at = random() % text.size();
            text.replace(at, random() % 2, 1, letters[random() % letters.size()]);
        }
        std::vector<uint32_t> node(8);
        if (level_read(text.c_str(), 8, node.data()) == 0)
            continue;
        accepted++;
        for (uint32_t rank = 0; rank < 8; rank++) {
            ASSERT_LE(node[rank], rank) << text;
            ASSERT_EQ(node[node[rank]], node[rank]) << text;
        }
    }
    EXPECT_GT(accepted, 20000u);
}

// ---- Contexts of several hosts --------------------------------------------------------------------------

// A store that shows ranks on other hosts than they are, and changes what all agree on.
struct Hosts {
    gcoll_store *base = nullptr;
    Map map;
    std::function<std::string(const std::string &)> forge; // "agreed", as this rank reads it
};

bool ends(const std::string &key, const std::string &end) {
    return key.size() > end.size() && key.compare(key.size() - end.size(), end.size(), end) == 0;
}

gcoll_status hosts_get(void *self, const char *key, void *value, size_t capacity, size_t *bytes) {
    const auto *hosts = static_cast<Hosts *>(self);
    std::vector<char> room(GCOLL_STORE_VALUE_MAX);
    gcoll_status status = gcoll_store_get(hosts->base, key, room.data(), room.size(), bytes);
    if (status != GCOLL_OK)
        return status;
    std::string text(room.data(), *bytes);
    const char *number = strstr(key, "/addr.");
    size_t at = text.find(' ');
    if (number != nullptr && !hosts->map.empty() && at != std::string::npos) {
        char id[17];
        snprintf(id, sizeof id, "%016llx",
                 static_cast<unsigned long long>(hosts->map.at(std::stoul(number + 6)) + 1));
        text.replace(at + 1, 16, id);
    }
    if (ends(key, "/agreed") && hosts->forge)
        text = hosts->forge(text);
    if (text.size() > capacity)
        return gcoll_store_error(GCOLL_ERR_INVALID, "too long");
    memcpy(value, text.data(), text.size());
    *bytes = text.size();
    return GCOLL_OK;
}

gcoll_store *store_of(Hosts *hosts) {
    static const gcoll_store_ops ops = {
        sizeof ops,
        "hosts",
        [](void *self, const char *key, const void *value, size_t bytes) {
            return gcoll_store_set(static_cast<Hosts *>(self)->base, key, value, bytes);
        },
        hosts_get,
        [](void *self, const char *key, int64_t timeout_ms) {
            return gcoll_store_wait(static_cast<Hosts *>(self)->base, key, timeout_ms);
        },
        [](void *self, const char *key, int64_t delta, int64_t *value) {
            return gcoll_store_add(static_cast<Hosts *>(self)->base, key, delta, value);
        },
        [](void *self, const char *key) { return gcoll_store_remove(static_cast<Hosts *>(self)->base, key); },
        nullptr,
        nullptr,
        nullptr,
        nullptr,
        nullptr};
    gcoll_store *store = nullptr;
    EXPECT_GCOLL_OK(gcoll_store_create(&ops, hosts, &store));
    return store;
}

// Runs ranks that are on these hosts, as rank 0 sees it; nobody else looks.
void run_on(const Map &map, const char *transport, const char *tuning,
            const std::function<void(uint32_t, gcoll_context *)> &body) {
    Hosts hosts;
    hosts.map = map;
    gcoll_store *store = nullptr;
    Job job = job_of(uint32_t(map.size()), transport, tuning);
    job.adjust = [&](uint32_t rank, gcoll_context_options *options) {
        options->tuning = tuning;
        if (rank != 0)
            return;
        hosts.base = options->store;
        options->store = store = store_of(&hosts);
    };
    run_threads(job, body);
    gcoll_store_destroy(store);
}

std::string explained(gcoll_context *context, uint64_t count, gcoll_same same = GCOLL_SAME_ON_RANKS) {
    std::vector<char> text(1 << 15);
    gcoll_collective_options options;
    gcoll_collective_options_init(&options);
    options.same = same;
    EXPECT_GCOLL_OK(gcoll_context_explain(context, GCOLL_ALLREDUCE, count, GCOLL_FLOAT32, GCOLL_SUM, 0,
                                          &options, text.data(), text.size()));
    return text.data();
}

// "hierarchical:r=2" of the first line.
std::string taken(const std::string &text) {
    const std::string line = text.substr(0, text.find('\n'));
    return line.substr(line.find(": ") + 2);
}

// The candidate "hierarchical" with its options.
std::string taken_by_hosts(const std::string &text) {
    const size_t at = text.find("  hierarchical");
    return at == std::string::npos ? "none" : text.substr(at + 2, text.find(' ', at + 2) - at - 2);
}

const char kLevels[] = " host_alpha_ns=5000 host_beta_ps=300";

std::string tuning_in(const Folder &folder, size_t ranks, const std::string &more) {
    std::string path = folder.path() + "/" + std::to_string(ranks) + std::to_string(more.size());
    std::ofstream(path) << "gcoll-tuning 1\nfor transport=inproc ranks=" << ranks
                        << "\ncost alpha_ns=100000 beta_ps=8000 gamma_ps=100" << more << "\n";
    return path;
}

void expect_sums(uint32_t rank, gcoll_context *context, uint64_t count) {
    const uint32_t size = gcoll_context_size(context);
    std::vector<float> data(count);
    std::vector<double> want = small_sums(size, count);
    for (uint64_t i = 0; i < count; i++)
        data[i] = small(rank, i);
    EXPECT_GCOLL_OK(gcoll_allreduce(context, nullptr, data.data(), count, GCOLL_FLOAT32, GCOLL_SUM, nullptr));
    for (uint64_t i = 0; i < count; i++)
        ASSERT_EQ(data[i], static_cast<float>(want[i])) << i;
}

TEST(Levels, AutoTakesAPlanByHosts) {
    Folder folder;
    const std::vector<Map> maps = {rows(4, 2),         rows(2, 4),      dealt(4, 2), dealt(3, 2),
                                   {1, 1, 1, 2, 2},    {1, 1, 2, 3, 3}, {1, 2, 2},   {4, 4, 4, 4, 4, 1, 1, 1},
                                   {1, 2, 1, 3, 3, 2}, {1, 1, 2}};
    for (const Map &map : maps) {
        std::mutex lock;
        std::set<std::string> seen;
        const std::string path = tuning_in(folder, map.size(), kLevels);
        run_on(map, "inproc", path.c_str(), [&](uint32_t rank, gcoll_context *context) {
            std::string all = lines(context);
            EXPECT_NE(all.find(kLevels), std::string::npos) << all;
            for (uint64_t count = 1; count <= 1u << 20; count *= 16)
                all += explained(context, count);
            EXPECT_NE(all.find("within a host alpha 5.00 us, beta 0.300 ns"), std::string::npos) << all;
            const std::string large = explained(context, 1 << 18);
            // Where 4 hosts are dealt out in turn, a butterfly from the highest bit on does the same.
            EXPECT_EQ(taken(large), map == dealt(4, 2) ? "group_butterfly:r=1" : taken_by_hosts(large))
                << written(map).text << "\n"
                << large;
            EXPECT_NE(large.find("within hosts: turns"), std::string::npos) << large;
            expect_sums(rank, context, 1 << 12);
            expect_sums(rank, context, 1 << 18);
            expect_sums(rank, context, 1);
            std::lock_guard<std::mutex> guard(lock);
            seen.insert(all);
        });
        EXPECT_EQ(seen.size(), 1u) << written(map).text;
    }
}

// Costs of shared memory say nothing of a job on several hosts: its sections are those of tcp.
TEST(Levels, TheTransportIsTheOneBetweenHosts) {
    const struct {
        Map map;
        const char *transport, *named;
    } rows_of[] = {{{1, 1, 1}, "shm,tcp", "shm"}, {{1, 1, 2}, "shm,tcp", "tcp"},
                   {{1, 2, 3}, "shm,tcp", "tcp"}, {{1, 2}, "shm,tcp", "tcp"},
                   {{1, 1}, "shm,tcp", "shm"},    {{1, 1}, "tcp", "tcp"}};
    for (const auto &row : rows_of)
        run_on(row.map, row.transport, "default", [&](uint32_t rank, gcoll_context *context) {
            EXPECT_EQ(lines(context).find(std::string("for transport=") + row.named + " "), 0u)
                << rank << ": " << lines(context);
        });
}

// On one host, with one rank a host, and without costs of a second level, all is as if there were one level.
TEST(Levels, OneLevelStaysOne) {
    Folder folder;
    const std::string two = tuning_in(folder, 6, kLevels), one = tuning_in(folder, 6, "");
    std::mutex lock;
    std::set<std::string> seen;
    const auto body = [&](uint32_t rank, gcoll_context *context) {
        std::string all;
        for (uint64_t count = 1; count <= 1u << 20; count *= 4) {
            std::string text = explained(context, count);
            all += text.substr(0, text.find("chosen by cost"));
        }
        EXPECT_EQ(lines(context).find("host_"), std::string::npos);
        EXPECT_EQ(explained(context, 5).find("within"), std::string::npos);
        expect_sums(rank, context, 1000);
        std::lock_guard<std::mutex> guard(lock);
        seen.insert(all);
    };
    run_on(rows(1, 6), "inproc", two.c_str(), body);
    run_on(rows(6, 1), "inproc", two.c_str(), body);
    run_on(rows(3, 2), "inproc", one.c_str(), body);
    EXPECT_EQ(seen.size(), 1u);
}

// Results that are the same in every run do not depend on where ranks happen to be.
TEST(Levels, DoNotDecideWhatIsTheSameInRuns) {
    Folder folder;
    const std::string path = tuning_in(folder, 8, kLevels);
    std::mutex lock;
    std::set<std::string> seen;
    for (const Map &map : {rows(4, 2), rows(2, 4), rows(1, 8)})
        run_on(map, "inproc", path.c_str(), [&](uint32_t, gcoll_context *context) {
            const std::string text = explained(context, 1 << 18, GCOLL_SAME_IN_RUNS);
            std::lock_guard<std::mutex> guard(lock);
            seen.insert(text);
        });
    EXPECT_EQ(seen.size(), 1u) << *seen.begin();
}

// With partners of each kind; or of one: on another host, or on this one.
TEST(Levels, AreMeasured) {
    const struct {
        Map map;
        const char *transport;
    } table[] = {{rows(2, 2), "tcp"},
                 {rows(2, 2), "inproc"},
                 {dealt(3, 2), "inproc"},
                 {{1, 1, 1, 1, 1, 2}, "inproc"},
                 {{1, 2, 2}, "tcp"}};
    for (const auto &row : table) {
        std::mutex lock;
        std::set<std::string> seen;
        run_on(row.map, row.transport, "fit", [&](uint32_t rank, gcoll_context *context) {
            std::string text = lines(context);
            double alpha = 0, beta = 0;
            const size_t at = text.find("host_alpha_ns=");
            ASSERT_NE(at, std::string::npos) << text;
            ASSERT_EQ(sscanf(text.c_str() + at, "host_alpha_ns=%lf host_beta_ps=%lf", &alpha, &beta), 2);
            EXPECT_GT(alpha, 10);
            EXPECT_LT(alpha, 1e9);
            EXPECT_GE(beta, 1);
            for (uint64_t count = 1; count < 100000; count *= 8)
                text += explained(context, count);
            expect_sums(rank, context, 100000);
            std::lock_guard<std::mutex> guard(lock);
            seen.insert(text);
        });
        EXPECT_EQ(seen.size(), 1u);
    }
}

// Groups have levels of their own. Here all ranks are on this host in truth, and groups see that.
TEST(Levels, OfGroupsAreTheirOwn) {
    Folder folder;
    const std::string path = tuning_in(folder, 8, kLevels);
    run_on(rows(4, 2), "inproc", path.c_str(), [&](uint32_t rank, gcoll_context *context) {
        gcoll_context *part = nullptr, *copy = nullptr;
        ASSERT_GCOLL_OK(gcoll_context_split(context, int32_t(rank % 2), 0, &part));
        EXPECT_EQ(lines(part).find("host_"), std::string::npos) << lines(part);
        expect_sums(gcoll_context_rank(part), part, 1 << 14);
        ASSERT_GCOLL_OK(gcoll_context_duplicate(context, &copy));
        EXPECT_EQ(lines(copy), lines(context));
        expect_sums(rank, copy, 1 << 14);
        gcoll_context_destroy(part);
        gcoll_context_destroy(copy);
    });
}

// A map that takes too much room is left out: one level, on all ranks.
TEST(Levels, WithoutRoomForTheMapThereIsOne) {
    Folder folder;
    Map map;
    for (uint32_t rank = 0; rank < 300; rank++)
        map.push_back(rank * rank % 97 % 13);
    EXPECT_FALSE(written(map).fits) << written(map).text;
    map.resize(24); // what fits, for contrast
    EXPECT_TRUE(written(map).fits);
}

// What rank 0 wrote is not trusted.
TEST(Levels, NonsenseIsTold) {
    Folder folder;
    const std::string path = tuning_in(folder, 4, kLevels), bits = " 3ee4f8b588e368f1 3df49da7e361ce4c";
    const struct {
        std::string more; // in place of " within ..."
        const char *says;
    } table[] = {
        {" within", "makes no sense"},
        {" within 0-1*2", "makes no sense"},
        {" without" + bits + " 0-1*2", "makes no sense"},
        {" within 3ee4f8b588e368f1 0-1*2", "makes no sense"},
        {" within bee4f8b588e368f1 3df49da7e361ce4c 0-1*2", "makes no sense"}, // negative
        {" within 7ff0000000000000 3df49da7e361ce4c 0-1*2", "makes no sense"}, // infinite
        {" within" + bits, "makes no sense"},
        {" within" + bits + " ", "no map of 4 ranks"},
        {" within" + bits + " 0-1*3", "no map of 4 ranks"},
        {" within" + bits + " 0*4", "no map of 4 ranks"},   // one host
        {" within" + bits + " 0-3*1", "no map of 4 ranks"}, // no host of several ranks
        {" within" + bits + " 0-1*2,2*1", "no map of 4 ranks"},
        {" within" + bits + " \x1b[2J", "no map of 4 ranks"},
        {" within" + bits + " " + std::string(500, '1'), "makes no sense"},
        {" within" + bits + " 0-1*2", "ok"},
        {"", "ok"},
    };
    for (const auto &row : table) {
        Hosts seen, forged;
        gcoll_store *stores[2] = {};
        std::mutex lock;
        forged.forge = [&row](const std::string &text) {
            return text[0] == '!' ? text : text.substr(0, text.find(" within")) + row.more;
        };
        seen.map = rows(2, 2);
        auto outcomes = create_all(4, "inproc", [&](uint32_t rank, gcoll_context_options *options) {
            std::lock_guard<std::mutex> guard(lock);
            options->tuning = path.c_str();
            Hosts *own = rank == 0 ? &seen : rank == 3 ? &forged : nullptr;
            if (own == nullptr)
                return;
            own->base = options->store;
            options->store = stores[rank == 3] = store_of(own);
        });
        EXPECT_NE(outcomes[3].find(row.says), std::string::npos) << row.more << ": " << outcomes[3];
        for (gcoll_store *store : stores)
            gcoll_store_destroy(store);
    }
}

} // namespace
