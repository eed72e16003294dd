#include "core/tokenizer/gpt2_files.h"

#include <algorithm>

#include "core/base/error.h"
#include "core/base/json.h"

namespace quire {
namespace {

// Converts merges.txt: a version line, then one merge per line.
std::string merges_as_json(std::string_view text) {
  std::string list = "[";
  for (size_t line_number = 1; !text.empty(); ++line_number) {
    std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line.empty() || line.starts_with("#version")) continue;
    if (std::count(line.begin(), line.end(), ' ') != 1) {
      throw Error(ErrorCode::format, "merges.txt line {}: not two tokens with one space between",
                  line_number);
    }
    if (list.size() > 1) list += ',';
    list += json_quoted(line);
  }
  return list + "]";
}

}  // namespace

std::string tokenizer_json_of_gpt2_files(std::string_view vocab_json, std::string_view merges_txt) {
  const JsonValue vocab = parse_json(vocab_json, "vocab.json");
  (void)JsonView(vocab, "vocab.json").members();
  std::string json = R"({"model":{"type":"BPE","vocab":)";
  json.append(vocab_json).append(R"(,"merges":)").append(merges_as_json(merges_txt));
  json +=
      R"(},"pre_tokenizer":{"type":"ByteLevel","add_prefix_space":false},"decoder":{"type":"ByteLevel"}})";
  return json;
}

}  // namespace quire
