// Any text as a response format, structural tags among them: the first byte chooses the dialect. The result
// is an Error with a message, or a constraint whose masks agree with its steps.
#include <cstdint>
#include <string>
#include <string_view>

#include "core/response/dialect_table.h"
#include "core/response/response_grammar.h"
#include "tests/fuzz/constraint_walk.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t num_bytes) {
  if (num_bytes == 0) return 0;
  const auto dialects = quire::all_dialects();
  const quire::Dialect& dialect = *dialects[data[0] % dialects.size()];
  const std::string_view format(reinterpret_cast<const char*>(data) + 1, num_bytes - 1);
  quire::fuzz::walk_grammar([&] {
    const std::string request = R"({"dialect": "auto", "response_format": )" + std::string(format) + "}";
    return quire::response_grammar(quire::parse_response_rules(request, dialect), {{"<think>", 294}});
  });
  return 0;
}
