# gcoll_plan reads schedules of MSCCL with expat; without it, JSON only.
set(missing "")
if(NOT GCOLL_EXPAT STREQUAL "OFF")
  pkg_check_modules(expat IMPORTED_TARGET expat)
  if(NOT expat_FOUND)
    set(missing "libexpat1-dev was not found; gcoll_plan reads no schedules of MSCCL")
  endif()
endif()
gcoll_optional_decide(EXPAT "${missing}")
