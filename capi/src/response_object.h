// Object of a quire_response_parser.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "capi/src/handle.h"
#include "core/base/mutex.h"
#include "core/response/dialect.h"
#include "core/response/response_parser.h"

namespace quire::capi {

// State of a parser: settings, the parser created from them at the first byte, and the events taken from it.
struct ResponseState {
  explicit ResponseState(const Dialect& the_dialect) : dialect(&the_dialect) {}

  ResponseParser& begun() {
    if (!parser) {
      ResponseParser made(*dialect, tools, reasoning);
      if (!prompt.empty()) made.follow(prompt);
      parser = std::move(made);
    }
    return *parser;
  }

  // Applies `act` to the parser. If it fails, the state is as before, so the call can be repeated.
  template <typename Act>
  void change_parser(Act&& act) {
    ResponseParser changed = begun();
    act(changed);
    static_assert(std::is_nothrow_move_assignable_v<ResponseParser>);
    *parser = std::move(changed);
  }

  const Dialect* dialect;
  ToolSet tools;
  ReasoningStart reasoning = ReasoningStart::closed;
  std::string prompt;
  std::optional<ResponseParser> parser;
  bool finished = false;
  std::vector<ResponseEvent> events;
  size_t num_shown = 0;  // the last of these is the current event
};

struct ResponseParserObject final : Object {
  explicit ResponseParserObject(const Dialect& dialect) : state(dialect) {}
  Mutex mutex;
  ResponseState state QUIRE_GUARDED_BY(mutex);
};

template <>
struct HandleTraits<quire_response_parser> {
  using Object = ResponseParserObject;
  static constexpr HandleType type = HandleType::response_parser;
};

}  // namespace quire::capi
