// test/algorithms/choice_test.cc - choices as text, selection by cost, and the table of algorithms.
#include <gtest/gtest.h>

#include "test/kit/plan_runner.h"

namespace gcoll_test {
namespace {

// ---- Text ---------------------------------------------------------------------------------------

std::string Format(const gcoll_choice &choice) {
    char text[128];
    gcoll_choice_format(&choice, text, sizeof text);
    return text;
}

TEST(Choice, ParsesAndFormats) {
    struct {
        const char *text, *formatted;
        gcoll_collective collective;
        uint64_t segment;
        int64_t r;
    } cases[] = {
        {"ring", "ring", GCOLL_ALLREDUCE, 0, 0},
        {"group_butterfly", "group_butterfly", GCOLL_ALLREDUCE, 0, -1},
        {"group_butterfly:r=2", "group_butterfly:r=2", GCOLL_ALLREDUCE, 0, 2},
        {"group_butterfly:segment=256Ki:group=auto:r=-1", "group_butterfly:segment=256Ki", GCOLL_ALLREDUCE,
         256 << 10, -1},
        {"ring:segment=1000", "ring:segment=1000", GCOLL_ALLREDUCE, 1000, 0},
        {"ring:segment=2048", "ring:segment=2Ki", GCOLL_ALLREDUCE, 2048, 0},
        {"ring:segment=3Gi", "ring:segment=3Gi", GCOLL_ALLREDUCE, UINT64_C(3) << 30, 0},
        {"ring:segment=0", "ring", GCOLL_ALLREDUCE, 0, 0},
        {"binomial:segment=1Mi", "binomial:segment=1Mi", GCOLL_BROADCAST, 1 << 20, 0},
        {"dissemination", "dissemination", GCOLL_BARRIER, 0, 0},
    };
    for (const auto &c : cases) {
        gcoll_choice choice;
        ASSERT_EQ(GCOLL_OK, gcoll_choice_parse(nullptr, c.text, c.collective, &choice)) << gcoll_last_error();
        EXPECT_EQ(c.formatted, Format(choice));
        EXPECT_EQ(c.segment, choice.segment_bytes);
        EXPECT_EQ(c.r, choice.option[0]);
        gcoll_choice again; // what is formatted means the same
        ASSERT_EQ(GCOLL_OK, gcoll_choice_parse(nullptr, Format(choice).c_str(), c.collective, &again));
        EXPECT_EQ(choice.algorithm, again.algorithm);
        EXPECT_EQ(choice.segment_bytes, again.segment_bytes);
        EXPECT_TRUE(std::equal(choice.option, choice.option + GCOLL_MAX_OPTIONS, again.option));
    }
    for (const char *text : {(const char *)nullptr, "auto"}) {
        gcoll_choice choice;
        ASSERT_EQ(GCOLL_OK, gcoll_choice_parse(nullptr, text, GCOLL_ALLREDUCE, &choice));
        EXPECT_EQ(nullptr, choice.algorithm);
        EXPECT_EQ("auto", Format(choice));
    }
}

TEST(Choice, RejectsAndSaysWhy) {
    struct {
        const char *text, *says;
    } cases[] = {
        {"", "allowed are auto, tour_ring, ring"},
        {"rin", "allowed are auto, tour_ring, ring"},
        {"rings", "'rings'"},
        {"binomial", "'binomial'"}, // another collective's
        {"ring:", "key=value"},
        {"ring:segment", "key=value"},
        {"ring:segment=", "''"},
        {"ring:segment=-1", "'-1'"},
        {"ring:segment=1KB", "Ki, Mi, Gi"},
        {"ring:segment=Ki", "'Ki'"},
        {"ring:segment=99999999999999999999", "segment"},
        {"ring:segment=9999999999999Gi", "segment"},
        {"ring:segment=1:segment=2", "twice"},
        {"ring:r=1", "allowed are segment"},
        {"group_butterfly:r=", "-1 to 20"},
        {"group_butterfly:r=-2", "-1 to 20"},
        {"group_butterfly:r=21", "-1 to 20"},
        {"group_butterfly:r=1x", "'1x'"},
        {"group_butterfly:r=9223372036854775808", "-1 to 20"},
        {"group_butterfly:r=-9223372036854775809", "-1 to 20"},
        {"group_butterfly:group=xyz", "allowed are cyclic, xor, product, auto"},
        {"group_butterfly:r=1:r=1", "twice"},
        {"group_butterfly::r=1", "key=value"},
        {"group_butterfly:q=1", "allowed are r, group, factor, segment"},
        {"auto:segment=1", "no options"},
        {"group_butterfly:=1", "''"},
    };
    for (const auto &c : cases) {
        gcoll_choice choice;
        choice.segment_bytes = 77;
        EXPECT_EQ(GCOLL_ERR_INVALID, gcoll_choice_parse(nullptr, c.text, GCOLL_ALLREDUCE, &choice)) << c.text;
        EXPECT_NE(nullptr, strstr(gcoll_last_error(), c.says)) << c.text << ": " << gcoll_last_error();
        EXPECT_EQ(77u, choice.segment_bytes); // written on success only
    }
}

TEST(Choice, FormatTruncates) {
    gcoll_choice choice;
    ASSERT_EQ(GCOLL_OK,
              gcoll_choice_parse(nullptr, "group_butterfly:r=2:segment=1Ki", GCOLL_ALLREDUCE, &choice));
    const std::string whole = "group_butterfly:r=2:segment=1Ki";
    for (size_t bytes = 0; bytes <= whole.size() + 2; bytes++) {
        std::vector<char> text(bytes + 1, '#');
        gcoll_choice_format(&choice, text.data(), bytes);
        EXPECT_EQ('#', text[bytes]);
        if (bytes > 0)
            EXPECT_EQ(whole.substr(0, bytes - 1), text.data());
    }
}

// ---- Selection -------------------------------------------------------------------------------------

double Price(const gcoll_choice &choice, gcoll_problem problem, size_t type_bytes,
             const gcoll_cost_parameters &c) {
    std::copy(choice.option, choice.option + GCOLL_MAX_OPTIONS, problem.option);
    gcoll_cost cost;
    choice.algorithm->cost(&problem, &cost);
    return c.alpha * cost.steps + double(type_bytes) * (c.beta * cost.sent + c.gamma * cost.reduced);
}

gcoll_status Choose(const gcoll_problem &problem, size_t type_bytes, uint32_t claims,
                    const gcoll_cost_parameters &parameters, gcoll_choice *choice) {
    const gcoll_needs needs = {claims, 0, nullptr, nullptr};
    return gcoll_choose(nullptr, &problem, type_bytes, &needs, &parameters, choice, nullptr, nullptr);
}

void Resolve(const gcoll_problem &problem, uint32_t claims, const gcoll_cost_parameters &parameters,
             gcoll_choice *choice) {
    const gcoll_needs needs = {claims, 0, nullptr, nullptr};
    gcoll_choice_resolve(&problem, 4, &needs, &parameters, choice);
}

TEST(Select, NothingIsCheaper) {
    const gcoll_cost_parameters parameters = {20e-6, 1e-9, 2e-10};
    for (uint32_t size : {1u, 2u, 3u, 7u, 16u, 100u, 127u, 1000u})
        for (uint64_t count :
             {UINT64_C(0), UINT64_C(1), UINT64_C(1000), UINT64_C(100000), UINT64_C(30000000)}) {
            gcoll_problem problem = Problem(GCOLL_ALLREDUCE, size / 2, size, count);
            for (uint32_t needs = 0; needs < 4; needs++) {
                const gcoll_needs asked = {needs, 0, nullptr, nullptr};
                gcoll_choice choice;
                ASSERT_EQ(GCOLL_OK,
                          gcoll_choose(nullptr, &problem, 4, &asked, &parameters, &choice, nullptr, nullptr))
                    << gcoll_last_error();
                double price = Price(choice, problem, 4, parameters);
                gcoll_problem chosen = problem;
                std::copy(choice.option, choice.option + GCOLL_MAX_OPTIONS, chosen.option);
                EXPECT_EQ(needs, gcoll_algorithm_claims(choice.algorithm, &chosen) & needs);
                for (const char *text : {"ring", "sorted_linear_tree", "group_butterfly"})
                    for (int64_t r = 0; r <= (text[0] == 'g' ? 10 : 0); r++) {
                        gcoll_choice other;
                        ASSERT_EQ(GCOLL_OK, gcoll_choice_parse(nullptr, text, GCOLL_ALLREDUCE, &other));
                        other.option[0] = r;
                        gcoll_problem tried = problem;
                        tried.option[0] = r;
                        if ((gcoll_algorithm_claims(other.algorithm, &tried) & needs) == needs) {
                            EXPECT_LE(price, Price(other, problem, 4, parameters))
                                << Format(choice) << " " << Format(other);
                        }
                    }
            }
        }
}

// Where one parameter is all that counts, what is chosen has the least of what it prices.
TEST(Select, ExtremesAreKnown) {
    gcoll_choice choice;
    gcoll_cost cost;
    const gcoll_cost_parameters latency = {1, 1e-12, 1e-12}, bandwidth = {1e-12, 1, 1};
    gcoll_problem problem = Problem(GCOLL_ALLREDUCE, 0, 13, 1300);
    auto chosen_cost = [&] {
        gcoll_problem chosen = problem;
        std::copy(choice.option, choice.option + GCOLL_MAX_OPTIONS, chosen.option);
        choice.algorithm->cost(&chosen, &cost);
        return gcoll_algorithm_claims(choice.algorithm, &chosen);
    };
    ASSERT_EQ(GCOLL_OK, Choose(problem, 4, 0, latency, &choice));
    chosen_cost();
    EXPECT_EQ(4, cost.steps); // ceil(log2 13): nobody hears of 13 ranks in fewer
    ASSERT_EQ(GCOLL_OK, Choose(problem, 4, GCOLL_CLAIM_RANK_IDENTICAL, latency, &choice));
    EXPECT_TRUE(chosen_cost() & GCOLL_CLAIM_RANK_IDENTICAL);
    ASSERT_EQ(GCOLL_OK, Choose(problem, 4, 0, bandwidth, &choice));
    chosen_cost();
    EXPECT_DOUBLE_EQ(2400, cost.sent); // 2(P-1)/P n, the least there is
    EXPECT_DOUBLE_EQ(1200, cost.reduced);
    ASSERT_EQ(GCOLL_OK, Choose(problem, 4, GCOLL_CLAIM_ORDERED, bandwidth, &choice));
    EXPECT_TRUE(chosen_cost() & GCOLL_CLAIM_ORDERED);
    problem = Problem(GCOLL_BROADCAST, 0, 13, 1000);
    ASSERT_EQ(GCOLL_OK, Choose(problem, 4, 0, latency, &choice));
    chosen_cost();
    EXPECT_EQ(4, cost.steps);
    problem = Problem(GCOLL_BARRIER, 0, 13, 0);
    ASSERT_EQ(GCOLL_OK, Choose(problem, 1, 0, latency, &choice));
    chosen_cost();
    EXPECT_EQ(4, cost.steps);
}

// A memory limit leaves only what needs no more, and says so when nothing is left.
TEST(Select, KeepsTheMemoryLimit) {
    const gcoll_cost_parameters latency = {1, 1e-12, 1e-12};
    gcoll_problem problem = Problem(GCOLL_ALLREDUCE, 0, 13, 1300);
    for (uint64_t limit : {UINT64_C(1), UINT64_C(1300), UINT64_C(2600)}) {
        const gcoll_needs needs = {0, limit, nullptr, nullptr};
        gcoll_choice choice;
        ASSERT_EQ(GCOLL_OK, gcoll_choose(nullptr, &problem, 4, &needs, &latency, &choice, nullptr, nullptr));
        gcoll_problem chosen = problem;
        std::copy(choice.option, choice.option + GCOLL_MAX_OPTIONS, chosen.option);
        uint64_t most = 0;
        for (const Plan &plan : CreateAll(*choice.algorithm, chosen))
            most = std::max(most, plan->scratch);
        EXPECT_LE(most, limit) << Format(choice);
    }
}

TEST(Select, ResolvesOnlyWhatIsLeftToCost) {
    const gcoll_cost_parameters latency = {1, 1e-12, 1e-12};
    gcoll_problem problem = Problem(GCOLL_ALLREDUCE, 0, 13, 1000);
    gcoll_choice choice;
    ASSERT_EQ(GCOLL_OK, gcoll_choice_parse(nullptr, "group_butterfly:segment=4Ki", GCOLL_ALLREDUCE, &choice));
    Resolve(problem, 0, latency, &choice);
    EXPECT_EQ("group_butterfly:r=4:segment=4Ki", Format(choice));
    ASSERT_EQ(GCOLL_OK, gcoll_choice_parse(nullptr, "group_butterfly", GCOLL_ALLREDUCE, &choice));
    Resolve(problem, GCOLL_CLAIM_RANK_IDENTICAL, latency, &choice);
    EXPECT_EQ("group_butterfly:r=0", Format(choice));
    ASSERT_EQ(GCOLL_OK, gcoll_choice_parse(nullptr, "group_butterfly:r=1", GCOLL_ALLREDUCE, &choice));
    Resolve(problem, 0, latency, &choice);
    EXPECT_EQ("group_butterfly:r=1", Format(choice));
    ASSERT_EQ(GCOLL_OK, gcoll_choice_parse(nullptr, "ring:segment=8", GCOLL_ALLREDUCE, &choice));
    Resolve(problem, 0, latency, &choice);
    EXPECT_EQ("ring:segment=8", Format(choice));
}

TEST(Registry, RowsAreComplete) {
    std::map<std::pair<int, std::string>, int> names;
    for (const gcoll_algorithm *const *row = gcoll_algorithms; *row; row++) {
        const gcoll_algorithm *a = *row;
        EXPECT_EQ(1, ++(names[{a->collective, a->name}]));
        EXPECT_TRUE(a->summary && a->source && a->plan && a->cost) << a->name;
        EXPECT_EQ(std::string::npos, std::string(a->name).find_first_of(":= "));
        for (int i = 0; a->options && a->options[i].name; i++) {
            EXPECT_LT(i, GCOLL_MAX_OPTIONS);
            EXPECT_TRUE(a->options[i].help != nullptr);
        }
    }
}

void PlanNothing(const gcoll_problem *, gcoll_builder *) {}

// Its cost falls with the option's value.
void FallingCost(const gcoll_problem *problem, gcoll_cost *cost) {
    *cost = {1 / (1.0 + (double)problem->option[0]), 0, 0, 0};
}

struct Added { // an algorithm of one option
    gcoll_option options[2] = {};
    gcoll_algorithm row = {};
    gcoll_registry registry = {};
    gcoll_status status;
    explicit Added(const gcoll_option &option) {
        options[0] = option;
        row.name = "added";
        row.summary = row.source = "a test";
        row.options = options;
        row.plan = PlanNothing;
        row.cost = FallingCost;
        status = gcoll_registry_add(&registry, &row);
    }
    ~Added() { gcoll_registry_clear(&registry); }
};

TEST(Registry, RefusesOptionsThatCannotBeTold) {
    static const char *const words[] = {"no", "yes", nullptr};
    struct {
        gcoll_option option;
        const char *says;
    } cases[] = {
        {{"o", "help", 5, 0, 9, nullptr, false}, nullptr},
        {{"o", "help", 10, 0, 9, nullptr, false}, "its fallback is 10, allowed are 0 to 9"},
        {{"o", "help", 1, 0, 0, words, false}, nullptr},
        {{"o", "help", 2, 0, 9, words, false}, "its fallback is 2, allowed are 0 to 1"},
        {{"o", "help", -1, -1, 9, words, false}, "its fallback is -1, allowed are 0 to 1"},
        {{"o", nullptr, 5, 0, 9, nullptr, false}, "its help is NULL"},
        {{"o", "help", 0, GCOLL_BY_COST, 4096, nullptr, false}, nullptr},
        {{"o", "help", 0, GCOLL_BY_COST, 4097, nullptr, false}, "selection would try all values up to 4097"},
        {{"o", "help", 0, GCOLL_BY_COST, INT64_MAX, nullptr, true}, nullptr},
    };
    for (const auto &c : cases) {
        Added added(c.option);
        EXPECT_EQ(c.says ? GCOLL_ERR_INVALID : GCOLL_OK, added.status);
        if (c.says == nullptr)
            continue;
        EXPECT_NE(std::string::npos, std::string(gcoll_last_error()).find(c.says)) << gcoll_last_error();
    }
}

TEST(Select, DoublesUpToTheLargestNumber) {
    const gcoll_cost_parameters latency = {1, 1e-12, 1e-12};
    Added added({"o", "help", GCOLL_BY_COST, GCOLL_BY_COST, INT64_MAX, nullptr, true});
    gcoll_choice choice;
    ASSERT_EQ(GCOLL_OK, gcoll_choice_parse(&added.registry, "added", GCOLL_ALLREDUCE, &choice));
    Resolve(Problem(GCOLL_ALLREDUCE, 0, 13, 1000), 0, latency, &choice);
    EXPECT_EQ(INT64_C(1) << 62, choice.option[0]);
}

} // namespace
} // namespace gcoll_test
