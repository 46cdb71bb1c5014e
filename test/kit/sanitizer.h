// test/kit/sanitizer.h - tells whether a sanitizer watches this test program.
//
// Asked when the program runs: the tests' own C++ is compiled alike for the plain build and for
// AddressSanitizer, so that one object serves both. The library itself is C, and is always instrumented.
#ifndef TEST_KIT_SANITIZER_H
#define TEST_KIT_SANITIZER_H

extern "C" {
void __asan_init() __attribute__((weak));
void __tsan_init() __attribute__((weak));
}

namespace gcoll_test {

// Whether AddressSanitizer or ThreadSanitizer watches, under which programs take ten times as long.
inline bool is_sanitized() {
    return &__asan_init || &__tsan_init;
}

} // namespace gcoll_test

#endif
