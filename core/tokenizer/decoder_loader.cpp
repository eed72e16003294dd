#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/tokenizer/component_json.h"
#include "core/tokenizer/component_loader.h"

namespace quire {
namespace {

constexpr int64_t kMaxStripped = 1024;  // most characters that a stream may have to hold
constexpr size_t kMaxReplacedBytes = 64;

// Loader of the list of steps. After tokens are joined, a step sees text instead of tokens; not all steps can
// do that on a stream.
class StepLoader {
 public:
  void add(const JsonView& json) {
    const std::string type = type_of(json);
    if (type == "Fuse") {
      refuse_unknown_keys(json, {"type"});
      joined_ = true;
    } else if (type == "Replace") {
      add_replace(json);
    } else if (type == "Strip") {
      add_strip(json);
    } else if (type == "Metaspace") {
      add_metaspace(json);
    } else {
      add_for_tokens(json, type);
    }
  }
  StepDecoder::Steps take() { return std::move(steps_); }

 private:
  void add_replace(const JsonView& json) {
    refuse_unknown_keys(json, {"type", "pattern", "content"});
    const JsonView pattern = json.at("pattern");
    const std::string& content = json.at("content").as_string();
    require_short(pattern.where(), literal_pattern(pattern).value_or(""));
    require_short(json.where() + ".content", content);
    if (auto literal = literal_pattern(pattern)) {
      using Over = LiteralReplaceStep::Over;
      steps_.push_back(std::make_unique<LiteralReplaceStep>(std::move(*literal), content,
                                                            joined_ ? Over::text : Over::token));
      return;
    }
    require_tokens(json);
    steps_.push_back(std::make_unique<ReplaceStep>(load_regex(pattern), content));
  }

  void add_strip(const JsonView& json) {
    refuse_unknown_keys(json, {"type", "content", "start", "stop"});
    using Over = StripStep::Over;
    StripStep::Options options;
    options.content = load_character(json.at("content"));
    options.start = static_cast<size_t>(json.at("start").as_int(0, kMaxStripped));
    options.stop = static_cast<size_t>(json.at("stop").as_int(0, kMaxStripped));
    steps_.push_back(std::make_unique<StripStep>(std::move(options), joined_ ? Over::text : Over::token));
  }

  void add_metaspace(const JsonView& json) {
    refuse_unknown_keys(json,
                        {"type", "replacement", "str_rep", "prepend_scheme", "add_prefix_space", "split"});
    const std::string scheme =
        json.string_or("prepend_scheme", json.bool_or("add_prefix_space", true) ? "always" : "never");
    const bool drops_first = scheme != "never";
    if (drops_first) require_tokens(json);
    steps_.push_back(std::make_unique<MetaspaceStep>(load_character(json.at("replacement")), drops_first));
  }

  void add_for_tokens(const JsonView& json, const std::string& type) {
    if (type == "ByteLevel") {
      refuse_unknown_keys(json, {"type", "add_prefix_space", "trim_offsets", "use_regex"});
      steps_.push_back(std::make_unique<ByteLevelStep>());
    } else if (type == "ByteFallback") {
      refuse_unknown_keys(json, {"type"});
      steps_.push_back(std::make_unique<ByteFallbackStep>());
    } else if (type == "WordPiece") {
      refuse_unknown_keys(json, {"type", "prefix", "cleanup"});
      steps_.push_back(
          std::make_unique<WordPieceStep>(json.at("prefix").as_string(), json.bool_or("cleanup", true)));
    } else if (type == "BPEDecoder") {
      refuse_unknown_keys(json, {"type", "suffix"});
      steps_.push_back(std::make_unique<WordSuffixStep>(filled(json.at("suffix"))));
    } else if (type == "CTC") {
      refuse_unknown_keys(json, {"type", "pad_token", "word_delimiter_token", "cleanup"});
      steps_.push_back(std::make_unique<CtcStep>(CtcStep::Options{filled(json.at("pad_token")),
                                                                  filled(json.at("word_delimiter_token")),
                                                                  json.bool_or("cleanup", true)}));
    } else {
      refuse_type(json);
    }
    require_tokens(json);
    joined_ = joined_ || type == "ByteLevel";
  }

  void require_tokens(const JsonView& json) const {
    if (!joined_) return;
    throw Error(ErrorCode::unsupported, "{}: this step is not supported after a step that joins tokens",
                json.where());
  }

  // Limits the size of patterns and replacements: a stream holds text that may be a pattern, and replacements
  // must not expand it much.
  static void require_short(const std::string& where, const std::string& text) {
    if (text.size() <= kMaxReplacedBytes) return;
    throw Error(ErrorCode::unsupported, "{}: {} bytes, more than {}", where, text.size(), kMaxReplacedBytes);
  }

  static std::string filled(const JsonView& json) {
    if (json.as_string().empty()) {
      throw Error(ErrorCode::unsupported, "{}: an empty string is not supported", json.where());
    }
    return json.as_string();
  }

  StepDecoder::Steps steps_;
  bool joined_ = false;
};

}  // namespace

std::unique_ptr<Decoder> load_decoder(const JsonView& json, const Vocabulary& vocabulary) {
  StepLoader loader;
  const std::vector<JsonView> items = flatten(json, "decoders");
  bool only_bytes = !items.empty() && type_of(items[0]) == "ByteLevel";
  for (size_t i = 0; i < items.size(); ++i) {
    loader.add(items[i]);
    only_bytes = only_bytes && (i == 0 || type_of(items[i]) == "Fuse");
  }
  if (only_bytes) return std::make_unique<ByteLevelDecoder>(vocabulary);
  return std::make_unique<StepDecoder>(vocabulary, loader.take());
}

}  // namespace quire
