// test/core/watch_test.cc - GCOLL_WATCH: the socket at which a process says what its contexts do.
#include "test/kit/calls.h"
#include "test/kit/collective_support.h"
#include "test/kit/users.h"
#include "test/kit/variable.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>

#include <json-c/json.h>
#include <memory>
#include <thread>

namespace {

using namespace collective_support;
using namespace gcoll_test;

using Json = std::unique_ptr<json_object, int (*)(json_object *)>;

gcoll_status sum(gcoll_context *context, uint64_t count) {
    std::vector<float> data(count, 1);
    const gcoll_allreduce_options options = by("ring");
    return gcoll_allreduce(context, data.data(), data.data(), count, GCOLL_FLOAT32, GCOLL_SUM, &options);
}

// Connects to the socket, and reads to its end. False: it cannot connect.
bool ask(const std::string &path, std::string *answer) {
    struct sockaddr_un address = {};
    address.sun_family = AF_UNIX;
    snprintf(address.sun_path, sizeof address.sun_path, "%s", path.c_str());
    const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const bool connected = connect(fd, reinterpret_cast<struct sockaddr *>(&address), sizeof address) == 0;
    char some[4096];
    for (ssize_t got; connected && (got = read(fd, some, sizeof some)) > 0;)
        answer->append(some, static_cast<size_t>(got));
    close(fd);
    return connected;
}

json_object *field(json_object *from, const char *name) {
    json_object *found = nullptr;
    json_object_object_get_ex(from, name, &found);
    EXPECT_TRUE(found) << name;
    return found;
}

// The process offers its socket once, in the folder that is wanted first, so the tests share it.
class Watch : public testing::Test {
  protected:
    static void SetUpTestSuite() { folder_ = new Folder; }
    static void TearDownTestSuite() { delete folder_; }
    void SetUp() override { variable_.reset(new Variable("GCOLL_WATCH", folder_->path().c_str())); }
    static std::string path() {
        const std::vector<std::string> files = folder_->files();
        EXPECT_EQ(files.size(), 1u);
        return folder_->path() + "/" + (files.empty() ? "" : files[0]);
    }
    static Json answer() {
        std::string text;
        EXPECT_TRUE(ask(path(), &text));
        std::unique_ptr<json_tokener, void (*)(json_tokener *)> parser(json_tokener_new(), json_tokener_free);
        json_tokener_set_flags(parser.get(), JSON_TOKENER_STRICT | JSON_TOKENER_VALIDATE_UTF8);
        return {json_tokener_parse_ex(parser.get(), text.c_str(), static_cast<int>(text.size())),
                json_object_put};
    }
    static Folder *folder_;
    std::unique_ptr<Variable> variable_;
};
Folder *Watch::folder_ = nullptr;

TEST_F(Watch, EveryContextOfTheProcessIsThere) {
    run_threads(3, "tcp", [&](uint32_t rank, gcoll_context *context) {
        for (int i = 0; i < 7; i++)
            EXPECT_GCOLL_OK(sum(context, 30));
        EXPECT_GCOLL_OK(gcoll_barrier(context, nullptr)); // all have done theirs
        if (rank == 0) {
            const Json all = answer();
            ASSERT_TRUE(all);
            EXPECT_EQ(json_object_get_int64(field(all.get(), "gcoll_watch")), 1);
            EXPECT_EQ(json_object_get_int64(field(all.get(), "process")), getpid());
            json_object *contexts = field(all.get(), "contexts");
            ASSERT_EQ(json_object_array_length(contexts), 3u);
            uint32_t seen = 0;
            for (size_t i = 0; i < 3; i++) {
                json_object *one = json_object_array_get_idx(contexts, i);
                seen |= 1u << json_object_get_int(field(one, "rank"));
                EXPECT_EQ(json_object_get_int(field(one, "size")), 3);
                EXPECT_GE(json_object_get_int64(field(one, "done")), 7);
                EXPECT_GE(json_object_get_int64(field(one, "sent_bytes")), 7 * 4 * 10 * 4);
                EXPECT_GT(json_object_get_int64(field(one, "busy_ns")), 0);
                field(field(one, "operation"), "collective");
            }
            EXPECT_EQ(seen, 7u);
        }
        EXPECT_GCOLL_OK(gcoll_barrier(context, nullptr)); // nobody leaves before
    });
    const Json none = answer(); // the socket stays, for contexts to come
    ASSERT_TRUE(none);
    EXPECT_EQ(json_object_array_length(field(none.get(), "contexts")), 0u);
}

// While contexts work, come and go.
TEST_F(Watch, AnswersAtAnyTime) {
    std::atomic<bool> ends{false};
    run_threads(1, "inproc", [](uint32_t, gcoll_context *) {}); // so that there is a socket
    std::thread other([&] {
        int answers = 0;
        for (; !ends || answers < 4; answers++)
            EXPECT_TRUE(answer()) << "whole JSON";
    });
    for (int i = 0; i < 20; i++)
        run_threads(2, "tcp", [&](uint32_t, gcoll_context *context) {
            for (uint64_t count = 1; count < 50; count++)
                EXPECT_GCOLL_OK(sum(context, count));
        });
    ends = true;
    other.join();
}

// Somebody who connects and reads nothing keeps nobody from being answered for long.
TEST_F(Watch, WhoReadsNothingIsLeft) {
    run_threads(
        2, "tcp",
        [&](uint32_t rank, gcoll_context *context) {
            EXPECT_GCOLL_OK(sum(context, 8));
            if (rank == 0) {
                std::vector<int> idle;
                struct sockaddr_un address = {};
                address.sun_family = AF_UNIX;
                snprintf(address.sun_path, sizeof address.sun_path, "%s", path().c_str());
                for (int i = 0; i < 8; i++) {
                    idle.push_back(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
                    EXPECT_EQ(
                        connect(idle.back(), reinterpret_cast<struct sockaddr *>(&address), sizeof address),
                        0);
                }
                EXPECT_TRUE(answer());
                for (int fd : idle)
                    close(fd);
            }
            EXPECT_GCOLL_OK(gcoll_barrier(context, nullptr));
        });
}

TEST_F(Watch, AnotherUserGetsNothing) {
    if (!gcoll_test::may_be(65534))
        GTEST_SKIP() << "only root can be several users, in a namespace that has them";
    run_threads(1, "inproc", [&](uint32_t, gcoll_context *) {
        const std::string socket = path();
        ASSERT_EQ(chmod(folder_->path().c_str(), 0755), 0); // as bad as it can be
        ASSERT_EQ(chmod(socket.c_str(), 0777), 0);
        const pid_t child = fork();
        if (child == 0) {
            std::string text;
            if (setgid(65534) != 0 || setuid(65534) != 0)
                _exit(3);
            _exit(ask(socket, &text) && !text.empty() ? 1 : 0);
        }
        int how = 0;
        ASSERT_EQ(waitpid(child, &how, 0), child);
        ASSERT_TRUE(WIFEXITED(how));
        EXPECT_EQ(WEXITSTATUS(how), 0) << "1: it got an answer; 3: it could not become another user";
        chmod(socket.c_str(), 0600);
    });
}

TEST_F(Watch, AChildLeavesTheSocketAlone) {
    run_threads(
        1, "inproc",
        [&](uint32_t, gcoll_context *) {
            const std::string socket = path();
            const pid_t child = fork();
            if (child == 0)
                exit(0); // with all that runs at the end of a process
            int how = 0;
            ASSERT_EQ(waitpid(child, &how, 0), child);
            EXPECT_EQ(access(socket.c_str(), F_OK), 0);
            EXPECT_TRUE(answer());
        });
}

TEST_F(Watch, AVariableThatMakesNoSenseIsRefused) {
    const Variable wrong("GCOLL_WATCH", "yes");
    gcoll_context_options options;
    gcoll_context *context = nullptr;
    gcoll_context_options_init(&options);
    options.size = 1;
    EXPECT_EQ(gcoll_context_create(&options, &context), GCOLL_ERR_INVALID);
    EXPECT_NE(std::string(gcoll_last_error()).find("GCOLL_WATCH: is 'yes'"), std::string::npos)
        << gcoll_last_error();
}

// In a process of its own, which has no socket yet.
TEST_F(Watch, WithoutAFolderTheJobRunsAllTheSame) {
    const Variable nowhere("GCOLL_WATCH", "/proc/nowhere");
    const pid_t child = fork();
    if (child == 0) {
        static std::string said;
        gcoll_context_options options;
        gcoll_context *context = nullptr;
        gcoll_context_options_init(&options);
        options.size = 1;
        options.log = [](void *, gcoll_log_level level, const char *line) {
            said += level == GCOLL_LOG_WARNING ? line : "";
        };
        float value = 1;
        const bool good = gcoll_context_create(&options, &context) == GCOLL_OK && sum(context, 1) == GCOLL_OK;
        (void)value;
        _exit(!good ? 1 : said.find("/proc/nowhere") == std::string::npos ? 2 : 0);
    }
    int how = 0;
    ASSERT_EQ(waitpid(child, &how, 0), child);
    ASSERT_TRUE(WIFEXITED(how));
    EXPECT_EQ(WEXITSTATUS(how), 0) << "1: the context does not work; 2: no warning names the folder";
}

} // namespace
