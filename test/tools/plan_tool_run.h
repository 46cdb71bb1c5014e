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

// Runs the commands of a page of docs/ in a folder, and compares what they print with the lines below them,
// up to an empty one or "...". Returns how many there were.
inline size_t check_commands(const std::string &page, const folder &here) {
    const std::string before = std::filesystem::current_path();
    std::filesystem::current_path(here.path);
    size_t commands = 0;
    const strings all = lines(page);
    for (size_t i = 0; i < all.size(); i++) {
        if (all[i].rfind("    $ gcoll_plan ", 0) != 0)
            continue;
        std::istringstream words(all[i].substr(17));
        strings arguments;
        for (std::string word; words >> word;)
            arguments.push_back(word);
        const outcome o = plan(arguments);
        EXPECT_EQ(o.status, 0) << o.err;
        commands++;
        for (const std::string &line : lines(o.out)) {
            if (++i == all.size() || all[i] == "    ...")
                break;
            EXPECT_EQ(all[i], "    " + line);
        }
        EXPECT_TRUE(all[i] == "    ..." || all[i + 1].empty()) << all[i + 1]; // the page shows no more
    }
    std::filesystem::current_path(before);
    return commands;
}

// The text of the first block of code in this language on a page.
inline std::string block_of(const std::string &page, const std::string &language) {
    const std::string mark = "```" + language + "\n";
    const size_t begin = page.find(mark), end = page.find("```", begin + mark.size());
    EXPECT_NE(end, std::string::npos) << language;
    return end == std::string::npos ? "" : page.substr(begin + mark.size(), end - begin - mark.size());
}

// Writes a text as a file and runs a subcommand on it.
inline outcome run_text(const char *command, const std::string &text, const strings &more = {}) {
    folder here;
    const std::string path = here.path + "/schedule";
    std::ofstream(path) << text;
    strings arguments = {command, "--plan=" + path};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return plan(arguments);
}

// Replaces the n-th occurrence, from 0.
inline std::string changed(std::string text, const std::string &from, const std::string &to, size_t n = 0) {
    size_t at = text.find(from);
    while (n-- > 0 && at != std::string::npos)
        at = text.find(from, at + 1);
    EXPECT_NE(at, std::string::npos) << from;
    return at == std::string::npos ? text : text.replace(at, from.size(), to);
}

} // namespace program_test

#endif
