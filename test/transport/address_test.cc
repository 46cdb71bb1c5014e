// test/transport/address_test.cc - address texts, and which of a peer's addresses is tried first.
#include <gtest/gtest.h>

#include <arpa/inet.h>
#include <netinet/in.h>

#include <cstring>
#include <random>
#include <string>
#include <vector>

extern "C" {
#include "transport/address.h"
}

namespace {

const std::string kHead = "tcp1;host=00000000000000aa;token=000102030405060708090a0b0c0d0e0f;port=4711";

gcoll_address parsed(const std::string &text) {
    gcoll_address address = {};
    EXPECT_EQ(gcoll_address_parse(text.c_str(), &address), GCOLL_OK) << text << ": " << gcoll_last_error();
    return address;
}

std::vector<std::string> choice(const std::string &own, const std::string &peer) {
    gcoll_address mine = parsed(own), theirs = parsed(peer);
    uint32_t order[GCOLL_ADDRESS_HOSTS];
    uint32_t count = gcoll_address_choose(&mine, &theirs, order);
    std::vector<std::string> names;
    for (uint32_t i = 0; i < count; i++) {
        char name[GCOLL_ADDRESS_NAME_MAX];
        gcoll_host_address_text(&theirs.hosts[order[i]], name, sizeof name);
        names.push_back(name);
    }
    return names;
}

std::string at_host(const char *host, const std::string &rest) {
    return std::string("tcp1;host=") + host + ";token=000102030405060708090a0b0c0d0e0f;port=1" + rest;
}
const char *const kHere = "0000000000000001";
const char *const kThere = "0000000000000002";

TEST(Address, TextIsReadAndWrittenBack) {
    std::string text = kHead + ";a=10.0.0.7/24;a=2001:db8::1/64;a=127.0.0.1/8";
    gcoll_address address = parsed(text);
    EXPECT_EQ(address.host, 0xaau);
    EXPECT_EQ(address.port, 4711);
    EXPECT_EQ(address.token[15], 15);
    ASSERT_EQ(address.count, 3u);
    auto *first = reinterpret_cast<sockaddr_in *>(&address.hosts[0].where);
    EXPECT_EQ(first->sin_family, AF_INET);
    EXPECT_EQ(ntohl(first->sin_addr.s_addr), 0x0a000007u);
    EXPECT_EQ(address.hosts[0].prefix, 24);
    char back[GCOLL_ADDRESS_MAX];
    ASSERT_EQ(gcoll_address_format(&address, back, sizeof back), GCOLL_OK);
    EXPECT_EQ(back, text);
}

TEST(Address, TextThatDoesNotFitIsRefusedAndNothingWritten) {
    gcoll_address address = parsed(kHead + ";a=10.0.0.7/24");
    std::string full(GCOLL_ADDRESS_MAX, 'x');
    ASSERT_EQ(gcoll_address_format(&address, &full[0], full.size()), GCOLL_OK);
    size_t needed = std::strlen(full.c_str()) + 1;
    std::string text(GCOLL_ADDRESS_MAX, 'x');
    for (size_t room = 0; room < needed; room++) {
        EXPECT_EQ(gcoll_address_format(&address, &text[0], room), GCOLL_ERR_INVALID);
        EXPECT_EQ(text, std::string(GCOLL_ADDRESS_MAX, 'x'));
    }
    EXPECT_EQ(gcoll_address_format(&address, &text[0], needed), GCOLL_OK);
}

TEST(Address, TheLargestRecordFitsItsText) {
    gcoll_address address = parsed(kHead + ";a=10.0.0.7/24");
    address.count = GCOLL_ADDRESS_HOSTS;
    for (auto &host : address.hosts) {
        bool has_prefix;
        ASSERT_TRUE(gcoll_host_address_parse("fe80:1111:2222:3333:4444:5555:6666:7777%interface012345/128",
                                             &host, &has_prefix));
    }
    char text[GCOLL_ADDRESS_MAX];
    ASSERT_EQ(gcoll_address_format(&address, text, sizeof text), GCOLL_OK) << gcoll_last_error();
    EXPECT_EQ(parsed(text).count, static_cast<uint32_t>(GCOLL_ADDRESS_HOSTS));
}

TEST(Address, ItSaysWhetherFramesHaveChecksums) {
    for (const char *sum : {"", ";sum=crc32c"}) {
        std::string text = kHead + sum + ";a=10.0.0.7/24";
        gcoll_address address = parsed(text);
        EXPECT_EQ(address.checksum, *sum != 0);
        char back[GCOLL_ADDRESS_MAX];
        ASSERT_EQ(gcoll_address_format(&address, back, sizeof back), GCOLL_OK);
        EXPECT_EQ(back, text);
    }
}

TEST(Address, KeysOfLaterVersionsAreSkipped) {
    EXPECT_EQ(parsed(kHead + ";rdma=abc;a=10.0.0.7/24;x=").count, 1u);
}

TEST(Address, WrongTextsAreRefused) {
    std::string many = kHead;
    for (int i = 0; i < GCOLL_ADDRESS_HOSTS + 1; i++)
        many += ";a=10.0.0.1/8";
    for (const std::string &text : {std::string(),
                                    std::string("tcp2;") + kHead.substr(5),
                                    kHead.substr(0, 40),
                                    kHead + ";",
                                    kHead,
                                    kHead + ";x=1",
                                    kHead + ";a=",
                                    kHead + ";a=10.0.0.7/33",
                                    kHead + ";a=10.0.0/8",
                                    kHead + ";a=::1/129",
                                    kHead + ";a=10.0.0.7/-1",
                                    kHead + ";a=10.0.0.7/ 1",
                                    kHead + ";a=10.0.0.7%eth0/8",
                                    kHead + ";port=0",
                                    kHead + ";port=65536",
                                    kHead + ";port=1x",
                                    kHead + ";host=12",
                                    kHead + ";token=00",
                                    kHead + ";token=g00102030405060708090a0b0c0d0e0f",
                                    kHead + ";word",
                                    kHead + ";sum=md5",
                                    kHead + ";a=fe80::1%",
                                    kHead + ";a=fe80::1%" + std::string(200, 'x'),
                                    kHead + ";" + std::string(5000, 'x') + "=",
                                    many,
                                    std::string("tcp1;port=1;host=00000000000000aa"),
                                    std::string("tcp1;")}) {
        gcoll_address address;
        std::memset(&address, 0x5a, sizeof address);
        gcoll_address before = address;
        EXPECT_EQ(gcoll_address_parse(text.c_str(), &address), GCOLL_ERR_PROTOCOL) << text;
        EXPECT_EQ(std::memcmp(&before, &address, sizeof address), 0) << text;
    }
    gcoll_address address;
    EXPECT_EQ(gcoll_address_parse(nullptr, &address), GCOLL_ERR_PROTOCOL);
    EXPECT_EQ(gcoll_address_parse(many.c_str(), &address), GCOLL_ERR_PROTOCOL);
    EXPECT_STREQ(
        gcoll_last_error(),
        ("address: has more than " + std::to_string(GCOLL_ADDRESS_HOSTS) + " addresses of its host").c_str());
}

TEST(Address, MutilatedTextsNeverCrash) {
    std::mt19937_64 random(6);
    std::string good = kHead + ";a=10.0.0.7/24;a=fe80::1%lo/64;a=127.0.0.1/8";
    for (int i = 0; i < 50000; i++) {
        std::string text = good;
        for (uint64_t k = random() % 6 + 1; k > 0; k--) {
            size_t at = random() % text.size();
            switch (random() % 3) {
            case 0:
                text[at] = static_cast<char>(random());
                break;
            case 1:
                text.erase(at, random() % 10);
                break;
            default:
                text.insert(at, text.substr(random() % text.size(), random() % 20));
            }
            if (text.empty())
                text = "t";
        }
        gcoll_address address = {};
        if (gcoll_address_parse(text.c_str(), &address) == GCOLL_OK) {
            EXPECT_LE(address.count, static_cast<uint32_t>(GCOLL_ADDRESS_HOSTS));
            EXPECT_NE(address.port, 0);
        }
    }
}

TEST(Address, LoopbackIsForTheSameHostAndFirstThere) {
    std::string own = at_host(kHere, ";a=10.0.0.1/8;a=127.0.0.1/8");
    std::string rest = ";a=10.0.0.2/8;a=127.0.0.1/8;a=::1/128";
    EXPECT_EQ(choice(own, at_host(kHere, rest)), (std::vector<std::string>{"127.0.0.1", "::1", "10.0.0.2"}));
    EXPECT_EQ(choice(own, at_host(kThere, rest)), (std::vector<std::string>{"10.0.0.2"}));
    EXPECT_TRUE(choice(own, at_host(kThere, ";a=127.0.0.5/8;a=::1/128")).empty());
}

TEST(Address, SharedSubnetsComeBeforeOthersInPublishedOrder) {
    std::string own = at_host(kHere, ";a=127.0.0.1/8;a=192.168.5.1/22;a=2001:db8:1::1/48");
    std::string peer = at_host(kThere, ";a=10.0.0.2/8;a=2001:db8:2::2/48;a=192.168.8.2/22;a=192.168.7.2/22;"
                                       "a=2001:db8:1:ffff::2/48");
    EXPECT_EQ(choice(own, peer), (std::vector<std::string>{"192.168.7.2", "2001:db8:1:ffff::2", "10.0.0.2",
                                                           "2001:db8:2::2", "192.168.8.2"}));
}

// Every link has the same subnet fe80::/64.
TEST(Address, LinkLocalAddressesAreNoSharedSubnet) {
    std::string own = at_host(kHere, ";a=fe80::1%lo/64;a=10.0.0.1/8");
    std::string peer = at_host(kThere, ";a=fe80::2%lo/64;a=10.0.0.2/8");
    EXPECT_EQ(choice(own, peer), (std::vector<std::string>{"10.0.0.2", "fe80::2%lo"}));
}

TEST(Address, TheScopeOfALinkLocalAddressIsAnInterfaceOfOurs) {
    auto scope = [](const std::string &own, const std::string &peer) {
        gcoll_address us, them;
        EXPECT_EQ(gcoll_address_parse(own.c_str(), &us), GCOLL_OK);
        EXPECT_EQ(gcoll_address_parse(peer.c_str(), &them), GCOLL_OK);
        gcoll_address_localize(&us, &them);
        return std::string(them.hosts[0].interface);
    };
    std::string peer = ";a=fe80::2%eth7/64";
    std::string both = ";a=fe80::1%ib0/64;a=fe80::3%eth7/64";
    EXPECT_EQ(scope(at_host(kHere, ";a=fe80::1%ib0/64"), at_host(kThere, peer)), "ib0");
    EXPECT_EQ(scope(at_host(kHere, both), at_host(kThere, peer)), "eth7");
    EXPECT_EQ(scope(at_host(kHere, ";a=fe80::1%ib0/64"), at_host(kHere, peer)), "eth7");
    EXPECT_EQ(scope(at_host(kHere, ";a=10.0.0.1/8"), at_host(kThere, peer)), "eth7"); // nothing is known
}

// Bridges of containers have the same address on every host.
TEST(Address, AnAddressThatIsOursComesLast) {
    std::string own = at_host(kHere, ";a=172.17.0.1/16;a=10.0.0.1/8");
    EXPECT_EQ(choice(own, at_host(kThere, ";a=172.17.0.1/16;a=10.0.0.2/8;a=198.51.100.1/24")),
              (std::vector<std::string>{"10.0.0.2", "198.51.100.1", "172.17.0.1"}));
}

} // namespace
