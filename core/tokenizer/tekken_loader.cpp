#include <algorithm>
#include <array>
#include <charconv>
#include <string>
#include <unordered_set>
#include <vector>

#include "core/base/error.h"
#include "core/tokenizer/bpe.h"
#include "core/tokenizer/byte_alphabet.h"
#include "core/tokenizer/component_json.h"
#include "core/tokenizer/cut_merges.h"
#include "core/tokenizer/tokenizer_assembly.h"

namespace quire {
namespace {

constexpr JsonLimits kTekkenLimits = {.max_bytes = 64U << 20, .max_depth = 16, .python_numbers = true};
constexpr size_t kNumBytes = 256;  // the first entries are the single bytes
constexpr int64_t kMaxSpecialTokens = 65536;
constexpr int64_t kMaxVocabSize = 1 << 22;
// Files up to this version may leave out their special tokens, which are then these.
constexpr int kLastVersionWithoutSpecialTokens = 7;
constexpr std::array<std::string_view, 20> kSpecialTokens = {"<unk>",
                                                             "<s>",
                                                             "</s>",
                                                             "[INST]",
                                                             "[/INST]",
                                                             "[AVAILABLE_TOOLS]",
                                                             "[/AVAILABLE_TOOLS]",
                                                             "[TOOL_RESULTS]",
                                                             "[/TOOL_RESULTS]",
                                                             "[TOOL_CALLS]",
                                                             "[IMG]",
                                                             "<pad>",
                                                             "[IMG_BREAK]",
                                                             "[IMG_END]",
                                                             "[PREFIX]",
                                                             "[MIDDLE]",
                                                             "[SUFFIX]",
                                                             "[SYSTEM_PROMPT]",
                                                             "[/SYSTEM_PROMPT]",
                                                             "[TOOL_CONTENT]"};

struct TekkenSizes {
  size_t special = 0;   // ids of special tokens, which come first
  size_t ordinary = 0;  // entries of the vocabulary in use
};

TekkenSizes read_sizes(const JsonView& file) {
  const JsonView config = file.at("config");
  const JsonView special = config.at("default_num_special_tokens");
  const JsonView total = config.at("default_vocab_size");
  const int64_t num_special = special.as_int(0, kMaxSpecialTokens);
  const int64_t num_total = total.as_int(1, kMaxVocabSize);
  const int64_t num_ordinary = num_total - num_special;
  const JsonView vocab = file.at("vocab");
  const auto available = static_cast<int64_t>(vocab.elements().size());
  if (num_ordinary < static_cast<int64_t>(kNumBytes) || num_ordinary > available) {
    throw Error(ErrorCode::format,
                "{}: {} tokens without {} special ones are {}, but {} holds {} and the least is {}",
                total.where(), num_total, num_special, num_ordinary, vocab.where(), available, kNumBytes);
  }
  return {static_cast<size_t>(num_special), static_cast<size_t>(num_ordinary)};
}

// Returns the number in a version such as "v7"; 0 if there is none.
int version_of(const JsonView& config) {
  const std::string text = config.string_or("version", "v0");
  int version = 0;
  const char* const end = text.data() + text.size();
  const bool is_number = text.starts_with('v') && std::from_chars(text.data() + 1, end, version).ptr == end;
  if (is_number && version >= 0) return version;
  throw Error(ErrorCode::unsupported, "{}.version: \"{}\" is not a version such as \"v7\"", config.where(),
              printable(text, 32));
}

std::string require_rank(const JsonView& entry, size_t rank, std::string_view text_field) {
  const JsonView stored = entry.at("rank");
  if (stored.as_int(0, kMaxVocabSize) != static_cast<int64_t>(rank))
    throw Error(ErrorCode::format, "{} must be {}, the place in the list", stored.where(), rank);
  return entry.at(text_field).as_string();
}

JsonView element_of(const JsonView& list, size_t idx) {
  return {list.elements()[idx], fmt::format("{}[{}]", list.where(), idx)};
}

// Returns the texts of the special tokens by id. Ids without a token of their own have numbered ones.
std::vector<std::string> read_special_tokens(const JsonView& file, size_t count) {
  std::vector<std::string> tokens;
  const auto list = file.find("special_tokens");
  const JsonView config = file.at("config");
  if (!list && version_of(config) > kLastVersionWithoutSpecialTokens)
    throw Error(ErrorCode::format, "{}.special_tokens is missing", file.where());
  const size_t num_named = list ? list->elements().size() : kSpecialTokens.size();
  if (num_named > count) {
    throw Error(ErrorCode::format, "{}.default_num_special_tokens: {} is less than the {} special tokens",
                config.where(), count, num_named);
  }
  for (size_t id = 0; id < count; ++id) {
    if (id >= num_named) {
      tokens.push_back(fmt::format("<SPECIAL_{}>", id));
    } else if (list) {
      tokens.push_back(require_rank(element_of(*list, id), id, "token_str"));
    } else {
      tokens.emplace_back(kSpecialTokens[id]);
    }
    if (tokens.back().empty() || tokens.back().size() > AddedTokenMatcher::kMaxTokenBytes) {
      throw Error(ErrorCode::format, "{}.special_tokens[{}].token_str: {} bytes; it must have 1 to {}",
                  file.where(), id, tokens.back().size(), AddedTokenMatcher::kMaxTokenBytes);
    }
  }
  return tokens;
}

std::string read_bytes(const JsonView& entry, size_t rank) {
  const std::string where = entry.where() + ".token_bytes";
  std::string bytes = decode_base64(require_rank(entry, rank, "token_bytes"), where);
  if (bytes.empty() || bytes.size() > kMaxCutBytes) {
    throw Error(ErrorCode::format, "{}: a token of {} bytes; it must have 1 to {}", where, bytes.size(),
                kMaxCutBytes);
  }
  if (rank < kNumBytes && (bytes.size() != 1 || static_cast<uint8_t>(bytes.front()) != rank))
    throw Error(ErrorCode::format, "{}: the first {} tokens must be the bytes in order", where, kNumBytes);
  return bytes;
}

// Returns the tokens of the model. Their ids follow those of the special tokens.
std::vector<Vocabulary::Entry> read_vocabulary(const JsonView& vocab, const TekkenSizes& sizes) {
  std::vector<Vocabulary::Entry> entries;
  std::unordered_set<std::string> seen;
  entries.reserve(sizes.ordinary);
  for (size_t rank = 0; rank < sizes.ordinary; ++rank) {
    const JsonView entry = element_of(vocab, rank);
    std::string bytes = read_bytes(entry, rank);
    entries.push_back({static_cast<TokenId>(sizes.special + rank), to_byte_alphabet(bytes), true});
    if (!seen.insert(std::move(bytes)).second)
      throw Error(ErrorCode::format, "{}.token_bytes: an earlier token has the same bytes", entry.where());
  }
  return entries;
}

std::vector<AddedToken> added_tokens_of(const std::vector<std::string>& special, const TokenizerJson& json,
                                        const std::vector<Vocabulary::Entry>& entries) {
  std::vector<AddedToken> added = load_added_tokens(json, entries);
  std::unordered_set<std::string_view> known;
  std::unordered_set<TokenId> known_ids;
  for (const AddedToken& token : added) {
    known.insert(token.text);
    known_ids.insert(token.id);
  }
  std::vector<AddedToken> own;
  for (size_t id = 0; id < special.size(); ++id) {
    AddedToken token;
    token.text = special[id];
    token.id = static_cast<TokenId>(id);
    token.special = true;
    if (!known.contains(token.text) && !known_ids.contains(token.id)) own.push_back(std::move(token));
  }
  added.insert(added.end(), std::make_move_iterator(own.begin()), std::make_move_iterator(own.end()));
  return added;
}

std::unique_ptr<Bpe> make_bpe(const Vocabulary& vocabulary, const TekkenSizes& sizes,
                              const std::string& where) {
  std::vector<RankedToken> tokens;
  tokens.reserve(sizes.ordinary);
  for (size_t rank = 0; rank < sizes.ordinary; ++rank)
    tokens.push_back({static_cast<TokenId>(sizes.special + rank), static_cast<uint32_t>(rank)});
  Bpe::Parts bpe;
  bpe.merges = find_all_merges(vocabulary, tokens);
  BpeSpeller::Options options;
  options.alphabet = BpeSpeller::Alphabet::bytes;
  bpe.speller = BpeSpeller(vocabulary, std::move(options), where);
  bpe.ignore_merges = true;
  return std::make_unique<Bpe>(vocabulary, std::move(bpe));
}

}  // namespace

std::unique_ptr<const TokenizerParts> load_tekken_parts(const TokenizerFiles& files) {
  const std::string where(files.model_name);
  const JsonValue file_json = parse_json(files.model, where, kTekkenLimits);
  const JsonView file(file_json, where);
  const ParsedTokenizerFiles parsed(files);
  const TokenizerJson json = parsed.views();
  const TekkenSizes sizes = read_sizes(file);
  const std::vector<std::string> special = read_special_tokens(file, sizes.special);
  const std::vector<Vocabulary::Entry> entries = read_vocabulary(file.at("vocab"), sizes);

  auto parts = std::make_unique<TokenizerParts>();
  const std::vector<AddedToken> added = added_tokens_of(special, json, entries);
  parts->vocabulary = make_vocabulary(entries, added, where);
  const JsonView pattern = file.at("config").at("pattern");
  parts->pre_tokenizer = std::make_unique<SplitPreTokenizer>(
      Regex(pattern.as_string(), pattern.where(), RegexDialect::rust), SplitBehavior::isolated, false);
  parts->model = make_bpe(parts->vocabulary, sizes, where);
  parts->decoder = std::make_unique<ByteLevelDecoder>(parts->vocabulary);
  finish_parts(json, added, *parts);
  name_tokens({"<s>", "</s>", "<pad>", "<unk>"}, *parts);
  parts->post_processor = around_text(json, {.adds_bos = true, .adds_eos = false}, parts->named);
  return parts;
}

}  // namespace quire
