# Third-party packages, all from Debian. At run time libquire needs only libc and libstdc++: GSL, the JSON library and
# the command-line library are headers, {fmt} is compiled in core/base, and PCRE2 and utf8proc are linked statically
# if their archives exist.
find_package(Threads REQUIRED)
find_package(Microsoft.GSL REQUIRED)
find_package(nlohmann_json 3.11 REQUIRED)
find_package(fmt REQUIRED)

# quire_find_static_first(TARGET ARCHIVE LIBRARY HEADER STATIC_DEFINITION): links a library statically if there is an
# archive, so that the shipped library does not need it at run time; otherwise links the shared library.
function(quire_find_static_first target archive library header static_definition)
  string(TOUPPER "${target}" variable)
  find_library(${variable}_LIBRARY NAMES ${archive} ${library})
  find_path(${variable}_INCLUDE_DIR ${header})
  if(NOT ${variable}_LIBRARY OR NOT ${variable}_INCLUDE_DIR)
    message(FATAL_ERROR "${archive}, or shared ${library}, with ${header} was not found: install the development "
            "package (packaging/debian-packages.txt), or set ${variable}_LIBRARY and ${variable}_INCLUDE_DIR")
  endif()
  add_library(${target} INTERFACE)
  target_include_directories(${target} SYSTEM INTERFACE "${${variable}_INCLUDE_DIR}")
  target_link_libraries(${target} INTERFACE "${${variable}_LIBRARY}")
  if("${${variable}_LIBRARY}" MATCHES "\\.a$")
    target_compile_definitions(${target} INTERFACE ${static_definition})
  else()
    message(STATUS "${library} is linked as a shared library: the built files need it at run time")
  endif()
endfunction()

quire_find_static_first(quire_pcre2 libpcre2-8.a pcre2-8 pcre2.h PCRE2_STATIC)
target_compile_definitions(quire_pcre2 INTERFACE PCRE2_CODE_UNIT_WIDTH=8)
quire_find_static_first(quire_utf8proc libutf8proc.a utf8proc utf8proc.h UTF8PROC_STATIC)

if(QUIRE_BUILD_TESTS)
  find_package(GTest REQUIRED)
endif()
if(QUIRE_BUILD_BENCH)
  find_package(benchmark REQUIRED)
endif()
