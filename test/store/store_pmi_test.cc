// test/store/store_pmi_test.cc - the store that ranks find by way of their launcher: meets with a server that
// speaks PMI-1 as its specification says, and with servers that do not.
#include "test/store/store_support.h"

#include <sys/resource.h>

#include <map>
#include <utility>

using namespace store_support;

namespace {

// ---- A launcher's server ----

// The answer to a request, by its first word; nothing if the server answers as the protocol says.
using Answers = std::map<std::string, std::string>;

class Launcher {
  public:
    explicit Launcher(int size, Answers answers = {}) : answers_(std::move(answers)) {
        for (int rank = 0; rank < size; rank++) {
            int pair[2];
            if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0)
                std::abort();
            servers_.push_back(pair[0]);
            clients_.push_back(pair[1]);
            parts_.emplace_back();
        }
    }
    ~Launcher() {
        close_all(servers_);
        close_all(clients_);
    }
    Launcher(const Launcher &) = delete;
    Launcher &operator=(const Launcher &) = delete;

    // The sockets belong to other processes from now on.
    void forget() {
        close_all(servers_);
        close_all(clients_);
    }
    // In a process of a launcher: has one socket, and variables that name it.
    void become(int rank) {
        set_variables(rank);
        std::swap(clients_[static_cast<size_t>(rank)], own_);
        forget();
    }
    void set_variables(int rank) const {
        setenv("PMI_FD", std::to_string(clients_[static_cast<size_t>(rank)]).c_str(), 1);
        setenv("PMI_RANK", std::to_string(rank).c_str(), 1);
        setenv("PMI_SIZE", std::to_string(clients_.size()).c_str(), 1);
    }
    // Serves until all connections are closed. How many processes ended their conversation.
    int serve() {
        close_all(clients_);
        std::vector<pollfd> items;
        for (int fd : servers_)
            items.push_back({fd, POLLIN, 0});
        for (size_t left = items.size(); left > 0;) {
            if (poll(items.data(), items.size(), 20000) <= 0)
                return -1;
            for (size_t i = 0; i < items.size(); i++) {
                if (items[i].fd >= 0 && items[i].revents != 0 && !read_some(i)) {
                    items[i].fd = -1;
                    left--;
                }
            }
        }
        return finalized_;
    }

  private:
    static void close_all(std::vector<int> &list) {
        for (int &fd : list)
            if (fd >= 0)
                close(std::exchange(fd, -1));
    }
    bool read_some(size_t i) {
        char chunk[4096];
        ssize_t got = recv(servers_[i], chunk, sizeof chunk, 0);
        if (got <= 0)
            return false;
        parts_[i].append(chunk, static_cast<size_t>(got));
        for (size_t end; (end = parts_[i].find('\n')) != std::string::npos;) {
            std::string line = parts_[i].substr(0, end);
            parts_[i].erase(0, end + 1);
            if (!take(i, line))
                return false;
        }
        return true;
    }
    static std::string word(const std::string &line, const std::string &name) {
        size_t at = (" " + line).find(" " + name + "=");
        if (at == std::string::npos)
            return "";
        at += name.size() + 1;
        return line.substr(at, line.find(' ', at) - at);
    }
    // A process that has given up does not listen.
    void say(size_t i, const std::string &text) const {
        EXPECT_TRUE(send(servers_[i], text.data(), text.size(), MSG_NOSIGNAL) > 0 || errno == EPIPE)
            << strerror(errno);
    }
    bool hang_up(size_t i) const {
        shutdown(servers_[i], SHUT_RDWR);
        return false;
    }
    bool take(size_t i, const std::string &line) {
        const std::string verb = word(line, "cmd");
        if (auto found = answers_.find(verb); found != answers_.end()) {
            if (found->second == "")
                return hang_up(i);
            if (found->second != "silence")
                say(i, found->second);
            return true;
        }
        if (verb == "init") {
            say(i, "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0\n");
        } else if (verb == "get_maxes") {
            say(i, "cmd=maxes kvsname_max=256 keylen_max=64 vallen_max=1024\n");
        } else if (verb == "get_my_kvsname") {
            say(i, "cmd=my_kvsname kvsname=kvs_17_0\n");
        } else if (verb == "put" && word(line, "kvsname") == "kvs_17_0") {
            unseen_[word(line, "key")] = word(line, "value");
            say(i, "cmd=put_result rc=0 msg=success\n");
        } else if (verb == "barrier_in") {
            if (++arrived_ == servers_.size()) {
                seen_ = unseen_;
                arrived_ = 0;
                for (size_t other = 0; other < servers_.size(); other++)
                    say(other, "cmd=barrier_out\n");
            }
        } else if (verb == "get" && word(line, "kvsname") == "kvs_17_0") {
            auto found = seen_.find(word(line, "key"));
            say(i, found == seen_.end() ? "cmd=get_result rc=-1 msg=key_not_found value=unknown\n"
                                        : "cmd=get_result rc=0 msg=success value=" + found->second + "\n");
        } else if (verb == "finalize") {
            finalized_++;
            say(i, "cmd=finalize_ack\n");
            return hang_up(i);
        } else {
            ADD_FAILURE() << "no request of PMI-1: " << line;
            return false;
        }
        return true;
    }

    Answers answers_;
    std::vector<int> servers_, clients_;
    int own_ = -1;
    std::vector<std::string> parts_;
    std::map<std::string, std::string> unseen_, seen_;
    size_t arrived_ = 0;
    int finalized_ = 0;
};

// Runs `body` in a process for each rank, and the launcher's server in one more. True if all went well and
// `finalized` ranks ended their conversation.
bool run_ranks(Launcher &launcher, int size, int finalized, const std::function<bool(int)> &body) {
    std::vector<pid_t> children;
    for (int i = 0; i <= size; i++) {
        const pid_t child = fork();
        if (child == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            bool good = true;
            if (i == size) {
                good = launcher.serve() == finalized;
            } else {
                launcher.become(i);
                good = body(i);
            }
            _exit(good && !testing::Test::HasFailure() ? 0 : 1);
        }
        children.push_back(child);
    }
    launcher.forget();
    bool good = true;
    for (pid_t child : children) {
        int status = 0;
        good = waitpid(child, &status, 0) == child && status == 0 && good;
    }
    return good;
}

// ---- Meeting ----

TEST(StorePmi, IsOneStoreForAllRanks) {
    for (int size : {1, 2, 3, 7}) {
        Launcher launcher(size);
        EXPECT_TRUE(run_ranks(launcher, size, size == 1 ? 0 : size,
                              [&](int rank) {
                                  Store store = open_store("pmi:");
                                  if (!store)
                                      return false;
                                  const std::string own = "rank/" + std::to_string(rank);
                                  EXPECT_EQ(set(store.get(), own, own + "'s"), GCOLL_OK)
                                      << gcoll_last_error();
                                  for (int other = 0; other < size; other++) {
                                      const std::string key = "rank/" + std::to_string(other);
                                      EXPECT_EQ(gcoll_store_wait(store.get(), key.c_str(), 20000), GCOLL_OK)
                                          << gcoll_last_error();
                                      EXPECT_EQ(get(store.get(), key), key + "'s");
                                  }
                                  int64_t sum = 0;
                                  EXPECT_EQ(gcoll_store_add(store.get(), "sum", rank + 1, &sum), GCOLL_OK)
                                      << gcoll_last_error();
                                  if (sum == size * (size + 1) / 2)
                                      EXPECT_EQ(set(store.get(), "all", "added"), GCOLL_OK);
                                  EXPECT_EQ(gcoll_store_wait(store.get(), "all", 20000), GCOLL_OK)
                                      << gcoll_last_error();
                                  return true;
                              }))
            << size << " ranks";
    }
}

TEST(StorePmi, NeedsNoAddressThatDoesNotFit) {
    Launcher launcher(2, {{"get_maxes", "cmd=maxes kvsname_max=256 keylen_max=64 vallen_max=64\n"}});
    EXPECT_TRUE(run_ranks(launcher, 2, 2, [](int rank) {
        Store store = open_store("pmi:");
        return store && set(store.get(), std::to_string(rank), "") == GCOLL_OK &&
               gcoll_store_wait(store.get(), std::to_string(1 - rank).c_str(), 20000) == GCOLL_OK;
    }));
}

TEST(StorePmi, OpensOnceInAProcess) {
    Launcher launcher(2);
    EXPECT_TRUE(run_ranks(launcher, 2, 2, [](int) {
        Store first = open_store("pmi:");
        gcoll_store *second = nullptr;
        EXPECT_EQ(gcoll_store_open("pmi:", 5000, &second), GCOLL_ERR_IO);
        EXPECT_TRUE(last_error_has("until that has opened one pmi: store")) << gcoll_last_error();
        if (!first)
            return false;
        int64_t sum = 0; // rank 0's process serves until the other has come
        EXPECT_EQ(gcoll_store_add(first.get(), "sum", 1, &sum), GCOLL_OK) << gcoll_last_error();
        if (sum == 2)
            EXPECT_EQ(set(first.get(), "all", "added"), GCOLL_OK);
        EXPECT_EQ(gcoll_store_wait(first.get(), "all", 20000), GCOLL_OK) << gcoll_last_error();
        return true;
    }));
}

TEST(StorePmi, SaysWhyRankZeroCannotServe) {
    Launcher launcher(3);
    EXPECT_TRUE(run_ranks(launcher, 3, 3, [](int rank) {
        if (rank == 0) { // no descriptor is left for a server
            rlimit limit = {0, 0};
            getrlimit(RLIMIT_NOFILE, &limit);
            limit.rlim_cur = static_cast<rlim_t>(dup(0));
            setrlimit(RLIMIT_NOFILE, &limit);
        }
        gcoll_store *store = nullptr;
        const auto began = Clock::now();
        const gcoll_status status = gcoll_store_open("pmi:", 20000, &store);
        EXPECT_EQ(status, rank == 0 ? GCOLL_ERR_NO_MEMORY : GCOLL_ERR_IO) << gcoll_last_error();
        EXPECT_TRUE(last_error_has("cannot make a server")) << gcoll_last_error();
        EXPECT_TRUE(rank == 0 || last_error_has("rank 0 cannot serve")) << gcoll_last_error();
        EXPECT_LT(ms_since(began), 10000);
        return true;
    }));
}

TEST(StorePmi, ARankThatDoesNotComeEndsTheWait) {
    Launcher launcher(3);
    EXPECT_TRUE(run_ranks(launcher, 3, 0, [](int rank) {
        if (rank == 2)
            return true;
        gcoll_store *store = nullptr;
        const auto began = Clock::now();
        EXPECT_EQ(gcoll_store_open("pmi:", 2000, &store), GCOLL_ERR_TIMEOUT);
        EXPECT_TRUE(last_error_has("not all 3 processes opened it within 2000 ms")) << gcoll_last_error();
        EXPECT_LT(ms_since(began), 2000 + kLateMs);
        return true;
    }));
}

TEST(StorePmi, AServerThatIsGoneEndsTheSearchAtOnce) {
    Launcher launcher(2);
    EXPECT_TRUE(run_ranks(launcher, 2, 2, [](int rank) {
        if (rank == 0)
            return open_store("pmi:") != nullptr; // and ends
        const auto began = Clock::now();
        gcoll_store *store = nullptr;
        if (gcoll_store_open("pmi:", 20000, &store) == GCOLL_OK) // it was quick
            gcoll_store_destroy(store);
        else
            EXPECT_TRUE(last_error_has("rank 0 cannot be reached: tcp store ")) << gcoll_last_error();
        EXPECT_LT(ms_since(began), 5000);
        return true;
    }));
}

// ---- Servers and variables that are not trusted ----

// The status of opening as rank 1 of 2, where the server gives these answers.
gcoll_status open_with(const Answers &answers, int64_t timeout_ms = 5000) {
    gcoll_status status = GCOLL_OK;
    Answers all = {{"barrier_in", "cmd=barrier_out\n"},
                   {"get", "cmd=get_result rc=0 value=1,0123456789abcdef,0123456789abcdef,9,127.0.0.1\n"}};
    for (const auto &[verb, answer] : answers)
        all[verb] = answer;
    Launcher launcher(2, all);
    launcher.set_variables(1);
    const int own = dup(std::atoi(getenv("PMI_FD")));
    setenv("PMI_FD", std::to_string(own).c_str(), 1);
    std::thread server([&] { launcher.serve(); });
    gcoll_store *store = nullptr;
    const auto began = Clock::now();
    status = gcoll_store_open("pmi:", timeout_ms, &store);
    EXPECT_LT(ms_since(began), static_cast<double>(timeout_ms) + kLateMs);
    EXPECT_EQ(store, nullptr);
    close(own);
    server.join();
    return status;
}

TEST(StorePmi, RefusesAnswersThatMakeNoSense) {
    const std::string place = "cmd=get_result rc=0 value=1,0123456789abcdef,0123456789abcdef,";
    const struct {
        const char *verb;
        std::string answer;
        gcoll_status status;
        const char *text;
    } table[] = {
        {"init", "", GCOLL_ERR_IO, "closed PMI_FD"},
        {"init", "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=1\n", GCOLL_ERR_PROTOCOL, "rc=1"},
        {"init", "cmd=maxes rc=0\n", GCOLL_ERR_PROTOCOL, "instead of cmd=response_to_init"},
        {"init", "\n", GCOLL_ERR_PROTOCOL, "answered ''"},
        {"init", "cmd=response_to_init rc=00\n", GCOLL_ERR_PROTOCOL, "rc=00"},
        {"init", "cmd=response_to_init rc=0\ncmd=maxes vallen_max=100\n", GCOLL_ERR_PROTOCOL, "answered"},
        {"init", std::string("cmd=response_to_init\0rc=0\n", 26), GCOLL_ERR_PROTOCOL, "answered"},
        {"init", std::string(5000, 'x') + "\n", GCOLL_ERR_PROTOCOL, "answered 'xxx"},
        {"init", std::string(4096, 'x'), GCOLL_ERR_PROTOCOL, "answered 'xxx"},
        {"init", "\x1b[31m\n", GCOLL_ERR_PROTOCOL, "answered '?[31m'"},
        {"get_maxes", "cmd=maxes keylen_max=64\n", GCOLL_ERR_PROTOCOL, "vallen_max"},
        {"get_maxes", "cmd=maxes vallen_max=63\n", GCOLL_ERR_PROTOCOL, "vallen_max"},
        {"get_maxes", "cmd=maxes vallen_max=99999999999999999999\n", GCOLL_ERR_PROTOCOL, "vallen_max"},
        {"get_maxes", "cmd=maxes xvallen_max=100\n", GCOLL_ERR_PROTOCOL, "vallen_max"},
        {"get_my_kvsname", "cmd=my_kvsname kvsname=\n", GCOLL_ERR_PROTOCOL, "kvsname"},
        {"get_my_kvsname", "cmd=my_kvsname kvsname=" + std::string(600, 'k') + "\n", GCOLL_ERR_PROTOCOL,
         "kvsname"},
        {"barrier_in", "cmd=barrier_out rc=-1 msg=failed\n", GCOLL_ERR_PROTOCOL, "rc=-1"},
        {"get", "cmd=get_result rc=-1 msg=key_gcoll-store_not_found value=unknown\n", GCOLL_ERR_PROTOCOL,
         "not_found"},
        {"get", "cmd=get_result rc=0\n", GCOLL_ERR_PROTOCOL, "instead of cmd=get_result with a value"},
        {"get", "cmd=get_result rc=0 value=\n", GCOLL_ERR_PROTOCOL, "makes no sense"},
        {"get", "cmd=get_result rc=0 value=1\n", GCOLL_ERR_PROTOCOL, "makes no sense"},
        {"get", "cmd=get_result rc=0 value=2,0123456789abcdef,0123456789abcdef,80,::1\n", GCOLL_ERR_PROTOCOL,
         "makes no sense: '2,0123"},
        {"get", "cmd=get_result rc=0 value=1,0123456789abcdeF,0123456789abcdef,80\n", GCOLL_ERR_PROTOCOL,
         "makes no sense"},
        {"get", place + "0,127.0.0.1\n", GCOLL_ERR_PROTOCOL, "makes no sense"},
        {"get", place + "65536,127.0.0.1\n", GCOLL_ERR_PROTOCOL, "makes no sense"},
        {"get", place + "80,localhost\n", GCOLL_ERR_PROTOCOL, "makes no sense"},
        {"get", place + "80,127.0.0.1,\n", GCOLL_ERR_PROTOCOL, "makes no sense"},
        {"get", place + "80,::1,::1,::1,::1,::1,::1,::1,::1,::1\n", GCOLL_ERR_PROTOCOL, "makes no sense"},
        {"get", place + "80\n", GCOLL_ERR_IO, "no address but the loopback"},
        {"get", "cmd=get_result rc=0 value=failed,\x1bno_memory\n", GCOLL_ERR_IO, "cannot serve: ?no_memory"},
        {"finalize", "", GCOLL_ERR_IO, "closed PMI_FD"},
    };
    for (const auto &row : table) {
        EXPECT_EQ(open_with({{row.verb, row.answer}}), row.status) << row.answer << gcoll_last_error();
        EXPECT_TRUE(last_error_has(row.text)) << row.answer << ": " << gcoll_last_error();
        EXPECT_TRUE(last_error_has("gcoll_store_open: pmi store: ")) << gcoll_last_error();
    }
    EXPECT_EQ(open_with({{"get_maxes", "silence"}}, 200), GCOLL_ERR_TIMEOUT);
    EXPECT_TRUE(last_error_has("did not answer within 200 ms")) << gcoll_last_error();
}

TEST(StorePmi, TakesNoOtherServerForThatOfRankZero) {
    gcoll_store *other = nullptr;
    const uint16_t port = closed_port();
    const std::string name = "127.0.0.1:" + std::to_string(port);
    ASSERT_EQ(gcoll_store_open(("tcp://" + name + "?serve=yes").c_str(), 10000, &other), GCOLL_OK);
    Store holder(other);
    const std::string place = "cmd=get_result rc=0 value=1,0123456789abcdef,0123456789abcdef,";
    EXPECT_EQ(open_with({{"get", place + std::to_string(port) + ",127.0.0.1\n"}}, 300), GCOLL_ERR_PROTOCOL);
    EXPECT_TRUE(last_error_has("the server of another job answers there")) << gcoll_last_error();
    EXPECT_TRUE(last_error_has(name)) << gcoll_last_error();
}

TEST(StorePmi, NamesTheVariableThatIsWrong) {
    const struct {
        const char *fd, *rank, *size, *text;
    } table[] = {
        {nullptr, "0", "2", "PMI_FD is not set; allowed is a process that mpiexec"},
        {"", "0", "2", "PMI_FD is not set"},
        {"3x", "0", "2", "PMI_FD is '3x'"},
        {"-1", "0", "2", "PMI_FD is '-1'"},
        {"99999999999", "0", "2", "PMI_FD is '99999999999'"},
        {"2147483647", "0", "2", "PMI_FD is 2147483647, which is no open stream socket"},
        {"file", "0", "2", "which is no open stream socket"},
        {"0", nullptr, "2", "PMI_RANK is not set"},
        {"0", "0", nullptr, "PMI_SIZE is not set"},
        {"0", "2", "2", "PMI_RANK is 2; allowed is less than PMI_SIZE, 2"},
        {"0", "0", "0", "PMI_RANK is 0; allowed is less than PMI_SIZE, 0"},
        {"0", "a\nb", "2", "PMI_RANK is 'a?b'"},
    };
    const int file = open("/dev/null", O_RDWR | O_CLOEXEC);
    for (const auto &row : table) {
        const char *fd = row.fd;
        const std::string number = std::to_string(file);
        if (fd != nullptr && strcmp(fd, "file") == 0)
            fd = number.c_str();
        for (const auto &[variable, value] :
             {std::pair("PMI_FD", fd), std::pair("PMI_RANK", row.rank), std::pair("PMI_SIZE", row.size)})
            if (value == nullptr)
                unsetenv(variable);
            else
                setenv(variable, value, 1);
        gcoll_store *store = nullptr;
        EXPECT_EQ(gcoll_store_open("pmi:", 1000, &store), GCOLL_ERR_INVALID);
        EXPECT_TRUE(last_error_has(row.text)) << row.text << ": " << gcoll_last_error();
        EXPECT_EQ(store, nullptr);
    }
    close(file);
    gcoll_store *store = nullptr;
    EXPECT_EQ(gcoll_store_open("pmi:x", 1000, &store), GCOLL_ERR_INVALID);
    EXPECT_TRUE(last_error_has("'pmi:x'; allowed is pmi: alone")) << gcoll_last_error();
}

} // namespace
