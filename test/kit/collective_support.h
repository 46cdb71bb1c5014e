// test/kit/collective_support.h - lists of algorithms and test values, shared by the tests of collectives.
#ifndef GCOLL_TEST_COLLECTIVE_SUPPORT_H
#define GCOLL_TEST_COLLECTIVE_SUPPORT_H

#include <string>
#include <tuple>
#include <vector>

#include "test/kit/harness.h"

namespace collective_support {

inline uint64_t mix(uint64_t x) {
    x += 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

inline uint32_t ceil_log2(uint32_t n) {
    uint32_t bits = 0;
    while ((1u << bits) < n)
        bits++;
    return bits;
}

// Texts of every allreduce algorithm, with every r, and with segments that divide no count evenly.
inline std::vector<std::string> allreduce_texts(uint32_t size) {
    std::vector<std::string> texts = {"auto"};
    for (const std::string &name : gcoll_test::algorithms("allreduce")) {
        texts.push_back(name);
        texts.push_back(name + ":segment=100");
    }
    for (uint32_t r = 0; r <= ceil_log2(size); r++)
        texts.push_back("group_butterfly:r=" + std::to_string(r));
    texts.push_back("group_butterfly:r=1:segment=36");
    return texts;
}

inline gcoll_allreduce_options by(const char *algorithm) {
    gcoll_allreduce_options options;
    gcoll_allreduce_options_init(&options);
    options.algorithm = algorithm;
    return options;
}

// Gives a small integer, so that sums are exact in any order.
inline float small(uint32_t contribution, uint64_t i) {
    return static_cast<float>(mix(contribution * 1000003u + i) % 11) - 5;
}

inline std::vector<double> small_sums(uint32_t contributions, uint64_t count) {
    std::vector<double> sums(count, 0);
    for (uint32_t c = 0; c < contributions; c++)
        for (uint64_t i = 0; i < count; i++)
            sums[i] += small(c, i);
    return sums;
}

using Place = std::tuple<uint32_t, const char *>; // ranks, transport

inline std::string place_name(const testing::TestParamInfo<Place> &info) {
    return std::string(std::get<1>(info.param)) + "_" + std::to_string(std::get<0>(info.param));
}

enum Form { kBlocking, kStarted, kPersistent };

} // namespace collective_support

// Calls gcoll_NAME(arguments) in one of its forms, and waits for its end.
#define CALL(form, name, ...)                                                                                \
    [&]() -> gcoll_status {                                                                                  \
        if ((form) == collective_support::kBlocking)                                                         \
            return gcoll_##name(__VA_ARGS__);                                                                \
        if ((form) == collective_support::kStarted) {                                                        \
            gcoll_request *request = nullptr;                                                                \
            gcoll_status begun = gcoll_##name##_start(__VA_ARGS__, &request);                                \
            return begun != GCOLL_OK ? begun : gcoll_request_wait(&request);                                 \
        }                                                                                                    \
        gcoll_operation *operation = nullptr;                                                                \
        gcoll_status made = gcoll_##name##_create(__VA_ARGS__, &operation);                                  \
        for (int run = 0; run < 2 && made == GCOLL_OK; run++)                                                \
            made = gcoll_operation_run(operation);                                                           \
        gcoll_operation_destroy(operation);                                                                  \
        return made;                                                                                         \
    }()

#endif
