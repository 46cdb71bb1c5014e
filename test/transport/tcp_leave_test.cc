// test/transport/tcp_leave_test.cc - the death of a peer, abort and close.
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "test/transport/tcp_support.h"

using namespace harness;

namespace {

// Forks a rank 1 that runs `life` and is then killed, or kills itself.
struct Mortal {
    explicit Mortal(const std::function<void(Rank &)> &life) {
        int pipes[2];
        EXPECT_EQ(pipe(pipes), 0);
        pid = fork();
        if (pid == 0) {
            Rank rank(kTcp, options_of(1, 2));
            char text[GCOLL_ADDRESS_MAX] = {};
            std::strcpy(text, rank.address().c_str());
            if (write(pipes[1], text, sizeof text) == sizeof text)
                life(rank);
            _exit(0);
        }
        char text[GCOLL_ADDRESS_MAX] = {};
        EXPECT_EQ(read(pipes[0], text, sizeof text), static_cast<ssize_t>(sizeof text));
        address = text;
        close(pipes[0]);
        close(pipes[1]);
    }
    ~Mortal() {
        kill(pid, SIGKILL);
        waitpid(pid, nullptr, 0);
    }
    pid_t pid;
    std::string address;
};

TEST(Tcp, AKilledPeerIsNoticedAtOnce) {
    Mortal mortal([](Rank &rank) {
        rank.send(0, 1, 0, 10);
        rank.receive(0, 3, 0, 64 * kMiB); // comes in part
        for (;;)
            rank.progress(1000000);
    });
    Rank rank(kTcp, options_of(0, 2));
    ASSERT_EQ(kTcp->connect(rank.endpoint, 1, mortal.address.c_str()), GCOLL_OK);
    rank.receive(1, 1, 0, 10);
    ASSERT_TRUE(rank.until_done());
    Message &never = rank.receive(1, 2, 0, 10);
    kill(mortal.pid, SIGKILL);
    auto begun = Clock::now();
    bool moved = false;
    ASSERT_EQ(kTcp->progress(rank.endpoint, 10000000, &moved), GCOLL_OK);
    EXPECT_TRUE(moved);
    EXPECT_LT(Clock::now() - begun, std::chrono::seconds(2));
    ASSERT_EQ(rank.failed.size(), 1u);
    EXPECT_EQ(rank.failed[0].status, GCOLL_ERR_PEER);
    EXPECT_EQ(rank.failed[0].text, "closed the connection");
    EXPECT_EQ(never.dones, 0);
    EXPECT_TRUE(rank.departed.empty());
}

TEST(Tcp, APeerKilledWhileMuchIsOnItsWay) {
    for (uint32_t i = 0; i < 5; i++) {
        Mortal mortal([](Rank &rank) {
            rank.send(0, 1, 0, 16 * kMiB);
            rank.receive(0, 1, 0, 16 * kMiB);
            for (;;)
                rank.progress(1000000);
        });
        Rank rank(kTcp, options_of(0, 2));
        ASSERT_EQ(kTcp->connect(rank.endpoint, 1, mortal.address.c_str()), GCOLL_OK);
        Message &out = rank.send(1, 1, 0, 16 * kMiB);
        Message &in = rank.receive(1, 1, 0, 16 * kMiB);
        Message &never = rank.receive(1, 1, 1, 1);
        ASSERT_TRUE(rank.until([&] { return in.bytes[(i * 3 + 1) * kMiB] != kUnwritten; }));
        kill(mortal.pid, SIGKILL);
        ASSERT_TRUE(rank.until([&] { return !rank.failed.empty(); }));
        EXPECT_EQ(rank.failed[0].text, "closed the connection");
        EXPECT_EQ(never.dones, 0);
        EXPECT_EQ(rank.done, static_cast<size_t>(out.dones + in.dones));
    }
}

TEST(Tcp, WhatAPeerSentBeforeItLeftCanStillBeReceived) {
    Two two;
    ASSERT_TRUE(two.meet());
    for (uint32_t i = 0; i < 10; i++)
        two[1].send(0, 1, i, 1000 * i);
    ASSERT_TRUE(two[1].until_done());
    two[1].close();
    ASSERT_TRUE(two[0].until([&] { return !two[0].departed.empty(); }));
    for (uint32_t i = 10; i-- > 0;)
        two[0].receive(1, 1, i, 1000 * i, i % 2 ? 8 : 0);
    ASSERT_TRUE(two[0].until_done());
    two[0].check();
    EXPECT_TRUE(two[0].failed.empty());
    Message &never = two[0].receive(1, 1, 10, 1);
    two[0].progress(1000);
    EXPECT_EQ(never.dones, 0);
}

// Memory that may be neither read nor written once it is forbidden.
struct Forbidden {
    explicit Forbidden(size_t count) : bytes(count) {
        memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        EXPECT_NE(memory, MAP_FAILED);
    }
    ~Forbidden() { munmap(memory, bytes); }
    void forbid() { EXPECT_EQ(mprotect(memory, bytes, PROT_NONE), 0); }
    size_t bytes;
    void *memory;
};

// A send and a receive of the same size, in memory that can be taken away.
struct Exchange {
    explicit Exchange(size_t bytes) : out(bytes), in(bytes) {
        send.bytes = receive.bytes = bytes;
        send.stream = receive.stream = 9;
        send.data = out.memory;
        receive.data = in.memory;
        send.owner = receive.owner = this;
        send.done =
            receive.done = [](gcoll_message *m) { EXPECT_FALSE(static_cast<Exchange *>(m->owner)->is_over); };
    }
    void post(Rank &rank) {
        kTcp->post_recv(rank.endpoint, 1 - rank.rank, &receive);
        kTcp->post_send(rank.endpoint, 1 - rank.rank, &send);
    }
    void forbid() {
        is_over = true;
        out.forbid();
        in.forbid();
    }
    Forbidden out, in;
    bool is_over = false;
    gcoll_message send = {}, receive = {};
};

TEST(Tcp, AbortInTheMiddleOfLargeMessages) {
    for (int i = 0; i < 8; i++) {
        Two two;
        ASSERT_TRUE(two.meet());
        Exchange mine(64 * kMiB), theirs(64 * kMiB);
        mine.post(two[0]);
        theirs.post(two[1]);
        for (int k = 0; k < 3 + 2 * i; k++) {
            two[1].progress(0);
            two[0].progress(0);
        }
        bool both = i % 2;
        gcoll_note note = note_of(GCOLL_ERR_ABORTED, 0, "enough");
        std::thread other([&] { // reads, or aborts at the same time
            if (both)
                kTcp->abort(two[1].endpoint, &note, 15000);
            else
                EXPECT_TRUE(two[1].until([&] { return !two[1].aborted.empty(); }));
        });
        auto begun = Clock::now();
        kTcp->abort(two[0].endpoint, &note, 15000);
        EXPECT_LT(Clock::now() - begun, std::chrono::seconds(5));
        mine.forbid();
        other.join();
        if (both) {
            theirs.forbid();
        } else if (!two[1].aborted.empty()) {
            EXPECT_STREQ(two[1].aborted[0].note.text, "enough");
            EXPECT_EQ(two[1].aborted[0].from, 0u);
        }
        for (int k = 0; k < 20; k++) {
            two[0].progress(0);
            two[1].progress(0);
        }
        begun = Clock::now();
        two[0].close();
        two[1].close();
        EXPECT_LT(Clock::now() - begun, std::chrono::seconds(3));
    }
}

TEST(Tcp, AbortKeepsItsLimitWhenThePeerDoesNotRead) {
    Two two;
    ASSERT_TRUE(two.meet());
    Forbidden out(64 * kMiB);
    gcoll_message send = {};
    send.bytes = out.bytes;
    send.stream = 9;
    send.data = out.memory;
    send.done = [](gcoll_message *) { ADD_FAILURE() << "done"; };
    two[1].receive(0, 9, 0, out.bytes);
    two[1].progress(0); // the grant goes
    kTcp->post_send(two[0].endpoint, 1, &send);
    for (int i = 0; i < 100; i++)
        two[0].progress(100); // fills all buffers
    gcoll_note note = note_of(GCOLL_ERR_ABORTED, UINT32_MAX, "enough");
    auto begun = Clock::now();
    kTcp->abort(two[0].endpoint, &note, 200);
    EXPECT_LT(Clock::now() - begun, std::chrono::seconds(2));
    out.forbid();
    for (int i = 0; i < 10; i++)
        two[0].progress(100);
    // The rest of the frame could not be sent: the peer hears of it, but is never told that it has it all.
    ASSERT_TRUE(two[1].until([&] { return !two[1].failed.empty() || !two[1].aborted.empty(); }));
    EXPECT_EQ(two[1].messages.back()->dones, 0);
}

TEST(Tcp, APeerThatConnectsAfterAnAbortHearsOfIt) {
    Two two;
    gcoll_note note = note_of(GCOLL_ERR_TIMEOUT, 7, "too slow");
    kTcp->abort(two[1].endpoint, &note, 100);
    two.connect(0, 1);
    ASSERT_TRUE(two.turn([&] { return !two[0].aborted.empty(); }));
    EXPECT_EQ(two[0].aborted[0].note.status, GCOLL_ERR_TIMEOUT);
    EXPECT_EQ(two[0].aborted[0].note.culprit, 7u);
    EXPECT_STREQ(two[0].aborted[0].note.text, "too slow");
}

TEST(Tcp, CloseKeepsItsLimitWhenThePeerDoesNotRead) {
    Two two;
    ASSERT_TRUE(two.meet());
    two[1].receive(0, 9, 0, 64 * kMiB);
    two[1].progress(0);
    two[0].send(1, 9, 0, 64 * kMiB);
    for (int i = 0; i < 100; i++)
        two[0].progress(100);
    auto begun = Clock::now();
    kTcp->close(two[0].endpoint, 200);
    two[0].endpoint = nullptr;
    EXPECT_LT(Clock::now() - begun, std::chrono::seconds(2));
    ASSERT_TRUE(two[1].until([&] { return !two[1].failed.empty() || !two[1].departed.empty(); }));
    EXPECT_EQ(two[1].messages.back()->dones, 0);
}

TEST(Tcp, CloseWhileConnecting) {
    Listener silent;
    for (int steps = 0; steps < 6; steps++) {
        Rank rank(kTcp, options_of(0, 3));
        ASSERT_EQ(kTcp->connect(rank.endpoint, 1, with_port(rank.address(), silent.port).c_str()), GCOLL_OK);
        rank.send(1, 1, 0, 10);
        rank.receive(2, 1, 0, 10);
        for (int i = 0; i < steps; i++)
            rank.progress(1000);
        auto begun = Clock::now();
        rank.close();
        EXPECT_LT(Clock::now() - begun, std::chrono::seconds(1));
    }
}

// The rest of a frame that was cut becomes control output, in memory of just its size; what follows it must
// find room. Sizes around the first size of that memory, and the longest note.
TEST(Tcp, AnAbortFindsRoomBehindTheRestOfACutFrame) {
    const gcoll_note note = note_of(GCOLL_ERR_ABORTED, UINT32_MAX, std::string(GCOLL_NOTE_TEXT_MAX - 1, 'x'));
    std::vector<uint8_t> rest(5000, 0x5A);
    constexpr size_t kSizes[] = {1,    100,  2000, 3600, 3700, 3800, 3900, 4000,
                                 4063, 4064, 4065, 4095, 4096, 4097, 5000};
    for (size_t bytes : kSizes) {
        SCOPED_TRACE(bytes);
        Two two;
        ASSERT_TRUE(two.meet());
        gcoll_session *pair = two.pair(0);
        pair->output.cut.payload = rest.data();
        pair->output.cut.payload_bytes = bytes;
        gcoll_session_fail(pair, GCOLL_ERR_PROTOCOL, "sent garbage");
        two[0].progress(0);
        ASSERT_EQ(two[0].failed.size(), 1u);
        ASSERT_NE(pair->socket, nullptr) << "kept, so that the peer hears why";
        const int fd = two.pair(1)->socket->fd;
        kTcp->abort(two[0].endpoint, &note, 1000);
        EXPECT_LE(pair->output.control.end, pair->output.control.capacity);
        std::vector<uint8_t> heard(bytes + 4096);
        size_t have = 0;
        const size_t all = bytes + GCOLL_WIRE_HEADER_BYTES + GCOLL_NOTE_TEXT_MAX - 1;
        pollfd ready = {fd, POLLIN, 0};
        while (have < all && poll(&ready, 1, 20000) == 1) {
            const ssize_t got = recv(fd, heard.data() + have, heard.size() - have, 0);
            ASSERT_GT(got, 0);
            have += static_cast<size_t>(got);
        }
        ASSERT_EQ(have, all);
        EXPECT_EQ(std::count(heard.begin(), heard.begin() + static_cast<std::ptrdiff_t>(bytes), 0x5A),
                  static_cast<std::ptrdiff_t>(bytes));
        EXPECT_EQ(std::count(heard.begin() + static_cast<std::ptrdiff_t>(bytes), heard.end(), 'x'),
                  GCOLL_NOTE_TEXT_MAX - 1);
    }
}

TEST(Tcp, ManyRanksAtOnce) {
    Group group(kTcp, 8);
    group.each([&](Rank &rank) {
        group.connect(rank);
        for (uint32_t round = 0; round < 20; round++)
            for (uint32_t peer = 0; peer < group.size(); peer++)
                if (peer != rank.rank) {
                    rank.send(peer, round, 0, round * 999, true);
                    rank.receive(peer, round, 0, round * 999);
                }
        EXPECT_TRUE(rank.until_done());
        rank.check();
        EXPECT_TRUE(rank.failed.empty());
        EXPECT_EQ(rank.opened.size(), 20u * 7);
    });
}

} // namespace
