// test/kit/allocations.h - the allocations of the library and of the test itself, to be counted, or to fail.
//
// A test that uses this is linked with --wrap for each of the functions in allocations.cc.
#ifndef GCOLL_TEST_KIT_ALLOCATIONS_H
#define GCOLL_TEST_KIT_ALLOCATIONS_H

#include <atomic>
#include <cstdint>

namespace gcoll_test {

// What is allocated now.
extern std::atomic<int64_t> allocated_bytes;

// Of this thread: allocations until one fails; 0: none does. And how many have failed.
extern thread_local int64_t allocations_left, allocations_failed;

} // namespace gcoll_test

#endif
