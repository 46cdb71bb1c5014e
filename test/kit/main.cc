// test/kit/main.cc - main of all test programs, and what ThreadSanitizer must know about libraries that it
// does not see into.
#include <gtest/gtest.h>
#include <regex.h>

#include <cstdio>
#include <cstdlib>
#include <string>

// libuv closes descriptors by a bare system call, so the sanitizer takes the next use of that number, by
// another thread, for a race with the one before. This ignores calls that libuv makes itself; ours stay
// checked.
extern "C" __attribute__((visibility("default"))) const char *__tsan_default_suppressions() {
    return "called_from_lib:libuv.so\n";
}

// Whether only such cases were skipped as the regular expression in $GCOLL_SKIPS_ALLOWED finds; without it,
// any may be. The gate sets it: a package or a right that is missing must not look like a success there.
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
    if (!skips_are_allowed(all))
        return 1;
    return all.skipped_test_count() == all.test_to_run_count() ? 77 : 0;
}
