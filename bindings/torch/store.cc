// bindings/torch/store.cc - lets gcoll's ranks meet in a store of torch.distributed: a gcoll_store whose
// functions call a c10d::Store.
#include "store.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

namespace gcoll_torch {

using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

std::string first_line(const std::exception &error) {
    const std::string text = error.what();
    return text.substr(0, text.find('\n'));
}

static gcoll_status failed(const std::exception &error) {
    return gcoll_store_error(GCOLL_ERR_IO, ("torch's store: " + first_line(error)).c_str());
}

static gcoll_status set_key(void *self, const char *key, const void *value, size_t bytes) {
    const auto *const begin = static_cast<const uint8_t *>(value);
    try {
        static_cast<c10d::Store *>(self)->set(key, std::vector<uint8_t>(begin, begin + bytes));
        return GCOLL_OK;
    } catch (const std::exception &error) {
        return failed(error);
    }
}

// Asks again and again whether the key is there. A wait with a time limit would not do: after one that ends
// by its limit, the connection of torch 1.13's TCPStore gives the answer to the next request.
static bool appears(c10d::Store *store, const char *key, int64_t timeout_ms) {
    const auto deadline = Clock::now() + milliseconds(timeout_ms);
    auto pause = std::chrono::microseconds(100);
    const std::vector<std::string> keys = {key};
    while (!store->check(keys)) {
        if (Clock::now() >= deadline)
            return false;
        std::this_thread::sleep_for(pause);
        pause = std::min(pause * 2, std::chrono::microseconds(5000));
    }
    return true;
}

static gcoll_status get_key(void *self, const char *key, void *value, size_t capacity, size_t *bytes,
                            int64_t timeout_ms) {
    auto *const store = static_cast<c10d::Store *>(self);
    try {
        if (!appears(store, key, timeout_ms))
            return gcoll_store_error(GCOLL_ERR_TIMEOUT, "torch's store: the key has not come in time");
        const std::vector<uint8_t> got = store->get(key);
        if (got.size() > capacity)
            return gcoll_store_error(GCOLL_ERR_INVALID, "torch's store: the value is longer than its room");
        if (!got.empty())
            memcpy(value, got.data(), got.size());
        *bytes = got.size();
        return GCOLL_OK;
    } catch (const std::exception &error) {
        return failed(error);
    }
}

gcoll_status create_store(c10d::Store *store, gcoll_store **result) {
    static const gcoll_store_ops ops = [] {
        gcoll_store_ops table;
        memset(&table, 0, sizeof table);
        table.struct_size = sizeof table;
        table.name = "torch";
        table.set = set_key;
        table.get_wait = get_key;
        return table;
    }();
    return gcoll_store_create(&ops, store, result);
}

} // namespace gcoll_torch
