// test/kit/harness.h - runs jobs of several ranks, as threads or as processes, through the public headers.
//
// Every wait here has a limit: a job that takes longer is killed, and the test fails.
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

// Aborts the process with a message on stderr when its time is over. For tests whose threads may hang.
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

// A new folder. The destructor removes it with its contents.
class Folder {
  public:
    Folder();
    ~Folder();
    Folder(const Folder &) = delete;
    Folder &operator=(const Folder &) = delete;
    const std::string &path() const { return path_; }
    std::string url() const { return "file:" + path_; }
    // Names of all files in the folder and below it, relative to it, sorted.
    std::vector<std::string> files() const;

  private:
    std::string path_;
};

// Zeroed memory that this process shares with the children that it forks afterwards.
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

// Test data that repeat after so many bytes, a prime: made byte by byte, they would take most of the tests'
// time.
constexpr uint64_t kPeriod = 251;
// data[i] = value(i), which has that period.
void fill_by_period(std::vector<uint8_t> &data, const std::function<uint8_t(uint64_t)> &value);

// Runs `body` in a child that is forked now, waits for it, and fails the test if it failed. The child ends by
// exit, so that leaks are found there, too; after a minute it is ended.
void in_child(const std::function<void()> &body);

struct Job {
    uint32_t size = 1;
    const char *transport = "inproc";
    int64_t timeout_ms = 20000;
    const char *name = nullptr;           // the job's name
    gcoll_same same = GCOLL_SAME_NOWHERE; // allows any algorithm; same_test.cc tests the other values
    std::function<void(uint32_t rank, gcoll_context_options *options)> adjust; // may be empty
    std::function<void(gcoll_hub *hub)> prepare; // before ranks attach; may be empty
};

// Transports over which tests of contexts run: "inproc" and "tcp", or the list in the environment variable
// GCOLL_TEST_TRANSPORTS, separated by commas.
std::vector<const char *> transports_to_test();
inline auto transports() {
    return testing::ValuesIn(transports_to_test());
}
// The transport of that list that connects processes.
const char *process_transport();

gcoll_context_options options_of(const Job &job, uint32_t rank, gcoll_store *store, gcoll_hub *hub);

// Runs body for each rank in a thread of its own, with a context of one job. Destroys the contexts
// afterwards.
using Body = std::function<void(uint32_t rank, gcoll_context *context)>;
void run_threads(const Job &job, const Body &body);
void run_threads(uint32_t size, const char *transport, const Body &body);

// The contexts of all ranks in one process. The test decides which thread drives them. Driven by one thread
// over inproc, they are deterministic.
// If the environment variable GCOLL_TEST_SHARE names a transport, jobs over tcp get contexts that share the
// connections of a parent over that transport (options.share).
class Group {
  public:
    explicit Group(const Job &job);
    ~Group();
    Group(const Group &) = delete;
    Group &operator=(const Group &) = delete;
    uint32_t size() const { return static_cast<uint32_t>(contexts_.size()); }
    gcoll_context *operator[](uint32_t rank) const { return contexts_[rank]; }
    gcoll_hub *hub() const { return hub_; }
    // Destroys one rank's context now.
    void leave(uint32_t rank);
    // One rank's context was destroyed by the test.
    void forget(uint32_t rank) { contexts_[rank] = nullptr; }
    // Calls gcoll_operation_test on all in turn until all are done. Returns false on a failure, or after
    // `turns` rounds.
    static bool drive(std::vector<gcoll_operation *> operations, int turns = 1000000);

  private:
    void make(const Job &job, uint32_t rank);

    gcoll_store *store_ = nullptr;
    gcoll_hub *hub_ = nullptr;
    std::vector<gcoll_context *> contexts_;
    std::vector<gcoll_context *> parents_; // nullptr: destroyed already, or never made
};

// Removes the name of the launch, which all jobs of a test program share (harness.cc).
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
    bool ended = false; // the process ended by itself, within the limit
    int code = -1;      // exit code
    int signal = 0;     // the signal that killed it
};

// Ranks as processes. A child's exit code is what its body returns, or 99 if it had gtest failures. Children
// end by exit(), so that LeakSanitizer checks them.
constexpr int kFailed = 99;

class Processes {
  public:
    using Main = std::function<int(uint32_t rank)>;
    Processes(uint32_t size, const Main &main);
    ~Processes(); // kills the remaining children
    Processes(const Processes &) = delete;
    Processes &operator=(const Processes &) = delete;
    void signal(uint32_t rank, int number);
    // Waits for one child. If it does not end in time, it is killed, and `ended` is false.
    Outcome wait(uint32_t rank, int64_t limit_ms);
    // Waits for all children, and expects that each but `except` exited with 0.
    void expect_success(int64_t limit_ms, int64_t except = -1);

  private:
    std::vector<pid_t> pids_;
};

// Runs main in `size` processes that share a file store. Expects that all return 0 in time.
void run_processes(uint32_t size, int64_t limit_ms,
                   const std::function<int(uint32_t rank, gcoll_store *store)> &main);

// Opens the store and joins the job over process_transport(). On failure there is a gtest failure, and the
// result is NULL.
gcoll_context *join(gcoll_store *store, const Job &job, uint32_t rank);

// Waits with short sleeps until the flag has at least this value. Returns false after limit_ms.
bool await(const std::atomic<uint32_t> &flag, uint32_t value, int64_t limit_ms = 10000);

// Describes a status for a message: "ok", or the status with the last error.
std::string told(gcoll_status status);

// Names of a collective's algorithms, from the public list.
std::vector<std::string> algorithms(const char *collective);

} // namespace gcoll_test

// Expects that a call succeeds. The failure shows gcoll's error text.
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
