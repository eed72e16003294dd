# Settings common to all targets: warnings, sanitizers, include root.

# quire_setup_target(TARGET): sets warnings, sanitizers, and includes relative to the repository root
# ("core/base/error.h"), so that an include shows the folder of the file.
function(quire_setup_target target)
  target_include_directories(${target} PRIVATE "${PROJECT_SOURCE_DIR}")
  target_compile_options(${target} PRIVATE
    $<$<COMPILE_LANGUAGE:CXX>:-Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wno-sign-conversion
      -Wnon-virtual-dtor -Woverloaded-virtual -Wimplicit-fallthrough -Walloca>
    $<$<COMPILE_LANG_AND_ID:CXX,Clang>:-Wthread-safety>
    # GCC 12 reports overlapping copies inside std::string that do not exist (GCC bug 105651).
    $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wno-restrict>
    $<$<COMPILE_LANGUAGE:C>:-Wall -Wextra -Wpedantic>
    $<$<AND:$<BOOL:${QUIRE_WERROR}>,$<COMPILE_LANGUAGE:C,CXX>>:-Werror>)
  if(QUIRE_CHECKED)
    target_compile_definitions(${target} PRIVATE QUIRE_CHECKED)
  endif()
  if(QUIRE_SANITIZE)
    string(REPLACE ";" "," sanitizers "${QUIRE_SANITIZE}")
    target_compile_options(${target} PRIVATE $<$<COMPILE_LANGUAGE:C,CXX>:-fsanitize=${sanitizers}
      -fno-sanitize-recover=all -fno-omit-frame-pointer>
      # With instrumentation, GCC reports uninitialised variables in headers of the standard library.
      $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wno-maybe-uninitialized>)
    # Tests run fewer cases with sanitizers.
    target_compile_definitions(${target} PRIVATE QUIRE_SANITIZED)
    target_link_options(${target} PRIVATE -fsanitize=${sanitizers})
    # Clang adds the C++ part of its sanitizers only if it links as C++. UndefinedBehaviorSanitizer needs that part,
    # also in C programs. ThreadSanitizer has an operator new there that tests could not replace.
    if("thread" IN_LIST QUIRE_SANITIZE)
      target_compile_definitions(${target} PRIVATE QUIRE_SANITIZED_THREADS)
      set_target_properties(${target} PROPERTIES LINKER_LANGUAGE C)
    else()
      set_target_properties(${target} PROPERTIES LINKER_LANGUAGE CXX)
    endif()
  endif()
endfunction()

# quire_precompile_headers(TARGET PRIVATE HEADERS... | REUSE_FROM OTHER): compiles headers once for all targets with
# the same flags; kernels and sampling have flags of their own. Sources still include what they use; the preset
# without precompiled headers checks that.
function(quire_precompile_headers target)
  target_precompile_headers(${target} ${ARGN})
  if(NOT CMAKE_DISABLE_PRECOMPILE_HEADERS)
    # The compiler cache identifies these headers by content, so Clang must not store their time.
    target_compile_options(${target} PRIVATE
      "$<$<COMPILE_LANG_AND_ID:CXX,Clang>:SHELL:-Xclang -fno-pch-timestamp>")
    # With precompiled headers, GCC 12 reports overflows inside std::string that do not exist (also bug 105651).
    target_compile_options(${target} PRIVATE $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wno-array-bounds -Wno-stringop-overflow>)
  endif()
endfunction()

# quire_join_sources(TARGET [EXCEPT SOURCES...]): joins eight sources into one translation unit each, because headers
# (the standard library, GoogleTest, JSON, CLI11) take most of the compile time. EXCEPT names sources that define a
# name of another source of the target. Unoptimised builds do not join, so that an edit compiles one source; the
# preset without precompiled headers does not either, so that each source includes what it uses.
function(quire_join_sources target)
  cmake_parse_arguments(arg "" "" "EXCEPT" ${ARGN})
  if(NOT CMAKE_DISABLE_PRECOMPILE_HEADERS AND NOT CMAKE_BUILD_TYPE STREQUAL "Debug")
    set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 8)
    set_source_files_properties(${arg_EXCEPT} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
  endif()
endfunction()

# quire_avoid_new_symbols(TARGET): keeps a shared library from needing symbols that are new in GCC 12's standard
# library (core/base/condition_wait.cpp). A sanitizer has a function of its own there.
function(quire_avoid_new_symbols target)
  if(NOT QUIRE_SANITIZE)
    target_link_libraries(${target} PRIVATE quire_base)
    target_link_options(${target} PRIVATE
      -Wl,--wrap=_ZNSt18condition_variable4waitERSt11unique_lockISt5mutexE)
  endif()
endfunction()

# quire_add_library(NAME SOURCES ... LINKS ...): adds a static, position-independent part of libquire.
function(quire_add_library name)
  cmake_parse_arguments(arg "" "" "SOURCES;LINKS" ${ARGN})
  add_library(${name} STATIC ${arg_SOURCES})
  quire_setup_target(${name})
  target_include_directories(${name} PUBLIC "$<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}>")
  target_link_libraries(${name} PUBLIC ${arg_LINKS})
endfunction()

# quire_setup_test_code(TARGET): optimises test code little, because its optimisation takes most of the compile time: -O1
# compiles in two thirds of the time of -O2, and with a sanitizer -O0 in a quarter of the time of -O1. For fuzzers, which run
# it very often, it is optimised, and its branches do not guide the search.
function(quire_setup_test_code target)
  quire_setup_target(${target})
  if(QUIRE_BUILD_FUZZERS)
    target_compile_options(${target} PRIVATE -fno-sanitize=fuzzer-no-link)
    return()
  endif()
  if(QUIRE_SANITIZE)
    target_compile_options(${target} PRIVATE -O0)
  else()
    target_compile_options(${target} PRIVATE $<$<CONFIG:Release>:-O1>)
  endif()
endfunction()

# quire_add_test_library(NAME SOURCES ... LINKS ...): adds a static library of code that several tests share. It is
# optimised without a sanitizer, because benchmarks link it too.
function(quire_add_test_library name)
  cmake_parse_arguments(arg "" "" "SOURCES;LINKS" ${ARGN})
  add_library(${name} STATIC ${arg_SOURCES})
  if(QUIRE_SANITIZE)
    quire_setup_test_code(${name})
  else()
    quire_setup_target(${name})
  endif()
  quire_reuse_test_headers(${name})
  # Precompiled headers must be used as they were made: for a program.
  set_target_properties(${name} PROPERTIES POSITION_INDEPENDENT_CODE OFF)
  target_compile_options(${name} PRIVATE -fPIE)
  target_link_libraries(${name} PUBLIC ${arg_LINKS})
endfunction()

# quire_reuse_test_headers(TARGET): uses the precompiled headers of the tests, if this build has them.
function(quire_reuse_test_headers target)
  if(TARGET quire_test_headers)
    quire_precompile_headers(${target} REUSE_FROM quire_test_headers)
    target_link_libraries(${target} PRIVATE $<TARGET_PROPERTY:quire_test_headers,LINK_LIBRARIES>)
  endif()
endfunction()

# The allocator refuses absurd sizes as without a sanitizer; the first report ends the program. Five frames of each
# allocation are kept: recording 30 takes a fifth of the time.
set(sanitizer_options
  ASAN_OPTIONS=detect_leaks=1:strict_string_checks=1:malloc_context_size=5:allocator_may_return_null=1
  UBSAN_OPTIONS=print_stacktrace=1
  TSAN_OPTIONS=halt_on_error=1:second_deadlock_stack=1:allocator_may_return_null=1)

# quire_add_test(NAME SOURCES ... LINKS ... [LABELS ...] [TIMEOUT seconds]): adds one GoogleTest program as one test.
# Tests find their fixtures in QUIRE_TEST_DATA and the larger models in QUIRE_SHARED_DIR; a test whose models are
# absent is skipped. Labels that ./dev uses: `threads` (starts threads; runs under ThreadSanitizer too), `long` (not
# run under sanitizers), `gpu` (needs a GPU). TIMEOUT (300) is doubled under a sanitizer.
function(quire_add_test name)
  cmake_parse_arguments(arg "" "TIMEOUT" "SOURCES;LINKS;LABELS" ${ARGN})
  add_executable(${name} ${arg_SOURCES})
  quire_setup_test_code(${name})
  quire_reuse_test_headers(${name})
  target_link_libraries(${name} PRIVATE ${arg_LINKS} GTest::gtest_main)
  target_compile_definitions(${name} PRIVATE
    QUIRE_TEST_DATA="${PROJECT_SOURCE_DIR}/tests/golden"
    QUIRE_EMBEDDED_MODEL="${PROJECT_SOURCE_DIR}/packaging/model/story-15m-exl2-4.0bpw"
    QUIRE_SHARED_DIR="${QUIRE_SHARED_DIR}")
  add_test(NAME ${name} COMMAND ${name})
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 300)
  endif()
  set_tests_properties(${name} PROPERTIES TIMEOUT ${arg_TIMEOUT} LABELS "${arg_LABELS}")
  if(QUIRE_SANITIZE)
    math(EXPR sanitized_timeout "2 * ${arg_TIMEOUT}")
    set_tests_properties(${name} PROPERTIES TIMEOUT ${sanitized_timeout} ENVIRONMENT "${sanitizer_options}")
  endif()
  if("threads" IN_LIST arg_LABELS)
    set_property(GLOBAL APPEND PROPERTY QUIRE_THREAD_TESTS ${name})
  endif()
endfunction()

# quire_write_pkgconfig(FOLDER): writes a quire.pc for the library of this build tree, for cgo.
function(quire_write_pkgconfig folder)
  file(GENERATE OUTPUT "${folder}/quire.pc" CONTENT
"Name: quire
Description: the library of this build tree
Version: ${PROJECT_VERSION}
Cflags: -I${PROJECT_SOURCE_DIR}/capi/include
Libs: -L$<TARGET_FILE_DIR:quire> -lquire
")
endfunction()
