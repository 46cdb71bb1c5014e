# Code in docs/, compiled and run. Without a sanitizer or coverage only, whose run-time libraries a program would have to link.
if(CMAKE_CROSSCOMPILING OR CMAKE_C_FLAGS MATCHES "sanitize|coverage")
  return()
endif()

# The pages for those who come from another library, and an expression that every block of that library's code fits.
foreach(page "gloo,gloo::|createUnboundBuffer" mpi,MPI nccl,nccl)
  string(REPLACE "," ";" page ${page})
  list(GET page 0 name)
  list(GET page 1 word)
  add_test(NAME docs.from_${name} COMMAND ${GCOLL_BASH} ${CMAKE_CURRENT_LIST_DIR}/coming_from.sh ${PROJECT_SOURCE_DIR} ${name} ${word}
           $<TARGET_FILE:gcoll> ${CMAKE_C_COMPILER})
  set_tests_properties(docs.from_${name} PROPERTIES TIMEOUT 120 COST 5 LABELS plain_tests)
endforeach()
add_dependencies(plain_tests gcoll)
