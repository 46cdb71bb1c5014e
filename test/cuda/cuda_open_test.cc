// The accelerator "cuda" as this build has it, on a machine without a GPU: it says what is missing.
#include <gtest/gtest.h>

#include <string>

#if GCOLL_HAS_CUDA
#include <cuda_runtime_api.h>
#endif

extern "C" {
#include "cuda/accelerator.h"
}

namespace {

TEST(CudaOpen, SaysWhatIsMissing) {
    gcoll_accelerator *a = nullptr;
    gcoll_status status = gcoll_accelerator_cuda.open(nullptr, &a);
    if (status == GCOLL_OK) {
        gcoll_accelerator_cuda.close(a);
        GTEST_SKIP() << "there is a GPU: nothing is missing";
    }
    const std::string text = gcoll_last_error();
    EXPECT_EQ(status, GCOLL_ERR_UNSUPPORTED) << text;
    EXPECT_EQ(a, nullptr);
#if GCOLL_HAS_CUDA
    int count = 0;
    const cudaError_t error = cudaGetDeviceCount(&count);
    ASSERT_NE(error, cudaSuccess);
    EXPECT_NE(text.find("cuda: cudaGetDeviceCount: "), std::string::npos) << text;
    EXPECT_NE(text.find(cudaGetErrorString(error)), std::string::npos) << text;
    EXPECT_NE(text.find(cudaGetErrorName(error)), std::string::npos) << text;
#else
    EXPECT_NE(text.find("GCOLL_CUDA"), std::string::npos) << text;
    EXPECT_NE(text.find("nvcc"), std::string::npos) << text;
#endif
}

TEST(CudaOpen, HasAName) {
    EXPECT_STREQ(gcoll_accelerator_cuda.name, "cuda");
}

// Looking opens nothing: it says the same before and after.
TEST(CudaOpen, LookingForADriverOpensNone) {
    const bool before = gcoll_cuda_is_in_use();
    EXPECT_EQ(gcoll_cuda_is_in_use(), before);
}

} // namespace
