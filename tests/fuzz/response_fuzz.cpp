// Any bytes as a response: the first byte chooses the dialect, the second how reasoning begins and where the
// text is split. Checks that no byte is lost, that the result does not depend on the split, and that the
// arguments of a complete call are JSON.
#include <cstdlib>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

#include "core/response/dialect_table.h"
#include "core/response/response_parser.h"

namespace {

bool is_object(const std::string& arguments) {
  return nlohmann::json::parse(arguments, nullptr, false).is_object();
}

std::string events_of(quire::ResponseParser parser, std::string_view text, size_t cut, std::string& raw) {
  std::string events, arguments;
  const auto take = [&] {
    for (const quire::ResponseEvent& event : parser.take()) {
      raw += event.raw;
      if (event.kind == quire::ResponseEvent::Kind::call_begin) arguments.clear();
      if (event.kind == quire::ResponseEvent::Kind::arguments) arguments += event.text;
      if (event.kind == quire::ResponseEvent::Kind::call_end && !is_object(arguments)) std::abort();
      if (event.kind == quire::ResponseEvent::Kind::markup) continue;
      events += event.kind == quire::ResponseEvent::Kind::call_begin ? "<" + event.name + ">" : event.text;
    }
  };
  parser.feed(text.substr(0, cut));
  take();
  parser.feed(text.substr(cut));
  parser.finish();
  take();
  return events;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 2) return 0;
  const auto dialects = quire::all_dialects();
  const quire::Dialect& dialect = *dialects[data[0] % dialects.size()];
  const std::string_view text(reinterpret_cast<const char*>(data) + 2, size - 2);
  const auto start = static_cast<quire::ReasoningStart>(data[1] % 3);
  const auto tools = quire::ToolSet::parse(
      R"([{"name": "go", "parameters": {"properties": {"a": {"type": "string"}, "b": {"type": "object"}}}}])");
  std::string raw;
  const std::string whole = events_of({dialect, tools, start}, text, 0, raw);
  if (raw != text) std::abort();
  const size_t cut = text.empty() ? 0 : data[1] % text.size();
  if (events_of({dialect, tools, start}, text, cut, raw) != whole) std::abort();
  return 0;
}
