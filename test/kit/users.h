// test/kit/users.h - whether a test may act as several users.
#ifndef TEST_KIT_USERS_H
#define TEST_KIT_USERS_H

#include <cstdint>
#include <fstream>
#include <unistd.h>

namespace gcoll_test {

// Whether this process is root and may be that user, and give files to it. In a user namespace, root may be
// the only user.
inline bool may_be(uid_t user) {
    std::ifstream map("/proc/self/uid_map");
    for (uint64_t inside, outside, count; map >> inside >> outside >> count;)
        if (user >= inside && user - inside < count)
            return geteuid() == 0;
    return false;
}

} // namespace gcoll_test

#endif // TEST_KIT_USERS_H
