// test/kit/file_size_limit.h - a limit of file sizes (ulimit -f) for a while.
#ifndef GCOLL_TEST_FILE_SIZE_LIMIT_H
#define GCOLL_TEST_FILE_SIZE_LIMIT_H

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>

#include <algorithm>
#include <cstdint>

namespace gcoll_test {

// While it lasts, files of this process may have so many bytes. Who writes more gets a signal, which would
// end the process, and is counted as a failure of the test.
class FileSizeLimit {
  public:
    explicit FileSizeLimit(uint64_t bytes) {
        struct sigaction fails = {};
        fails.sa_handler = [](int) { exceeded_ = 1; };
        exceeded_ = 0;
        EXPECT_EQ(sigaction(SIGXFSZ, &fails, &usual_), 0);
        EXPECT_EQ(getrlimit(RLIMIT_FSIZE, &before_), 0);
        rlimit low = before_;
        low.rlim_cur = std::min<rlim_t>(before_.rlim_max, bytes);
        EXPECT_EQ(setrlimit(RLIMIT_FSIZE, &low), 0);
    }
    ~FileSizeLimit() {
        EXPECT_EQ(setrlimit(RLIMIT_FSIZE, &before_), 0);
        EXPECT_EQ(sigaction(SIGXFSZ, &usual_, nullptr), 0);
        EXPECT_EQ(exceeded_, 0) << "a file was written beyond the limit of file sizes";
    }
    FileSizeLimit(const FileSizeLimit &) = delete;
    FileSizeLimit &operator=(const FileSizeLimit &) = delete;

  private:
    static inline volatile sig_atomic_t exceeded_;
    rlimit before_ = {};
    struct sigaction usual_ = {};
};

} // namespace gcoll_test

#endif
