/*
 * Optional C++17 layer over the C interface, in this header alone: handles that free themselves, errors that
 * are thrown, and results of any size. It adds no functions. `quire::call` calls any function of the C
 * headers, whose comments remain the reference:
 *
 *   quire::Request request(quire::call(quire_job_request_create));
 *   quire::call(quire_job_request_set_prompt_text, request, "Once upon a time");
 *   quire::Job job(quire::call(quire_job_submit, cache, request));
 *   while (quire::Event event = quire::next(job)) std::cout << quire::text_of(quire_event_text, event);
 *
 * Handles are freed in any order. No exception passes through the library: one that is thrown by the progress
 * function of a load comes out of quire::load.
 */
#ifndef QUIRE_QUIRE_HPP
#define QUIRE_QUIRE_HPP

#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include <quire/quire.h>

namespace quire {

/** A failed call. what() is the message of the library. */
class Error : public std::runtime_error {
 public:
  Error(int32_t code, const std::string& message, std::string parameter = {}, bool is_retryable = false)
      : std::runtime_error(message),
        code_(code),
        parameter_(std::move(parameter)),
        is_retryable_(is_retryable) {}

  /** One of QUIRE_ERROR_*. */
  int32_t code() const { return code_; }
  /** The parameter at fault, such as "temperature"; empty if it is not about one. */
  const std::string& parameter() const { return parameter_; }
  /** True if the same call may succeed later without any change by the caller. */
  bool is_retryable() const { return is_retryable_; }

 private:
  int32_t code_;
  std::string parameter_;
  bool is_retryable_;
};

/** Frees a handle with its own function. */
template <auto Free>
struct Freer {
  template <typename T>
  void operator()(T* handle) const noexcept {
    Free(handle, nullptr);
  }
};

/** An owned handle. Empty after a move. */
template <typename T, auto Free>
using Handle = std::unique_ptr<T, Freer<Free>>;

using RuntimeOptions = Handle<quire_runtime_options, quire_runtime_options_free>;
using ModelOptions = Handle<quire_model_options, quire_model_options_free>;
using CacheOptions = Handle<quire_cache_options, quire_cache_options_free>;
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
using Alias = Handle<quire_alias, quire_alias_free>;
using Constraint = Handle<quire_constraint, quire_constraint_free>;
using Matcher = Handle<quire_matcher, quire_matcher_free>;
using ChatTemplate = Handle<quire_chat_template, quire_chat_template_free>;
using ResponseParser = Handle<quire_response_parser, quire_response_parser_free>;

namespace detail {

inline std::string copied(const char* text, size_t length) {
  return text == nullptr ? std::string() : std::string(text, length);
}

/** Throws *error as an Error and frees it. Does nothing for NULL. */
inline void throw_if(quire_error* error) {
  if (error == nullptr) return;
  const std::unique_ptr<quire_error, int32_t (*)(quire_error*)> owned(error, quire_error_free);
  size_t length = 0;
  const char* const message = quire_error_message(error, &length);
  const std::string text = copied(message, length);
  const char* const parameter = quire_error_parameter(error, &length);
  throw Error(quire_error_code(error), text, copied(parameter, length), quire_error_is_retryable(error) == 1);
}

/** A buffer for values. */
template <typename T>
struct Buffer {
  T* data;
  size_t capacity;
};

/** Returns the C arguments of one C++ argument: a text, a list and a buffer have two. */
template <typename T>
auto passed(const T& value) {
  if constexpr (!std::is_same_v<T, std::nullptr_t> && std::is_convertible_v<const T&, std::string_view>) {
    const std::string_view text = value;
    return std::make_tuple(text.data(), text.size());
  } else {
    return std::make_tuple(value);
  }
}
template <typename T, auto Free>
auto passed(const Handle<T, Free>& handle) {
  return std::make_tuple(handle.get());
}
template <typename T>
auto passed(const std::vector<T>& list) {
  return std::make_tuple(list.data(), list.size());
}

template <typename T>
auto passed(const Buffer<T>& buffer) {
  return std::make_tuple(buffer.data, buffer.capacity);
}

/** The progress function of a load, and the exception that it threw. */
struct Progress {
  std::function<void(int64_t done_bytes, int64_t total_bytes)> report;
  std::exception_ptr thrown;

  static void call(void* user_data, int64_t done_bytes, int64_t total_bytes) noexcept {
    auto& progress = *static_cast<Progress*>(user_data);
    if (progress.thrown != nullptr) return;
    try {
      progress.report(done_bytes, total_bytes);
    } catch (...) {
      progress.thrown = std::current_exception();
    }
  }
};

}  // namespace detail

/**
 * Calls a function of the C interface, without its error argument, and throws its error. A handle is passed
 * as its pointer, a text (string, string_view or literal) and a vector as pointer and size. The result is
 * that of the function; an owned handle wraps it.
 */
template <typename Function, typename... Arguments>
auto call(Function* function, const Arguments&... arguments) {
  quire_error* error = nullptr;
  auto result = std::apply([&](auto... all) { return function(all..., &error); },
                           std::tuple_cat(detail::passed(arguments)...));
  detail::throw_if(error);
  return result;
}

/** Returns the values of a function that writes them to a buffer of the caller. Grows the buffer as needed.
 */
template <typename T, typename Function, typename... Arguments>
std::vector<T> values_of(Function* function, const Arguments&... arguments) {
  std::vector<T> values;
  for (;;) {
    const detail::Buffer<T> buffer{values.empty() ? nullptr : values.data(), values.size()};
    const auto size = static_cast<size_t>(call(function, arguments..., buffer));
    const bool is_complete = size <= values.size();
    values.resize(size);
    if (is_complete) return values;
  }
}

/** Returns the text of a function that writes it to a buffer of the caller. */
template <typename Function, typename... Arguments>
std::string text_of(Function* function, const Arguments&... arguments) {
  const std::vector<char> text = values_of<char>(function, arguments...);
  return {text.begin(), text.end()};
}

/** Returns a text of an event, such as that of quire_event_text. */
inline std::string text_of(const char* (*get)(quire_event*, size_t*, quire_error**), const Event& event) {
  size_t length = 0;
  const char* const text = call(get, event, &length);
  return detail::copied(text, length);
}

/**
 * Loads the model of a directory, as its options name it. `report`, if it is set, receives the progress on
 * this thread; if it throws, it is not called again, and load throws the same once the load has ended. To end
 * a load early, trigger `cancel`.
 */
inline Model load(const Runtime& runtime, const ModelOptions& options,
                  std::function<void(int64_t done_bytes, int64_t total_bytes)> report = {},
                  const Cancel& cancel = {}) {
  if (!report) {
    return Model(call(quire_model_load, runtime, options, int64_t{QUIRE_WAIT_FOREVER}, cancel));
  }
  detail::Progress progress{std::move(report), nullptr};
  call(quire_model_options_set_progress, options, &detail::Progress::call, static_cast<void*>(&progress));
  quire_error* error = nullptr;
  Model model(quire_model_load(runtime.get(), options.get(), QUIRE_WAIT_FOREVER, cancel.get(), &error));
  quire_model_options_set_progress(options.get(), nullptr, nullptr, nullptr);
  if (progress.thrown != nullptr) {
    if (error != nullptr) quire_error_free(error);
    std::rethrow_exception(progress.thrown);
  }
  detail::throw_if(error);
  return model;
}

/**
 * Waits for the next event of a job. Returns an empty handle after the last event, when the time is over, and
 * when `cancel` is triggered.
 */
inline Event next(const Job& job, int64_t timeout_ns = QUIRE_WAIT_FOREVER, const Cancel& cancel = {}) {
  quire_event* event = nullptr;
  call(quire_job_poll, job, timeout_ns, cancel, &event);
  return Event(event);
}

/** Does the same with a queue. */
inline Event next(const Queue& queue, int64_t timeout_ns = QUIRE_WAIT_FOREVER, const Cancel& cancel = {}) {
  quire_event* event = nullptr;
  call(quire_queue_poll, queue, timeout_ns, cancel, &event);
  return Event(event);
}

/** Throws the error of a job that has failed, if this is the event of that. */
inline void throw_if_failed(const Event& event) {
  if (call(quire_event_type, event) != QUIRE_EVENT_ERROR) return;
  throw Error(call(quire_event_error_code, event), text_of(quire_event_error_message, event),
              text_of(quire_event_error_parameter, event));
}

}  // namespace quire

#endif /* QUIRE_QUIRE_HPP */
