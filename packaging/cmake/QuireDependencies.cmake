# Third-party packages, all from Debian. Of them libquire needs none at run time but libc and libstdc++: GSL, the JSON
# and the command-line library are headers, {fmt} is compiled in core/base, PCRE2 and utf8proc are linked statically.
find_package(Threads REQUIRED)
find_package(Microsoft.GSL REQUIRED)
find_package(nlohmann_json 3.11 REQUIRED)
find_package(fmt REQUIRED)

# PCRE2 and utf8proc are linked statically, so that the shipped library needs neither at run time.
find_library(QUIRE_PCRE2_LIBRARY NAMES libpcre2-8.a REQUIRED)
find_path(QUIRE_PCRE2_INCLUDE_DIR pcre2.h REQUIRED)
add_library(quire_pcre2 INTERFACE)
target_include_directories(quire_pcre2 SYSTEM INTERFACE "${QUIRE_PCRE2_INCLUDE_DIR}")
target_link_libraries(quire_pcre2 INTERFACE "${QUIRE_PCRE2_LIBRARY}")
target_compile_definitions(quire_pcre2 INTERFACE PCRE2_CODE_UNIT_WIDTH=8 PCRE2_STATIC)

find_library(QUIRE_UTF8PROC_LIBRARY NAMES libutf8proc.a REQUIRED)
find_path(QUIRE_UTF8PROC_INCLUDE_DIR utf8proc.h REQUIRED)
add_library(quire_utf8proc INTERFACE)
target_include_directories(quire_utf8proc SYSTEM INTERFACE "${QUIRE_UTF8PROC_INCLUDE_DIR}")
target_link_libraries(quire_utf8proc INTERFACE "${QUIRE_UTF8PROC_LIBRARY}")
target_compile_definitions(quire_utf8proc INTERFACE UTF8PROC_STATIC)

if(QUIRE_BUILD_TESTS)
  find_package(GTest REQUIRED)
endif()
if(QUIRE_BUILD_BENCH)
  find_package(benchmark REQUIRED)
endif()
