// test/kit/harness.h - jobs of several ranks, as threads or as processes, through the public headers.
//
// Nothing here waits without an end: what takes longer than its limit is killed, and the test fails.
#ifndef GCOLL_TEST_HARNESS_H
#define GCOLL_TEST_HARNESS_H

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/types.h>

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <new>
#include <string>
#include <thread>
#include <type_traits>
#include <vector>

#include "gcoll/gcoll.h"

namespace gcoll_test {

// Aborts the process, with a word on stderr, if it lives longer. For tests whose threads may hang.
class Watchdog {
  public:
    explicit Watchdog(int seconds);
    ~Watchdog();

  private:
    std::mutex lock_;
    std::condition_variable changed_;
    bool over_ = false;
    std::thread thread_;
};

// A new folder, removed with all that is in it.
class Folder {
  public:
    Folder();
    ~Folder();
    Folder(const Folder &) = delete;
    Folder &operator=(const Folder &) = delete;
    const std::string &path() const { return path_; }
    std::string url() const { return "file:" + path_; }
    // Files in it and below, relative to it, sorted.
    std::vector<std::string> files() const;

  private:
    std::string path_;
};

// Memory shared by this process and those that it forks afterwards. Zeroed.
template <class T> class Shared {
    static_assert(std::is_trivially_destructible<T>::value, "nobody destroys it");

  public:
    Shared() {
        void *memory = mmap(nullptr, sizeof(T), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        if (memory == MAP_FAILED)
            abort();
        value_ = new (memory) T{};
    }
    ~Shared() { munmap(static_cast<void *>(value_), sizeof(T)); }
    Shared(const Shared &) = delete;
    Shared &operator=(const Shared &) = delete;
    T *operator->() const { return value_; }
    T &operator*() const { return *value_; }

  private:
    T *value_;
};

int64_t now_ms();

struct Job {
    uint32_t size = 1;
    const char *transport = "inproc";
    int64_t timeout_ms = 20000;
    const char *name = nullptr;           // of the job
    gcoll_same same = GCOLL_SAME_NOWHERE; // so that tests may name any algorithm; same_test.cc has the others
    std::function<void(uint32_t rank, gcoll_context_options *options)> adjust; // may be empty
    std::function<void(gcoll_hub *hub)> prepare; // before ranks attach; may be empty
};

// The transports that tests of a context are run over: "inproc" and "tcp", or those that the environment
// variable GCOLL_TEST_TRANSPORTS names, with commas between.
std::vector<const char *> transports_to_test();
inline auto transports() {
    return testing::ValuesIn(transports_to_test());
}
// The one of them between processes.
const char *process_transport();

gcoll_context_options options_of(const Job &job, uint32_t rank, gcoll_store *store, gcoll_hub *hub);

// Runs body for each rank in a thread of its own with a context of one job, destroyed afterwards.
using Body = std::function<void(uint32_t rank, gcoll_context *context)>;
void run_threads(const Job &job, const Body &body);
void run_threads(uint32_t size, const char *transport, const Body &body);

// The contexts of all ranks in one process, to be driven by whom the test likes. Single-threaded use of them
// over inproc is deterministic.
class Group {
  public:
    explicit Group(const Job &job);
    ~Group();
    Group(const Group &) = delete;
    Group &operator=(const Group &) = delete;
    uint32_t size() const { return static_cast<uint32_t>(contexts_.size()); }
    gcoll_context *operator[](uint32_t rank) const { return contexts_[rank]; }
    gcoll_hub *hub() const { return hub_; }
    // Destroys the context of one rank now.
    void leave(uint32_t rank);
    // Calls gcoll_operation_test on all in turn until all are done; false on a failure or after `turns`.
    static bool drive(std::vector<gcoll_operation *> operations, int turns = 1000000);

  private:
    gcoll_store *store_ = nullptr;
    gcoll_hub *hub_ = nullptr;
    std::vector<gcoll_context *> contexts_;
};

// Takes the name of the launch away, which the ranks of a test program have in common (harness.cc).
class NoLaunch {
  public:
    NoLaunch();
    ~NoLaunch();
    NoLaunch(const NoLaunch &) = delete;
    NoLaunch &operator=(const NoLaunch &) = delete;

  private:
    std::string name_;
};

// How a process ended.
struct Outcome {
    bool ended = false; // by itself, within the limit
    int code = -1;      // of exit
    int signal = 0;     // that killed it
};

// Ranks as processes. What a child's body returns is its exit code, unless it had gtest failures: then 99.
// Children end by exit(), so that leaks are looked for.
constexpr int kFailed = 99;

class Processes {
  public:
    using Main = std::function<int(uint32_t rank)>;
    Processes(uint32_t size, const Main &main);
    ~Processes(); // kills those that are left
    Processes(const Processes &) = delete;
    Processes &operator=(const Processes &) = delete;
    void signal(uint32_t rank, int number);
    // Waits for one; if it does not end in time it is killed and `ended` is false.
    Outcome wait(uint32_t rank, int64_t limit_ms);
    // Waits for all, and expects that each but `except` exited with 0.
    void expect_success(int64_t limit_ms, int64_t except = -1);

  private:
    std::vector<pid_t> pids_;
};

// Runs main in `size` processes that share a file store, and expects that all return 0 in time.
void run_processes(uint32_t size, int64_t limit_ms,
                   const std::function<int(uint32_t rank, gcoll_store *store)> &main);

// Opens the store and joins over process_transport(); a gtest failure and NULL if that fails.
gcoll_context *join(gcoll_store *store, const Job &job, uint32_t rank);

// Spins with short sleeps until the flag has at least this value; false after limit_ms.
bool await(const std::atomic<uint32_t> &flag, uint32_t value, int64_t limit_ms = 10000);

// "ok" or the status with the last error, for messages.
std::string told(gcoll_status status);

// Names of the algorithms of a collective, by the public list.
std::vector<std::string> algorithms(const char *collective);

} // namespace gcoll_test

// For calls that must work: the failure shows gcoll's own text.
#define EXPECT_GCOLL_OK(call)                                                                                \
    do {                                                                                                     \
        gcoll_status gcoll_status_ = (call);                                                                 \
        EXPECT_EQ(gcoll_status_, GCOLL_OK) << gcoll_test::told(gcoll_status_);                               \
    } while (0)
#define ASSERT_GCOLL_OK(call)                                                                                \
    do {                                                                                                     \
        gcoll_status gcoll_status_ = (call);                                                                 \
        ASSERT_EQ(gcoll_status_, GCOLL_OK) << gcoll_test::told(gcoll_status_);                               \
    } while (0)

#endif
