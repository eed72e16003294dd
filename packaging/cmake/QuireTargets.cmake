# One policy for every target: warnings, sanitizers, include root.

# quire_setup_target(TARGET): warnings, sanitizers, and includes relative to the repository root
# ("core/base/error.h"), so that a file's folder is visible wherever it is used.
function(quire_setup_target target)
  target_include_directories(${target} PRIVATE "${PROJECT_SOURCE_DIR}")
  target_compile_options(${target} PRIVATE
    $<$<COMPILE_LANGUAGE:CXX>:-Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wno-sign-conversion
      -Wnon-virtual-dtor -Woverloaded-virtual -Wimplicit-fallthrough -Walloca>
    $<$<COMPILE_LANG_AND_ID:CXX,Clang>:-Wthread-safety>
    # GCC 12 sees overlapping copies inside std::string that are not there (GCC bug 105651).
    $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wno-restrict>
    $<$<COMPILE_LANGUAGE:C>:-Wall -Wextra -Wpedantic>
    $<$<AND:$<BOOL:${QUIRE_WERROR}>,$<COMPILE_LANGUAGE:C,CXX>>:-Werror>)
  if(QUIRE_SANITIZE)
    string(REPLACE ";" "," sanitizers "${QUIRE_SANITIZE}")
    target_compile_options(${target} PRIVATE $<$<COMPILE_LANGUAGE:C,CXX>:-fsanitize=${sanitizers}
      -fno-sanitize-recover=all -fno-omit-frame-pointer>
      # Instrumented, the standard library's own headers look uninitialised to GCC.
      $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wno-maybe-uninitialized>)
    # For tests, which take fewer cases there.
    target_compile_definitions(${target} PRIVATE QUIRE_SANITIZED)
    target_link_options(${target} PRIVATE -fsanitize=${sanitizers})
    # Clang brings what its sanitizers have for C++ only when it links as C++. UndefinedBehaviorSanitizer needs that,
    # in programs in C too; ThreadSanitizer has its own operator new there, which no test could replace.
    if("thread" IN_LIST QUIRE_SANITIZE)
      target_compile_definitions(${target} PRIVATE QUIRE_SANITIZED_THREADS)
      set_target_properties(${target} PROPERTIES LINKER_LANGUAGE C)
    else()
      set_target_properties(${target} PROPERTIES LINKER_LANGUAGE CXX)
    endif()
  endif()
endfunction()

# quire_precompile_headers(TARGET PRIVATE HEADERS... | REUSE_FROM OTHER): headers that are compiled once, for all targets
# with the same flags; kernels and sampling have flags of their own. Sources still include what they use, which the preset
# without precompiled headers checks.
function(quire_precompile_headers target)
  target_precompile_headers(${target} ${ARGN})
  if(NOT CMAKE_DISABLE_PRECOMPILE_HEADERS)
    # The compiler cache knows such headers by their content, so that Clang's must not tell when they were made.
    target_compile_options(${target} PRIVATE
      "$<$<COMPILE_LANG_AND_ID:CXX,Clang>:SHELL:-Xclang -fno-pch-timestamp>")
    # From precompiled headers GCC 12 sees overflows inside std::string that are not there (again bug 105651).
    target_compile_options(${target} PRIVATE $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wno-array-bounds -Wno-stringop-overflow>)
  endif()
endfunction()

# quire_join_sources(TARGET): several sources are one translation unit, where headers (CLI11, GoogleTest, JSON) take more
# time than what is written here: a quarter of the time for the command. The preset that precompiles nothing joins nothing.
function(quire_join_sources target)
  if(NOT CMAKE_DISABLE_PRECOMPILE_HEADERS)
    set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 8)
  endif()
endfunction()

# quire_avoid_new_symbols(TARGET): a shared library that asks for no symbol of GCC 12's standard library
# (core/base/condition_wait.cpp); a sanitizer has a function of its own there.
function(quire_avoid_new_symbols target)
  if(NOT QUIRE_SANITIZE)
    target_link_libraries(${target} PRIVATE quire_base)
    target_link_options(${target} PRIVATE
      -Wl,--wrap=_ZNSt18condition_variable4waitERSt11unique_lockISt5mutexE)
  endif()
endfunction()

# quire_add_library(NAME SOURCES ... LINKS ...): a static, position-independent piece of libquire.
function(quire_add_library name)
  cmake_parse_arguments(arg "" "" "SOURCES;LINKS" ${ARGN})
  add_library(${name} STATIC ${arg_SOURCES})
  quire_setup_target(${name})
  target_include_directories(${name} PUBLIC "$<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}>")
  target_link_libraries(${name} PUBLIC ${arg_LINKS})
endfunction()

# Absurd sizes are refused by the allocator as they are without a sanitizer; the first report ends the program.
set(sanitizer_options
  ASAN_OPTIONS=detect_leaks=1:strict_string_checks=1:allocator_may_return_null=1
  UBSAN_OPTIONS=print_stacktrace=1
  TSAN_OPTIONS=halt_on_error=1:second_deadlock_stack=1:allocator_may_return_null=1)

# quire_add_test(NAME SOURCES ... LINKS ... [LABELS ...] [TIMEOUT seconds]): one GoogleTest program,
# registered whole. Tests find their fixtures through QUIRE_TEST_DATA and the larger models through
# QUIRE_SHARED_DIR; a test whose models are absent reports itself as skipped. Labels that ./dev knows: `threads`
# (starts threads; runs under ThreadSanitizer too), `long` (not run under sanitizers), `gpu` (needs one). TIMEOUT
# (300) is doubled under a sanitizer.
function(quire_add_test name)
  cmake_parse_arguments(arg "" "TIMEOUT" "SOURCES;LINKS;LABELS" ${ARGN})
  add_executable(${name} ${arg_SOURCES})
  quire_setup_target(${name})
  if(TARGET quire_test_headers)
    quire_precompile_headers(${name} REUSE_FROM quire_test_headers)
  endif()
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

# quire_write_pkgconfig(FOLDER): a quire.pc there, of the library of this build tree, for cgo.
function(quire_write_pkgconfig folder)
  file(GENERATE OUTPUT "${folder}/quire.pc" CONTENT
"Name: quire
Description: the library of this build tree
Version: ${PROJECT_VERSION}
Cflags: -I${PROJECT_SOURCE_DIR}/capi/include
Libs: -L$<TARGET_FILE_DIR:quire> -lquire
")
endfunction()
