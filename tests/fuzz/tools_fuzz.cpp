// Any text as the tools of a request: the first byte chooses the dialect, the second whether a call is
// required, several may follow each other, and how reasoning begins. The result is an Error with a message,
// or a constraint whose masks agree with its steps.
#include <cstdint>
#include <string>
#include <string_view>

#include "core/response/dialect_table.h"
#include "core/response/response_grammar.h"
#include "tests/fuzz/constraint_walk.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t num_bytes) {
  if (num_bytes < 2) return 0;
  const auto dialects = quire::all_dialects();
  const quire::Dialect& dialect = *dialects[data[0] % dialects.size()];
  const std::string_view tools(reinterpret_cast<const char*>(data) + 2, num_bytes - 2);
  const bool is_required = (data[1] & 1) != 0;
  const bool is_parallel = (data[1] & 2) != 0;
  quire::fuzz::walk_grammar([&] {
    const std::string request = std::string(R"({"dialect": "auto", "tool_choice": ")") +
                                (is_required ? "required" : "auto") + R"(", "parallel_tool_calls": )" +
                                (is_parallel ? "true" : "false") + R"(, "tools": )" + std::string(tools) +
                                "}";
    quire::ResponseRules rules = quire::parse_response_rules(request, dialect);
    rules.reasoning = static_cast<quire::ReasoningStart>((data[1] >> 2) % 3);
    return quire::response_grammar(rules, {{"<think>", 294}});
  });
  return 0;
}
