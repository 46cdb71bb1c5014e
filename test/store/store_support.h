// test/store/store_support.h - temporary folders, servers and helpers that the store tests share.
#ifndef GCOLL_TEST_STORE_SUPPORT_H
#define GCOLL_TEST_STORE_SUPPORT_H

#include <arpa/inet.h>
#include <dirent.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "gcoll/store.h"

namespace store_support {

using Clock = std::chrono::steady_clock;

inline double ms_since(Clock::time_point start) {
    return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

// How late a call with a time limit may return, on a machine that is also busy with other work.
constexpr double kLateMs = 300;

struct StoreDeleter {
    void operator()(gcoll_store *store) const { gcoll_store_destroy(store); }
};
using Store = std::unique_ptr<gcoll_store, StoreDeleter>;

inline Store open_store(const std::string &url, int64_t timeout_ms = 10000) {
    gcoll_store *store = nullptr;
    EXPECT_EQ(gcoll_store_open(url.c_str(), timeout_ms, &store), GCOLL_OK) << gcoll_last_error();
    return Store(store);
}

inline gcoll_status set(gcoll_store *store, const std::string &key, const std::string &value) {
    return gcoll_store_set(store, key.c_str(), value.data(), value.size());
}

// Gets a value, or the status in angle brackets, which no test stores.
inline std::string get(gcoll_store *store, const std::string &key) {
    std::vector<char> buffer(GCOLL_STORE_VALUE_MAX);
    size_t bytes = 0;
    gcoll_status status = gcoll_store_get(store, key.c_str(), buffer.data(), buffer.size(), &bytes);
    if (status != GCOLL_OK)
        return std::string("<") + gcoll_status_text(status) + ">";
    return std::string(buffer.data(), bytes);
}

inline bool last_error_has(const std::string &text) {
    return std::string(gcoll_last_error()).find(text) != std::string::npos;
}

class TemporaryFolder {
  public:
    TemporaryFolder() {
        const char *base = std::getenv("TMPDIR");
        std::string pattern = std::string(base == nullptr ? "/tmp" : base) + "/gcoll_store_XXXXXX";
        if (mkdtemp(pattern.data()) == nullptr)
            std::abort();
        path_ = std::filesystem::canonical(pattern); // the path without symbolic links
    }
    ~TemporaryFolder() {
        std::error_code ignored;
        std::filesystem::remove_all(path_, ignored);
    }
    TemporaryFolder(const TemporaryFolder &) = delete;
    TemporaryFolder &operator=(const TemporaryFolder &) = delete;
    const std::string &path() const { return path_; }
    std::vector<std::string> names() const {
        std::vector<std::string> list;
        for (const auto &item : std::filesystem::directory_iterator(path_))
            list.push_back(item.path().filename());
        return list;
    }

  private:
    std::string path_;
};

// Listens on a free port of the loopback address.
inline int listen_any(uint16_t *port) {
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    if (fd < 0 || bind(fd, reinterpret_cast<sockaddr *>(&address), size) != 0 || listen(fd, 64) != 0 ||
        getsockname(fd, reinterpret_cast<sockaddr *>(&address), &size) != 0)
        std::abort();
    *port = ntohs(address.sin_port);
    return fd;
}

// Finds a port at which nobody listens.
inline uint16_t closed_port() {
    uint16_t port;
    close(listen_any(&port));
    return port;
}

// A real redis-server with a folder of its own. The destructor kills it.
class RedisServer {
  public:
    // port: the option of the port at which it listens; "--tls-port": it speaks TLS alone.
    explicit RedisServer(std::vector<std::string> extra = {}, const char *port = "--port")
        : extra_(std::move(extra)), port_option_(port) {
        // Another process may take the port before the server starts.
        for (int i = 0; i < 10 && pid_ < 0; i++) {
            port_ = closed_port();
            start(port_);
        }
    }
    ~RedisServer() { stop(); }
    RedisServer(const RedisServer &) = delete;
    RedisServer &operator=(const RedisServer &) = delete;

    static bool installed() { return std::system("redis-server --version >/dev/null 2>&1") == 0; }
    bool running() const { return pid_ > 0; }
    uint16_t port() const { return port_; }
    pid_t pid() const { return pid_; }
    std::string name() const { return "127.0.0.1:" + std::to_string(port_); }
    std::string url(const std::string &login = "", const std::string &tail = "") const {
        return "redis://" + login + name() + tail;
    }
    void stop() {
        if (pid_ > 0) {
            kill(pid_, SIGKILL);
            waitpid(pid_, nullptr, 0);
        }
        pid_ = -1;
    }
    // Starts the server again on the same port, which the kernel may free a moment later.
    bool restart() {
        stop();
        for (int i = 0; i < 50 && pid_ < 0; i++)
            start(port_);
        return running();
    }
    // Sends one command as plain words. Returns the bytes of the answer, up to a short silence.
    std::string ask(const std::string &line) const {
        int fd = connect_once();
        std::string text = line + "\r\n", answer;
        if (fd < 0)
            return "";
        if (send(fd, text.data(), text.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(text.size())) {
            pollfd item = {fd, POLLIN, 0};
            char chunk[8192];
            for (ssize_t got = 1; got > 0 && poll(&item, 1, answer.empty() ? 2000 : 20) > 0;)
                if ((got = recv(fd, chunk, sizeof chunk, 0)) > 0)
                    answer.append(chunk, static_cast<size_t>(got));
        }
        close(fd);
        return answer;
    }

  private:
    bool is_ready() const {
        if (port_option_ == "--port")
            return !ask("PING").empty();
        const int fd = connect_once(); // to say more would take TLS
        if (fd >= 0)
            close(fd);
        return fd >= 0;
    }
    int connect_once() const {
        sockaddr_in address = {};
        address.sin_family = AF_INET;
        address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        address.sin_port = htons(port_);
        int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (connect(fd, reinterpret_cast<sockaddr *>(&address), sizeof address) == 0)
            return fd;
        close(fd);
        return -1;
    }
    void start(uint16_t port) {
        std::vector<std::string> words = {"redis-server",
                                          "--port",
                                          "0",
                                          port_option_,
                                          std::to_string(port),
                                          "--bind",
                                          "127.0.0.1",
                                          "--save",
                                          "",
                                          "--appendonly",
                                          "no",
                                          "--dir",
                                          folder_.path(),
                                          "--logfile",
                                          folder_.path() + "/log",
                                          "--daemonize",
                                          "no"};
        words.insert(words.end(), extra_.begin(), extra_.end());
        std::vector<char *> arguments;
        for (std::string &word : words)
            arguments.push_back(word.data());
        arguments.push_back(nullptr);
        pid_t child = fork();
        if (child == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL); // the server also ends when a test crashes
            execvp("redis-server", arguments.data());
            _exit(127);
        }
        pid_ = child;
        auto began = Clock::now();
        // The server is ready when it answers anything, even a refusal.
        while (!is_ready() && ms_since(began) < 8000) {
            if (waitpid(child, nullptr, WNOHANG) == child) {
                pid_ = -1;
                return;
            }
            std::this_thread::sleep_for(std::chrono::milliseconds(2));
        }
    }

    TemporaryFolder folder_;
    std::vector<std::string> extra_;
    const std::string port_option_;
    uint16_t port_ = 0;
    pid_t pid_ = -1;
};

// A server that a test programs: `serve` gets each connection and its number, in one thread, and need not
// close it.
class FakeServer {
  public:
    explicit FakeServer(std::function<void(int fd, int number)> serve) {
        listener_ = listen_any(&port_);
        thread_ = std::thread([this, serve = std::move(serve)] {
            for (int number = 0;; number++) {
                int fd = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
                if (fd < 0 || stopping_)
                    return;
                serve(fd, number);
                close(fd);
            }
        });
    }
    ~FakeServer() {
        stopping_ = true;
        shutdown(listener_, SHUT_RDWR);
        thread_.join();
        close(listener_);
    }
    std::string name() const { return "127.0.0.1:" + std::to_string(port_); }
    std::string url() const { return "redis://" + name(); }

    // Reads requests until the client closes the connection. `answer` gets the bytes of one recv (one request
    // in these tests), and returns the answer, or "" to close.
    static void converse(int fd, const std::function<std::string(const std::string &)> &answer) {
        char chunk[8192];
        for (;;) {
            ssize_t got = recv(fd, chunk, sizeof chunk, 0);
            if (got <= 0)
                return;
            std::string reply = answer(std::string(chunk, static_cast<size_t>(got)));
            if (reply.empty() || send(fd, reply.data(), reply.size(), MSG_NOSIGNAL) < 0)
                return;
        }
    }

  private:
    int listener_ = -1;
    uint16_t port_ = 0;
    std::atomic<bool> stopping_{false};
    std::thread thread_;
};

// Runs `body` in `count` child processes. Returns how many of them returned true.
inline int in_processes(int count, const std::function<bool(int)> &body) {
    std::vector<pid_t> children;
    for (int i = 0; i < count; i++) {
        pid_t child = fork();
        if (child == 0)
            _exit(body(i) ? 0 : 1);
        children.push_back(child);
    }
    int good = 0;
    for (pid_t child : children) {
        int status = 0;
        waitpid(child, &status, 0);
        good += WIFEXITED(status) && WEXITSTATUS(status) == 0;
    }
    return good;
}

// Adds 3 to the counter "n" in each process, `adds` times. Returns in how many of them the sums grew each
// time.
inline int add_in_processes(int count, const std::string &url, int adds) {
    return in_processes(
        count,
        [&](int) {
            Store mine = open_store(url);
            int64_t sum = 0, last = 0;
            for (int i = 0; i < adds; i++, last = sum)
                if (gcoll_store_add(mine.get(), "n", 3, &sum) != GCOLL_OK || sum <= last)
                    return false;
            return true;
        });
}

} // namespace store_support

#endif
