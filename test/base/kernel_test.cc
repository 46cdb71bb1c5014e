// The reduction kernels of every instruction set, the float16 and bfloat16 conversions and gcoll_divide,
// against one element at a time in exact integers and in double. All operands of the 8-bit floats are tried,
// so their conversions are tested with their kernels.
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
#include "gcoll/base/base.h"
#include "gcoll/base/kernels.h"
}

namespace {

using namespace element_oracle;

const gcoll_op kKernelOps[] = {GCOLL_SUM,  GCOLL_PRODUCT, GCOLL_MIN,   GCOLL_MAX,  GCOLL_AVG,
                               GCOLL_BAND, GCOLL_BOR,     GCOLL_BXOR,  GCOLL_LAND, GCOLL_LOR,
                               GCOLL_LXOR, GCOLL_MINLOC,  GCOLL_MAXLOC};

// ---- Values and memory.

std::vector<Bits> specials(gcoll_type type) {
    if (has_halves(type)) { // each special first half with three second ones
        std::vector<Bits> firsts = specials(first_type(type)), seconds = specials(second_type(type)), both;
        for (size_t i = 0; i < firsts.size(); i++)
            for (size_t k = 0; k < 3; k++)
                both.push_back(join(type, firsts[i], seconds[(7 * i + 5 * k) % seconds.size()]));
        return both;
    }
    std::vector<Bits> values = {
        0, 1, 2, 3, mask(type), mask(type) - 1, sign_bit(type), sign_bit(type) - 1, sign_bit(type) + 1};
    if (!shape_of(type).is_float)
        return values;
    Bits one = static_cast<Bits>(shape_of(type).bias) << shape_of(type).mantissa_bits;
    Bits smallest_normal = Bits{1} << shape_of(type).mantissa_bits;
    for (Bits x : {largest(type), largest(type) - 1, largest(type) + 1, smallest_normal, smallest_normal - 1,
                   smallest_normal + 1, one, one + 1, one - 1, one + smallest_normal}) {
        values.push_back(x);
        values.push_back(x | sign_bit(type));
    }
    return values;
}

struct Random {
    std::mt19937_64 engine;
    explicit Random(uint64_t seed) : engine(seed) {}
    // Any bits; or for floats, as often, a number near 1, lest sums be all "the larger one"; or for values
    // with an index, as often, one of few values with one of few indices.
    Bits element(gcoll_type type) {
        if (kind_of(type) == Kind::kLocated && engine() % 2)
            return join(type, number(first_type(type), engine() % 3),
                        (engine() % 4 - 2) & mask(second_type(type)));
        if (has_halves(type))
            return join(type, element(first_type(type)), element(second_type(type)));
        uint64_t x = engine();
        if (shape_of(type).is_float && engine() % 2)
            return encode(type, (static_cast<double>(x >> 11) * 0x1p-53 - 0.5) * 4);
        return x & mask(type);
    }
    static Bits number(gcoll_type type, uint64_t x) {
        return shape_of(type).is_float ? encode(type, static_cast<double>(x)) : x;
    }
    std::vector<Bits> elements(gcoll_type type, size_t count) {
        std::vector<Bits> values(count);
        for (Bits &x : values)
            x = engine() % 8 ? element(type) : specials(type)[engine() % specials(type).size()];
        return values;
    }
};

// Elements at some offset in bytes, with guards on either side.
class Memory {
  public:
    Memory(gcoll_type type, const std::vector<Bits> &values, size_t offset)
        : bytes_(shape_of(type).bytes), count_(values.size()), start_(kGuard + offset),
          data_(start_ + count_ * bytes_ + kGuard, kMark) {
        for (size_t i = 0; i < count_; i++)
            memcpy(&data_[start_ + i * bytes_], &values[i], bytes_); // little-endian
    }
    void *get() { return &data_[start_]; }
    Bits operator[](size_t i) const {
        Bits x = 0;
        memcpy(&x, &data_[start_ + i * bytes_], bytes_);
        return x;
    }
    bool guards_intact() const {
        auto end = data_.begin() + static_cast<ptrdiff_t>(start_ + count_ * bytes_);
        auto marked = [](unsigned char c) { return c == kMark; };
        return std::all_of(data_.begin(), data_.begin() + static_cast<ptrdiff_t>(start_), marked) &&
               std::all_of(end, data_.end(), marked);
    }

  private:
    static constexpr size_t kGuard = 128;
    static constexpr unsigned char kMark = 0xa7;
    size_t bytes_, count_, start_;
    std::vector<unsigned char> data_;
};

// ---- Every set and type.

class Kernels : public testing::TestWithParam<std::tuple<const char *, int>> {
  protected:
    void SetUp() override {
        set = std::get<0>(GetParam());
        type = static_cast<gcoll_type>(std::get<1>(GetParam()));
        if (!gcoll_kernel_table_of(set))
            GTEST_SKIP() << "this processor lacks " << set;
    }

    void expect_answers(gcoll_op op, const std::vector<Bits> &a, const std::vector<Bits> &b,
                        const Memory &got) {
        for (size_t i = 0; i < a.size(); i++) {
            Bits want = answer(type, op, a[i], b[i]);
            ASSERT_TRUE(same(type, got[i], want))
                << gcoll_op_name(op) << " [" << i << " of " << a.size() << "] " << hex(a[i]) << ", "
                << hex(b[i]) << ": got " << hex(got[i]) << ", want " << hex(want);
        }
        ASSERT_TRUE(got.guards_intact()) << gcoll_op_name(op) << " wrote beyond " << a.size() << " elements";
    }

    const char *set;
    gcoll_type type;
};

std::vector<const char *> sets() {
    std::vector<const char *> names;
    for (size_t i = 0; gcoll_kernel_sets[i]; i++)
        names.push_back(gcoll_kernel_sets[i]);
    return names;
}

std::string name_of(const testing::TestParamInfo<Kernels::ParamType> &parameter) {
    auto type = static_cast<gcoll_type>(std::get<1>(parameter.param));
    return std::string(std::get<0>(parameter.param)) + "_" + gcoll_type_name(type);
}

INSTANTIATE_TEST_SUITE_P(All, Kernels,
                         testing::Combine(testing::ValuesIn(sets()),
                                          testing::Range(0, static_cast<int>(GCOLL_TYPE_COUNT))),
                         name_of);

class SmallKernels : public Kernels {};
INSTANTIATE_TEST_SUITE_P(All, SmallKernels,
                         testing::Combine(testing::ValuesIn(sets()),
                                          testing::Values(GCOLL_INT8, GCOLL_UINT8, GCOLL_BOOL, GCOLL_INT16,
                                                          GCOLL_UINT16, GCOLL_FLOAT8_E4M3, GCOLL_FLOAT8_E5M2,
                                                          GCOLL_FLOAT16, GCOLL_BFLOAT16)),
                         name_of);

TEST_P(Kernels, ExistWhereTheOperationIsDefined) {
    for (int op = -1; op <= GCOLL_OP_COUNT; op++) {
        bool expected = op >= 0 && op < GCOLL_OP_COUNT && defined(type, static_cast<gcoll_op>(op));
        EXPECT_EQ(gcoll_kernel_find_in(set, type, static_cast<gcoll_op>(op)) != nullptr, expected) << op;
    }
}

TEST_P(Kernels, EveryCountAndOffset) {
    Random random(11 + type);
    std::vector<size_t> counts = {127, 1000, 4099};
    for (size_t count = 0; count <= 70; count++)
        counts.push_back(count);
    size_t size = shape_of(type).bytes;
    const size_t offsets[][3] = {{0, 0, 0}, {size, 0, 3 * size}, {5 * size, size, 0}, {1, 3, 62}};
    for (size_t count : counts) {
        std::vector<Bits> a = random.elements(type, count), b = random.elements(type, count);
        for (gcoll_op op : kKernelOps) {
            gcoll_kernel kernel = gcoll_kernel_find_in(set, type, op);
            for (auto &offset : offsets) {
                if (!kernel)
                    continue;
                Memory x(type, a, offset[0]), y(type, b, offset[1]);
                Memory d(type, std::vector<Bits>(count, 0x77), offset[2]);
                kernel(d.get(), x.get(), y.get(), count);
                ASSERT_NO_FATAL_FAILURE(expect_answers(op, a, b, d));
            }
        }
    }
}

TEST_P(Kernels, InPlace) {
    Random random(23 + type);
    for (size_t count : {1, 2, 7, 15, 16, 17, 31, 33, 63, 65, 127, 130, 515}) {
        std::vector<Bits> a = random.elements(type, count), b = random.elements(type, count);
        for (gcoll_op op : kKernelOps) {
            gcoll_kernel kernel = gcoll_kernel_find_in(set, type, op);
            if (!kernel)
                continue;
            Memory into_a(type, a, 1), into_b(type, b, 2), into_both(type, a, 3);
            Memory x(type, a, 0), y(type, b, 0);
            kernel(into_a.get(), into_a.get(), y.get(), count);
            ASSERT_NO_FATAL_FAILURE(expect_answers(op, a, b, into_a)) << "dst is a";
            kernel(into_b.get(), x.get(), into_b.get(), count);
            ASSERT_NO_FATAL_FAILURE(expect_answers(op, a, b, into_b)) << "dst is b";
            kernel(into_both.get(), into_both.get(), into_both.get(), count);
            ASSERT_NO_FATAL_FAILURE(expect_answers(op, a, a, into_both)) << "dst is a and b";
        }
    }
}

// Each special value with each, in whichever lane and in the rest that fills no vector.
TEST_P(Kernels, SpecialValues) {
    std::vector<Bits> values = specials(type), a, b;
    for (Bits x : values) {
        for (Bits y : values) {
            a.push_back(x);
            b.push_back(y);
        }
    }
    for (size_t shift = 0; shift < 9; shift++) {
        std::rotate(a.begin(), a.begin() + 7, a.end());
        std::rotate(b.begin(), b.begin() + 7, b.end());
        for (gcoll_op op : kKernelOps) {
            gcoll_kernel kernel = gcoll_kernel_find_in(set, type, op);
            if (!kernel)
                continue;
            Memory x(type, a, 0), y(type, b, 0), d(type, a, 0);
            kernel(d.get(), x.get(), y.get(), a.size());
            ASSERT_NO_FATAL_FAILURE(expect_answers(op, a, b, d));
        }
    }
}

// Every element of 16 bits with some partners, and every one of 8 bits with every other.
TEST_P(SmallKernels, EveryValue) {
    Random random(31 + type);
    std::vector<Bits> partners = random.elements(type, 6);
    if (shape_of(type).bytes == 1)
        for (Bits x = 0; x < 256; x++)
            partners.push_back(x);
    std::vector<Bits> all(static_cast<size_t>(mask(type)) + 1);
    for (size_t i = 0; i < all.size(); i++)
        all[i] = i;
    for (Bits partner : partners) {
        std::vector<Bits> b(all.size(), partner);
        for (gcoll_op op : kKernelOps) {
            gcoll_kernel kernel = gcoll_kernel_find_in(set, type, op);
            if (!kernel)
                continue;
            Memory x(type, all, 0), y(type, b, 0), d(type, all, 0);
            kernel(d.get(), x.get(), y.get(), all.size());
            ASSERT_NO_FATAL_FAILURE(expect_answers(op, all, b, d));
        }
    }
}

TEST_P(Kernels, Divide) {
    gcoll_divide_kernel divide = gcoll_kernel_table_of(set)->divide[type];
    ASSERT_EQ(divide != nullptr, defined(type, GCOLL_AVG));
    if (!divide)
        return;
    Random random(41 + type);
    for (uint32_t divisor : {1u, 2u, 3u, 7u, 10u, 127u, 128u, 255u, 256u, 1000u, 65535u, 65537u, 0x7fffffffu,
                             0x80000000u, 0xffffffffu}) {
        for (size_t count : {0, 1, 2, 7, 8, 15, 16, 17, 31, 33, 65, 300}) {
            std::vector<Bits> values = random.elements(type, count);
            for (size_t i = 0; i < count && kind_of(type) == Kind::kInteger;
                 i += 3) // about a multiple, where rounding shows
                values[i] = ((values[i] % 1000) * divisor + values[i] % 3 - 1) & mask(type);
            Memory d(type, values, count % 4);
            divide(d.get(), count, divisor);
            for (size_t i = 0; i < count; i++)
                ASSERT_TRUE(same(type, d[i], quotient(type, values[i], divisor)))
                    << hex(values[i]) << " / " << divisor << ": got " << hex(d[i]);
            ASSERT_TRUE(d.guards_intact());
        }
    }
}

TEST_P(Kernels, Scale) {
    gcoll_scale_kernel scale = gcoll_kernel_table_of(set)->scale[type];
    ASSERT_EQ(scale != nullptr, gcoll_type_is_floating(type));
    if (!scale)
        return;
    Random random(43 + type);
    for (double factor : {1.0, -1.0, 0.5, 1.0 / 3, -1e-3, 3.0, 65504.0, 1e30, 1e-30, 1.2e-38, 3.4e38}) {
        std::vector<Bits> values = specials(type), more = random.elements(type, 515);
        values.insert(values.end(), more.begin(), more.end());
        for (size_t count :
             {0, 1, 2, 3, 7, 8, 15, 16, 17, 31, 33, 65, 300, static_cast<int>(values.size())}) {
            std::rotate(values.begin(), values.begin() + 5, values.end());
            const std::vector<Bits> some(values.begin(), values.begin() + static_cast<ptrdiff_t>(count));
            Memory from(type, some, count % 3), to(type, std::vector<Bits>(count, 0x77), count % 5);
            Memory itself(type, some, count % 4);
            scale(to.get(), from.get(), count, factor);
            scale(itself.get(), itself.get(), count, factor);
            for (size_t i = 0; i < count; i++) {
                const Bits want = multiple(type, some[i], factor);
                ASSERT_TRUE(same(type, to[i], want))
                    << hex(some[i]) << " * " << factor << ": got " << hex(to[i]) << ", want " << hex(want);
                ASSERT_TRUE(same(type, itself[i], want)) << hex(some[i]) << " * " << factor << " in place";
                ASSERT_TRUE(from[i] == some[i]);
            }
            ASSERT_TRUE(to.guards_intact() && itself.guards_intact());
        }
    }
}

TEST(KernelFind, TakesTheBestSetOfThisProcessor) {
    std::vector<const char *> names = sets();
    ASSERT_FALSE(names.empty());
    EXPECT_STREQ(names.back(), "plain");
    EXPECT_NE(gcoll_kernel_table_of("plain"), nullptr);
    auto best =
        std::find_if(names.begin(), names.end(), [](const char *s) { return gcoll_kernel_table_of(s); });
    for (int type = 0; type < GCOLL_TYPE_COUNT; type++) {
        for (int op = 0; op < GCOLL_OP_COUNT; op++) {
            auto t = static_cast<gcoll_type>(type);
            auto o = static_cast<gcoll_op>(op);
            EXPECT_EQ(gcoll_kernel_find(t, o), gcoll_kernel_find_in(*best, t, o));
        }
    }
}

TEST(KernelFind, KnowsNothingElse) {
    EXPECT_EQ(gcoll_kernel_find_in("sse9", GCOLL_INT8, GCOLL_SUM), nullptr);
    EXPECT_EQ(gcoll_kernel_find_in("", GCOLL_INT8, GCOLL_SUM), nullptr);
    for (int none : {-1, static_cast<int>(GCOLL_TYPE_COUNT), 1000})
        EXPECT_EQ(gcoll_kernel_find(static_cast<gcoll_type>(none), GCOLL_SUM), nullptr);
    EXPECT_EQ(gcoll_kernel_find(GCOLL_FLOAT32, GCOLL_USER), nullptr);
}

TEST(Divide, DividesEveryType) {
    for (int i = 0; i < GCOLL_TYPE_COUNT; i++) {
        auto type = static_cast<gcoll_type>(i);
        if (!defined(type, GCOLL_AVG))
            continue;
        bool is_complex = kind_of(type) == Kind::kComplex;
        const gcoll_type part = is_complex ? first_type(type) : type;
        std::vector<Bits> values;
        for (int value : {0, 7, 100, 101, 126, -7}) { // toward zero: -7 / 4 is -1
            if (value < 0 && !shape_of(part).is_signed)
                continue;
            Bits x = shape_of(part).is_float ? encode(part, value) : static_cast<Bits>(value) & mask(part);
            values.push_back(is_complex ? join(type, x, encode(part, 5)) : x);
        }
        Memory d(type, values, 0);
        gcoll_divide(d.get(), values.size(), type, 4);
        for (size_t k = 0; k < values.size(); k++)
            EXPECT_TRUE(d[k] == quotient(type, values[k], 4)) << gcoll_type_name(type) << " " << k;
    }
}

// ---- The rules of gcoll/types.h, by numbers written down here.

template <class T> T reduced(gcoll_type type, gcoll_op op, T a, T b) {
    T result = {};
    gcoll_kernel_find(type, op)(&result, &a, &b, 1);
    return result;
}

TEST(Rules, EightBitFloatsDoNotSaturate) {
    const auto e4m3 = [](gcoll_op op, uint8_t a, uint8_t b) { return reduced(GCOLL_FLOAT8_E4M3, op, a, b); };
    const auto e5m2 = [](gcoll_op op, uint8_t a, uint8_t b) { return reduced(GCOLL_FLOAT8_E5M2, op, a, b); };
    EXPECT_EQ(e4m3(GCOLL_SUM, 0x38, 0x38), 0x40) << "1 + 1 = 2";
    EXPECT_EQ(e4m3(GCOLL_SUM, 0x7e, 0x58), 0x7e) << "448 + 16 is halfway to 480, and 448 is even";
    EXPECT_EQ(e4m3(GCOLL_SUM, 0x7e, 0x59), 0x7f) << "448 + 18 is NaN";
    EXPECT_EQ(e4m3(GCOLL_PRODUCT, 0xfe, 0x7e), 0xff) << "-448 * 448 is NaN";
    EXPECT_EQ(e4m3(GCOLL_SUM, 0x01, 0x01), 0x02) << "twice 2^-9, a denormal";
    EXPECT_EQ(e4m3(GCOLL_MAX, 0x7e, 0xff), 0xff) << "NaN wins";
    EXPECT_EQ(e5m2(GCOLL_SUM, 0x3c, 0x3c), 0x40) << "1 + 1 = 2";
    EXPECT_EQ(e5m2(GCOLL_SUM, 0x7b, 0x68), 0x7b) << "57344 + 2048 = 57344";
    EXPECT_EQ(e5m2(GCOLL_SUM, 0x7b, 0x6c), 0x7c) << "57344 + 4096 is halfway to 65536: infinity";
    EXPECT_EQ(e5m2(GCOLL_PRODUCT, 0xfb, 0x7b), 0xfc) << "-57344 * 57344 is -infinity";
    EXPECT_GT(e5m2(GCOLL_SUM, 0x7c, 0xfc) & 0x7f, 0x7c) << "infinity - infinity is NaN";
}

TEST(Rules, ProductOfComplexNumbers) {
    struct Complex {
        float real, imaginary;
    };
    const Complex product = reduced<Complex>(GCOLL_COMPLEX64, GCOLL_PRODUCT, {1, 2}, {3, -5});
    EXPECT_EQ(product.real, 13);
    EXPECT_EQ(product.imaginary, 1);
    // Fused, (1 + e)^2 - (1 + 2e) would be e^2: each operation is rounded by itself.
    const float e = 0x1p-23f;
    const Complex rounded = reduced<Complex>(GCOLL_COMPLEX64, GCOLL_PRODUCT, {1 + e, 1}, {1 + e, 1 + 2 * e});
    EXPECT_EQ(rounded.real, 0);
}

TEST(Rules, LowestIndexOfEqualValues) {
    using Located = gcoll_float32_int32;
    const auto index = [](gcoll_op op, Located a, Located b) {
        const Located result = reduced(GCOLL_FLOAT32_INT32, op, a, b);
        EXPECT_TRUE(result.index == a.index || result.index == b.index);
        return result.index;
    };
    EXPECT_EQ(index(GCOLL_MINLOC, {2, 7}, {1, 9}), 9);
    EXPECT_EQ(index(GCOLL_MAXLOC, {2, 7}, {1, 9}), 7);
    for (gcoll_op op : {GCOLL_MINLOC, GCOLL_MAXLOC}) {
        EXPECT_EQ(index(op, {1, 7}, {1, 9}), 7);
        EXPECT_EQ(index(op, {1, 9}, {1, 7}), 7);
        EXPECT_EQ(index(op, {1, 0}, {1, -7}), -7) << "signed";
        EXPECT_EQ(index(op, {NAN, 9}, {-INFINITY, 7}), 9) << "NaN wins";
        EXPECT_EQ(index(op, {INFINITY, 7}, {-NAN, 9}), 9) << "NaN wins";
        EXPECT_EQ(index(op, {NAN, 9}, {-NAN, 7}), 7) << "of several NaN the lowest index";
        EXPECT_EQ(index(op, {-NAN, 7}, {NAN, 9}), 7);
    }
    EXPECT_EQ(index(GCOLL_MINLOC, {0.0f, 7}, {-0.0f, 9}), 9);
    EXPECT_EQ(index(GCOLL_MAXLOC, {0.0f, 9}, {-0.0f, 7}), 9);
}

TEST(Rules, AnyByteButZeroIsTrue) {
    const auto logical = [](gcoll_op op, uint8_t a, uint8_t b) { return reduced(GCOLL_BOOL, op, a, b); };
    EXPECT_EQ(logical(GCOLL_LAND, 2, 4), 1);
    EXPECT_EQ(logical(GCOLL_LAND, 0x80, 0), 0);
    EXPECT_EQ(logical(GCOLL_LOR, 0x80, 0), 1);
    EXPECT_EQ(logical(GCOLL_LXOR, 2, 4), 0);
    EXPECT_EQ(reduced<int64_t>(GCOLL_INT64, GCOLL_LAND, INT64_MIN, 1), 1);
}

// ---- Scalar conversions.

uint32_t bits_of(float value) {
    uint32_t word;
    memcpy(&word, &value, 4);
    return word;
}

struct Conversion {
    gcoll_type type;
    float (*widen)(uint16_t);
    uint16_t (*round)(float);
};

const Conversion kConversions[] = {
    {GCOLL_FLOAT16, gcoll_half_to_float, gcoll_float_to_half},
    {GCOLL_BFLOAT16, gcoll_bfloat16_to_float, gcoll_float_to_bfloat16},
};

constexpr uint32_t kQuietFloat = 0x00400000;

TEST(Half, WidensAndRoundsBackEveryValue) {
    for (const Conversion &c : kConversions) {
        for (unsigned x = 0; x < 65536; x++) {
            float wide = c.widen(static_cast<uint16_t>(x));
            unsigned back = c.round(wide);
            if (is_nan(c.type, x)) {
                ASSERT_TRUE(std::isnan(wide) && (bits_of(wide) & kQuietFloat)) << std::hex << x;
                unsigned quiet = 1u << (shape_of(c.type).mantissa_bits - 1);
                ASSERT_EQ(back, x | quiet) << "a NaN keeps sign and payload, and becomes quiet";
                continue;
            }
            ASSERT_EQ(static_cast<double>(wide), decode(c.type, x)) << std::hex << x;
            ASSERT_EQ(std::signbit(wide), (x & 0x8000) != 0) << std::hex << x;
            ASSERT_EQ(back, x);
        }
    }
}

// Between each two neighbours: just below, at and just above halfway, and next to the ends.
TEST(Half, RoundsToNearestEven) {
    for (const Conversion &c : kConversions) {
        for (Bits x = 0; x < largest(c.type); x++) {
            double low = decode(c.type, x);
            double high =
                x + 1 < largest(c.type) ? decode(c.type, x + 1) : std::ldexp(1.0, shape_of(c.type).bias + 1);
            auto halfway = static_cast<float>((low + high) / 2); // exact
            for (float start : {static_cast<float>(low), halfway}) {
                for (float value : {std::nextafterf(start, -1.0f), start, std::nextafterf(start, INFINITY)}) {
                    ASSERT_TRUE(c.round(value) == encode(c.type, static_cast<double>(value))) << value;
                    ASSERT_TRUE(c.round(-value) == encode(c.type, -static_cast<double>(value))) << -value;
                }
            }
        }
    }
}

TEST(Half, RoundsAnyFloat) {
    Random random(53);
    for (const Conversion &c : kConversions) {
        for (int i = 0; i < 300000; i++) {
            auto word = static_cast<uint32_t>(random.engine());
            float value;
            memcpy(&value, &word, 4);
            ASSERT_TRUE(same(c.type, c.round(value), encode(c.type, static_cast<double>(value)))) << value;
        }
        float huge = std::numeric_limits<float>::max();
        EXPECT_TRUE(c.round(INFINITY) == largest(c.type));
        EXPECT_TRUE(c.round(-INFINITY) == (largest(c.type) | 0x8000));
        EXPECT_TRUE(c.round(huge) == largest(c.type));
        // NaNs whose payload lies in the bits that are cut off, and one that a carry would turn into zero.
        for (uint32_t word : {0x7f800001u, 0xff800001u, 0x7fffffffu, 0xffffffffu}) {
            float nan;
            memcpy(&nan, &word, 4);
            EXPECT_TRUE(is_nan(c.type, c.round(nan))) << std::hex << word;
        }
    }
}

} // namespace
