// test/train_support.h - examples/train as a process, and what it prints.
#ifndef GCOLL_TEST_TRAIN_SUPPORT_H
#define GCOLL_TEST_TRAIN_SUPPORT_H

#include <iterator>

#include "test/program.h"

namespace train_test {

using program_test::contains;
using program_test::folder;
using program_test::lines;
using program_test::outcome;
using program_test::strings;

// Small: some 3000 parameters.
inline strings small(const strings &more) {
    strings all = {"--channels", "4",        "--images", "50",      "--test-images",
                   "20",         "--epochs", "1",        "--batch", "4"};
    all.insert(all.end(), more.begin(), more.end());
    return all;
}

inline outcome train(const strings &arguments, const strings &environment = {}) {
    return program_test::run(TRAIN, arguments, environment);
}

inline strings words(const std::string &line) {
    std::istringstream stream(line);
    return {std::istream_iterator<std::string>(stream), {}};
}

// A column of the table of the whole, which stands last.
inline std::string result(const outcome &o, size_t column) {
    const strings all = lines(o.out);
    const strings last = all.empty() ? strings() : words(all.back());
    EXPECT_EQ(last.size(), 8U) << o.out << o.err;
    return last.size() == 8 ? last[column] : "";
}
inline std::string algorithm(const outcome &o) {
    return result(o, 0);
}
inline double accuracy(const outcome &o) {
    return std::atof(result(o, 6).c_str());
}
inline std::string weights(const outcome &o) {
    return result(o, 7);
}

// The losses of an epoch: of training and of the test.
struct losses {
    double training, test;
};
inline losses losses_of(const outcome &o, int epoch) {
    for (const std::string &line : lines(o.out)) {
        int number;
        losses found;
        if (std::sscanf(line.c_str(), "epoch %d/%*d training: loss %lf, %*f %% right test: loss %lf", &number,
                        &found.training, &found.test) == 3 &&
            number == epoch)
            return found;
    }
    ADD_FAILURE() << "no epoch " << epoch << " in\n" << o.out << o.err;
    return {};
}

inline void expect_good(const outcome &o) {
    EXPECT_EQ(o.status, 0) << o.out << o.err;
    EXPECT_EQ(o.err, "");
}

} // namespace train_test

#endif
