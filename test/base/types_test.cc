// Names, sizes and checks of types, operations and collectives; hashes, sizes in texts, the clock, random
// bytes and the last error.
#include <gtest/gtest.h>

#include <climits>
#include <cstring>
#include <set>
#include <string>
#include <thread>

extern "C" {
#include "gcoll/base/base.h"
#include "gcoll/base/hash.h"
#include "gcoll/base/text.h"
#include "gcoll/plan.h"
}

namespace {

const char kIntegerOps[] = "sum product min max avg band bor bxor land lor lxor";
const char kFloatOps[] = "sum product min max avg";
const char kComplexOps[] = "sum product avg";
const char kLocatedOps[] = "minloc maxloc";

struct TypeRow {
    const char *name;
    size_t bytes;
    gcoll_type type;
    bool rounds;
    std::string ops;
};

const TypeRow kTypes[] = {
    {"int8", 1, GCOLL_INT8, false, kIntegerOps},
    {"uint8", 1, GCOLL_UINT8, false, kIntegerOps},
    {"int32", 4, GCOLL_INT32, false, kIntegerOps},
    {"uint32", 4, GCOLL_UINT32, false, kIntegerOps},
    {"int64", 8, GCOLL_INT64, false, kIntegerOps},
    {"uint64", 8, GCOLL_UINT64, false, kIntegerOps},
    {"float16", 2, GCOLL_FLOAT16, true, kFloatOps},
    {"bfloat16", 2, GCOLL_BFLOAT16, true, kFloatOps},
    {"float32", 4, GCOLL_FLOAT32, true, kFloatOps},
    {"float64", 8, GCOLL_FLOAT64, true, kFloatOps},
    {"int16", 2, GCOLL_INT16, false, kIntegerOps},
    {"uint16", 2, GCOLL_UINT16, false, kIntegerOps},
    {"bool", 1, GCOLL_BOOL, false, "land lor lxor"},
    {"complex64", 8, GCOLL_COMPLEX64, true, kComplexOps},
    {"complex128", 16, GCOLL_COMPLEX128, true, kComplexOps},
    {"float8_e4m3", 1, GCOLL_FLOAT8_E4M3, true, kFloatOps},
    {"float8_e5m2", 1, GCOLL_FLOAT8_E5M2, true, kFloatOps},
    {"float32_int32", 8, GCOLL_FLOAT32_INT32, false, kLocatedOps},
    {"float64_int64", 16, GCOLL_FLOAT64_INT64, false, kLocatedOps},
    {"int32_int32", 8, GCOLL_INT32_INT32, false, kLocatedOps},
    {"int64_int64", 16, GCOLL_INT64_INT64, false, kLocatedOps},
};

// By number: bindings and ranks of other builds know them so.
const char *const kOps[] = {"sum",  "product", "min",  "max", "avg",  "band",   "bor",
                            "bxor", "user",    "land", "lor", "lxor", "minloc", "maxloc"};

bool has_word(const std::string &words, const std::string &word) {
    return (" " + words + " ").find(" " + word + " ") != std::string::npos;
}

TEST(Types, NamesAndSizes) {
    ASSERT_EQ(std::size(kTypes), static_cast<size_t>(GCOLL_TYPE_COUNT));
    int number = 0;
    for (const TypeRow &row : kTypes) {
        EXPECT_EQ(row.type, number++) << row.name << ": numbers never change";
        EXPECT_STREQ(gcoll_type_name(row.type), row.name);
        EXPECT_EQ(gcoll_type_size(row.type), row.bytes) << row.name;
        const bool has_halves = row.ops == kComplexOps || row.ops == kLocatedOps;
        EXPECT_EQ(gcoll_type_alignment(row.type), has_halves ? row.bytes / 2 : row.bytes) << row.name;
        EXPECT_EQ(gcoll_type_is_floating(row.type), row.rounds) << row.name;
        gcoll_type parsed = GCOLL_TYPE_COUNT;
        EXPECT_EQ(gcoll_type_parse(row.name, &parsed), GCOLL_OK);
        EXPECT_EQ(parsed, row.type);
    }
    for (int none : {-1, static_cast<int>(GCOLL_TYPE_COUNT), INT_MAX, INT_MIN}) {
        EXPECT_STREQ(gcoll_type_name(static_cast<gcoll_type>(none)), "?");
        EXPECT_EQ(gcoll_type_size(static_cast<gcoll_type>(none)), 0u);
        EXPECT_FALSE(gcoll_type_is_floating(static_cast<gcoll_type>(none)));
    }
}

TEST(Ops, Names) {
    ASSERT_EQ(std::size(kOps), static_cast<size_t>(GCOLL_OP_COUNT));
    for (int op = 0; op < GCOLL_OP_COUNT; op++) {
        EXPECT_STREQ(gcoll_op_name(static_cast<gcoll_op>(op)), kOps[op]);
        gcoll_op parsed = GCOLL_OP_COUNT;
        EXPECT_EQ(gcoll_op_parse(kOps[op], &parsed), GCOLL_OK);
        EXPECT_EQ(parsed, op);
    }
    for (int none : {-1, static_cast<int>(GCOLL_OP_COUNT), INT_MAX, INT_MIN})
        EXPECT_STREQ(gcoll_op_name(static_cast<gcoll_op>(none)), "?");
}

TEST(Types, ParseRejectsWithTheAllowedNames) {
    for (const char *name : {"", "float", "FLOAT32", "float32 ", " int8", "int128", "float8", "?"}) {
        gcoll_type type = GCOLL_INT64;
        EXPECT_EQ(gcoll_type_parse(name, &type), GCOLL_ERR_INVALID) << name;
        EXPECT_EQ(type, GCOLL_INT64) << "written on failure";
        std::string text = gcoll_last_error();
        EXPECT_NE(text.find("\"" + std::string(name) + "\""), std::string::npos) << text;
        for (const TypeRow &row : kTypes)
            EXPECT_NE(text.find(row.name), std::string::npos) << text << " lacks " << row.name;
    }
    gcoll_type type = GCOLL_INT64;
    EXPECT_EQ(gcoll_type_parse(nullptr, &type), GCOLL_ERR_INVALID);
    EXPECT_EQ(gcoll_type_parse(std::string(5000, 'x').c_str(), &type), GCOLL_ERR_INVALID);
    EXPECT_NE(std::string(gcoll_last_error()).find("int64_int64"), std::string::npos)
        << "crowded out by the name";
}

// Outputs are asked for by name, and written on success alone.
TEST(Types, ParseNeedsSomewhereToWrite) {
    const auto says = [](gcoll_status status, const char *text) {
        EXPECT_EQ(status, GCOLL_ERR_INVALID) << text;
        EXPECT_STREQ(gcoll_last_error(), text);
    };
    says(gcoll_type_parse("int8", nullptr), "type: is NULL");
    says(gcoll_op_parse("sum", nullptr), "op: is NULL");
    says(gcoll_codec_parse("bf16", nullptr), "codec: is NULL");
    gcoll_codec codec = {GCOLL_CODEC_FP16, 0, 0, 0};
    EXPECT_EQ(gcoll_codec_parse("bf17", &codec), GCOLL_ERR_INVALID);
    EXPECT_EQ(codec.kind, GCOLL_CODEC_FP16) << "written on failure";
}

TEST(Ops, ParseRejectsWithTheAllowedNames) {
    for (const char *name : {"", "Sum", "average", "sum,", "and"}) {
        gcoll_op op = GCOLL_MAX;
        EXPECT_EQ(gcoll_op_parse(name, &op), GCOLL_ERR_INVALID) << name;
        EXPECT_EQ(op, GCOLL_MAX) << "written on failure";
        std::string text = gcoll_last_error();
        EXPECT_NE(text.find("\"" + std::string(name) + "\""), std::string::npos) << text;
        for (const char *allowed : kOps)
            EXPECT_NE(text.find(allowed), std::string::npos) << text << " lacks " << allowed;
    }
    gcoll_op op = GCOLL_MAX;
    EXPECT_EQ(gcoll_op_parse(nullptr, &op), GCOLL_ERR_INVALID);
}

// An error names the argument, the operation and the type, and lists the operations that the type has.
TEST(Ops, CheckKnowsWhatEachTypeHas) {
    for (const TypeRow &row : kTypes) {
        for (int op = 0; op < GCOLL_OP_COUNT; op++) {
            gcoll_status status = gcoll_op_check(row.type, static_cast<gcoll_op>(op));
            if (op == GCOLL_USER || has_word(row.ops, kOps[op])) {
                EXPECT_EQ(status, GCOLL_OK) << row.name << " " << kOps[op];
                continue;
            }
            EXPECT_EQ(status, GCOLL_ERR_INVALID) << row.name << " " << kOps[op];
            std::string allowed;
            for (const char *name : kOps)
                allowed += has_word(row.ops, name) ? std::string(name) + ", " : "";
            EXPECT_EQ(std::string(gcoll_last_error()), std::string("op: is ") + kOps[op] + " with type " +
                                                           row.name + "; allowed are " + allowed +
                                                           "and a function of the caller's");
        }
    }
}

TEST(Ops, CheckRejectsNumbersThatAreNone) {
    for (int none : {-1, static_cast<int>(GCOLL_TYPE_COUNT), 77, INT_MAX, INT_MIN}) {
        EXPECT_EQ(gcoll_op_check(static_cast<gcoll_type>(none), GCOLL_SUM), GCOLL_ERR_INVALID);
        EXPECT_NE(std::string(gcoll_last_error()).find(std::to_string(none)), std::string::npos);
        EXPECT_EQ(gcoll_op_check(GCOLL_INT8, static_cast<gcoll_op>(none)), GCOLL_ERR_INVALID);
        EXPECT_NE(std::string(gcoll_last_error()).find(std::to_string(none)), std::string::npos);
    }
}

TEST(Time, NeverGoesBackAndAdvances) {
    int64_t first = gcoll_now_ns(), last = first;
    EXPECT_GT(first, 0);
    while (last <
           first + 1000000) { // a millisecond: a clock that stands still runs into the test's time limit
        int64_t now = gcoll_now_ns();
        ASSERT_GE(now, last);
        last = now;
    }
    EXPECT_GE(gcoll_now_ms(), last / 1000000);
}

TEST(Random, DiffersAndStaysInside) {
    std::set<std::string> seen;
    for (int i = 0; i < 100; i++) {
        unsigned char bytes[24];
        memset(bytes, 0x5a, sizeof bytes);
        ASSERT_EQ(gcoll_random_bytes(bytes + 4, 16), GCOLL_OK);
        for (int guard : {0, 1, 2, 3, 20, 21, 22, 23})
            EXPECT_EQ(bytes[guard], 0x5a);
        EXPECT_TRUE(seen.emplace(reinterpret_cast<char *>(bytes) + 4, 16).second) << "16 bytes came twice";
    }
    EXPECT_EQ(gcoll_random_bytes(nullptr, 0), GCOLL_OK);
    std::string large(100000, '\0'); // beyond what getrandom promises to give in one call
    ASSERT_EQ(gcoll_random_bytes(&large[0], large.size()), GCOLL_OK);
    EXPECT_NE(large.substr(large.size() - 16), std::string(16, '\0'));
}

TEST(LastError, FormatsNestsAndTruncates) {
    EXPECT_EQ(gcoll_error(GCOLL_ERR_IO, "port %d", 7), GCOLL_ERR_IO);
    EXPECT_STREQ(gcoll_last_error(), "port 7");
    gcoll_error(GCOLL_ERR_PEER, "rank 3: %s", gcoll_last_error());
    EXPECT_STREQ(gcoll_last_error(), "rank 3: port 7");
    gcoll_error(GCOLL_ERR_IO, "%s", std::string(5000, 'y').c_str());
    EXPECT_EQ(gcoll_last_error(), std::string(1023, 'y'));
}

TEST(LastError, BelongsToItsThread) {
    gcoll_error(GCOLL_ERR_IO, "mine");
    std::string theirs = "unset";
    std::thread([&] { theirs = gcoll_last_error(); }).join();
    EXPECT_EQ(theirs, "");
    EXPECT_STREQ(gcoll_last_error(), "mine");
}

TEST(Status, EveryOneHasItsOwnText) {
    std::set<std::string> texts;
    for (int status = GCOLL_OK; status <= GCOLL_WOKEN; status++)
        EXPECT_TRUE(texts.insert(gcoll_status_text(static_cast<gcoll_status>(status))).second) << status;
    EXPECT_STREQ(gcoll_status_text(static_cast<gcoll_status>(-1)), "unknown status");
    EXPECT_STREQ(gcoll_status_text(static_cast<gcoll_status>(GCOLL_WOKEN + 1)), "unknown status");
}

TEST(Sizes, MultiplyChecksOverflow) {
    uint64_t product = 5;
    EXPECT_TRUE(gcoll_mul_u64(UINT64_C(0xffffffff), UINT64_C(0xffffffff), &product));
    EXPECT_EQ(product, UINT64_C(0xfffffffe00000001));
    EXPECT_FALSE(gcoll_mul_u64(UINT64_C(1) << 32, UINT64_C(1) << 32, &product));
}

// The vectors that the authors of FNV publish.
TEST(Hash, IsFnv1a) {
    EXPECT_EQ(UINT64_C(0xcbf29ce484222325), gcoll_hash_text(GCOLL_HASH_START, ""));
    EXPECT_EQ(UINT64_C(0xaf63dc4c8601ec8c), gcoll_hash_text(GCOLL_HASH_START, "a"));
    EXPECT_EQ(UINT64_C(0x85944171f73967e8), gcoll_hash_text(GCOLL_HASH_START, "foobar"));
    EXPECT_EQ(UINT64_C(0x85944171f73967e8), gcoll_hash_bytes(GCOLL_HASH_START, "foobarx", 6));
}

// Ranks and multiples of large powers of two fill a table of twice their number without long runs.
TEST(Hash, MixSpreadsNumbersOverSlots) {
    for (unsigned shift : {0u, 12u, 32u, 48u}) {
        std::set<uint64_t> slots;
        for (uint64_t number = 0; number < 1024; number++)
            slots.insert(gcoll_hash_mix(number << shift) & 2047);
        EXPECT_GE(slots.size(), 640u) << shift;
    }
}

TEST(Text, ParsesSizes) {
    const struct {
        const char *text;
        uint64_t most;
        bool good;
        uint64_t value;
    } cases[] = {
        {"0", 10, true, 0},
        {"64", 64, true, 64},
        {"64", 63, false, 0},
        {"4Ki", UINT64_MAX, true, 4096},
        {"4Ki", 4096, true, 4096},
        {"4Ki", 4095, false, 0},
        {"3Mi", UINT64_MAX, true, UINT64_C(3) << 20},
        {"2Gi", UINT64_MAX, true, UINT64_C(2) << 30},
        {"18446744073709551615", UINT64_MAX, true, UINT64_MAX},
        {"18446744073709551616", UINT64_MAX, false, 0},
        {"17179869184Gi", UINT64_MAX, false, 0},
        {"17179869183Gi", UINT64_MAX, true, UINT64_C(17179869183) << 30},
        {"", 10, false, 0},
        {"Ki", 10, false, 0},
        {"1Ti", UINT64_MAX, false, 0},
        {"1ki", UINT64_MAX, false, 0},
        {"1K", UINT64_MAX, false, 0},
        {"-1", UINT64_MAX, false, 0},
        {" 1", UINT64_MAX, false, 0},
        {"1x", UINT64_MAX, false, 0},
    };
    for (const auto &c : cases) {
        uint64_t value = 7;
        EXPECT_EQ(c.good, gcoll_text_parse_size(c.text, strlen(c.text), c.most, &value)) << c.text;
        EXPECT_EQ(c.good ? c.value : 7, value) << c.text;
    }
    uint64_t value = 7;
    EXPECT_TRUE(gcoll_text_parse_size("12Ki:r=1", 4, UINT64_MAX, &value)); // as many bytes as are given
    EXPECT_EQ(12288u, value);
    EXPECT_FALSE(gcoll_text_parse_size("1\0i", 3, UINT64_MAX, &value));
}

std::set<gcoll_collective> With(bool (*trait)(gcoll_collective)) {
    std::set<gcoll_collective> found;
    for (int c = -1; c <= GCOLL_COLLECTIVE_COUNT; c++)
        if (trait(static_cast<gcoll_collective>(c)))
            found.insert(static_cast<gcoll_collective>(c));
    return found;
}

TEST(Collectives, HaveTheTraitsThatTheirDefinitionsGiveThem) {
    using Set = std::set<gcoll_collective>;
    EXPECT_EQ((Set{GCOLL_BROADCAST, GCOLL_REDUCE, GCOLL_GATHER, GCOLL_SCATTER}),
              With(gcoll_collective_has_root));
    EXPECT_EQ((Set{GCOLL_REDUCE_SCATTER, GCOLL_ALLGATHER, GCOLL_GATHER, GCOLL_SCATTER, GCOLL_ALLTOALL}),
              With(gcoll_collective_has_blocks));
    EXPECT_EQ((Set{GCOLL_ALLREDUCE, GCOLL_REDUCE, GCOLL_REDUCE_SCATTER}), With(gcoll_collective_reduces));
    EXPECT_EQ((Set{GCOLL_ALLREDUCE, GCOLL_BROADCAST, GCOLL_REDUCE_SCATTER}),
              With(gcoll_collective_takes_buffers));
    EXPECT_EQ((Set{GCOLL_ALLREDUCE, GCOLL_BROADCAST, GCOLL_REDUCE, GCOLL_REDUCE_SCATTER, GCOLL_ALLGATHER,
                   GCOLL_GATHER, GCOLL_SCATTER}),
              With(gcoll_collective_takes_in_place));
    EXPECT_EQ((Set{GCOLL_REDUCE, GCOLL_GATHER, GCOLL_SCATTER}),
              With([](gcoll_collective c) { return gcoll_collective_traits(c).in_place_at_root; }));
}

} // namespace
