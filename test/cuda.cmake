# Buffers in the memory of CUDA devices. What elements become is proved on any machine; the executor against a runtime of
# the tests' own, where the toolkit's headers are.
list(APPEND computing_tests cuda_elements_test)
gcoll_test(cuda_elements_test LAYERS gcoll_base SOURCES cuda_elements_test.cc)
