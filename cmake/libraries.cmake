# The library as its users see it: shared and static, from the same objects.
include(CMakePackageConfigHelpers)

add_library(gcoll SHARED ${gcoll_objects})
add_library(gcoll_static STATIC ${gcoll_objects})
add_library(gcoll::gcoll ALIAS gcoll)
add_library(gcoll::gcoll_static ALIAS gcoll_static)
# Before 1.0 a minor version may change the binary interface, so it is part of the library's name.
if(PROJECT_VERSION_MAJOR EQUAL 0)
  set(gcoll_soversion 0.${PROJECT_VERSION_MINOR})
else()
  set(gcoll_soversion ${PROJECT_VERSION_MAJOR})
endif()
set_target_properties(gcoll PROPERTIES VERSION ${PROJECT_VERSION} SOVERSION ${gcoll_soversion})
set_target_properties(gcoll_static PROPERTIES OUTPUT_NAME gcoll)
# Every public name carries the node GCOLL_ and that version, so that two such libraries can be loaded into one process.
configure_file(${CMAKE_CURRENT_LIST_DIR}/gcoll.map.in ${PROJECT_BINARY_DIR}/gcoll.map @ONLY)
target_link_options(gcoll PRIVATE LINKER:--version-script=${PROJECT_BINARY_DIR}/gcoll.map)
set_target_properties(gcoll PROPERTIES LINK_DEPENDS ${PROJECT_BINARY_DIR}/gcoll.map)
# What is missing must show here and not in programs that use it. A sanitizer's run-time library is missing by nature.
if(NOT CMAKE_C_FLAGS MATCHES "sanitize")
  target_link_options(gcoll PRIVATE LINKER:-z,defs)
endif()
foreach(library gcoll gcoll_static)
  set_target_properties(${library} PROPERTIES LINKER_LANGUAGE C)
  target_include_directories(${library} PUBLIC $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}>
                                               $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
  target_link_libraries(${library} PRIVATE PkgConfig::libuv PkgConfig::hiredis Threads::Threads
                                           ${CMAKE_DL_LIBS} m ${gcoll_cuda_libraries})
endforeach()

# The README and the manual pages refer to these.
set(gcoll_documents LICENSE README.md ARCHITECTURE.md CHANGELOG.md CONTRIBUTING.md)
list(TRANSFORM gcoll_documents PREPEND "${PROJECT_SOURCE_DIR}/")
install(FILES ${gcoll_documents} DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(DIRECTORY "${PROJECT_SOURCE_DIR}/docs" DESTINATION ${CMAKE_INSTALL_DOCDIR})

set(gcoll_public_headers
  gcoll/arrival.h gcoll/collectives.h gcoll/context.h gcoll/device.h gcoll/environment.h gcoll/export.h gcoll/gcoll.h gcoll/ibverbs.h gcoll/memory.h gcoll/operations.h gcoll/plan.h gcoll/recovery.h gcoll/region.h
  gcoll/simulate.h gcoll/stats.h gcoll/status.h gcoll/store.h gcoll/trace.h gcoll/types.h gcoll/version.h)
list(TRANSFORM gcoll_public_headers PREPEND "${PROJECT_SOURCE_DIR}/")
install(FILES ${gcoll_public_headers} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/gcoll)

# Two export sets: who links the shared library needs no libuv or hiredis of his own, who links the static one does.
install(TARGETS gcoll EXPORT gcoll_shared
        LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} NAMELINK_SKIP
        RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
install(TARGETS gcoll LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} NAMELINK_ONLY)
install(TARGETS gcoll_static EXPORT gcoll_static ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
set(gcoll_package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/gcoll)
install(EXPORT gcoll_shared NAMESPACE gcoll:: FILE gcollTargets.cmake DESTINATION ${gcoll_package_dir})
install(EXPORT gcoll_static NAMESPACE gcoll:: FILE gcollStaticTargets.cmake DESTINATION ${gcoll_package_dir})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/gcollConfigVersion.cmake
                                 COMPATIBILITY SameMinorVersion)
configure_file(${CMAKE_CURRENT_LIST_DIR}/gcollConfig.cmake.in ${PROJECT_BINARY_DIR}/gcollConfig.cmake @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/gcollConfig.cmake ${PROJECT_BINARY_DIR}/gcollConfigVersion.cmake
        DESTINATION ${gcoll_package_dir})

# The .pc file finds its prefix from its own place, so that an installed tree can be moved.
file(RELATIVE_PATH gcoll_pc_prefix /p/${CMAKE_INSTALL_LIBDIR}/pkgconfig /p)
set(gcoll_pc_cuda "")
if(gcoll_has_cuda)
  cmake_path(GET CUDA_cudart_static_LIBRARY PARENT_PATH cudart_dir)
  set(gcoll_pc_cuda " -L${cudart_dir} -lcudart_static -lrt -ldl")
endif()
configure_file(${CMAKE_CURRENT_LIST_DIR}/gcoll.pc.in ${PROJECT_BINARY_DIR}/gcoll.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/gcoll.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
