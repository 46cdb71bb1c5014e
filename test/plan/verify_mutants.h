// test/plan/verify_mutants.h - spoils a right plan in every place and every way that comes to mind, and asks
// whether the verifier notices.
//
// No mutant is simply allowed to pass: one that is accepted must give the right result, deadlock-free and
// free of races, touch no memory that it may not, by the oracle of verify_support.h, and be exactly as
// ordered, rank-identical and independent of the number of ranks as reported. The other way round, what is
// rejected as a race, a deadlock, a wrong result or a wrong memory must be one by the oracle.
#ifndef GCOLL_TEST_VERIFY_MUTANTS_H
#define GCOLL_TEST_VERIFY_MUTANTS_H

#include <map>
#include <string>

#include "test/plan/verify_support.h"

namespace verify_test {

struct Tally {
    int caught = 0, equivalent = 0;
};
using Tallies = std::map<std::string, Tally>; // by what was done

Tallies spoil(const Job &job);

} // namespace verify_test

#endif
