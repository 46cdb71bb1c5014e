// test/kit/descriptors.h - counts this process's open descriptors and its mappings, for tests that must leave
// none behind.
#ifndef GCOLL_TEST_DESCRIPTORS_H
#define GCOLL_TEST_DESCRIPTORS_H

#include <cstddef>
#include <cstdint>
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

} // namespace gcoll_test

#endif
