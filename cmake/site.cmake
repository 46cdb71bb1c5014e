# Whether the site can be made (the target site): gcoll_has_site, and gcoll_site_versions of what makes it.
set(missing "")
if(NOT GCOLL_SITE STREQUAL "OFF" AND NOT gcoll_python)
  set(missing "Python 3.9 was not found")
elseif(NOT GCOLL_SITE STREQUAL "OFF")
  gcoll_python_says(SITE "import sphinx, myst_parser, furo; print('Sphinx', sphinx.__version__ + ', MyST', myst_parser.__version__ + ', Furo', furo.__version__)"
                    gcoll_site_versions)
  if(NOT gcoll_site_versions)
    set(missing "${gcoll_python} has no Sphinx with MyST and Furo: python3-sphinx, python3-myst-parser, furo")
  endif()
endif()
gcoll_optional_decide(SITE "${missing}")
