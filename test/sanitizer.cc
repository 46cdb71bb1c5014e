// test/sanitizer.cc - what ThreadSanitizer must know about libraries that it does not see into.
//
// libuv closes descriptors by a bare system call, so the sanitizer takes the next use of that number, by
// another thread, for a race with the one before. This ignores calls that libuv makes itself; ours stay
// checked.
extern "C" __attribute__((visibility("default"))) const char *__tsan_default_suppressions() {
    return "called_from_lib:libuv.so\n";
}
