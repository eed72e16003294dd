// Answers reassembled from their events, for tests.
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
// Returns a line for each event; adjacent events of the same kind are joined.
std::string describe(const std::vector<ResponseEvent>& events);

// An answer and everything needed to parse it.
struct Answer {
  const Dialect* dialect = nullptr;
  std::string tools;
  ReasoningStart start = ReasoningStart::closed;
  std::string prompt;
  std::string text;

  ResponseParser parser() const;
};

std::vector<ResponseEvent> events_of(const Answer& answer);
// Returns the events of a text that arrives in pieces of these sizes, followed by the rest. Events are taken
// after each piece.
std::vector<ResponseEvent> events_in_pieces(const Answer& answer, const std::vector<size_t>& sizes);

}  // namespace quire
