# gcoll_kernels compares what the kernels give with what plain loops give, before it measures.
if(GCOLL_TOOLS)
  add_test(NAME kernels.program COMMAND gcoll_kernels --rounds 1 --bytes 64,8256)
  add_test(NAME kernels.stores COMMAND gcoll_kernels --rounds 1 --bytes 64Ki --chunks 4Ki)
  add_test(NAME kernels.refuses COMMAND gcoll_kernels --bytes 100)
  set_tests_properties(kernels.refuses PROPERTIES PASS_REGULAR_EXPRESSION "--bytes: is 100; allowed is multiples of 64")
  set_tests_properties(kernels.program kernels.stores kernels.refuses PROPERTIES TIMEOUT 60 LABELS repeats) # of kernel_test
  gcoll_slow(gcoll_kernels) # its loops take a minute to compile
endif()
