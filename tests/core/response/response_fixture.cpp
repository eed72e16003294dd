#include "tests/core/response/response_fixture.h"

#include <gtest/gtest.h>

namespace quire {
namespace {

void append(std::vector<ResponseEvent>& events, std::vector<ResponseEvent> more) {
  for (ResponseEvent& event : more) events.push_back(std::move(event));
}

const char* kind_name(ResponseEvent::Kind kind) {
  constexpr const char* kNames[] = {"text", "reasoning", "call_begin", "arguments", "call_end", "markup"};
  return kNames[static_cast<size_t>(kind) - 1];
}

}  // namespace

ReadResponse read_events(const std::vector<ResponseEvent>& events) {
  ReadResponse response;
  for (const ResponseEvent& event : events) {
    response.raw += event.raw;
    response.raw_after_reasoning += event.raw;
    switch (event.kind) {
      case ResponseEvent::Kind::text:
        response.content += event.text;
        break;
      case ResponseEvent::Kind::reasoning:
        response.reasoning += event.text;
        response.raw_after_reasoning.clear();
        break;
      case ResponseEvent::Kind::call_begin:
        EXPECT_EQ(event.call_idx, response.calls.size());
        response.calls.push_back({event.name, event.id, "", false});
        break;
      case ResponseEvent::Kind::arguments:
        response.calls.at(event.call_idx).arguments += event.text;
        break;
      case ResponseEvent::Kind::call_end:
        response.calls.at(event.call_idx).id = event.id;
        response.calls.at(event.call_idx).ended = true;
        break;
      case ResponseEvent::Kind::markup:
        EXPECT_EQ(event.text, "");
        break;
    }
  }
  return response;
}

std::string describe(const std::vector<ResponseEvent>& events) {
  std::string lines;
  ResponseEvent joined;
  const auto flush = [&] {
    if (joined.raw.empty() && joined.text.empty() && joined.name.empty()) return;
    lines += std::string(kind_name(joined.kind)) + " " + std::to_string(joined.call_idx) + " [" +
             joined.text + "] [" + joined.raw + "] " + joined.name + " " + joined.id + "\n";
  };
  for (const ResponseEvent& event : events) {
    const bool is_piece =
        event.kind != ResponseEvent::Kind::call_begin && event.kind != ResponseEvent::Kind::call_end;
    if (is_piece && event.kind == joined.kind && event.call_idx == joined.call_idx) {
      joined.text += event.text;
      joined.raw += event.raw;
    } else {
      flush();
      joined = event;
    }
  }
  flush();
  return lines;
}

ResponseParser Answer::parser() const {
  ResponseParser parser(*dialect, ToolSet::parse(tools), start);
  if (!prompt.empty()) parser.follow(prompt);
  return parser;
}

std::vector<ResponseEvent> events_of(const Answer& answer) {
  return events_in_pieces(answer, {});
}

std::vector<ResponseEvent> events_in_pieces(const Answer& answer, const std::vector<size_t>& sizes) {
  ResponseParser parser = answer.parser();
  std::vector<ResponseEvent> events;
  std::string_view rest = answer.text;
  for (const size_t size : sizes) {
    parser.feed(rest.substr(0, size));
    rest.remove_prefix(std::min(size, rest.size()));
    append(events, parser.take());
  }
  parser.feed(rest);
  parser.finish();
  append(events, parser.take());
  return events;
}

}  // namespace quire
