// test/tools/plan_tool_run.h - runs gcoll_plan, and looks at what it printed.
#ifndef GCOLL_PLAN_TOOL_RUN_H
#define GCOLL_PLAN_TOOL_RUN_H

#include "test/kit/program.h"

namespace program_test {

inline outcome plan(const strings &arguments, const strings &environment = {}) {
    return run(GCOLL_PLAN, arguments, environment);
}

inline size_t occurrences(const std::string &text, const std::string &part) {
    size_t count = 0;
    for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1))
        count++;
    return count;
}

} // namespace program_test

#endif
