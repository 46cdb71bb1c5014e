// test/core/record_test.cc - the flight recorder: what it keeps, and the files that it writes.
#include "test/core/record_peek.h"
#include "test/kit/calls.h"
#include "test/kit/collective_support.h"
#include "test/kit/variable.h"

#include <sys/stat.h>

#include <csignal>

#include <atomic>
#include <fstream>
#include <json-c/json.h>
#include <map>
#include <memory>
#include <sstream>
#include <thread>

#include "gcoll/trace.h"

namespace {

using namespace collective_support;
using namespace gcoll_test;

using Json = std::unique_ptr<json_object, int (*)(json_object *)>;

// Read by a parser that is not gcoll's.
Json read(const std::string &path) {
    std::ifstream file(path);
    std::stringstream text;
    text << file.rdbuf();
    std::unique_ptr<json_tokener, void (*)(json_tokener *)> parser(json_tokener_new(), json_tokener_free);
    json_tokener_set_flags(parser.get(), JSON_TOKENER_STRICT | JSON_TOKENER_VALIDATE_UTF8);
    const std::string all = text.str();
    return {json_tokener_parse_ex(parser.get(), all.c_str(), static_cast<int>(all.size())), json_object_put};
}

json_object *field(json_object *from, const char *name) {
    json_object *found = nullptr;
    json_object_object_get_ex(from, name, &found);
    return found;
}

int64_t whole(json_object *from, const char *name) {
    EXPECT_TRUE(field(from, name)) << name;
    return json_object_get_int64(field(from, name));
}

std::string text(json_object *from, const char *name) {
    const char *found = json_object_get_string(field(from, name));
    return found ? found : "";
}

std::vector<json_object *> operations(json_object *dump) {
    std::vector<json_object *> all;
    json_object *list = field(dump, "operations");
    for (size_t i = 0; list && i < json_object_array_length(list); i++)
        all.push_back(json_object_array_get_idx(list, i));
    return all;
}

gcoll_status sum(gcoll_context *context, uint64_t count, const char *algorithm = "ring") {
    std::vector<float> data(count, 1);
    const gcoll_allreduce_options options = by(algorithm);
    return gcoll_allreduce(context, data.data(), data.data(), count, GCOLL_FLOAT32, GCOLL_SUM, &options);
}

// Of operation n, so that parts of two records cannot pass for one.
uint64_t count_of(int64_t number) {
    return 3 + static_cast<uint64_t>(number) % 7;
}

void expect_operation(json_object *o, uint32_t size) {
    const int64_t number = whole(o, "number");
    EXPECT_EQ(text(o, "collective"), "allreduce");
    EXPECT_EQ(text(o, "type"), "float32");
    EXPECT_EQ(text(o, "op"), "sum");
    EXPECT_EQ(text(o, "algorithm"), "ring");
    EXPECT_EQ(static_cast<uint64_t>(whole(o, "count")), count_of(number)) << number;
    EXPECT_EQ(whole(o, "element_bytes"), 4);
    EXPECT_EQ(whole(o, "rounds"), 2 * (size - 1));
    EXPECT_GT(whole(o, "predicted_ns"), 0);
    EXPECT_LE(whole(o, "entered_ns"), whole(o, "begun_ns"));
}

class Record : public testing::TestWithParam<const char *> {};
class Records : public testing::Test {};
INSTANTIATE_TEST_SUITE_P(Some, Record, transports(), [](const auto &it) { return std::string(it.param); });

TEST_P(Record, KeepsTheLatestOperationsWhole) {
    Folder folder;
    run_threads(3, GetParam(), [&](uint32_t rank, gcoll_context *context) {
        const std::string path = folder.path() + "/" + std::to_string(rank);
        for (int64_t number = 1; number <= 1500; number++)
            ASSERT_GCOLL_OK(sum(context, count_of(number)));
        ASSERT_GCOLL_OK(gcoll_context_dump(context, path.c_str()));
        const Json dump = read(path);
        ASSERT_TRUE(dump);
        EXPECT_EQ(whole(dump.get(), "gcoll_dump"), 1);
        EXPECT_EQ(whole(dump.get(), "rank"), rank);
        EXPECT_EQ(whole(dump.get(), "size"), 3);
        EXPECT_EQ(whole(dump.get(), "begun"), 1500);
        EXPECT_FALSE(field(dump.get(), "broken"));
        EXPECT_FALSE(field(dump.get(), "waiting"));
        json_object *lanes = field(dump.get(), "lanes");
        ASSERT_EQ(json_object_array_length(lanes), 2u) << "to both others, as they are in one ring";
        for (size_t i = 0; i < 2; i++)
            EXPECT_EQ(text(json_object_array_get_idx(lanes, i), "lane"), GetParam());
        const std::vector<json_object *> all = operations(dump.get());
        ASSERT_EQ(all.size(), 1024u);
        int64_t before = 0, sent = 0;
        for (size_t i = 0; i < all.size(); i++) {
            EXPECT_EQ(whole(all[i], "number"), static_cast<int64_t>(1500 - 1024 + 1 + i));
            expect_operation(all[i], 3);
            EXPECT_GE(whole(all[i], "begun_ns"), before);
            before = whole(all[i], "done_ns");
            EXPECT_GE(before, whole(all[i], "begun_ns"));
            sent = whole(all[i], "sent_bytes");
        }
        EXPECT_LT(before, INT64_C(60000000000)) << "nanoseconds since the context was made";
        // A rank of a ring sends all blocks but one, twice: 4/3 of the vector, to a block.
        EXPECT_NEAR(static_cast<double>(sent), 4.0 * count_of(1500) * 4 / 3, 16);
    });
}

TEST_P(Record, AnyThreadWritesItAtAnyTime) {
    Folder folder;
    std::atomic<int> dumps{0};
    run_threads(2, GetParam(), [&](uint32_t rank, gcoll_context *context) {
        const std::string path = folder.path() + "/" + std::to_string(rank);
        std::atomic<bool> ends{false};
        std::thread other([&] {
            while (!ends || dumps < 4) {
                ASSERT_GCOLL_OK(gcoll_context_dump(context, path.c_str()));
                const Json dump = read(path);
                ASSERT_TRUE(dump) << "a whole file";
                for (json_object *o : operations(dump.get()))
                    expect_operation(o, 2);
                dumps++;
            }
        });
        for (int64_t number = 1; number <= 1000; number++)
            EXPECT_GCOLL_OK(sum(context, count_of(number)));
        ends = true;
        other.join();
    });
}

// A rank waits for one that does not come; another thread of it asks whom it waits for.
TEST_P(Record, SaysWhoIsWaitedFor) {
    Folder folder;
    const std::string path = folder.path() + "/0";
    std::atomic<bool> is_seen{false};
    run_threads(3, GetParam(), [&](uint32_t rank, gcoll_context *context) {
        EXPECT_GCOLL_OK(sum(context, 1000));
        if (rank == 1) // comes when it was seen that the others wait for it
            for (int i = 0; i < 10000 && !is_seen; i++)
                std::this_thread::sleep_for(std::chrono::milliseconds(1));
        std::thread other([&] {
            for (int i = 0; i < 8000 && rank == 2 && !is_seen; i++) {
                std::this_thread::sleep_for(std::chrono::milliseconds(1));
                ASSERT_GCOLL_OK(gcoll_context_dump(context, path.c_str()));
                const Json dump = read(path);
                json_object *wait = field(dump.get(), "waiting");
                if (!wait || whole(wait, "number") != 2)
                    continue;
                // In a ring rank 2 receives from rank 1.
                json_object *peers = field(wait, "peers");
                for (size_t k = 0; k < json_object_array_length(peers); k++)
                    is_seen = is_seen || json_object_get_int64(json_object_array_get_idx(peers, k)) == 1;
                EXPECT_FALSE(field(operations(dump.get()).back(), "done_ns"));
            }
        });
        EXPECT_GCOLL_OK(sum(context, 1000));
        other.join();
    });
    EXPECT_TRUE(is_seen);
}

TEST_P(Record, ABrokenContextWritesIt) {
    Folder folder;
    const Variable where("GCOLL_DUMP_DIR", folder.path().c_str());
    run_threads(2, GetParam(), [&](uint32_t rank, gcoll_context *context) {
        EXPECT_GCOLL_OK(sum(context, 10));
        EXPECT_EQ(sum(context, rank == 0 ? 11 : 12), GCOLL_ERR_MISMATCH);
    });
    ASSERT_EQ(folder.files().size(), 2u);
    for (const std::string &name : folder.files()) {
        SCOPED_TRACE(name);
        const Json dump = read(folder.path() + "/" + name);
        ASSERT_TRUE(dump);
        json_object *broken = field(dump.get(), "broken");
        ASSERT_TRUE(broken);
        EXPECT_NE(text(broken, "text").find("of 12 float32"), std::string::npos) << text(broken, "text");
        const std::vector<json_object *> all = operations(dump.get());
        ASSERT_EQ(all.size(), 2u);
        EXPECT_TRUE(field(all[0], "done_ns"));
        EXPECT_EQ(whole(all[1], "count"), 11 + whole(dump.get(), "rank"));
    }
}

// What a peer says may be anything.
TEST_F(Records, TextsThatAreNoUtf8AreWritten) {
    Folder folder;
    const Variable where("GCOLL_DUMP_DIR", folder.path().c_str());
    run_threads(2, "tcp", [&](uint32_t rank, gcoll_context *context) {
        EXPECT_GCOLL_OK(sum(context, 10));
        if (rank == 0)
            gcoll_context_abort(context, "a \"quoted\" \\ \xff\xc3 \n\x01 end");
        EXPECT_EQ(sum(context, 10), GCOLL_ERR_ABORTED);
    });
    ASSERT_EQ(folder.files().size(), 2u);
    for (const std::string &name : folder.files()) {
        const Json dump = read(folder.path() + "/" + name);
        ASSERT_TRUE(dump) << name;
        EXPECT_NE(text(field(dump.get(), "broken"), "text").find("rank 0 aborted: a \"quoted\" \\ ?? ?? end"),
                  std::string::npos)
            << text(field(dump.get(), "broken"), "text");
    }
}

TEST_F(Records, AFolderThatIsNotThereIsNoFurtherHarm) {
    const Variable where("GCOLL_DUMP_DIR", "/nowhere/at/all");
    run_threads(2, "inproc", [&](uint32_t rank, gcoll_context *context) {
        EXPECT_EQ(sum(context, rank == 0 ? 11 : 12), GCOLL_ERR_MISMATCH);
        EXPECT_NE(std::string(gcoll_last_error()).find("of 12 float32"), std::string::npos)
            << gcoll_last_error();
    });
}

TEST_F(Records, ASignalWritesAll) {
    Folder folder;
    const Variable where("GCOLL_DUMP_DIR", folder.path().c_str()), signal("GCOLL_DUMP_SIGNAL", "USR2");
    run_threads(2, "inproc", [&](uint32_t rank, gcoll_context *context) {
        EXPECT_GCOLL_OK(sum(context, 10));
        if (rank == 0)
            raise(SIGUSR2);
        for (int i = 0; i < 10000 && folder.files().size() < 2; i++) // and none is half written
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
        EXPECT_GCOLL_OK(sum(context, 10));
    });
    ASSERT_EQ(folder.files().size(), 2u);
    for (const std::string &name : folder.files())
        EXPECT_TRUE(read(folder.path() + "/" + name)) << name;
}

// The file with the cause stays, whatever signal comes later.
TEST_F(Records, ASignalDoesNotReplaceTheCause) {
    Folder folder;
    const Variable where("GCOLL_DUMP_DIR", folder.path().c_str()), signal("GCOLL_DUMP_SIGNAL", "USR2");
    std::atomic<int> broken{0};
    run_threads(2, "inproc", [&](uint32_t rank, gcoll_context *context) {
        EXPECT_EQ(sum(context, rank == 0 ? 11 : 12), GCOLL_ERR_MISMATCH);
        broken++;
        while (broken < 2)
            std::this_thread::yield();
        raise(SIGUSR2);
        std::this_thread::sleep_for(std::chrono::milliseconds(50));
    });
    ASSERT_EQ(folder.files().size(), 2u);
    for (const std::string &name : folder.files())
        EXPECT_TRUE(field(read(folder.path() + "/" + name).get(), "broken")) << name;
}

// Nor one that is being handled while the context breaks: files of many steps take long to write.
TEST_F(Records, ASignalMeanwhileDoesNotReplaceTheCause) {
    Folder folder;
    const Variable steps("GCOLL_RECORD", "steps"), where("GCOLL_DUMP_DIR", folder.path().c_str()),
        name("GCOLL_DUMP_SIGNAL", "USR2");
    for (int turn = 0; turn < 5; turn++)
        run_threads(2, "tcp", [&](uint32_t rank, gcoll_context *context) {
            for (int i = 0; i < 500; i++)
                EXPECT_GCOLL_OK(sum(context, 10));
            std::atomic<bool> ends{false};
            std::thread other([&] {
                for (; rank == 0 && !ends; std::this_thread::sleep_for(std::chrono::milliseconds(1)))
                    kill(getpid(), SIGUSR2);
            });
            std::this_thread::sleep_for(std::chrono::milliseconds(10));
            EXPECT_EQ(sum(context, rank == 0 ? 11 : 12), GCOLL_ERR_MISMATCH);
            std::this_thread::sleep_for(std::chrono::milliseconds(10));
            ends = true;
            other.join();
        });
    ASSERT_EQ(folder.files().size(), 10u);
    for (const std::string &file : folder.files())
        EXPECT_TRUE(field(read(folder.path() + "/" + file).get(), "broken")) << file;
}

// A wait for a request, in slices, as bindings do it; and none that is over.
TEST_P(Record, WaitsForRequestsAreSeen) {
    Folder folder;
    std::atomic<bool> is_seen{false};
    run_threads(2, GetParam(), [&](uint32_t rank, gcoll_context *context) {
        const std::string path = folder.path() + "/" + std::to_string(rank);
        std::vector<float> data(1000, 1);
        gcoll_request *request = nullptr;
        for (int i = 0; i < 10000 && rank == 1 && !is_seen; i++)
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
        ASSERT_GCOLL_OK(gcoll_allreduce_start(context, data.data(), data.data(), data.size(), GCOLL_FLOAT32,
                                              GCOLL_SUM, nullptr, &request));
        gcoll_status status = GCOLL_ERR_TIMEOUT;
        while (status == GCOLL_ERR_TIMEOUT) {
            status = gcoll_request_wait_for(&request, 5);
            ASSERT_GCOLL_OK(gcoll_context_dump(context, path.c_str()));
            const Json dump = read(path);
            is_seen = is_seen || field(dump.get(), "waiting");
        }
        ASSERT_GCOLL_OK(status);
        EXPECT_GCOLL_OK(sum(context, 1000));
        ASSERT_GCOLL_OK(gcoll_context_dump(context, path.c_str()));
        EXPECT_FALSE(field(read(path).get(), "waiting"));
    });
    EXPECT_TRUE(is_seen);
}

// Blocking, started and prepared calls alike; and counts that each rank has its own.
TEST_P(Record, EveryFormIsRecorded) {
    Folder folder;
    run_threads(2, GetParam(), [&](uint32_t rank, gcoll_context *context) {
        const std::string path = folder.path() + "/" + std::to_string(rank);
        std::vector<float> in(8, 1), out(8, 0);
        gcoll_request *request = nullptr;
        gcoll_operation *operation = nullptr;
        ASSERT_GCOLL_OK(sum(context, 5));
        ASSERT_GCOLL_OK(gcoll_allreduce_start(context, in.data(), out.data(), 6, GCOLL_FLOAT32, GCOLL_SUM,
                                              nullptr, &request));
        ASSERT_GCOLL_OK(gcoll_request_wait(&request));
        ASSERT_GCOLL_OK(gcoll_allreduce_create(context, in.data(), out.data(), 7, GCOLL_FLOAT32, GCOLL_SUM,
                                               nullptr, &operation));
        ASSERT_GCOLL_OK(gcoll_operation_run(operation));
        ASSERT_GCOLL_OK(gcoll_operation_run(operation));
        gcoll_operation_destroy(operation);
        const uint64_t to[2] = {1, rank == 0 ? 3u : 2u}, from[2] = {1, rank == 0 ? 1u : 2u};
        const uint64_t from_1[2] = {3, 2};
        ASSERT_GCOLL_OK(gcoll_alltoall_v(context, in.data(), out.data(), to, rank == 0 ? from : from_1,
                                         GCOLL_FLOAT32, nullptr));
        ASSERT_GCOLL_OK(gcoll_context_dump(context, path.c_str()));
        const Json dump = read(path);
        const std::vector<json_object *> all = operations(dump.get());
        ASSERT_EQ(all.size(), 5u);
        for (size_t i = 0; i < all.size(); i++) {
            EXPECT_TRUE(field(all[i], "done_ns")) << i;
            EXPECT_EQ(field(all[i], "own_counts") != nullptr, i == 4) << i;
        }
        const int64_t counts[] = {5, 6, 7, 7};
        for (size_t i = 0; i < 4; i++)
            EXPECT_EQ(whole(all[i], "count"), counts[i]);
    });
}

// In a ring each rank sends 2 (P - 1) blocks to the next one, and receives as many from the one before, in
// steps 1 and on.
TEST_P(Record, StepsAreThoseOfThePlan) {
    const Variable steps("GCOLL_RECORD", "steps");
    Folder folder;
    const uint32_t size = 3;
    const size_t operations_run = 40;
    run_threads(size, GetParam(), [&](uint32_t rank, gcoll_context *context) {
        for (size_t i = 0; i < operations_run; i++)
            EXPECT_GCOLL_OK(sum(context, 300));
        EXPECT_GCOLL_OK(gcoll_context_dump(context, (folder.path() + "/" + std::to_string(rank)).c_str()));
    });
    std::map<std::vector<int64_t>, int> messages; // operation, from, to, index: on both sides
    for (uint32_t rank = 0; rank < size; rank++) {
        const Json dump = read(folder.path() + "/" + std::to_string(rank));
        ASSERT_TRUE(dump);
        EXPECT_GT(whole(field(dump.get(), "model"), "alpha_ps"), 0);
        json_object *list = field(dump.get(), "steps");
        ASSERT_TRUE(list);
        size_t sends = 0, receives = 0;
        for (size_t i = 0; i < json_object_array_length(list); i++) {
            json_object *step = json_object_array_get_idx(list, i);
            const auto number = [&](size_t at) {
                return json_object_get_int64(json_object_array_get_idx(step, at));
            };
            const std::string kind = json_object_get_string(json_object_array_get_idx(step, 1));
            EXPECT_LE(number(6), number(7)) << "begun and done";
            EXPECT_LE(number(2), 2 * (size - 1));
            const int64_t peer = number(3), own = rank;
            if (kind == "send") {
                EXPECT_EQ(peer, (rank + 1) % size);
                messages[{number(0), own, peer, number(4)}] |= 1;
                sends++;
            } else if (kind.rfind("receive", 0) == 0) {
                EXPECT_EQ(peer, (rank + size - 1) % size);
                messages[{number(0), peer, own, number(4)}] |= 2;
                receives++;
            } else {
                EXPECT_EQ(peer, -1) << kind;
                continue;
            }
            EXPECT_EQ(number(5), 400) << "bytes of a block";
        }
        EXPECT_EQ(sends, operations_run * 2 * (size - 1));
        EXPECT_EQ(receives, operations_run * 2 * (size - 1));
    }
    EXPECT_EQ(messages.size(), size * operations_run * 2 * (size - 1));
    for (const auto &message : messages)
        EXPECT_EQ(message.second, 3) << "of operation " << message.first[0];
}

// More than the ring holds, while another thread reads it.
TEST_P(Record, StepsAreWholeWhileTheyAreOverwritten) {
    const Variable steps("GCOLL_RECORD", "steps");
    Folder folder;
    std::atomic<int> dumps{0};
    run_threads(2, GetParam(), [&](uint32_t rank, gcoll_context *context) {
        const std::string path = folder.path() + "/" + std::to_string(rank);
        std::atomic<bool> ends{false};
        std::thread other([&] {
            while (!ends || dumps < 4) {
                ASSERT_GCOLL_OK(gcoll_context_dump(context, path.c_str()));
                const Json dump = read(path);
                ASSERT_TRUE(dump) << "a whole file";
                json_object *list = field(dump.get(), "steps");
                int64_t before = 0;
                for (size_t i = 0; list && i < json_object_array_length(list); i++) {
                    json_object *step = json_object_array_get_idx(list, i);
                    const auto number = [&](size_t at) {
                        return json_object_get_int64(json_object_array_get_idx(step, at));
                    };
                    ASSERT_GE(number(0), before) << "operations, one after another";
                    before = number(0);
                    if (number(3) >= 0) // the bytes of a message are half of its operation's
                        ASSERT_TRUE(number(5) == 4 * (number(0) % 5 + 1)) << number(0) << ": " << number(5);
                }
                dumps++;
            }
        });
        for (uint64_t number = 1; number <= 1000; number++)
            EXPECT_GCOLL_OK(sum(context, 2 * (number % 5 + 1)));
        ends = true;
        other.join();
    });
}

TEST_F(Records, RowsAreReadWholeOrNotAtAll) {
    const std::unique_ptr<record_rows, decltype(&record_rows_free)> rows(record_rows_create(),
                                                                         record_rows_free);
    ASSERT_TRUE(rows);
    std::atomic<bool> ends{false};
    std::thread writer([&] {
        while (!ends)
            record_rows_write(rows.get());
    });
    record_found operations = {}, steps = {};
    while (operations.whole + operations.gone < 200000)
        record_rows_read(rows.get(), &operations, &steps);
    ends = true;
    writer.join();
    EXPECT_GT(operations.whole, 0u);
    EXPECT_EQ(operations.torn, 0u);
    EXPECT_GT(steps.whole, 0u);
    EXPECT_EQ(steps.torn, 0u);
}

TEST_F(Records, SettingsThatMakeNoSenseAreRefused) {
    const std::vector<std::vector<const char *>> rows = {
        {"GCOLL_RECORD", "yes", "GCOLL_RECORD: is 'yes'; allowed are on, off and steps"},
        {"GCOLL_DUMP_SIGNAL", "KILL", "GCOLL_DUMP_SIGNAL: is 'KILL'; allowed are USR1, USR2, HUP and"},
        {"GCOLL_DUMP_SIGNAL", "9", "GCOLL_DUMP_SIGNAL: is '9'"}};
    for (const auto &row : rows) {
        const Variable set(row[0], row[1]);
        gcoll_context_options options;
        gcoll_context_options_init(&options);
        gcoll_context *context = nullptr;
        EXPECT_EQ(gcoll_context_create(&options, &context), GCOLL_ERR_INVALID);
        EXPECT_NE(std::string(gcoll_last_error()).find(row[2]), std::string::npos) << gcoll_last_error();
        EXPECT_EQ(context, nullptr);
    }
}

TEST_F(Records, WithoutARecorderNothingIsWritten) {
    Folder folder;
    const Variable off("GCOLL_RECORD", "off"), where("GCOLL_DUMP_DIR", folder.path().c_str());
    run_threads(2, "inproc", [&](uint32_t rank, gcoll_context *context) {
        EXPECT_GCOLL_OK(sum(context, 10));
        EXPECT_EQ(gcoll_context_dump(context, (folder.path() + "/x").c_str()), GCOLL_ERR_STATE);
        EXPECT_EQ(sum(context, rank == 0 ? 11 : 12), GCOLL_ERR_MISMATCH);
    });
    EXPECT_TRUE(folder.files().empty());
}

TEST_F(Records, BadArgumentsAndPathsAreNamed) {
    Folder here;
    run_threads(1, "inproc", [&](uint32_t, gcoll_context *context) {
        EXPECT_EQ(gcoll_context_dump(nullptr, "x"), GCOLL_ERR_INVALID);
        EXPECT_EQ(gcoll_context_dump(context, nullptr), GCOLL_ERR_INVALID);
        EXPECT_EQ(gcoll_context_dump(context, ""), GCOLL_ERR_INVALID);
        EXPECT_EQ(gcoll_context_dump(context, "/nowhere/at/all"), GCOLL_ERR_IO);
        EXPECT_NE(std::string(gcoll_last_error()).find("cannot write '/nowhere/at/all"), std::string::npos);
        // What is no file, as /dev/null, stays what it is.
        const std::string pipe = here.path() + "/pipe";
        struct stat is;
        ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
        EXPECT_EQ(gcoll_context_dump(context, pipe.c_str()), GCOLL_ERR_INVALID);
        EXPECT_NE(std::string(gcoll_last_error()).find("pipe' is a device, pipe or socket"),
                  std::string::npos)
            << gcoll_last_error();
        ASSERT_EQ(stat(pipe.c_str(), &is), 0);
        EXPECT_TRUE(S_ISFIFO(is.st_mode));
    });
}

} // namespace
