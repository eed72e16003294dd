#include "tests/core/constrained/constraint_fixture.h"

#include <fmt/format.h>

#include "tests/support/file_text.h"

namespace quire {

std::shared_ptr<const TokenVocabulary> small_vocabulary() {
  std::vector<std::string> bytes;
  for (int byte = 0; byte < 256; ++byte) bytes.emplace_back(1, static_cast<char>(byte));
  for (const char* word :
       {"\": ",   "\":", "\", \"", "\",\"", "\"}",  "{\"", "[{\"",    "}]",  "true", "false",
        "null",   "the", " the",   "abc",   "foo",  "bar", "name",    "12",  "123",  "00",
        "0.",     "\\u", "\\\"",   "é",     "日本", "}}",  "],",      "], ", "},",   "}, {",
        "\n    ", "[]",  "{}",     "1,",    ",1",   "e+",  "https://"}) {
    bytes.emplace_back(word);
  }
  std::unordered_map<std::string, TokenId> names;
  const auto special = [&](const char* name) {
    names.emplace(name, static_cast<TokenId>(bytes.size()));
    bytes.emplace_back();
    return static_cast<TokenId>(bytes.size() - 1);
  };
  const TokenId eos = special("<eos>");
  special("<think>");
  return std::make_shared<const TokenVocabulary>(std::move(bytes), std::move(names), TokenIds{eos});
}

std::shared_ptr<const Constraint> compile(ConstraintKind kind, std::string_view source) {
  static const auto* const vocabulary = new std::shared_ptr<const TokenVocabulary>(small_vocabulary());
  return Constraint::compile(kind, source, *vocabulary);
}

bool accepts(const std::shared_ptr<const Constraint>& constraint, std::string_view text) {
  Matcher matcher(constraint);
  return matcher.accept_text(text) && matcher.may_end();
}

bool accepts_tokens(const std::shared_ptr<const Constraint>& constraint, std::string_view text) {
  const TokenVocabulary& vocabulary = constraint->vocabulary();
  Matcher matcher(constraint);
  TokenBits mask(vocabulary.num_words());
  while (!text.empty()) {
    TokenId best = -1;
    for (size_t i = 0; i < vocabulary.size(); ++i) {
      const auto id = static_cast<TokenId>(i);
      const std::string_view bytes = vocabulary.bytes(id);
      if (bytes.empty() || text.substr(0, bytes.size()) != bytes) continue;
      if (best < 0 || bytes.size() > vocabulary.bytes(best).size()) best = id;
    }
    matcher.mask(mask);
    const bool allowed = (mask[static_cast<size_t>(best) / 32] >> (best % 32) & 1) != 0;
    const bool accepted = matcher.accept(best);
    if (allowed != accepted)
      throw std::logic_error(fmt::format("the mask ({}) and the step disagree on \"{}\" before {}", allowed,
                                         vocabulary.bytes(best), text));
    if (!accepted) return false;
    text.remove_prefix(vocabulary.bytes(best).size());
  }
  return matcher.may_end();
}

std::string spaced(const Json& value) {
  std::string out;
  if (value.is_array()) {
    for (const Json& item : value) out += (out.empty() ? "" : ", ") + spaced(item);
    return "[" + out + "]";
  }
  if (!value.is_object()) return value.dump(-1, ' ', true);
  for (const auto& [key, member] : value.items())
    out += (out.empty() ? "" : ", ") + Json(key).dump(-1, ' ', true) + ": " + spaced(member);
  return "{" + out + "}";
}

Json read_json_file(const std::string& path) {
  return Json::parse(testing::file_text(path));
}

}  // namespace quire
