// The agreement's machine, and what its tests share: contributions of ranks, an oracle for accords, and
// copies of machines.
#ifndef TEST_COUNCIL_AGREE_PEEK_H
#define TEST_COUNCIL_AGREE_PEEK_H

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

extern "C" {
#include "gcoll/council/agree.h"
}

namespace agree {

using Bytes = std::vector<uint8_t>;

[[noreturn]] inline void fail(const std::string &text) {
    throw std::runtime_error(text);
}

// The kinds of messages, and where their parts stand: see agree.c.
enum Kind { Call = 1, Give, Propose, Accept, Decide, Decided, Done, Pass };
constexpr size_t kHead = 13;

inline const char *name_of(uint8_t kind) {
    static const char *const names[] = {"?",      "CALL",    "GIVE", "PROPOSE", "ACCEPT",
                                        "DECIDE", "DECIDED", "DONE", "PASS"};
    return names[kind <= Pass ? kind : 0];
}

// What a rank gives to an instance: each lacks a bit of its own, and any may have the least number.
struct Contribution {
    uint64_t bits, number;
    Bytes row;
};

inline uint64_t mix(uint64_t a, uint64_t b, uint64_t c) {
    uint64_t value = a * 0x9e3779b97f4a7c15 + b * 0xbf58476d1ce4e5b9 + c * 0x94d049bb133111eb + 1;
    value = (value ^ value >> 31) * 0xd6e8feb86659fd93;
    return value ^ value >> 32;
}

inline Contribution contribution(uint32_t rank, uint64_t instance, uint64_t seed, size_t longest_row) {
    const uint64_t value = mix(rank, instance, seed);
    Contribution made{~(1ULL << rank % 64) & ~(instance << 60), 1000 + value % 1000, {}};
    made.row.resize(longest_row ? (value >> 20) % (longest_row + 1) : 0);
    for (size_t i = 0; i < made.row.size(); i++)
        made.row[i] = static_cast<uint8_t>(mix(value, i, 7));
    return made;
}

// The oracle: the accord of the contributions of all ranks that are not gone in it. Returns what is wrong.
inline std::string wrong_accord(const gcoll_agree_bytes &accord, uint32_t size, uint64_t instance,
                                uint64_t seed, size_t longest_row) {
    uint64_t bits = UINT64_MAX, number = UINT64_MAX;
    for (uint32_t rank = 0; rank < size; rank++) {
        size_t bytes = 0;
        const uint8_t *row = gcoll_accord_row(&accord, size, rank, &bytes);
        if (gcoll_accord_is_gone(&accord, rank) != !row)
            return "a row of a rank that is gone, or none of another";
        if (!row)
            continue;
        const Contribution given = contribution(rank, instance, seed, longest_row);
        bits &= given.bits;
        number = std::min(number, given.number);
        if (bytes != given.row.size() || (bytes && memcmp(row, given.row.data(), bytes) != 0))
            return "the row of rank " + std::to_string(rank);
    }
    if (gcoll_accord_bits(&accord) != bits)
        return "the bits";
    return gcoll_accord_number(&accord) != number ? "the number" : "";
}

// A rank waits for others that are not gone until it is settled, and for none then.
inline std::string wrong_waits(const gcoll_agree &a) {
    struct Waits {
        const gcoll_agree *a;
        uint32_t count;
        bool is_wrong;
    } waits{&a, 0, false};
    gcoll_agree_each_waited(
        &a,
        [](void *arg, uint32_t rank) {
            Waits &it = *static_cast<Waits *>(arg);
            it.count++;
            it.is_wrong |= rank >= it.a->size || rank == it.a->rank || gcoll_agree_is_gone(it.a, rank);
        },
        &waits);
    if (waits.is_wrong)
        return "waits for itself or for a rank that is gone";
    return (waits.count > 0) == (a.settled || a.is_left_out) ? "waits for nobody, or though it is settled"
                                                             : "";
}

// A machine that owns its set of ranks that are gone, and can be copied.
class Machine {
  public:
    Machine() = default;
    Machine(uint32_t rank, uint32_t size, uint64_t instance, const Bytes &gone) : gone_(gone) {
        a.rank = rank;
        a.size = size;
        a.instance = instance;
        a.gone = gone_.data();
    }
    Machine(const Machine &other) : a(other.a), gone_(other.gone_) {
        a.gone = gone_.data();
        own(a.row);
        own(a.accord);
        own(a.best);
        if (!other.a.voices)
            return;
        a.voices = static_cast<gcoll_agree_voice *>(malloc(a.size * sizeof *a.voices));
        memcpy(a.voices, other.a.voices, a.size * sizeof *a.voices);
        for (uint32_t rank = 0; rank < a.size; rank++)
            own(a.voices[rank].row);
    }
    Machine(Machine &&other) noexcept : a(other.a), gone_(std::move(other.gone_)) {
        other.a = {};
        a.gone = gone_.data();
    }
    Machine &operator=(Machine other) noexcept {
        std::swap(a, other.a);
        gone_.swap(other.gone_);
        a.gone = gone_.data();
        return *this;
    }
    ~Machine() { gcoll_agree_end(&a); }

    const Bytes &gone() const { return gone_; }
    // As the owner does it between two instances.
    void set_gone(uint32_t rank) { gone_[rank / 8] = static_cast<uint8_t>(gone_[rank / 8] | 1U << rank % 8); }

    gcoll_agree a = {};

  private:
    static void own(gcoll_agree_bytes &bytes) {
        if (!bytes.data)
            return;
        uint8_t *memory = static_cast<uint8_t *>(malloc(bytes.count ? bytes.count : 1));
        memcpy(memory, bytes.data, bytes.count);
        bytes.data = memory;
    }

    Bytes gone_;
};

} // namespace agree

#endif
