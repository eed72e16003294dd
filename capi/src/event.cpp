#include <quire/event.h>
#include <quire/options.h>
#include <quire/response.h>

#include "capi/src/arguments.h"
#include "capi/src/event_object.h"
#include "capi/src/guard.h"

using namespace quire::capi;

#define QUIRE_SAME_VALUE(NAME, value) static_assert(QUIRE_##NAME == static_cast<int32_t>(quire::value))
QUIRE_SAME_VALUE(EVENT_STARTED, EventKind::started);
QUIRE_SAME_VALUE(EVENT_PROGRESS, EventKind::progress);
QUIRE_SAME_VALUE(EVENT_TEXT, EventKind::text);
QUIRE_SAME_VALUE(EVENT_FINISHED, EventKind::finished);
QUIRE_SAME_VALUE(EVENT_ERROR, EventKind::error);
QUIRE_SAME_VALUE(EVENT_REWIND, EventKind::rewind);
QUIRE_SAME_VALUE(EVENT_LOG, EventKind::log);
QUIRE_SAME_VALUE(EVENT_PAGE, EventKind::page);
QUIRE_SAME_VALUE(PAGE_STORED, PageChange::Kind::stored);
QUIRE_SAME_VALUE(PAGE_REMOVED, PageChange::Kind::removed);
QUIRE_SAME_VALUE(PAGE_CLEARED, PageChange::Kind::cleared);
QUIRE_SAME_VALUE(MEDIUM_DEVICE, PageMedium::device);
QUIRE_SAME_VALUE(MEDIUM_HOST, PageMedium::host);
QUIRE_SAME_VALUE(MEDIUM_FILE, PageMedium::file);
QUIRE_SAME_VALUE(FINISH_NONE, FinishReason::unfinished);
QUIRE_SAME_VALUE(FINISH_STOP_TOKEN, FinishReason::stop_token);
QUIRE_SAME_VALUE(FINISH_STOP_STRING, FinishReason::stop_string);
QUIRE_SAME_VALUE(FINISH_LENGTH, FinishReason::max_new_tokens);
QUIRE_SAME_VALUE(FINISH_MAX_SEQ_LEN, FinishReason::max_seq_len);
QUIRE_SAME_VALUE(FINISH_COMPLETED, FinishReason::completed);
QUIRE_SAME_VALUE(FINISH_CANCELLED, FinishReason::cancelled);
QUIRE_SAME_VALUE(FINISH_ERROR, FinishReason::failed);
QUIRE_SAME_VALUE(FINISH_LOOP, FinishReason::loop);
#undef QUIRE_SAME_VALUE

namespace {

// Calls `read` with the event.
template <typename Result, typename Read>
Result get(quire_event* event, quire_error** error, Result failure, Read&& read) noexcept {
  return guard(error, failure, [&]() -> Result { return read(Pinned(event, "event")->event); });
}

// Returns a text of the event. It outlives the pin: the caller keeps the event alive.
template <typename Read>
const char* borrow_text(quire_event* event, size_t* out_len, quire_error** error, Read&& read) noexcept {
  if (out_len != nullptr) *out_len = 0;
  return guard(error, static_cast<const char*>(nullptr), [&] {
    const std::string& text = read(Pinned(event, "event")->event);
    if (out_len != nullptr) *out_len = text.size();
    return text.c_str();
  });
}

const char* borrow_part(quire_event* event, size_t* out_len, quire_error** error,
                        std::string quire::ResponseEvent::*member) noexcept {
  if (out_len != nullptr) *out_len = 0;
  return guard(error, static_cast<const char*>(nullptr), [&] {
    const Pinned pinned(event, "event");
    const auto& part = pinned->event.part;
    if (!part) return "";
    if (out_len != nullptr) *out_len = ((*part).*member).size();
    return ((*part).*member).c_str();
  });
}

// Returns one member of all entries, row after row.
template <typename T>
std::vector<T> flatten(const quire::Event& event, T quire::TokenLogProb::*member) {
  std::vector<T> values;
  for (const auto& row : event.top_log_probs) {
    for (const quire::TokenLogProb& entry : row) values.push_back(entry.*member);
  }
  return values;
}

}  // namespace

int32_t quire_event_type(quire_event* event, quire_error** error) {
  return get(event, error, -1, [](const quire::Event& of) { return static_cast<int32_t>(of.kind); });
}

uint64_t quire_event_user_data(quire_event* event, quire_error** error) {
  return get(event, error, uint64_t{0}, [](const quire::Event& of) { return of.tag; });
}

int64_t quire_event_job_id(quire_event* event, quire_error** error) {
  return get(event, error, int64_t{-1},
             [](const quire::Event& of) { return static_cast<int64_t>(of.job.value); });
}

int32_t quire_event_index(quire_event* event, quire_error** error) {
  return get(event, error, -1, [](const quire::Event& of) { return of.index; });
}

const char* quire_event_text(quire_event* event, size_t* out_len, quire_error** error) {
  return borrow_text(event, out_len, error,
                     [](const quire::Event& of) -> const std::string& { return of.text; });
}

int32_t quire_event_response_kind(quire_event* event, quire_error** error) {
  return get(event, error, -1, [](const quire::Event& of) {
    return of.part ? static_cast<int32_t>(of.part->kind) : QUIRE_RESPONSE_NONE;
  });
}

const char* quire_event_response_text(quire_event* event, size_t* out_len, quire_error** error) {
  return borrow_part(event, out_len, error, &quire::ResponseEvent::text);
}

int64_t quire_event_call_index(quire_event* event, quire_error** error) {
  return get(event, error, int64_t{-1}, [](const quire::Event& of) {
    return of.part && of.part->is_of_call() ? int64_t{of.part->call_idx} : int64_t{-1};
  });
}

const char* quire_event_call_name(quire_event* event, size_t* out_len, quire_error** error) {
  return borrow_part(event, out_len, error, &quire::ResponseEvent::name);
}

const char* quire_event_call_id(quire_event* event, size_t* out_len, quire_error** error) {
  return borrow_part(event, out_len, error, &quire::ResponseEvent::id);
}

int64_t quire_event_tokens(quire_event* event, int32_t* out_tokens, size_t out_capacity,
                           quire_error** error) {
  return get(event, error, int64_t{-1}, [&](const quire::Event& of) {
    return OutArgument<int32_t>(out_tokens, out_capacity, "out_tokens").write(of.token_ids);
  });
}

int64_t quire_event_first_token(quire_event* event, quire_error** error) {
  return get(event, error, int64_t{-1},
             [](const quire::Event& of) { return static_cast<int64_t>(of.first_token); });
}

int64_t quire_event_kept_tokens(quire_event* event, quire_error** error) {
  return get(event, error, int64_t{-1},
             [](const quire::Event& of) { return static_cast<int64_t>(of.kept_tokens); });
}

int64_t quire_event_kept_bytes(quire_event* event, quire_error** error) {
  return get(event, error, int64_t{-1},
             [](const quire::Event& of) { return static_cast<int64_t>(of.kept_bytes); });
}

int64_t quire_event_log_probs(quire_event* event, float* out_values, size_t out_capacity,
                              quire_error** error) {
  return get(event, error, int64_t{-1}, [&](const quire::Event& of) {
    return OutArgument<float>(out_values, out_capacity, "out_values").write(of.log_probs);
  });
}

int64_t quire_event_top_tokens(quire_event* event, int32_t* out_tokens, size_t out_capacity,
                               quire_error** error) {
  return get(event, error, int64_t{-1}, [&](const quire::Event& of) {
    return OutArgument<int32_t>(out_tokens, out_capacity, "out_tokens")
        .write(flatten(of, &quire::TokenLogProb::token));
  });
}

int64_t quire_event_top_log_probs(quire_event* event, float* out_values, size_t out_capacity,
                                  quire_error** error) {
  return get(event, error, int64_t{-1}, [&](const quire::Event& of) {
    return OutArgument<float>(out_values, out_capacity, "out_values")
        .write(flatten(of, &quire::TokenLogProb::log_prob));
  });
}

int64_t quire_event_progress_done(quire_event* event, quire_error** error) {
  return get(event, error, int64_t{-1}, [](const quire::Event& of) { return int64_t{of.done_tokens}; });
}

int64_t quire_event_progress_total(quire_event* event, quire_error** error) {
  return get(event, error, int64_t{-1}, [](const quire::Event& of) { return int64_t{of.total_tokens}; });
}

int32_t quire_event_log_level(quire_event* event, quire_error** error) {
  return get(event, error, -1, [](const quire::Event& of) {
    return of.kind == quire::EventKind::log ? static_cast<int32_t>(of.log_level) : QUIRE_LOG_OFF;
  });
}

int64_t quire_event_lost_lines(quire_event* event, quire_error** error) {
  return get(event, error, int64_t{-1},
             [](const quire::Event& of) { return static_cast<int64_t>(of.lost_lines); });
}

int32_t quire_event_page_change(quire_event* event, quire_error** error) {
  return get(event, error, -1, [](const quire::Event& of) {
    return of.page ? static_cast<int32_t>(of.page->kind) : QUIRE_PAGE_NONE;
  });
}

int32_t quire_event_page_medium(quire_event* event, quire_error** error) {
  return get(event, error, -1, [](const quire::Event& of) {
    const bool is_of_one = of.page && of.page->kind != quire::PageChange::Kind::cleared;
    return is_of_one ? static_cast<int32_t>(of.page->medium) : QUIRE_MEDIUM_NONE;
  });
}

int64_t quire_event_page_number(quire_event* event, quire_error** error) {
  return get(event, error, int64_t{-1},
             [](const quire::Event& of) { return of.page ? of.page->number : int64_t{-1}; });
}

uint64_t quire_event_page_hash(quire_event* event, quire_error** error) {
  return get(event, error, uint64_t{0},
             [](const quire::Event& of) { return of.page ? of.page->hash : uint64_t{0}; });
}

uint64_t quire_event_page_parent(quire_event* event, quire_error** error) {
  return get(event, error, uint64_t{0},
             [](const quire::Event& of) { return of.page ? of.page->parent : uint64_t{0}; });
}

const char* quire_event_page_namespace(quire_event* event, size_t* out_len, quire_error** error) {
  if (out_len != nullptr) *out_len = 0;
  return guard(error, static_cast<const char*>(nullptr), [&] {
    const Pinned pinned(event, "event");
    if (!pinned->event.page) return "";
    const std::string& text = pinned->event.page->name_space;
    if (out_len != nullptr) *out_len = text.size();
    return text.c_str();
  });
}

int32_t quire_event_finish_reason(quire_event* event, quire_error** error) {
  return get(event, error, -1, [](const quire::Event& of) { return static_cast<int32_t>(of.reason); });
}

int32_t quire_event_stop_token(quire_event* event, quire_error** error) {
  return get(event, error, -1, [](const quire::Event& of) { return of.stop_token; });
}

const char* quire_event_stop_text(quire_event* event, size_t* out_len, quire_error** error) {
  return borrow_text(event, out_len, error,
                     [](const quire::Event& of) -> const std::string& { return of.stop_string; });
}

int64_t quire_event_prompt_tokens(quire_event* event, quire_error** error) {
  return get(event, error, int64_t{-1},
             [](const quire::Event& of) { return static_cast<int64_t>(of.usage.prompt_tokens); });
}

int64_t quire_event_cached_tokens(quire_event* event, quire_error** error) {
  return get(event, error, int64_t{-1},
             [](const quire::Event& of) { return static_cast<int64_t>(of.usage.cached_tokens); });
}

int64_t quire_event_new_tokens(quire_event* event, quire_error** error) {
  return get(event, error, int64_t{-1},
             [](const quire::Event& of) { return static_cast<int64_t>(of.usage.new_tokens); });
}

int64_t quire_event_draft_tokens(quire_event* event, quire_error** error) {
  return get(event, error, int64_t{-1},
             [](const quire::Event& of) { return static_cast<int64_t>(of.usage.draft_tokens); });
}

int64_t quire_event_accepted_draft_tokens(quire_event* event, quire_error** error) {
  return get(event, error, int64_t{-1},
             [](const quire::Event& of) { return static_cast<int64_t>(of.usage.accepted_draft_tokens); });
}

int64_t quire_event_accepted_by_position(quire_event* event, int64_t* out_counts, size_t out_capacity,
                                         quire_error** error) {
  return get(event, error, int64_t{-1}, [&](const quire::Event& of) {
    return write_counts(of.usage.accepted_by_position, of.usage.draft_tokens > 0, out_counts, out_capacity);
  });
}

int64_t quire_event_preemptions(quire_event* event, quire_error** error) {
  return get(event, error, int64_t{-1},
             [](const quire::Event& of) { return static_cast<int64_t>(of.usage.preemptions); });
}

int64_t quire_event_time_queued_ns(quire_event* event, quire_error** error) {
  return get(event, error, int64_t{-1},
             [](const quire::Event& of) { return static_cast<int64_t>(of.usage.time_queued.count()); });
}

int64_t quire_event_time_prompt_ns(quire_event* event, quire_error** error) {
  return get(event, error, int64_t{-1},
             [](const quire::Event& of) { return static_cast<int64_t>(of.usage.time_prefill.count()); });
}

int64_t quire_event_time_generate_ns(quire_event* event, quire_error** error) {
  return get(event, error, int64_t{-1},
             [](const quire::Event& of) { return static_cast<int64_t>(of.usage.time_generating.count()); });
}

int32_t quire_event_error_code(quire_event* event, quire_error** error) {
  return get(event, error, -1, [](const quire::Event& of) { return static_cast<int32_t>(of.error); });
}

const char* quire_event_error_message(quire_event* event, size_t* out_len, quire_error** error) {
  return borrow_text(event, out_len, error,
                     [](const quire::Event& of) -> const std::string& { return of.message; });
}

const char* quire_event_error_parameter(quire_event* event, size_t* out_len, quire_error** error) {
  if (out_len != nullptr) *out_len = 0;
  return guard(error, static_cast<const char*>(nullptr), [&] {
    const std::string* parameter = Pinned(event, "event")->event.parameter.get();
    if (parameter == nullptr) return "";
    if (out_len != nullptr) *out_len = parameter->size();
    return parameter->c_str();
  });
}

int32_t quire_event_free(quire_event* handle, quire_error** error) {
  return free_handle(handle, error);
}
