# Read by cpack for each kind of package. An archive is one file with one folder. Debian and RPM have one package per
# component, in layouts of their own.
if(CPACK_GENERATOR STREQUAL "TGZ")
  set(CPACK_COMPONENT_INCLUDE_TOPLEVEL_DIRECTORY ON)
else()
  set(CPACK_COMPONENTS_GROUPING IGNORE)
  set(CPACK_PACKAGING_INSTALL_PREFIX "/usr")
  string(TOLOWER "${CPACK_GENERATOR}_" layout)
  list(TRANSFORM CPACK_COMPONENTS_ALL PREPEND "${layout}")
  # Each package has a summary of its own.
  unset(CPACK_PACKAGE_DESCRIPTION_SUMMARY)
endif()
