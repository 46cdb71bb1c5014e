// test/tools/top_test.cc - gcoll_top on jobs of gcoll_bench, and on sockets of strangers.
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <atomic>
#include <chrono>
#include <thread>

#include <gtest/gtest.h>

#include "gcoll/version.h"
#include "test/kit/program.h"

namespace {

using namespace program_test;

// A job of gcoll_bench, whose ranks offer their sockets in a folder.
class Job {
  public:
    Job(const std::string &sockets, uint32_t ranks) : sockets_(sockets), ranks_(ranks) {
        const std::string size = std::to_string(ranks);
        pid_ = fork();
        if (pid_ == 0) {
            setenv("GCOLL_WATCH", sockets.c_str(), 1);
            if (!std::freopen("/dev/null", "w", stdout) || !std::freopen("/dev/null", "w", stderr))
                _exit(126);
            alarm(limit_s);
            execl(GCOLL_BENCH, GCOLL_BENCH, "--local", size.c_str(), "--transport", "tcp", "--bytes", "4Ki",
                  "--iterations", "1000000", "--warmup", "0", "--back-to-back", "--tuning", "default",
                  nullptr);
            _exit(127);
        }
    }
    ~Job() {
        for (long process : processes())
            kill(static_cast<pid_t>(process), SIGKILL);
        kill(pid_, SIGKILL);
        waitpid(pid_, nullptr, 0);
    }
    Job(const Job &) = delete;
    Job &operator=(const Job &) = delete;

    // Their numbers stand in the names of their sockets.
    std::vector<long> processes() const {
        std::vector<long> found;
        for (const auto &entry : std::filesystem::directory_iterator(sockets_))
            found.push_back(std::strtol(entry.path().filename().c_str(), nullptr, 10));
        return found;
    }
    bool has_begun() const {
        for (int i = 0; i < 2000 && processes().size() < ranks_; i++)
            std::this_thread::sleep_for(std::chrono::milliseconds(10));
        return processes().size() == ranks_;
    }

  private:
    std::string sockets_;
    uint32_t ranks_;
    pid_t pid_;
};

outcome top(const std::string &sockets, strings more = {}) {
    strings arguments = {"--dir", sockets, "--once", "--interval", "300ms"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return run(GCOLL_TOP, arguments);
}

json_object *get(json_object *from, const char *name) {
    json_object *found = nullptr;
    json_object_object_get_ex(from, name, &found);
    return found;
}

// What gcoll_top says once all ranks of a job have come to their operations.
json when_it_works(const std::string &sockets, size_t ranks) {
    json all;
    size_t ready = 0;
    for (int i = 0; i < 100 && ready != ranks; i++) {
        all = parse(top(sockets, {"--format", "json"}).out);
        json_object *contexts = field(all, "contexts");
        ready = 0;
        for (size_t k = 0; k < json_object_array_length(contexts); k++) {
            json_object *rate = get(json_object_array_get_idx(contexts, k), "operations_per_s");
            ready += rate && json_object_get_double(rate) > 10;
        }
    }
    EXPECT_EQ(ready, ranks);
    return all;
}

TEST(Top, ShowsTheRanksOfAJobAndTheirRates) {
    const folder sockets;
    const Job job(sockets.path, 3);
    ASSERT_TRUE(job.has_begun());
    const json all = when_it_works(sockets.path, 3);
    json_object *contexts = field(all, "contexts");
    ASSERT_EQ(json_object_array_length(contexts), 3u);
    for (size_t rank = 0; rank < 3; rank++) {
        json_object *one = json_object_array_get_idx(contexts, rank);
        EXPECT_EQ(json_object_get_int(get(one, "rank")), static_cast<int>(rank));
        EXPECT_STREQ(json_object_get_string(get(one, "state")), "answers");
        EXPECT_GT(json_object_get_double(get(one, "operations_per_s")), 10);
        EXPECT_GT(json_object_get_double(get(one, "sent_bytes_per_s")), 1000);
        EXPECT_GT(json_object_get_double(get(one, "busy")), 0.05);
        EXPECT_LE(json_object_get_double(get(one, "busy")), 1);
        EXPECT_FALSE(json_object_get_boolean(get(one, "broken")));
    }
    const outcome table = top(sockets.path);
    EXPECT_EQ(table.status, 0) << table.err;
    EXPECT_TRUE(contains(table.out, "3 of 3 ranks")) << table.out;
    EXPECT_TRUE(contains(table.out, "allreduce of 1024 float32")) << table.out;
}

TEST(Top, SaysWithinTwoSecondsThatARankIsStopped) {
    const folder sockets;
    const Job job(sockets.path, 4);
    ASSERT_TRUE(job.has_begun());
    when_it_works(sockets.path, 4);
    const long stopped = job.processes()[1];
    ASSERT_EQ(kill(static_cast<pid_t>(stopped), SIGSTOP), 0);
    const auto begun = std::chrono::steady_clock::now();
    const std::string out = run(GCOLL_TOP, {"--dir", sockets.path, "--once", "--interval", "500ms"}).out;
    const auto took = std::chrono::steady_clock::now() - begun;
    EXPECT_TRUE(contains(out, "process " + std::to_string(stopped) + ", rank ")) << out;
    EXPECT_TRUE(contains(out, " of 4 in its first context: is stopped for at least ")) << out;
    EXPECT_TRUE(contains(out, "3 of 4 ranks")) << out;
    EXPECT_LT(took, std::chrono::seconds(2));
    EXPECT_TRUE(contains(out, " for rank ") && contains(out, "not seen here")) << out;
    kill(static_cast<pid_t>(stopped), SIGCONT);
}

// A terminal of tmux: what a user sees, with what was known of the rank before it was stopped.
TEST(Top, DrawsOnATerminal) {
    if (std::system("tmux -V >/dev/null 2>&1") != 0)
        GTEST_SKIP() << "needs tmux";
    const outcome drawn = run(GCOLL_TOP, {"--help"});
    ASSERT_EQ(drawn.status, 0);
    const folder sockets, home;
    const Job job(sockets.path, 4);
    ASSERT_TRUE(job.has_begun());
    const std::string tmux = "TMUX_TMPDIR=" + home.path + " tmux -f /dev/null ";
    const std::string start = tmux + "new-session -d -s top -x 160 -y 30 '" + GCOLL_TOP + " --dir " +
                              sockets.path + " --interval 200ms 2>" + home.path + "/err; sleep 60'";
    ASSERT_EQ(std::system(start.c_str()), 0);
    const std::string screen = home.path + "/screen";
    const auto shows = [&](const std::string &wanted) {
        std::string text;
        for (int i = 0; i < 400; i++) {
            if (std::system((tmux + "capture-pane -p -t top >" + screen).c_str()) != 0)
                return testing::AssertionFailure() << "tmux shows nothing";
            text = file_text(screen);
            if (contains(text, wanted))
                return testing::AssertionSuccess();
            std::this_thread::sleep_for(std::chrono::milliseconds(25));
        }
        return testing::AssertionFailure() << "no '" << wanted << "' in:\n"
                                           << text << file_text(home.path + "/err");
    };
    if (contains(file_text(home.path + "/err"), "without ncurses"))
        GTEST_SKIP() << "gcoll_top was built without ncurses";
    EXPECT_TRUE(shows("4 of 4 ranks"));
    EXPECT_TRUE(shows("q quits"));
    EXPECT_TRUE(shows("allreduce of 1024 float32"));
    const long stopped = job.processes()[0];
    ASSERT_EQ(kill(static_cast<pid_t>(stopped), SIGSTOP), 0);
    const auto begun = std::chrono::steady_clock::now();
    EXPECT_TRUE(shows("stopped for at least "));
    EXPECT_LT(std::chrono::steady_clock::now() - begun, std::chrono::seconds(2));
    EXPECT_TRUE(shows("4 of 4 ranks")) << "it is still known which rank that is";
    kill(static_cast<pid_t>(stopped), SIGCONT);
    ASSERT_EQ(std::system((tmux + "send-keys -t top q").c_str()), 0);
    for (int i = 0; i < 400 && contains(file_text(screen), "q quits"); i++) {
        ASSERT_EQ(std::system((tmux + "capture-pane -p -t top >" + screen).c_str()), 0);
        std::this_thread::sleep_for(std::chrono::milliseconds(25));
    }
    EXPECT_FALSE(contains(file_text(screen), "q quits")) << "q ends it";
    std::system((tmux + "kill-server").c_str());
}

// A socket that says what it wants to, or nothing.
class Stranger {
  public:
    Stranger(const std::string &path, std::string text, bool ends = true)
        : text_(std::move(text)), ends_(ends) {
        struct sockaddr_un address = {};
        address.sun_family = AF_UNIX;
        snprintf(address.sun_path, sizeof address.sun_path, "%s", path.c_str());
        fd_ = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
        EXPECT_EQ(bind(fd_, reinterpret_cast<struct sockaddr *>(&address), sizeof address), 0);
        EXPECT_EQ(listen(fd_, 8), 0);
        thread_ = std::thread([this] {
            for (int fd; (fd = accept(fd_, nullptr, nullptr)) >= 0;) {
                (void)!send(fd, text_.data(), text_.size(), MSG_NOSIGNAL);
                if (ends_)
                    close(fd);
                else
                    kept_.push_back(fd);
            }
        });
    }
    ~Stranger() {
        shutdown(fd_, SHUT_RDWR);
        thread_.join();
        close(fd_);
        for (int fd : kept_)
            close(fd);
    }
    Stranger(const Stranger &) = delete;
    Stranger &operator=(const Stranger &) = delete;

  private:
    std::string text_;
    bool ends_;
    int fd_;
    std::vector<int> kept_;
    std::thread thread_;
};

const char good[] =
    R"({"gcoll_watch": 1, "process": 7, "contexts": [{"job": "j", "group": "aa", "rank": 1, "size": 2,
    "host": "h", "transport": "tcp", "now_ns": 5000, "begun": 3, "done": 2, "failed": 0, "busy_ns": 10, "sent_bytes": 4,
    "received_bytes": 4, "retransmitted": 0, "asleep_ns": 1}]})";

TEST(Top, StrangersDoNoHarm) {
    const folder sockets;
    std::vector<std::unique_ptr<Stranger>> strangers;
    const auto add = [&](const std::string &name, const std::string &text, bool ends = true) {
        strangers.push_back(
            std::make_unique<Stranger>(sockets.path + "/" + name + "-0123abcd-0123-0of2.sock", text, ends));
    };
    const std::string whole = good;
    const auto with = [&](const std::string &from, const std::string &to) {
        std::string text = whole;
        text.replace(text.find(from), from.size(), to);
        return text;
    };
    add("1", whole);
    add("2", "");
    add("3", "GET / HTTP/1.1\r\n\r\n");
    add("4", whole.substr(0, whole.size() / 2));
    add("5", "[1, 2]");
    add("6", "null");
    add("7", with("\"gcoll_watch\": 1", "\"gcoll_watch\": 2"));
    add("8", with("\"rank\": 1", "\"rank\": 2"));
    add("9", with("\"size\": 2", "\"size\": 4000000000"));
    add("10", with("\"now_ns\": 5000", "\"now_ns\": 9223372036854775807"));
    add("11", with("\"begun\": 3", "\"begun\": \"three\""));
    add("12", with("\"job\": \"j\"", R"("job": "\u001b[2J\u0007")"));
    add("13", std::string(100000, '['));
    add("14", "silence", false);
    const outcome o = top(sockets.path);
    EXPECT_EQ(o.status, 0) << o.err;
    EXPECT_TRUE(contains(o.out, "Job j, group aa: 1 of 2 ranks on h, tcp")) << o.out;
    EXPECT_TRUE(contains(o.out, ": does not answer for at least ")) << o.out;
    EXPECT_FALSE(contains(o.out, "\033")) << "no sequence for a terminal";
    for (const char *said :
         {"/3-0123abcd-0123-0of2.sock: is no JSON", "/4-0123abcd-0123-0of2.sock: ends too early",
          "/7-0123abcd-0123-0of2.sock: is of version 2"})
        EXPECT_TRUE(contains(o.err, said)) << said << "\n" << o.err;
}

// A socket at which nobody listens, since so many seconds.
void leave_socket(const std::string &path, time_t ago) {
    struct sockaddr_un address = {};
    address.sun_family = AF_UNIX;
    snprintf(address.sun_path, sizeof address.sun_path, "%s", path.c_str());
    const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ASSERT_EQ(bind(fd, reinterpret_cast<struct sockaddr *>(&address), sizeof address), 0);
    close(fd);
    const struct timespec when = {time(nullptr) - ago, 0}, times[] = {when, when};
    ASSERT_EQ(utimensat(AT_FDCWD, path.c_str(), times, AT_SYMLINK_NOFOLLOW), 0);
}

// As the library names it: by FNV-1a of the host's name, of its 64 bits the lower 32.
std::string host_hash() {
    char host[256] = "", text[16];
    gethostname(host, sizeof host - 1);
    uint64_t hash = 0xcbf29ce484222325u;
    for (const char *c = host; *c; c++)
        hash = (hash ^ static_cast<unsigned char>(*c)) * 0x100000001b3u;
    snprintf(text, sizeof text, "%08x", static_cast<unsigned>(hash));
    return text;
}

// And nothing else does: not one of another host, which that may share the folder with, nor one that is just
// being made.
TEST(Top, TheSocketOfOneThatWasKilledGoes) {
    const folder sockets;
    const std::string host = host_hash(), killed = sockets.path + "/77-" + host + "-0123-1of2.sock";
    const std::string young = sockets.path + "/78-" + host + "-0123-1of2.sock",
                      file = sockets.path + "/79-" + host + "-0123-1of2.sock",
                      elsewhere = sockets.path + "/80-0123abcd-0123-1of2.sock",
                      foreign = sockets.path + "/81.sock";
    leave_socket(killed, 60);
    leave_socket(young, 0);
    leave_socket(elsewhere, 60);
    leave_socket(foreign, 60);
    std::ofstream(file) << "data";
    const outcome o = top(sockets.path);
    EXPECT_EQ(o.status, 0);
    EXPECT_TRUE(contains(o.out, "No process is seen")) << o.out;
    EXPECT_FALSE(std::filesystem::exists(killed));
    for (const std::string &stays : {young, elsewhere, foreign})
        EXPECT_TRUE(std::filesystem::exists(stays)) << stays;
    EXPECT_EQ(file_text(file), "data");
}

// Each takes a descriptor; so they are asked one portion after another.
TEST(Top, MoreProcessesThanDescriptors) {
    const folder sockets;
    std::vector<std::unique_ptr<Stranger>> strangers;
    for (int i = 1; i <= 40; i++)
        strangers.push_back(std::make_unique<Stranger>(
            sockets.path + "/" + std::to_string(i) + "-0123abcd-0123-0of2.sock", good));
    const outcome o = run("/bin/sh", {"-c", "ulimit -n 24; exec " + std::string(GCOLL_TOP) +
                                                " --once --interval 100ms --dir " + sockets.path});
    EXPECT_EQ(o.status, 0) << o.err;
    EXPECT_FALSE(contains(o.out, "does not answer")) << o.out;
    EXPECT_TRUE(contains(o.out, "Job j, group aa: 40 of 2 ranks")) << o.out;
}

TEST(Top, AFullDiskIsSaid) {
    const folder sockets;
    const outcome o = run("/bin/sh", {"-c", std::string(GCOLL_TOP) + " --once --interval 100ms --dir " +
                                                sockets.path + " >/dev/full"});
    EXPECT_EQ(o.status, 1);
    EXPECT_TRUE(contains(o.err, "standard output cannot be written: No space left")) << o.err;
}

TEST(Top, ItsVersionIsTold) {
    const outcome o = run(GCOLL_TOP, {"--version"});
    EXPECT_EQ(o.status, 0) << o.err;
    EXPECT_EQ(o.out, "gcoll_top " + std::to_string(GCOLL_VERSION_MAJOR) + "." +
                         std::to_string(GCOLL_VERSION_MINOR) + "." + std::to_string(GCOLL_VERSION_PATCH) +
                         "\n");
}

TEST(Top, BadCommandLinesAreNamed) {
    EXPECT_EQ(run(GCOLL_TOP, {"--format", "json"}).status, 2);
    EXPECT_TRUE(contains(run(GCOLL_TOP, {"--format", "json"}).err, "--once"));
    EXPECT_TRUE(contains(run(GCOLL_TOP, {}).err, "no terminal"));
    EXPECT_TRUE(contains(run(GCOLL_TOP, {"--once", "--interval", "1"}).err, "--interval"));
    EXPECT_EQ(run(GCOLL_TOP, {"--once", "--dir", "/proc/self/mem"}).status, 1);
    EXPECT_EQ(run(GCOLL_TOP, {"--once", "--dir", "/nowhere/at/all", "--interval", "100ms"}).status, 0);
}

} // namespace
