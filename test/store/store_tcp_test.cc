// test/store/store_tcp_test.cc - tests of the tcp store: which process serves, how the server ends, and
// strangers at its port.
#include "test/kit/sanitizer.h"
#include "test/store/store_support.h"

#include <sys/resource.h>

extern "C" {
#include "gcoll/store/table.h"
}

using namespace store_support;

namespace {

struct Port {
    uint16_t number = closed_port();
    std::string name = "127.0.0.1:" + std::to_string(number);
    std::string url = "tcp://" + name;
};

// A child process that serves until it is killed.
class ServingProcess {
  public:
    explicit ServingProcess(const std::string &url) {
        int ready[2];
        if (pipe2(ready, O_CLOEXEC) != 0)
            std::abort();
        pid_ = fork();
        if (pid_ == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            gcoll_store *store = nullptr;
            char good = gcoll_store_open((url + "?serve=yes").c_str(), 10000, &store) == GCOLL_OK ? 1 : 0;
            if (write(ready[1], &good, 1) == 1)
                pause();
            _exit(1);
        }
        char good = 0;
        EXPECT_EQ(read(ready[0], &good, 1), 1);
        EXPECT_EQ(good, 1) << "the other process cannot serve";
        close(ready[0]);
        close(ready[1]);
    }
    ~ServingProcess() { end(); }
    void signal(int number) const { kill(pid_, number); }
    void end() {
        if (pid_ > 0) {
            kill(pid_, SIGKILL);
            waitpid(pid_, nullptr, 0);
        }
        pid_ = -1;
    }

  private:
    pid_t pid_ = -1;
};

int thread_count() {
    int count = 0;
    for ([[maybe_unused]] const auto &task : std::filesystem::directory_iterator("/proc/self/task"))
        count++;
    return count;
}

// ---- Bytes on a socket of the test's own ----

enum Kind : uint8_t { kSet = 1, kSetNew, kGet, kLook, kWait, kAdd, kRemove, kKeep, kOk = 64, kWelcome = 72 };
const std::string kHello = "GCOLL-STORE 1\r\n\r\n";
constexpr size_t kHead = 24;

std::string le(uint64_t number, size_t bytes) {
    std::string text;
    for (size_t i = 0; i < bytes; i++)
        text += static_cast<char>(number >> (8 * i));
    return text;
}

std::string head(uint8_t kind, uint64_t key_bytes, uint64_t value_bytes, uint32_t id, uint64_t number,
                 uint8_t version = 1) {
    return "!GCS" + le(version, 1) + le(kind, 1) + le(key_bytes, 2) + le(value_bytes, 4) + le(id, 4) +
           le(number, 8);
}

std::string frame(uint8_t kind, const std::string &key, const std::string &value = "", uint32_t id = 1,
                  uint64_t number = 0) {
    return head(kind, key.size(), value.size(), id, number) + key + value;
}

class Raw {
  public:
    explicit Raw(const Port &port) {
        sockaddr_in address = {};
        address.sin_family = AF_INET;
        address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        address.sin_port = htons(port.number);
        fd_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        EXPECT_EQ(connect(fd_, reinterpret_cast<sockaddr *>(&address), sizeof address), 0) << strerror(errno);
    }
    ~Raw() {
        if (fd_ >= 0)
            close(fd_);
    }
    Raw(Raw &&other) noexcept : fd_(other.fd_) { other.fd_ = -1; }
    Raw(const Raw &) = delete;
    Raw &operator=(const Raw &) = delete;
    bool send_all(const std::string &text) const {
        for (size_t at = 0; at < text.size();) {
            ssize_t sent = ::send(fd_, text.data() + at, text.size() - at, MSG_NOSIGNAL);
            if (sent <= 0)
                return false;
            at += static_cast<size_t>(sent);
        }
        return true;
    }
    // Receives up to `bytes` bytes: fewer if the server closes the connection, or is silent for too long.
    std::string receive(size_t bytes, int limit_ms = 10000) const {
        std::string text(bytes, '\0');
        size_t at = 0;
        pollfd item = {fd_, POLLIN, 0};
        while (at < bytes && poll(&item, 1, limit_ms) > 0) {
            ssize_t got = recv(fd_, text.data() + at, bytes - at, 0);
            if (got <= 0)
                break;
            at += static_cast<size_t>(got);
        }
        return text.substr(0, at);
    }
    bool greet() const {
        std::string answer = send_all(kHello) ? receive(kHead) : "";
        return answer.size() == kHead && answer.substr(0, 4) == "!GCS" &&
               answer[5] == static_cast<char>(kWelcome);
    }
    // Returns whether the server closes the connection without sending anything before.
    bool is_closed(int limit_ms = 10000) const {
        pollfd item = {fd_, POLLIN, 0};
        char byte;
        return poll(&item, 1, limit_ms) > 0 && recv(fd_, &byte, 1, 0) <= 0;
    }

  private:
    int fd_;
};

// ---- Who serves ----

TEST(StoreTcp, OfProcessesThatRaceOneServes) {
    for (int round = 0; round < 4; round++) {
        constexpr int kProcesses = 8;
        Port port;
        EXPECT_EQ(in_processes(kProcesses,
                               [&](int i) {
                                   const int before = thread_count();
                                   Store store = open_store(port.url, 20000);
                                   if (!store)
                                       return false;
                                   int64_t sum = 0;
                                   bool serves = thread_count() > before; // the server has a thread
                                   gcoll_store_add(store.get(), "servers", serves ? 1 : 0, nullptr);
                                   gcoll_store_add(store.get(), "here", 1, &sum);
                                   if (sum == kProcesses)
                                       set(store.get(), "all", "");
                                   set(store.get(), "rank" + std::to_string(i), "x");
                                   return gcoll_store_wait(store.get(), "all", 20000) == GCOLL_OK &&
                                          get(store.get(), "servers") == "1" &&
                                          gcoll_store_wait(
                                              store.get(),
                                              ("rank" + std::to_string((i + 1) % kProcesses)).c_str(),
                                              20000) == GCOLL_OK;
                               }),
                  kProcesses);
    }
}

TEST(StoreTcp, TheServingHandleIsAClientLikeOthers) {
    Port port;
    Store server = open_store(port.url), client = open_store(port.url);
    std::string large(GCOLL_STORE_VALUE_MAX, 'x');
    int64_t sum = 0;
    ASSERT_EQ(set(server.get(), "k", large), GCOLL_OK) << gcoll_last_error();
    EXPECT_EQ(get(client.get(), "k"), large);
    EXPECT_EQ(gcoll_store_add(client.get(), "n", 3, &sum), GCOLL_OK);
    EXPECT_EQ(gcoll_store_add(server.get(), "n", -5, &sum), GCOLL_OK);
    EXPECT_EQ(sum, -2);
    EXPECT_EQ(gcoll_store_set_new(server.get(), "k", "", 0), GCOLL_ERR_STATE);
    EXPECT_EQ(gcoll_store_wait(server.get(), "absent", 20), GCOLL_ERR_TIMEOUT);
    std::thread later([&] {
        std::this_thread::sleep_for(std::chrono::milliseconds(50));
        EXPECT_EQ(set(client.get(), "late", "x"), GCOLL_OK);
    });
    auto began = Clock::now();
    EXPECT_EQ(gcoll_store_wait(server.get(), "late", 10000), GCOLL_OK);
    EXPECT_LT(ms_since(began), 50 + kLateMs);
    later.join();
    client.reset();
}

// A host may be given by a name, which may have an IPv4 and an IPv6 address, and by an IPv6 address.
TEST(StoreTcp, NamesAndAddressesOfBothFamilies) {
    for (const std::string host : {"localhost", "[::1]", "0.0.0.0"}) {
        std::string url = "tcp://" + host + ":" + std::to_string(closed_port());
        gcoll_store *made = nullptr;
        gcoll_status status = gcoll_store_open(url.c_str(), 500, &made);
        if (host == "[::1]" && status == GCOLL_ERR_TIMEOUT)
            continue; // this machine has no IPv6
        ASSERT_EQ(status, GCOLL_OK) << gcoll_last_error();
        Store server(made), client = open_store(url + "?serve=no");
        EXPECT_EQ(set(client.get(), "k", host), GCOLL_OK) << gcoll_last_error();
        EXPECT_EQ(get(server.get(), "k"), host);
    }
}

TEST(StoreTcp, AServerThatComesLaterIsWaitedFor) {
    Port port;
    std::thread later([&] {
        std::this_thread::sleep_for(std::chrono::milliseconds(300));
        Store server = open_store(port.url + "?serve=yes");
        EXPECT_EQ(gcoll_store_wait(server.get(), "done", 10000), GCOLL_OK);
    });
    Store client = open_store(port.url + "?serve=no", 10000);
    ASSERT_TRUE(client);
    EXPECT_EQ(set(client.get(), "done", ""), GCOLL_OK) << gcoll_last_error();
    client.reset();
    later.join();
}

TEST(StoreTcp, AServerThatIsNotThereIsNamed) {
    Port port;
    for (const std::string &url : {port.url + "?serve=no", std::string("tcp://no-such-host.invalid:4242")}) {
        gcoll_store *store = nullptr;
        auto began = Clock::now();
        EXPECT_EQ(gcoll_store_open(url.c_str(), 400, &store), GCOLL_ERR_TIMEOUT) << gcoll_last_error();
        EXPECT_GE(ms_since(began), 390);
        EXPECT_LT(ms_since(began), 400 + kLateMs);
        EXPECT_TRUE(last_error_has(url.substr(6, 12)) && last_error_has("no server was there within 400 ms"))
            << gcoll_last_error();
        EXPECT_EQ(store, nullptr);
    }
}

TEST(StoreTcp, OneThatMustServeSaysThatItCannot) {
    Port port;
    Store first = open_store(port.url + "?serve=yes");
    gcoll_store *store = nullptr;
    auto began = Clock::now();
    EXPECT_EQ(gcoll_store_open((port.url + "?serve=yes").c_str(), 10000, &store), GCOLL_ERR_IO);
    EXPECT_TRUE(last_error_has(port.name) && last_error_has("in use")) << gcoll_last_error();
    EXPECT_LT(ms_since(began), kLateMs);
}

// The address is another host's, as behind an address translation. Then the server listens at all its own.
TEST(StoreTcp, OneThatMustServeListensEverywhereIfTheAddressIsNotItsOwn) {
    Port port;
    Store server = open_store("tcp://198.51.100.7:" + std::to_string(port.number) + "?serve=yes");
    ASSERT_TRUE(server);
    Store client = open_store(port.url + "?serve=no");
    EXPECT_EQ(set(client.get(), "k", "v"), GCOLL_OK) << gcoll_last_error();
    EXPECT_EQ(get(server.get(), "k"), "v");
    client.reset();
}

TEST(StoreTcp, ServersOfOtherKindsAreNamed) {
    struct {
        const char *answer, *said;
    } cases[] = {
        {"HTTP/1.1 400 Bad Request\r\nServer: x\r\n\r\n", "an HTTP server"},
        {"-ERR unknown command 'GCOLL-STORE'\r\n", "a Redis server"},
        {"SSH-2.0-OpenSSH_9.2\r\n", "an SSH server"},
        {"what\x1b[31m\x07?", "another program: \"what?[31m??\""},
    };
    for (const auto &each : cases) {
        FakeServer server(
            [&](int fd, int) { FakeServer::converse(fd, [&](const std::string &) { return each.answer; }); });
        for (const char *serve : {"?serve=no", "", "?serve=auto"}) {
            gcoll_store *store = nullptr;
            auto began = Clock::now();
            EXPECT_EQ(gcoll_store_open(("tcp://" + server.name() + serve).c_str(), 10000, &store),
                      GCOLL_ERR_PROTOCOL);
            EXPECT_TRUE(last_error_has(each.said) && last_error_has(server.name())) << gcoll_last_error();
            EXPECT_LT(ms_since(began), 1000);
        }
    }
}

TEST(StoreTcp, ARealRedisServerIsNamed) {
    if (!RedisServer::installed())
        GTEST_SKIP() << "redis-server is not installed";
    RedisServer server;
    gcoll_store *store = nullptr;
    EXPECT_EQ(gcoll_store_open(("tcp://" + server.name()).c_str(), 10000, &store), GCOLL_ERR_PROTOCOL);
    EXPECT_TRUE(last_error_has("a Redis server")) << gcoll_last_error();
}

TEST(StoreTcp, AServerThatIsSilentOrLeavesIsWaitedForAndNamed) {
    uint16_t port;
    int listening = listen_any(&port); // the kernel accepts connections, and nobody answers
    FakeServer leaving([](int, int) {});
    for (const std::string &name : {"127.0.0.1:" + std::to_string(port), leaving.name()}) {
        gcoll_store *store = nullptr;
        auto began = Clock::now();
        EXPECT_EQ(gcoll_store_open(("tcp://" + name).c_str(), 300, &store), GCOLL_ERR_TIMEOUT);
        EXPECT_TRUE(last_error_has(name)) << gcoll_last_error();
        EXPECT_LT(ms_since(began), 300 + kLateMs);
    }
    close(listening);
}

TEST(StoreTcp, ForgedAnswersAreRefused) {
    const std::string welcome = head(kWelcome, 0, 0, 0, 77);
    struct {
        std::string greeting, answer;
    } cases[] = {
        {head(kWelcome, 0, 0, 0, 77, 2), ""},
        {head(kOk, 0, 0, 0, 77), ""},
        {head(kWelcome, 0, 4000000000u, 0, 77), ""},
        {welcome, std::string(kHead, 'x')},
        {welcome, head(kOk, 0, 4000000000u, 1, 0)},
        {welcome, head(kOk, 0, GCOLL_STORE_VALUE_MAX + 1, 1, 0)},
        {welcome, head(kOk, 3, 0, 1, 0) + "abc"},
        {welcome, head(kOk, 0, 0, 2, 0)},
        {welcome, head(200, 0, 0, 1, 0)},
        {welcome, head(kWelcome, 0, 0, 1, 77)},
        {welcome, head(kOk, 0, 0, 1, 0, 9)},
    };
    for (const auto &each : cases) {
        FakeServer server([&](int fd, int) {
            FakeServer::converse(fd, [&](const std::string &request) {
                return request == kHello ? each.greeting : each.answer;
            });
        });
        gcoll_store *made = nullptr;
        gcoll_status status = gcoll_store_open(("tcp://" + server.name()).c_str(), 10000, &made);
        Store store(made);
        if (status == GCOLL_OK) {
            EXPECT_FALSE(each.answer.empty()) << "a forged greeting was taken";
            status = set(made, "k", "v");
        }
        EXPECT_EQ(status, GCOLL_ERR_PROTOCOL) << gcoll_last_error();
    }
}

// ---- What ends it ----

TEST(StoreTcp, ClientsThatWaitAreToldWithinASecondThatTheServerWasKilled) {
    Port port;
    ServingProcess server(port.url);
    constexpr int kClients = 4;
    std::atomic<int> ready{0};
    std::vector<std::thread> threads;
    Clock::time_point told[kClients];
    for (Clock::time_point &own : told) {
        threads.emplace_back([&] {
            Store store = open_store(port.url);
            ASSERT_TRUE(store);
            ready++;
            EXPECT_EQ(gcoll_store_wait(store.get(), "absent", 60000), GCOLL_ERR_IO);
            own = Clock::now();
            EXPECT_TRUE(last_error_has("the store's server at " + port.name + " is gone") &&
                        last_error_has("absent"))
                << gcoll_last_error();
            auto began = Clock::now();
            EXPECT_EQ(set(store.get(), "k", "v"), GCOLL_ERR_IO);
            EXPECT_TRUE(last_error_has("is gone")) << gcoll_last_error();
            EXPECT_LT(ms_since(began), kLateMs);
        });
    }
    while (ready < kClients)
        std::this_thread::yield();
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    const auto killed = Clock::now();
    server.end();
    for (std::thread &thread : threads)
        thread.join();
    for (const Clock::time_point &each : told)
        EXPECT_LT(each - killed, std::chrono::seconds(gcoll_test::is_sanitized() ? 3 : 1));
}

TEST(StoreTcp, AServerThatIsStoppedCostsNoMoreThanTheTimeoutsAndLosesNothing) {
    Port port;
    ServingProcess server(port.url);
    Store store = open_store(port.url, 300);
    ASSERT_EQ(set(store.get(), "k", "old"), GCOLL_OK);
    server.signal(SIGSTOP);
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    auto began = Clock::now();
    EXPECT_EQ(get(store.get(), "k"), "<timed out>");
    EXPECT_TRUE(last_error_has(port.name) && last_error_has("did not answer in time")) << gcoll_last_error();
    EXPECT_GE(ms_since(began), 300);
    EXPECT_LT(ms_since(began), 300 + kLateMs);
    began = Clock::now();
    EXPECT_EQ(gcoll_store_wait(store.get(), "k", 100), GCOLL_ERR_TIMEOUT);
    EXPECT_LT(ms_since(began), 100 + 300 + kLateMs) << "a wait adds its own time";
    ASSERT_EQ(gcoll_store_set_timeout(store.get(), 50), GCOLL_OK);
    int64_t sum = 0;
    began = Clock::now();
    EXPECT_EQ(gcoll_store_add(store.get(), "n", 1, &sum), GCOLL_ERR_TIMEOUT);
    EXPECT_TRUE(last_error_has("its outcome is unknown")) << gcoll_last_error();
    EXPECT_LT(ms_since(began), 50 + kLateMs);
    // Sends more than the sockets hold, so the rest of a request is sent before the next one.
    ASSERT_EQ(gcoll_store_set_timeout(store.get(), 2), GCOLL_OK);
    for (int i = 0; i < 250; i++)
        EXPECT_EQ(set(store.get(), "large", std::string(GCOLL_STORE_VALUE_MAX, static_cast<char>(i))),
                  GCOLL_ERR_TIMEOUT);
    gcoll_store *late = nullptr;
    EXPECT_EQ(gcoll_store_open(port.url.c_str(), 200, &late), GCOLL_ERR_TIMEOUT) << "it does not greet";
    server.signal(SIGCONT);
    ASSERT_EQ(gcoll_store_set_timeout(store.get(), 10000), GCOLL_OK);
    EXPECT_EQ(get(store.get(), "k"), "old") << "an answer to an older request was taken for this one's";
    EXPECT_EQ(gcoll_store_add(store.get(), "n", 1, &sum), GCOLL_OK);
    EXPECT_EQ(sum, 2);
    EXPECT_EQ(gcoll_store_wait(store.get(), "k", 0), GCOLL_OK);
}

TEST(StoreTcp, DestroyingTheServerWaitsForOthersForASecondAtMost) {
    Port port;
    {
        Store server = open_store(port.url);
        Raw stranger(port); // does not delay the end
        auto began = Clock::now();
        server.reset();
        EXPECT_LT(ms_since(began), kLateMs) << "nobody has it open";
    }
    {
        Store server = open_store(port.url), client = open_store(port.url);
        std::thread leaves([&] {
            std::this_thread::sleep_for(std::chrono::milliseconds(300));
            EXPECT_EQ(set(client.get(), "k", "v"), GCOLL_OK) << gcoll_last_error();
            client.reset();
        });
        auto began = Clock::now();
        server.reset();
        EXPECT_GE(ms_since(began), 250);
        EXPECT_LT(ms_since(began), 300 + kLateMs);
        leaves.join();
    }
    Store server = open_store(port.url), client = open_store(port.url);
    std::thread waits([&] {
        auto began = Clock::now();
        EXPECT_EQ(gcoll_store_wait(client.get(), "absent", 60000), GCOLL_ERR_IO);
        EXPECT_TRUE(last_error_has("is gone")) << gcoll_last_error();
        EXPECT_LT(ms_since(began), GCOLL_STORE_LINGER_MS + kLateMs);
    });
    auto began = Clock::now();
    server.reset();
    EXPECT_GE(ms_since(began), GCOLL_STORE_LINGER_MS - 100);
    EXPECT_LT(ms_since(began), GCOLL_STORE_LINGER_MS + kLateMs);
    waits.join();
}

// The next job may serve at the same port while ranks of the last one still leave.
TEST(StoreTcp, ThePortIsFreeAsSoonAsTheServerEnds) {
    Port port;
    Store first = open_store(port.url + "?serve=yes"), old_client = open_store(port.url);
    ASSERT_EQ(set(old_client.get(), "k", "old"), GCOLL_OK);
    std::thread ends([&] { first.reset(); });
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    Store second = open_store(port.url + "?serve=yes"), new_client = open_store(port.url);
    EXPECT_EQ(get(old_client.get(), "k"), "old");
    EXPECT_EQ(get(new_client.get(), "k"), "<not found>");
    ends.join();
    EXPECT_EQ(get(old_client.get(), "k"), "<input or output failed>");
    EXPECT_TRUE(last_error_has("is gone: another one has taken its place")) << gcoll_last_error();
    new_client.reset();
}

// Relays one connection at a time to the server. `cut` decides whether a request is relayed with its answer,
// without it, or not at all. Then the connection is closed.
enum class Cut { kNone, kAnswer, kRequest };
class Relay {
  public:
    explicit Relay(const Port &to)
        : server_([this, to](int fd, int) {
              Raw real(to);
              FakeServer::converse(fd, [&](const std::string &request) {
                  bool hello = request == kHello;
                  Cut cut = hello ? Cut::kNone : cut_.exchange(Cut::kNone);
                  if (cut == Cut::kRequest || !real.send_all(request))
                      return std::string();
                  std::string answer = real.receive(kHead);
                  return cut == Cut::kAnswer ? std::string() : answer;
              });
          }) {}
    std::string url() const { return "tcp://" + server_.name() + "?serve=no"; }
    void cut(Cut how) { cut_ = how; }

  private:
    std::atomic<Cut> cut_{Cut::kNone};
    FakeServer server_;
};

TEST(StoreTcp, ALostConnectionToTheSameServerIsMadeAnew) {
    Port port;
    Store server = open_store(port.url);
    Relay relay(port);
    Store client = open_store(relay.url());
    int64_t sum = 0;
    for (Cut how : {Cut::kAnswer, Cut::kRequest}) {
        relay.cut(how);
        EXPECT_EQ(set(client.get(), "k", "v"), GCOLL_OK) << gcoll_last_error();
        EXPECT_EQ(get(server.get(), "k"), "v");
        relay.cut(how);
        EXPECT_EQ(gcoll_store_wait(client.get(), "k", 10000), GCOLL_OK) << gcoll_last_error();
        ASSERT_EQ(gcoll_store_remove(server.get(), "n"), GCOLL_OK);
        relay.cut(how);
        EXPECT_EQ(gcoll_store_add(client.get(), "n", 1, &sum), GCOLL_ERR_IO);
        EXPECT_TRUE(last_error_has("its outcome is unknown")) << gcoll_last_error();
        EXPECT_EQ(get(server.get(), "n"), how == Cut::kAnswer ? "1" : "<not found>");
        EXPECT_EQ(gcoll_store_add(client.get(), "m", 1, &sum), GCOLL_OK) << gcoll_last_error();
    }
    client.reset();
}

// ---- Many, and much ----

TEST(StoreTcp, AThousandClients) {
    constexpr rlim_t kClients = 1000, kDescriptors = 2 * kClients + 100;
    rlimit limit;
    ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
    if (limit.rlim_max < kDescriptors)
        GTEST_SKIP() << "RLIMIT_NOFILE is " << limit.rlim_max;
    const rlimit before = limit;
    limit.rlim_cur = std::max(limit.rlim_cur, kDescriptors);
    ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
    {
        Port port;
        Store server = open_store(port.url);
        std::vector<Raw> clients;
        for (rlim_t i = 0; i < kClients; i++) {
            std::string name = std::to_string(i);
            clients.emplace_back(port);
            ASSERT_TRUE(clients.back().send_all(kHello + frame(kSet, "key/" + name, "value of " + name, 1) +
                                                frame(kWait, "go", "", 2)));
        }
        for (const Raw &each : clients)
            ASSERT_EQ(each.receive(2 * kHead).size(), 2 * kHead);
        auto began = Clock::now();
        ASSERT_EQ(set(server.get(), "go", "now"), GCOLL_OK);
        for (const Raw &each : clients)
            ASSERT_EQ(each.receive(kHead), head(kOk, 0, 0, 2, 0));
        EXPECT_LT(ms_since(began), 5000);
        for (rlim_t i = 0; i < kClients; i++) {
            std::string name = std::to_string((i + 1) % kClients), value = "value of " + name;
            ASSERT_TRUE(clients[i].send_all(frame(kGet, "key/" + name, "", 3)));
            ASSERT_EQ(clients[i].receive(kHead + value.size()), head(kOk, 0, value.size(), 3, 0) + value);
        }
        clients.clear();
    }
    setrlimit(RLIMIT_NOFILE, &before);
}

TEST(StoreTcp, TwoJobsAtOnceDoNotMeet) {
    Port port;
    Store server = open_store(port.url);
    std::vector<std::thread> threads;
    std::atomic<int> good{0};
    for (int i = 0; i < 8; i++) {
        threads.emplace_back([&, i] {
            Store base = open_store(port.url);
            gcoll_store *view = nullptr;
            ASSERT_EQ(gcoll_store_prefix_create(base.get(), i % 2 ? "odd" : "even", &view), GCOLL_OK);
            Store store(view);
            int64_t sum = 0;
            for (int round = 0; round < 50; round++)
                ASSERT_EQ(gcoll_store_add(view, "n", 1, &sum), GCOLL_OK);
            if (sum == 200)
                set(view, "done", i % 2 ? "odd" : "even");
            ASSERT_EQ(gcoll_store_wait(view, "done", 20000), GCOLL_OK);
            good += get(view, "done") == (i % 2 ? "odd" : "even") && get(view, "n") == "200";
            store.reset();
        });
    }
    for (std::thread &thread : threads)
        thread.join();
    EXPECT_EQ(good, 8);
}

TEST(StoreTcp, AKeptKeyEndsWithItsLifetime) {
    Port port;
    Store store = open_store(port.url);
    ASSERT_EQ(set(store.get(), "k", "v"), GCOLL_OK);
    ASSERT_EQ(set(store.get(), "lasting", "v"), GCOLL_OK);
    ASSERT_EQ(gcoll_store_keep(store.get(), "k", 200), GCOLL_OK);
    for (int i = 0; i < 6; i++) { // each set starts the lifetime again
        std::this_thread::sleep_for(std::chrono::milliseconds(50));
        ASSERT_EQ(set(store.get(), "k", "v"), GCOLL_OK);
    }
    EXPECT_EQ(get(store.get(), "k"), "v");
    std::this_thread::sleep_for(std::chrono::milliseconds(220));
    EXPECT_EQ(get(store.get(), "k"), "<not found>");
    EXPECT_EQ(gcoll_store_wait(store.get(), "k", 0), GCOLL_ERR_TIMEOUT);
    EXPECT_EQ(gcoll_store_keep(store.get(), "k", 100), GCOLL_ERR_NOT_FOUND);
    EXPECT_EQ(gcoll_store_set_new(store.get(), "k", "w", 1), GCOLL_OK) << gcoll_last_error();
    std::this_thread::sleep_for(std::chrono::milliseconds(220));
    EXPECT_EQ(get(store.get(), "k"), "w") << "a key that is gone leaves no lifetime";
    EXPECT_EQ(get(store.get(), "lasting"), "v");
}

TEST(StoreTcp, AFullServerSaysSo) {
    Port port;
    Store store = open_store(port.url);
    std::string value(GCOLL_STORE_VALUE_MAX, 'x');
    gcoll_status status = GCOLL_OK;
    int count = 0;
    for (; status == GCOLL_OK && count < 5000; count++)
        status = set(store.get(), "k" + std::to_string(count), value);
    EXPECT_EQ(status, GCOLL_ERR_NO_MEMORY) << "after " << count;
    EXPECT_TRUE(last_error_has(std::to_string(GCOLL_STORE_SERVER_BYTES_MAX)) && last_error_has("full"))
        << gcoll_last_error();
    EXPECT_GT(count, GCOLL_STORE_SERVER_BYTES_MAX / (GCOLL_STORE_VALUE_MAX + 200));
    EXPECT_EQ(set(store.get(), "k0", value), GCOLL_OK) << "to replace takes no more";
    ASSERT_EQ(gcoll_store_remove(store.get(), "k1"), GCOLL_OK);
    EXPECT_EQ(set(store.get(), "other", value), GCOLL_OK) << gcoll_last_error();
}

TEST(StoreTable, HoldsItsBoundsAndForgetsWhatIsOver) {
    gcoll_store_table table;
    ASSERT_TRUE(gcoll_store_table_init(&table, 300, 1 << 20));
    auto put = [&](const std::string &key, size_t bytes, int64_t now) {
        std::string value(bytes, 'v');
        return gcoll_store_table_put(&table, key.data(), key.size(), value.data(), bytes, now);
    };
    auto find = [&](const std::string &key, int64_t now) {
        return gcoll_store_table_find(&table, key.data(), key.size(), now);
    };
    for (int i = 0; i < 300; i++)
        ASSERT_EQ(put("k" + std::to_string(i), 10, 0), GCOLL_TABLE_OK);
    EXPECT_EQ(put("one more", 1, 0), GCOLL_TABLE_KEYS_FULL);
    EXPECT_EQ(put("k7", 20, 0), GCOLL_TABLE_OK);
    EXPECT_EQ(put("k7", 1 << 20, 0), GCOLL_TABLE_BYTES_FULL);
    ASSERT_NE(find("k7", 0), nullptr);
    EXPECT_EQ(find("k7", 0)->value_bytes, 20u) << "a put that failed changes nothing";
    for (int i = 0; i < 300; i++) {
        gcoll_store_entry *entry = find("k" + std::to_string(i), 0);
        ASSERT_NE(entry, nullptr) << i;
        if (i < 100)
            gcoll_store_entry_keep(entry, 1 + i % 2, 0);
    }
    gcoll_store_table_sweep(&table, 1000000);
    EXPECT_EQ(table.keys, 250u);
    EXPECT_EQ(find("k0", 0), nullptr);
    EXPECT_NE(find("k1", 1999999), nullptr);
    EXPECT_EQ(find("k1", 2000000), nullptr);
    gcoll_store_entry_keep(find("k200", 0), INT64_MAX, INT64_MAX - 1);
    EXPECT_NE(find("k200", INT64_MAX - 1), nullptr);
    for (int i = 0; i < 300; i++)
        gcoll_store_table_remove(&table, ("k" + std::to_string(i)).data(), std::to_string(i).size() + 1);
    EXPECT_EQ(table.keys, 0u);
    EXPECT_EQ(table.bytes, 0u);
    gcoll_store_table_fini(&table);
}

// ---- Strangers ----

TEST(StoreTcp, ForgedRequestsEndTheirConnectionAndNoOther) {
    Port port;
    Store server = open_store(port.url), client = open_store(port.url);
    ASSERT_EQ(set(client.get(), "k", "v"), GCOLL_OK);
    for (const std::string &text :
         {std::string("GET / HTTP/1.1\r\n\r\n"), std::string("PING\r\n"), std::string(100000, '\0'),
          frame(kSet, "k", "w"), std::string("GCOLL-STORX")}) {
        Raw stranger(port);
        stranger.send_all(text);
        EXPECT_TRUE(stranger.is_closed()) << text.substr(0, 20);
    }
    for (const std::string &text :
         {head(kSet, 0, 0, 1, 0), head(kSet, 256, 1, 1, 0), head(kSet, 65535, 4294967295u, 1, 0),
          head(kSet, 1, GCOLL_STORE_VALUE_MAX + 1, 1, 0), head(kGet, 1, 1, 1, 0),
          head(kKeep, 1, 0, 1, 0) + "k", head(kKeep, 1, 0, 1, UINT64_MAX) + "k", head(0, 1, 0, 1, 0),
          head(9, 1, 0, 1, 0), head(255, 1, 0, 1, 0), head(kGet, 1, 0, 1, 0, 2), std::string(kHead, 'x'),
          kHello}) {
        Raw peer(port);
        ASSERT_TRUE(peer.greet());
        peer.send_all(text + std::string(text == kHello ? kHead : 0, 'x'));
        EXPECT_TRUE(peer.is_closed()) << static_cast<int>(text[5]);
    }
    for (size_t bytes : {size_t(1), kHello.size() - 1, kHello.size(), kHello.size() + 5,
                         kHello.size() + kHead, kHello.size() + kHead + 3, kHello.size() + kHead + 5000}) {
        Raw cut(port); // the client ends in the middle of a frame
        cut.send_all((kHello + frame(kSet, "cut", std::string(10000, 'x'))).substr(0, bytes));
    }
    {
        Raw future(port);
        future.send_all("GCOLL-STORE 2\r\n\r\n");
        EXPECT_EQ(future.receive(kHead), head(kWelcome, 0, 0, 0, 0)) << "it learns our version";
        EXPECT_TRUE(future.is_closed());
    }
    EXPECT_EQ(get(client.get(), "k"), "v");
    EXPECT_EQ(get(client.get(), "cut"), "<not found>");
    EXPECT_EQ(get(server.get(), "k"), "v");
    client.reset();
}

TEST(StoreTcp, RequestsMayComeByteByByteOrAllAtOnce) {
    Port port;
    Store server = open_store(port.url);
    {
        Raw slow(port);
        for (char c : kHello + frame(kSet, "slow", "value") + frame(kGet, "slow", "", 2)) {
            ASSERT_TRUE(slow.send_all(std::string(1, c)));
            if (c % 8 == 0)
                std::this_thread::sleep_for(std::chrono::milliseconds(1));
        }
        EXPECT_EQ(slow.receive(3 * kHead + 5).substr(kHead),
                  head(kOk, 0, 0, 1, 0) + head(kOk, 0, 5, 2, 0) + "value");
    }
    // The client does not read its many answers. The server reads no further requests, and loses none.
    constexpr int kGets = 300;
    Raw eager(port);
    std::string value(GCOLL_STORE_VALUE_MAX, 'x');
    ASSERT_EQ(set(server.get(), "large", value), GCOLL_OK);
    ASSERT_TRUE(eager.greet());
    std::thread sends([&] {
        std::string all;
        for (int i = 0; i < kGets; i++)
            all += frame(kSet, "at", value.substr(0, 3000), static_cast<uint32_t>(2 * i + 1)) +
                   frame(kGet, "large", "", static_cast<uint32_t>(2 * i + 2));
        EXPECT_TRUE(eager.send_all(all));
    });
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    EXPECT_EQ(get(server.get(), "large"), value) << "others are served";
    for (uint32_t i = 0; i < kGets; i++) {
        ASSERT_EQ(eager.receive(kHead), head(kOk, 0, 0, 2 * i + 1, 0));
        ASSERT_EQ(eager.receive(kHead), head(kOk, 0, value.size(), 2 * i + 2, 0));
        ASSERT_EQ(eager.receive(value.size()), value);
    }
    sends.join();
}

TEST(StoreTcp, ARequestEndsTheWaitBeforeIt) {
    Port port;
    Store server = open_store(port.url);
    Raw peer(port);
    ASSERT_TRUE(peer.greet());
    ASSERT_TRUE(peer.send_all(frame(kWait, "k", "", 1) + frame(kLook, "k", "", 2)));
    EXPECT_EQ(peer.receive(kHead)[5], kOk + 1);
    ASSERT_EQ(set(server.get(), "k", "v"), GCOLL_OK);
    ASSERT_TRUE(peer.send_all(frame(kLook, "k", "", 3)));
    EXPECT_EQ(peer.receive(kHead), head(kOk, 0, 0, 3, 0)) << "the wait was answered all the same";
}

TEST(StoreTcp, SilentStrangersAreDroppedAndDisturbNobody) {
    Port port;
    Store server = open_store(port.url), client = open_store(port.url);
    std::vector<Raw> strangers;
    for (int i = 0; i < 50; i++) {
        strangers.emplace_back(port);
        ASSERT_TRUE(strangers.back().send_all(i % 2 ? "GCOLL-" : ""));
    }
    auto began = Clock::now();
    EXPECT_EQ(set(client.get(), "k", "v"), GCOLL_OK);
    EXPECT_LT(ms_since(began), 2000) << "long before they are dropped";
    for (const Raw &each : strangers)
        EXPECT_TRUE(each.is_closed(10000));
    EXPECT_GE(ms_since(began), 4000);
    EXPECT_LT(ms_since(began), 8000);
    EXPECT_EQ(get(client.get(), "k"), "v") << "a client may rest";
    client.reset();
}

// ---- Forks and signals ----

TEST(StoreTcp, AForkedChildHoldsNeitherThePortNorConnections) {
    Port port;
    Store server = open_store(port.url), client = open_store(port.url);
    int told[2], release[2];
    ASSERT_TRUE(pipe2(told, O_CLOEXEC) == 0 && pipe2(release, O_CLOEXEC) == 0);
    pid_t child = fork();
    if (child == 0) {
        bool good = set(client.get(), "k", "child") == GCOLL_ERR_STATE && last_error_has("forked") &&
                    set(server.get(), "k", "child") == GCOLL_ERR_STATE;
        client.reset();
        server.reset(); // returns at once: the server's thread is only in the parent
        Store own = open_store(port.url + "?serve=no");
        good = good && own && set(own.get(), "from child", "x") == GCOLL_ERR_INVALID &&
               set(own.get(), "child", "x") == GCOLL_OK;
        own.reset();
        char byte = good ? 1 : 0;
        if (write(told[1], &byte, 1) == 1 && read(release[0], &byte, 1) == 1)
            _exit(0);
        _exit(1);
    }
    char byte = 0;
    ASSERT_EQ(read(told[0], &byte, 1), 1);
    EXPECT_EQ(byte, 1);
    EXPECT_EQ(get(client.get(), "child"), "x");
    EXPECT_EQ(get(server.get(), "child"), "x");
    client.reset();
    auto began = Clock::now();
    server.reset();
    EXPECT_LT(ms_since(began), kLateMs) << "the child keeps a connection open";
    server = open_store(port.url + "?serve=yes");
    EXPECT_TRUE(server) << "the child keeps the port";
    EXPECT_EQ(write(release[1], "x", 1), 1);
    int ended = 0;
    EXPECT_EQ(waitpid(child, &ended, 0), child);
    EXPECT_EQ(ended, 0);
    for (int fd : {told[0], told[1], release[0], release[1]})
        close(fd);
}

TEST(StoreTcp, TheServersThreadTakesNoSignals) {
    static std::atomic<pid_t> handled_by;
    handled_by = 0;
    struct sigaction action = {}, before;
    action.sa_handler = [](int) { handled_by = gettid(); };
    ASSERT_EQ(sigaction(SIGUSR1, &action, &before), 0);
    Port port;
    Store server = open_store(port.url);
    sigset_t usr1;
    sigemptyset(&usr1);
    sigaddset(&usr1, SIGUSR1);
    pthread_sigmask(SIG_BLOCK, &usr1, nullptr); // the server's thread is the only other one
    kill(getpid(), SIGUSR1);
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    EXPECT_EQ(handled_by, 0);
    pthread_sigmask(SIG_UNBLOCK, &usr1, nullptr);
    EXPECT_EQ(handled_by, gettid());
    sigaction(SIGUSR1, &before, nullptr);
}

TEST(StoreTcp, BadUrlsAreExplained) {
    for (const char *url :
         {"tcp://", "tcp://h", "tcp://:1", "tcp://h:", "tcp://h:0", "tcp://h:65536", "tcp://h:x",
          "tcp://[::1]", "tcp://[::1", "tcp://h h:1", "tcp://h:1/2", "tcp://h\x1b:1", "tcp:h:1"}) {
        gcoll_store *store = nullptr;
        EXPECT_EQ(gcoll_store_open(url, 1000, &store), GCOLL_ERR_INVALID) << url;
        EXPECT_TRUE(last_error_has("tcp://host:port[?serve=auto|yes|no]")) << gcoll_last_error();
        EXPECT_FALSE(last_error_has("\x1b"));
    }
    for (const char *url :
         {"tcp://h:1?serve", "tcp://h:1?serve=maybe", "tcp://h:1?x=1", "tcp://h:1?serve=no&x"}) {
        gcoll_store *store = nullptr;
        EXPECT_EQ(gcoll_store_open(url, 1000, &store), GCOLL_ERR_INVALID) << url;
        EXPECT_TRUE(last_error_has("serve=yes")) << gcoll_last_error();
    }
}

} // namespace
