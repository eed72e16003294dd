# Licences of the parts that are linked into shipped files. packaging/notices/parts.json lists the components that
# contain each part; a text file of the same name is its notice.

# quire_write_notices(COMPONENT FILE): writes the notices of the parts in the component, one after the other.
function(quire_write_notices component file)
  set(folder "${PROJECT_SOURCE_DIR}/packaging/notices")
  file(READ "${folder}/parts.json" parts)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${folder}/parts.json")
  string(JSON count LENGTH "${parts}")
  math(EXPR last "${count} - 1")
  set(text "Quire is licensed under the Apache License, Version 2.0.\n")
  foreach(index RANGE ${last})
    string(JSON within GET "${parts}" ${index} within)
    if(within MATCHES "\"${component}\"")
      string(JSON name GET "${parts}" ${index} name)
      string(JSON licence GET "${parts}" ${index} licence)
      string(JSON home GET "${parts}" ${index} home)
      file(READ "${folder}/${name}.txt" notice)
      set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${folder}/${name}.txt")
      string(APPEND text "\n----------------------------------------------------------------------\n"
        "It contains ${name} (${home}), ${licence}:\n\n${notice}")
    endif()
  endforeach()
  file(CONFIGURE OUTPUT "${file}" CONTENT "${text}" @ONLY)
endfunction()

# quire_write_copyright(COMPONENT FILE): writes the copyright file of a Debian package. It refers to the copy of the
# Apache licence that every Debian machine has.
function(quire_write_copyright component file)
  quire_write_notices(${component} "${file}.notices")
  file(READ "${file}.notices" notices)
  file(CONFIGURE OUTPUT "${file}" CONTENT
"${notices}
----------------------------------------------------------------------
On Debian systems the text of the Apache License is in
/usr/share/common-licenses/Apache-2.0.
Copyright (C) 2026 the Quire authors.
" @ONLY)
endfunction()
