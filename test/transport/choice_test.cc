// test/transport/choice_test.cc - the text of options.transport: what is read, what is refused and how, and
// which of text, struct, environment and default counts; docs/ against the tables of options.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <map>
#include <random>
#include <regex>
#include <set>
#include <string>
#include <vector>

extern "C" {
#include "test/transport/lanes_text.h"
#include "transport/choice.h"
#include "transport/ibverbs/options.h"
#include "transport/transport.h"
}

namespace {

// ---- A table with every form --------------------------------------------------------------------------

struct Fields {
    const char *name;
    uint32_t port;
    int32_t gid;
    uint32_t mtu;
    uint64_t cache;
    uint32_t mode;
    uint32_t fast;
};

const char *const kModes[] = {"never", "possible", "required", nullptr};
const uint64_t kMtus[] = {256, 4096, 0};

gcoll_lane_option option(const char *name, gcoll_lane_form form, const char *variable, size_t at,
                         size_t bytes) {
    gcoll_lane_option o = {};
    o.name = o.field = name;
    o.form = form;
    o.help = o.initial = "";
    o.variable = variable;
    o.at = at;
    o.bytes = bytes;
    return o;
}

const std::vector<gcoll_lane_option> &table() {
    static const std::vector<gcoll_lane_option> options = [] {
        std::vector<gcoll_lane_option> all = {
            option("name", GCOLL_LANE_TEXT, "GCOLL_T_NAME", offsetof(Fields, name), sizeof(char *)),
            option("port", GCOLL_LANE_WHOLE, "GCOLL_T_PORT", offsetof(Fields, port), 4),
            option("gid", GCOLL_LANE_WHOLE, "GCOLL_T_GID", offsetof(Fields, gid), 4),
            option("mtu", GCOLL_LANE_WHOLE, "GCOLL_T_MTU", offsetof(Fields, mtu), 4),
            option("cache", GCOLL_LANE_SIZE, "GCOLL_T_CACHE", offsetof(Fields, cache), 8),
            option("mode", GCOLL_LANE_WORD, "GCOLL_T_MODE", offsetof(Fields, mode), 4),
            option("fast", GCOLL_LANE_FLAG, nullptr, offsetof(Fields, fast), 4),
            {}};
        all[1].least = 1, all[1].most = 255, all[1].fallback = 7;
        all[2].most = 255, all[2].unset = all[2].fallback = -1;
        all[3].values = kMtus;
        all[4].most = INT64_C(1) << 40;
        all[5].words = kModes;
        return all;
    }();
    return options;
}

const gcoll_lane_row *lanes() {
    static const gcoll_lane_row list[] = {{"tcp", nullptr, nullptr},
                                          {"full", table().data(), nullptr},
                                          {"other", table().data(), nullptr},
                                          {nullptr, nullptr, nullptr}};
    return list;
}

// Lanes that a text named; freed at the end.
struct Parsed {
    explicit Parsed(const std::string &text, const gcoll_lane_row *of = lanes()) {
        status = gcoll_lanes_parse(of, "options.transport", text.c_str(), &choices, &count);
        error = status == GCOLL_OK ? "" : gcoll_last_error();
    }
    ~Parsed() { free(choices); }
    Parsed(const Parsed &) = delete;
    Parsed &operator=(const Parsed &) = delete;

    std::string text() const {
        char text[2 * GCOLL_LANES_TEXT_MAX];
        write_lanes(choices, count, text, sizeof text);
        return text;
    }

    gcoll_status status;
    std::string error;
    gcoll_lane_choice *choices = nullptr;
    uint32_t count = UINT32_MAX;
};

struct Variable {
    Variable(const char *name, const std::string &value) : name_(name) { setenv(name, value.c_str(), 1); }
    ~Variable() { unsetenv(name_); }
    const char *name_;
};

// ---- What is read --------------------------------------------------------------------------------------

TEST(Lanes, AutoNamesNone) {
    Parsed parsed("auto");
    EXPECT_EQ(parsed.status, GCOLL_OK);
    EXPECT_EQ(parsed.count, 0u);
    EXPECT_EQ(parsed.choices, nullptr);
    EXPECT_EQ(parsed.text(), "auto");
}

TEST(Lanes, KeepTheirOrderAndTheirOptions) {
    Parsed parsed("full:gid=3:name=mlx5_0:port=1,tcp,other:name=x");
    ASSERT_EQ(parsed.status, GCOLL_OK) << parsed.error;
    ASSERT_EQ(parsed.count, 3u);
    EXPECT_EQ(parsed.choices[0].lane, &lanes()[1]);
    EXPECT_EQ(parsed.choices[1].lane, &lanes()[0]);
    EXPECT_EQ(parsed.choices[2].lane, &lanes()[2]);
    int64_t value = 77;
    EXPECT_TRUE(gcoll_lane_number(&parsed.choices[0], "gid", &value));
    EXPECT_EQ(value, 3);
    EXPECT_FALSE(gcoll_lane_number(&parsed.choices[0], "mtu", &value)) << "was not given";
    EXPECT_FALSE(gcoll_lane_number(&parsed.choices[0], "name", &value)) << "is a text";
    EXPECT_FALSE(gcoll_lane_number(&parsed.choices[0], "speed", &value)) << "is no option";
    EXPECT_FALSE(gcoll_lane_number(&parsed.choices[1], "gid", &value)) << "has no options";
    EXPECT_FALSE(gcoll_lane_number(nullptr, "gid", &value));
    EXPECT_EQ(value, 3);
    EXPECT_EQ(parsed.text(), "full:name=mlx5_0:port=1:gid=3,tcp,other:name=x");
}

TEST(Lanes, AChoiceMayBeCopied) {
    Parsed parsed("full:name=mlx5_0");
    ASSERT_EQ(parsed.count, 1u);
    gcoll_lane_choice copy = parsed.choices[0];
    std::memset(parsed.choices, 0x5a, sizeof copy);
    Fields fields = {};
    ASSERT_EQ(gcoll_lane_complete(table().data(), &copy, "o", nullptr, false, &fields), GCOLL_OK);
    EXPECT_STREQ(fields.name, "mlx5_0");
    std::memset(parsed.choices, 0, sizeof copy);
}

TEST(Lanes, ValuesOfEveryForm) {
    const struct {
        const char *text, *name;
        int64_t value;
    } rows[] = {
        {"port=255", "port", 255},
        {"port=0x10", "port", 16},
        {"port=0XfF", "port", 255},
        {"port=0", "port", 0},
        {"gid=-1", "gid", -1},
        {"gid=0", "gid", 0},
        {"mtu=4096", "mtu", 4096},
        {"mtu=0", "mtu", 0},
        {"cache=0", "cache", 0},
        {"cache=65536", "cache", 65536},
        {"cache=64k", "cache", 65536},
        {"cache=64K", "cache", 65536},
        {"cache=64Ki", "cache", 65536},
        {"cache=2M", "cache", 2 << 20},
        {"cache=2Mi", "cache", 2 << 20},
        {"cache=1G", "cache", 1 << 30},
        {"cache=1024Gi", "cache", INT64_C(1) << 40},
        {"mode=never", "mode", 0},
        {"mode=required", "mode", 2},
        {"mode=1", "mode", 1},
        {"fast", "fast", 1},
        {"fast=on", "fast", 1},
        {"fast=off", "fast", 0},
        {"fast=1", "fast", 1},
    };
    for (const auto &row : rows) {
        Parsed parsed(std::string("full:") + row.text);
        ASSERT_EQ(parsed.status, GCOLL_OK) << row.text << ": " << parsed.error;
        int64_t value = 12345;
        EXPECT_TRUE(gcoll_lane_number(&parsed.choices[0], row.name, &value)) << row.text;
        EXPECT_EQ(value, row.value) << row.text;
    }
}

TEST(Lanes, ARefusalNamesWhatWasFoundAndWhatIsAllowed) {
    const std::string names = "allowed are auto, tcp, full, other";
    const std::string options = "allowed are name, port, gid, mtu, cache, mode, fast";
    const std::string text = "options.transport: ";
    const struct {
        std::string text, error;
    } rows[] = {
        {"", text + "is ''; " + names},
        {"pigeon", text + "names 'pigeon'; " + names},
        {"tcp,pigeon:x=1", text + "names 'pigeon'; " + names},
        {"TCP", text + "names 'TCP'; " + names},
        {" tcp", text + "names ' tcp'; " + names},
        {"tcp\n", text + "names 'tcp?'; " + names},
        {"\x1b[2J\x7f\xc3\xa4", text +
                                    "names '?[2J?"
                                    "?"
                                    "?'; " +
                                    names},
        {"auto,tcp", text + "is 'auto,tcp'; auto stands alone, without options and other names"},
        {"tcp,auto", text + "is 'tcp,auto'; auto stands alone, without options and other names"},
        {"auto:x=1", text + "is 'auto:x=1'; auto stands alone, without options and other names"},
        {",", text + "is ','; a name is missing beside a comma"},
        {"tcp,", text + "is 'tcp,'; a name is missing beside a comma"},
        {",tcp", text + "is ',tcp'; a name is missing beside a comma"},
        {"tcp,,full", text + "is 'tcp,,full'; a name is missing beside a comma"},
        {":port=1", text + "names ''; " + names},
        {"full:", text + "is 'full:'; an option is missing behind a colon"},
        {"full::port=1", text + "is 'full::port=1'; an option is missing behind a colon"},
        {"full:port=1:,tcp", text + "is 'full:port=1:,tcp'; an option is missing behind a colon"},
        {"tcp,full,tcp", text + "names tcp twice; allowed is once"},
        {"tcp:x=1", text + "tcp has no option 'x'; it takes none"},
        {"full:speed=9", text + "full has no option 'speed'; " + options},
        {"full:=9", text + "full has no option ''; " + options},
        {"full:port=1:port=2", text + "option port of full is given twice; allowed is once"},
        {"full:fast:fast", text + "option fast of full is given twice; allowed is once"},
        {"full:port", text + "option port of full has no value; allowed are 1 to 255, and 0 for the default"},
        {"full:port=", text + "option port of full is ''; allowed are 1 to 255, and 0 for the default"},
        {"full:port=256", text + "option port of full is '256'; allowed are 1 to 255, and 0 for the default"},
        {"full:port=-1", text + "option port of full is '-1'; allowed are 1 to 255, and 0 for the default"},
        {"full:port=0x", text + "option port of full is '0x'; allowed are 1 to 255, and 0 for the default"},
        {"full:port=0xffffffffffffffffff1",
         text +
             "option port of full is '0xffffffffffffffffff1'; allowed are 1 to 255, and 0 for the default"},
        {"full:port=18446744073709551617",
         text + "option port of full is '18446744073709551617'; allowed are 1 to 255, and 0 for the default"},
        {"full:port=1 ", text + "option port of full is '1 '; allowed are 1 to 255, and 0 for the default"},
        {"full:port=1k", text + "option port of full is '1k'; allowed are 1 to 255, and 0 for the default"},
        {"full:gid=-2", text + "option gid of full is '-2'; allowed are 0 to 255, and -1 for the default"},
        {"full:mtu=1500", text + "option mtu of full is '1500'; allowed are 256, 4096"},
        {"full:cache=1025G", text + "option cache of full is '1025G'; allowed are 0 to 1024Gi bytes"},
        {"full:cache=99999999999999999999G",
         text + "option cache of full is '99999999999999999999G'; allowed are 0 to 1024Gi bytes"},
        {"full:cache=1T", text + "option cache of full is '1T'; allowed are 0 to 1024Gi bytes"},
        {"full:cache=1Kb", text + "option cache of full is '1Kb'; allowed are 0 to 1024Gi bytes"},
        {"full:cache=1i", text + "option cache of full is '1i'; allowed are 0 to 1024Gi bytes"},
        {"full:cache=k", text + "option cache of full is 'k'; allowed are 0 to 1024Gi bytes"},
        {"full:mode=maybe", text + "option mode of full is 'maybe'; allowed are never, possible, required"},
        {"full:mode=3", text + "option mode of full is '3'; allowed are never, possible, required"},
        {"full:fast=2", text + "option fast of full is '2'; allowed are off, on"},
        {"full:name=", text + "option name of full is ''; allowed are names of up to 63 characters"},
        {"full:name=a\tb", text + "option name of full is 'a?b'; allowed are names of up to 63 characters"},
        {"full:name=" + std::string(64, 'n'), text + "option name of full is '" + std::string(64, 'n') +
                                                  "'; allowed are names of up to 63 characters"},
        {std::string(511, 'x'), text + "names '" + std::string(64, 'x') + "...'; " + names},
        {std::string(512, 'x'),
         text + "begins with '" + std::string(64, 'x') + "...' and is too long; allowed are up to 511 bytes"},
    };
    for (const auto &row : rows) {
        Parsed parsed(row.text);
        EXPECT_EQ(parsed.status, GCOLL_ERR_INVALID) << row.text;
        EXPECT_EQ(parsed.error, row.error) << row.text;
        EXPECT_EQ(parsed.choices, nullptr) << row.text;
        EXPECT_EQ(parsed.count, UINT32_MAX) << "outputs are written on success only";
    }
}

// ---- Properties ----------------------------------------------------------------------------------------

std::string random_text(std::mt19937 &random) {
    static const std::vector<std::string> words = {"tcp", "full",   "other", "auto", "name", "port", "gid",
                                                   "mtu", "cache",  "mode",  "fast", "=",    ":",    ",",
                                                   "1",   "-1",     "256",   "0x1f", "64k",  "1Gi",  "never",
                                                   "on",  "mlx5_0", "\n",    "%s%n", "\xff", " "};
    std::string text;
    for (unsigned count = random() % 24; count > 0; count--)
        text += random() % 8 == 0 ? std::string(1, static_cast<char>(1 + random() % 255))
                                  : words[random() % words.size()];
    return text;
}

bool is_one_printable_line(const std::string &text) {
    return std::all_of(
        text.begin(), text.end(), [](char c) { return c >= ' ' && c <= '~'; });
}

TEST(Lanes, AnyTextIsReadOrRefusedInOneLine) {
    std::mt19937 random(20);
    unsigned read = 0;
    for (int turn = 0; turn < 40000; turn++) {
        const std::string text = random_text(random);
        Parsed parsed(text);
        if (parsed.status == GCOLL_OK) {
            read++;
            continue;
        }
        ASSERT_EQ(parsed.status, GCOLL_ERR_INVALID) << text;
        ASSERT_EQ(parsed.error.find("options.transport: "), 0u) << parsed.error;
        ASSERT_TRUE(is_one_printable_line(parsed.error)) << parsed.error;
        ASSERT_LT(parsed.error.size(), 400u) << parsed.error;
    }
    EXPECT_GT(read, 200u) << "nearly all are refused: the texts try too little";
}

// A choice made at random, as a text that spells it out; the options in any order.
std::string random_choice(std::mt19937 &random) {
    std::vector<std::string> names = {"tcp", "full", "other"};
    std::shuffle(names.begin(), names.end(), random);
    names.resize(1 + random() % names.size());
    std::string text;
    for (const std::string &name : names) {
        std::vector<std::string> options = {":name=dev" + std::to_string(random() % 1000),
                                            ":port=" + std::to_string(random() % 256),
                                            ":gid=" + std::to_string(int(random() % 257) - 1),
                                            random() % 2 ? ":mtu=256" : ":mtu=4096",
                                            ":cache=" + std::to_string(random()),
                                            std::string(":mode=") + kModes[random() % 3],
                                            random() % 2 ? ":fast=on" : ":fast=off"};
        std::shuffle(options.begin(), options.end(), random);
        options.resize(name == "tcp" ? 0 : random() % (options.size() + 1));
        text += (text.empty() ? "" : ",") + name;
        for (const std::string &each : options)
            text += each;
    }
    return text;
}

std::vector<std::vector<std::string>> parts_of(const std::string &text) {
    std::vector<std::vector<std::string>> lanes(1, std::vector<std::string>(1));
    for (char c : text)
        if (c == ',')
            lanes.push_back(std::vector<std::string>(1));
        else if (c == ':')
            lanes.back().push_back("");
        else
            lanes.back().back() += c;
    for (auto &lane : lanes)
        std::sort(lane.begin() + 1, lane.end());
    return lanes;
}

TEST(Lanes, WhatIsReadIsWrittenBack) {
    std::mt19937 random(4);
    for (int turn = 0; turn < 4000; turn++) {
        const std::string text = random_choice(random);
        Parsed parsed(text);
        ASSERT_EQ(parsed.status, GCOLL_OK) << text << ": " << parsed.error;
        ASSERT_EQ(parts_of(parsed.text()), parts_of(text));
        Parsed again(parsed.text());
        ASSERT_EQ(again.status, GCOLL_OK) << again.error;
        ASSERT_EQ(again.text(), parsed.text());
    }
}

// ---- Which place counts --------------------------------------------------------------------------------

Fields completed(const std::string &text, const Fields *given, bool by_environment) {
    Parsed parsed(text);
    EXPECT_EQ(parsed.status, GCOLL_OK) << parsed.error;
    Fields fields = {};
    EXPECT_EQ(
        gcoll_lane_complete(table().data(), parsed.choices, "options.full", given, by_environment, &fields),
        GCOLL_OK)
        << gcoll_last_error();
    fields.name = fields.name ? strdup(fields.name) : nullptr; // outlives the choice
    return fields;
}

std::string name_of(const Fields &fields) {
    std::string name = fields.name ? fields.name : "";
    free(const_cast<char *>(fields.name));
    return name;
}

TEST(Lanes, TheTextCountsBeforeTheStructThenTheEnvironmentThenTheDefault) {
    Variable port("GCOLL_T_PORT", "3"), gid("GCOLL_T_GID", "33"), name("GCOLL_T_NAME", "env"),
        cache("GCOLL_T_CACHE", "3k"), mode("GCOLL_T_MODE", "required"), mtu("GCOLL_T_MTU", "");
    Fields given = {};
    given.name = "given";
    given.port = 2;
    given.gid = 22;
    given.cache = 2048;
    given.mode = 1;
    Fields none = {};
    none.gid = -1;
    const struct {
        const char *text;
        const Fields *given;
        bool by_environment;
        const char *name;
        uint32_t port;
        int32_t gid;
        uint64_t cache;
        uint32_t mode;
    } rows[] = {
        {"full:name=text:port=1:gid=11:cache=1k:mode=never", &given, true, "text", 1, 11, 1024, 0},
        {"full:mtu=256", &given, true, "given", 2, 22, 2048, 1},
        {"full:mtu=256", &none, true, "env", 3, 33, 3072, 2},
        {"full:mtu=256", nullptr, true, "env", 3, 33, 3072, 2},
        {"full:mtu=256", &none, false, "", 7, -1, 0, 0},
        // A default that the text asks for is not filled in by the environment.
        {"full:mtu=256:port=0:gid=-1:cache=0:mode=never", &none, true, "env", 7, -1, 0, 0},
    };
    for (const auto &row : rows) {
        SCOPED_TRACE(std::string(row.text) + (row.given == &given ? ", given" : ""));
        const Fields found = completed(row.text, row.given, row.by_environment);
        EXPECT_EQ(name_of(found), row.name);
        EXPECT_EQ(found.port, row.port);
        EXPECT_EQ(found.gid, row.gid);
        EXPECT_EQ(found.cache, row.cache);
        EXPECT_EQ(found.mode, row.mode);
    }
}

TEST(Lanes, WhatIsCompleteStaysWhenItIsReadAgain) {
    Variable port("GCOLL_T_PORT", "3");
    Fields first = completed("full:name=x:port=0:gid=-1", nullptr, true);
    Fields second = {};
    ASSERT_EQ(gcoll_lane_complete(table().data(), nullptr, "o", &first, false, &second), GCOLL_OK);
    EXPECT_STREQ(second.name, "x");
    EXPECT_EQ(second.port, 7u) << "the variable was asked again";
    EXPECT_EQ(second.gid, -1);
    name_of(first);
}

TEST(Lanes, AWrongFieldOrVariableIsNamed) {
    Fields given = {}, fields = {};
    auto error = [&] {
        EXPECT_EQ(gcoll_lane_complete(table().data(), nullptr, "options.full", &given, true, &fields),
                  GCOLL_ERR_INVALID);
        return std::string(gcoll_last_error());
    };
    given.port = 300;
    EXPECT_EQ(error(), "options.full->port: is 300; allowed are 1 to 255, and 0 for the default");
    given.port = 0;
    given.gid = -5;
    EXPECT_EQ(error(), "options.full->gid: is -5; allowed are 0 to 255, and -1 for the default");
    given.gid = 0;
    given.mtu = 1500;
    EXPECT_EQ(error(), "options.full->mtu: is 1500; allowed are 256, 4096");
    given.mtu = 0;
    given.cache = UINT64_MAX;
    EXPECT_EQ(error(), "options.full->cache: is 9223372036854775807; allowed are 0 to 1024Gi bytes");
    given.cache = 0;
    given.mode = 3;
    EXPECT_EQ(error(), "options.full->mode: is 3; allowed are 0 to 2");
    given.mode = 0;
    {
        Variable wrong("GCOLL_T_PORT", "many\n");
        EXPECT_EQ(error(), "GCOLL_T_PORT: is 'many?'; allowed are 1 to 255, and 0 for the default");
    }
    {
        Variable wrong("GCOLL_T_MODE", "sometimes");
        EXPECT_EQ(error(), "GCOLL_T_MODE: is 'sometimes'; allowed are never, possible, required");
    }
    {
        Variable wrong("GCOLL_T_NAME", std::string(70, 'n'));
        EXPECT_EQ(error(), "GCOLL_T_NAME: is '" + std::string(64, 'n') +
                               "...'; allowed are names of up to 63 characters");
    }
}

// ---- The library's own tables --------------------------------------------------------------------------

TEST(LaneTables, HaveALaneForEachTransport) {
    size_t count = 0;
    for (; gcoll_lane_rows[count].name; count++) {
        ASSERT_NE(gcoll_transports[count], nullptr);
        EXPECT_STREQ(gcoll_lane_rows[count].name, gcoll_transports[count]->name);
    }
    EXPECT_EQ(gcoll_transports[count], nullptr);
    EXPECT_LE(count, size_t{GCOLL_LANES_MAX});
}

TEST(LaneTables, AreWellFormed) {
    for (const gcoll_lane_row *lane = gcoll_lane_rows; lane->name; lane++) {
        std::set<std::string> names, variables;
        size_t count = 0;
        for (const gcoll_lane_option *o = lane->options; o && o->name; o++, count++) {
            SCOPED_TRACE(std::string(lane->name) + ":" + o->name);
            EXPECT_TRUE(names.insert(o->name).second);
            EXPECT_TRUE(!o->variable || variables.insert(o->variable).second);
            EXPECT_STRNE(o->help, "");
            EXPECT_STRNE(o->initial, "");
            EXPECT_EQ(o->form == GCOLL_LANE_WORD, o->words != nullptr);
            EXPECT_TRUE(o->values || o->form == GCOLL_LANE_TEXT || o->words || o->least <= o->most);
            if (o->field)
                EXPECT_EQ(o->bytes == 8, o->form == GCOLL_LANE_TEXT || o->form == GCOLL_LANE_SIZE);
            char allowed[GCOLL_LANE_ALLOWED_MAX];
            gcoll_lane_allowed(o, allowed);
            EXPECT_LT(std::strlen(allowed), sizeof allowed - 1) << "is cut off";
        }
        EXPECT_LE(count, size_t{GCOLL_LANE_OPTIONS_MAX});
    }
}

TEST(LaneTables, IbverbsHasEveryFieldOfItsStruct) {
    gcoll_ibverbs_options fresh, read;
    gcoll_ibverbs_options_init(&fresh);
    ASSERT_EQ(gcoll_ib_options_read(&fresh, &read), GCOLL_OK) << gcoll_last_error();
    EXPECT_EQ(read.timeout, 14u);
    EXPECT_EQ(read.retry_count, 6u);
    EXPECT_EQ(read.rnr_retry, 6u);
    EXPECT_EQ(read.gid_index, -1);
    std::set<std::string> declared, listed;
    std::ifstream header(SOURCE "/gcoll/ibverbs.h");
    const std::regex field("    (const char \\*|u?int[0-9]+_t )([a-z_]+);.*");
    std::smatch match;
    for (std::string line; std::getline(header, line);)
        if (std::regex_match(line, match, field))
            declared.insert(match[2]);
    for (const gcoll_lane_option *o = gcoll_ib_lane_options; o->name; o++)
        if (o->field)
            listed.insert(o->field);
    EXPECT_GE(declared.size(), 12u);
    EXPECT_EQ(listed, declared);
}

TEST(LaneTables, IbverbsReadsItsVariables) {
    const struct {
        const char *variable, *value;
        std::function<int64_t(const gcoll_ibverbs_options &)> field;
        int64_t expected;
    } rows[] = {
        {"GCOLL_IB_PORT", "2", [](const gcoll_ibverbs_options &o) { return o.port; }, 2},
        {"GCOLL_IB_GID_INDEX", "3", [](const gcoll_ibverbs_options &o) { return o.gid_index; }, 3},
        {"GCOLL_IB_GID_INDEX", "-1", [](const gcoll_ibverbs_options &o) { return o.gid_index; }, -1},
        {"GCOLL_IB_MTU", "1024", [](const gcoll_ibverbs_options &o) { return o.mtu; }, 1024},
        {"GCOLL_IB_PKEY", "0x8001", [](const gcoll_ibverbs_options &o) { return o.pkey; }, 0x8001},
        {"GCOLL_IB_SL", "15", [](const gcoll_ibverbs_options &o) { return o.service_level; }, 15},
        {"GCOLL_IB_TC", "106", [](const gcoll_ibverbs_options &o) { return o.traffic_class; }, 106},
        {"GCOLL_IB_TIMEOUT", "20", [](const gcoll_ibverbs_options &o) { return o.timeout; }, 20},
        {"GCOLL_IB_RETRY", "7", [](const gcoll_ibverbs_options &o) { return o.retry_count; }, 7},
        {"GCOLL_IB_RNR_RETRY", "5", [](const gcoll_ibverbs_options &o) { return o.rnr_retry; }, 5},
        {"GCOLL_IB_CACHE", "64Mi", [](const gcoll_ibverbs_options &o) { return int64_t(o.cache_bytes); },
         64 << 20},
        {"GCOLL_IB_DEVICE_MEMORY", "2", [](const gcoll_ibverbs_options &o) { return o.device_memory; }, 2},
        {"GCOLL_IB_DEVICE_MEMORY", "possible", [](const gcoll_ibverbs_options &o) { return o.device_memory; },
         1},
    };
    for (const auto &row : rows) {
        Variable variable(row.variable, row.value);
        gcoll_ibverbs_options read;
        ASSERT_EQ(gcoll_ib_options_read(nullptr, &read), GCOLL_OK) << gcoll_last_error();
        EXPECT_EQ(row.field(read), row.expected) << row.variable;
    }
    Variable device("GCOLL_IB_DEVICE", "mlx5_3");
    gcoll_ibverbs_options read;
    ASSERT_EQ(gcoll_ib_options_read(nullptr, &read), GCOLL_OK);
    EXPECT_STREQ(read.device, "mlx5_3");
    Variable wrong("GCOLL_IB_MTU", "1500");
    EXPECT_EQ(gcoll_ib_options_read(nullptr, &read), GCOLL_ERR_INVALID);
    EXPECT_STREQ(gcoll_last_error(), "GCOLL_IB_MTU: is '1500'; allowed are 256, 512, 1024, 2048, 4096");
}

// ---- docs/ ---------------------------------------------------------------------------------------------

using Cells = std::vector<std::string>;

std::string trimmed(const std::string &text) {
    const size_t from = text.find_first_not_of(" `"), to = text.find_last_not_of(" `");
    return from == std::string::npos ? "" : text.substr(from, to + 1 - from);
}

// The rows of the first table below a heading, as a map of cells by their heads.
std::vector<std::map<std::string, std::string>> table_below(const std::string &page,
                                                            const std::string &heading) {
    std::ifstream file(SOURCE "/docs/" + page);
    EXPECT_TRUE(file) << page;
    std::vector<std::map<std::string, std::string>> rows;
    Cells heads;
    std::string line;
    while (std::getline(file, line) && line != heading) {
    }
    EXPECT_TRUE(file) << page << " has no heading " << heading;
    while (std::getline(file, line) && (heads.empty() || line.rfind('|', 0) == 0)) {
        if (line.rfind('|', 0) != 0)
            continue;
        Cells cells;
        for (size_t begin = 1, end; (end = line.find('|', begin)) != std::string::npos; begin = end + 1)
            cells.push_back(trimmed(line.substr(begin, end - begin)));
        if (heads.empty()) {
            heads = cells;
        } else if (cells[0].find("---") != 0) {
            rows.push_back({});
            for (size_t i = 0; i < cells.size() && i < heads.size(); i++)
                rows.back()[heads[i]] = cells[i];
        }
    }
    return rows;
}

void expect_table(const std::string &page, const std::string &heading, const gcoll_lane_option *options) {
    auto rows = table_below(page, heading);
    size_t at = 0;
    for (const gcoll_lane_option *o = options; o->name; o++, at++) {
        ASSERT_LT(at, rows.size()) << page << " lacks " << o->name;
        SCOPED_TRACE(page + ": " + o->name);
        char allowed[GCOLL_LANE_ALLOWED_MAX];
        gcoll_lane_allowed(o, allowed);
        std::map<std::string, std::string> expected = {
            {"option", o->name}, {"means", o->help}, {"allowed", allowed}, {"default", o->initial}};
        if (rows[at].count("variable"))
            expected["variable"] = o->variable ? o->variable : "";
        if (rows[at].count("field"))
            expected["field"] = o->field ? o->field : "";
        EXPECT_EQ(rows[at], expected);
    }
    EXPECT_EQ(at, rows.size()) << page << " has options that there are not";
}

TEST(LaneDocs, TablesAreThoseOfTheCode) {
    expect_table("ibverbs.md", "## Options", gcoll_ib_lane_options);
    expect_table("transports.md", "### Options of tcp", gcoll_lane_rows[0].options);
    expect_table("shared-memory.md", "## Options", gcoll_lane_rows[2].options);
}

TEST(LaneDocs, TextsInThePagesAreRead) {
    const std::regex span("`((tcp|shm|ibverbs|inproc)([:,][a-z_0-9=:,A-Z]+)+)`|\"((tcp|shm|ibverbs|inproc)([:"
                          ",][a-z_0-9=:,A-Z]+)+)\"");
    size_t count = 0;
    for (const char *page : {"docs/transports.md", "docs/ibverbs.md", "docs/shared-memory.md",
                             "gcoll/context.h", "gcoll/ibverbs.h"}) {
        std::ifstream file(std::string(SOURCE "/") + page);
        for (std::string line; std::getline(file, line);) {
            for (std::sregex_iterator i(line.begin(), line.end(), span), end; i != end; ++i, count++) {
                Parsed parsed((*i)[1].length() > 0 ? (*i)[1].str() : (*i)[4].str(), gcoll_lane_rows);
                EXPECT_EQ(parsed.status, GCOLL_OK) << page << ": " << parsed.error;
            }
        }
    }
    EXPECT_GE(count, 5u);
}

} // namespace
