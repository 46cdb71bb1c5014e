// The network of examples/train, in double: losses beside plain loops, gradients beside finite differences,
// and the images.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <random>
#include <vector>

extern "C" {
#include "examples/train/network.h"
}

namespace {

using numbers = std::vector<double>;

static_assert(sizeof(real) == sizeof(double), "finite differences need double");

numbers random_numbers(size_t count, unsigned seed) {
    std::mt19937 engine(seed);
    std::uniform_real_distribution<double> between(-1, 1);
    numbers result(count);
    for (double &each : result)
        each = between(engine);
    return result;
}

struct net {
    network parts;
    explicit net(size_t channels, uint32_t seed = 7) {
        EXPECT_TRUE(network_make(&parts, channels));
        network_initialise(&parts, seed);
        // Biases too, which begin as 0, so that nothing hides behind that.
        numbers noise = random_numbers(parts.count, 3);
        for (size_t i = 0; i < parts.count; i++)
            parts.parameters[i] += 0.1 * noise[i];
    }
    ~net() { network_free(&parts); }
    double loss(const numbers &image, uint32_t label) {
        bool right;
        return network_forward(&parts, image.data(), label, &right);
    }
};

numbers image_of(uint64_t number, uint32_t seed = 1) {
    numbers pixels(IMAGE_PIXELS);
    image_make(seed, number, pixels.data());
    return pixels;
}

// ---- Plain loops -----------------------------------------------------------------------------------------

// `same` convolution, then the largest of 2 x 2, then nothing below zero.
numbers convolve(const numbers &image, int side, int inputs, int outputs, const double *weights) {
    const double *biases = weights + 25 * inputs * outputs;
    numbers sums(static_cast<size_t>(side * side * outputs));
    for (int y = 0; y < side; y++)
        for (int x = 0; x < side; x++)
            for (int o = 0; o < outputs; o++) {
                double sum = biases[o];
                for (int dy = -2; dy <= 2; dy++)
                    for (int dx = -2; dx <= 2; dx++)
                        for (int i = 0; i < inputs; i++)
                            if (y + dy >= 0 && y + dy < side && x + dx >= 0 && x + dx < side)
                                sum += image[static_cast<size_t>(((y + dy) * side + x + dx) * inputs + i)] *
                                       weights[(((dy + 2) * 5 + dx + 2) * inputs + i) * outputs + o];
                sums[static_cast<size_t>((y * side + x) * outputs + o)] = sum;
            }
    numbers kept;
    for (int y = 0; y < side; y += 2)
        for (int x = 0; x < side; x += 2)
            for (int o = 0; o < outputs; o++) {
                double best = 0;
                for (int p = 0; p < 4; p++)
                    best = std::max(
                        best, sums[static_cast<size_t>(((y + p / 2) * side + x + p % 2) * outputs + o)]);
                kept.push_back(best);
            }
    return kept;
}

numbers connect(const numbers &input, int outputs, const double *weights, bool cut) {
    numbers result;
    for (int o = 0; o < outputs; o++) {
        double sum = weights[static_cast<int>(input.size()) * outputs + o];
        for (size_t i = 0; i < input.size(); i++)
            sum += input[i] * weights[i * static_cast<size_t>(outputs) + static_cast<size_t>(o)];
        result.push_back(cut ? std::max(sum, 0.0) : sum);
    }
    return result;
}

double plain_loss(const numbers &image, int channels, const double *parameters, uint32_t label) {
    const double *at = parameters;
    numbers x = convolve(image, 32, 3, channels, at);
    at += (25 * 3 + 1) * channels;
    x = convolve(x, 16, channels, channels, at);
    at += (25 * channels + 1) * channels;
    x = convolve(x, 8, channels, 2 * channels, at);
    at += (25 * channels + 1) * 2 * channels;
    x = connect(x, 2 * channels, at, true);
    at += (16 * 2 * channels + 1) * 2 * channels;
    x = connect(x, 10, at, false);
    double sum = 0;
    for (double score : x)
        sum += std::exp(score);
    return std::log(sum) - x[label];
}

TEST(TrainNet, HasTheParametersOfThePaper) {
    net n(32);
    EXPECT_EQ(n.parts.count, 145578U);
}

TEST(TrainNet, LossIsThatOfPlainLoops) {
    for (int channels : {1, 3, 8}) {
        net n(static_cast<size_t>(channels));
        for (uint32_t i = 0; i < 3; i++) {
            const numbers image = image_of(i);
            EXPECT_NEAR(n.loss(image, 3 * i), plain_loss(image, channels, n.parts.parameters, 3 * i), 1e-11);
        }
    }
}

TEST(TrainNet, RightIsTheMostLikely) {
    net n(3);
    const numbers image = image_of(4);
    std::vector<double> losses;
    std::vector<bool> rights;
    for (uint32_t label = 0; label < CLASSES; label++) {
        bool right;
        losses.push_back(network_forward(&n.parts, image.data(), label, &right));
        rights.push_back(right);
    }
    const double least = *std::min_element(losses.begin(), losses.end());
    for (size_t label = 0; label < CLASSES; label++)
        EXPECT_EQ(rights[label], losses[label] == least) << label;
    double sum = 0;
    for (double each : n.parts.likelihoods)
        sum += each;
    EXPECT_NEAR(sum, 1, 1e-12);
}

// Every one of them. The loss has kinks, where a sum passes zero or another one of its four; a step of 1e-6
// is short enough to meet none of them here.
TEST(TrainNet, GradientsAreThoseOfFiniteDifferences) {
    net n(3);
    const double h = 1e-6;
    const numbers images[2] = {image_of(12), image_of(25)};
    const uint32_t labels[2] = {2, 5};
    const double scales[2] = {1, 0.5}; // the gradients of several images add up, each with its scale
    for (int i = 0; i < 2; i++) {
        n.loss(images[i], labels[i]);
        network_backward(&n.parts, labels[i], scales[i]);
    }
    double largest = 0;
    for (size_t p = 0; p < n.parts.count; p++) {
        double &parameter = n.parts.parameters[p];
        const double kept = parameter;
        double expected = 0;
        for (int i = 0; i < 2; i++) {
            parameter = kept + h;
            const double above = n.loss(images[i], labels[i]);
            parameter = kept - h;
            const double below = n.loss(images[i], labels[i]);
            parameter = kept;
            expected += scales[i] * (above - below) / (2 * h);
        }
        EXPECT_NEAR(n.parts.gradients[p], expected, 1e-7 * (1 + std::fabs(expected))) << "parameter " << p;
        largest = std::max(largest, std::fabs(expected));
    }
    EXPECT_GT(largest, 0.1); // there was something to compare
}

TEST(TrainData, ImagesDependOnSeedAndNumberAlone) {
    const numbers image = image_of(5);
    EXPECT_EQ(image, image_of(5));
    EXPECT_NE(image, image_of(15)); // of the same class
    EXPECT_NE(image, image_of(5, 2));
    EXPECT_NE(image, image_of(FIRST_TEST_IMAGE + 5));
}

// Neither a colour nor any pixel tells the class: their means over a class are those over all, but for
// chance.
TEST(TrainData, ClassesDifferInNoMean) {
    const uint64_t images = 2000;
    numbers of_class(CLASSES);
    double squares = 0;
    for (uint64_t i = 0; i < images; i++) {
        const numbers image = image_of(i);
        double mean = 0;
        for (double pixel : image)
            mean += pixel / IMAGE_PIXELS;
        of_class[image_class(i)] += mean / (images / CLASSES);
        squares += mean * mean / images;
    }
    for (double mean : of_class)
        EXPECT_LT(std::fabs(mean), 4 * std::sqrt(squares / (images / CLASSES)));
}

} // namespace
