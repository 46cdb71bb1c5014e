// test/kit/middle_man.h - somebody between two ranks: passes on what goes by, keeps it, and changes it once.
#ifndef GCOLL_TEST_MIDDLE_MAN_H
#define GCOLL_TEST_MIDDLE_MAN_H

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <random>
#include <string>
#include <thread>
#include <vector>

namespace gcoll_test {

class MiddleMan {
  public:
    using Bytes = std::vector<uint8_t>;
    enum How { kFlip, kDrop, kInsert, kReorder, kRepeat, kHows };
    // Where it changes the bytes of one direction of the first connection; at SIZE_MAX: not at all.
    struct Change {
        How how;
        bool is_back; // of what the called rank sends
        size_t at;
        uint32_t seed;
    };

    // Listens at 127.0.0.1 in place of somebody who listens at that port.
    MiddleMan(uint16_t port, const Change &change) : target_(port), change_(change), random_(change.seed) {
        sockaddr_in where = {};
        socklen_t bytes = sizeof where;
        where.sin_family = AF_INET;
        where.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        listener_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (bind(listener_, reinterpret_cast<sockaddr *>(&where), sizeof where) != 0 ||
            listen(listener_, 16) != 0 ||
            getsockname(listener_, reinterpret_cast<sockaddr *>(&where), &bytes) != 0)
            abort();
        port_ = ntohs(where.sin_port);
        thread_ = std::thread([this] { run(); });
    }
    ~MiddleMan() {
        is_over_ = true;
        thread_.join();
        close(listener_);
        for (const Line &line : lines_) {
            close(line.a);
            close(line.b);
        }
    }
    MiddleMan(const MiddleMan &) = delete;
    MiddleMan &operator=(const MiddleMan &) = delete;
    uint16_t port() const { return port_; }
    bool has_changed() const { return has_changed_; }
    // Whether these bytes went by. When the ranks have left.
    bool has_seen(const Bytes &bytes) const {
        return std::search(seen_.begin(), seen_.end(), bytes.begin(), bytes.end()) != seen_.end();
    }

  private:
    struct Line {
        int a, b; // the caller, and the called
        bool a_ended = false, b_ended = false;
        size_t there = 0, back = 0;
    };

    void accept_one() {
        sockaddr_in where = {};
        where.sin_family = AF_INET;
        where.sin_port = htons(target_);
        where.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        const int a = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
        const int b = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (a < 0 || connect(b, reinterpret_cast<sockaddr *>(&where), sizeof where) != 0) {
            close(a);
            close(b);
            return;
        }
        lines_.push_back({a, b});
    }
    void change(Bytes *out, size_t where) {
        const auto here = out->begin() + static_cast<ptrdiff_t>(where);
        const size_t most = std::min<size_t>(out->size() - where, 1 + random_() % 40);
        const Bytes before = *out, copy(here, here + static_cast<ptrdiff_t>(most));
        switch (change_.how) {
        case kFlip:
            *here = static_cast<uint8_t>(*here ^ 1U << random_() % 8);
            break;
        case kDrop:
            out->erase(here, here + static_cast<ptrdiff_t>(most));
            break;
        case kInsert:
            out->insert(here, most, static_cast<uint8_t>(random_()));
            break;
        case kReorder:
            std::rotate(here, here + static_cast<ptrdiff_t>(most / 2), here + static_cast<ptrdiff_t>(most));
            break;
        default:
            out->insert(here, copy.begin(), copy.end());
        }
        has_changed_ = *out != before;
    }
    // Passes on what has come; false: the stream has ended.
    bool pass(int from, int to, size_t *passed, bool is_changed) {
        Bytes bytes(65536);
        const ssize_t got = recv(from, bytes.data(), bytes.size(), MSG_DONTWAIT);
        if (got <= 0)
            return got < 0 && (errno == EAGAIN || errno == EINTR);
        bytes.resize(static_cast<size_t>(got));
        seen_.insert(seen_.end(), bytes.begin(), bytes.end());
        const size_t before = *passed;
        *passed += bytes.size();
        if (is_changed && !has_changed_ && before <= change_.at && *passed > change_.at)
            change(&bytes, change_.at - before);
        for (size_t at = 0; at < bytes.size() && !is_over_;) {
            pollfd room = {to, POLLOUT, 0};
            poll(&room, 1, 10);
            const ssize_t sent = send(to, bytes.data() + at, bytes.size() - at, MSG_DONTWAIT | MSG_NOSIGNAL);
            if (sent < 0 && errno != EAGAIN && errno != EINTR)
                return false;
            at += sent > 0 ? static_cast<size_t>(sent) : 0;
        }
        return true;
    }
    void run() {
        while (!is_over_) {
            std::vector<pollfd> all = {{listener_, POLLIN, 0}};
            for (const Line &line : lines_) {
                all.push_back({line.a_ended ? -1 : line.a, POLLIN, 0});
                all.push_back({line.b_ended ? -1 : line.b, POLLIN, 0});
            }
            if (poll(all.data(), all.size(), 5) <= 0)
                continue;
            for (size_t i = 0; 2 * i + 2 < all.size(); i++) {
                Line &line = lines_[i];
                if (all[2 * i + 1].revents &&
                    !pass(line.a, line.b, &line.there, i == 0 && !change_.is_back)) {
                    line.a_ended = true;
                    shutdown(line.b, SHUT_WR);
                }
                if (all[2 * i + 2].revents && !pass(line.b, line.a, &line.back, i == 0 && change_.is_back)) {
                    line.b_ended = true;
                    shutdown(line.a, SHUT_WR);
                }
            }
            if (all[0].revents)
                accept_one();
        }
    }

    const uint16_t target_;
    const Change change_;
    std::mt19937 random_;
    int listener_ = -1;
    uint16_t port_ = 0;
    std::vector<Line> lines_;
    Bytes seen_;
    std::atomic<bool> is_over_{false}, has_changed_{false};
    std::thread thread_;
};

} // namespace gcoll_test

#endif
