# The target quick_tests, which scripts/test builds: all programs and libraries but those that only tests with the label repeats
# need. What only such a test needs is named by gcoll_slow(TARGET...); test programs of which all cases are repeats are so by themselves.
function(gcoll_slow)
  set_property(GLOBAL APPEND PROPERTY GCOLL_SLOW ${ARGN})
endfunction()

# Adds those of a folder, and of the folders below it. Called when all targets are there.
function(gcoll_quick_tests folder)
  get_property(slow GLOBAL PROPERTY GCOLL_SLOW)
  get_property(targets DIRECTORY ${folder} PROPERTY BUILDSYSTEM_TARGETS)
  foreach(target IN LISTS targets)
    get_target_property(type ${target} TYPE)
    get_target_property(is_by_name ${target} EXCLUDE_FROM_ALL)
    if(type MATCHES "^(EXECUTABLE|SHARED_LIBRARY|MODULE_LIBRARY)$" AND NOT is_by_name AND NOT target IN_LIST slow)
      add_dependencies(quick_tests ${target})
    endif()
  endforeach()
  get_property(folders DIRECTORY ${folder} PROPERTY SUBDIRECTORIES)
  foreach(each IN LISTS folders)
    gcoll_quick_tests(${each})
  endforeach()
endfunction()
