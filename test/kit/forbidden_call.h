// test/kit/forbidden_call.h - a system call that fails, as a sandbox (seccomp) may have it.
#ifndef GCOLL_TEST_FORBIDDEN_CALL_H
#define GCOLL_TEST_FORBIDDEN_CALL_H

#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>

namespace gcoll_test {

// Makes a system call of this thread fail for as long as the thread lives, where its argument has this value;
// argument 6 and more: always. Returns what is lacking for that, or "".
inline std::string forbid(uint32_t call, uint32_t argument, uint32_t value, uint32_t error) {
    const bool is_any = argument > 5;
    sock_filter program[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, call, 0, 3),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
                 static_cast<uint32_t>(is_any ? offsetof(seccomp_data, nr)
                                              : offsetof(seccomp_data, args) + 8 * argument)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, is_any ? call : value, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | error),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    const sock_fprog filter = {sizeof program / sizeof *program, program};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
        syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &filter) == 0)
        return "";
    const int cause = errno;
    EXPECT_TRUE(cause == ENOSYS || cause == EINVAL) << strerror(cause); // a kernel, or emulator, without it
    return std::string("filters of system calls (seccomp): ") + strerror(cause);
}

} // namespace gcoll_test

#endif
