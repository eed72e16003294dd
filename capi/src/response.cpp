#include <memory>
#include <utility>

#include <quire/response.h>

#include "capi/src/arguments.h"
#include "capi/src/chat_object.h"
#include "capi/src/constraint_object.h"
#include "capi/src/guard.h"
#include "capi/src/model_object.h"
#include "capi/src/response_object.h"
#include "core/engine/requests/answer_reader.h"
#include "core/response/dialect_table.h"
#include "core/response/response_grammar.h"

using namespace quire::capi;
using quire::Dialect;
using quire::Error;
using quire::ErrorCode;
using quire::MutexLock;
using quire::ReasoningStart;
using quire::ResponseEvent;

namespace {

#define QUIRE_SAME_VALUE(NAME, value) \
  static_assert(QUIRE_RESPONSE_##NAME == static_cast<int32_t>(ResponseEvent::Kind::value))
QUIRE_SAME_VALUE(TEXT, text);
QUIRE_SAME_VALUE(REASONING, reasoning);
QUIRE_SAME_VALUE(CALL_BEGIN, call_begin);
QUIRE_SAME_VALUE(ARGUMENTS, arguments);
QUIRE_SAME_VALUE(CALL_END, call_end);
QUIRE_SAME_VALUE(MARKUP, markup);
#undef QUIRE_SAME_VALUE

// Changes a setting of a parser that has not begun.
template <typename Change>
int32_t change(quire_response_parser* parser, quire_error** error, Change&& apply) {
  return guard(error, 0, [&] {
    const Pinned pinned(parser, "parser");
    const MutexLock lock(pinned->mutex);
    if (pinned->state.parser) {
      throw Error(ErrorCode::invalid_argument,
                  "parser: it has begun to parse; make settings before the first byte")
          .at("parser");
    }
    apply(pinned->state);
    return 1;
  });
}

const ResponseEvent& shown(const ResponseState& state) {
  if (state.num_shown == 0) {
    throw Error(ErrorCode::invalid_argument,
                "parser: there is no current event; call quire_response_parser_next first")
        .at("parser");
  }
  return state.events[state.num_shown - 1];
}

template <typename Value, typename Read>
Value of_event(quire_response_parser* parser, quire_error** error, Read&& read) {
  return guard(error, static_cast<Value>(-1), [&] {
    const Pinned pinned(parser, "parser");
    const MutexLock lock(pinned->mutex);
    return static_cast<Value>(read(shown(pinned->state)));
  });
}

int64_t text_of_event(quire_response_parser* parser, std::string ResponseEvent::*member, char* out_text,
                      size_t out_capacity, quire_error** error) {
  return guard(error, int64_t{-1}, [&] {
    const Pinned pinned(parser, "parser");
    const OutArgument<char> out(out_text, out_capacity, "out_text");
    const MutexLock lock(pinned->mutex);
    const std::string& text = shown(pinned->state).*member;
    return out.write({text.data(), text.size()});
  });
}

}  // namespace

int64_t quire_response_dialects(char* out_text, size_t out_capacity, quire_error** error) {
  return guard(error, int64_t{-1}, [&] {
    std::string names;
    for (const Dialect* dialect : quire::all_dialects()) names += std::string(dialect->name) + "\n";
    return write_text(names, out_text, out_capacity);
  });
}

int64_t quire_response_detect(quire_chat_template* chat, quire_model* model, char* out_text,
                              size_t out_capacity, quire_error** error) {
  return guard(error, int64_t{-1}, [&] {
    const quire::ChatTemplates templates = Pinned(chat, "chat")->share();
    const auto write = [&](const quire::Tokenizer* tokenizer) {
      return write_text(std::string(quire::detect_dialect(&templates, tokenizer).name), out_text,
                        out_capacity);
    };
    if (model == nullptr) return write(nullptr);
    return write(&Pinned(model, "model")->share->model->tokenizer());
  });
}

quire_response_parser* quire_response_parser_create(const char* text, size_t text_len, quire_error** error) {
  return guard(error, static_cast<quire_response_parser*>(nullptr), [&] {
    return make_handle<quire_response_parser>(quire::with_parameter(
        "text", [&]() -> const Dialect& { return quire::find_dialect(text_argument(text, text_len)); }));
  });
}

int32_t quire_response_parser_set_tools(quire_response_parser* parser, const char* text, size_t text_len,
                                        quire_error** error) {
  return change(parser, error, [&](ResponseState& state) {
    state.tools = quire::ToolSet::parse(text_argument(text, text_len));
  });
}

int32_t quire_response_parser_set_reasoning(quire_response_parser* parser, int32_t reasoning,
                                            quire_error** error) {
  return change(parser, error, [&](ResponseState& state) {
    range_argument(reasoning, QUIRE_REASONING_CLOSED, QUIRE_REASONING_OFF, "reasoning");
    state.reasoning = static_cast<ReasoningStart>(reasoning);
  });
}

int32_t quire_response_parser_set_prompt(quire_response_parser* parser, const char* text, size_t text_len,
                                         quire_error** error) {
  return change(parser, error,
                [&](ResponseState& state) { state.prompt = std::string(text_argument(text, text_len)); });
}

int32_t quire_response_parser_feed(quire_response_parser* parser, const char* text, size_t text_len,
                                   quire_error** error) {
  return guard(error, 0, [&] {
    const Pinned pinned(parser, "parser");
    const auto bytes = text_argument(text, text_len);
    const MutexLock lock(pinned->mutex);
    if (pinned->state.finished)
      throw Error(ErrorCode::invalid_argument, "parser: the answer has been finished; create another parser")
          .at("parser");
    pinned->state.change_parser([&](quire::ResponseParser& parsing) { parsing.feed(bytes); });
    return 1;
  });
}

int32_t quire_response_parser_finish(quire_response_parser* parser, quire_error** error) {
  return guard(error, 0, [&] {
    const Pinned pinned(parser, "parser");
    const MutexLock lock(pinned->mutex);
    if (!pinned->state.finished)
      pinned->state.change_parser([](quire::ResponseParser& parsing) { parsing.finish(); });
    pinned->state.finished = true;
    return 1;
  });
}

int32_t quire_response_parser_next(quire_response_parser* parser, quire_error** error) {
  return guard(error, -1, [&] {
    const Pinned pinned(parser, "parser");
    const MutexLock lock(pinned->mutex);
    if (pinned->state.num_shown == pinned->state.events.size()) {
      pinned->state.events = pinned->state.begun().take();
      pinned->state.num_shown = 0;
    }
    if (pinned->state.events.empty()) return 0;
    ++pinned->state.num_shown;
    return 1;
  });
}

int32_t quire_response_parser_kind(quire_response_parser* parser, quire_error** error) {
  return of_event<int32_t>(parser, error, [](const ResponseEvent& event) { return event.kind; });
}

int64_t quire_response_parser_call_index(quire_response_parser* parser, quire_error** error) {
  return of_event<int64_t>(parser, error, [](const ResponseEvent& event) {
    return event.is_of_call() ? int64_t{event.call_idx} : int64_t{-1};
  });
}

int64_t quire_response_parser_text(quire_response_parser* parser, char* out_text, size_t out_capacity,
                                   quire_error** error) {
  return text_of_event(parser, &ResponseEvent::text, out_text, out_capacity, error);
}

int64_t quire_response_parser_raw(quire_response_parser* parser, char* out_text, size_t out_capacity,
                                  quire_error** error) {
  return text_of_event(parser, &ResponseEvent::raw, out_text, out_capacity, error);
}

int64_t quire_response_parser_name(quire_response_parser* parser, char* out_text, size_t out_capacity,
                                   quire_error** error) {
  return text_of_event(parser, &ResponseEvent::name, out_text, out_capacity, error);
}

int64_t quire_response_parser_id(quire_response_parser* parser, char* out_text, size_t out_capacity,
                                 quire_error** error) {
  return text_of_event(parser, &ResponseEvent::id, out_text, out_capacity, error);
}

quire_constraint* quire_response_constraint_create(quire_model* model, const char* text, size_t text_len,
                                                   quire_error** error) {
  return guard(error, static_cast<quire_constraint*>(nullptr), [&] {
    const Pinned pinned(model, "model");
    const ModelShare& share = *pinned->share;
    auto rules = std::make_shared<quire::ResponseRules>(quire::with_parameter("text", [&] {
      return quire::parse_response_rules(text_argument(text, text_len), dialect_of(share));
    }));
    quire::ConstraintChoice made{compile_rules(share, *rules, quire::kDrawnForm), share.model->path(),
                                 nullptr};
    if (!rules->reasoning) made.rules = std::move(rules);
    return make_handle<quire_constraint>(std::move(made), share.constraints->cache_of(*share.model));
  });
}

int32_t quire_response_parser_free(quire_response_parser* handle, quire_error** error) {
  return free_handle(handle, error);
}
