// docs/arrival-patterns.md: what its tables publish is what was published, a letter stands where ours differs
// by more than 5 % and is explained, and gcoll_plan says what the tables say it does.
#include "test/kit/program.h"

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
    const outcome o =
        run(GCOLL_PLAN, {"arrival", "--ranks=48", "--bytes=" + kib, small ? "--alpha=13us" : "--alpha=320us",
                         small ? "--beta=8ns" : "--beta=4.263ns", "--gamma=0.653ns", "--arrival=" + how,
                         "--error=6ms", "--operations=16", "--format=json",
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
        auto times = Times("1024", std::string("one-late:") + delays[i] + "ms", false);
        EXPECT_NEAR(std::stod(three["ring,ms"].at(i).ours), times["ring"], 0.06);
        for (const char *name : {"sorted_linear_tree", "pre_reduced_ring", "rabenseifner"})
            EXPECT_NEAR(std::stod(three[name].at(i).ours), times["ring"] / times[name], 0.006)
                << name << ", " << delays[i];
    }
    for (const char *size : {"512", "2048"}) {
        auto times = Times(size, "one-late:10ms", std::string(size) == "512");
        EXPECT_NEAR(std::stod(one[size].at(3).ours), times["ring"] / times["pre_reduced_ring"], 0.006);
        times = Times(size, "rand-late:50ms", std::string(size) == "512");
        EXPECT_NEAR(std::stod(many[size].at(4).ours), times["ring"] / times["pre_reduced_ring"], 0.006);
    }
}

// A row of plain numbers.
std::vector<double> Row(const std::string &table, const std::string &name) {
    std::istringstream page(file_text(SOURCE "/docs/arrival-patterns.md"));
    bool inside = false;
    for (std::string line; std::getline(page, line);) {
        if (line.rfind("<!-- ", 0) == 0)
            inside = line == "<!-- " + table + " -->";
        if (!inside || line.rfind("| " + name + " |", 0) != 0)
            continue;
        std::vector<double> numbers;
        std::istringstream cells(line.substr(name.size() + 4));
        for (std::string cell; std::getline(cells, cell, '|');)
            if (cell.find_first_not_of(' ') != std::string::npos)
                numbers.push_back(std::stod(cell));
        return numbers;
    }
    ADD_FAILURE() << table << " has no row " << name;
    return {};
}

double Rounded(double value) {
    return std::round(value * 100) / 100;
}

// The cells of table 4 that are off by more than 5 %: with the error of the table those that bear a mark; and
// without one, where all operations are alike, what the command says.
TEST(ArrivalDocs, CountTheCellsThatAreOff) {
    const std::vector<double> errors = Row("errors", "error of the estimates, ms");
    ASSERT_EQ(errors, (std::vector<double>{0, 3, 6, 8, 10}));
    for (const char *half : {"one-late", "rand-late"}) {
        const std::vector<double> counts =
            Row("errors", std::string(half) == "one-late" ? "one late" : "at random");
        ASSERT_EQ(counts.size(), errors.size());
        int marked = 0;
        for (const auto &row : Table("table-4-" + std::string(half)))
            for (const Cell &c : row.second)
                marked += !c.mark.empty();
        EXPECT_EQ(counts[2], marked) << half;
    }
    int off = 0, doubtful = 0;
    for (const auto &row : Table("table-4-one-late"))
        for (size_t i = 0; i < row.second.size(); i++) {
            const bool small = std::stoi(row.first) < 1024;
            const outcome o =
                run(GCOLL_PLAN,
                    {"arrival", "--ranks=48", "--bytes=" + std::to_string(4 * std::stoi(row.first)) + "Ki",
                     small ? "--alpha=13us" : "--alpha=320us", small ? "--beta=8ns" : "--beta=4.263ns",
                     "--gamma=0.653ns", std::string("--arrival=one-late:") + delays[i] + "ms",
                     "--operations=1", "--format=json", "--algorithm=ring,pre_reduced_ring"});
            std::map<std::string, double> times;
            for (const json &r : records(o))
                times[text(r, "algorithm")] = number(r, "elapsed_us");
            const double exact = times["ring"] / times["pre_reduced_ring"];
            const double published = std::stod(row.second[i].published);
            const auto is_off = [&](double ratio) { return std::fabs(ratio / published - 1) > 0.05; };
            off += is_off(Rounded(exact));
            doubtful += is_off(Rounded(exact - 1e-6)) != is_off(Rounded(exact + 1e-6)); // by rounding
        }
    EXPECT_NEAR(Row("errors", "one late").at(0), off, doubtful);
    EXPECT_LE(doubtful, 1);
}

TEST(ArrivalDocs, FiguresAreWhatTheCommandSays) {
    const strings network = {"--alpha=320us", "--beta=4.263ns",  "--gamma=0.653ns",
                             "--error=6ms",   "--operations=16", "--format=json"};
    const struct {
        const char *table, *ranks, *bytes, *arrival;
        size_t column;
    } cells[] = {{"figure-11", "48", "8Mi", "one-late:50ms", 3},
                 {"figure-12", "24", "4Mi", "one-late:100ms", 3},
                 {"figure-12", "32", "4Mi", "one-late:100ms", 4}};
    for (const auto &c : cells) {
        strings arguments = {"arrival", std::string("--ranks=") + c.ranks, std::string("--bytes=") + c.bytes,
                             std::string("--arrival=") + c.arrival,
                             "--algorithm=ring,sorted_linear_tree,pre_reduced_ring,rabenseifner"};
        arguments.insert(arguments.end(), network.begin(), network.end());
        std::map<std::string, double> times;
        for (const json &r : records(run(GCOLL_PLAN, arguments)))
            times[text(r, "algorithm")] = number(r, "elapsed_us") / 1000;
        EXPECT_NEAR(Row(c.table, "`ring`, ms").at(c.column), times["ring"], 0.06) << c.table;
        for (const char *name : {"sorted_linear_tree", "pre_reduced_ring", "rabenseifner"})
            EXPECT_NEAR(Row(c.table, "`" + std::string(name) + "`").at(c.column), times["ring"] / times[name],
                        0.006)
                << c.table << ", " << name;
    }
}

// Of speeds and ranks that do not take long: late by the ring's own time.
TEST(ArrivalDocs, SpeedsAreWhatTheCommandSays) {
    const struct {
        const char *alpha, *beta;
    } speeds[] = {{"30", "8"}, {"10", "0.8"}, {"6", "0.32"}, {"3", "0.08"}};
    const double bytes = 4 << 20;
    for (int ranks : {16, 48})
        for (size_t i = 0; i < 4; i++) {
            const double alpha = std::stod(speeds[i].alpha), beta = std::stod(speeds[i].beta);
            const double late_us =
                (ranks - 1) * (2 * (alpha + bytes / ranks * beta / 1000) + bytes / ranks * 0.1 / 1000);
            const outcome o = run(
                GCOLL_PLAN, {"arrival", "--ranks=" + std::to_string(ranks), "--bytes=4Mi",
                             std::string("--alpha=") + speeds[i].alpha + "us",
                             std::string("--beta=") + speeds[i].beta + "ns", "--gamma=0.1ns",
                             "--arrival=one-late:" + std::to_string(late_us / 1000) + "ms", "--operations=1",
                             "--format=json", "--algorithm=ring,sorted_linear_tree,pre_reduced_ring"});
            std::map<std::string, double> times;
            for (const json &r : records(o))
                times[text(r, "algorithm")] = number(r, "elapsed_us");
            const Cell cell = Table("speeds-one-late")[std::to_string(ranks)].at(i);
            EXPECT_NEAR(std::stod(cell.ours), times["ring"] / times["pre_reduced_ring"], 0.006)
                << ranks << " " << i;
            EXPECT_NEAR(std::stod(cell.published), times["ring"] / times["sorted_linear_tree"], 0.006)
                << ranks << " " << i;
        }
}

} // namespace
