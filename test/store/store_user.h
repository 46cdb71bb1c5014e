// test/store/store_user.h - a store that a user implements: the simplest correct one.
#ifndef GCOLL_TEST_STORE_USER_H
#define GCOLL_TEST_STORE_USER_H

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <string>

#include "gcoll/store.h"

namespace store_support {

struct UserStore {
    std::mutex lock;
    std::condition_variable changed;
    std::map<std::string, std::string> values;
};

inline gcoll_status user_set(void *self, const char *key, const void *value, size_t bytes) {
    auto *user = static_cast<UserStore *>(self);
    std::lock_guard<std::mutex> guard(user->lock);
    user->values[key] = std::string(static_cast<const char *>(value), bytes);
    user->changed.notify_all();
    return GCOLL_OK;
}

inline gcoll_status user_get(void *self, const char *key, void *value, size_t capacity, size_t *bytes) {
    auto *user = static_cast<UserStore *>(self);
    std::lock_guard<std::mutex> guard(user->lock);
    auto found = user->values.find(key);
    if (found == user->values.end())
        return gcoll_store_error(GCOLL_ERR_NOT_FOUND, (std::string("user store has no key ") + key).c_str());
    if (found->second.size() > capacity)
        return gcoll_store_error(GCOLL_ERR_INVALID, (std::string("user store: no room for ") + key).c_str());
    memcpy(value, found->second.data(), found->second.size());
    *bytes = found->second.size();
    return GCOLL_OK;
}

inline gcoll_status user_wait(void *self, const char *key, int64_t timeout_ms) {
    auto *user = static_cast<UserStore *>(self);
    std::unique_lock<std::mutex> guard(user->lock);
    // Waits by the system clock, because ThreadSanitizer of GCC 12 does not know a wait by the steady clock.
    auto until =
        std::chrono::system_clock::now() + std::chrono::milliseconds(std::min<int64_t>(timeout_ms, 60000));
    if (user->changed.wait_until(guard, until, [&] { return user->values.count(key) > 0; }))
        return GCOLL_OK;
    return gcoll_store_error(GCOLL_ERR_TIMEOUT, (std::string("user store: timed out on ") + key).c_str());
}

inline gcoll_status user_add(void *self, const char *key, int64_t delta, int64_t *value) {
    auto *user = static_cast<UserStore *>(self);
    std::lock_guard<std::mutex> guard(user->lock);
    auto found = user->values.find(key);
    long long old = 0;
    if (found != user->values.end()) {
        char *end = nullptr;
        old = strtoll(found->second.c_str(), &end, 10);
        if (found->second != std::to_string(old))
            return gcoll_store_error(GCOLL_ERR_INVALID, (std::string("no number at ") + key).c_str());
    }
    long long sum;
    if (__builtin_add_overflow(old, static_cast<long long>(delta), &sum))
        return gcoll_store_error(GCOLL_ERR_INVALID, (std::string("overflow at ") + key).c_str());
    user->values[key] = std::to_string(sum);
    user->changed.notify_all();
    *value = sum;
    return GCOLL_OK;
}

inline gcoll_status user_remove(void *self, const char *key) {
    auto *user = static_cast<UserStore *>(self);
    std::lock_guard<std::mutex> guard(user->lock);
    user->values.erase(key);
    return GCOLL_OK;
}

inline void user_destroy(void *self) {
    delete static_cast<UserStore *>(self);
}

inline const gcoll_store_ops user_ops = {sizeof(gcoll_store_ops),
                                         "user",
                                         user_set,
                                         user_get,
                                         user_wait,
                                         user_add,
                                         user_remove,
                                         user_destroy,
                                         nullptr,
                                         nullptr,
                                         nullptr,
                                         nullptr};

} // namespace store_support

#endif
