# A compiler cache, where ccache is installed: what was compiled once, in any build folder or clone, is not compiled again.
# It lies outside the build folder (ccache --show-stats says where). -DGCOLL_CCACHE=OFF does without.
option(GCOLL_CCACHE "Compile through ccache where it is installed" ${PROJECT_IS_TOP_LEVEL})
set(gcoll_ccache "")
if(GCOLL_CCACHE AND NOT CMAKE_C_COMPILER_LAUNCHER AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  find_program(GCOLL_CCACHE_PROGRAM ccache)
  mark_as_advanced(GCOLL_CCACHE_PROGRAM)
  if(GCOLL_CCACHE_PROGRAM)
    set(gcoll_ccache "${GCOLL_CCACHE_PROGRAM}")
    # Paths below the source folder count as relative ones, so that clones share what they compile. The headers that are
    # compiled ahead need pch_defines and time_macros, and a flag of the compiler (test/CMakeLists.txt).
    # No two builds compile C with the same flags, so what the preprocessor makes of it is of no use: depend mode does without.
    set(launcher env "CCACHE_BASEDIR=${PROJECT_SOURCE_DIR}" CCACHE_NOHASHDIR=1
        CCACHE_SLOPPINESS=pch_defines,time_macros CCACHE_PCH_EXTSUM=1 "${gcoll_ccache}")
    set(CMAKE_C_COMPILER_LAUNCHER "${launcher}")
    list(INSERT CMAKE_C_COMPILER_LAUNCHER 1 CCACHE_DEPEND=1)
    set(CMAKE_CXX_COMPILER_LAUNCHER "${launcher}")
    set(CMAKE_CUDA_COMPILER_LAUNCHER "${launcher}")
  endif()
endif()
