// Any bytes as a file of SentencePiece, tiktoken or tekken, and a text after the last 0xFF: a load fails
// with a one-line Error, or the tokenizer encodes and decodes.
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "core/base/error.h"
#include "core/base/utf8.h"
#include "core/tokenizer/detokenizer.h"
#include "core/tokenizer/tokenizer.h"

namespace quire {
namespace {

void require(bool condition) {
  if (!condition) std::abort();
}

void run(std::string_view model, std::string_view text) {
  TokenizerFiles files;
  files.model = model;
  files.model_name = "tokenizer.model";
  files.tokenizer_config_json = R"({"tokenizer_class": "GPT2Tokenizer"})";
  const auto tokenizer = Tokenizer::load(files);
  const TokenIds ids = tokenizer->encode(text, {true, true});
  Detokenizer detokenizer(*tokenizer, false);
  std::string streamed;
  for (const TokenId id : ids) {
    require(tokenizer->contains(id));
    detokenizer.push(id, streamed);
    require(find_invalid_utf8(streamed) == streamed.size());
  }
  detokenizer.finish(streamed);
  require(streamed == tokenizer->decode(ids, false));
}

}  // namespace
}  // namespace quire

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t num_bytes) {
  const std::string_view input(reinterpret_cast<const char*>(data), num_bytes);
  const size_t border = input.rfind('\xff');
  const std::string_view text =
      border == std::string_view::npos ? std::string_view{} : input.substr(border + 1);
  try {
    quire::run(input.substr(0, border), text);
  } catch (const quire::Error& error) {
    if (error.code() == quire::ErrorCode::internal ||
        std::string_view(error.what()).find('\n') != std::string_view::npos) {
      std::abort();
    }
  }
  return 0;
}
