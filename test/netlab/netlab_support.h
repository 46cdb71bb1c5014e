// test/netlab/netlab_support.h - a lab of hosts, and what its ranks said.
#ifndef GCOLL_TEST_NETLAB_SUPPORT_H
#define GCOLL_TEST_NETLAB_SUPPORT_H

#include "test/benchmark/bench_support.h"

namespace netlab_test {

using namespace bench_test;

// Where no lab can be made, tests say why and are skipped.
class Netlab : public testing::Test {
  protected:
    void SetUp() override {
        outcome check = run({"check"}, {}, NETLAB);
        if (check.status == 69)
            GTEST_SKIP() << check.err;
        ASSERT_EQ(check.status, 0) << check.err;
        EXPECT_EQ(check.out, "netlab: a lab can be made here\n");
    }

    // Labs' folders are made in it; none may stay.
    folder temporary;

    strings environment() const { return {"TMPDIR=" + temporary.path}; }
    outcome lab(const strings &arguments) const { return run(arguments, environment(), NETLAB); }
};

// What one rank said.
inline std::string said(const folder &place, int rank, const char *kind = "out") {
    std::ifstream file(place.path + "/" + std::to_string(rank) + "." + kind);
    return {std::istreambuf_iterator<char>(file), {}};
}

} // namespace netlab_test

#endif
