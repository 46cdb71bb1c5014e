// test/kit/descriptors.h - counts this process's open descriptors and its mappings, for tests that must leave
// none behind, and tells whether the kernel can keep mappings from children.
#ifndef GCOLL_TEST_DESCRIPTORS_H
#define GCOLL_TEST_DESCRIPTORS_H

#include <gtest/gtest.h>

#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

namespace gcoll_test {

// Includes the one that this function reads the folder by.
inline size_t open_descriptors() {
    using Entries = std::filesystem::directory_iterator;
    return static_cast<size_t>(std::distance(Entries("/proc/self/fd"), Entries()));
}

inline uint32_t lines_with(const char *path, const char *text) {
    std::ifstream file(path);
    uint32_t count = 0;
    for (std::string line; std::getline(file, line);)
        count += line.find(text) != std::string::npos;
    return count;
}

// Those of files with that text in their names.
inline uint32_t mappings(const char *text) {
    return lines_with("/proc/self/maps", text);
}

// Whether a forked child does not have memory of which that was asked. Emulators may leave that out.
inline bool can_keep_from_children() {
    const size_t bytes = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    void *at = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    EXPECT_NE(at, MAP_FAILED);
    const bool is_asked = madvise(at, bytes, MADV_DONTFORK) == 0;
    fflush(nullptr);
    const pid_t child = fork();
    if (child == 0)
        _exit(msync(at, bytes, MS_ASYNC) == 0 ? 1 : 0);
    int ended = 0;
    EXPECT_EQ(waitpid(child, &ended, 0), child);
    munmap(at, bytes);
    return is_asked && WIFEXITED(ended) && WEXITSTATUS(ended) == 0;
}

} // namespace gcoll_test

#endif
