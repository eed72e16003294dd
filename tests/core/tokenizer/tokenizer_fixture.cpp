#include "tests/core/tokenizer/tokenizer_fixture.h"

#include "core/base/file_system.h"
#include "core/base/utf8.h"
#include "core/tokenizer/byte_alphabet.h"

namespace quire {

std::string read_golden(const std::string& name) {
  return posix_file_system().read_text(std::string(QUIRE_TEST_DATA) + "/tokenizers/" + name, 64U << 20);
}

std::shared_ptr<const Tokenizer> load_golden(const std::string& kind) {
  const std::string text = read_golden(kind + "/tokenizer.json");
  return Tokenizer::load({text, {}, {}, {}});
}

Json tiny_tokenizer(const std::vector<std::pair<std::string, std::string>>& merges) {
  Json vocab = Json::object();
  for (int byte = 0; byte < 256; ++byte) {
    std::string spelling;
    append_utf8(spelling, byte_to_code_point(static_cast<uint8_t>(byte)));
    vocab[spelling] = byte;
  }
  Json list = Json::array();
  int next_id = 256;
  for (const auto& [left, right] : merges) {
    list.push_back({left, right});
    if (!vocab.contains(left + right)) vocab[left + right] = next_id++;
  }
  const Json byte_level = {
      {"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}, {"use_regex", false}};
  return {{"version", "1.0"},
          {"added_tokens", Json::array()},
          {"normalizer", nullptr},
          {"pre_tokenizer", byte_level},
          {"post_processor", nullptr},
          {"decoder", byte_level},
          {"model", {{"type", "BPE"}, {"vocab", vocab}, {"merges", list}}}};
}

Json added_token(int id, const std::string& content, bool special) {
  return {{"id", id},        {"content", content},  {"single_word", false}, {"lstrip", false},
          {"rstrip", false}, {"normalized", false}, {"special", special}};
}

std::shared_ptr<const Tokenizer> load_json(const Json& json) {
  const std::string text = json.dump();
  return Tokenizer::load({text, {}, {}, {}});
}

std::string utf8(std::u32string_view code_points) {
  std::string text;
  for (const char32_t code_point : code_points) append_utf8(text, code_point);
  return text;
}

}  // namespace quire
