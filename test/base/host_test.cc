// gcoll/base/host.c: who shares a host, and who its processors.
#include <gtest/gtest.h>

#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>

extern "C" {
#include "gcoll/base/base.h"
}

namespace {

constexpr int kCannot = 77;

struct identities {
    uint64_t host = gcoll_host_identity(), processors = gcoll_processors_identity();
};

// What a process sees that has gone elsewhere; false if it could not.
bool elsewhere(const std::function<bool()> &go, identities *seen) {
    int ends[2];
    EXPECT_EQ(pipe(ends), 0);
    pid_t pid = fork();
    if (pid == 0) {
        identities now;
        bool there = go();
        now = identities();
        bool told = there && write(ends[1], &now, sizeof now) == static_cast<ssize_t>(sizeof now);
        _exit(told ? 0 : kCannot);
    }
    int status = 0;
    EXPECT_EQ(waitpid(pid, &status, 0), pid);
    bool came = WIFEXITED(status) && WEXITSTATUS(status) == 0 &&
                read(ends[0], seen, sizeof *seen) == static_cast<ssize_t>(sizeof *seen);
    close(ends[0]);
    close(ends[1]);
    return came;
}

TEST(Host, IsTheSameForEveryProcess) {
    identities here, there;
    ASSERT_TRUE(elsewhere([] { return true; }, &there));
    EXPECT_EQ(here.host, there.host);
    EXPECT_EQ(here.processors, there.processors);
    EXPECT_NE(here.host, here.processors);
}

TEST(Host, IsAnotherInAnotherNetworkNamespace) {
    identities here, there;
    if (!elsewhere([] { return unshare(CLONE_NEWUSER | CLONE_NEWNET) == 0; }, &there))
        GTEST_SKIP() << "the kernel does not let this user make network namespaces";
    EXPECT_NE(here.host, there.host);
    EXPECT_EQ(here.processors, there.processors) << "they are still this machine's";
}

TEST(Host, ProcessorsAreOthersForOnePinnedToOne) {
    identities here, there;
    cpu_set_t set;
    ASSERT_EQ(sched_getaffinity(0, sizeof set, &set), 0);
    if (CPU_COUNT(&set) < 2)
        GTEST_SKIP() << "this process has one processor";
    ASSERT_TRUE(elsewhere(
        [&] {
            int first = 0;
            while (!CPU_ISSET(first, &set))
                first++;
            CPU_ZERO(&set);
            CPU_SET(first, &set);
            return sched_setaffinity(0, sizeof set, &set) == 0;
        },
        &there));
    EXPECT_EQ(here.host, there.host);
    EXPECT_NE(here.processors, there.processors);
}

} // namespace
