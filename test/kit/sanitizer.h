// test/kit/sanitizer.h - tells whether a sanitizer watches this test program, and whether it is to be short.
//
// Asked when the program runs: the tests' own C++ is compiled alike for the plain build and for
// AddressSanitizer, so that one object serves both. The library itself is C, and is always instrumented.
#ifndef TEST_KIT_SANITIZER_H
#define TEST_KIT_SANITIZER_H

#include <cstdint>
#include <cstdlib>

extern "C" {
void __asan_init() __attribute__((weak));
void __tsan_init() __attribute__((weak));
}

namespace gcoll_test {

// Whether AddressSanitizer or ThreadSanitizer watches, under which programs take ten times as long.
inline bool is_sanitized() {
    return &__asan_init || &__tsan_init;
}

// How often to repeat something, or with how many seeds: less under a sanitizer, for which the rest shows
// nothing new, unless GCOLL_TEST_WHOLE is set, as .ci/full sets it.
inline uint32_t repeats(uint32_t usual, uint32_t sanitized) {
    return is_sanitized() && !std::getenv("GCOLL_TEST_WHOLE") ? sanitized : usual;
}

// Whether grids and mutations are to be cut: under a sanitizer, and where GCOLL_TEST_SHORT is set,
// as it is for the tests NAME.short (test/CMakeLists.txt).
inline bool is_short() {
    return is_sanitized() || std::getenv("GCOLL_TEST_SHORT");
}

} // namespace gcoll_test

#endif
