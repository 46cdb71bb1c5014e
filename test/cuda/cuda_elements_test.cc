// What kernels on CUDA devices do to elements, and how they cut ranges among threads, on the host: against
// the kernels of gcoll/base, bit for bit but for which NaN a NaN is. Needs no toolkit.
#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "cuda/threads.h"
#include "test/kit/element_oracle.h"
#include "test/kit/sanitizer.h"

extern "C" {
#include "gcoll/base/base.h"
}

namespace {

using namespace element_oracle;
using gcoll_cuda::Cut;
using gcoll_cuda::Operands;

using Bytes = std::vector<unsigned char>;

const uint32_t kDivisors[] = {1,   2,     3,     7,          10,          127,         128,        255,
                              256, 65504, 65535, 0x7fffffff, 0x80000000u, 0x80000001u, 0xffffffffu};

// Under a sanitizer, where this takes twenty times as long, some of the values of 16 bits stand for all.
const Bits kStep = gcoll_test::is_sanitized() ? 61 : 1;

gcoll_type type_of(int type) {
    return static_cast<gcoll_type>(type);
}

gcoll_op op_of(int op) {
    return static_cast<gcoll_op>(op);
}

std::vector<Bits> special_values(gcoll_type type) {
    if (has_halves(type)) { // each special first half with two second ones
        const std::vector<Bits> firsts = special_values(first_type(type));
        const std::vector<Bits> seconds = special_values(second_type(type));
        std::vector<Bits> both;
        for (size_t i = 0; i < firsts.size(); i++)
            for (size_t k = 0; k < 2; k++)
                both.push_back(join(type, firsts[i], seconds[(7 * i + 5 * k) % seconds.size()]));
        return both;
    }
    const Bits sign = sign_bit(type), all = mask(type);
    std::vector<Bits> values = {0, 1, 2, 3, 7, all, all - 1, all / 3, sign, sign - 1, sign + 1};
    if (!shape_of(type).is_float)
        return values;
    const Shape s = shape_of(type);
    const Bits unit = Bits{1} << s.mantissa_bits, one = static_cast<Bits>(s.bias) << s.mantissa_bits;
    for (Bits x :
         {largest(type), largest(type) - 1, largest(type) + 1, largest(type) + unit / 2, unit, unit - 1,
          unit + 1, unit / 2, one, one + 1, one - 1, one + unit, one + unit / 2, one / 2, one + one / 2}) {
        values.push_back(x & all);
        values.push_back((x | sign) & all);
    }
    return values;
}

// Half of them any bits; the others of exponents near each other, so that sums round, or few values with few
// indices, so that the index decides.
std::vector<Bits> random_values(gcoll_type type, size_t count, unsigned seed) {
    std::mt19937_64 random(seed);
    std::vector<Bits> values(count);
    const Shape s = shape_of(type);
    if (has_halves(type)) {
        const std::vector<Bits> firsts = random_values(first_type(type), count, seed + 1000);
        const std::vector<Bits> seconds = random_values(second_type(type), count, seed + 2000);
        for (size_t i = 0; i < count; i++)
            values[i] = kind_of(type) == Kind::kLocated && i % 2 == 0
                            ? join(type, firsts[i] % 3, (random() % 4 - 2) & mask(second_type(type)))
                            : join(type, firsts[i], seconds[i]);
        return values;
    }
    for (size_t i = 0; i < count; i++) {
        values[i] = random() & mask(type);
        if (s.is_float && i % 2 == 0) {
            Bits exponent = static_cast<Bits>(s.bias) + random() % 8 - 4;
            values[i] &= sign_bit(type) | ((Bits{1} << s.mantissa_bits) - 1);
            values[i] |= exponent << s.mantissa_bits;
        }
    }
    return values;
}

Bytes pack(gcoll_type type, const std::vector<Bits> &values) {
    const size_t bytes = shape_of(type).bytes;
    Bytes packed(values.size() * bytes);
    for (size_t i = 0; i < values.size(); i++)
        memcpy(packed.data() + i * bytes, &values[i], bytes); // little-endian, as devices are
    return packed;
}

Bits element(gcoll_type type, const unsigned char *from, size_t i) {
    Bits x = 0;
    memcpy(&x, from + i * shape_of(type).bytes, shape_of(type).bytes);
    return x;
}

// A NaN that arithmetic gave may be any.
bool same(gcoll_type type, gcoll_op op, Bits got, Bits wanted) {
    const bool exact = op == GCOLL_MIN || op == GCOLL_MAX || op == GCOLL_MINLOC || op == GCOLL_MAXLOC;
    return got == wanted || (!exact && element_oracle::same(type, got, wanted));
}

void expect_same(gcoll_type type, gcoll_op op, const unsigned char *got, const unsigned char *wanted,
                 size_t count, const std::string &what) {
    size_t wrong = 0;
    for (size_t i = 0; i < count; i++) {
        if (same(type, op, element(type, got, i), element(type, wanted, i)))
            continue;
        if (wrong++ < 3)
            ADD_FAILURE() << what << " " << gcoll_type_name(type) << " " << gcoll_op_name(op) << " element "
                          << i << ": " << hex(element(type, got, i)) << ", not "
                          << hex(element(type, wanted, i));
    }
    EXPECT_EQ(wrong, 0u) << what;
}

// All threads of a launch, one after the other. False where there is no such operation.
bool fold(gcoll_type type, gcoll_op op, unsigned char *dst,
          const std::vector<const unsigned char *> &operands, uint64_t count, uint64_t threads,
          Cut *cut = nullptr) {
    Operands list = {};
    const unsigned n = static_cast<unsigned>(operands.size());
    for (unsigned i = 0; i < n; i++)
        list.at[i] = operands[i];
    return gcoll_cuda::visit_operation(type, op, [&](auto operation) {
        using Operation = decltype(operation);
        const Cut c = gcoll_cuda::cut_fold(count, sizeof(typename Operation::Element), dst, list, n);
        EXPECT_EQ(sizeof(typename Operation::Element), gcoll_type_size(type));
        for (uint64_t t = 0; t < threads; t++)
            gcoll_cuda::fold_thread<Operation>(dst, list, n, c, t, threads);
        if (cut)
            *cut = c;
    });
}

bool divide(gcoll_type type, unsigned char *data, uint64_t count, uint32_t divisor, uint64_t threads) {
    return gcoll_cuda::visit_quotient(
        type,
        [&](auto quotient) {
            using Quotient = decltype(quotient);
            const Cut c = gcoll_cuda::cut_divide(count, sizeof(typename Quotient::Element), data);
            for (uint64_t t = 0; t < threads; t++)
                gcoll_cuda::divide_thread<Quotient>(data, divisor, c, t, threads);
        });
}

// The same by the plain kernels, two operands at a time from the left.
void fold_plainly(gcoll_type type, gcoll_op op, unsigned char *dst,
                  const std::vector<const unsigned char *> &operands, uint64_t count) {
    gcoll_kernel kernel = gcoll_kernel_find_in("plain", type, op);
    ASSERT_NE(kernel, nullptr);
    Bytes result(operands[0], operands[0] + count * gcoll_type_size(type));
    for (size_t k = 1; k < operands.size(); k++)
        kernel(result.data(), result.data(), operands[k], count);
    if (count > 0)
        memcpy(dst, result.data(), result.size());
}

void compare_pairs(gcoll_type type, gcoll_op op, const Bytes &a, const Bytes &b, const std::string &what) {
    const size_t count = a.size() / gcoll_type_size(type);
    Bytes got(a.size()), wanted(a.size());
    ASSERT_TRUE(fold(type, op, got.data(), {a.data(), b.data()}, count, 7));
    fold_plainly(type, op, wanted.data(), {a.data(), b.data()}, count);
    expect_same(type, op, got.data(), wanted.data(), count, what);
}

class CudaElements : public testing::TestWithParam<int> {};

TEST_P(CudaElements, OperationsAreThoseOfTheHost) {
    for (int type = 0; type < GCOLL_TYPE_COUNT; type++) {
        const gcoll_op op = op_of(GetParam());
        unsigned char none[16] = {};
        EXPECT_EQ(fold(type_of(type), op, none, {none, none}, 0, 1),
                  gcoll_kernel_find(type_of(type), op) != nullptr)
            << gcoll_type_name(type_of(type)) << " " << gcoll_op_name(op);
    }
}

TEST_P(CudaElements, SpecialAndRandomPairs) {
    const gcoll_op op = op_of(GetParam());
    for (int t = 0; t < GCOLL_TYPE_COUNT; t++) {
        const gcoll_type type = type_of(t);
        if (gcoll_kernel_find(type, op) == nullptr)
            continue;
        std::vector<Bits> a, b;
        for (Bits x : special_values(type)) {
            for (Bits y : special_values(type)) {
                a.push_back(x);
                b.push_back(y);
            }
        }
        compare_pairs(type, op, pack(type, a), pack(type, b), "specials");
        compare_pairs(type, op, pack(type, random_values(type, 5000, 1)),
                      pack(type, random_values(type, 5000, 2)), "random");
    }
}

TEST_P(CudaElements, EveryOperandOfNarrowFloats) {
    const gcoll_op op = op_of(GetParam());
    for (gcoll_type type : {GCOLL_FLOAT16, GCOLL_BFLOAT16, GCOLL_FLOAT8_E4M3, GCOLL_FLOAT8_E5M2}) {
        if (gcoll_kernel_find(type, op) == nullptr)
            continue;
        std::vector<Bits> all;
        for (Bits x = 0; x <= mask(type); x += kStep)
            all.push_back(x);
        const Bytes every = pack(type, all);
        for (Bits special : special_values(type)) {
            const Bytes one = pack(type, std::vector<Bits>(all.size(), special));
            compare_pairs(type, op, every, one, "x op special");
            compare_pairs(type, op, one, every, "special op x");
        }
    }
}

TEST_P(CudaElements, ManyOperandsAreTakenFromTheLeft) {
    const gcoll_op op = op_of(GetParam());
    const size_t count = 333;
    for (int t = 0; t < GCOLL_TYPE_COUNT; t++) {
        const gcoll_type type = type_of(t);
        if (gcoll_kernel_find(type, op) == nullptr)
            continue;
        for (size_t n : {1, 2, 3, 4, 5, 6, 8, 9, 17, static_cast<int>(GCOLL_CUDA_OPERANDS)}) {
            std::vector<Bytes> memory;
            std::vector<const unsigned char *> operands;
            for (size_t k = 0; k < n; k++)
                memory.push_back(pack(type, random_values(type, count, static_cast<unsigned>(k))));
            for (const Bytes &m : memory)
                operands.push_back(m.data());
            Bytes got(memory[0].size()), wanted(memory[0].size());
            ASSERT_TRUE(fold(type, op, got.data(), operands, count, 5));
            fold_plainly(type, op, wanted.data(), operands, count);
            expect_same(type, op, got.data(), wanted.data(), count, std::to_string(n) + " operands");
        }
    }
}

INSTANTIATE_TEST_SUITE_P(Ops, CudaElements, testing::Range(0, static_cast<int>(GCOLL_OP_COUNT)),
                         [](const auto &param) { return std::string(gcoll_op_name(op_of(param.param))); });

TEST(CudaElement, UserOperationsAndTypesThatAreNoneAreRefused) {
    unsigned char none[16] = {};
    EXPECT_FALSE(fold(GCOLL_INT32, GCOLL_USER, none, {none}, 0, 1));
    EXPECT_FALSE(fold(GCOLL_TYPE_COUNT, GCOLL_SUM, none, {none}, 0, 1));
    EXPECT_FALSE(divide(GCOLL_TYPE_COUNT, none, 0, 1, 1));
}

TEST(CudaElement, Division) {
    for (int t = 0; t < GCOLL_TYPE_COUNT; t++) {
        const gcoll_type type = type_of(t);
        unsigned char none[16] = {};
        ASSERT_EQ(divide(type, none, 0, 1, 1), defined(type, GCOLL_AVG)) << gcoll_type_name(type);
        if (!defined(type, GCOLL_AVG))
            continue;
        std::vector<Bits> values = special_values(type);
        for (Bits x : random_values(type, 2000, 3))
            values.push_back(x);
        for (Bits x = 0; shape_of(type).bytes <= 2 && x <= mask(type); x += kStep)
            values.push_back(x);
        for (uint32_t divisor : kDivisors) {
            Bytes got = pack(type, values), wanted = got;
            ASSERT_TRUE(divide(type, got.data(), values.size(), divisor, 3));
            gcoll_divide(wanted.data(), values.size(), type, divisor);
            expect_same(type, GCOLL_AVG, got.data(), wanted.data(), values.size(),
                        "/ " + std::to_string(divisor));
        }
    }
}

// A device's arithmetic gives the NaN 0x7fffffff, whose rounding must not carry into the sign.
TEST(CudaElement, TheNanOfDevicesStaysOne) {
    for (uint32_t bits : {0x7fffffffu, 0xffffffffu, 0x7fc00000u, 0x7f800001u}) {
        const float nan = gcoll_float_of_bits(bits);
        EXPECT_TRUE(is_nan(GCOLL_BFLOAT16, gcoll_cuda::Bfloat16::round(nan))) << std::hex << bits;
        EXPECT_TRUE(is_nan(GCOLL_FLOAT16, gcoll_cuda::Float16::round(nan))) << std::hex << bits;
    }
}

// Ranges at every distance from a multiple of 16, and all counts around whole vectors.

struct Ground {
    static constexpr size_t kRoom = 1024, kMargin = 64;
    alignas(16) unsigned char bytes[kRoom];

    explicit Ground(unsigned seed) {
        std::mt19937 random(seed);
        for (unsigned char &b : bytes)
            b = static_cast<unsigned char>(random());
    }
    unsigned char *at(size_t offset) { return bytes + kMargin + offset; }
};

void try_range(gcoll_type type, const std::vector<size_t> &offsets, uint64_t count, uint64_t threads,
               int dst_is) {
    const size_t bytes = gcoll_type_size(type);
    std::vector<Ground> memory;
    std::vector<const unsigned char *> operands;
    for (unsigned k = 0; k < 4; k++)
        memory.emplace_back(k + 1);
    for (size_t k = 0; k < 3; k++)
        operands.push_back(memory[k].at(offsets[k]));
    Ground &ground = memory[static_cast<size_t>(dst_is)];
    unsigned char *dst = ground.at(offsets[static_cast<size_t>(dst_is)]);
    Ground wanted = ground;
    const gcoll_op op = type == GCOLL_INT64_INT64 ? GCOLL_MAXLOC : GCOLL_MAX;
    fold_plainly(type, op, wanted.at(offsets[static_cast<size_t>(dst_is)]), operands, count);
    ASSERT_TRUE(fold(type, op, dst, operands, count, threads));
    ASSERT_EQ(memcmp(ground.bytes, wanted.bytes, sizeof wanted.bytes), 0)
        << gcoll_type_name(type) << " count " << count << " of " << bytes << " bytes, offsets " << offsets[0]
        << " " << offsets[1] << " " << offsets[2] << ", dst is " << dst_is << " at "
        << offsets[static_cast<size_t>(dst_is)];
}

TEST(CudaThreads, EveryDistanceAndCount) {
    for (gcoll_type type : {GCOLL_UINT8, GCOLL_FLOAT16, GCOLL_FLOAT32, GCOLL_INT64, GCOLL_INT64_INT64}) {
        for (uint64_t count = 0; count <= 40; count += count < 10 ? 1 : 5) {
            for (size_t offset = 0; offset < 16; offset++) {
                try_range(type, {offset, offset, offset, offset}, count, 3, 3);
                try_range(type, {offset, offset, offset, offset}, count, 100, static_cast<int>(offset % 3));
                try_range(type, {offset, 0, 8, 4}, count, 2, 3);
                try_range(type, {0, 16, offset, 32}, count, 1, 2);
            }
        }
    }
}

TEST(CudaThreads, VectorsAreUsedWhereTheyCanBe) {
    Ground a(1), b(2), c(3);
    Cut cut = {};
    ASSERT_TRUE(fold(GCOLL_FLOAT32, GCOLL_SUM, c.at(4), {a.at(4), b.at(20)}, 50, 4, &cut));
    EXPECT_EQ(cut.head, 3u);
    EXPECT_EQ(cut.vectors, 11u);
    EXPECT_TRUE(cut.is_aligned);
    ASSERT_TRUE(fold(GCOLL_FLOAT32, GCOLL_SUM, c.at(4), {a.at(8), b.at(4)}, 50, 4, &cut));
    EXPECT_EQ(cut.vectors, 0u);
    EXPECT_TRUE(cut.is_aligned);
    ASSERT_TRUE(fold(GCOLL_FLOAT32, GCOLL_SUM, c.at(4), {a.at(4), b.at(5)}, 50, 4, &cut));
    EXPECT_EQ(cut.vectors, 0u);
    EXPECT_FALSE(cut.is_aligned);
    ASSERT_TRUE(fold(GCOLL_FLOAT32, GCOLL_SUM, c.at(2), {a.at(2), b.at(2)}, 50, 4, &cut));
    EXPECT_FALSE(cut.is_aligned);
}

TEST(CudaThreads, DivisionInPlace) {
    for (gcoll_type type : {GCOLL_INT8, GCOLL_BFLOAT16, GCOLL_INT32, GCOLL_FLOAT64, GCOLL_COMPLEX128}) {
        for (uint64_t count = 0; count <= 40; count += 3) {
            for (size_t offset = 0; offset < 16; offset++) {
                Ground got(9);
                memset(got.bytes + Ground::kMargin, 1, 800); // no NaN
                Ground wanted = got;
                ASSERT_TRUE(divide(type, got.at(offset), count, 3, 4));
                gcoll_divide(wanted.at(offset), count, type, 3);
                ASSERT_EQ(memcmp(got.bytes, wanted.bytes, sizeof wanted.bytes), 0)
                    << gcoll_type_name(type) << " count " << count << " offset " << offset;
            }
        }
    }
}

} // namespace
