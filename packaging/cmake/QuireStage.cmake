# Run by cpack after the files are installed and before they are packed. It adds files that only system packages have.
# It sets one time for every file, SOURCE_DATE_EPOCH if that is set, and one mode for folders, independent of the
# umask.
set(epoch "$ENV{SOURCE_DATE_EPOCH}")
if(epoch STREQUAL "")
  string(TIMESTAMP epoch "%s" UTC)
endif()
set(staged "${CPACK_TEMPORARY_DIRECTORY}")

# stage_run(COMMAND...): runs a command and stops with an error if it fails.
function(stage_run)
  execute_process(COMMAND ${ARGN} COMMAND_ERROR_IS_FATAL ANY)
endfunction()

# stage_find(VARIABLE PATTERN): finds installed files and folders by a path pattern.
function(stage_find variable pattern)
  execute_process(COMMAND find "${staged}" -path "${staged}/*/usr/${pattern}" -prune OUTPUT_VARIABLE found
    OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
  string(REPLACE "\n" ";" found "${found}")
  set(${variable} "${found}" PARENT_SCOPE)
endfunction()

# Removes run paths, since the system's linker finds the library.
function(stage_remove_run_paths)
  stage_find(programs "bin/*")
  foreach(program IN LISTS programs)
    file(RPATH_REMOVE FILE "${program}")
  endforeach()
endfunction()

function(stage_compress_manuals)
  stage_find(manuals "share/man/man?/*")
  foreach(manual IN LISTS manuals)
    stage_run(gzip -9n "${manual}")
  endforeach()
endfunction()

function(stage_write_debian_changelogs)
  execute_process(COMMAND date -u -R "--date=@${epoch}" OUTPUT_VARIABLE date OUTPUT_STRIP_TRAILING_WHITESPACE
    COMMAND_ERROR_IS_FATAL ANY)
  stage_find(folders "share/doc/*")
  foreach(folder IN LISTS folders)
    cmake_path(GET folder FILENAME package)
    file(WRITE "${folder}/changelog"
      "quire (${CPACK_QUIRE_VERSION}) unstable; urgency=medium\n\n  * Release ${CPACK_QUIRE_VERSION}.\n\n"
      " -- ${CPACK_PACKAGE_CONTACT}  ${date}\n")
    file(CHMOD "${folder}/changelog" PERMISSIONS OWNER_READ OWNER_WRITE GROUP_READ WORLD_READ)
    stage_run(gzip -9n "${folder}/changelog")
  endforeach()
endfunction()

if(CPACK_GENERATOR STREQUAL "DEB" OR CPACK_GENERATOR STREQUAL "RPM")
  stage_remove_run_paths()
  stage_compress_manuals()
endif()
if(CPACK_GENERATOR STREQUAL "DEB")
  stage_write_debian_changelogs()
endif()
stage_run(find "${staged}" -type d -exec chmod 755 {} +)
stage_run(find "${staged}" -exec touch --no-dereference "--date=@${epoch}" {} +)
