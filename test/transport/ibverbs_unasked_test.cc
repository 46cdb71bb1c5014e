// test/transport/ibverbs_unasked_test.cc - when a program that named no transport gets ibverbs.
#include <gtest/gtest.h>

#include <linux/capability.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

extern "C" {
#include "transport/ibverbs/ib.h"
}

namespace {

struct IbverbsUnasked : testing::Test {
    void SetUp() override {
        unsetenv("IBV_FORK_SAFE");
        unsetenv("RDMAV_FORK_SAFE");
    }
    void TearDown() override { SetUp(); }
};

TEST_F(IbverbsUnasked, OldKernelsWantTheVariableOfForks) {
    for (const char *old : {"5.11.22-amd64", "4.19.0-27", "3.10.0-1160.el7.x86_64", "5.4", "", "newest"})
        EXPECT_FALSE(gcoll_ib_may_fork(old)) << old;
    for (const char *late : {"5.12.0", "5.15.167.4-microsoft", "6.1.0-18-amd64", "10.0"})
        EXPECT_TRUE(gcoll_ib_may_fork(late)) << late;
    for (const char *variable : {"IBV_FORK_SAFE", "RDMAV_FORK_SAFE"}) {
        setenv(variable, "1", 1);
        EXPECT_TRUE(gcoll_ib_may_fork("5.4.0"));
        unsetenv(variable);
    }
}

// In a child that may lock 8 MiB, and has the capability to lock more only if `is_able`.
bool is_refused(bool is_able) {
    const pid_t child = fork();
    if (child == 0) {
        const rlimit limit = {8 << 20, 8 << 20};
        __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
        __user_cap_data_struct held[_LINUX_CAPABILITY_U32S_3] = {};
        setenv("IBV_FORK_SAFE", "1", 1);
        if (setrlimit(RLIMIT_MEMLOCK, &limit) != 0 || syscall(SYS_capget, &header, held) != 0)
            _exit(2);
        if (!is_able)
            held[0].effective &= ~(1U << CAP_IPC_LOCK);
        else if (!(held[0].effective & (1U << CAP_IPC_LOCK)))
            _exit(0); // as this test has no such right, there is nothing to see
        if (syscall(SYS_capset, &header, held) != 0)
            _exit(2);
        const gcoll_status status = gcoll_ib_check_unasked();
        const bool says = std::string(gcoll_last_error()).find("ulimit -l") != std::string::npos;
        _exit(status == GCOLL_ERR_UNSUPPORTED && says ? 1 : status == GCOLL_OK ? 0 : 3);
    }
    int status = 0;
    EXPECT_EQ(waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) <= 1) << status;
    return WEXITSTATUS(status) == 1;
}

TEST_F(IbverbsUnasked, LimitedMemoryWantsAName) {
    EXPECT_TRUE(is_refused(false));
    EXPECT_FALSE(is_refused(true));
}

} // namespace
