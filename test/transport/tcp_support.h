// test/transport/tcp_support.h - pairs of ranks over TCP, and listeners that only pretend to be one.
#ifndef GCOLL_TCP_SUPPORT_H
#define GCOLL_TCP_SUPPORT_H

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include "test/transport/endpoint_options.h"
#include "test/transport/transport_harness.h"

extern "C" {
#include "transport/session/connect.h"
#include "transport/session/session.h"
}

namespace harness {

inline constexpr uint64_t kMiB = 1 << 20;

// Two ranks in this process, driven by this thread.
struct Two {
    explicit Two(const std::function<void(gcoll_endpoint_options &)> &change = nullptr) {
        for (uint32_t r = 0; r < 2; r++) {
            gcoll_endpoint_options options = options_of(r, 2);
            if (change)
                change(options);
            ranks.push_back(std::make_unique<Rank>(kTcp, options));
            addresses.push_back(ranks.back()->address());
        }
    }
    void connect(uint32_t from, uint32_t to) {
        EXPECT_EQ(kTcp->connect(ranks[from]->endpoint, to, addresses[to].c_str()), GCOLL_OK)
            << gcoll_last_error();
    }
    template <class Condition> bool turn(Condition condition) {
        auto limit = Clock::now() + kPatience;
        while (!condition()) {
            if (Clock::now() > limit)
                return false;
            for (auto &rank : ranks)
                if (rank->endpoint)
                    rank->progress(0);
        }
        return true;
    }
    bool all_done() {
        return ranks[0]->done == ranks[0]->messages.size() && ranks[1]->done == ranks[1]->messages.size();
    }
    bool meet() { // a message in each direction
        connect(0, 1);
        for (uint32_t r = 0; r < 2; r++) {
            ranks[r]->send(1 - r, 0xfeed, 0, 1);
            ranks[r]->receive(1 - r, 0xfeed, 0, 1);
        }
        return turn([&] { return all_done(); });
    }
    gcoll_session *pair(uint32_t r) { return gcoll_net_of(ranks[r]->endpoint)->sessions[1 - r]; }
    void check() {
        for (auto &rank : ranks) {
            rank->check();
            EXPECT_TRUE(rank->failed.empty()) << rank->failed[0].text;
        }
    }
    Rank &operator[](uint32_t r) { return *ranks[r]; }
    std::vector<std::unique_ptr<Rank>> ranks;
    std::vector<std::string> addresses;
};

// A socket that listens on loopback, and may pretend to be a rank.
struct Listener {
    Listener() {
        fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        sockaddr_in where = {};
        where.sin_family = AF_INET;
        where.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        socklen_t length = sizeof where;
        EXPECT_EQ(bind(fd, reinterpret_cast<sockaddr *>(&where), sizeof where), 0);
        EXPECT_EQ(listen(fd, 16), 0);
        EXPECT_EQ(getsockname(fd, reinterpret_cast<sockaddr *>(&where), &length), 0);
        port = ntohs(where.sin_port);
    }
    ~Listener() { shut(); }
    void shut() {
        if (fd >= 0)
            close(fd);
        fd = -1;
    }
    int fd;
    uint16_t port;
};

inline std::string with_port(std::string address, uint16_t port) {
    size_t at = address.find("port=");
    return address.replace(at, address.find(';', at) - at, "port=" + std::to_string(port));
}

} // namespace harness

#endif
