// test/plan/verify_grid.cc - see verify_grid.h.
#include "test/plan/verify_grid.h"

#include <algorithm>
#include <cstring>
#include <random>
#include <set>

namespace verify_grid {

bool has_root(gcoll_collective c) {
    return c == GCOLL_BROADCAST || c == GCOLL_REDUCE || c == GCOLL_GATHER || c == GCOLL_SCATTER;
}

bool has_blocks(gcoll_collective c) {
    return c == GCOLL_REDUCE_SCATTER || c == GCOLL_ALLGATHER || c == GCOLL_GATHER || c == GCOLL_SCATTER;
}

bool has_buffers(gcoll_collective c) {
    return c == GCOLL_ALLREDUCE || c == GCOLL_BROADCAST || c == GCOLL_REDUCE_SCATTER;
}

bool has_in_place(gcoll_collective c) {
    return c != GCOLL_ALLTOALL && c != GCOLL_PAIRWISE_EXCHANGE && c != GCOLL_BARRIER;
}

namespace {

std::vector<uint64_t> sums(const std::vector<uint64_t> &counts) {
    std::vector<uint64_t> made{0};
    for (uint64_t count : counts)
        made.push_back(made.back() + count);
    return made;
}

template <class T> std::string list(const char *name, const std::vector<T> &values) {
    std::string text;
    for (const T &value : values)
        text += (text.empty() ? " " + std::string(name) + "=" : ",") + std::to_string(value);
    return text;
}

} // namespace

Operation::Operation(gcoll_collective collective, uint32_t size, uint64_t count) {
    problem.collective = collective;
    problem.size = size;
    problem.count = count;
    problem.buffers = 1;
}

void Operation::use_blocks() {
    if (!blocks.empty()) {
        offsets_ = {sums(blocks)};
        problem.count = offsets_[0].back();
    }
    for (uint32_t rank = 0; rank < pairs.size(); rank++) {
        std::vector<uint64_t> column;
        for (const std::vector<uint64_t> &row : pairs)
            column.push_back(row[rank]);
        offsets_.push_back(sums(pairs[rank]));
        recv_offsets_.push_back(sums(column));
    }
}

// In place, one of the two lists says it all.
void Operation::use_layout(Layout chosen) {
    layout = chosen;
    for (uint32_t rank = 0; rank < problem.size; rank++) {
        const gcoll_problem p = of(rank);
        std::vector<uint32_t> in, out;
        for (uint32_t k = 0; k < p.buffers; k++) {
            const uint32_t first = GCOLL_DEVICE_MEMORY(0), second = GCOLL_DEVICE_MEMORY(1);
            const uint32_t by_layout[layout_count] = {
                GCOLL_HOST_MEMORY,
                first,
                k < p.buffers / 2 ? first : second,
                k % 2 ? second : first,
                k % 2 ? uint32_t{GCOLL_HOST_MEMORY} : first,
                first,
                first,
                rank % 2 ? GCOLL_DEVICE_MEMORY(rank) : uint32_t{GCOLL_HOST_MEMORY},
            };
            in.push_back(by_layout[static_cast<int>(chosen)]);
            out.push_back(in.back());
        }
        if (chosen == Layout::outputs || (p.in_place && rank % 2))
            in.clear();
        else if (chosen == Layout::inputs || p.in_place)
            out.clear();
        in_memory_.push_back(in);
        out_memory_.push_back(out);
    }
}

gcoll_problem Operation::of(uint32_t rank) const {
    gcoll_problem p = problem;
    bool one_sided =
        p.collective == GCOLL_REDUCE || p.collective == GCOLL_GATHER || p.collective == GCOLL_SCATTER;
    bool wanted = place == Place::in_place || (place == Place::mixed && rank % 2 == 0);
    p.rank = rank;
    p.in_place = wanted && has_in_place(p.collective) && (!one_sided || rank == p.root);
    if (mixed_buffers)
        p.buffers = 1 + rank % 3;
    if (!offsets_.empty())
        p.offsets = offsets_[pairs.empty() ? 0 : rank].data();
    if (!pairs.empty()) {
        p.recv_offsets = recv_offsets_[rank].data();
        p.count = offsets_[rank].back();
    }
    if (layout != Layout::host && rank < in_memory_.size()) {
        p.in_memory = in_memory_[rank].empty() ? nullptr : in_memory_[rank].data();
        p.out_memory = out_memory_[rank].empty() ? nullptr : out_memory_[rank].data();
    }
    p.node = node.empty() ? nullptr : node.data();
    p.arrival_ns = arrival.empty() ? nullptr : arrival.data();
    p.tour = tour.empty() ? nullptr : tour.data();
    return p;
}

std::string Operation::describe_layout() const {
    const char *const layouts[layout_count] = {"",       "device", "halves",  "spread",
                                               "shared", "inputs", "outputs", "ranks"};
    const char *const locals[GCOLL_LOCAL_COUNT] = {"auto", "host", "device", "peer"};
    if (layout == Layout::host)
        return "";
    return std::string(" memory=") + layouts[static_cast<int>(layout)] +
           " local=" + locals[problem.staging.local] + (problem.staging.whole ? " whole" : "");
}

std::string Operation::describe(const gcoll_algorithm &algorithm) const {
    const char *const places[] = {"", " in place", " even ranks in place"};
    const gcoll_problem &p = problem;
    std::string text = std::string(gcoll_collective_name(p.collective)) + " " + algorithm.name;
    for (int i = 0; algorithm.options && algorithm.options[i].name; i++)
        text += std::string(":") + algorithm.options[i].name + "=" + std::to_string(p.option[i]);
    text += " P=" + std::to_string(p.size) + " n=" + std::to_string(p.count) +
            places[static_cast<int>(place)] + " root=" + std::to_string(p.root) +
            " exchanges=" + std::to_string(p.exchanges) +
            " buffers=" + (mixed_buffers ? "mixed" : std::to_string(p.buffers)) +
            (p.average ? " average" : "") + " segment=" + std::to_string(p.segment) + describe_layout() +
            list("blocks", blocks) + list("node", node) + list("tour", tour) + list("arrival", arrival) +
            (arrival.empty() ? "" : " segment_ns=" + std::to_string(p.segment_ns));
    for (const std::vector<uint64_t> &row : pairs)
        text += list("to", row);
    return text;
}

// ---- Plans ------------------------------------------------------------------------------------------------

namespace {

gcoll_status plan_bare(const gcoll_algorithm &algorithm, gcoll_problem problem, gcoll_plan **plan) {
    gcoll_builder *builder = nullptr;
    problem.buffers = 1;
    problem.segment = 0;
    problem.average = false;
    gcoll_status status = gcoll_builder_create(&problem, &builder);
    if (status != GCOLL_OK)
        return status;
    algorithm.plan(&problem, builder);
    return gcoll_builder_finish(builder, plan);
}

} // namespace

Plans::Plans(const gcoll_algorithm &algorithm, const Operation &operation, bool bare) {
    for (uint32_t rank = 0; rank < operation.problem.size; rank++) {
        gcoll_plan *plan = nullptr;
        gcoll_problem problem = operation.of(rank);
        status_ =
            bare ? plan_bare(algorithm, problem, &plan) : gcoll_plan_create(&algorithm, &problem, &plan);
        if (status_ != GCOLL_OK)
            return;
        plans_.push_back(plan);
    }
}

Plans::~Plans() {
    for (gcoll_plan *plan : plans_)
        gcoll_plan_destroy(plan);
}

gcoll_status Plans::verify(gcoll_verify_report *report) const {
    if (status_ != GCOLL_OK)
        return status_;
    return gcoll_verify(plans_.data(), static_cast<uint32_t>(plans_.size()), report);
}

uint64_t Plans::largest_step() const {
    uint64_t most = 0;
    for (const gcoll_plan *plan : plans_)
        for (uint32_t i = 0; i < plan->step_count; i++)
            most = std::max(most, plan->steps[i].count);
    return most;
}

uint64_t Plans::scratch(uint32_t rank) const {
    return plans_[rank]->scratch;
}

uint64_t Plans::most_received() const {
    uint64_t most = 0;
    for (const gcoll_plan *plan : plans_) {
        uint64_t sum = 0;
        for (uint32_t i = 0; i < plan->step_count; i++)
            if (plan->steps[i].kind == GCOLL_STEP_RECV || plan->steps[i].kind == GCOLL_STEP_RECV_REDUCE)
                sum += plan->steps[i].count;
        most = std::max(most, sum);
    }
    return most;
}

// ---- Options ----------------------------------------------------------------------------------------------

namespace {

std::set<int64_t> values_of(const gcoll_option &option, uint32_t size) {
    std::set<int64_t> made{option.fallback};
    if (option.words) {
        for (int64_t i = 0; option.words[i]; i++)
            made.insert(i);
        return made;
    }
    if (!std::strcmp(option.name, "r")) { // of a butterfly: all that differ
        for (int64_t r = 0; r <= log2_ceil(size); r++)
            made.insert(r);
        return made;
    }
    for (int64_t step : {0, 1, 2, 3, 4, 6})
        if (step <= option.max - option.min)
            made.insert(option.min + step);
    return made;
}

} // namespace

std::vector<std::vector<int64_t>> settings(const gcoll_algorithm &algorithm, uint32_t size) {
    std::vector<std::vector<int64_t>> made{{}};
    for (int i = 0; algorithm.options && algorithm.options[i].name; i++) {
        std::vector<std::vector<int64_t>> longer;
        for (const auto &prefix : made)
            for (int64_t value : values_of(algorithm.options[i], size)) {
                longer.push_back(prefix);
                longer.back().push_back(value);
            }
        made = longer;
    }
    // Of many, some; others for another size.
    const size_t most = small_grid ? 4 : size <= 9 ? 24 : 8;
    std::mt19937 random(size);
    for (size_t i = 0; made.size() > most && i < most; i++)
        std::swap(made[i], made[i + random() % (made.size() - i)]);
    made.resize(std::min(made.size(), most));
    return made;
}

} // namespace verify_grid
