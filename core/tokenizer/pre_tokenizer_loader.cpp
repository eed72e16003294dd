#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/tokenizer/code_point_classes.h"
#include "core/tokenizer/component_json.h"
#include "core/tokenizer/component_loader.h"
#include "core/tokenizer/unicode_text.h"

namespace quire {
namespace {

using Steps = std::vector<std::unique_ptr<PreTokenizer>>;

constexpr int64_t kMaxFixedLength = int64_t{1} << 30;

SplitBehavior load_behavior(const JsonView& json) {
  const std::string& name = json.as_string();
  if (name == "Isolated") return SplitBehavior::isolated;
  if (name == "Removed") return SplitBehavior::removed;
  if (name == "MergedWithPrevious") return SplitBehavior::merged_with_previous;
  if (name == "MergedWithNext") return SplitBehavior::merged_with_next;
  if (name == "Contiguous") return SplitBehavior::contiguous;
  throw Error(ErrorCode::unsupported, "{}: \"{}\" is not supported", json.where(), printable(name));
}

void load_byte_level(const JsonView& json, Steps& steps) {
  refuse_unknown_keys(json, {"type", "add_prefix_space", "trim_offsets", "use_regex"});
  if (json.bool_or("add_prefix_space", true)) steps.push_back(std::make_unique<PrefixSpacePreTokenizer>());
  if (json.bool_or("use_regex", true)) {
    steps.push_back(std::make_unique<SplitPreTokenizer>(Regex(byte_level_pattern(), json.where()),
                                                        SplitBehavior::isolated, false));
  }
}

void load_split(const JsonView& json, Steps& steps) {
  refuse_unknown_keys(json, {"type", "pattern", "behavior", "invert"});
  const JsonView pattern = json.at("pattern");
  const SplitBehavior behavior = load_behavior(json.at("behavior"));
  const bool invert = json.bool_or("invert", false);
  if (auto literal = literal_pattern(pattern)) {
    steps.push_back(std::make_unique<LiteralSplitPreTokenizer>(std::move(*literal), behavior, invert));
  } else {
    steps.push_back(std::make_unique<SplitPreTokenizer>(load_regex(pattern), behavior, invert));
  }
}

void load_digits(const JsonView& json, Steps& steps) {
  refuse_unknown_keys(json, {"type", "individual_digits"});
  const bool individual = json.bool_or("individual_digits", false);
  steps.push_back(std::make_unique<SplitPreTokenizer>(
      Regex(digit_pattern(), json.where()), individual ? SplitBehavior::isolated : SplitBehavior::contiguous,
      false));
}

// Files from before 2024 have "add_prefix_space" instead of "prepend_scheme".
MetaspacePreTokenizer::Prepend load_prepend(const JsonView& json) {
  using Prepend = MetaspacePreTokenizer::Prepend;
  const auto scheme = json.find("prepend_scheme");
  if (!scheme) return json.bool_or("add_prefix_space", true) ? Prepend::always : Prepend::never;
  const std::string& name = scheme->as_string();
  if (name == "always") return Prepend::always;
  if (name == "first") return Prepend::first;
  if (name == "never") return Prepend::never;
  throw Error(ErrorCode::unsupported, "{}: \"{}\" is not supported", scheme->where(), printable(name));
}

void load_metaspace(const JsonView& json, Steps& steps) {
  refuse_unknown_keys(json,
                      {"type", "replacement", "str_rep", "prepend_scheme", "add_prefix_space", "split"});
  steps.push_back(std::make_unique<MetaspacePreTokenizer>(MetaspacePreTokenizer::Options{
      load_character(json.at("replacement")), load_prepend(json), json.bool_or("split", true)}));
}

void add_class(CodePointSplitPreTokenizer::IsMember is_member, SplitBehavior behavior, Steps& steps) {
  steps.push_back(std::make_unique<CodePointSplitPreTokenizer>(is_member, behavior));
}

void load_with_options(const JsonView& json, Steps& steps) {
  const std::string type = type_of(json);
  if (type == "Split") return load_split(json, steps);
  if (type == "Digits") return load_digits(json, steps);
  if (type == "Metaspace") return load_metaspace(json, steps);
  if (type == "Punctuation") {
    refuse_unknown_keys(json, {"type", "behavior"});
    const auto behavior = json.find("behavior");
    return add_class(is_punctuation, behavior ? load_behavior(*behavior) : SplitBehavior::isolated, steps);
  }
  if (type == "CharDelimiterSplit") {
    refuse_unknown_keys(json, {"type", "delimiter"});
    steps.push_back(std::make_unique<LiteralSplitPreTokenizer>(load_character(json.at("delimiter")),
                                                               SplitBehavior::removed, false));
    return;
  }
  if (type == "FixedLength") {
    refuse_unknown_keys(json, {"type", "length"});
    const auto length = json.int_or("length", 5, 1, kMaxFixedLength);
    steps.push_back(std::make_unique<FixedLengthPreTokenizer>(static_cast<size_t>(length)));
    return;
  }
  refuse_type(json);
}

void load_step(const JsonView& json, Steps& steps) {
  const std::string type = type_of(json);
  if (type == "Whitespace") {
    steps.push_back(std::make_unique<WordsPreTokenizer>());
  } else if (type == "WhitespaceSplit") {
    add_class(is_white_space, SplitBehavior::removed, steps);
  } else if (type == "BertPreTokenizer") {
    add_class(is_white_space, SplitBehavior::removed, steps);
    add_class(is_punctuation, SplitBehavior::isolated, steps);
  } else if (type == "UnicodeScripts") {
    steps.push_back(std::make_unique<ScriptsPreTokenizer>());
  } else {
    return load_with_options(json, steps);
  }
  refuse_unknown_keys(json, {"type"});
}

}  // namespace

LoadedPreTokenizer load_pre_tokenizer(const JsonView& json, bool model_reads_bytes) {
  Steps steps;
  bool byte_level = false;
  const std::vector<JsonView> items = flatten(json, "pretokenizers");
  for (size_t i = 0; i < items.size(); ++i) {
    if (type_of(items[i]) != "ByteLevel") {
      load_step(items[i], steps);
      continue;
    }
    load_byte_level(items[i], steps);
    byte_level = model_reads_bytes && i + 1 == items.size();
    if (!byte_level) steps.push_back(std::make_unique<ByteAlphabetPreTokenizer>());
  }
  if (steps.empty()) return {nullptr, byte_level};
  if (steps.size() == 1) return {std::move(steps[0]), byte_level};
  return {std::make_unique<PreTokenizerSequence>(std::move(steps)), byte_level};
}

}  // namespace quire
