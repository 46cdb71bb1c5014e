# Parts that a build has if what they need is found. The option GCOLL_NAME of a part is AUTO, ON (a lack is an error) or OFF.

# gcoll_optional(NAME DEFAULT "text") declares the option of a part, and checks its value.
function(gcoll_optional name default text)
  set(GCOLL_${name} ${default} CACHE STRING "${text}: AUTO, ON, OFF")
  set_property(CACHE GCOLL_${name} PROPERTY STRINGS AUTO ON OFF)
  if(NOT "${GCOLL_${name}}" MATCHES "^(AUTO|ON|OFF)$")
    message(FATAL_ERROR "GCOLL_${name} is '${GCOLL_${name}}'; allowed are AUTO, ON, OFF")
  endif()
endfunction()

# gcoll_optional_decide(NAME "what is missing") sets gcoll_has_name, and keeps what is missing in gcoll_name_missing ("": nothing).
function(gcoll_optional_decide name missing)
  string(TOLOWER ${name} lower)
  if(GCOLL_${name} STREQUAL "ON" AND NOT "${missing}" STREQUAL "")
    message(FATAL_ERROR "GCOLL_${name}=ON: ${missing}")
  endif()
  if(GCOLL_${name} STREQUAL "OFF" OR NOT "${missing}" STREQUAL "")
    set(gcoll_has_${lower} OFF PARENT_SCOPE)
  else()
    set(gcoll_has_${lower} ON PARENT_SCOPE)
  endif()
  set(gcoll_${lower}_missing "${missing}" PARENT_SCOPE)
endfunction()

# gcoll_optional_summary(NAME "what it is made of") prints the part's line of the summary.
function(gcoll_optional_summary name text)
  string(TOLOWER ${name} lower)
  string(SUBSTRING "${lower}               " 0 14 column)
  if(gcoll_has_${lower})
    message(STATUS "  ${column} yes (${text})")
  elseif(GCOLL_${name} STREQUAL "OFF")
    message(STATUS "  ${column} no (GCOLL_${name}=OFF)")
  else()
    message(STATUS "  ${column} no (${gcoll_${lower}_missing})")
  endif()
endfunction()
