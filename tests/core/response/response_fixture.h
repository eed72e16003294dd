// Answers put together again from their events, for tests.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/response/dialect_table.h"
#include "core/response/response_parser.h"
#include "tests/support/json_text.h"

namespace quire {

using testing::Json;

struct ReadCall {
  std::string name;
  std::string id;
  std::string arguments;
  bool ended = false;
};

struct ReadResponse {
  std::string content;
  std::string reasoning;
  std::string raw;
  std::string raw_after_reasoning;
  std::vector<ReadCall> calls;
};

ReadResponse read_events(const std::vector<ResponseEvent>& events);
// A line for each event, with neighbours of one kind joined.
std::string describe(const std::vector<ResponseEvent>& events);

// One text and all that its reading needs.
struct Answer {
  const Dialect* dialect = nullptr;
  std::string tools;
  ReasoningStart start = ReasoningStart::closed;
  std::string prompt;
  std::string text;

  ResponseParser parser() const;
};

std::vector<ResponseEvent> events_of(const Answer& answer);
// The events where the text comes in pieces of these sizes, the rest at last, and events are taken in
// between.
std::vector<ResponseEvent> events_in_pieces(const Answer& answer, const std::vector<size_t>& sizes);

}  // namespace quire
