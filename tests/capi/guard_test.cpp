// No exception leaves an entry, an error can always be created, and a cancelled thread ends outside the
// library.
#include "capi/src/guard.h"

#include <cstdlib>
#include <new>
#include <pthread.h>
#include <stdexcept>
#include <string>
#include <thread>

#include <gtest/gtest.h>
#include <quire/error.h>
#include <quire/options.h>
#include <quire/version.h>

#include "core/base/error.h"

namespace {

// If true, each allocation of this thread fails.
constinit thread_local bool no_memory = false;

}  // namespace

[[gnu::noinline]] void* operator new(size_t size) {
  if (no_memory) throw std::bad_alloc();
  if (void* const memory = std::malloc(size == 0 ? 1 : size)) return memory;
  throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* memory) noexcept {
  std::free(memory);
}
[[gnu::noinline]] void operator delete(void* memory, size_t) noexcept {
  std::free(memory);
}

namespace quire::capi {
namespace {

std::string message_of(quire_error* error) {
  size_t length = 0;
  const char* const text = quire_error_message(error, &length);
  return {text, length};
}

class EntryHookTest : public ::testing::Test {
 protected:
  // Returns the error of a call whose entry throws the exception of `hook`.
  static std::pair<int32_t, std::string> report(EntryHook hook) {
    set_entry_hook(hook);
    quire_error* error = nullptr;
    EXPECT_EQ(quire_abi_check(QUIRE_ABI_MAJOR, QUIRE_ABI_MINOR, &error), 0);
    EXPECT_EQ(quire_runtime_options_create(nullptr), nullptr) << "without an error to write";
    set_entry_hook(nullptr);
    const std::pair<int32_t, std::string> result{quire_error_code(error), message_of(error)};
    EXPECT_EQ(quire_error_free(error), 1);
    return result;
  }
  ~EntryHookTest() override { set_entry_hook(nullptr); }
};

TEST_F(EntryHookTest, AnErrorKeepsItsCodeAndText) {
  const auto [code, message] = report([] { throw Error(ErrorCode::quota, "prompt: too much of it"); });
  EXPECT_EQ(code, QUIRE_ERROR_QUOTA);
  EXPECT_EQ(message, "prompt: too much of it");
}

TEST_F(EntryHookTest, AFailedAllocationIsOutOfMemory) {
  EXPECT_EQ(report([] { throw std::bad_alloc(); }).first, QUIRE_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(report([] { throw std::length_error("vector"); }).first, QUIRE_ERROR_OUT_OF_MEMORY);
}

TEST_F(EntryHookTest, AnyOtherExceptionIsADefect) {
  const auto [code, message] = report([] { throw std::runtime_error("lost a page"); });
  EXPECT_EQ(code, QUIRE_ERROR_INTERNAL);
  EXPECT_EQ(message, "lost a page");
  EXPECT_EQ(report([] { throw 42; }).first, QUIRE_ERROR_INTERNAL);
}

TEST_F(EntryHookTest, AnExceptionWithoutATextIsNamedByItsCode) {
  EXPECT_EQ(report([] { throw std::runtime_error(""); }).second, "internal");
  EXPECT_EQ(report([] { throw Error(ErrorCode::device_lost, ""); }).second, "device_lost");
}

TEST(Errors, CanBeCreatedWithoutMemory) {
  quire_error* error = nullptr;
  no_memory = true;
  const int32_t ok = quire_abi_check(-1, 0, &error);
  const int32_t code = quire_error_code(error);
  const bool named = std::string_view(quire_error_message(error, nullptr)) == "out of host memory";
  const bool freed_twice = quire_error_free(error) == 1 && quire_error_free(error) == 1;
  no_memory = false;
  EXPECT_EQ(ok, 0);
  EXPECT_EQ(code, QUIRE_ERROR_OUT_OF_MEMORY);
  EXPECT_TRUE(named);
  EXPECT_TRUE(freed_twice) << "it is ready-made and stays";
}

TEST(Errors, FailedCreationLeavesNothing) {
  const int64_t before = HandleTable::instance().num_live_objects();
  no_memory = true;
  quire_error* error = nullptr;
  quire_runtime_options* const options = quire_runtime_options_create(&error);
  no_memory = false;
  EXPECT_EQ(options, nullptr);
  EXPECT_EQ(quire_error_code(error), QUIRE_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(HandleTable::instance().num_live_objects(), before);
}

TEST(Errors, HaveCodeAndMessage) {
  EXPECT_EQ(quire_error_code(nullptr), QUIRE_ERROR_OK);
  EXPECT_EQ(message_of(nullptr), "");
  EXPECT_EQ(quire_error_free(nullptr), 1);

  quire_error* error = nullptr;
  EXPECT_EQ(quire_abi_check(QUIRE_ABI_MAJOR + 1, 0, &error), 0);
  EXPECT_EQ(quire_error_code(error), QUIRE_ERROR_VERSION);
  EXPECT_NE(message_of(error).find("1.0"), std::string::npos);
  EXPECT_STREQ(quire_error_message(error, nullptr), message_of(error).c_str());
  EXPECT_EQ(quire_error_free(error), 1);

  EXPECT_EQ(quire_error_free(error), 0) << "freed twice";
  EXPECT_EQ(quire_error_code(error), QUIRE_ERROR_BAD_HANDLE);
  EXPECT_NE(message_of(error), "");
}

TEST(Errors, AreClearedBySuccess) {
  auto* error = reinterpret_cast<quire_error*>(uint64_t{1234});
  EXPECT_EQ(quire_abi_check(QUIRE_ABI_MAJOR, QUIRE_ABI_MINOR, &error), 1);
  EXPECT_EQ(error, nullptr);
}

TEST(Errors, CodesHaveNames) {
  EXPECT_STREQ(quire_error_code_name(QUIRE_ERROR_OK), "ok");
  for (int32_t code = QUIRE_ERROR_OK; code <= QUIRE_ERROR_QUOTA; ++code) {
    EXPECT_STRNE(quire_error_code_name(code), "unknown") << code;
  }
  EXPECT_STREQ(quire_error_code_name(QUIRE_ERROR_DEADLINE_TOO_SHORT + 1), "unknown");
  EXPECT_STREQ(quire_error_code_name(-1), "unknown");
}

TEST(Version, TheLibraryReportsItsVersion) {
  EXPECT_STREQ(quire_version_string(), QUIRE_VERSION_STRING);
  quire_error* error = nullptr;
  EXPECT_EQ(quire_abi_check(QUIRE_ABI_MAJOR, QUIRE_ABI_MINOR - 1, &error), QUIRE_ABI_MAJOR == 0 ? 0 : 1)
      << "an older caller: while the major number is 0 a minor one may break it";
  quire_error_free(error);
  EXPECT_EQ(quire_abi_check(QUIRE_ABI_MAJOR, QUIRE_ABI_MINOR + 1, nullptr), 0) << "a newer caller";
  EXPECT_EQ(quire_abi_check(QUIRE_ABI_MAJOR, -1, nullptr), 0);
}

// A cancellation during a call takes effect after it, at a cancellation point of the host.
TEST(PthreadCancel, WaitsForTheCallToReturn) {
  static std::atomic<bool> inside;
  static std::atomic<bool> returned;
  inside = false;
  returned = false;
  set_entry_hook([] {
    inside = true;
    for (int i = 0; i < 50; ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));  // cancellation points
  });
  pthread_t thread{};
  const auto body = [](void*) -> void* {
    quire_abi_check(QUIRE_ABI_MAJOR, QUIRE_ABI_MINOR, nullptr);
    returned = true;
    for (;;) pthread_testcancel();
  };
  ASSERT_EQ(pthread_create(&thread, nullptr, body, nullptr), 0);
  while (!inside) std::this_thread::yield();
  pthread_cancel(thread);
  void* result = nullptr;
  pthread_join(thread, &result);
  set_entry_hook(nullptr);
  EXPECT_EQ(result, PTHREAD_CANCELED);
  EXPECT_TRUE(returned);
}

}  // namespace
}  // namespace quire::capi
