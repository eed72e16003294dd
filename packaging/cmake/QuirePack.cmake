# CPack: one .tar.gz with everything, and a .deb and an .rpm package for each component. QuirePackGenerator.cmake
# selects the layout of each kind, and QuireStage.cmake adjusts the files before packing.
set(CPACK_PACKAGE_NAME quire)
set(CPACK_PACKAGE_VENDOR "The Quire authors")
set(CPACK_PACKAGE_CONTACT "The Quire authors <quire@quire.dev>")
set(CPACK_PACKAGE_HOMEPAGE_URL "https://quire.dev")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "${PROJECT_DESCRIPTION}")
set(CPACK_PACKAGE_FILE_NAME "quire-${PROJECT_VERSION}-linux-${CMAKE_SYSTEM_PROCESSOR}")
set(CPACK_RESOURCE_FILE_LICENSE "${PROJECT_SOURCE_DIR}/LICENSE")
set(CPACK_GENERATOR TGZ DEB RPM)
set(CPACK_STRIP_FILES ON)
set(CPACK_VERBATIM_VARIABLES ON)
set(CPACK_COMPONENTS_ALL ${QUIRE_COMPONENTS})
set(CPACK_COMPONENTS_GROUPING ALL_COMPONENTS_IN_ONE)
set(CPACK_ARCHIVE_COMPONENT_INSTALL ON)
set(CPACK_PROJECT_CONFIG_FILE "${CMAKE_CURRENT_LIST_DIR}/QuirePackGenerator.cmake")
set(CPACK_PRE_BUILD_SCRIPTS "${CMAKE_CURRENT_LIST_DIR}/QuireStage.cmake")
set(CPACK_QUIRE_VERSION "${PROJECT_VERSION}")

set(titles_runtime "shared library")
set(titles_cli "command and a small model for it")
set(titles_dev "headers, manual pages, examples, and files for CMake and pkg-config")
set(titles_cuda "CUDA backend")
set(titles_server "server with common HTTP interfaces")
set(texts_runtime "The engine as a shared library with a C interface.")
set(texts_cli "The quire command, which generates, chats, scores and inspects, and a small\nmodel for it.")
set(texts_dev "The headers of libquire with manual pages and examples, and the files with which\nCMake and pkg-config find it.")
set(texts_cuda "The backend that the library opens if there is an NVIDIA driver.")
set(texts_server "quire-server serves the HTTP interfaces of OpenAI and Anthropic with models\non this machine.")
set(sections_runtime libs)
set(sections_cli utils)
set(sections_dev libdevel)
set(sections_cuda libs)
set(sections_server net)
# A program built against one library runs with every later one of the same binary interface. Headers and the CUDA
# backend need exactly their library.
set(relation_cli ">=")
set(relation_dev "=")
set(relation_cuda "=")
set(relation_server ">=")

set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
# dpkg-shlibdeps finds the system libraries that files need, but has to be told the folder of libquire.
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS "${PROJECT_BINARY_DIR}/lib")
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS ON)
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS_POLICY ">=")
file(WRITE "${CMAKE_CURRENT_BINARY_DIR}/triggers" "activate-noawait ldconfig\n")
set(CPACK_DEBIAN_DEB_RUNTIME_PACKAGE_CONTROL_EXTRA "${CMAKE_CURRENT_BINARY_DIR}/symbols;${CMAKE_CURRENT_BINARY_DIR}/triggers")

set(CPACK_RPM_COMPONENT_INSTALL ON)
set(CPACK_RPM_FILE_NAME RPM-DEFAULT)
set(CPACK_RPM_PACKAGE_LICENSE "Apache-2.0")
set(CPACK_RPM_PACKAGE_GROUP "unknown")
# Make two packings of one build identical, and do not own folders that the system owns.
set(CPACK_RPM_SPEC_MORE_DEFINE "%define _buildhost localhost
%define use_source_date_epoch_as_buildtime 1
%define clamp_mtime_to_source_date_epoch 1
%define _build_id_links none
%define __os_install_post %{nil}")
set(CPACK_RPM_EXCLUDE_FROM_AUTO_FILELIST_ADDITION /usr/lib/systemd /usr/lib/systemd/system /usr/share/man
  /usr/share/man/man1 /usr/share/man/man3 /usr/share/doc /usr/include /usr/share/bash-completion
  /usr/share/bash-completion/completions /usr/share/zsh /usr/share/zsh/vendor-completions /usr/share/zsh/site-functions
  /usr/share/fish /usr/share/fish/vendor_completions.d)

foreach(component IN LISTS QUIRE_COMPONENTS)
  string(TOUPPER "${component}" upper)
  foreach(kind DEB RPM)
    if(kind STREQUAL "DEB")
      set(variables "CPACK_DEBIAN_DEB_${upper}")
    else()
      set(variables "CPACK_RPM_RPM_${upper}")
    endif()
    set(${variables}_PACKAGE_NAME "${QUIRE_${kind}_PACKAGE_${component}}")
    set(${variables}_DESCRIPTION "LLM inference engine Quire: ${titles_${component}}\n${texts_${component}}")
    set(CPACK_COMPONENT_${kind}_${upper}_DESCRIPTION "${texts_${component}}")
  endforeach()
  set(CPACK_DEBIAN_DEB_${upper}_PACKAGE_SECTION "${sections_${component}}")
  set(CPACK_RPM_RPM_${upper}_PACKAGE_SUMMARY "Quire: ${titles_${component}}")
  if(relation_${component})
    set(library "${QUIRE_DEB_PACKAGE_runtime}")
    set(CPACK_DEBIAN_DEB_${upper}_PACKAGE_DEPENDS "${library} (${relation_${component}} ${PROJECT_VERSION})")
    set(CPACK_RPM_RPM_${upper}_PACKAGE_REQUIRES
      "${QUIRE_RPM_PACKAGE_runtime} ${relation_${component}} ${PROJECT_VERSION}")
  endif()
endforeach()

# The command opens libcurl for downloads (docs/adr/0070).
set(CPACK_DEBIAN_DEB_CLI_PACKAGE_RECOMMENDS "libcurl4, ca-certificates")
set(CPACK_RPM_RPM_CLI_PACKAGE_SUGGESTS "libcurl, ca-certificates")

include(CPack)
