// Any bytes as tokenizer.json and a text: a load fails with an Error, or the tokenizer meets its
// specification. The first byte selects how the rest is read: even, as a whole file; odd, as members to put
// into a small valid file. After the file comes a NUL, and then the text.
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "core/base/error.h"
#include "core/base/utf8.h"
#include "core/tokenizer/byte_alphabet.h"
#include "core/tokenizer/detokenizer.h"
#include "core/tokenizer/tokenizer.h"
#include "tests/support/json_text.h"

namespace quire {
namespace {

using testing::Json;

void require(bool condition) {
  if (!condition) std::abort();
}

Json small_file() {
  Json vocab = Json::object();
  for (int byte = 0; byte < 256; ++byte) {
    std::string spelling;
    append_utf8(spelling, byte_to_code_point(static_cast<uint8_t>(byte)));
    vocab[spelling] = byte;
  }
  const Json byte_level = {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", false}};
  return {{"pre_tokenizer", byte_level},
          {"decoder", byte_level},
          {"model", {{"type", "BPE"}, {"vocab", vocab}, {"merges", Json::array()}}}};
}

void put_members(const Json& members, Json& target) {
  for (const auto& item : members.items()) {
    Json& member = target[item.key()];
    const bool inner = item.key() == "model" || item.key() == "vocab";
    if (inner && member.is_object() && item.value().is_object()) {
      put_members(item.value(), member);
    } else {
      member = item.value();
    }
  }
}

std::string file_from_members(std::string_view text) {
  // Rejects invalid JSON and excessive depth.
  (void)parse_json(text, "members", {1U << 20, 32});
  const Json members = Json::parse(text);
  static const Json* const small = new Json(small_file());
  Json file = *small;
  if (members.is_object()) put_members(members, file);
  return file.dump();
}

void check_ids(const Tokenizer& tokenizer, const TokenIds& ids) {
  for (const TokenId id : ids) require(tokenizer.contains(id));
  const std::string text = tokenizer.decode(ids, false);
  require(find_invalid_utf8(text) == text.size());
  Detokenizer detokenizer(tokenizer, false);
  std::string pushed;
  for (const TokenId id : ids) {
    detokenizer.push(id, pushed);
    require(find_invalid_utf8(pushed) == pushed.size());
  }
  detokenizer.finish(pushed);
  require(pushed == text);
}

bool stands_alone(const Tokenizer& tokenizer, TokenId id, const std::string& json) {
  const std::string_view text = tokenizer.token_text(id);
  if (decode_utf8(text, 0).length == text.size() || text.starts_with("<0x")) return true;
  return json.find("unk") != std::string::npos || json.find("prefix") != std::string::npos ||
         json.find("suffix") != std::string::npos || Json::parse(json)["model"].value("type", "") != "BPE";
}

void run(std::string_view file, bool whole, std::string_view text) {
  const std::string json = whole ? std::string(file) : file_from_members(file);
  const auto tokenizer = Tokenizer::load({json, {}, {}, {}});
  check_ids(*tokenizer, tokenizer->encode(text, {true, true}));
  const TokenIds plain = tokenizer->encode(text, {false, false});
  check_ids(*tokenizer, plain);
  for (const TokenId id : plain) {
    // A special token may only be used for text without another encoding: one character, or unknown text.
    require(!tokenizer->is_special(id) || stands_alone(*tokenizer, id, json));
  }
  const TextSpan spans[] = {{text, false}, {text, true}};
  check_ids(*tokenizer, tokenizer->encode_spans(spans, true));
}

}  // namespace
}  // namespace quire

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t num_bytes) {
  if (num_bytes == 0) return 0;
  const std::string_view input(reinterpret_cast<const char*>(data) + 1, num_bytes - 1);
  const size_t nul = input.find('\0');
  const std::string_view file = input.substr(0, nul);
  const std::string_view text = nul == std::string_view::npos ? std::string_view{} : input.substr(nul + 1);
  try {
    quire::run(file, data[0] % 2 == 0, text);
  } catch (const quire::Error& error) {
    if (error.code() == quire::ErrorCode::internal ||
        std::string_view(error.what()).find('\n') != std::string_view::npos) {
      std::abort();
    }
  }
  return 0;
}
