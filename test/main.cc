// test/main.cc - main of all test programs, and what ThreadSanitizer must know about libraries that it does
// not see into.
#include <gtest/gtest.h>

#include <cstdio>

// libuv closes descriptors by a bare system call, so the sanitizer takes the next use of that number, by
// another thread, for a race with the one before. This ignores calls that libuv makes itself; ours stay
// checked.
extern "C" __attribute__((visibility("default"))) const char *__tsan_default_suppressions() {
    return "called_from_lib:libuv.so\n";
}

// Exit status 77, which ctest shows as skipped: every selected case was skipped. A misspelt flag, and a
// filter that selects nothing, are errors: they must not look like a success.
int main(int argc, char **argv) {
    testing::InitGoogleTest(&argc, argv);
    if (argc > 1) {
        fprintf(stderr, "%s: found '%s'; allowed are the flags of GoogleTest (--help)\n", argv[0], argv[1]);
        return 2;
    }
    const int status = RUN_ALL_TESTS();
    if (testing::GTEST_FLAG(list_tests) || status != 0)
        return status;
    const testing::UnitTest &all = *testing::UnitTest::GetInstance();
    if (all.test_to_run_count() == 0) {
        fprintf(stderr, "%s: no case was run; filter '%s'\n", argv[0], testing::GTEST_FLAG(filter).c_str());
        return 2;
    }
    return all.skipped_test_count() == all.test_to_run_count() ? 77 : 0;
}
