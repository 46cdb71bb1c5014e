// test/kit/harness.cc - runs jobs of several ranks, as threads or as processes, for tests.
#include "test/kit/harness.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <filesystem>

namespace gcoll_test {

namespace {

// All jobs of a test program are one launch, so rank 0 does not wait for a second launch to appear. Tests of
// launches remove the name (NoLaunch).
const bool kNamed = setenv("GCOLL_LAUNCH", ("test-" + std::to_string(getpid())).c_str(), 1) == 0;

constexpr int kThreadsLimit = 100; // seconds; ctest's own limit is a little longer
constexpr auto kNap = std::chrono::microseconds(200);

} // namespace

int64_t now_ms() {
    using namespace std::chrono;
    return duration_cast<milliseconds>(steady_clock::now().time_since_epoch()).count();
}

void fill_by_period(std::vector<uint8_t> &data, const std::function<uint8_t(uint64_t)> &value) {
    uint64_t filled = std::min<uint64_t>(data.size(), kPeriod);
    for (uint64_t i = 0; i < filled; i++)
        data[i] = value(i);
    for (uint64_t part; filled < data.size(); filled += part) {
        part = std::min(filled / kPeriod * kPeriod, data.size() - filled);
        std::memcpy(data.data() + filled, data.data(), part);
    }
}

void in_child(const std::function<void()> &body) {
    fflush(nullptr);
    const pid_t child = fork();
    if (child == 0) {
        alarm(60);
        body();
        exit(testing::Test::HasFailure() ? kFailed : 0);
    }
    int ended = 0;
    ASSERT_GT(child, 0);
    ASSERT_EQ(waitpid(child, &ended, 0), child);
    EXPECT_TRUE(WIFEXITED(ended) && WEXITSTATUS(ended) == 0) << "the child ended with " << ended;
}

std::string told(gcoll_status status) {
    if (status == GCOLL_OK)
        return "ok";
    return std::string(gcoll_status_text(status)) + ": " + gcoll_last_error();
}

bool await(const std::atomic<uint32_t> &flag, uint32_t value, int64_t limit_ms) {
    int64_t end = now_ms() + limit_ms;
    while (flag.load() < value) {
        if (now_ms() >= end)
            return false;
        std::this_thread::sleep_for(kNap);
    }
    return true;
}

std::vector<std::string> algorithms(const char *collective) {
    std::vector<std::string> names;
    const char *name = nullptr;
    for (uint32_t i = 0; gcoll_algorithm_at(collective, i, &name, nullptr) == GCOLL_OK; i++)
        if (std::string(name) != "tour_ring") // needs a tuning file: tuning_context_test
            names.push_back(name);
    return names;
}

// ---- Watchdog -------------------------------------------------------------------------------------------

Watchdog::Watchdog(int seconds)
    : thread_([this, seconds] {
          std::unique_lock<std::mutex> guard(lock_);
          if (changed_.wait_for(guard, std::chrono::seconds(seconds), [this] { return over_; }))
              return;
          fprintf(stderr, "still running after %d seconds: given up\n", seconds);
          abort();
      }) {}

Watchdog::~Watchdog() {
    {
        std::lock_guard<std::mutex> guard(lock_);
        over_ = true;
    }
    changed_.notify_all();
    thread_.join();
}

// ---- Folder ---------------------------------------------------------------------------------------------

Folder::Folder() {
    std::string path = (std::filesystem::temp_directory_path() / "gcoll-test-XXXXXX").string();
    if (!mkdtemp(path.data()))
        abort();
    path_ = path;
}

Folder::~Folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
}

std::vector<std::string> Folder::files() const {
    std::vector<std::string> found;
    for (const auto &entry : std::filesystem::recursive_directory_iterator(path_))
        if (!entry.is_directory())
            found.push_back(entry.path().lexically_relative(path_).string()); // the file may be gone by now
    std::sort(found.begin(), found.end());
    return found;
}

// ---- Threads --------------------------------------------------------------------------------------------

std::vector<const char *> transports_to_test() {
    const char *given = getenv("GCOLL_TEST_TRANSPORTS");
    const std::string wanted = given && *given ? std::string(",") + given + "," : ",inproc,tcp,";
    std::vector<const char *> found;
    size_t characters = 1;
    for (const char *name : {"inproc", "tcp", "ibverbs", "shm"})
        if (wanted.find(std::string(",") + name + ",") != std::string::npos) {
            found.push_back(name);
            characters += strlen(name) + 1;
        }
    if (characters != wanted.size() || found.empty()) {
        fprintf(stderr, "GCOLL_TEST_TRANSPORTS: '%s'; allowed are inproc, tcp, ibverbs, shm\n", given);
        exit(2);
    }
    return found;
}

const char *process_transport() {
    const char *last = transports_to_test().back();
    return strcmp(last, "inproc") == 0 ? "tcp" : last;
}

gcoll_context_options options_of(const Job &job, uint32_t rank, gcoll_store *store, gcoll_hub *hub) {
    gcoll_context_options options;
    gcoll_context_options_init(&options);
    options.rank = rank;
    options.size = job.size;
    options.store = store;
    options.hub = hub;
    options.job = job.name;
    options.transport = job.transport;
    options.timeout_ms = job.timeout_ms;
    options.same = job.same;
    options.tuning = "default"; // the choice must not depend on what this machine measures
    const char *checksum = getenv("GCOLL_TEST_CHECKSUM");
    options.checksum = checksum && std::string(checksum) == "1";
    if (job.adjust)
        job.adjust(rank, &options);
    if (options.cost) // says all
        options.tuning = nullptr;
    return options;
}

// Odd ranks destroy the parent before its child, and even ranks after it.
void Group::make(const Job &job, uint32_t rank) {
    gcoll_context_options options = options_of(job, rank, store_, hub_);
    const char *shared = getenv("GCOLL_TEST_SHARE");
    if (!shared || !options.transport || strcmp(options.transport, "tcp") != 0 || options.progress_thread) {
        EXPECT_GCOLL_OK(gcoll_context_create(&options, &contexts_[rank]));
        return;
    }
    options.transport = shared;
    options.share = 1;
    EXPECT_GCOLL_OK(gcoll_context_create(&options, &parents_[rank]));
    if (parents_[rank])
        EXPECT_GCOLL_OK(gcoll_context_duplicate(parents_[rank], &contexts_[rank]));
    if (rank % 2 == 1) {
        gcoll_context_destroy(parents_[rank]);
        parents_[rank] = nullptr;
    }
}

Group::Group(const Job &job) : contexts_(job.size, nullptr), parents_(job.size, nullptr) {
    EXPECT_GCOLL_OK(gcoll_store_memory_create(&store_));
    EXPECT_GCOLL_OK(gcoll_hub_create(job.size, &hub_));
    if (job.prepare)
        job.prepare(hub_);
    std::vector<std::thread> threads;
    for (uint32_t rank = 0; rank < job.size; rank++)
        threads.emplace_back([this, &job, rank] { make(job, rank); });
    for (std::thread &thread : threads)
        thread.join();
}

void Group::leave(uint32_t rank) {
    for (std::vector<gcoll_context *> *each : {&contexts_, &parents_}) {
        gcoll_context_destroy((*each)[rank]);
        (*each)[rank] = nullptr;
    }
}

Group::~Group() {
    // In threads, because a rank that leaves may wait until the others have taken its data.
    std::vector<std::thread> threads;
    for (uint32_t rank = 0; rank < contexts_.size(); rank++)
        threads.emplace_back([this, rank] { leave(rank); });
    for (std::thread &thread : threads)
        thread.join();
    gcoll_hub_destroy(hub_);
    gcoll_store_destroy(store_);
}

bool Group::drive(std::vector<gcoll_operation *> operations, int turns) {
    for (int turn = 0; turn < turns && !operations.empty(); turn++) {
        for (size_t i = 0; i < operations.size();) {
            int done = 0;
            gcoll_status status = gcoll_operation_test(operations[i], &done);
            if (status != GCOLL_OK) {
                ADD_FAILURE() << told(status);
                return false;
            }
            if (done)
                operations.erase(operations.begin() + static_cast<std::ptrdiff_t>(i));
            else
                i++;
        }
    }
    return operations.empty();
}

void run_threads(const Job &job, const Body &body) {
    Watchdog watchdog(kThreadsLimit);
    Group group(job);
    std::vector<std::thread> threads;
    for (uint32_t rank = 0; rank < job.size; rank++)
        threads.emplace_back([&group, &body, rank] {
            if (group[rank])
                body(rank, group[rank]);
            group.leave(rank);
        });
    for (std::thread &thread : threads)
        thread.join();
}

void run_threads(uint32_t size, const char *transport, const Body &body) {
    Job job;
    job.size = size;
    job.transport = transport;
    run_threads(job, body);
}

NoLaunch::NoLaunch() : name_(getenv("GCOLL_LAUNCH")) {
    unsetenv("GCOLL_LAUNCH");
}

NoLaunch::~NoLaunch() {
    setenv("GCOLL_LAUNCH", name_.c_str(), 1);
}

// ---- Processes ------------------------------------------------------------------------------------------

Processes::Processes(uint32_t size, const Main &main) {
    for (uint32_t rank = 0; rank < size; rank++) {
        fflush(nullptr); // else the child would write the same text again
        pid_t parent = getpid();
        pid_t pid = fork();
        if (pid == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL); // no child outlives a test that was killed
            if (getppid() != parent)
                _exit(kFailed);
            int code = main(rank);
            exit(testing::Test::HasFailure() ? kFailed : code);
        }
        EXPECT_GT(pid, 0) << "fork";
        pids_.push_back(pid);
    }
}

void Processes::signal(uint32_t rank, int number) {
    if (pids_[rank] > 0)
        kill(pids_[rank], number);
}

Outcome Processes::wait(uint32_t rank, int64_t limit_ms) {
    Outcome outcome;
    if (pids_[rank] <= 0)
        return outcome;
    int64_t end = now_ms() + limit_ms;
    int state = 0;
    outcome.ended = true;
    while (waitpid(pids_[rank], &state, WNOHANG) == 0) {
        if (now_ms() >= end) {
            outcome.ended = false;
            kill(pids_[rank], SIGKILL);
            waitpid(pids_[rank], &state, 0);
            break;
        }
        std::this_thread::sleep_for(kNap);
    }
    pids_[rank] = 0;
    if (WIFEXITED(state))
        outcome.code = WEXITSTATUS(state);
    if (WIFSIGNALED(state))
        outcome.signal = WTERMSIG(state);
    return outcome;
}

void Processes::expect_success(int64_t limit_ms, int64_t except) {
    int64_t end = now_ms() + limit_ms;
    for (uint32_t rank = 0; rank < pids_.size(); rank++) {
        if (rank == except)
            continue;
        Outcome outcome = wait(rank, std::max<int64_t>(end - now_ms(), 0));
        EXPECT_TRUE(outcome.ended) << "rank " << rank << " still ran after " << limit_ms << " ms";
        EXPECT_EQ(outcome.code, 0) << "rank " << rank << ", signal " << outcome.signal;
    }
}

Processes::~Processes() {
    for (uint32_t rank = 0; rank < pids_.size(); rank++)
        wait(rank, 0);
}

gcoll_context *join(gcoll_store *store, const Job &job, uint32_t rank) {
    gcoll_context_options options = options_of(job, rank, store, nullptr);
    options.transport = process_transport();
    gcoll_context *context = nullptr;
    EXPECT_GCOLL_OK(gcoll_context_create(&options, &context));
    return context;
}

void run_processes(uint32_t size, int64_t limit_ms,
                   const std::function<int(uint32_t rank, gcoll_store *store)> &main) {
    Folder folder;
    Processes processes(size, [&](uint32_t rank) {
        gcoll_store *store = nullptr;
        EXPECT_GCOLL_OK(gcoll_store_open(folder.url().c_str(), limit_ms, &store));
        int code = store ? main(rank, store) : kFailed;
        gcoll_store_destroy(store);
        return code;
    });
    processes.expect_success(limit_ms);
    EXPECT_EQ(folder.files(), std::vector<std::string>()) << "left behind in the store";
}

} // namespace gcoll_test
