// test/kit/setting.h - a number that the environment may change, for longer runs and slower machines.
#ifndef TEST_KIT_SETTING_H
#define TEST_KIT_SETTING_H

#include <cstdint>
#include <cstdlib>

namespace gcoll_test {

// The environment's value of that name, or the usual one.
inline uint32_t setting(const char *name, uint32_t usual) {
    const char *given = std::getenv(name);
    return given ? static_cast<uint32_t>(std::strtoul(given, nullptr, 10)) : usual;
}

} // namespace gcoll_test

#endif
