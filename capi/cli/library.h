// C++ wrappers of libquire: handles that free themselves, errors that are thrown, results that grow.
#pragma once

#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <quire/quire.h>

namespace quire::cli {

// Error of the library as an exception.
class LibraryError : public std::runtime_error {
 public:
  LibraryError(int32_t code, const std::string& message) : std::runtime_error(message), code_(code) {}
  int32_t code() const { return code_; }

 private:
  int32_t code_;
};

// Throws *error as a LibraryError and frees it. Does nothing for NULL.
void throw_if(quire_error* error);

// Calls a function of the library with an error argument. Only the error, not the result, decides about
// failure.
template <typename Function, typename... Args>
auto call(Function* function, Args... args) {
  quire_error* error = nullptr;
  auto result = function(args..., &error);
  throw_if(error);
  return result;
}

// Returns a result of any size: queries the size, and again if it has grown meanwhile.
template <typename T, typename Function, typename... Args>
std::vector<T> elements_of(Function* function, Args... args) {
  std::vector<T> elements;
  for (;;) {
    T* data = elements.empty() ? nullptr : elements.data();
    const auto needed = static_cast<size_t>(call(function, args..., data, elements.size()));
    const bool complete = needed <= elements.size();
    elements.resize(needed);
    if (complete) return elements;
  }
}

template <typename Function, typename... Args>
std::string text_of(Function* function, Args... args) {
  const std::vector<char> bytes = elements_of<char>(function, args...);
  return {bytes.begin(), bytes.end()};
}

// Getter of a borrowed text of an event.
using EventText = const char*(quire_event*, size_t*, quire_error**);
inline std::string text_of_event(EventText* get, quire_event* event) {
  size_t length = 0;
  const char* const text = call(get, event, &length);
  return {text, length};
}

template <auto Free>
struct Freer {
  template <typename T>
  void operator()(T* handle) const {
    Free(handle, nullptr);
  }
};

template <typename T, auto Free>
using Handle = std::unique_ptr<T, Freer<Free>>;

using RuntimeOptions = Handle<quire_runtime_options, quire_runtime_options_free>;
using ModelOptions = Handle<quire_model_options, quire_model_options_free>;
using EngineOptions = Handle<quire_cache_options, quire_cache_options_free>;
using Request = Handle<quire_job_request, quire_job_request_free>;
using Runtime = Handle<quire_runtime, quire_runtime_free>;
using Model = Handle<quire_model, quire_model_free>;
using Cache = Handle<quire_cache, quire_cache_free>;
using Job = Handle<quire_job, quire_job_free>;
using Queue = Handle<quire_queue, quire_queue_free>;
using Event = Handle<quire_event, quire_event_free>;
using Stats = Handle<quire_stats, quire_stats_free>;
using Plan = Handle<quire_plan, quire_plan_free>;
using Cancel = Handle<quire_cancel, quire_cancel_free>;
using Constraint = Handle<quire_constraint, quire_constraint_free>;
using ResponseParser = Handle<quire_response_parser, quire_response_parser_free>;
using Matcher = Handle<quire_matcher, quire_matcher_free>;
using ChatTemplate = Handle<quire_chat_template, quire_chat_template_free>;

}  // namespace quire::cli
