// Files of plans: what is written is read as the same plans, and what is broken is refused with rank and
// step.
#include <json-c/json.h>

#include <random>

#include "test/kit/program.h"
#include "test/plan/simulate_support.h"
#include "test/plan/verify_grid.h"
#include "tools/plan_file.h"

extern "C" const char cli_program[] = "test";

namespace {

using namespace program_test;
using gcoll_test::Plan;
using verify_grid::Operation;
using Plans = std::vector<Plan>;

std::vector<const gcoll_plan *> pointers(const Plans &plans) {
    std::vector<const gcoll_plan *> result;
    for (const Plan &plan : plans)
        result.push_back(plan.get());
    return result;
}

// None if the algorithm does not do this.
Plans plans_of(const gcoll_algorithm &algorithm, const Operation &operation) {
    Plans made;
    for (uint32_t rank = 0; rank < operation.problem.size; rank++) {
        gcoll_problem problem = operation.of(rank);
        gcoll_test::SetFallbacks(&problem, &algorithm);
        made.push_back(gcoll_test::Create(algorithm, problem));
        if (!made.back())
            return {};
    }
    return made;
}

// What a function writes to a FILE.
template <typename Write> std::string written(Write write) {
    char *text = nullptr;
    size_t bytes = 0;
    std::FILE *file = open_memstream(&text, &bytes);
    write(file);
    std::fclose(file);
    std::string result(text, bytes);
    std::free(text);
    return result;
}

std::string file_of(const Plans &plans, const char *name = "some") {
    const auto all = pointers(plans);
    return written([&](std::FILE *file) {
        EXPECT_TRUE(tool_plan_file_write(file, name, all.data(), static_cast<uint32_t>(all.size())));
    });
}

std::string words_of(const Plans &plans) {
    return written([&](std::FILE *file) {
        for (const Plan &plan : plans)
            gcoll_plan_print(plan.get(), file);
    });
}

struct Read {
    Plans plans; // none: it was refused
    std::string said, name;
};

Read read(const std::string &text, const uint64_t *elements = nullptr) {
    folder here;
    const std::string path = here.path + "/plan";
    std::ofstream(path) << text;
    tool_plan_file file{};
    Read result;
    testing::internal::CaptureStderr();
    const bool good = tool_plan_file_read("--plan", path.c_str(), elements, &file);
    result.said = testing::internal::GetCapturedStderr();
    EXPECT_EQ(good, result.said.empty()) << result.said;
    EXPECT_TRUE(good || contains(result.said, "--plan: plan file '" + path + "': ")) << result.said;
    for (uint32_t rank = 0; good && rank < file.size; rank++) {
        result.plans.emplace_back(file.plans[rank]);
        file.plans[rank] = nullptr;
    }
    result.name = file.name;
    tool_plan_file_free(&file);
    return result;
}

// What the file, or else the verifier, has against these plans; "": nothing.
std::string objection(const std::string &text) {
    const Read file = read(text);
    if (file.plans.empty())
        return file.said;
    const auto all = pointers(file.plans);
    return gcoll_verify(all.data(), static_cast<uint32_t>(all.size()), nullptr) == GCOLL_OK
               ? ""
               : gcoll_last_error();
}

// ---- The same plans, field by field -----------------------------------------------------------------------

bool same_place(const gcoll_ref &a, const gcoll_ref &b) {
    return a.space == b.space && a.index == b.index && a.offset == b.offset;
}

// The fields that mean something for a step of this kind; operands of folds are those of the plans.
bool same_step(const gcoll_plan &p, const gcoll_step &a, const gcoll_plan &q, const gcoll_step &b) {
    bool same = a.kind == b.kind && a.round == b.round && a.count == b.count &&
                a.dependencies == b.dependencies && a.successors == b.successors &&
                a.first_successor == b.first_successor && a.received_first == b.received_first;
    if (!same)
        return false;
    if (gcoll_step_is_message(&a))
        same = a.peer == b.peer && a.message == b.message;
    if (a.count == 0)
        return same;
    if (a.kind != GCOLL_STEP_SEND)
        same = same && same_place(a.dst, b.dst);
    if (a.kind != GCOLL_STEP_RECV && a.kind != GCOLL_STEP_DIVIDE)
        same = same && same_place(a.a, b.a);
    if (a.kind == GCOLL_STEP_REDUCE)
        same = same && same_place(a.b, b.b);
    if (a.kind == GCOLL_STEP_FOLD)
        same = same && a.operand_count == b.operand_count &&
               std::equal(p.operands + a.first_operand, p.operands + a.first_operand + a.operand_count,
                          q.operands + b.first_operand);
    return same;
}

template <typename T> bool same_list(const T *a, const T *b, size_t count) {
    return (a == nullptr) == (b == nullptr) && (a == nullptr || std::equal(a, a + count, b));
}

bool same_problem(const gcoll_problem &a, const gcoll_problem &b) {
    return a.collective == b.collective && a.rank == b.rank && a.size == b.size && a.root == b.root &&
           a.exchanges == b.exchanges && a.buffers == b.buffers && a.in_place == b.in_place &&
           a.average == b.average && a.count == b.count && a.segment == b.segment &&
           same_list(a.offsets, b.offsets, a.size + 1) &&
           same_list(a.recv_offsets, b.recv_offsets, a.size + 1) &&
           same_list(a.in_memory, b.in_memory, a.buffers) &&
           same_list(a.out_memory, b.out_memory, a.buffers) && a.staging.direct == b.staging.direct;
}

void expect_same(const gcoll_plan &a, const gcoll_plan &b) {
    EXPECT_TRUE(same_problem(a.problem, b.problem));
    ASSERT_EQ(a.step_count, b.step_count);
    ASSERT_EQ(a.successor_count, b.successor_count);
    EXPECT_EQ(a.rounds, b.rounds);
    EXPECT_EQ(a.window, b.window);
    EXPECT_EQ(a.divisor, b.divisor);
    EXPECT_EQ(a.scratch, b.scratch);
    for (uint32_t i = 0; i < a.step_count; i++)
        ASSERT_TRUE(same_step(a, a.steps[i], b, b.steps[i])) << "rank " << a.problem.rank << ", step " << i;
    EXPECT_TRUE(std::equal(a.successors, a.successors + a.successor_count, b.successors));
}

// Writes the plans, reads them, and compares all that there is to compare. False: no such plans.
bool check(const gcoll_algorithm &algorithm, const Operation &operation) {
    SCOPED_TRACE(operation.describe(algorithm));
    const Plans plans = plans_of(algorithm, operation);
    if (plans.empty())
        return false;
    const std::string text = file_of(plans, algorithm.name);
    const Read file = read(text);
    EXPECT_EQ(file.said, "");
    EXPECT_EQ(file.name, algorithm.name);
    if (file.plans.size() != plans.size()) {
        ADD_FAILURE() << text;
        return true;
    }
    for (size_t rank = 0; rank < plans.size() && !testing::Test::HasFailure(); rank++)
        expect_same(*plans[rank], *file.plans[rank]);
    EXPECT_EQ(words_of(file.plans), words_of(plans));
    EXPECT_EQ(file_of(file.plans, algorithm.name), text);
    const auto before = pointers(plans), after = pointers(file.plans);
    gcoll_verify_report a{}, b{};
    EXPECT_EQ(gcoll_verify(before.data(), operation.problem.size, &a), GCOLL_OK) << gcoll_last_error();
    EXPECT_EQ(gcoll_verify(after.data(), operation.problem.size, &b), GCOLL_OK) << gcoll_last_error();
    EXPECT_EQ(a.claims, b.claims);
    EXPECT_EQ(a.steps, b.steps);
    const auto options = gcoll_test::Options(6e-6, 0.25e-9, 0.1e-9);
    const auto first = gcoll_test::Simulate(plans, options),
               again = gcoll_test::Simulate(file.plans, options);
    EXPECT_TRUE(first && again) << gcoll_last_error();
    if (first && again) {
        EXPECT_EQ(first->time, again->time);
        EXPECT_EQ(first->mean_elapsed, again->mean_elapsed);
    }
    return true;
}

// ---- Round trips ------------------------------------------------------------------------------------------

TEST(PlanFile, EveryAlgorithmIsReadAsItWasWritten) {
    // The first few show a sanitizer all that there is.
    std::vector<uint32_t> sizes = {3, 1, 2, 7, 4, 8, 13};
    sizes.resize(gcoll_test::repeats(7, 4));
    std::vector<uint64_t> counts = {0, 7, 1000, 1, 63};
    counts.resize(gcoll_test::repeats(5, 3));
    for (const gcoll_algorithm *const *row = gcoll_algorithms; *row && !HasFailure(); row++) {
        uint32_t done = 0;
        for (uint32_t size : sizes)
            for (uint64_t count : counts) {
                if ((*row)->collective == GCOLL_BARRIER && count != 0)
                    continue;
                Operation operation((*row)->collective, size, count);
                if (verify_grid::has_root((*row)->collective))
                    operation.problem.root = size / 2;
                done += check(**row, operation);
                operation.place = verify_grid::Place::in_place;
                if (verify_grid::has_in_place((*row)->collective))
                    done += check(**row, operation);
            }
        EXPECT_GE(done, sizes.size()) << (*row)->name;
    }
}

// Blocks of different sizes, several buffers, averages, segments, and buffers in device memory.
TEST(PlanFile, WhatPassesAndBlocksAddIsKept) {
    uint32_t blocks = 0, folds = 0;
    for (const gcoll_algorithm *const *row = gcoll_algorithms; *row && !HasFailure(); row++) {
        const gcoll_collective collective = (*row)->collective;
        const uint32_t size = 5;
        if (collective == GCOLL_BARRIER)
            continue;
        Operation uneven(collective, size, 20);
        if (collective == GCOLL_ALLTOALL)
            for (uint64_t from = 0; from < size; from++)
                uneven.pairs.push_back({from, 0, 3, 1, 2 * from});
        else if (verify_grid::has_blocks(collective))
            uneven.blocks = {3, 0, 7, 1, 9};
        uneven.use_blocks();
        blocks += check(**row, uneven);
        for (verify_grid::Layout layout : {verify_grid::Layout::host, verify_grid::Layout::halves})
            for (bool direct : {false, true}) {
                if (direct != (layout == verify_grid::Layout::halves) && gcoll_test::repeats(4, 2) == 2)
                    continue;
                Operation more(collective, size, 23);
                more.problem.average = gcoll_collective_reduces(collective);
                more.problem.segment = 2;
                more.problem.buffers = verify_grid::has_buffers(collective) ? 4 : 1;
                more.problem.staging.direct = direct;
                more.use_layout(layout);
                check(**row, more);
                for (const Plan &plan : plans_of(**row, more))
                    folds += plan->operand_count > 0;
            }
    }
    EXPECT_GT(blocks, 10u);
    EXPECT_GT(folds, 10u);
}

// ---- Broken files -----------------------------------------------------------------------------------------

json_object *entry(json_object *from, const char *key, size_t index) {
    return json_object_array_get_idx(json_object_object_get(from, key), index);
}

void set(json_object *step, const char *key, const std::string &value) {
    json_object_object_add(step, key, json_tokener_parse(value.c_str()));
}

int64_t whole(json_object *step, const char *key) {
    return json_object_get_int64(json_object_object_get(step, key));
}

// Takes a step out of a plan, so that what remains is well-formed.
void drop(json_object *plan, size_t number) {
    json_object *steps = json_object_object_get(plan, "steps");
    json_object *waits = json_object_get(json_object_object_get(entry(plan, "steps", number), "after"));
    json_object_array_del_idx(steps, number, 1);
    for (size_t i = 0; i < json_object_array_length(steps); i++) {
        json_object *step = json_object_array_get_idx(steps, i);
        json_object *after = json_object_object_get(step, "after");
        std::set<int64_t> left;
        for (size_t k = 0; after && k < json_object_array_length(after); k++) {
            const int64_t on = json_object_get_int64(json_object_array_get_idx(after, k));
            if (on != int64_t(number))
                left.insert(on > int64_t(number) ? on - 1 : on);
            for (size_t w = 0; on == int64_t(number) && waits && w < json_object_array_length(waits); w++)
                left.insert(json_object_get_int64(json_object_array_get_idx(waits, w)));
        }
        json_object *list = json_object_new_array();
        for (int64_t on : left)
            json_object_array_add(list, json_object_new_int64(on));
        json_object_object_add(step, "after", list);
    }
    json_object_put(waits);
}

// Each step of each rank, broken in each of these ways, is refused; the message names a rank and a step, and
// if the step cannot be right by itself, it is this one.
TEST(PlanFile, EveryBrokenStepIsRefusedWithRankAndStep) {
    struct Fault {
        const char *name;
        bool own; // seen in the step by itself
        std::function<bool(json_object *plan, size_t number, uint32_t size)> apply; // false: not of this step
    };
    auto message = [](json_object *step) { return json_object_object_get(step, "peer") != nullptr; };
    const std::vector<Fault> faults = {
        {"dropped", false,
         [](json_object *plan, size_t number, uint32_t) {
             drop(plan, number);
             return true;
         }},
        {"peer swapped", false,
         [&](json_object *plan, size_t number, uint32_t size) {
             json_object *step = entry(plan, "steps", number);
             if (!message(step))
                 return false;
             const int64_t rank = whole(plan, "rank");
             int64_t peer = (whole(step, "peer") + 1) % size;
             if (peer == rank)
                 peer = (peer + 1) % size;
             set(step, "peer", std::to_string(peer));
             return true;
         }},
        {"peer is itself", true,
         [&](json_object *plan, size_t number, uint32_t) {
             json_object *step = entry(plan, "steps", number);
             if (message(step))
                 set(step, "peer", std::to_string(whole(plan, "rank")));
             return message(step);
         }},
        {"peer is none", true,
         [&](json_object *plan, size_t number, uint32_t size) {
             json_object *step = entry(plan, "steps", number);
             if (message(step))
                 set(step, "peer", std::to_string(size));
             return message(step);
         }},
        {"shorter", false,
         [](json_object *plan, size_t number, uint32_t) {
             json_object *step = entry(plan, "steps", number);
             if (whole(step, "count") > 1)
                 set(step, "count", std::to_string(whole(step, "count") - 1));
             return whole(step, "count") > 0;
         }},
        {"unknown op", true,
         [](json_object *plan, size_t number, uint32_t) {
             set(entry(plan, "steps", number), "op", "\"sned\"");
             return true;
         }},
        {"out of bounds", true,
         [](json_object *plan, size_t number, uint32_t) {
             json_object *step = entry(plan, "steps", number);
             const char *key = json_object_object_get(step, "dst") ? "dst" : "a";
             json_object *place = json_object_object_get(step, key);
             if (place == nullptr)
                 return false;
             json_object_array_put_idx(place, 2, json_object_new_int64(whole(plan, "count")));
             return true;
         }},
        {"waits for itself", true,
         [](json_object *plan, size_t number, uint32_t) {
             set(entry(plan, "steps", number), "after", "[" + std::to_string(number) + "]");
             return true;
         }},
    };
    for (const auto &[name, collective] : {std::pair{"ring", GCOLL_ALLREDUCE},
                                           {"recursive_doubling", GCOLL_ALLREDUCE},
                                           {"binomial", GCOLL_BROADCAST},
                                           {"pairwise", GCOLL_ALLTOALL}}) {
        const gcoll_algorithm *algorithm = gcoll_test::Algorithm(name, collective);
        ASSERT_NE(algorithm, nullptr) << name;
        const uint32_t size = 5;
        const Plans plans = plans_of(*algorithm, Operation(collective, size, 10));
        ASSERT_EQ(plans.size(), size) << gcoll_last_error();
        const std::string text = file_of(plans);
        EXPECT_EQ(objection(text), "");
        for (const Fault &fault : faults) {
            uint32_t tried = 0;
            for (uint32_t rank = 0; rank < size; rank++)
                for (uint32_t number = 0; number < plans[rank]->step_count && !HasFailure(); number++) {
                    const json file = parse(text);
                    if (!fault.apply(entry(file.get(), "plans", rank), number, size))
                        continue;
                    tried++;
                    const std::string said = objection(json_object_to_json_string(file.get()));
                    const std::string here = std::to_string(rank), step = "step " + std::to_string(number);
                    EXPECT_TRUE(contains(said, "rank ") && (contains(said, "step ") || !fault.own))
                        << fault.name << " " << here << " " << step << ": " << said;
                    EXPECT_TRUE(!fault.own || (contains(said, "rank " + here) && contains(said, step)))
                        << fault.name << " " << here << " " << step << ": " << said;
                }
            EXPECT_GE(tried, 4u) << name << " " << fault.name;
        }
    }
}

TEST(PlanFile, MistakesAreNamed) {
    const std::string head = R"({"gcoll_plan": 1, "algorithm": "x", "collective": "broadcast", )",
                      two = head + R"("ranks": 2, "plans": [{"rank": 0, "count": 4, "steps": [)",
                      second = R"(]}, {"rank": 1, "count": 4, "steps": [)",
                      send = R"({"op": "send", "count": 4, "peer": 1, "a": ["in", 0, 0]})";
    const struct {
        std::string text;
        const char *said;
    } table[] = {
        {"", "ends too early, after 0 bytes"},
        {"{\"gcoll_plan\" 1}", "is no JSON at byte 14"},
        {"[]", "is no JSON object"},
        {"{}\n {}", "line 2: has text after its end; allowed is one object"},
        {"{ /* \"'}\n */ }\n\n garbage", "line 4: has text after its end"},
        {std::string("{}\0", 3), "line 1: has text after its end"},
        {"{\n\"ranks\": [{\"a\": \":\"}, {\"a\": 1}],\n\"ranks\": 2}",
         "line 3: has the key 'ranks' twice; allowed"},
        {"{'a': 1, 'a': 1}", "line 1: has the key 'a' twice"},
        {"{'a': 1, \"a\": 1}", "line 1: has the key 'a' twice"},
        {"{\"gcoll_plan\": 2, // the version:\n\"algorithm\": \"x\"}", "'gcoll_plan' is 2; allowed is 1"},
        {"{\"o\": { // open {\n\"x\": 1}, // shut }\n\"x\": 2}", "'gcoll_plan' is missing"},
        {"{ // as \"auto\"\n\"a\": 1, \"a\": 1}", "line 2: has the key 'a' twice"},
        {" {}\r\n\t ", "'gcoll_plan' is missing"},
        {"{}", "'gcoll_plan' is missing"},
        {"{\"gcoll_plan\": 2}", "'gcoll_plan' is 2; allowed is 1"},
        {R"({"gcoll_plan": 1, "rnks": 3})", "'rnks' is unknown; allowed are "},
        {R"({"gcoll_plan": 1, "algorithm": "x", "collective": "allredcue", "ranks": 1})",
         "collective: is 'allredcue'; allowed are allreduce, "},
        {head + R"("ranks": 2})", "'plans' has 0 entries and 'ranks' is 2"},
        {head + R"("ranks": 0, "plans": []})", "'ranks' is 0; allowed are 1 to 1048576"},
        {head + R"("ranks": -2, "plans": []})", "'ranks' is -2; allowed are 1 to 1048576"},
        {head + R"("ranks": 2.5, "plans": []})",
         "'ranks' is 2.5; allowed are whole numbers from 1 to 1048576"},
        {head + R"("ranks": "two", "plans": []})", "'ranks' is \"two\"; allowed are whole numbers from 1"},
        {head + R"("ranks": null, "plans": []})", "'ranks' is null; allowed are whole numbers from 1"},
        {head + R"("ranks": 1048577, "plans": []})", "'ranks' is 1048577; allowed are 1 to 1048576"},
        {head + R"("ranks": 1, "plans": [{"rank": 0, "count": 18446744073709551616, "steps": []}]})",
         "rank 0: 'count' is at least 9223372036854775807; allowed are 0 to 1099511627776"},
        {head + R"("ranks": 1, "plans": [3]})", "rank 0: is no object"},
        {head + R"("ranks": 1, "plans": [{"rank": 1}]})", "rank 0: 'rank' is 1; allowed is 0"},
        {head + R"("ranks": 1, "plans": [{"rank": 0, "count": 4}]})", "rank 0: 'steps' is missing"},
        {head + R"("ranks": 1, "root": 1, "plans": [{"rank": 0, "count": 4, "steps": []}]})",
         "rank 0: root is 1, allowed are 0 to 0"},
        {head + R"("ranks": 1, "plans": [{"rank": 0, "count": 1099511627777, "steps": []}]})",
         "rank 0: 'count' is 1099511627777; allowed are 0 to 1099511627776"},
        {head + R"("ranks": 1, "plans": [{"rank": 0, "count": 4, "buffers": 0, "steps": []}]})",
         "rank 0: buffers is 0, allowed are 1 to 1024"},
        {head + R"("ranks": 1, "plans": [{"rank": 0, "count": 4, "offsets": [0], "steps": []}]})",
         "rank 0: 'offsets' has 1 entries; allowed are 2"},
        {head + R"("ranks": 1, "plans": [{"rank": 0, "count": 4, "offsets": [0, 4], "steps": []}]})",
         "rank 0: offsets are given, but broadcast has no blocks"},
        {head + R"("ranks": 1, "plans": [{"rank": 0, "count": 4, "in_memory": [1025], "steps": []}]})",
         "rank 0: 'in_memory[0]' is 1025; allowed are 0 to 1024"},
        {head + R"("ranks": 1, "plans": [{"rank": 0, "count": 4, "divisor": 0, "steps": []}]})",
         "rank 0: 'divisor' is 0; allowed are 1 to "},
        {two + "7]}, {}]}", "rank 0: step 0: is no object"},
        {two + R"({"count": 4}]}, {}]})", "rank 0: step 0: 'op' is missing"},
        {two + R"({"op": "send", "count": 4, "speed": 1}]}, {}]})", "rank 0: step 0: 'speed' is unknown"},
        {two + R"({"op": "send", "peer": 1}]}, {}]})", "rank 0: step 0: 'count' is missing"},
        {two + R"({"op": "send", "peer": 1, "count": -1}]}, {}]})", "rank 0: step 0: 'count' is -1;"},
        {two + R"({"op": "send", "count": 4}]}, {}]})", "rank 0: step 0: 'peer' is missing"},
        {two + R"({"op": "copy", "count": 4, "peer": 1}]}, {}]})",
         "rank 0: step 0: 'peer' is found, which 'copy' has not"},
        {two + R"({"op": "send", "count": 4, "peer": 1}]}, {}]})",
         "rank 0: step 0: 'a' is missing or has 0 entries; allowed are 3"},
        {two + R"({"op": "send", "count": 4, "peer": 1, "a": ["im", 0, 0]}]}, {}]})",
         "rank 0: step 0: 'a[0]' is \"im\"; allowed are \"in\", \"out\", \"scratch\""},
        {two + R"({"op": "send", "count": 4, "peer": 1, "a": ["in", 1024, 0]}]}, {}]})",
         "rank 0: step 0: 'a[1]' is 1024; allowed are 0 to 1023"},
        {two +
             R"({"op": "send", "count": 4, "peer": 1, "a": ["in", 1, 0]}]}, {"rank": 1, "count": 4, "steps": []}]})",
         "step 0 (send) of rank 0: IN[1] elements 0 + 4 are outside of 1 buffers of 4 elements"},
        {two +
             R"({"op": "receive", "count": 4, "peer": 1, "dst": ["in", 0, 0]}]}, {"rank": 1, "count": 4, "steps": []}]})",
         "step 0 (receive) of rank 0 writes to IN"},
        {two + R"({"op": "send", "count": 0, "peer": 1, "a": ["in", 0, 0]}]}, {}]})",
         "rank 0: step 0: 'a' is found, which 'send' of 0 elements has not"},
        {two + R"({"op": "send", "count": 4, "peer": 1, "a": ["in", 0, 0], "received_first": true}]}, {}]})",
         "rank 0: step 0: 'received_first' is true, which 'send' has not"},
        {two + R"({"op": "reduce", "count": 0}]}, {}]})",
         "rank 0: step 0: 'count' is 0; allowed for 'reduce' are 1 and more"},
        {two +
             R"({"op": "fold", "count": 1, "dst": ["out", 0, 0], "a": ["in", 0, 0], "operands": [0]}]}, {}]})",
         "rank 0: step 0: 'operands' is missing or has 1 entries; allowed are 2 to 1024"},
        {two + send + R"(, {"op": "copy", "count": 0, "after": [1]}]}, {}]})",
         "rank 0: step 1: 'after[0]' is 1; allowed are 0 to 0"},
        {two + send + R"(, {"op": "copy", "count": 0, "after": [0, 0]}]}, {}]})",
         "rank 0: step 1: 'after[1]' is 0; allowed are earlier steps, each once"},
        {two + R"({"op": "copy", "count": 0, "round": 3}, {"op": "copy", "count": 0, "round": 2}]}, {}]})",
         "rank 0: step 1: 'round' is 2; allowed are 3, that of the step before, and more"},
        {two + R"({"op": "copy", "count": 0, "round": 4294967294}]}, {}]})",
         "rank 0: step 0: 'round' is 4294967294; allowed are 0 to 16777216"},
        {two + send + second + R"({"op": "receive", "count": 3, "peer": 0, "dst": ["out", 0, 0]}]}]})",
         "rank 1, step 0 (recv from 0, 3 elements): partner (rank 0, step 0) sends 4"},
    };
    for (const auto &row : table) {
        const std::string said = objection(row.text);
        EXPECT_TRUE(contains(said, row.said)) << row.text << "\n" << said << row.said;
    }
    const uint64_t elements = 4;
    EXPECT_TRUE(contains(
        read(two + send + second + R"({"op": "receive", "count": 4, "peer": 0, "dst": ["out", 0, 0]}]}]})",
             &elements)
            .said,
        "has elements of its own"));
}

} // namespace
