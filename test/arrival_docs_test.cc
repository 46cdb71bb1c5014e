// docs/arrival-patterns.md: what its tables publish is what was published, a letter stands where ours differs
// by more than 5 % and is explained, and gcoll_plan says what the tables say it does.
#include "test/program.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <regex>
#include <set>

namespace {

using namespace program_test;

const char *const delays[] = {"0", "1", "5", "10", "50", "100", "500", "1000"};

struct Cell {
    std::string ours, published, mark; // mark: "" or a letter
};

// The rows between <!-- name --> and <!-- end -->, by their first cell without quotes.
std::map<std::string, std::vector<Cell>> Table(const std::string &name) {
    std::map<std::string, std::vector<Cell>> rows;
    std::istringstream page(file_text(SOURCE "/docs/arrival-patterns.md"));
    bool inside = false;
    static const std::regex cell("([0-9.]+) / ([0-9.]+)( ([a-z]))?");
    for (std::string line; std::getline(page, line);) {
        if (line.rfind("<!-- ", 0) == 0) {
            inside = line == "<!-- " + name + " -->";
            continue;
        }
        std::vector<Cell> cells;
        for (std::sregex_iterator i(line.begin(), line.end(), cell), end; inside && i != end; ++i)
            cells.push_back({(*i)[1], (*i)[2], (*i)[4]});
        std::string key = line.substr(0, line.find('|', 1));
        key.erase(std::remove_if(key.begin(), key.end(), [](char c) { return std::strchr("|` ", c); }),
                  key.end());
        if (!cells.empty())
            rows[key] = cells;
    }
    return rows;
}

const struct {
    const char *table, *rows;
} tables[] = {{"table-3", "table-3"},
              {"table-3", "table-3-ms"},
              {"table-4-one-late", "one-late"},
              {"table-4-rand-late", "rand-late"}};

TEST(ArrivalDocs, HaveThePublishedValues) {
    for (const auto &t : tables) {
        auto found = Table(t.table);
        std::istringstream file(file_text(SOURCE "/docs/reproduction/proficz-published.txt"));
        int lines = 0;
        for (std::string line; std::getline(file, line);) {
            std::istringstream words(line);
            std::string rows, name, value;
            words >> rows >> name;
            if (rows != t.rows)
                continue;
            lines++;
            const std::vector<Cell> &cells = found[rows == "table-3-ms" ? "ring,ms" : name];
            ASSERT_EQ(cells.size(), 8u) << line;
            for (const Cell &c : cells) {
                words >> value;
                EXPECT_EQ(c.published, value) << line;
            }
        }
        EXPECT_GT(lines, 0) << t.rows;
    }
}

TEST(ArrivalDocs, MarkAndExplainWhatDiffersByMoreThanFivePercent) {
    const std::string page = file_text(SOURCE "/docs/arrival-patterns.md");
    std::set<std::string> marks;
    int cells = 0;
    for (const char *name : {"table-3", "table-4-one-late", "table-4-rand-late"})
        for (const auto &row : Table(name))
            for (const Cell &c : row.second) {
                const double ratio = std::stod(c.ours) / std::stod(c.published);
                EXPECT_EQ(std::fabs(ratio - 1) > 0.05, !c.mark.empty())
                    << name << ", " << row.first << ": " << c.ours << " / " << c.published;
                marks.insert(c.mark);
                cells++;
            }
    EXPECT_EQ(cells, 4 * 8 + 2 * 6 * 8);
    for (const std::string &mark : marks)
        EXPECT_TRUE(mark.empty() || contains(page, "\n- **" + mark + "** ")) << mark;
}

std::map<std::string, double> Times(const std::string &kfloats, const std::string &how, bool small) {
    const std::string kib = std::to_string(4 * std::stoi(kfloats)) + "Ki";
    const outcome o = run(GCOLL_PLAN, {"arrival", "--ranks=48", "--bytes=" + kib,
                                       small ? "--alpha-us=13" : "--alpha-us=320",
                                       small ? "--beta-ns=8" : "--beta-ns=4.263", "--gamma-ns=0.653",
                                       "--arrival=" + how, "--error-ms=6", "--operations=16", "--format=json",
                                       "--algorithm=ring,sorted_linear_tree,pre_reduced_ring,rabenseifner"});
    EXPECT_EQ(o.status, 0) << o.err;
    std::map<std::string, double> times;
    for (const json &r : records(o))
        times[text(r, "algorithm")] = number(r, "elapsed_us") / 1000;
    return times;
}

// 0.005 for rounding, and as much for a mean that lies on the edge.
TEST(ArrivalDocs, HaveWhatTheCommandSays) {
    auto three = Table("table-3"), one = Table("table-4-one-late"), many = Table("table-4-rand-late");
    for (size_t i : {0u, 4u, 7u}) {
        auto times = Times("1024", std::string("one-late:") + delays[i], false);
        EXPECT_NEAR(std::stod(three["ring,ms"].at(i).ours), times["ring"], 0.06);
        for (const char *name : {"sorted_linear_tree", "pre_reduced_ring", "rabenseifner"})
            EXPECT_NEAR(std::stod(three[name].at(i).ours), times["ring"] / times[name], 0.006)
                << name << ", " << delays[i];
    }
    for (const char *size : {"512", "2048"}) {
        auto times = Times(size, "one-late:10", std::string(size) == "512");
        EXPECT_NEAR(std::stod(one[size].at(3).ours), times["ring"] / times["pre_reduced_ring"], 0.006);
        times = Times(size, "rand-late:50", std::string(size) == "512");
        EXPECT_NEAR(std::stod(many[size].at(4).ours), times["ring"] / times["pre_reduced_ring"], 0.006);
    }
}

} // namespace
