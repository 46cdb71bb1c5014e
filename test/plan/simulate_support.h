// test/plan/simulate_support.h - running the simulator from tests.
#ifndef GCOLL_TEST_SIMULATE_SUPPORT_H
#define GCOLL_TEST_SIMULATE_SUPPORT_H

#include <memory>
#include <vector>

#include "test/kit/plan_runner.h"

extern "C" {
#include "gcoll/simulate.h"
}

namespace gcoll_test {

struct SimulationDeleter {
    void operator()(gcoll_simulation *simulation) const { gcoll_simulation_destroy(simulation); }
};
using Simulation = std::unique_ptr<gcoll_simulation, SimulationDeleter>;

// One byte an element, so that counts are bytes.
inline gcoll_simulate_options Options(double alpha, double beta, double gamma = 0) {
    gcoll_simulate_options options;
    gcoll_simulate_options_init(&options);
    options.network = {alpha, beta, 0};
    options.gamma = gamma;
    return options;
}

// Null on error, which gcoll_last_error tells.
inline Simulation Simulate(const std::vector<Plan> &plans, const gcoll_simulate_options &options) {
    std::vector<const gcoll_plan *> all;
    for (const Plan &plan : plans)
        all.push_back(plan.get());
    gcoll_simulation *simulation = nullptr;
    if (gcoll_simulate(all.data(), static_cast<uint32_t>(all.size()), &options, &simulation) != GCOLL_OK)
        return nullptr;
    return Simulation(simulation);
}

} // namespace gcoll_test

#endif
