/*
 * cuda/threads.h - how a range of elements is cut among threads, and what each of them does.
 *
 * Vectors of 16 bytes where all addresses are at the same distance from a multiple of 16, with the elements
 * before the first and after the last of them one by one; elements one by one where they are not; and bytes
 * where an address is no multiple of the element's size. C++ for devices and the host alike, as elements.h
 * is, so that a test on the host can be all threads, one after the other.
 */
#ifndef GCOLL_CUDA_THREADS_H
#define GCOLL_CUDA_THREADS_H

#include "cuda/elements.h"
#include "cuda/limits.h"

namespace gcoll_cuda {

/* Handed to kernels by value. */
struct Operands {
    const unsigned char *at[GCOLL_CUDA_OPERANDS];
};

struct Cut {
    uint64_t count;   /* elements */
    uint64_t head;    /* of these, before the first vector */
    uint64_t vectors; /* then */
    bool is_aligned;  /* every address is a multiple of the element's size */
};

struct alignas(16) Vector {
    uint32_t words[4];
};

/* `addresses`: all addresses or-ed together; `differences`: each one xor-ed with the first, or-ed together.
 */
inline Cut cut(uint64_t count, unsigned element_bytes, uintptr_t first, uintptr_t addresses,
               uintptr_t differences) {
    Cut c = {count, count, 0, addresses % element_bytes == 0};

    if (c.is_aligned && differences % sizeof(Vector) == 0) {
        uint64_t head = (sizeof(Vector) - first % sizeof(Vector)) % sizeof(Vector) / element_bytes;
        uint64_t lanes = sizeof(Vector) / element_bytes;
        c.head = head < count ? head : count;
        c.vectors = (count - c.head) / lanes;
    }
    return c;
}

inline Cut cut_fold(uint64_t count, unsigned element_bytes, const void *dst, const Operands &operands,
                    unsigned operand_count) {
    const uintptr_t first = reinterpret_cast<uintptr_t>(dst);
    uintptr_t addresses = first, differences = 0;

    for (unsigned i = 0; i < operand_count; i++) {
        uintptr_t address = reinterpret_cast<uintptr_t>(operands.at[i]);
        addresses |= address;
        differences |= address ^ first;
    }
    return cut(count, element_bytes, first, addresses, differences);
}

inline Cut cut_divide(uint64_t count, unsigned element_bytes, const void *data) {
    const uintptr_t first = reinterpret_cast<uintptr_t>(data);
    return cut(count, element_bytes, first, first, 0);
}

/* How many elements are done one by one. */
GCOLL_BOTH inline uint64_t singles(const Cut &c, unsigned element_bytes) {
    return c.count - c.vectors * (sizeof(Vector) / element_bytes);
}

/* Where the i-th of them is. */
GCOLL_BOTH inline uint64_t single(const Cut &c, unsigned element_bytes, uint64_t i) {
    return i < c.head ? i : i + c.vectors * (sizeof(Vector) / element_bytes);
}

template <class T> GCOLL_BOTH T load(const unsigned char *from, uint64_t i, bool is_aligned) {
    if (is_aligned)
        return reinterpret_cast<const T *>(from)[i];
    unsigned char bytes[sizeof(T)];
    for (unsigned b = 0; b < sizeof(T); b++)
        bytes[b] = from[i * sizeof(T) + b];
    T x;
    memcpy(&x, bytes, sizeof x);
    return x;
}

template <class T> GCOLL_BOTH void store(unsigned char *to, uint64_t i, bool is_aligned, T x) {
    if (is_aligned) {
        reinterpret_cast<T *>(to)[i] = x;
        return;
    }
    unsigned char bytes[sizeof(T)];
    memcpy(bytes, &x, sizeof x);
    for (unsigned b = 0; b < sizeof(T); b++)
        to[i * sizeof(T) + b] = bytes[b];
}

template <class Operation> GCOLL_BOTH Vector apply_lanes(Vector a, Vector b) {
    using T = typename Operation::Element;
    constexpr unsigned lanes = sizeof(Vector) / sizeof(T);
    T x[lanes], y[lanes];

    memcpy(x, &a, sizeof a);
    memcpy(y, &b, sizeof b);
#if defined(__CUDA_ARCH__)
#pragma unroll
#endif
    for (unsigned i = 0; i < lanes; i++)
        x[i] = Operation::apply(x[i], y[i]);
    memcpy(&a, x, sizeof a);
    return a;
}

/* All operands' vectors at one place, from the left. Up to four loads are under way at once. */
template <class Operation>
GCOLL_BOTH Vector fold_vectors(const Operands &operands, unsigned operand_count, uint64_t offset) {
    constexpr unsigned at_once = 4;
    Vector result = *reinterpret_cast<const Vector *>(operands.at[0] + offset);

    for (unsigned k = 1; k < operand_count; k += at_once) {
        Vector next[at_once];
#if defined(__CUDA_ARCH__)
#pragma unroll
#endif
        for (unsigned j = 0; j < at_once; j++)
            if (k + j < operand_count)
                next[j] = *reinterpret_cast<const Vector *>(operands.at[k + j] + offset);
#if defined(__CUDA_ARCH__)
#pragma unroll
#endif
        for (unsigned j = 0; j < at_once; j++)
            if (k + j < operand_count)
                result = apply_lanes<Operation>(result, next[j]);
    }
    return result;
}

/* What thread `thread` of `threads` does of dst = operands[0] op operands[1] op ... An element is read from
 * all operands before it is written, so dst may be one of them. */
template <class Operation>
GCOLL_BOTH void fold_thread(unsigned char *dst, const Operands &operands, unsigned operand_count,
                            const Cut &c, uint64_t thread, uint64_t threads) {
    using T = typename Operation::Element;
    const uint64_t rest = singles(c, sizeof(T));

    for (uint64_t v = thread; v < c.vectors; v += threads) {
        uint64_t offset = c.head * sizeof(T) + v * sizeof(Vector);
        *reinterpret_cast<Vector *>(dst + offset) = fold_vectors<Operation>(operands, operand_count, offset);
    }
    for (uint64_t s = thread; s < rest; s += threads) {
        uint64_t i = single(c, sizeof(T), s);
        T x = load<T>(operands.at[0], i, c.is_aligned);
        for (unsigned k = 1; k < operand_count; k++)
            x = Operation::apply(x, load<T>(operands.at[k], i, c.is_aligned));
        store<T>(dst, i, c.is_aligned, x);
    }
}

/* The same of data[i] /= n. */
template <class Quotient>
GCOLL_BOTH void divide_thread(unsigned char *data, uint32_t n, const Cut &c, uint64_t thread,
                              uint64_t threads) {
    using T = typename Quotient::Element;
    constexpr unsigned lanes = sizeof(Vector) / sizeof(T);
    const uint64_t rest = singles(c, sizeof(T));

    for (uint64_t v = thread; v < c.vectors; v += threads) {
        Vector *at = reinterpret_cast<Vector *>(data + c.head * sizeof(T) + v * sizeof(Vector));
        Vector vector = *at;
        T x[lanes];
        memcpy(x, &vector, sizeof vector);
#if defined(__CUDA_ARCH__)
#pragma unroll
#endif
        for (unsigned i = 0; i < lanes; i++)
            x[i] = Quotient::apply(x[i], n);
        memcpy(&vector, x, sizeof vector);
        *at = vector;
    }
    for (uint64_t s = thread; s < rest; s += threads) {
        uint64_t i = single(c, sizeof(T), s);
        store<T>(data, i, c.is_aligned, Quotient::apply(load<T>(data, i, c.is_aligned), n));
    }
}

} // namespace gcoll_cuda

#endif
