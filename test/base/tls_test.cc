// test/base/tls_test.cc - TLS over a pair of sockets: keys, certificates, bytes in any pieces, and somebody
// between the two. The program openssl is the other side, too. Keys are new after 100,000 bytes here.
#include <arpa/inet.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <random>

#include "gcoll/gcoll.h"
#include "test/kit/certificates.h"
#include "test/kit/harness.h"

extern "C" {
#include "gcoll/base/tls.h"
}

namespace {

using namespace gcoll_test;
using Bytes = std::vector<uint8_t>;

struct Free {
    void operator()(gcoll_tls *tls) const { gcoll_tls_destroy(tls); }
    void operator()(gcoll_tls_setup *setup) const { gcoll_tls_setup_destroy(setup); }
};
using Tls = std::unique_ptr<gcoll_tls, Free>;
using Common = std::unique_ptr<gcoll_tls_setup, Free>;

Common setup_of(const gcoll_tls_files &files) {
    gcoll_tls_setup *setup = nullptr;
    gcoll_tls_setup_create(&files, &setup);
    return Common(setup);
}

// Two connected sockets, or two and two with somebody between.
struct Sockets {
    explicit Sockets(int count = 1) {
        for (int i = 0; i < count; i++) {
            int two[2];
            EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, two), 0);
            fds.push_back(two[0]);
            fds.push_back(two[1]);
        }
    }
    ~Sockets() {
        for (int fd : fds)
            close(fd);
    }
    std::vector<int> fds;
};

Tls side_of(const Common &setup, int fd, bool is_server, const Bytes &key, const char *name = nullptr) {
    const gcoll_tls_side side = {fd, is_server, key.empty() ? nullptr : key.data(), name};
    gcoll_tls *tls = nullptr;
    EXPECT_EQ(gcoll_tls_create(setup.get(), &side, &tls), GCOLL_OK) << gcoll_last_error();
    return Tls(tls);
}

// Shakes hands. Returns what both have come to: 1, 0 or -1.
std::pair<int, int> shake(
    gcoll_tls *a, gcoll_tls *b, const std::function<void()> &between = [] {}) {
    int x = 0, y = 0;
    for (int i = 0; i < 20 && (x == 0 || y == 0); i++) {
        x = x == 0 ? gcoll_tls_shake(a) : x;
        between();
        y = y == 0 ? gcoll_tls_shake(b) : y;
        between();
    }
    return {x, y};
}

ssize_t receive(gcoll_tls *tls, Bytes *bytes, bool asks_kernel = true) {
    const iovec piece = {bytes->data(), bytes->size()};
    return gcoll_tls_recv(tls, &piece, 1, asks_kernel);
}

bool send_all(gcoll_tls *tls, const Bytes &bytes) {
    const iovec piece = {const_cast<uint8_t *>(bytes.data()), bytes.size()};
    return gcoll_tls_send(tls, &piece, 1) == static_cast<ssize_t>(bytes.size());
}

class TlsKeys : public testing::Test {
  protected:
    void SetUp() override {
        setup = setup_of({});
        if (!setup)
            GTEST_SKIP() << gcoll_last_error();
    }
    Common setup;
    const Bytes key = Bytes(GCOLL_TLS_KEY_BYTES, 7), other = Bytes(GCOLL_TLS_KEY_BYTES, 8);
};

TEST_F(TlsKeys, BothSidesMustHaveTheSame) {
    for (const Bytes &theirs : {key, other}) {
        Sockets sockets;
        Tls client = side_of(setup, sockets.fds[0], false, key);
        Tls server = side_of(setup, sockets.fds[1], true, theirs);
        const auto ends = shake(client.get(), server.get());
        if (theirs == key) {
            EXPECT_EQ(ends, std::make_pair(1, 1)) << gcoll_tls_problem(client.get());
            EXPECT_TRUE(gcoll_tls_is_done(client.get()) && gcoll_tls_is_done(server.get()));
            continue;
        }
        EXPECT_EQ(ends.first, -1);
        EXPECT_EQ(ends.second, -1);
        EXPECT_NE(gcoll_tls_problem(server.get())[0], '\0');
        EXPECT_TRUE(gcoll_tls_was_refused(client.get())) << gcoll_tls_problem(client.get());
        Bytes bytes(10);
        EXPECT_EQ(receive(client.get(), &bytes), -1);
        EXPECT_EQ(errno, EPROTO);
        EXPECT_FALSE(send_all(client.get(), bytes));
    }
}

TEST_F(TlsKeys, EachConnectionHasAChannelOfItsOwn) {
    std::set<std::array<uint8_t, GCOLL_SHA256_BYTES>> all;
    for (int i = 0; i < 5; i++) {
        Sockets sockets;
        Tls client = side_of(setup, sockets.fds[0], false, key);
        Tls server = side_of(setup, sockets.fds[1], true, key);
        ASSERT_EQ(shake(client.get(), server.get()), std::make_pair(1, 1));
        std::array<uint8_t, GCOLL_SHA256_BYTES> a, b;
        ASSERT_TRUE(gcoll_tls_export(client.get(), a.data()) && gcoll_tls_export(server.get(), b.data()));
        EXPECT_EQ(a, b);
        all.insert(a);
    }
    EXPECT_EQ(all.size(), 5U);
}

// Whoever has a certificate in place of the key is not let in, on either side.
TEST_F(TlsKeys, ACertificateIsNoKey) {
    if (!has_openssl())
        GTEST_SKIP() << "lacks the program openssl";
    Folder folder;
    Authority authority(folder.path(), "authority");
    ASSERT_TRUE(authority.issue("a", "DNS:a"));
    const std::string file = authority.file("a"), own = authority.key("a"), by = authority.file();
    gcoll_tls_files files = {};
    files.certificate = file.c_str();
    files.key = own.c_str();
    files.authority = by.c_str();
    const Common certified = setup_of(files);
    ASSERT_TRUE(certified) << gcoll_last_error();
    for (const bool is_server : {false, true}) {
        Sockets sockets;
        Tls stranger = side_of(certified, sockets.fds[0], is_server, {});
        Tls member = side_of(setup, sockets.fds[1], !is_server, key);
        const auto ends =
            shake(is_server ? member.get() : stranger.get(), is_server ? stranger.get() : member.get());
        EXPECT_NE(ends.first, 1);
        EXPECT_EQ(is_server ? ends.first : ends.second, -1);
    }
}

// Bytes in any pieces, over sockets that take few at a time, both ways at once.
TEST_F(TlsKeys, BytesArriveWhateverTheirPieces) {
    std::mt19937 random(23);
    for (int round = 0; round < 12; round++) {
        Sockets sockets;
        const int small = 1 << (12 + round % 6);
        for (int fd : sockets.fds)
            setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &small, sizeof small);
        Tls ends[2] = {side_of(setup, sockets.fds[0], false, key), side_of(setup, sockets.fds[1], true, key)};
        ASSERT_EQ(shake(ends[0].get(), ends[1].get()), std::make_pair(1, 1));
        Bytes sent[2] = {Bytes(1 + random() % 600000), Bytes(1 + random() % 600000)}, got[2];
        size_t at[2] = {0, 0};
        for (Bytes &each : sent)
            for (uint8_t &byte : each)
                byte = static_cast<uint8_t>(random());
        if (round % 2 == 0)
            for (Tls &end : ends)
                gcoll_tls_read_ahead(end.get());
        for (int turn = 0; got[0].size() < sent[1].size() || got[1].size() < sent[0].size() ||
                           gcoll_tls_unsent(ends[0].get()) + gcoll_tls_unsent(ends[1].get()) > 0;
             turn++) {
            ASSERT_LT(turn, 1000000);
            const int who = static_cast<int>(random() % 2);
            gcoll_tls *tls = ends[who].get();
            if (random() % 2 == 0) {
                std::vector<iovec> pieces;
                size_t total = 0;
                for (size_t from = at[who]; from < sent[who].size() && pieces.size() < 12;) {
                    size_t count = random() % 3 == 0 ? random() % 100000 : random() % 100;
                    count = std::min(count, sent[who].size() - from);
                    pieces.push_back({sent[who].data() + from, count});
                    from += count;
                    total += count;
                }
                const ssize_t taken = gcoll_tls_send(tls, pieces.data(), pieces.size());
                ASSERT_TRUE(taken >= 0 || errno == EAGAIN) << strerror(errno);
                ASSERT_LE(taken, static_cast<ssize_t>(total));
                at[who] += taken > 0 ? static_cast<size_t>(taken) : 0;
            } else {
                Bytes room(1 + random() % 50000);
                const size_t cut = random() % room.size();
                const iovec pieces[] = {{room.data(), cut}, {room.data() + cut, room.size() - cut}};
                const ssize_t count = gcoll_tls_recv(tls, pieces, 2, random() % 4 != 0);
                ASSERT_TRUE(count > 0 || (count < 0 && errno == EAGAIN)) << count << strerror(errno);
                if (count > 0)
                    got[who].insert(got[who].end(), room.begin(), room.begin() + count);
            }
        }
        EXPECT_TRUE(got[0] == sent[1] && got[1] == sent[0]) << round;
    }
}

// Once what lies here is read, the kernel tells of everything that is still to come.
TEST_F(TlsKeys, WhatLiesHereIsReadWithoutTheKernel) {
    Sockets sockets;
    Tls client = side_of(setup, sockets.fds[0], false, key),
        server = side_of(setup, sockets.fds[1], true, key);
    ASSERT_EQ(shake(client.get(), server.get()), std::make_pair(1, 1));
    gcoll_tls_read_ahead(server.get());
    for (int i = 0; i < 20; i++)
        ASSERT_TRUE(send_all(client.get(), Bytes(1000, static_cast<uint8_t>(i))));
    Bytes first(10), rest(100000);
    ASSERT_EQ(receive(server.get(), &first), 10);
    pollfd readable = {sockets.fds[1], POLLIN, 0};
    EXPECT_EQ(poll(&readable, 1, 0), 0) << "all of it was read from the kernel";
    EXPECT_EQ(receive(server.get(), &rest, false), 20 * 1000 - 10);
    EXPECT_EQ(receive(server.get(), &rest, false), -1);
    EXPECT_EQ(errno, EAGAIN);
    ASSERT_TRUE(send_all(client.get(), Bytes(5, 1)));
    EXPECT_EQ(receive(server.get(), &rest, false), -1) << "the kernel is not asked";
    EXPECT_EQ(poll(&readable, 1, 0), 1);
    EXPECT_EQ(receive(server.get(), &rest), 5);
}

// Before it reads ahead nothing is taken that others want to be told of.
TEST_F(TlsKeys, WithoutReadingAheadTheNextRecordStays) {
    Sockets sockets;
    Tls client = side_of(setup, sockets.fds[0], false, key),
        server = side_of(setup, sockets.fds[1], true, key);
    ASSERT_EQ(shake(client.get(), server.get()), std::make_pair(1, 1));
    ASSERT_TRUE(send_all(client.get(), Bytes(30, 1)));
    ASSERT_TRUE(send_all(client.get(), Bytes(40, 2)));
    Bytes first(30);
    ASSERT_EQ(receive(server.get(), &first), 30);
    pollfd readable = {sockets.fds[1], POLLIN, 0};
    EXPECT_EQ(poll(&readable, 1, 0), 1);
}

TEST_F(TlsKeys, TheEndOfTheStreamIsTold) {
    Sockets sockets;
    Tls client = side_of(setup, sockets.fds[0], false, key),
        server = side_of(setup, sockets.fds[1], true, key);
    ASSERT_EQ(shake(client.get(), server.get()), std::make_pair(1, 1));
    ASSERT_TRUE(send_all(client.get(), Bytes(30, 1)));
    shutdown(sockets.fds[0], SHUT_WR);
    Bytes room(100);
    EXPECT_EQ(receive(server.get(), &room), 30);
    EXPECT_EQ(receive(server.get(), &room), 0);
    EXPECT_EQ(receive(server.get(), &room), 0) << "again and again";
}

// Passes on what comes, and changes it once, after so many bytes.
struct Middle {
    int from, to;
    size_t at;
    uint32_t
        how; // 0: flips a bit, 1: drops bytes, 2: inserts some, 3: exchanges two pieces, 4: sends one twice
    std::mt19937 *random;
    size_t passed = 0;
    bool has_changed = false;
    void turn() {
        Bytes bytes(70000);
        for (;;) {
            const ssize_t got = recv(from, bytes.data(), bytes.size(), MSG_DONTWAIT);
            if (got <= 0)
                return;
            Bytes out(bytes.begin(), bytes.begin() + got);
            if (!has_changed && passed + out.size() > at)
                change(&out, at - std::min(at, passed));
            passed += static_cast<size_t>(got);
            EXPECT_EQ(send(to, out.data(), out.size(), MSG_NOSIGNAL), static_cast<ssize_t>(out.size()));
        }
    }
    void change(Bytes *out, size_t where) {
        const auto here = out->begin() + static_cast<ptrdiff_t>(where);
        const size_t most = std::min<size_t>(out->size() - where, 1 + (*random)() % 40);
        const Bytes before = *out;
        if (how == 0)
            *here = static_cast<uint8_t>(*here ^ 1U << (*random)() % 8);
        else if (how == 1)
            out->erase(here, here + static_cast<ptrdiff_t>(most));
        else if (how == 2)
            out->insert(here, most, static_cast<uint8_t>((*random)()));
        else if (how == 3)
            std::rotate(here, here + static_cast<ptrdiff_t>(most / 2), here + static_cast<ptrdiff_t>(most));
        else
            out->insert(here, here, here + static_cast<ptrdiff_t>(most));
        has_changed = *out != before;
    }
};

// What fails behind good bytes of the same read is known at once: nothing more may come that would tell.
TEST_F(TlsKeys, AFailureBehindGoodBytesIsKnown) {
    Sockets sockets(2);
    Tls client = side_of(setup, sockets.fds[0], false, key);
    Tls server = side_of(setup, sockets.fds[3], true, key);
    std::mt19937 random(1);
    Middle there = {sockets.fds[1], sockets.fds[2], SIZE_MAX, 0, &random};
    Middle back = {sockets.fds[2], sockets.fds[1], SIZE_MAX, 0, &random};
    ASSERT_EQ(shake(client.get(), server.get(),
                    [&] {
                        there.turn();
                        back.turn();
                    }),
              std::make_pair(1, 1));
    gcoll_tls_read_ahead(server.get());
    ASSERT_TRUE(send_all(client.get(), Bytes(100, 1)) && send_all(client.get(), Bytes(100, 2)));
    there.at = there.passed + 180; // in the second record
    there.turn();
    ASSERT_TRUE(there.has_changed);
    Bytes room(1000);
    EXPECT_EQ(receive(server.get(), &room), 100);
    EXPECT_TRUE(gcoll_tls_has_failed(server.get()));
    EXPECT_EQ(receive(server.get(), &room), -1);
    EXPECT_EQ(errno, EPROTO);
}

// ---- Somebody between the two ------------------------------------------------------------------------

// Whatever is changed and wherever: the other side gets no byte that was not sent, and an error at the end.
TEST_F(TlsKeys, NothingThatWasChangedIsTaken) {
    const char *wish = getenv("GCOLL_TEST_CHANGES"); // 10000: some seconds
    const int rounds = wish ? atoi(wish) : 500;
    std::mt19937 random(42);
    int changed = 0, in_handshake = 0;
    for (int round = 0; round < rounds; round++) {
        Sockets sockets(2); // client 0 - 1 middle 2 - 3 server
        Tls client = side_of(setup, sockets.fds[0], false, key);
        Tls server = side_of(setup, sockets.fds[3], true, key);
        const bool is_back = random() % 2 == 0;
        Middle there = {sockets.fds[1], sockets.fds[2], is_back ? SIZE_MAX : random() % 3000,
                        static_cast<uint32_t>(random() % 5), &random};
        Middle back = {sockets.fds[2], sockets.fds[1], is_back ? random() % 3000 : SIZE_MAX,
                       static_cast<uint32_t>(random() % 5), &random};
        auto between = [&] {
            there.turn();
            back.turn();
        };
        const auto ends = shake(client.get(), server.get(), between);
        const bool is_early = (is_back ? back : there).has_changed;
        Bytes sent(4000), room(5000);
        for (uint8_t &byte : sent)
            byte = static_cast<uint8_t>(random());
        gcoll_tls *from = is_back ? server.get() : client.get(), *to = is_back ? client.get() : server.get();
        size_t total = 0;
        bool has_failed = ends.first < 0 || ends.second < 0;
        in_handshake += has_failed;
        for (int part = 0; part < 8 && !has_failed && ends == std::make_pair(1, 1); part++) {
            ASSERT_TRUE(send_all(from, Bytes(sent.begin() + part * 500, sent.begin() + part * 500 + 500)));
            between();
            const ssize_t got = receive(to, &room);
            if (got > 0) {
                ASSERT_LE(total + static_cast<size_t>(got), sent.size());
                ASSERT_EQ(memcmp(room.data(), sent.data() + total, static_cast<size_t>(got)), 0) << round;
                total += static_cast<size_t>(got);
            }
            has_failed = got < 0 && errno == EPROTO;
        }
        if (!there.has_changed && !back.has_changed)
            continue;
        changed++;
        // Bytes that were dropped are missed when more come: until then nothing more was taken. And a
        // handshake has a few bytes that say nothing (RFC 8446, 5.1 and D.4).
        if (!has_failed && !is_early)
            EXPECT_LT(total, sent.size()) << round;
    }
    EXPECT_GT(changed, rounds / 2);
    EXPECT_GT(in_handshake, rounds / 50);
    printf("%d streams were changed, %d of them in the handshake\n", changed, in_handshake);
}

// ---- Certificates ---------------------------------------------------------------------------------------

class TlsCertificates : public testing::Test {
  protected:
    void SetUp() override {
        if (!setup_of({}))
            GTEST_SKIP() << gcoll_last_error();
        if (!has_openssl())
            GTEST_SKIP() << "lacks the program openssl";
        ASSERT_TRUE(authority.issue("a", "DNS:rank-0.job") && authority.issue("b", "DNS:rank-1.job"));
    }
    Common setup(const Authority &signer, const std::string &name, const Authority &trusted) {
        const std::string file = signer.file(name), key = signer.key(name), by = trusted.file();
        gcoll_tls_files files = {};
        files.certificate = file.c_str();
        files.key = key.c_str();
        files.authority = by.c_str();
        Common made = setup_of(files);
        EXPECT_TRUE(made) << gcoll_last_error();
        return made;
    }
    // A client and a server, by these; names: what each must find in the other's certificate.
    void meet(const Common &a, const Common &b, const char *of_b, const char *of_a) {
        sockets.reset(new Sockets);
        client = side_of(a, sockets->fds[0], false, {}, of_b);
        server = side_of(b, sockets->fds[1], true, {}, of_a);
        shake(client.get(), server.get());
        Bytes room(1); // the client ends its part before the server has looked at its certificate
        if (gcoll_tls_is_done(client.get()))
            receive(client.get(), &room);
    }
    bool is_well() { return *problem(client) == '\0' && *problem(server) == '\0'; }
    static const char *problem(const Tls &tls) { return gcoll_tls_problem(tls.get()); }

    Folder folder;
    Authority authority{folder.path(), "authority"}, other{folder.path(), "other"};
    std::unique_ptr<Sockets> sockets;
    Tls client, server;
};

TEST_F(TlsCertificates, GoodOnesMeet) {
    ASSERT_TRUE(authority.issue("chained", "DNS:rank-2.job", 2, true));
    const Common a = setup(authority, "a", authority), b = setup(authority, "b", authority);
    const Common chained = setup(authority, "chained", authority);
    meet(a, b, "rank-1.job", "rank-0.job");
    EXPECT_TRUE(is_well()) << problem(client) << problem(server);
    meet(a, b, nullptr, nullptr);
    EXPECT_TRUE(is_well()) << problem(client) << problem(server);
    meet(chained, a, "rank-0.job", "rank-2.job");
    EXPECT_TRUE(is_well()) << problem(client) << problem(server);
}

TEST_F(TlsCertificates, BadOnesAreRefusedAndBothSidesHearWhy) {
    ASSERT_TRUE(authority.issue("old", "DNS:rank-1.job", -1) && other.issue("foreign", "DNS:rank-1.job"));
    const Common good = setup(authority, "a", authority);
    const struct {
        Common setup;
        const char *name; // that the other side looks for
        std::string seen, heard;
    } rows[] = {
        {setup(authority, "old", authority), nullptr,
         "shows a certificate that is refused here: certificate has expired",
         "refused TLS: certificate expired"},
        {setup(other, "foreign", authority), nullptr,
         "shows a certificate that is refused here: unable to get local issuer certificate",
         "refused TLS: unknown CA"},
        {setup(authority, "b", authority), "rank-7.job",
         "shows a certificate that is refused here: hostname mismatch", "refused TLS: bad certificate"},
    };
    for (const auto &row : rows) {
        meet(row.setup, good, nullptr, row.name);
        EXPECT_EQ(std::string(problem(server)).find(row.seen), 0U) << problem(server);
        EXPECT_EQ(std::string(problem(client)).find(row.heard), 0U) << problem(client);
        EXPECT_TRUE(gcoll_tls_was_refused(client.get()));
        meet(good, row.setup, row.name, nullptr);
        EXPECT_EQ(std::string(problem(client)).find(row.seen), 0U) << problem(client);
        EXPECT_EQ(std::string(problem(server)).find(row.heard), 0U) << problem(server);
    }
    // One that shows none: a server that trusts by this authority, and a client without files of its own.
    const std::string by = authority.file();
    gcoll_tls_files none = {};
    none.authority = by.c_str();
    const Common bare = setup_of(none);
    meet(bare, good, nullptr, nullptr);
    EXPECT_NE(std::string(problem(server)).find("did not return a certificate"), std::string::npos)
        << problem(server);
    EXPECT_EQ(std::string(problem(client)), "refused TLS: tlsv13 alert certificate required");
}

// A name counts where the standards want it: in subjectAltName, not in the subject.
TEST_F(TlsCertificates, ANameInTheSubjectIsNone) {
    ASSERT_TRUE(authority.issue("rank-5.job", "DNS:other"));
    const Common own = setup(authority, "rank-5.job", authority), good = setup(authority, "a", authority);
    meet(good, own, "rank-5.job", nullptr);
    EXPECT_NE(std::string(problem(client)).find("hostname mismatch"), std::string::npos) << problem(client);
    ASSERT_TRUE(authority.issue("rank-6.job", "email:a@b"));
    const Common bare = setup(authority, "rank-6.job", authority);
    meet(good, bare, "rank-6.job", nullptr);
    EXPECT_NE(std::string(problem(client)).find("hostname mismatch"), std::string::npos) << problem(client);
}

TEST_F(TlsCertificates, FilesThatMakeNoSenseAreRefused) {
    const std::string certificate = authority.file("a"), key = authority.key("a"), by = authority.file();
    const std::string wrong_key = authority.key("b"), nothing = folder.path() + "/nothing",
                      text = folder.path() + "/text";
    std::ofstream(text) << "no certificate\n";
    ASSERT_EQ(chmod(text.c_str(), 0600), 0);
    auto refused = [&](const char *c, const char *k, const char *a, const std::string &said) {
        const gcoll_tls_files files = {c, k, a, "the certificate", "the key", "the authority", false};
        EXPECT_FALSE(setup_of(files));
        EXPECT_NE(std::string(gcoll_last_error()).find(said), std::string::npos) << gcoll_last_error();
    };
    refused(certificate.c_str(), nullptr, by.c_str(), "the certificate: is set without the key");
    refused(nullptr, key.c_str(), by.c_str(), "the key: is set without the certificate");
    refused(nothing.c_str(), key.c_str(), by.c_str(),
            "the certificate: cannot open '" + nothing + "': No such file");
    refused(text.c_str(), key.c_str(), by.c_str(),
            "the certificate: '" + text + "' is no file of a certificate");
    refused(certificate.c_str(), key.c_str(), text.c_str(),
            "the authority: '" + text + "' is no file of certificates");
    refused(certificate.c_str(), text.c_str(), by.c_str(),
            "the key: '" + text + "' is no file of a private key");
    refused(certificate.c_str(), nothing.c_str(), by.c_str(), "the key: cannot open '" + nothing);
    refused(certificate.c_str(), wrong_key.c_str(), by.c_str(), "is not the key of the certificate");
    const std::string locked = folder.path() + "/locked", pipe = folder.path() + "/pipe";
    ASSERT_TRUE(shell("openssl pkey -in " + key + " -aes128 -passout pass:word -out " + locked));
    ASSERT_EQ(chmod(locked.c_str(), 0600), 0);
    ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
    refused(certificate.c_str(), locked.c_str(), by.c_str(),
            "is no file of a private key without a password");
    for (const std::string &odd : {pipe, folder.path(), std::string("/dev/zero")}) {
        refused(odd.c_str(), key.c_str(), by.c_str(), "the certificate: '" + odd + "' is no regular file");
        refused(certificate.c_str(), key.c_str(), odd.c_str(),
                "the authority: '" + odd + "' is no regular file");
        refused(certificate.c_str(), odd.c_str(), by.c_str(), "the key: '" + odd + "' is no regular file");
    }
    ASSERT_EQ(chmod(key.c_str(), 0644), 0);
    refused(certificate.c_str(), key.c_str(), by.c_str(), "the key: '" + key + "' has mode 0644");
}

// ---- Another implementation -----------------------------------------------------------------------------

// The program openssl connects: by TLS 1.3 what it says arrives, by TLS 1.2 it is refused.
TEST_F(TlsCertificates, AnotherProgramSpeaksTheSameAndNothingOlder) {
    const Common own = setup(authority, "a", authority);
    for (const char *version : {"-tls1_3", "-tls1_2"}) {
        SCOPED_TRACE(version);
        const int listener = socket(AF_INET, SOCK_STREAM, 0);
        sockaddr_in where = {};
        socklen_t bytes = sizeof where;
        where.sin_family = AF_INET;
        where.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        ASSERT_EQ(bind(listener, reinterpret_cast<sockaddr *>(&where), sizeof where), 0);
        ASSERT_EQ(listen(listener, 1), 0);
        ASSERT_EQ(getsockname(listener, reinterpret_cast<sockaddr *>(&where), &bytes), 0);
        const std::string said = folder.path() + "/said";
        std::thread program([&] {
            shell("echo good evening | timeout 10 openssl s_client " + std::string(version) +
                  " -connect 127.0.0.1:" + std::to_string(ntohs(where.sin_port)) + " -cert " +
                  authority.file("b") + " -key " + authority.key("b") + " -CAfile " + authority.file() +
                  " -verify_return_error -quiet >" + said + " 2>&1");
        });
        const int fd = accept(listener, nullptr, nullptr);
        ASSERT_GE(fd, 0);
        {
            Tls tls = side_of(own, fd, true, {}, "rank-1.job");
            Bytes room(13);
            size_t have = 0;
            int done = 0;
            for (int i = 0; i < 5000 && done == 0; i++) {
                pollfd readable = {fd, POLLIN, 0};
                poll(&readable, 1, 100);
                done = gcoll_tls_shake(tls.get());
            }
            if (strcmp(version, "-tls1_2") == 0) {
                EXPECT_EQ(done, -1);
                EXPECT_NE(std::string(gcoll_tls_problem(tls.get())).find("protocol"), std::string::npos)
                    << gcoll_tls_problem(tls.get());
            } else {
                ASSERT_EQ(done, 1) << gcoll_tls_problem(tls.get());
                for (int i = 0; i < 100 && have < room.size(); i++) {
                    pollfd readable = {fd, POLLIN, 0};
                    poll(&readable, 1, 100);
                    const iovec piece = {room.data() + have, room.size() - have};
                    const ssize_t got = gcoll_tls_recv(tls.get(), &piece, 1, true);
                    have += got > 0 ? static_cast<size_t>(got) : 0;
                }
                EXPECT_EQ(std::string(room.begin(), room.end()), "good evening\n");
            }
        }
        close(fd);
        close(listener);
        program.join();
    }
}

} // namespace
