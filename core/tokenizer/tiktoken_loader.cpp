#include <algorithm>
#include <array>
#include <charconv>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/tokenizer/bpe.h"
#include "core/tokenizer/byte_alphabet.h"
#include "core/tokenizer/component_json.h"
#include "core/tokenizer/cut_merges.h"
#include "core/tokenizer/tokenizer_assembly.h"

namespace quire {
namespace {

struct NamedToken {
  std::string_view text;
  TokenId id;
};

// A rank file contains neither the split pattern nor the special tokens. Both depend on the model family,
// which is recognized by the number of ranks, the file name or the tokenizer class.
struct Family {
  std::string_view file_name;        // beginning of the file name
  std::string_view tokenizer_class;  // from tokenizer_config.json
  size_t num_ranks;
  std::string_view pattern;
  std::array<NamedToken, 6> special;
};

constexpr std::string_view kThreeDigits =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kOneDigit =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kCases =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

// Kimi's: runs of Han are pieces of their own.
constexpr std::string_view kCasesWithoutHan =
    R"([\p{Han}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

const std::array<Family, 7>& families() {
  static constexpr std::array<Family, 7> kFamilies = {{
      {"r50k_base", "GPT2Tokenizer", 50256, "", {{{"<|endoftext|>", 50256}}}},
      {"cl100k_base",
       "GPT4Tokenizer",
       100256,
       kThreeDigits,
       {{{"<|endoftext|>", 100257},
         {"<|fim_prefix|>", 100258},
         {"<|fim_middle|>", 100259},
         {"<|fim_suffix|>", 100260},
         {"<|endofprompt|>", 100276}}}},
      {"o200k_base",
       "GPT4oTokenizer",
       199998,
       kCases,
       {{{"<|endoftext|>", 199999}, {"<|endofprompt|>", 200018}}}},
      {"qwen",
       "QWenTokenizer",
       151643,
       kOneDigit,
       {{{"<|endoftext|>", 151643}, {"<|im_start|>", 151644}, {"<|im_end|>", 151645}}}},
      {"glm",
       "ChatGLM4Tokenizer",
       151329,
       kThreeDigits,
       {{{"<|endoftext|>", 151329},
         {"[gMASK]", 151331},
         {"<sop>", 151333},
         {"<|system|>", 151335},
         {"<|user|>", 151336},
         {"<|assistant|>", 151337}}}},
      {"llama3",
       "Llama3Tokenizer",
       128000,
       kThreeDigits,
       {{{"<|begin_of_text|>", 128000},
         {"<|end_of_text|>", 128001},
         {"<|start_header_id|>", 128006},
         {"<|end_header_id|>", 128007},
         {"<|eom_id|>", 128008},
         {"<|eot_id|>", 128009}}}},
      {"kimi",
       "TikTokenTokenizer",
       163584,
       kCasesWithoutHan,
       {{{"[BOS]", 163584},
         {"[EOS]", 163585},
         {"<|im_end|>", 163586},
         {"<|im_user|>", 163587},
         {"<|im_assistant|>", 163588}}}},
  }};
  return kFamilies;
}

const Family& find_family(size_t num_ranks, const TokenizerJson& json, std::string_view name) {
  const std::string type = json.config ? json.config->string_or("tokenizer_class", "") : "";
  const auto find = [](auto&& matches) {
    return std::find_if(families().begin(), families().end(), matches);
  };
  auto it = find([&](const Family& family) { return family.num_ranks == num_ranks; });
  if (it == families().end()) it = find([&](const Family& family) { return family.tokenizer_class == type; });
  if (it == families().end())
    it = find([&](const Family& family) { return name.starts_with(family.file_name); });
  if (it != families().end()) return *it;
  throw Error(
      ErrorCode::unsupported,
      "{}: {} ranks and tokenizer_class \"{}\" match no known family, and the file has no split pattern; "
      "convert it to a tokenizer.json",
      name, num_ranks, printable(type));
}

// Reads a line: the bytes of a token in Base64, a space, its rank.
Vocabulary::Entry read_line(std::string_view line, const std::string& where) {
  const size_t space = line.find(' ');
  if (space == std::string_view::npos) throw Error(ErrorCode::format, "{}: no rank", where);
  Vocabulary::Entry entry;
  const std::string bytes = decode_base64(line.substr(0, space), where);
  const std::string_view rank = line.substr(space + 1);
  const auto [end, error] = std::from_chars(rank.data(), rank.data() + rank.size(), entry.id);
  if (error != std::errc() || end != rank.data() + rank.size() || entry.id < 0 || entry.id == INT32_MAX) {
    throw Error(ErrorCode::format, "{}: \"{}\" is not a rank", where, printable(rank));
  }
  if (bytes.empty() || bytes.size() > kMaxCutBytes) {
    throw Error(ErrorCode::format, "{}: a token of {} bytes; it must have 1 to {}", where, bytes.size(),
                kMaxCutBytes);
  }
  entry.text = to_byte_alphabet(bytes);
  entry.in_model = true;
  return entry;
}

std::vector<Vocabulary::Entry> read_ranks(std::string_view text, const std::string& name) {
  std::vector<Vocabulary::Entry> entries;
  for (size_t line = 1; !text.empty(); ++line) {
    const size_t end = std::min(text.find('\n'), text.size());
    std::string_view content = text.substr(0, end);
    if (content.ends_with('\r')) content.remove_suffix(1);
    if (!content.empty()) entries.push_back(read_line(content, fmt::format("{} line {}", name, line)));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return entries;
}

std::vector<AddedToken> added_tokens_of(const Family& family, const TokenizerJson& json,
                                        const std::vector<Vocabulary::Entry>& entries) {
  std::vector<AddedToken> added = load_added_tokens(json, entries);
  if (entries.size() != family.num_ranks) return added;  // the ids of the family fit only its own ranks
  for (const NamedToken& named : family.special) {
    const auto same = [&](const AddedToken& token) {
      return token.id == named.id || token.text == named.text;
    };
    if (named.text.empty() || std::any_of(added.begin(), added.end(), same)) continue;
    AddedToken token;
    token.text = named.text;
    token.id = named.id;
    token.special = true;
    added.push_back(std::move(token));
  }
  return added;
}

}  // namespace

std::unique_ptr<const TokenizerParts> load_tiktoken_parts(const TokenizerFiles& files) {
  const std::string where(files.model_name);
  const ParsedTokenizerFiles parsed(files);
  const TokenizerJson json = parsed.views();
  std::vector<Vocabulary::Entry> entries = read_ranks(files.model, where);
  const Family& family = find_family(entries.size(), json, where);

  auto parts = std::make_unique<TokenizerParts>();
  const std::vector<AddedToken> added = added_tokens_of(family, json, entries);
  parts->vocabulary = make_vocabulary(entries, added, where);
  const std::string_view pattern = family.pattern.empty() ? byte_level_pattern() : family.pattern;
  parts->pre_tokenizer = std::make_unique<SplitPreTokenizer>(Regex(pattern, where, RegexDialect::rust),
                                                             SplitBehavior::isolated, false);
  Bpe::Parts bpe;
  std::vector<RankedToken> tokens;
  tokens.reserve(entries.size());
  for (const auto& entry : entries) tokens.push_back({entry.id, static_cast<uint32_t>(entry.id)});
  bpe.merges = find_all_merges(parts->vocabulary, tokens);
  BpeSpeller::Options options;
  options.alphabet = BpeSpeller::Alphabet::bytes;
  bpe.speller = BpeSpeller(parts->vocabulary, std::move(options), where);
  bpe.ignore_merges = true;
  parts->model = std::make_unique<Bpe>(parts->vocabulary, std::move(bpe));
  parts->decoder = std::make_unique<ByteLevelDecoder>(parts->vocabulary);
  finish_parts(json, added, *parts);
  return parts;
}

}  // namespace quire
