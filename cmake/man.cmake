# Whether manual pages are made: gcoll_has_man.
set(missing "")
if(NOT GCOLL_MAN STREQUAL "OFF" AND NOT gcoll_python)
  set(missing "Python 3.9 was not found")
endif()
gcoll_optional_decide(MAN "${missing}")
