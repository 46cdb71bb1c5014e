// The executor on a GPU: what its kernels compute against the host's, bit for bit; copies; order with a
// stream of the caller's. Skipped, saying so, where there is none.
#include <gtest/gtest.h>

#include <cuda_runtime_api.h>

#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "test/kit/element_oracle.h"

extern "C" {
#include "cuda/accelerator.h"
}

namespace {

using Bytes = std::vector<unsigned char>;
const gcoll_accelerator_table &cuda = gcoll_accelerator_cuda;

#define CHECK_CUDA(call) ASSERT_EQ(call, cudaSuccess) << #call

class CudaGpu : public testing::Test {
  protected:
    void SetUp() override {
        const gcoll_accelerator_options options = {true};
        if (cuda.open(&options, &a) != GCOLL_OK)
            GTEST_SKIP() << "no GPU was found: " << gcoll_last_error();
    }
    void TearDown() override {
        if (!a)
            return;
        EXPECT_EQ(cuda.drain(a, 60000), GCOLL_OK) << gcoll_last_error();
        cuda.close(a);
        for (void *p : allocated)
            EXPECT_EQ(cudaFree(p), cudaSuccess);
        EXPECT_EQ(cudaGetLastError(), cudaSuccess);
    }

    unsigned char *on_device(size_t bytes) {
        void *p = nullptr;
        EXPECT_EQ(cudaMalloc(&p, bytes > 0 ? bytes : 1), cudaSuccess);
        allocated.push_back(p);
        return static_cast<unsigned char *>(p);
    }
    unsigned char *on_device(const Bytes &bytes, size_t offset = 0) {
        unsigned char *p = on_device(bytes.size() + offset) + offset;
        EXPECT_EQ(cudaMemcpy(p, bytes.data(), bytes.size(), cudaMemcpyHostToDevice), cudaSuccess);
        return p;
    }
    Bytes from_device(const void *p, size_t bytes) {
        Bytes host(bytes);
        EXPECT_EQ(cudaMemcpy(host.data(), p, bytes, cudaMemcpyDeviceToHost), cudaSuccess);
        return host;
    }
    void finish(gcoll_status status, gcoll_ticket *ticket, gcoll_ticket_time *time = nullptr) {
        ASSERT_EQ(status, GCOLL_OK) << gcoll_last_error();
        for (bool done = false; !done;)
            ASSERT_EQ(cuda.test(a, ticket, &done, time), GCOLL_OK) << gcoll_last_error();
    }
    void fold(void *dst, const std::vector<const void *> &operands, uint64_t count, gcoll_type type,
              gcoll_op op) {
        const std::vector<uint32_t> devices(operands.size(), 0);
        gcoll_fold f = {};
        f.dst = dst;
        f.operands = operands.data();
        f.devices = devices.data();
        f.operand_count = static_cast<uint32_t>(operands.size());
        f.count = count;
        f.type = type;
        f.op = op;
        gcoll_ticket *ticket = nullptr;
        gcoll_status status = cuda.fold(a, &f, nullptr, 0, &ticket);
        finish(status, ticket);
    }

    gcoll_accelerator *a = nullptr;
    std::vector<void *> allocated;
};

Bytes random_bytes(size_t bytes, unsigned seed) {
    std::mt19937_64 random(seed);
    Bytes b(bytes);
    for (size_t i = 0; i < bytes; i += 8) {
        const uint64_t x = random();
        memcpy(&b[i], &x, std::min<size_t>(8, bytes - i));
    }
    return b;
}

void expect_same(gcoll_type type, gcoll_op op, const Bytes &got, const Bytes &wanted,
                 const std::string &what) {
    const size_t size = gcoll_type_size(type);
    size_t wrong = 0;
    ASSERT_EQ(got.size(), wanted.size());
    for (size_t i = 0; i + size <= got.size(); i += size) {
        element_oracle::Bits x = 0, y = 0;
        memcpy(&x, &got[i], size);
        memcpy(&y, &wanted[i], size);
        const bool exact = op == GCOLL_MIN || op == GCOLL_MAX || op == GCOLL_MINLOC || op == GCOLL_MAXLOC;
        if (x != y && (exact || !element_oracle::same(type, x, y)) && wrong++ < 3)
            ADD_FAILURE() << what << ": " << gcoll_type_name(type) << " " << gcoll_op_name(op) << " ["
                          << i / size << "]: " << element_oracle::hex(x) << ", not "
                          << element_oracle::hex(y);
    }
    EXPECT_EQ(wrong, 0u) << what;
}

Bytes folded_by_host(const std::vector<Bytes> &operands, gcoll_type type, gcoll_op op) {
    Bytes sum = operands[0];
    for (size_t k = 1; k < operands.size(); k++)
        gcoll_kernel_find(type, op)(sum.data(), sum.data(), operands[k].data(),
                                    sum.size() / gcoll_type_size(type));
    return sum;
}

TEST_F(CudaGpu, FoldsEveryTypeAndOperationAsTheHostDoes) {
    const size_t count = 100003;
    for (int t = 0; t < GCOLL_TYPE_COUNT; t++) {
        for (int o = 0; o < GCOLL_OP_COUNT; o++) {
            const gcoll_type type = static_cast<gcoll_type>(t);
            const gcoll_op op = static_cast<gcoll_op>(o);
            if (!gcoll_kernel_find(type, op))
                continue;
            for (size_t n : {2, 3, 8, 70}) {
                for (size_t offset : {size_t{0}, gcoll_type_size(type), size_t{1}}) {
                    if (n > 3 && offset != 0)
                        continue;
                    std::vector<Bytes> operands;
                    std::vector<const void *> there;
                    for (size_t k = 0; k < n; k++) {
                        operands.push_back(
                            random_bytes(count * gcoll_type_size(type), static_cast<unsigned>(k)));
                        there.push_back(on_device(operands.back(), k % 2 * offset));
                    }
                    unsigned char *dst = on_device(operands[0].size());
                    fold(dst, there, count, type, op);
                    expect_same(type, op, from_device(dst, operands[0].size()),
                                folded_by_host(operands, type, op),
                                std::to_string(n) + " operands, offset " + std::to_string(offset));
                    for (void *p : allocated)
                        CHECK_CUDA(cudaFree(p));
                    allocated.clear();
                }
            }
        }
    }
}

// The conversions of float16 are the device's own instructions: all pairs with each of some special values.
TEST_F(CudaGpu, RoundsEverySixteenBitFloatAsTheHostDoes) {
    Bytes every(2 * 65536);
    for (size_t i = 0; i < 65536; i++)
        every[2 * i] = static_cast<unsigned char>(i), every[2 * i + 1] = static_cast<unsigned char>(i >> 8);
    for (gcoll_type type : {GCOLL_FLOAT16, GCOLL_BFLOAT16}) {
        for (gcoll_op op : {GCOLL_SUM, GCOLL_PRODUCT, GCOLL_MIN, GCOLL_MAX}) {
            for (unsigned special :
                 {0x0000u, 0x8000u, 0x0001u, 0x83ffu, 0x0400u, 0x3c00u, 0x3c01u, 0x3555u, 0x7bffu, 0x7c00u,
                  0xfc00u, 0x7e01u, 0x3f80u, 0x7f7fu, 0x7f80u, 0xff81u}) {
                Bytes one(every.size());
                for (size_t i = 0; i < one.size(); i += 2)
                    one[i] = static_cast<unsigned char>(special),
                    one[i + 1] = static_cast<unsigned char>(special >> 8);
                unsigned char *dst = on_device(every.size());
                fold(dst, {on_device(every), on_device(one)}, 65536, type, op);
                expect_same(type, op, from_device(dst, every.size()), folded_by_host({every, one}, type, op),
                            "op " + std::to_string(special));
            }
        }
        for (uint32_t divisor : {1u, 2u, 3u, 7u, 1000u, 65535u, 0xffffffffu}) {
            Bytes wanted = every;
            gcoll_divide(wanted.data(), 65536, type, divisor);
            unsigned char *data = on_device(every);
            gcoll_ticket *ticket = nullptr;
            gcoll_status status = cuda.divide(a, 0, data, 65536, type, divisor, nullptr, 0, &ticket);
            finish(status, ticket);
            expect_same(type, GCOLL_AVG, from_device(data, every.size()), wanted,
                        "/ " + std::to_string(divisor));
        }
    }
}

TEST_F(CudaGpu, DividesEveryTypeAsTheHostDoes) {
    for (int t = 0; t < GCOLL_TYPE_COUNT; t++) {
        const gcoll_type type = static_cast<gcoll_type>(t);
        if (!element_oracle::defined(type, GCOLL_AVG))
            continue;
        const size_t count = 50001;
        for (uint32_t divisor : {1u, 3u, 12u, 0x80000000u, 0xffffffffu}) {
            Bytes wanted = random_bytes(count * gcoll_type_size(type), divisor);
            unsigned char *data = on_device(wanted, 4);
            gcoll_divide(wanted.data(), count, type, divisor);
            gcoll_ticket *ticket = nullptr;
            gcoll_status status = cuda.divide(a, 0, data, count, type, divisor, nullptr, 0, &ticket);
            finish(status, ticket);
            expect_same(type, GCOLL_AVG, from_device(data, wanted.size()), wanted,
                        "/ " + std::to_string(divisor));
        }
    }
}

TEST_F(CudaGpu, CopiesAndTakesTheirTime) {
    const Bytes bytes = random_bytes(8 << 20, 1);
    unsigned char *x = on_device(bytes), *y = on_device(bytes.size());
    void *host = nullptr;
    ASSERT_EQ(cuda.pin(a, bytes.size(), &host), GCOLL_OK) << gcoll_last_error();
    gcoll_ticket *ticket = nullptr;
    gcoll_ticket_time time = {};
    gcoll_status status = cuda.copy(a, host, 0, x, 1, bytes.size(), nullptr, 0, &ticket);
    finish(status, ticket, &time);
    EXPECT_EQ(memcmp(host, bytes.data(), bytes.size()), 0);
    EXPECT_GT(time.ns, 0);
    status = cuda.copy(a, y, 1, host, 0, bytes.size(), nullptr, 0, &ticket);
    finish(status, ticket);
    EXPECT_EQ(from_device(y, bytes.size()), bytes);
    cuda.unpin(a, host, bytes.size());
}

// A long chain of work of the caller's, and a gate behind it.
TEST_F(CudaGpu, GatesWaitForTheCallersStream) {
    const size_t bytes = 256 << 20;
    unsigned char *x = on_device(bytes);
    cudaStream_t caller = nullptr;
    CHECK_CUDA(cudaStreamCreateWithFlags(&caller, cudaStreamNonBlocking));
    void *host = nullptr;
    ASSERT_EQ(cuda.pin(a, 16, &host), GCOLL_OK);
    for (int round = 0; round < 20; round++) {
        for (int i = 0; i < 20; i++)
            CHECK_CUDA(cudaMemsetAsync(x, i, bytes, caller));
        CHECK_CUDA(cudaMemsetAsync(x, 100 + round, bytes, caller));
        gcoll_gate *gate = nullptr;
        ASSERT_EQ(cuda.make_gate(a, 0, caller, &gate), GCOLL_OK) << gcoll_last_error();
        gcoll_ticket *ticket = nullptr;
        gcoll_status status = cuda.copy(a, host, 0, x + bytes - 16, 1, 16, &gate, 1, &ticket);
        cuda.put_gate(a, gate);
        finish(status, ticket);
        ASSERT_EQ(static_cast<unsigned char *>(host)[15], 100 + round);
    }
    cuda.unpin(a, host, 16);
    CHECK_CUDA(cudaStreamDestroy(caller));
}

TEST_F(CudaGpu, LocatesEveryKindOfMemory) {
    gcoll_place place = {};
    void *pinned = nullptr, *managed = nullptr;
    Bytes host(16);
    CHECK_CUDA(cudaHostAlloc(&pinned, 16, cudaHostAllocDefault));
    ASSERT_EQ(cuda.locate(a, host.data(), &place), GCOLL_OK) << gcoll_last_error();
    EXPECT_EQ(place.kind, GCOLL_MEMORY_HOST);
    ASSERT_EQ(cuda.locate(a, pinned, &place), GCOLL_OK);
    EXPECT_EQ(place.kind, GCOLL_MEMORY_PINNED);
    ASSERT_EQ(cuda.locate(a, on_device(16), &place), GCOLL_OK);
    EXPECT_EQ(place.kind, GCOLL_MEMORY_DEVICE);
    EXPECT_EQ(place.device, 0u);
    if (cudaMallocManaged(&managed, 16) == cudaSuccess) {
        ASSERT_EQ(cuda.locate(a, managed, &place), GCOLL_OK);
        EXPECT_EQ(place.kind, GCOLL_MEMORY_MANAGED);
        CHECK_CUDA(cudaFree(managed));
    }
    CHECK_CUDA(cudaFreeHost(pinned));
    EXPECT_TRUE(gcoll_cuda_is_in_use());
}

TEST_F(CudaGpu, ReadsPeersOrSaysWhyNot) {
    if (cuda.device_count(a) < 2)
        GTEST_SKIP() << "one GPU was found; this needs two";
    gcoll_status status = cuda.reaches(a, GCOLL_REACH_PEER, 0, 1);
    if (status == GCOLL_OK)
        return;
    EXPECT_EQ(status, GCOLL_ERR_UNSUPPORTED);
    EXPECT_NE(std::string(gcoll_last_error()).find("cannot read the memory"), std::string::npos);
}

} // namespace
