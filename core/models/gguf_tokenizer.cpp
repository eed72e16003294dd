#include "core/models/gguf_tokenizer.h"

#include <algorithm>
#include <array>
#include <bit>
#include <functional>
#include <set>

#include "core/base/error.h"
#include "core/models/gguf_pre_tokenizers.h"
#include "core/models/gguf_vocabulary.h"
#include "core/models/json_object.h"

namespace quire {
namespace {

constexpr std::string_view kModel = "tokenizer.ggml.model";
constexpr std::string_view kPre = "tokenizer.ggml.pre";
constexpr std::string_view kSpace = "\xe2\x96\x81";
constexpr std::string_view kByteLevel =
    R"({"type":"ByteLevel","add_prefix_space":false,"trim_offsets":true,"use_regex":false})";

// Tokens with a use of their own. A file may lack them.
struct NamedTokens {
  std::optional<uint64_t> bos;
  std::optional<uint64_t> eos;
  std::optional<uint64_t> pad;
  std::optional<uint64_t> unk;
  bool adds_bos = false;
  bool adds_eos = false;
};

std::string list_of(const std::vector<std::string>& items) {
  std::string list;
  for (const std::string& item : items) list.append(list.empty() ? "" : ",").append(item);
  return "[" + list + "]";
}

std::string pair_json(std::string_view first, std::string_view second) {
  return "[" + json_quoted(first) + "," + json_quoted(second) + "]";
}

// Returns tokens that are found in a text as they are: control tokens where special tokens are allowed, and
// user-defined ones everywhere.
std::string added_tokens_json(const GgufVocabulary& vocabulary) {
  std::vector<std::string> list;
  for (uint64_t id = 0; id < vocabulary.size(); ++id) {
    const GgufTokenType type = vocabulary.type(id);
    const bool is_special = type == GgufTokenType::control || type == GgufTokenType::unknown;
    if ((!is_special && type != GgufTokenType::user_defined) || vocabulary.text(id).empty()) continue;
    JsonObject token;
    token.add("id", static_cast<int64_t>(id));
    token.add("content", vocabulary.text(id));
    token.add("special", is_special);
    token.add("normalized", false);
    list.push_back(token.text());
  }
  return list_of(list);
}

// Returns a template that puts tokens around the text.
std::string template_json(const GgufVocabulary& vocabulary, std::optional<uint64_t> first,
                          std::optional<uint64_t> last) {
  constexpr std::string_view kText = R"({"Sequence":{"id":"A","type_id":0}})";
  std::vector<std::string> pieces;
  JsonObject tokens;
  const auto add = [&](std::optional<uint64_t> id) {
    if (!id) return;
    const std::string name = json_quoted(vocabulary.text(*id));
    pieces.push_back(R"({"SpecialToken":{"id":)" + name + R"(,"type_id":0}})");
    if (id == last && first == last && pieces.size() > 1) return;
    JsonObject token;
    token.add("id", vocabulary.text(*id));
    token.add_list("ids", std::vector<int64_t>{static_cast<int64_t>(*id)});
    token.add_json("tokens", "[" + name + "]");
    tokens.add_json(vocabulary.text(*id), token.text());
  };
  add(first);
  pieces.emplace_back(kText);
  add(last);
  JsonObject processor;
  processor.add("type", "TemplateProcessing");
  processor.add_json("single", list_of(pieces));
  processor.add_json("pair", list_of(pieces));
  processor.add_json("special_tokens", tokens.text());
  return processor.text();
}

std::string post_processor_json(const GgufVocabulary& vocabulary, const NamedTokens& named) {
  const auto if_added = [](bool adds, std::optional<uint64_t> id) { return adds ? id : std::nullopt; };
  return template_json(vocabulary, if_added(named.adds_bos, named.bos), if_added(named.adds_eos, named.eos));
}

// Returns the vocabulary as an object. Throws if two tokens have the same text.
std::string vocabulary_json(const GgufVocabulary& vocabulary,
                            const std::function<std::string(uint64_t id)>& text_of) {
  std::string json = "{";
  for (uint64_t id = 0; id < vocabulary.size(); ++id)
    json.append(id == 0 ? "" : ",").append(json_quoted(text_of(id))).append(":").append(std::to_string(id));
  return json + "}";
}

std::string merges_json(const GgufMetadata& metadata) {
  const GgufValue* const merges = metadata.array("tokenizer.ggml.merges", true);
  if (merges == nullptr)
    throw Error(ErrorCode::unsupported, "{}: \"tokenizer.ggml.merges\" is missing, which BPE needs",
                metadata.source());
  std::string json = "[";
  for (uint64_t i = 0; i < merges->size(); ++i) {
    const std::string_view merge = *merges->text(i);
    const size_t space = merge.find(' ', 1);
    if (space == std::string_view::npos)
      throw Error(ErrorCode::format,
                  "{}: entry {} of \"tokenizer.ggml.merges\" is not two tokens with a space between",
                  metadata.source(), i);
    json.append(i == 0 ? "" : ",").append(pair_json(merge.substr(0, space), merge.substr(space + 1)));
  }
  return json + "]";
}

const GgufPreTokenizer& pre_tokenizer_of(const GgufMetadata& metadata) {
  const bool is_gemma4 = metadata.text(kModel) == "gemma4";
  const std::string_view name = is_gemma4 ? "gemma4" : metadata.text(kPre).value_or("");
  if (const GgufPreTokenizer* const found = find_gguf_pre_tokenizer(name)) return *found;
  throw Error(ErrorCode::unsupported, "{}: \"{}\" is \"{}\", a pre-tokenizer that this build lacks",
              metadata.source(), kPre, printable(name, 32));
}

std::string pre_tokenizer_json(const GgufPreTokenizer& row) {
  std::vector<std::string> steps;
  for (const std::string_view pattern : row.patterns) {
    if (pattern.empty()) continue;
    steps.push_back(R"({"type":"Split","pattern":{"Regex":)" + json_quoted(pattern) +
                    R"(},"behavior":"Isolated","invert":false})");
  }
  if (!row.is_plain_text) steps.emplace_back(kByteLevel);
  return R"({"type":"Sequence","pretokenizers":)" + list_of(steps) + "}";
}

// Returns tokenizer.json of BPE with merges.
std::string bpe_json(const GgufVocabulary& vocabulary, const GgufPreTokenizer& row,
                     const NamedTokens& named) {
  JsonObject model;
  model.add("type", "BPE");
  model.add("ignore_merges", row.takes_whole_words);
  if (row.is_plain_text) {
    model.add("byte_fallback", true);
    model.add("fuse_unk", true);
    if (named.unk) model.add("unk_token", vocabulary.text(*named.unk));
  }
  model.add_json("vocab",
                 vocabulary_json(vocabulary, [&](uint64_t id) { return std::string(vocabulary.text(id)); }));
  model.add_json("merges", merges_json(vocabulary.metadata()));
  JsonObject json;
  json.add("version", "1.0");
  json.add_json("added_tokens", added_tokens_json(vocabulary));
  const std::string space = json_quoted(kSpace);
  if (row.is_plain_text)
    json.add_json("normalizer", R"({"type":"Replace","pattern":{"String":" "},"content":)" + space + "}");
  json.add_json("pre_tokenizer", pre_tokenizer_json(row));
  json.add_json("post_processor", post_processor_json(vocabulary, named));
  json.add_json("decoder", row.is_plain_text
                               ? R"({"type":"Sequence","decoders":[{"type":"Replace","pattern":{"String":)" +
                                     space + R"(},"content":" "},{"type":"ByteFallback"},{"type":"Fuse"}]})"
                               : std::string(kByteLevel));
  json.add_json("model", model.text());
  return json.text();
}

// Returns a token of WordPiece as its vocabulary writes it: GGUF marks the beginning of a word, not the rest.
std::string word_piece(const GgufVocabulary& vocabulary, uint64_t id) {
  const std::string_view text = vocabulary.text(id);
  if (vocabulary.type(id) != GgufTokenType::normal) return std::string(text);
  if (text.starts_with(kSpace)) return std::string(text.substr(kSpace.size()));
  return "##" + std::string(text);
}

std::string bert_json(const GgufVocabulary& vocabulary, const NamedTokens& named) {
  JsonObject model;
  model.add("type", "WordPiece");
  model.add("unk_token", vocabulary.text(named.unk.value_or(0)));
  model.add("continuing_subword_prefix", "##");
  model.add_json("vocab",
                 vocabulary_json(vocabulary, [&](uint64_t id) { return word_piece(vocabulary, id); }));
  JsonObject json;
  json.add("version", "1.0");
  json.add_json("added_tokens", added_tokens_json(vocabulary));
  json.add_json(
      "normalizer",
      R"({"type":"BertNormalizer","clean_text":true,"handle_chinese_chars":true,"lowercase":true})");
  json.add_json("pre_tokenizer", R"({"type":"BertPreTokenizer"})");
  json.add_json("post_processor", template_json(vocabulary, vocabulary.named("cls", named.bos),
                                                vocabulary.named("seperator", 102)));
  json.add_json("decoder", R"({"type":"WordPiece","prefix":"##","cleanup":true})");
  json.add_json("model", model.text());
  return json.text();
}

// Writes the fields of a SentencePiece model (sentencepiece_model.proto).
class ProtobufWriter {
 public:
  void add_varint(uint32_t field, uint64_t value) {
    put_varint(field << 3);
    put_varint(value);
  }
  void add_flag(uint32_t field, bool value) { add_varint(field, value ? 1 : 0); }
  void add_float(uint32_t field, float value) {
    put_varint(field << 3 | 5U);
    const auto bits = std::bit_cast<uint32_t>(value);
    for (int i = 0; i < 4; ++i) text_ += static_cast<char>(bits >> (8 * i) & 0xffU);
  }
  void add_bytes(uint32_t field, std::string_view value) {
    put_varint(field << 3 | 2U);
    put_varint(value.size());
    text_ += value;
  }
  const std::string& text() const { return text_; }

 private:
  void put_varint(uint64_t value) {
    for (; value >= 128; value >>= 7) text_ += static_cast<char>((value & 127U) | 128U);
    text_ += static_cast<char>(value);
  }
  std::string text_;
};

std::string charsmap_of(const GgufMetadata& metadata) {
  std::string bytes;
  const GgufValue* const map = metadata.array("tokenizer.ggml.precompiled_charsmap", false);
  for (uint64_t i = 0; map != nullptr && i < map->size(); ++i)
    bytes += static_cast<char>(map->integer(i).value_or(0));
  return bytes;
}

// Returns a token as a SentencePiece model writes it. Files have spaces in user-defined tokens.
std::string piece_text(const GgufVocabulary& vocabulary, uint64_t id) {
  const std::string_view text = vocabulary.text(id);
  if (vocabulary.type(id) != GgufTokenType::user_defined) return std::string(text);
  std::string piece;
  for (const char c : text) piece += c == ' ' ? kSpace : std::string_view(&c, 1);
  return piece;
}

// Returns a SentencePiece model: BPE by scores, or unigram.
std::string sentencepiece_model(const GgufVocabulary& vocabulary, const NamedTokens& named, bool is_unigram) {
  constexpr uint64_t kUnigram = 1, kBpe = 2;
  const GgufMetadata& metadata = vocabulary.metadata();
  ProtobufWriter file;
  for (uint64_t id = 0; id < vocabulary.size(); ++id) {
    const GgufTokenType type = vocabulary.type(id);
    ProtobufWriter piece;
    piece.add_bytes(1, piece_text(vocabulary, id));
    piece.add_float(2, vocabulary.score(id));
    // Unused tokens are in no text, like control tokens.
    piece.add_varint(3, static_cast<uint64_t>(named.unk == id                  ? GgufTokenType::unknown
                                              : type == GgufTokenType::unused  ? GgufTokenType::control
                                              : type == GgufTokenType::unknown ? GgufTokenType::control
                                                                               : type));
    file.add_bytes(1, piece.text());
  }
  ProtobufWriter trainer;
  trainer.add_varint(3, is_unigram ? kUnigram : kBpe);
  trainer.add_flag(35, !is_unigram);
  constexpr uint64_t kNone = ~uint64_t{0};  // -1
  trainer.add_varint(41, named.bos.value_or(kNone));
  trainer.add_varint(42, named.eos.value_or(kNone));
  trainer.add_varint(43, named.pad.value_or(kNone));
  file.add_bytes(2, trainer.text());
  ProtobufWriter normalizer;
  if (is_unigram) normalizer.add_bytes(2, charsmap_of(metadata));
  normalizer.add_flag(3, metadata.flag("tokenizer.ggml.add_space_prefix").value_or(true));
  normalizer.add_flag(4, metadata.flag("tokenizer.ggml.remove_extra_whitespaces").value_or(false));
  file.add_bytes(3, normalizer.text());
  return file.text();
}

// Returns a named token if its use does not contradict its type.
std::optional<uint64_t> special(const GgufVocabulary& vocabulary, std::string_view name,
                                std::optional<uint64_t> fallback = std::nullopt) {
  const auto id = vocabulary.named(name, fallback);
  const bool is_text =
      id && vocabulary.metadata().has("tokenizer.ggml.token_type") &&
      (vocabulary.type(*id) == GgufTokenType::normal || vocabulary.type(*id) == GgufTokenType::byte);
  return is_text ? std::nullopt : id;
}

NamedTokens named_tokens(const GgufVocabulary& vocabulary, std::string_view model) {
  const bool is_llama = model == "llama", is_t5 = model == "t5", is_bert = model == "bert";
  const auto fallback = [](bool has, uint64_t id) { return has ? std::optional(id) : std::nullopt; };
  NamedTokens named;
  named.bos = special(vocabulary, "bos", is_bert ? std::optional<uint64_t>(101) : fallback(is_llama, 1));
  named.eos = special(vocabulary, "eos", is_t5 ? std::optional<uint64_t>(1) : fallback(is_llama, 2));
  named.pad = special(vocabulary, "padding");
  const uint64_t unknown = is_bert ? 100 : is_t5 ? 2 : 0;
  named.unk = vocabulary.named("unknown", fallback(is_llama || is_t5 || is_bert, unknown));
  const GgufMetadata& metadata = vocabulary.metadata();
  const bool is_bpe = !is_llama && !is_t5 && !is_bert;
  const bool adds_bos = is_bpe ? pre_tokenizer_of(metadata).adds_bos : !is_t5;
  named.adds_bos = metadata.flag("tokenizer.ggml.add_bos_token").value_or(adds_bos);
  named.adds_eos = metadata.flag("tokenizer.ggml.add_eos_token").value_or(is_t5);
  return named;
}

// Adds the chat template, or all of them by name.
void add_chat_templates(const GgufMetadata& metadata, JsonObject& config) {
  constexpr std::string_view kTemplate = "tokenizer.chat_template";
  const auto usual = metadata.text(kTemplate);
  const GgufValue* const names = metadata.array("tokenizer.chat_templates", true);
  if (names == nullptr) {
    if (usual) config.add("chat_template", *usual);
    return;
  }
  std::vector<std::string> list;
  const auto add = [&](std::string_view name, std::string_view text) {
    JsonObject one;
    one.add("name", name);
    one.add("template", text);
    list.push_back(one.text());
  };
  if (usual) add("default", *usual);
  std::set<std::string_view> seen = {"default"};
  for (uint64_t i = 0; i < names->size(); ++i) {
    const std::string_view name = *names->text(i);
    const auto text = metadata.text(fmt::format("{}.{}", kTemplate, name));
    if (text && seen.insert(name).second) add(name, *text);
  }
  if (!list.empty()) config.add_json("chat_template", list_of(list));
}

std::string tokenizer_config(const GgufVocabulary& vocabulary, const NamedTokens& named) {
  JsonObject config;
  const auto add = [&](std::string_view name, std::optional<uint64_t> id) {
    if (id && !vocabulary.text(*id).empty()) config.add(name, vocabulary.text(*id));
  };
  add("bos_token", named.bos);
  add("eos_token", named.eos);
  add("pad_token", named.pad);
  config.add("add_bos_token", named.adds_bos);
  config.add("add_eos_token", named.adds_eos);
  add_chat_templates(vocabulary.metadata(), config);
  return config.text();
}

}  // namespace

bool has_gguf_tokenizer(const GgufMetadata& metadata) {
  const std::string_view model = metadata.text(kModel).value_or("none");
  return model != "none" && model != "no_vocab";
}

std::string gguf_tokenizer_config(const GgufMetadata& metadata) {
  const GgufVocabulary vocabulary(metadata);
  return tokenizer_config(vocabulary, named_tokens(vocabulary, metadata.require_text(kModel)));
}

TokenizerTexts gguf_tokenizer(const GgufMetadata& metadata) {
  const std::string_view model = metadata.require_text(kModel);
  const GgufVocabulary vocabulary(metadata);
  TokenizerTexts texts;
  const bool is_bpe = model == "gpt2" || model == "gemma4";
  if (!is_bpe && model != "llama" && model != "t5" && model != "bert") {
    throw Error(ErrorCode::unsupported,
                "{}: \"{}\" is \"{}\"; supported are gpt2, llama, t5, bert and gemma4", metadata.source(),
                kModel, printable(model, 32));
  }
  const NamedTokens named = named_tokens(vocabulary, model);
  if (is_bpe) {
    texts.tokenizer_json = bpe_json(vocabulary, pre_tokenizer_of(metadata), named);
  } else if (model == "bert") {
    texts.tokenizer_json = bert_json(vocabulary, named);
  } else {
    texts.model = sentencepiece_model(vocabulary, named, model == "t5");
    texts.model_name = metadata.source();
  }
  texts.tokenizer_config_json = tokenizer_config(vocabulary, named);
  return texts;
}

}  // namespace quire
