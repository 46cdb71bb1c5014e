// The codecs of every instruction set against one element at a time in double; their error bounds; that
// encoding again changes nothing; rounding at random; and their texts.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "test/kit/element_oracle.h"

extern "C" {
#include "gcoll/base/codec.h"
#include "gcoll/base/kernels.h"
}

namespace {

using namespace element_oracle;

using Floats = std::vector<float>;

gcoll_codec codec_of(const std::string &text) {
    gcoll_codec codec;
    EXPECT_EQ(GCOLL_OK, gcoll_codec_parse(text.c_str(), &codec)) << gcoll_last_error();
    return codec;
}

std::vector<std::string> sets() {
    std::vector<std::string> found;
    for (size_t i = 0; gcoll_kernel_sets[i]; i++)
        if (gcoll_kernel_table_of(gcoll_kernel_sets[i]))
            found.push_back(gcoll_kernel_sets[i]);
    return found;
}

// ---- The oracle: what decoding gives, by the formats of docs/codecs.md ------------------------------------

struct Format {
    double largest;  // of a code
    int least_scale; // exponent
    double clamp;    // numbers of larger magnitude count as this one
};

Format format_of(const gcoll_codec &codec) {
    if (codec.kind == GCOLL_CODEC_INT8)
        return {127, -126, std::ldexp(127, 121)};
    return {448, -117, std::ldexp(240, 120)};
}

double nearest(const gcoll_codec &codec, double x) {
    switch (codec.kind) {
    case GCOLL_CODEC_BF16:
        return decode(GCOLL_BFLOAT16, encode(GCOLL_BFLOAT16, x));
    case GCOLL_CODEC_FP16:
        return decode(GCOLL_FLOAT16, encode(GCOLL_FLOAT16, x));
    case GCOLL_CODEC_FP8:
        return decode(GCOLL_FLOAT8_E4M3, encode(GCOLL_FLOAT8_E4M3, x));
    default:
        return std::nearbyint(x);
    }
}

// The exponent of the scale of a block of finite numbers.
int scale_of(const gcoll_codec &codec, const float *x, size_t n) {
    const Format format = format_of(codec);
    double most = 0;
    for (size_t i = 0; i < n; i++)
        most = std::max(most, std::min(std::fabs(static_cast<double>(x[i])), format.clamp));
    int scale = format.least_scale;
    while (most > std::ldexp(format.largest, scale))
        scale++;
    return scale;
}

Floats expected(const gcoll_codec &codec, const Floats &x) {
    Floats made(x.size());
    const size_t block = codec.block ? codec.block : 1;
    for (size_t at = 0; at < x.size(); at += block) {
        const size_t n = std::min(block, x.size() - at);
        if (codec.block == 0) {
            made[at] = static_cast<float>(nearest(codec, static_cast<double>(x[at])));
            continue;
        }
        const bool finite =
            std::all_of(x.begin() + static_cast<ptrdiff_t>(at), x.begin() + static_cast<ptrdiff_t>(at + n),
                        [](float v) { return std::isfinite(v); });
        const int scale = finite ? scale_of(codec, &x[at], n) : 0;
        for (size_t i = at; i < at + n; i++) {
            const double clamp = format_of(codec).clamp;
            const double v = std::max(-clamp, std::min(clamp, static_cast<double>(x[i])));
            made[i] = finite ? static_cast<float>(std::ldexp(nearest(codec, std::ldexp(v, -scale)), scale))
                             : std::numeric_limits<float>::quiet_NaN();
        }
    }
    return made;
}

// ---- The codecs
// --------------------------------------------------------------------------------------------

// Encodes and decodes by one set, in memory at an odd place between guards.
struct Coded {
    std::vector<unsigned char> bytes;
    Floats values;
};

constexpr size_t kGuard = 67;
constexpr unsigned char kMark = 0xa7;

Coded pass(const std::string &set, const gcoll_codec &codec, const Floats &x,
           const uint32_t *noise = nullptr) {
    const gcoll_codec_kernels *kernels = gcoll_codec_kernels_in(set.c_str(), codec.kind);
    const size_t bytes = gcoll_codec_bytes(&codec, x.size());
    std::vector<unsigned char> code(bytes + 2 * kGuard, kMark), from(4 * x.size() + 1),
        to(4 * x.size() + 2 * kGuard, kMark);
    memcpy(from.data() + 1, x.data(), 4 * x.size());
    kernels->encode(code.data() + kGuard, from.data() + 1, x.size(), codec.block, noise);
    kernels->decode(to.data() + kGuard, code.data() + kGuard, x.size(), codec.block);
    auto marked = [](unsigned char c) { return c == kMark; };
    EXPECT_TRUE(std::all_of(code.begin(), code.begin() + kGuard, marked));
    EXPECT_TRUE(std::all_of(code.end() - kGuard, code.end(), marked));
    EXPECT_TRUE(std::all_of(to.begin(), to.begin() + kGuard, marked));
    EXPECT_TRUE(std::all_of(to.end() - kGuard, to.end(), marked));
    Coded made = {{code.begin() + kGuard, code.end() - kGuard}, Floats(x.size())};
    memcpy(made.values.data(), to.data() + kGuard, 4 * x.size());
    return made;
}

bool same(float a, float b) {
    return std::isnan(a) ? std::isnan(b) : memcmp(&a, &b, sizeof a) == 0;
}

// int8 has no -0.
bool same_value(const gcoll_codec &codec, float a, float b) {
    return same(a, b) || (codec.kind == GCOLL_CODEC_INT8 && a == b && a == 0);
}

struct Random {
    std::mt19937_64 engine;
    explicit Random(uint64_t seed) : engine(seed) {}
    double unit() { return static_cast<double>(engine() >> 11) * 0x1p-53; }
    // Numbers of about one magnitude, which is drawn too.
    Floats vector(size_t n, int least, int most) {
        const int exponent = least + static_cast<int>(engine() % static_cast<uint64_t>(most - least + 1));
        Floats x(n);
        for (float &v : x)
            v = static_cast<float>(std::ldexp(2 * unit() - 1, exponent));
        return x;
    }
    Floats any_bits(size_t n) {
        Floats x(n);
        for (float &v : x) {
            const uint32_t bits = static_cast<uint32_t>(engine());
            memcpy(&v, &bits, sizeof v);
        }
        return x;
    }
};

const char *const kCodecs[] = {"bf16",          "fp16",         "int8:block=8", "int8:block=128",
                               "int8:block=24", "fp8:block=32", "fp8:block=8"};

class Codecs : public ::testing::TestWithParam<const char *> {};

void compare(const gcoll_codec &codec, const Floats &x) {
    const Floats right = expected(codec, x);
    Coded first;
    for (const std::string &set : sets()) {
        SCOPED_TRACE(set);
        const Coded made = pass(set, codec, x);
        for (size_t i = 0; i < x.size(); i++)
            ASSERT_TRUE(same_value(codec, made.values[i], right[i]))
                << "element " << i << " of " << x.size() << ", " << x[i] << ", gives " << made.values[i]
                << ", not " << right[i];
        if (first.bytes.empty())
            first = made;
        EXPECT_EQ(first.bytes, made.bytes);
    }
}

TEST_P(Codecs, GiveWhatTheOracleGives) {
    const gcoll_codec codec = codec_of(GetParam());
    Random random(1);
    for (size_t n : {0, 1, 2, 7, 8, 9, 31, 32, 33, 127, 128, 129, 300, 1000})
        for (int round = 0; round < 8; round++) {
            compare(codec, random.vector(n, -140, 128));
            compare(codec, random.any_bits(n));
        }
    for (int exponent = -150; exponent <= 128; exponent++)
        compare(codec, random.vector(40, exponent, exponent));
}

TEST_P(Codecs, TakeSpecialNumbers) {
    const gcoll_codec codec = codec_of(GetParam());
    const float most = std::numeric_limits<float>::max(), least = std::numeric_limits<float>::denorm_min();
    const float infinity = std::numeric_limits<float>::infinity(),
                nan = std::numeric_limits<float>::quiet_NaN();
    const float normal = std::numeric_limits<float>::min();
    for (float special :
         {0.0f,     -0.0f,  least,    -least,    normal, -normal, std::nextafter(normal, 0.0f),
          most,     -most,  infinity, -infinity, nan,    -nan,    65504.0f,
          65520.0f, 127.0f, 127.5f,   448.0f,    464.0f, 1.0f}) {
        compare(codec, Floats(200, special));
        for (size_t at : {0, 5, 31, 130}) {
            Floats x(200, 1.0f);
            x[at] = special;
            compare(codec, x);
            std::fill(x.begin(), x.end(), 0.0f);
            x[at] = special;
            compare(codec, x);
        }
    }
}

// A block with a number that is not finite is NaN as a whole, and no other block is.
TEST_P(Codecs, LoseNoNumberThatIsNotFinite) {
    const gcoll_codec codec = codec_of(GetParam());
    const size_t block = codec.block ? codec.block : 1;
    for (float bad : {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()})
        for (size_t at = 0; at < 300; at += 13) {
            Floats x(300, 0.5f);
            x[at] = bad;
            const Floats got = pass("plain", codec, x).values;
            for (size_t i = 0; i < x.size(); i++)
                EXPECT_EQ(i / block != at / block, std::isfinite(got[i]))
                    << i << " of a vector whose " << at << " is bad";
        }
}

TEST_P(Codecs, DecodeAndAdd) {
    const gcoll_codec codec = codec_of(GetParam());
    Random random(2);
    for (size_t n : {1, 7, 130, 1000})
        for (const std::string &set : sets()) {
            const Floats x = random.vector(n, 0, 4), a = random.vector(n, 0, 4);
            const Coded made = pass(set, codec, x);
            const gcoll_codec_kernels *kernels = gcoll_codec_kernels_in(set.c_str(), codec.kind);
            Floats sum = a, apart(n);
            kernels->decode_sum(sum.data(), sum.data(), made.bytes.data(), n, codec.block);
            kernels->decode_sum(apart.data(), a.data(), made.bytes.data(), n, codec.block);
            for (size_t i = 0; i < n; i++) {
                ASSERT_TRUE(same(sum[i], a[i] + made.values[i])) << set << " " << i;
                ASSERT_TRUE(same(apart[i], sum[i]));
            }
        }
}

// Decoded values are encoded again without a change, also in smaller pieces, and with any noise.
TEST_P(Codecs, ChangeNothingTheSecondTime) {
    const gcoll_codec codec = codec_of(GetParam());
    Random random(3);
    for (int round = 0; round < 400; round++) {
        const Floats x = round % 2 ? random.any_bits(200) : random.vector(200, -150, 128);
        const uint32_t key = static_cast<uint32_t>(random.engine());
        const Floats once = pass("plain", codec, x, round % 3 ? &key : nullptr).values;
        for (const std::string &set : sets()) {
            const Floats twice = pass(set, codec, once, round % 5 ? &key : nullptr).values;
            for (size_t i = 0; i < x.size(); i++)
                ASSERT_TRUE(same_value(codec, twice[i], once[i]))
                    << set << ": " << once[i] << " and " << twice[i];
        }
        const size_t block = codec.block ? codec.block : 1;
        for (size_t at = 0; at + block <= x.size(); at += block) { // part of one block
            const size_t from = at + random.engine() % block,
                         to = from + 1 + random.engine() % (at + block - from);
            const Floats part(once.begin() + static_cast<ptrdiff_t>(from),
                              once.begin() + static_cast<ptrdiff_t>(to));
            const Floats again = pass("plain", codec, part).values;
            for (size_t i = 0; i < part.size(); i++)
                ASSERT_TRUE(same_value(codec, again[i], part[i])) << part[i] << " and " << again[i];
        }
    }
}

// ---- Error bounds
// ------------------------------------------------------------------------------------------

// The bounds of docs/codecs.md: of one rounding, relative to the element (bf16, fp16) or the largest
// magnitude of its block, and the least absolute one.
struct Bound {
    double relative, absolute;
};

Bound bound_of(const gcoll_codec &codec) {
    const double twice = codec.is_stochastic ? 2 : 1;
    switch (codec.kind) {
    case GCOLL_CODEC_BF16:
        return {twice * 0x1p-8, twice * 0x1p-134};
    case GCOLL_CODEC_FP16:
        return {twice * 0x1p-11, twice * 0x1p-25};
    case GCOLL_CODEC_INT8:
        return {twice / 127, twice * 0x1p-127};
    default:
        return {twice / 16, twice * 0x1p-127};
    }
}

// A million sums of up to 9 vectors, as they go along a chain of ranks: each partial sum is encoded, and the
// result, too. With R encodings, eps and delta of one, and terms x_r whose block has a largest magnitude M_r,
// no element is off by more than ((1 + eps + 2^-24)^R - 1) sum M_r + 2 R delta.
TEST_P(Codecs, KeepTheirBoundInAMillionSums) {
    for (bool stochastic : {false, true}) {
        const std::string text = GetParam();
        const gcoll_codec codec = codec_of(
            text + (stochastic ? (text.find(':') == std::string::npos ? ":seed=5" : ",seed=5") : ""));
        const Bound bound = bound_of(codec);
        const size_t n = 8;
        Random random(4);
        double closest = 0;
        const int sums = stochastic ? 200000 : 1000000;
        for (int round = 0; round < sums; round++) {
            const unsigned terms = 1 + static_cast<unsigned>(random.engine() % 9);
            const int most = codec.kind == GCOLL_CODEC_FP16 ? 11 : 120;
            const int exponent = static_cast<int>(random.engine() % static_cast<uint64_t>(most + 140)) - 140;
            const double unit = std::ldexp(1, exponent);
            double exact[n] = {0}, magnitude[n] = {0};
            float sum[n] = {0}, x[n];
            uint32_t words[16];
            for (unsigned r = 0; r < terms; r++) {
                double largest = 0;
                for (size_t i = 0; i < n; i += 2) { // two numbers of 32 bits from each of 64
                    const uint64_t bits = random.engine();
                    x[i] = static_cast<float>(unit * (static_cast<double>(bits >> 32) * 0x1p-31 - 1));
                    x[i + 1] =
                        static_cast<float>(unit * (static_cast<double>(bits & 0xffffffff) * 0x1p-31 - 1));
                }
                for (float v : x)
                    largest = std::max(largest, std::fabs(static_cast<double>(v)));
                for (size_t i = 0; i < n; i++) {
                    exact[i] += static_cast<double>(x[i]);
                    magnitude[i] += codec.block ? largest : std::fabs(static_cast<double>(x[i]));
                    sum[i] += x[i];
                }
                gcoll_codec_encode(&codec, words, sum, n, random.engine());
                gcoll_codec_decode(&codec, sum, words, n);
            }
            const double factor = std::pow(1 + bound.relative + 0x1p-24, terms) - 1;
            for (size_t i = 0; i < n; i++) {
                const double off = std::fabs(static_cast<double>(sum[i]) - exact[i]);
                const double allowed = factor * magnitude[i] + 2 * terms * bound.absolute;
                ASSERT_LE(off, allowed) << terms << " terms, element " << i << ": " << exact[i];
                closest = std::max(closest, off / allowed);
            }
        }
        EXPECT_GT(closest, 0.4) << "the bound is far from sharp: is something else tested?";
    }
}

// ---- Rounding at random
// ------------------------------------------------------------------------------------

// Goes to one of the two neighbours, to each as often as the distance asks for, and so is right in the mean.
TEST_P(Codecs, AreRightInTheMeanWithASeed) {
    const gcoll_codec codec = codec_of(GetParam());
    Random random(6);
    for (const std::string &set : sets()) {
        const Floats x = random.vector(64, 0, 0);
        const Floats near = pass(set, codec, x).values;
        std::vector<double> mean(x.size(), 0.0);
        const int rounds = 4000;
        for (int round = 0; round < rounds; round++) {
            const uint32_t key = static_cast<uint32_t>(random.engine());
            const Floats got = pass(set, codec, x, &key).values;
            ASSERT_EQ(0, memcmp(got.data(), pass("plain", codec, x, &key).values.data(), 4 * x.size()))
                << set;
            for (size_t i = 0; i < x.size(); i++)
                mean[i] += static_cast<double>(got[i]) / rounds;
        }
        double total = 0, gaps = 0;
        for (size_t i = 0; i < x.size(); i++) {
            const size_t block = codec.block ? codec.block : 1, begin = i / block * block;
            double gap = codec.kind == GCOLL_CODEC_INT8
                             ? std::ldexp(1, scale_of(codec, &x[begin], std::min(block, x.size() - begin)))
                             : bound_of(codec).relative * 2;
            EXPECT_NEAR(mean[i], static_cast<double>(x[i]), gap * 5 * 0.5 / std::sqrt(rounds) + gap / 1000)
                << x[i];
            total += mean[i] - static_cast<double>(x[i]);
            gaps += gap;
        }
        EXPECT_NEAR(total, 0, gaps / x.size() * 5 * std::sqrt(x.size() / 4.0 / rounds) + gaps / 1000);
    }
}

INSTANTIATE_TEST_SUITE_P(All, Codecs, ::testing::ValuesIn(kCodecs), [](const auto &of) {
    std::string name = of.param;
    std::replace_if(
        name.begin(), name.end(), [](char c) { return !isalnum(static_cast<unsigned char>(c)); }, '_');
    return name;
});

// ---- Texts
// ---------------------------------------------------------------------------------------------------

TEST(CodecTexts, AreReadAndWritten) {
    const struct {
        const char *text, *written;
        gcoll_codec codec;
    } rows[] = {
        {"", "none", {GCOLL_CODEC_NONE, 0, 0, 0}},
        {"none", "none", {GCOLL_CODEC_NONE, 0, 0, 0}},
        {"bf16", "bf16", {GCOLL_CODEC_BF16, 0, 0, 0}},
        {"fp16:seed=0", "fp16:seed=0", {GCOLL_CODEC_FP16, 1, 0, 0}},
        {"int8", "int8:block=128", {GCOLL_CODEC_INT8, 0, 128, 0}},
        {"int8:seed=7,block=64", "int8:block=64,seed=7", {GCOLL_CODEC_INT8, 1, 64, 7}},
        {"fp8:block=4096,seed=9223372036854775807",
         "fp8:block=4096,seed=9223372036854775807",
         {GCOLL_CODEC_FP8, 1, 4096, 9223372036854775807u}},
    };
    for (const auto &row : rows) {
        const gcoll_codec codec = codec_of(row.text);
        char text[GCOLL_CODEC_TEXT_MAX];
        EXPECT_EQ(0, memcmp(&row.codec, &codec, sizeof codec)) << row.text;
        gcoll_codec_format(&codec, text);
        EXPECT_STREQ(row.written, text);
        EXPECT_EQ(GCOLL_OK, gcoll_codec_check(&codec));
    }
    gcoll_codec codec;
    EXPECT_EQ(GCOLL_OK, gcoll_codec_parse(nullptr, &codec));
    EXPECT_FALSE(gcoll_codec_is_set(&codec));
}

TEST(CodecTexts, ThatAreWrongSayWhatIsAllowed) {
    const struct {
        const char *text, *says;
    } rows[] = {
        {"int4", "allowed are none, bf16, fp16, int8:block=128, fp8:block=32"},
        {"BF16", "allowed are none"},
        {"none:seed=1", "allowed are none"},
        {"bf16:block=8", "bf16 has no option 'block=8'; allowed are seed=NUMBER"},
        {"int8:", "int8 has no option ''; allowed are block=NUMBER, seed=NUMBER"},
        {"int8:block", "int8 has no option 'block'"},
        {"int8:block=8,", "int8 has no option ''"},
        {"int8:block=12", "block is 12; allowed are multiples of 8 up to 4096"},
        {"int8:block=0", "block is 0; allowed"},
        {"fp8:block=4104", "block is 4104; allowed"},
        {"int8:block=-8", "'block=-8' is no whole number"},
        {"int8:seed=", "'seed=' is no whole number"},
        {"int8:seed=1,seed=2", "'seed=2' is given twice"},
        {"int8:block=8,block=8", "'block=8' is given twice"},
    };
    for (const auto &row : rows) {
        gcoll_codec codec = {};
        EXPECT_EQ(GCOLL_ERR_INVALID, gcoll_codec_parse(row.text, &codec)) << row.text;
        EXPECT_NE(nullptr, strstr(gcoll_last_error(), row.says)) << row.text << ": " << gcoll_last_error();
        EXPECT_FALSE(gcoll_codec_is_set(&codec));
    }
}

TEST(CodecTexts, SayHowManyBytes) {
    const gcoll_codec int8 = codec_of("int8:block=128"), bf16 = codec_of("bf16"),
                      fp8 = codec_of("fp8:block=32");
    EXPECT_EQ(129u, gcoll_codec_bytes(&int8, 128));
    EXPECT_EQ(131u, gcoll_codec_bytes(&int8, 129));
    EXPECT_EQ(33u, gcoll_codec_words(&int8, 129));
    EXPECT_EQ(0u, gcoll_codec_words(&int8, 0));
    EXPECT_EQ(6u, gcoll_codec_bytes(&bf16, 3));
    EXPECT_EQ(2u, gcoll_codec_words(&bf16, 3));
    EXPECT_NEAR(0.2578, gcoll_codec_ratio(&fp8), 1e-4);
    uint32_t words[3] = {~0u, ~0u, ~0u}; // the rest of the last word is cleared, and nothing behind it
    const float x[3] = {1, 2, 3};
    gcoll_codec_encode(&bf16, words, x, 3, 0);
    EXPECT_EQ(0x4040u, words[1]);
    EXPECT_EQ(~0u, words[2]);
}

} // namespace
