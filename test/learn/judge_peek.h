// What learning decides by, and a simulated job of which it hears the times: the oracle is the table of true
// times, which the judge never sees.
#ifndef GCOLL_TEST_JUDGE_PEEK_H
#define GCOLL_TEST_JUDGE_PEEK_H

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <set>
#include <utility>
#include <vector>

extern "C" {
#include "gcoll/learn/judge.h"
}

namespace judge_peek {

// One kind of call: what each candidate takes, and what the model says of it.
struct World {
    std::vector<double> ns;
    std::vector<double> predicted;
    std::vector<double> sent;       // bytes; empty: not known
    std::vector<uint32_t> variants; // of which candidate each is one; empty: none is
    double noise = 0;               // relative standard deviation
    double hiccups = 0;             // part of the calls that take several times as long
    double spread = 0;              // of the logarithm: ranks that wait for a processor take any time

    double call(uint32_t candidate, std::mt19937 &random) const {
        std::normal_distribution<double> bell(0, 1);
        double ns_now = ns[candidate] * std::max(0.3, 1 + noise * bell(random));
        if (std::uniform_real_distribution<double>(0, 1)(random) < hiccups)
            ns_now *= 5;
        return spread > 0 ? ns_now * std::exp(spread * bell(random)) : ns_now;
    }
};

// The model errs by a factor that is lognormal; candidates come in the order of its predictions.
inline World random_world(std::mt19937 &random, double error) {
    std::normal_distribution<double> bell(0, 1);
    const uint32_t count = 2 + random() % (GCOLL_LEARN_ALGORITHMS - 1);
    const double base = std::pow(10, 3 + 5 * std::uniform_real_distribution<double>(0, 1)(random));
    std::vector<std::pair<double, double>> both; // predicted, true
    for (uint32_t i = 0; i < count; i++) {
        const double ns = base * std::exp(std::abs(bell(random)) * 0.8);
        both.emplace_back(ns * std::exp(error * bell(random)) * 1e-9, ns);
    }
    std::sort(both.begin(), both.end());
    World world;
    for (const auto &[predicted, ns] : both) {
        world.predicted.push_back(predicted);
        world.ns.push_back(ns);
    }
    return world;
}

// The calls of a job, as all its ranks see them.
class Job {
  public:
    Job(const World &world, uint32_t seed) : world_(world), random_(seed) {
        gcoll_judge_begin(&judge, world.predicted.data(), world.sent.empty() ? nullptr : world.sent.data(),
                          world.variants.empty() ? nullptr : world.variants.data(),
                          static_cast<uint32_t>(world.predicted.size()));
        lesson = gcoll_lesson_first();
        begin();
    }

    double call() {
        number++;
        if (number == gcoll_lesson_end(&lesson)) {
            lesson = next_;
            begin();
        }
        const uint32_t candidate = gcoll_lesson_candidate(&lesson, number);
        const uint32_t sample = gcoll_lesson_sample(&lesson, number);
        tried.insert(candidate);
        truly += world_.ns[candidate];
        const double ns = world_.call(candidate, random_);
        if (sample != GCOLL_LEARN_NONE) {
            EXPECT_LT(sample, samples_.size());
            EXPECT_EQ(samples_[sample], 0) << "counted twice";
            samples_[sample] = ns;
            if (++counted_ == samples_.size())
                decide();
        }
        return ns;
    }

    double calls(uint32_t count) {
        double sum = 0;
        for (uint32_t i = 0; i < count; i++)
            sum += call();
        return sum;
    }

    void change(const World &world) { world_ = world; }

    gcoll_judge judge = {};
    gcoll_lesson lesson = {};
    uint64_t number = 0;
    uint32_t searches = 0; // how often trying began
    double truly = 0;      // what the calls have taken, without noise
    std::set<uint32_t> tried;

  private:
    void begin() {
        samples_.assign(gcoll_lesson_samples(&lesson), 0);
        counted_ = 0;
    }
    void decide() {
        std::vector<double> all = samples_;
        all.resize(GCOLL_LEARN_SAMPLES);
        const gcoll_judge_state before = judge.state;
        next_ = gcoll_judge_next(&judge, &lesson, all.data());
        searches += judge.state == GCOLL_JUDGE_SCREEN && before != GCOLL_JUDGE_SCREEN;
        EXPECT_TRUE(gcoll_lesson_is_valid(&next_, judge.count));
        EXPECT_EQ(next_.begin, gcoll_lesson_end(&lesson));
        EXPECT_EQ(next_.number, lesson.number + 1);
    }

    World world_;
    std::mt19937 random_;
    gcoll_lesson next_ = {};
    std::vector<double> samples_;
    size_t counted_ = 0;
};

} // namespace judge_peek

#endif
