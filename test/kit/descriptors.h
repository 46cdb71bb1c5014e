// test/kit/descriptors.h - counts this process's open descriptors, for tests that must leave none behind.
#ifndef GCOLL_TEST_DESCRIPTORS_H
#define GCOLL_TEST_DESCRIPTORS_H

#include <cstddef>
#include <filesystem>
#include <iterator>

namespace gcoll_test {

// Includes the one that this function reads the folder by.
inline size_t open_descriptors() {
    using Entries = std::filesystem::directory_iterator;
    return static_cast<size_t>(std::distance(Entries("/proc/self/fd"), Entries()));
}

} // namespace gcoll_test

#endif
