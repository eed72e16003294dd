// Every public function with every bad handle and every bad pointer, from a table that is generated from the
// headers. New functions are tested without a change here.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <random>
#include <string>
#include <sys/wait.h>
#include <type_traits>
#include <unistd.h>
#include <vector>

#include <gtest/gtest.h>
#include <quire/experimental.h>

#include "capi/src/guard.h"
#include "core/base/error.h"
#include "tests/capi/capi_fixture.h"

namespace quire::testing {
namespace {

// A live handle of each type, as untyped pointers.
struct Valid {
  quire_runtime_options* runtime_options = nullptr;
  quire_model_options* model_options = nullptr;
  quire_cache_options* cache_options = nullptr;
  quire_job_request* job_request = nullptr;
  quire_runtime* runtime = nullptr;
  quire_model* model = nullptr;
  quire_cache* cache = nullptr;
  quire_stats* stats = nullptr;
  quire_job* job = nullptr;
  quire_queue* queue = nullptr;
  quire_event* event = nullptr;
  quire_cancel* cancel = nullptr;
  quire_constraint* constraint = nullptr;
  quire_matcher* matcher = nullptr;
  quire_plan* plan = nullptr;
  quire_chat_template* chat_template = nullptr;
  quire_alias* alias = nullptr;
  quire_response_parser* response_parser = nullptr;
  int32_t tokens[1] = {5};
  quire_event** events = nullptr;  // an array of one
};

enum class Kind { required_handle, optional_handle, free_handle, pointer };

// Return values of failed functions (base.h). A wait with valid arguments returns QUIRE_WAIT_TIMEOUT,
// QUIRE_WAIT_END or a result.
bool has_failed(int32_t value) {
  return value == 0 || value == -1;
}
bool has_failed(int64_t value) {
  return value == -1;
}
bool has_failed(uint64_t value) {
  return value == 0;
}
bool has_failed(double value) {
  return std::isnan(value);
}
bool has_failed(const void* value) {
  return value == nullptr;
}

struct Case {
  const char* function;
  const char* parameter;
  const char* type;
  Kind kind;
  // Calls with `bad` for the parameter and ordinary values for all others. Returns true if the call failed.
  bool (*call)(void* bad, const Valid& valid, quire_error** error);
};

const Case kCases[] = {
#include "misuse_cases.inc"
};

std::string name_of(const Case& of) {
  return std::string(of.function) + "(" + of.parameter + ")";
}

quire_constraint* make_constraint(quire_model* model) {
  return quire_constraint_create(model, QUIRE_CONSTRAINT_REGEX, "[a-z]+", 6, nullptr);
}

class MisuseTest : public ::testing::Test {
 protected:
  MisuseTest() {
    const OwnedRequest live = make_request("abc", 2000);
    job = OwnedJob(quire_job_submit(world.cache.get(), live.get(), nullptr));
    const OwnedJob other(quire_job_submit(world.cache.get(), live.get(), nullptr));
    event = OwnedEvent(next_event(other.get(), QUIRE_WAIT_FOREVER, nullptr));
    valid = {runtime_options.get(), model_options.get(), cache_options.get(),
             request.get(),         world.runtime.get(), world.model.get(),
             world.cache.get(),     stats.get(),         job.get(),
             queue.get(),           event.get(),         cancel.get()};
    valid.chat_template = chat.get();
    valid.alias = alias.get();
    valid.response_parser = parser.get();
    valid.constraint = constraint.get();
    valid.matcher = matcher.get();
    EXPECT_NE(valid.event, nullptr);
    stats = OwnedStats(quire_cache_stats(world.cache.get(), nullptr));
    valid.stats = stats.get();
    const std::string& path = tiny_model_path();
    quire_model_options_set_path(model_options.get(), path.data(), path.size(), nullptr);
    plan = OwnedPlan(quire_plan_create(world.runtime.get(), model_options.get(), nullptr, nullptr));
    valid.plan = plan.get();
    quire_job_request_set_prompt_text(request.get(), "a", 1, nullptr);
    valid.events = events;
  }

  // Returns all live handles with the names of their types.
  std::vector<std::pair<std::string, void*>> live_handles() const {
    return {{"quire_runtime_options", valid.runtime_options},
            {"quire_model_options", valid.model_options},
            {"quire_cache_options", valid.cache_options},
            {"quire_job_request", valid.job_request},
            {"quire_runtime", valid.runtime},
            {"quire_model", valid.model},
            {"quire_cache", valid.cache},
            {"quire_stats", valid.stats},
            {"quire_job", valid.job},
            {"quire_queue", valid.queue},
            {"quire_event", valid.event},
            {"quire_cancel", valid.cancel},
            {"quire_plan", valid.plan},
            {"quire_constraint", valid.constraint},
            {"quire_matcher", valid.matcher},
            {"quire_chat_template", valid.chat_template},
            {"quire_alias", valid.alias},

            {"quire_response_parser", valid.response_parser}};
  }
  void* live(const std::string& type) const {
    for (const auto& [name, handle] : live_handles()) {
      if (name == type) return handle;
    }
    return nullptr;
  }

  World world;
  OwnedRuntimeOptions runtime_options{quire_runtime_options_create(nullptr)};
  OwnedModelOptions model_options{quire_model_options_create(nullptr)};
  OwnedCacheOptions cache_options{quire_cache_options_create(nullptr)};
  OwnedRequest request{quire_job_request_create(nullptr)};
  OwnedStats stats;
  OwnedJob job;
  OwnedQueue queue{quire_queue_create(world.runtime.get(), nullptr)};
  OwnedEvent event;
  OwnedCancel cancel{quire_cancel_create(nullptr)};
  OwnedConstraint constraint{make_constraint(world.model.get())};
  OwnedMatcher matcher{quire_matcher_create(constraint.get(), nullptr)};
  OwnedPlan plan;
  quire_event* events[1] = {};
  OwnedChatTemplate chat{quire_chat_template_create("a", 1, nullptr)};
  OwnedAlias alias{quire_alias_create(world.runtime.get(), "a", 1, nullptr)};
  OwnedResponseParser parser{quire_response_parser_create("plain", 5, nullptr)};
  Valid valid;
};

void expect_refusal(const Case& of, void* bad, const Valid& valid, int32_t code, const std::string& what) {
  Report report;
  EXPECT_TRUE(of.call(bad, valid, report.out())) << name_of(of) << " with " << what;
  EXPECT_EQ(report.code(), code) << name_of(of) << " with " << what << ": " << report.message();
  EXPECT_EQ(report.message().rfind(std::string(of.parameter) + ":", 0), 0u)
      << name_of(of) << " with " << what << " reports: " << report.message();
  EXPECT_TRUE(of.call(bad, valid, nullptr)) << name_of(of) << " without an error to write";
}

TEST_F(MisuseTest, TheTableHasEveryType) {
  ASSERT_GT(std::size(kCases), 200u);
  for (const auto& [type, handle] : live_handles()) {
    EXPECT_NE(handle, nullptr) << type;
    const auto is_meant = [&, &name = type](const Case& of) { return of.type == name; };
    EXPECT_TRUE(std::any_of(std::begin(kCases), std::end(kCases), is_meant)) << type;
  }
}

TEST_F(MisuseTest, NullIsRefusedByName) {
  for (const Case& of : kCases) {
    if (of.kind == Kind::required_handle || of.kind == Kind::pointer) {
      expect_refusal(of, nullptr, valid, QUIRE_ERROR_INVALID_ARGUMENT, "NULL");
    }
  }
}

TEST_F(MisuseTest, FreeingNullDoesNothing) {
  for (const Case& of : kCases) {
    if (of.kind != Kind::free_handle) continue;
    Report report;
    EXPECT_FALSE(of.call(nullptr, valid, report.out())) << name_of(of);
    EXPECT_EQ(report.code(), QUIRE_ERROR_OK) << name_of(of);
  }
}

TEST_F(MisuseTest, AHandleOfAnotherTypeIsRefused) {
  for (const Case& of : kCases) {
    if (of.kind == Kind::pointer) continue;
    for (const auto& [type, handle] : live_handles()) {
      if (type != of.type) expect_refusal(of, handle, valid, QUIRE_ERROR_BAD_HANDLE, type);
    }
  }
}

TEST_F(MisuseTest, AFlippedBitIsRefused) {
  for (const Case& of : kCases) {
    if (of.kind == Kind::pointer) continue;
    const auto token = reinterpret_cast<uintptr_t>(live(of.type));
    ASSERT_NE(token, 0u) << of.type;
    for (int bit = 0; bit < 64; ++bit) {
      auto* const bad = reinterpret_cast<void*>(token ^ uintptr_t{1} << bit);
      expect_refusal(of, bad, valid, QUIRE_ERROR_BAD_HANDLE, "bit " + std::to_string(bit));
    }
  }
}

TEST_F(MisuseTest, NumbersAndAddressesAreRefused) {
  std::mt19937_64 random(11);
  int on_stack = 0;
  std::vector<void*> bad = {&on_stack, &valid, this, reinterpret_cast<void*>(uintptr_t{1}),
                            reinterpret_cast<void*>(UINTPTR_MAX)};
  for (int i = 0; i < 16; ++i) bad.push_back(reinterpret_cast<void*>(static_cast<uintptr_t>(random())));
  for (const Case& of : kCases) {
    if (of.kind == Kind::pointer) continue;
    for (void* const handle : bad) expect_refusal(of, handle, valid, QUIRE_ERROR_BAD_HANDLE, "a number");
  }
}

// Creates a handle of the type, frees it twice, and returns the stale handle. With `reuse` its slot is used
// again.
void* stale_handle(const std::string& type, const World& world, quire_event* spare_event) {
  const auto free_twice = [](auto* handle, auto free) -> void* {
    EXPECT_EQ(free(handle, nullptr), 1);
    Report report;
    EXPECT_EQ(free(handle, report.out()), 0);
    EXPECT_EQ(report.code(), QUIRE_ERROR_BAD_HANDLE);
    return handle;
  };
  if (type == "quire_runtime_options")
    return free_twice(quire_runtime_options_create(nullptr), quire_runtime_options_free);
  if (type == "quire_model_options")
    return free_twice(quire_model_options_create(nullptr), quire_model_options_free);
  if (type == "quire_cache_options")
    return free_twice(quire_cache_options_create(nullptr), quire_cache_options_free);
  if (type == "quire_job_request")
    return free_twice(quire_job_request_create(nullptr), quire_job_request_free);
  if (type == "quire_runtime") return free_twice(make_runtime().release(), quire_runtime_free);
  if (type == "quire_model") return free_twice(load_model(world.runtime.get()).release(), quire_model_free);
  if (type == "quire_cache") return free_twice(make_cache(world.model.get()).release(), quire_cache_free);
  if (type == "quire_stats")
    return free_twice(quire_cache_stats(world.cache.get(), nullptr), quire_stats_free);
  if (type == "quire_queue")
    return free_twice(quire_queue_create(world.runtime.get(), nullptr), quire_queue_free);
  if (type == "quire_event") return free_twice(spare_event, quire_event_free);
  if (type == "quire_constraint")
    return free_twice(make_constraint(world.model.get()), quire_constraint_free);
  if (type == "quire_matcher") {
    const OwnedConstraint constraint(make_constraint(world.model.get()));
    return free_twice(quire_matcher_create(constraint.get(), nullptr), quire_matcher_free);
  }
  if (type == "quire_plan") {
    const OwnedModelOptions options(quire_model_options_create(nullptr));
    const std::string& path = tiny_model_path();
    quire_model_options_set_path(options.get(), path.data(), path.size(), nullptr);
    return free_twice(quire_plan_create(world.runtime.get(), options.get(), nullptr, nullptr),
                      quire_plan_free);
  }
  if (type == "quire_response_parser") {
    return free_twice(quire_response_parser_create("plain", 5, nullptr), quire_response_parser_free);
  }
  if (type == "quire_chat_template") {
    return free_twice(quire_chat_template_create("a", 1, nullptr), quire_chat_template_free);
  }
  if (type == "quire_alias")
    return free_twice(quire_alias_create(world.runtime.get(), "a", 1, nullptr), quire_alias_free);
  if (type == "quire_cancel") return free_twice(quire_cancel_create(nullptr), quire_cancel_free);
  return free_twice(quire_job_submit(world.cache.get(), make_request("x", 1).get(), nullptr), quire_job_free);
}

TEST_F(MisuseTest, AFreedHandleIsRefusedBeforeAndAfterItsSlotIsReused) {
  for (const auto& [type, handle] : live_handles()) {
    const OwnedJob source(quire_job_submit(world.cache.get(), make_request("x", 1).get(), nullptr));
    void* const stale = stale_handle(type, world, next_event(source.get(), QUIRE_WAIT_FOREVER, nullptr));
    std::vector<OwnedCancel> takers;
    for (int i = 0; i < 2; ++i) {
      for (const Case& of : kCases) {
        if (of.kind != Kind::pointer && type == of.type) {
          expect_refusal(of, stale, valid, QUIRE_ERROR_BAD_HANDLE, "a freed handle");
        }
      }
      for (int n = 0; n < 8; ++n) takers.emplace_back(quire_cancel_create(nullptr));
    }
  }
}

// No exception of any type leaves an entry.
TEST_F(MisuseTest, AnExceptionInAnyEntryIsAnError) {
  const std::pair<capi::EntryHook, int32_t> throwers[] = {
      {[] { throw std::bad_alloc(); }, QUIRE_ERROR_OUT_OF_MEMORY},
      {[] { throw 42; }, QUIRE_ERROR_INTERNAL},
      {[] { throw Error(ErrorCode::io, "disk"); }, QUIRE_ERROR_IO}};
  for (const Case& of : kCases) {
    if (of.kind == Kind::pointer) continue;
    for (const auto& [hook, code] : throwers) {
      Report report;
      capi::set_entry_hook(hook);
      const bool failed = of.call(live(of.type), valid, report.out());
      capi::set_entry_hook(nullptr);
      EXPECT_TRUE(failed) << name_of(of);
      EXPECT_EQ(report.code(), code) << name_of(of);
    }
  }
}

// In a child of fork() every function fails with a message about it, and freeing does nothing. The parent
// continues.
TEST_F(MisuseTest, AChildOfForkIsRefused) {
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    for (const Case& of : kCases) {
      if (of.kind == Kind::pointer) continue;
      Report report;
      const bool failed = of.call(live(of.type), valid, report.out());
      const bool freed = of.kind == Kind::free_handle && !failed && report.code() == QUIRE_ERROR_OK;
      if (!freed && !(failed && report.code() == QUIRE_ERROR_FORKED)) _exit(1);
    }
    _exit(0);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  EXPECT_EQ(quire_job_cancel(job.get(), nullptr), 1);
  EXPECT_EQ(collect(job.get()).finish_reason, QUIRE_FINISH_CANCELLED);
}

}  // namespace
}  // namespace quire::testing
