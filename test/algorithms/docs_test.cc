// test/algorithms/docs_test.cc - docs/algorithms.md against the table of algorithms: names, order, options,
// claims; ARCHITECTURE.md against the sources: where functions are defined.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <regex>

#include "test/kit/plan_runner.h"

namespace gcoll_test {
namespace {

using Names = std::vector<std::string>;

// What stands in backquotes.
Names Spans(const std::string &line) {
    Names spans;
    static const std::regex span("`([^`]+)`");
    for (std::sregex_iterator i(line.begin(), line.end(), span), end; i != end; ++i)
        spans.push_back((*i)[1]);
    return spans;
}

struct Option {
    std::string text, help; // "r=-1", and its lines
    bool operator==(const Option &o) const { return text == o.text; }
};

// What a "## collective" has.
struct Chapter {
    std::vector<std::map<std::string, std::string>> rows; // cells by the table's heads
    std::vector<std::pair<std::string, std::vector<Option>>> sections;
};

// "name" or "name:option=value".
struct Example {
    std::string text;
    Names collectives; // whose chapter it stands in; none: any
};

struct Document {
    std::map<std::string, Chapter> chapters;
    std::vector<Example> examples;
};

Names Cells(const std::string &line) {
    Names cells;
    for (size_t begin = 1, end; (end = line.find('|', begin)) != std::string::npos; begin = end + 1) {
        const size_t from = line.find_first_not_of(' ', begin), to = line.find_last_not_of(' ', end - 1);
        cells.push_back(from < end ? line.substr(from, to + 1 - from) : "");
    }
    return cells;
}

Names CollectivesOf(const std::string &heading) {
    Names collectives;
    std::istringstream words(heading);
    gcoll_collective ignored;
    for (std::string word; words >> word;)
        if (gcoll_collective_parse(word.c_str(), &ignored) == GCOLL_OK)
            collectives.push_back(word);
    return collectives;
}

class Reader {
  public:
    Document Read(std::istream &file) {
        for (std::string line; std::getline(file, line);)
            Take(line);
        EndChapter();
        return document_;
    }

  private:
    void Take(const std::string &line) {
        if (line.rfind("## ", 0) == 0) {
            EndChapter();
            collectives_ = CollectivesOf(line);
        } else if (line.rfind("### ", 0) == 0) {
            chapter_.sections.push_back({line.substr(4), {}});
        } else if (line.rfind('|', 0) == 0) {
            TakeRow(Cells(line));
        } else if (!chapter_.sections.empty()) {
            TakeOption(line);
        }
        TakeExamples(line);
    }

    void TakeRow(const Names &cells) {
        if (cells.empty() || cells[0].find("---") == 0)
            return;
        if (heads_.empty()) {
            heads_ = cells;
            return;
        }
        std::map<std::string, std::string> row;
        for (size_t i = 0; i < cells.size() && i < heads_.size(); i++)
            row[heads_[i]] = cells[i];
        chapter_.rows.push_back(row);
    }

    void TakeOption(const std::string &line) {
        std::vector<Option> &options = chapter_.sections.back().second;
        static const std::regex item("- `([^`]+)`:.*");
        std::smatch match;
        in_option_ = in_option_ && line.rfind("  ", 0) == 0;
        if (std::regex_match(line, match, item)) {
            options.push_back({match[1], line});
            in_option_ = true;
        } else if (in_option_) {
            options.back().help += line;
        }
    }

    void TakeExamples(const std::string &line) {
        static const std::regex with_options("[a-z_]+(:[a-z_]+=[^:` ]+)+"),
            code("    [a-z_]+(:[a-z_]+=[^: ]+)*");
        for (const std::string &span : Spans(line))
            if (std::regex_match(span, with_options))
                document_.examples.push_back({span, collectives_});
        if (std::regex_match(line, code))
            document_.examples.push_back({line.substr(4), collectives_});
    }

    void EndChapter() {
        for (const std::string &collective : collectives_) {
            EXPECT_EQ(0u, document_.chapters.count(collective)) << collective << " has two chapters";
            document_.chapters[collective] = chapter_;
        }
        chapter_ = {};
        heads_.clear();
        in_option_ = false;
    }

    Document document_;
    Chapter chapter_;
    Names collectives_, heads_;
    bool in_option_ = false;
};

const Document &Documentation() {
    static const Document document = [] {
        std::ifstream file(SOURCE "/docs/algorithms.md");
        EXPECT_TRUE(file) << "no docs/algorithms.md";
        return Reader().Read(file);
    }();
    return document;
}

class Algorithms : public testing::TestWithParam<int> {
  protected:
    const gcoll_collective collective_ = static_cast<gcoll_collective>(GetParam());
    const Chapter &chapter() { return Documentation().chapters.at(gcoll_collective_name(collective_)); }

    std::vector<const gcoll_algorithm *> Table() const {
        std::vector<const gcoll_algorithm *> table;
        for (uint32_t i = 0; const gcoll_algorithm *a = gcoll_registry_at(nullptr, collective_, i); i++)
            table.push_back(a);
        return table;
    }
    Names TableNames() const {
        Names names;
        for (const gcoll_algorithm *a : Table())
            names.push_back(a->name);
        return names;
    }
    void SetUp() override {
        ASSERT_EQ(1u, Documentation().chapters.count(gcoll_collective_name(collective_)))
            << "no chapter " << gcoll_collective_name(collective_);
    }
};

std::string CollectiveName(const testing::TestParamInfo<int> &info) {
    return gcoll_collective_name(static_cast<gcoll_collective>(info.param));
}
INSTANTIATE_TEST_SUITE_P(Docs, Algorithms, testing::Range(0, int(GCOLL_COLLECTIVE_COUNT)), CollectiveName);

TEST_P(Algorithms, HaveASectionEachInTheirOrder) {
    Names sections;
    for (const auto &section : chapter().sections)
        sections.push_back(section.first);
    EXPECT_EQ(TableNames(), sections);
}

TEST_P(Algorithms, HaveARowEachInTheOrderInWhichAutoPrefersThem) {
    Names rows;
    for (auto row : chapter().rows) {
        ASSERT_EQ(1u, Spans(row["algorithm"]).size());
        rows.push_back(Spans(row["algorithm"])[0]);
    }
    EXPECT_EQ(TableNames(), rows);
}

std::string WithFallback(const gcoll_option &option) {
    return std::string(option.name) + "=" +
           (option.words ? option.words[option.fallback] : std::to_string(option.fallback));
}

TEST_P(Algorithms, HaveTheirOptionsWithDefaultsAndWords) {
    const std::vector<const gcoll_algorithm *> table = Table();
    ASSERT_EQ(table.size(), chapter().sections.size());
    ASSERT_EQ(table.size(), chapter().rows.size());
    for (size_t i = 0; i < table.size(); i++) {
        SCOPED_TRACE(table[i]->name);
        const std::vector<Option> &described = chapter().sections[i].second;
        auto row = chapter().rows[i];
        Names expected, names, found;
        for (const gcoll_option *o = table[i]->options; o && o->name; o++) {
            expected.push_back(WithFallback(*o));
            names.push_back(o->name);
        }
        for (const Option &option : described)
            found.push_back(option.text);
        ASSERT_EQ(expected, found);
        EXPECT_EQ(names, Spans(row["options"])) << "in the table";
        for (size_t k = 0; k < described.size(); k++)
            for (const char *const *word = table[i]->options[k].words; word && *word; word++) {
                const Names spans = Spans(described[k].help);
                EXPECT_TRUE(std::count(spans.begin(), spans.end(), *word) ||
                            WithFallback(table[i]->options[k]) == names[k] + "=" + *word)
                    << names[k] << " may be " << *word;
            }
    }
}

// Claims of an algorithm, for more than two ranks: those that it has always, and those that it has ever.
struct Claims {
    uint32_t always = GCOLL_CLAIM_ALL, ever = 0;
};

void Add(Claims *claims, const gcoll_algorithm *a, gcoll_problem problem) {
    const uint32_t size = problem.size;
    for (int order : {0, 1, -1})
        for (uint32_t ranks_per_host : {0u, 1u, 2u}) {
            std::vector<int64_t> arrivals(size);
            std::vector<uint32_t> hosts(size);
            for (uint32_t r = 0; r < size; r++) {
                arrivals[r] = order * int64_t(r);
                hosts[r] = ranks_per_host ? r / ranks_per_host : 0;
            }
            problem.arrival_ns = order ? arrivals.data() : nullptr;
            problem.node = ranks_per_host ? hosts.data() : nullptr;
            if (a->applies && a->applies(&problem) != GCOLL_OK)
                continue;
            claims->always &= gcoll_algorithm_claims(a, &problem);
            claims->ever |= gcoll_algorithm_claims(a, &problem);
        }
}

// With the defaults, and with small values of one option at a time.
Claims ClaimsOf(const gcoll_algorithm *a) {
    Claims claims;
    for (uint32_t size = 3; size <= 17; size++) {
        gcoll_problem problem = Problem(a->collective, 0, size, 1000);
        SetFallbacks(&problem, a);
        Add(&claims, a, problem);
        for (int i = 0; a->options && a->options[i].name; i++) {
            const gcoll_option &o = a->options[i];
            gcoll_problem varied = problem;
            for (int64_t value = 0; value < 4; value++) {
                if (o.words ? !o.words[value] : value < o.min || value > o.max)
                    break;
                varied.option[i] = value;
                Add(&claims, a, varied);
            }
        }
    }
    return claims;
}

TEST_P(Algorithms, ClaimWhatTheTableSays) {
    const std::vector<const gcoll_algorithm *> table = Table();
    ASSERT_EQ(table.size(), chapter().rows.size());
    const std::pair<const char *, uint32_t> columns[] = {{"identical", GCOLL_CLAIM_RANK_IDENTICAL},
                                                         {"ordered", GCOLL_CLAIM_ORDERED},
                                                         {"pairs", GCOLL_CLAIM_PAIRS},
                                                         {"left", GCOLL_CLAIM_LEFT}};
    for (size_t i = 0; i < table.size(); i++) {
        const Claims claims = ClaimsOf(table[i]);
        auto row = chapter().rows[i];
        EXPECT_TRUE(claims.always & GCOLL_CLAIM_RUN_IDENTICAL) << table[i]->name;
        for (const auto &column : columns) {
            SCOPED_TRACE(std::string(table[i]->name) + ", " + column.first);
            const std::string cell = row.count(column.first) ? row[column.first] : "yes"; // moves data only
            EXPECT_EQ((claims.always & column.second) != 0, cell == "yes") << cell;
            EXPECT_EQ((claims.ever & column.second) == 0, cell == "no") << cell;
            EXPECT_NE("", cell);
        }
    }
}

TEST(Docs, NamesOfAlgorithmsWithOptionsAreAccepted) {
    const std::vector<Example> &examples = Documentation().examples;
    EXPECT_GE(examples.size(), 5u);
    for (const Example &example : examples) {
        bool accepted = false;
        for (int c = 0; c < GCOLL_COLLECTIVE_COUNT; c++) {
            const gcoll_collective collective = static_cast<gcoll_collective>(c);
            const Names &where = example.collectives;
            gcoll_choice choice;
            if (where.empty() || std::count(where.begin(), where.end(), gcoll_collective_name(collective)))
                accepted |=
                    gcoll_choice_parse(nullptr, example.text.c_str(), collective, &choice) == GCOLL_OK;
        }
        EXPECT_TRUE(accepted) << example.text << ": " << gcoll_last_error();
    }
}

// ---- ARCHITECTURE.md ----

// The rows of the table below a heading, without its head.
std::vector<Names> TableBelow(const std::string &heading) {
    std::ifstream file(SOURCE "/ARCHITECTURE.md");
    std::vector<Names> rows;
    std::string line;
    while (std::getline(file, line) && line != heading) {
    }
    while (std::getline(file, line) && line.rfind('|', 0) != 0) {
    }
    std::getline(file, line); // the rule below the head
    while (std::getline(file, line) && line.rfind('|', 0) == 0)
        rows.push_back(Cells(line));
    return rows;
}

// Whether a line of the file begins the definition of the function.
bool Defines(const std::filesystem::path &path, const std::string &function) {
    std::ifstream file(path);
    const std::regex definition("[a-z].*\\b" + function + "\\(.*[^;]");
    for (std::string line; std::getline(file, line);)
        if (std::regex_match(line, definition))
            return true;
    return false;
}

TEST(Architecture, WalkNamesFunctionsAndTheirFiles) {
    const std::vector<Names> rows = TableBelow("## The walk of a blocking allreduce");
    EXPECT_GE(rows.size(), 10u);
    EXPECT_LT(rows.size(), 25u);
    for (size_t i = 0; i < rows.size(); i++) {
        ASSERT_EQ(4u, rows[i].size());
        EXPECT_EQ(std::to_string(i + 1), rows[i][0]);
        ASSERT_EQ(1u, Spans(rows[i][1]).size());
        ASSERT_EQ(1u, Spans(rows[i][2]).size());
        const std::string function = Spans(rows[i][1])[0], file = Spans(rows[i][2])[0];
        EXPECT_TRUE(Defines(std::filesystem::path(SOURCE) / file, function)) << function << " in " << file;
    }
}

} // namespace
} // namespace gcoll_test
