# Tests that need an RDMA device. They run in a small virtual machine that has one, by run-in-guest, and have the label
# rdma. Where there can be no such machine they are skipped, and say what is missing; not so if GCOLL_RDMA_REQUIRED is
# set in the environment: then they fail.
#
# gcoll_rdma(QUICK|REST|PAIR "NAME SECONDS COMMAND"...) adds commands, each with the time that it may take on a machine
# that does nothing else; generator expressions are allowed. Its limit is twice that, as other tests run beside it, and six
# times with sanitizers. All commands of a kind become one test, and run one after the other in one guest (see suite):
#   QUICK  rdma_quick, which the gate runs whatever has changed
#   REST   rdma_rest, with the label rdma_full: the gate runs it when what it tests has changed
#   PAIR   rdma_pair, rdma_full as well: two guests with a wire between them run each command at once
# gcoll_rdma_tests(), last, makes these tests.
set(gcoll_rdma_folder ${CMAKE_CURRENT_LIST_DIR})
# Sanitizers make an emulated processor slower still, so with them only a part is tested: whoever adds tests decides by
# gcoll_rdma_sanitized.
set(gcoll_rdma_memory 2Gi)
set(gcoll_rdma_sanitized FALSE)
if(CMAKE_C_FLAGS MATCHES "sanitize")
  set(gcoll_rdma_sanitized TRUE)
endif()

function(gcoll_rdma kind)
  foreach(line IN LISTS ARGN)
    if(NOT line MATCHES "^[a-z_]+ ([0-9]+) .")
      message(FATAL_ERROR "gcoll_rdma(${kind}): found '${line}'; allowed: NAME SECONDS COMMAND")
    endif()
    math(EXPR limit "2 * ${CMAKE_MATCH_1}")
    if(gcoll_rdma_sanitized)
      math(EXPR limit "6 * ${CMAKE_MATCH_1}")
    endif()
    string(REGEX REPLACE "^([a-z_]+) [0-9]+ " "\\1 ${limit} " line "${line}")
    set_property(GLOBAL APPEND_STRING PROPERTY gcoll_rdma_${kind} "${line}\n")
    set_property(GLOBAL APPEND PROPERTY gcoll_rdma_${kind}_seconds ${limit})
  endforeach()
endfunction()

# One test for the commands of a kind, in GUESTS guests.
function(gcoll_rdma_test kind name guests)
  get_property(lines GLOBAL PROPERTY gcoll_rdma_${kind})
  if(NOT lines)
    return()
  endif()
  set(list ${CMAKE_CURRENT_BINARY_DIR}/rdma/${name}.list)
  file(GENERATE OUTPUT ${list} CONTENT "${lines}")
  # The start of a guest, and all that its commands may take. The guest's own time-out comes before ctest's, and tells more.
  set(timeout 60)
  get_property(seconds GLOBAL PROPERTY gcoll_rdma_${kind}_seconds)
  foreach(each IN LISTS seconds)
    math(EXPR timeout "${timeout} + ${each}")
  endforeach()
  math(EXPR limit "${timeout} + 30")
  # A guest has two processors and mostly needs one; a test that asked for two places would wait until the
  # end. One guest at a time: emulated ranks of two would be too slow for the time limits of their tests.
  add_test(NAME ${name} COMMAND ${gcoll_rdma_folder}/run-in-guest --limit ${timeout}s --guests ${guests}
           --memory ${gcoll_rdma_memory} -- ${gcoll_rdma_folder}/suite ${list})
  set_tests_properties(${name} PROPERTIES LABELS "rdma;${ARGN}" TIMEOUT ${limit} SKIP_RETURN_CODE 77 PROCESSORS ${guests} COST ${timeout}
                       RESOURCE_LOCK rdma_guest
                       FIXTURES_REQUIRED rdma_kernel)
endfunction()

function(gcoll_rdma_tests)
  # The kernel, fetched once and kept.
  add_test(NAME rdma_kernel COMMAND ${gcoll_rdma_folder}/run-in-guest --prepare)
  set_tests_properties(rdma_kernel PROPERTIES LABELS rdma TIMEOUT 300 SKIP_RETURN_CODE 77 FIXTURES_SETUP rdma_kernel COST 200)
  gcoll_rdma_test(QUICK rdma_quick 1 plain_tests)
  gcoll_rdma_test(REST rdma_rest 1 rdma_full)
  gcoll_rdma_test(PAIR rdma_pair 2 rdma_full)
  if(NOT gcoll_rdma_sanitized)
    add_test(NAME rdma_guest_ends COMMAND ${gcoll_rdma_folder}/guest_test endings)
    set_tests_properties(rdma_guest_ends PROPERTIES LABELS "rdma;rdma_full" TIMEOUT 150 SKIP_RETURN_CODE 77 PROCESSORS 2
                         RESOURCE_LOCK rdma_guest FIXTURES_REQUIRED rdma_kernel)
  endif()
endfunction()

# The guest itself.
if(NOT gcoll_rdma_sanitized)
  set(guest ${gcoll_rdma_folder}/guest_test)
  gcoll_rdma(QUICK "device 20 ${guest} device")
  gcoll_rdma(REST "traffic 40 ${guest} traffic" "surroundings 20 ${guest} surroundings")
  gcoll_rdma(PAIR "traffic 60 ${guest} traffic")
endif()
