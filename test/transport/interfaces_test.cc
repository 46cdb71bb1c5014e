// test/transport/interfaces_test.cc - lists of interfaces: what they choose of a host's addresses, and what
// they refuse; listeners of several addresses.
#include <algorithm>
#include <random>
#include <set>

#include "test/transport/tcp_support.h"

extern "C" {
#include "transport/choice.h"
#include "transport/interfaces.h"
}

using namespace harness;

namespace {

using Names = std::vector<std::string>;

// ---- Hosts that do not exist ---------------------------------------------------------------------------

gcoll_host_address at(const std::string &interface, const std::string &address) {
    gcoll_host_address made;
    bool has_prefix;
    EXPECT_TRUE(gcoll_host_address_parse(address.c_str(), &made, &has_prefix)) << address;
    std::memset(made.interface, 0, sizeof made.interface);
    interface.copy(made.interface, sizeof made.interface - 1);
    return made;
}

const std::vector<gcoll_host_address> &host() {
    static const std::vector<gcoll_host_address> all = {
        at("lo", "127.0.0.1/8"),      at("eth0", "10.1.0.7/16"),
        at("eth0", "192.168.3.7/24"), at("docker0", "172.17.0.1/16"),
        at("eth1", "10.2.0.7/16"),    at("veth12ab", "169.254.1.1/16"),
        at("lo", "::1/128"),          at("eth0", "fe80::7/64"),
        at("eth0", "2001:db8::7/64"), at("ib0", "fe80::9/64"),
        at("vethcd34", "fe80::5/64"), at("veth12ab", "2001:db8:1::1/64")};
    return all;
}

struct Choice {
    gcoll_status status;
    std::string error;
    Names names; // "eth0 10.1.0.7"
};

Choice choose(const std::string &list, std::vector<gcoll_host_address> all = host()) {
    uint32_t count = static_cast<uint32_t>(all.size());
    Choice choice;
    choice.status = gcoll_interfaces_choose("options.interface", list.c_str(), all.data(), &count);
    choice.error = choice.status == GCOLL_OK ? "" : gcoll_last_error();
    for (uint32_t i = 0; choice.status == GCOLL_OK && i < count; i++) {
        char text[GCOLL_ADDRESS_NAME_MAX];
        gcoll_host_address bare = all[i];
        bare.interface[0] = '\0';
        gcoll_host_address_text(&bare, text, sizeof text);
        choice.names.push_back(std::string(all[i].interface) + " " + text);
    }
    return choice;
}

TEST(Interfaces, AListStandsForOneAddressOfEachInterfaceInItsOrder) {
    const struct {
        const char *list;
        Names names;
    } rows[] = {
        {"lo", {"lo 127.0.0.1"}},
        {"eth0", {"eth0 10.1.0.7"}},
        {"eth1,eth0", {"eth1 10.2.0.7", "eth0 10.1.0.7"}},
        {"eth0,eth1,eth0", {"eth0 10.1.0.7", "eth1 10.2.0.7"}},
        {"eth*", {"eth0 10.1.0.7", "eth1 10.2.0.7"}},
        {"*0", {"eth0 10.1.0.7", "docker0 172.17.0.1", "ib0 fe80::9"}},
        {"e*h*1", {"eth1 10.2.0.7"}},
        {"**1*", {"eth1 10.2.0.7", "veth12ab 169.254.1.1"}},
        {"10.0.0.0/8", {"eth0 10.1.0.7", "eth1 10.2.0.7"}},
        {"10.2.0.0/16,10.0.0.0/8", {"eth1 10.2.0.7", "eth0 10.1.0.7"}},
        {"192.168.0.0/16", {"eth0 192.168.3.7"}},
        {"192.168.3.7,eth0", {"eth0 192.168.3.7", "eth0 10.1.0.7"}},
        {"2001:db8::7", {"eth0 2001:db8::7"}},
        {"2001:db8::/32", {"eth0 2001:db8::7", "veth12ab 2001:db8:1::1"}},
        {"2001:db8::/64,lo", {"eth0 2001:db8::7", "lo 127.0.0.1"}},
        {"::1,127.0.0.1", {"lo ::1", "lo 127.0.0.1"}},
        {"fe80::7%eth0", {"eth0 fe80::7"}},
        {"fe80::/10", {"eth0 fe80::7", "ib0 fe80::9", "vethcd34 fe80::5"}},
        {"ib0", {"ib0 fe80::9"}},                                    // which has nothing better
        {"ib0,eth9,docker0", {"ib0 fe80::9", "docker0 172.17.0.1"}}, // eth9 is passed over
        {"^docker0,veth*",
         {"lo 127.0.0.1", "eth0 10.1.0.7", "eth0 192.168.3.7", "eth1 10.2.0.7", "lo ::1",
          "eth0 2001:db8::7"}},
        {"^10.0.0.0/8,lo,172.17.0.1,v*", {"eth0 192.168.3.7", "eth0 2001:db8::7"}},
        {"^nothing",
         {"lo 127.0.0.1", "eth0 10.1.0.7", "eth0 192.168.3.7", "docker0 172.17.0.1", "eth1 10.2.0.7",
          "veth12ab 169.254.1.1", "lo ::1", "eth0 2001:db8::7", "veth12ab 2001:db8:1::1"}},
    };
    for (const auto &row : rows) {
        const Choice choice = choose(row.list);
        EXPECT_EQ(choice.status, GCOLL_OK) << row.list << ": " << choice.error;
        EXPECT_EQ(choice.names, row.names) << row.list;
    }
}

TEST(Interfaces, ARefusalSaysWhatThisHostHas) {
    const std::vector<gcoll_host_address> small = {host()[0], host()[1]};
    const std::string has = "; this host has lo (127.0.0.1), eth0 (10.1.0.7)";
    for (const char *list :
         {"eth9", "eth", "Eth0", "eth0x", "203.0.113.0/24", "10.1.0.8", "::1%lo9", "eth7,eth8"}) {
        const Choice choice = choose(list, small);
        EXPECT_EQ(choice.status, GCOLL_ERR_INVALID);
        EXPECT_EQ(choice.error,
                  "options.interface: is '" + std::string(list) + "', which fits nothing" + has);
    }
    EXPECT_EQ(choose("^*", small).error, "options.interface: is '^*', which leaves nothing" + has);
    EXPECT_EQ(choose("^lo,10.0.0.0/8", small).error,
              "options.interface: is '^lo,10.0.0.0/8', which leaves nothing" + has);
    EXPECT_EQ(choose("eth0", {}).error,
              "options.interface: is 'eth0', which fits nothing; this host has no interface that is up");
}

TEST(Interfaces, AMalformedItemIsNamed) {
    const std::string allowed =
        "; allowed are such as eth0, eth*, 10.0.0.7 and 10.0.0.0/8, joined by commas, and one "
        "^ ahead of all to exclude them";
    const struct {
        std::string list, item;
    } rows[] = {{"127.0.0.1/33", "127.0.0.1/33"},
                {"eth0,10.0.0.0/x", "10.0.0.0/x"},
                {"/8", "/8"},
                {"2001:db8::/129", "2001:db8::/129"},
                {"eth0, eth1", " eth1"},
                {"eth0,^eth1", "^eth1"},
                {"^^eth1", "^eth1"},
                {"a\tb", "a?b"},
                {"\x1b[2J", "?[2J"},
                {"eth0," + std::string(80, 'e'), std::string(79, 'e')}};
    for (const auto &row : rows) {
        const Choice choice = choose(row.list);
        EXPECT_EQ(choice.status, GCOLL_ERR_INVALID) << row.list;
        EXPECT_NE(choice.error.find(", in which '" + row.item + "' is no name, address or subnet" + allowed),
                  std::string::npos)
            << choice.error;
        EXPECT_EQ(gcoll_interfaces_check("options.interface", row.list.c_str()), GCOLL_ERR_INVALID);
        EXPECT_EQ(gcoll_last_error(), choice.error);
    }
    for (const char *list : {"", ",", "eth0,", ",eth0", "eth0,,eth1", "^", "^,eth0"})
        EXPECT_EQ(choose(list).error, "options.interface: is '" + std::string(list) +
                                          "', in which an item is missing; allowed are names, addresses and "
                                          "subnets, joined by commas");
    EXPECT_EQ(choose(std::string(GCOLL_INTERFACES_TEXT_MAX, 'e')).error,
              "options.interface: is '" + std::string(80, 'e') +
                  "...', which is too long; allowed are up to 1023 bytes");
}

// By a second way of matching, which tries every split.
bool fits_slowly(const std::string &pattern, const std::string &name) {
    if (pattern.empty())
        return name.empty();
    if (pattern[0] == '*')
        return fits_slowly(pattern.substr(1), name) ||
               (!name.empty() && fits_slowly(pattern, name.substr(1)));
    return !name.empty() && pattern[0] == name[0] && fits_slowly(pattern.substr(1), name.substr(1));
}

TEST(Interfaces, PatternsFitAsTheyShould) {
    std::mt19937 random(1);
    auto any = [&](const std::string &letters, size_t most) {
        std::string text;
        for (size_t count = 1 + random() % most; count > 0; count--)
            text += letters[random() % letters.size()];
        return text;
    };
    int fitting = 0;
    for (int turn = 0; turn < 8000; turn++) {
        const std::string pattern = any("aab**", 8), name = any("ab", 8);
        const bool expected = fits_slowly(pattern, name);
        fitting += expected;
        ASSERT_EQ(choose(pattern, {at(name, "10.0.0.1/8")}).status == GCOLL_OK, expected)
            << pattern << " " << name;
        ASSERT_EQ(choose("^" + pattern, {at(name, "10.0.0.1/8")}).status == GCOLL_OK, !expected);
    }
    EXPECT_GT(fitting, 800);
}

TEST(Interfaces, AnyListChoosesAddressesOfTheHostOnceOrIsRefused) {
    std::mt19937 random(2);
    const Names words = {"eth0", "eth*", "lo", "10.0.0.0/8", "2001:db8::7", "fe80::7%eth0", ",", ",",
                         "^",    "*",    "/",  "\n",         "%s",          "veth",         "::"};
    int chosen = 0;
    for (int turn = 0; turn < 20000; turn++) {
        std::string list = random() % 3 == 0 ? "^" : "";
        for (unsigned count = random() % 10; count > 0; count--)
            list += words[random() % words.size()];
        const Choice choice = choose(list);
        if (choice.status == GCOLL_OK) {
            chosen++;
            ASSERT_FALSE(choice.names.empty());
            ASSERT_EQ(std::set<std::string>(choice.names.begin(), choice.names.end()).size(),
                      choice.names.size());
            ASSERT_EQ(gcoll_interfaces_check("x", list.c_str()), GCOLL_OK) << list;
        } else {
            ASSERT_EQ(choice.status, GCOLL_ERR_INVALID);
            ASSERT_EQ(choice.error.find_first_of("\n\x1b"), std::string::npos);
        }
    }
    EXPECT_GT(chosen, 1000);
}

// ---- This host -----------------------------------------------------------------------------------------

Names published(const std::string &address) {
    Names names;
    for (size_t at = address.find(";a="); at != std::string::npos; at = address.find(";a=", at + 1))
        names.push_back(address.substr(at + 3, address.find(';', at + 1) - at - 3));
    return names;
}

// Connects to the rank at an IPv4 address of this host. *open: whether the rank lets the connection stand.
bool reaches(Rank &rank, in_addr_t where, bool *open) {
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in there = {};
    there.sin_family = AF_INET;
    there.sin_addr.s_addr = htonl(where);
    there.sin_port = htons(gcoll_net_of(rank.endpoint)->address.port);
    const bool connected = ::connect(fd, reinterpret_cast<sockaddr *>(&there), sizeof there) == 0;
    *open = false;
    const auto limit = Clock::now() + kPatience;
    while (connected && Clock::now() < limit) {
        rank.progress(0);
        char byte;
        const ssize_t got = recv(fd, &byte, 1, MSG_DONTWAIT);
        if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR))
            break; // closed
        if (gcoll_net_of(rank.endpoint)->stranger_count > 0) {
            *open = true;
            break;
        }
    }
    close(fd);
    return connected;
}

TEST(Interfaces, OneAddressIsBound) {
    gcoll_endpoint_options options = options_of(0, 2);
    options.interface = "127.0.0.1";
    Rank rank(kTcp, options);
    EXPECT_EQ(published(rank.address()), Names{"127.0.0.1/8"});
    bool open;
    EXPECT_TRUE(reaches(rank, INADDR_LOOPBACK, &open));
    EXPECT_TRUE(open);
    EXPECT_FALSE(reaches(rank, INADDR_LOOPBACK + 1, &open)) << "somebody listens at 127.0.0.2";
}

TEST(Interfaces, OfSeveralOnlyThoseAreServedThatArePublished) {
    gcoll_endpoint_options options = options_of(0, 2);
    options.interface = "::1,127.0.0.1";
    Rank rank(kTcp, options);
    EXPECT_EQ(published(rank.address()), (Names{"::1/128", "127.0.0.1/8"}));
    bool open;
    EXPECT_TRUE(reaches(rank, INADDR_LOOPBACK, &open));
    EXPECT_TRUE(open);
    EXPECT_FALSE(reaches(rank, INADDR_LOOPBACK + 1, &open)) << "127.0.0.2 is not published";
}

TEST(Interfaces, RanksMeetByEachOfSeveralAddresses) {
    for (const char *list : {"::1,127.0.0.1", "127.0.0.1,::1", "^eth*"}) {
        Two two([&](gcoll_endpoint_options &o) { o.interface = list; });
        const std::string all = two.addresses[1];
        for (const std::string &only : published(all)) {
            Two pair([&](gcoll_endpoint_options &o) { o.interface = list; });
            std::string text = pair.addresses[1].substr(0, pair.addresses[1].find(";a=")) + ";a=" + only;
            ASSERT_EQ(kTcp->connect(pair[0].endpoint, 1, text.c_str()), GCOLL_OK) << gcoll_last_error();
            for (uint32_t r = 0; r < 2; r++) {
                pair[r].send(1 - r, 1, 0, 100);
                pair[r].receive(1 - r, 1, 0, 100);
            }
            EXPECT_TRUE(pair.turn([&] { return pair.all_done() || !pair[0].failed.empty(); }))
                << list << " at " << only;
            pair.check();
        }
    }
}

TEST(Interfaces, ExclusionOnThisHostLeavesTheRest) {
    gcoll_endpoint_options options = options_of(0, 1);
    Rank everything(kTcp, options);
    const Names all = published(everything.address());
    options.interface = "^127.0.0.0/8";
    Names expected;
    std::copy_if(all.begin(), all.end(), std::back_inserter(expected),
                 [](const std::string &a) { return a.rfind("127.", 0) != 0; });
    if (expected.empty())
        GTEST_SKIP() << "this host has no address but 127.0.0.1";
    Rank rest(kTcp, options);
    EXPECT_EQ(published(rest.address()), expected);
    bool open;
    EXPECT_FALSE(reaches(rest, INADDR_LOOPBACK, &open)) << "127.0.0.1 was excluded";
}

TEST(Interfaces, AllOfThisHostAreServedOnlyByChoice) {
    gcoll_endpoint_options options = options_of(0, 2);
    Rank usual(kTcp, options);
    options.interface = "::";
    Rank wide(kTcp, options);
    const Names all = published(usual.address());
    EXPECT_EQ(published(wide.address()), all);
    bool open;
    EXPECT_EQ(gcoll_net_of(usual.endpoint)->listener_count, all.size());
    EXPECT_TRUE(reaches(usual, INADDR_LOOPBACK, &open));
    EXPECT_TRUE(open);
    EXPECT_FALSE(reaches(usual, INADDR_LOOPBACK + 1, &open)) << "127.0.0.2 is not published";
    EXPECT_EQ(gcoll_net_of(wide.endpoint)->listener_count, 1u);
    EXPECT_TRUE(reaches(wide, INADDR_LOOPBACK + 1, &open));
    EXPECT_TRUE(open);
}

// At some address the port that the system offers may be somebody else's: then it is another one for all.
TEST(Interfaces, OnePortServesAllAddresses) {
    gcoll_endpoint_options options = options_of(0, 2);
    options.interface = "127.0.0.1,::1";
    std::vector<std::unique_ptr<Rank>> ranks;
    for (int i = 0; i < 20; i++) {
        ranks.push_back(std::make_unique<Rank>(kTcp, options));
        const uint16_t port = gcoll_net_of(ranks.back()->endpoint)->address.port;
        for (const char *host : {"127.0.0.1", "::1"}) {
            addrinfo hints = {}, *found = nullptr;
            hints.ai_socktype = SOCK_STREAM;
            hints.ai_flags = AI_NUMERICHOST;
            ASSERT_EQ(getaddrinfo(host, std::to_string(port).c_str(), &hints, &found), 0);
            const int fd = socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
            EXPECT_EQ(connect(fd, found->ai_addr, found->ai_addrlen), 0) << host;
            close(fd);
            freeaddrinfo(found);
        }
    }
    Listener taken; // at 127.0.0.1 alone
    options.port_min = options.port_max = taken.port;
    gcoll_endpoint *endpoint = nullptr;
    const gcoll_events events = {};
    EXPECT_EQ(kTcp->open(&options, &events, &endpoint), GCOLL_ERR_INVALID);
    EXPECT_NE(std::string(gcoll_last_error()).find("no free port in"), std::string::npos)
        << gcoll_last_error();
    options.interface = "::1,127.0.0.1"; // the second address fails, and nothing of the first is left
    EXPECT_EQ(kTcp->open(&options, &events, &endpoint), GCOLL_ERR_INVALID);
}

// ---- The table of options of tcp -----------------------------------------------------------------------

TEST(TcpOptions, HaveTheDefaultsAndLimitsOfTheEndpoint) {
    const gcoll_lane_option *eager = &gcoll_lane_rows[0].options[0], *pool = &gcoll_lane_rows[0].options[1];
    ASSERT_STREQ(eager->name, "eager_bytes");
    ASSERT_STREQ(pool->name, "pool_bytes");
    EXPECT_EQ(eager->initial, std::to_string(GCOLL_NET_EAGER_BYTES >> 10) + "Ki");
    EXPECT_EQ(pool->initial, std::to_string(GCOLL_FLOW_POOL_BYTES >> 20) + "Mi");
    EXPECT_EQ(pool->least, static_cast<int64_t>(GCOLL_FLOW_POOL_MIN));
    EXPECT_EQ(pool->most, static_cast<int64_t>(GCOLL_FLOW_POOL_MAX));
    EXPECT_EQ(eager->most, pool->most / 2);
}

} // namespace
