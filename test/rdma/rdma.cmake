# Tests that need an RDMA device. They run in a small virtual machine that has one, by run-in-guest, and have the label
# rdma. Where there can be no such machine they are skipped, and say what is missing; not so if GCOLL_RDMA_REQUIRED is
# set in the environment: then they fail.
#
# gcoll_rdma_test(NAME [TIMEOUT seconds] [GUESTS 2] [MEMORY MiB] COMMAND word...)
# gcoll_rdma_test(NAME [TIMEOUT seconds] [GUESTS 2] [MEMORY MiB] SUITE "NAME SECONDS COMMAND"...)
# TIMEOUT (120) is the guest's and includes its start, 10 s on a busy machine. SUITE runs several commands one after the
# other in one guest, which saves the starts: see suite. Words may have generator expressions.
set(gcoll_rdma_folder ${CMAKE_CURRENT_LIST_DIR})
# Sanitizers make an emulated processor slower still, so with them only a part is tested: whoever adds tests decides by
# gcoll_rdma_sanitized.
set(gcoll_rdma_memory 1024)
set(gcoll_rdma_sanitized FALSE)
if(CMAKE_C_FLAGS MATCHES "sanitize")
  set(gcoll_rdma_memory 2048)
  set(gcoll_rdma_sanitized TRUE)
endif()

function(gcoll_rdma_test name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "TIMEOUT;GUESTS;MEMORY" "COMMAND;SUITE")
  if(arg_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "gcoll_rdma_test(${name}): found ${arg_UNPARSED_ARGUMENTS}")
  endif()
  foreach(default TIMEOUT:120 GUESTS:1 MEMORY:${gcoll_rdma_memory})
    string(REPLACE ":" ";" default ${default})
    list(GET default 0 option)
    if(NOT arg_${option})
      list(GET default 1 arg_${option})
    endif()
  endforeach()
  if(arg_SUITE)
    list(JOIN arg_SUITE "\n" lines)
    set(list ${CMAKE_CURRENT_BINARY_DIR}/rdma/${name}.list)
    file(GENERATE OUTPUT ${list} CONTENT "${lines}\n")
    set(arg_COMMAND ${gcoll_rdma_folder}/suite ${list})
  endif()
  add_test(NAME ${name} COMMAND ${gcoll_rdma_folder}/run-in-guest
           --timeout ${arg_TIMEOUT} --guests ${arg_GUESTS} --memory ${arg_MEMORY} -- ${arg_COMMAND})
  # The guest's own time-out comes first, and tells more.
  math(EXPR limit "${arg_TIMEOUT} + 30")
  set_tests_properties(${name} PROPERTIES LABELS rdma TIMEOUT ${limit} SKIP_RETURN_CODE 77 PROCESSORS 2
                       FIXTURES_REQUIRED rdma_kernel)
endfunction()

# The kernel, fetched once and kept.
add_test(NAME rdma_kernel COMMAND ${gcoll_rdma_folder}/run-in-guest --prepare)
set_tests_properties(rdma_kernel PROPERTIES LABELS rdma TIMEOUT 300 SKIP_RETURN_CODE 77 FIXTURES_SETUP rdma_kernel)

if(gcoll_rdma_sanitized)
  return()
endif()

# The guest itself.
gcoll_rdma_test(rdma_guest TIMEOUT 90 SUITE
  "device 20 ${gcoll_rdma_folder}/guest_test device"
  "traffic 40 ${gcoll_rdma_folder}/guest_test traffic"
  "surroundings 20 ${gcoll_rdma_folder}/guest_test surroundings")
gcoll_rdma_test(rdma_guests TIMEOUT 90 GUESTS 2 COMMAND ${gcoll_rdma_folder}/guest_test traffic)
add_test(NAME rdma_guest_ends COMMAND ${gcoll_rdma_folder}/guest_test endings)
set_tests_properties(rdma_guest_ends PROPERTIES LABELS rdma TIMEOUT 150 SKIP_RETURN_CODE 77
                     FIXTURES_REQUIRED rdma_kernel)
