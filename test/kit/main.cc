// test/kit/main.cc - main of all test programs, and ThreadSanitizer's suppressions for libraries without
// instrumentation.
#include <gtest/gtest.h>
#include <regex.h>

#include <cstdio>
#include <cstdlib>
#include <string>

// libuv closes descriptors by a bare system call, which the sanitizer does not see. It then reports a race
// between the old use of a descriptor's number and another thread's next use. This suppresses calls that
// libuv makes itself. Our own calls stay checked.
extern "C" __attribute__((visibility("default"))) const char *__tsan_default_suppressions() {
    return "called_from_lib:libuv.so\n";
}

// Returns whether the regular expression in $GCOLL_SKIPS_ALLOWED finds every skipped case. Without the
// variable every case may be skipped. The gate sets it, so that a missing package or permission does not look
// like a success.
static bool skips_are_allowed(const testing::UnitTest &all) {
    const char *allowed = getenv("GCOLL_SKIPS_ALLOWED");
    regex_t pattern;
    if (!allowed)
        return true;
    if (regcomp(&pattern, allowed, REG_EXTENDED | REG_NOSUB) != 0) {
        fprintf(stderr, "GCOLL_SKIPS_ALLOWED: '%s' is no regular expression\n", allowed);
        return false;
    }
    bool are = true;
    for (int i = 0; i < all.total_test_suite_count(); i++)
        for (int k = 0; k < all.GetTestSuite(i)->total_test_count(); k++) {
            const testing::TestInfo *info = all.GetTestSuite(i)->GetTestInfo(k);
            const std::string name = std::string(info->test_suite_name()) + "." + info->name();
            if (!info->result()->Skipped() || regexec(&pattern, name.c_str(), 0, nullptr, 0) == 0)
                continue;
            fprintf(stderr, "%s was skipped; GCOLL_SKIPS_ALLOWED has only '%s'\n", name.c_str(), allowed);
            are = false;
        }
    regfree(&pattern);
    return are;
}

// Returns 77, which ctest shows as skipped, if every selected case was skipped. A misspelt flag, or a filter
// that selects nothing, is an error: it must not look like a success.
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
    if (!skips_are_allowed(all))
        return 1;
    return all.skipped_test_count() == all.test_to_run_count() ? 77 : 0;
}
