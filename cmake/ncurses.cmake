# gcoll_top draws with ncurses; without it, it prints.
set(missing "")
if(NOT GCOLL_NCURSES STREQUAL "OFF")
  pkg_check_modules(ncurses IMPORTED_TARGET ncurses)
  if(NOT ncurses_FOUND)
    set(missing "libncurses-dev was not found; gcoll_top prints only")
  endif()
endif()
gcoll_optional_decide(NCURSES "${missing}")
