// What collectives must give, from plain loops over small exact integers.
#include <cstring>
#include <numeric>

#include "test/kit/element_oracle.h"
#include "test/staging/staging_calls.h"

namespace staging {

namespace {

using element_oracle::Bits;

// Small, so that all that is made of them is exact in every type that is drawn.
int64_t value(const Call &call, uint32_t contribution, uint64_t i, uint32_t run) {
    const auto mixed = static_cast<uint32_t>((i + 1) * 2654435761u ^
                                             ((call.number + run * 131) * 40503u + contribution * 97777u));
    if (call.op == GCOLL_PRODUCT && call.reduces())
        return contribution % 8 == 0 ? 1 + (mixed >> 16) % 2 : 1;
    return (mixed >> 16) % (call.type == GCOLL_INT8 && call.reduces() ? 2 : 4);
}

int64_t apply(gcoll_op op, int64_t a, int64_t b) {
    switch (op) {
    case GCOLL_PRODUCT:
        return a * b;
    case GCOLL_MIN:
    case GCOLL_MINLOC:
        return std::min(a, b);
    case GCOLL_MAX:
    case GCOLL_MAXLOC:
        return std::max(a, b);
    case GCOLL_BAND:
        return a & b;
    case GCOLL_BOR:
        return a | b;
    case GCOLL_BXOR:
        return a ^ b;
    case GCOLL_LAND:
        return a != 0 && b != 0;
    case GCOLL_LXOR:
        return (a != 0) != (b != 0);
    case GCOLL_USER: // it keeps its right operand
        return b;
    default:
        return a + b;
    }
}

// The floats of 16 and 8 bits of small numbers; finding one takes long.
const std::vector<Bits> &narrow_floats(gcoll_type type) {
    static const auto make = [](gcoll_type of) {
        std::vector<Bits> table;
        for (int i = 0; i <= 256; i++)
            table.push_back(element_oracle::encode(of, i));
        return table;
    };
    static const std::vector<Bits> half = make(GCOLL_FLOAT16), brain = make(GCOLL_BFLOAT16),
                                   e4m3 = make(GCOLL_FLOAT8_E4M3), e5m2 = make(GCOLL_FLOAT8_E5M2);
    return type == GCOLL_FLOAT16       ? half
           : type == GCOLL_BFLOAT16    ? brain
           : type == GCOLL_FLOAT8_E4M3 ? e4m3
                                       : e5m2;
}

Bits encode(gcoll_type type, int64_t x) {
    if (element_oracle::has_halves(type)) // a real number, or a value with the index 0
        return element_oracle::join(type, encode(element_oracle::first_type(type), x), 0);
    if (element_oracle::shape_of(type).is_float && element_oracle::shape_of(type).bytes <= 2)
        return narrow_floats(type).at(static_cast<size_t>(x));
    if (element_oracle::shape_of(type).is_float)
        return element_oracle::encode(type, static_cast<double>(x));
    return static_cast<Bits>(x) & element_oracle::mask(type);
}

class Writer {
  public:
    Writer(gcoll_type type, uint64_t elements)
        : type_(type), size_(gcoll_type_size(type)), bytes_(elements * size_) {}
    void put(Bits bits) {
        memcpy(bytes_.data() + at_, &bits, size_);
        at_ += size_;
    }
    void put(int64_t x) { put(encode(type_, x)); }
    Bytes take() { return std::move(bytes_); }

  private:
    const gcoll_type type_;
    const size_t size_;
    Bytes bytes_;
    size_t at_ = 0;
};

uint64_t chunk_begin(uint64_t n, uint32_t parts, uint32_t c) {
    return n * c / parts; // n is small
}

} // namespace

const char *collective_of(Kind kind) {
    static const char *const names[kKinds] = {
        "allreduce", "reduce",    "reduce_scatter", "reduce_scatter",   "broadcast",
        "allgather", "allgather", "gather",         "gather",           "scatter",
        "scatter",   "alltoall",  "alltoall",       "pairwise_exchange"};
    return names[kind];
}

uint64_t Call::total() const {
    return std::accumulate(counts.begin(), counts.end(), uint64_t{0});
}

uint64_t Call::offset(uint32_t block) const {
    return std::accumulate(counts.begin(), counts.begin() + block, uint64_t{0});
}

uint64_t Call::sent(uint32_t from, uint32_t to) const {
    return kind == kAlltoall ? counts[0] : counts[0] * ((from * 3 + to * 5 + number) % 4);
}

bool Call::has_root() const {
    return kind == kReduce || kind == kBroadcast || kind == kGather || kind == kGatherV || kind == kScatter ||
           kind == kScatterV;
}

uint32_t Call::contributions() const {
    return reduces_buffers() ? std::accumulate(buffers.begin(), buffers.end(), 0u) : size;
}

std::string Call::told() const {
    return "call " + std::to_string(number) + ", " + collective_of(kind) + " by " + algorithm + " of " +
           std::to_string(total()) + " " + gcoll_type_name(type) + ", " + gcoll_op_name(op) + ", root " +
           std::to_string(root) + " of " + std::to_string(size);
}

// ---- Shapes --------------------------------------------------------------------------------------------

uint64_t Problem::input_elements(uint32_t rank) const {
    uint64_t sent = 0;
    switch (call.kind) {
    case kAllgather:
    case kAllgatherV:
    case kGather:
    case kGatherV:
        return call.counts[rank];
    case kBroadcast:
    case kScatter:
    case kScatterV:
        return rank == call.root ? call.total() : 0;
    case kAlltoall:
    case kAlltoallV:
        for (uint32_t to = 0; to < call.size; to++)
            sent += call.sent(rank, to);
        return sent;
    default:
        return call.total();
    }
}

uint64_t Problem::output_elements(uint32_t rank) const {
    uint64_t received = 0;
    switch (call.kind) {
    case kReduceScatter:
    case kReduceScatterV:
    case kScatter:
    case kScatterV:
        return call.counts[rank];
    case kReduce:
    case kGather:
    case kGatherV:
        return rank == call.root ? call.total() : 0;
    case kAlltoall:
    case kAlltoallV:
        for (uint32_t from = 0; from < call.size; from++)
            received += call.sent(from, rank);
        return received;
    default:
        return call.total();
    }
}

// ---- Values --------------------------------------------------------------------------------------------

Bytes Problem::input(uint32_t contribution, uint32_t run) const {
    uint64_t elements = call.reduces_buffers() ? call.total() : input_elements(contribution);
    Writer writer(call.type, elements);
    for (uint64_t i = 0; i < elements; i++)
        writer.put(value(call, contribution, i, run));
    return writer.take();
}

const Bytes &Problem::reduced(uint32_t run) {
    std::lock_guard<std::mutex> guard(lock_);
    const auto known = reduced_.find(run);
    if (known != reduced_.end())
        return known->second;
    const uint32_t contributions = call.contributions();
    Writer writer(call.type, call.total());
    for (uint64_t i = 0; i < call.total(); i++) {
        int64_t result = value(call, 0, i, run);
        for (uint32_t c = 1; c < contributions; c++)
            result = apply(call.op, result, value(call, c, i, run));
        if (call.op == GCOLL_AVG)
            writer.put(element_oracle::quotient(call.type, encode(call.type, result), contributions));
        else
            writer.put(result);
    }
    return reduced_[run] = writer.take();
}

Bytes Problem::output(uint32_t rank, uint32_t run) {
    const size_t size = gcoll_type_size(call.type);
    if (call.kind == kReduceScatter || call.kind == kReduceScatterV) {
        const Bytes all = reduced(run);
        const auto begin = all.begin() + static_cast<std::ptrdiff_t>(call.offset(rank) * size);
        return Bytes(begin, begin + static_cast<std::ptrdiff_t>(call.counts[rank] * size));
    }
    const uint64_t elements = output_elements(rank);
    if (call.reduces())
        return elements > 0 ? reduced(run) : Bytes();
    Writer writer(call.type, elements);
    const auto put = [&](uint32_t from, uint64_t begin, uint64_t count) {
        for (uint64_t i = 0; i < count; i++)
            writer.put(value(call, from, begin + i, run));
    };
    switch (call.kind) {
    case kBroadcast:
        put(call.root, 0, elements);
        break;
    case kScatter:
    case kScatterV:
        put(call.root, call.offset(rank), elements);
        break;
    case kPairwiseExchange: {
        uint32_t chunks = 0;
        while ((1u << chunks) < call.size)
            chunks++;
        for (uint32_t c = 0; c < chunks; c++) {
            const uint64_t begin = chunk_begin(elements, chunks, c);
            const uint32_t from = rank ^ (1u << c);
            put(from < call.size ? from : rank, begin, chunk_begin(elements, chunks, c + 1) - begin);
        }
        if (chunks == 0)
            put(rank, 0, elements);
        break;
    }
    case kAlltoall:
    case kAlltoallV:
        for (uint32_t from = 0; from < call.size; from++) {
            uint64_t begin = 0;
            for (uint32_t to = 0; to < rank; to++)
                begin += call.sent(from, to);
            put(from, begin, call.sent(from, rank));
        }
        break;
    default: // allgather, gather
        for (uint32_t from = 0; from < call.size && elements > 0; from++)
            put(from, 0, call.counts[from]);
    }
    return writer.take();
}

} // namespace staging
