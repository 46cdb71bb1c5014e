// test/kit/plan_rounds.h - lists the rounds in which ranks send and receive the messages of a collective.
#ifndef GCOLL_TEST_PLAN_ROUNDS_H
#define GCOLL_TEST_PLAN_ROUNDS_H

#include "test/kit/plan_runner.h"

namespace gcoll_test {

// Rounds by sender, receiver and number of the message, as each end's plan has them.
struct MessageRounds {
    std::map<std::tuple<uint32_t, uint32_t, uint32_t>, uint32_t> sent, received;
};

inline MessageRounds RoundsOfMessages(const std::vector<Plan> &plans) {
    MessageRounds rounds;
    for (uint32_t rank = 0; rank < plans.size(); rank++)
        for (uint32_t i = 0; i < plans[rank]->step_count; i++) {
            const gcoll_step &s = plans[rank]->steps[i];
            if (s.kind == GCOLL_STEP_SEND)
                rounds.sent[{rank, s.peer, s.message}] = s.round;
            else if (s.kind == GCOLL_STEP_RECV || s.kind == GCOLL_STEP_RECV_REDUCE)
                rounds.received[{s.peer, rank, s.message}] = s.round;
        }
    return rounds;
}

} // namespace gcoll_test

#endif
