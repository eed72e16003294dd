#include "core/tokenizer/vocabulary_loader.h"

#include <array>
#include <charconv>
#include <unordered_map>

#include "core/base/error.h"
#include "core/tokenizer/component_json.h"

namespace quire {
namespace {

constexpr int64_t kMaxId = INT32_MAX - 1;
constexpr std::array<std::string_view, 7> kNames = {"bos_token", "eos_token", "pad_token", "unk_token",
                                                    "sep_token", "cls_token", "mask_token"};

// The added tokens found so far, and the tokens of the model.
class AddedTokenList {
 public:
  explicit AddedTokenList(const std::vector<Vocabulary::Entry>& model) {
    model_ids_.reserve(model.size());
    for (const Vocabulary::Entry& entry : model) model_ids_.emplace(entry.text, entry.id);
  }

  // Adds a token, or updates the flags of a known one; its id must match if it is already known.
  void put(AddedToken token, const std::string& where) {
    if (token.text.size() > AddedTokenMatcher::kMaxTokenBytes) {
      throw Error(ErrorCode::unsupported, "{}: a token of {} bytes, more than {}", where, token.text.size(),
                  AddedTokenMatcher::kMaxTokenBytes);
    }
    if (const auto id = find_id(token.text); id && *id != token.id) {
      throw Error(ErrorCode::format, "{}: the token \"{}\" has the id {} here, but {} elsewhere", where,
                  printable(token.text), token.id, *id);
    }
    const auto [it, is_new] = places_.emplace(token.text, tokens_.size());
    if (is_new) {
      tokens_.push_back(std::move(token));
    } else {
      tokens_[it->second] = std::move(token);
    }
  }

  bool has(const std::string& text) const { return places_.contains(text); }

  std::optional<TokenId> find_id(const std::string& text) const {
    if (const auto place = places_.find(text); place != places_.end()) return tokens_[place->second].id;
    if (const auto it = model_ids_.find(text); it != model_ids_.end()) return it->second;
    return std::nullopt;
  }

  // Marks a token as special, if it exists.
  void mark_special(const std::string& text, const std::string& where) {
    if (const auto place = places_.find(text); place != places_.end()) {
      tokens_[place->second].special = true;
    } else if (const auto id = find_id(text)) {
      AddedToken token;
      token.text = text;
      token.id = *id;
      token.special = true;
      put(std::move(token), where);
    }
  }

  std::vector<AddedToken> take() { return std::move(tokens_); }

 private:
  std::unordered_map<std::string, TokenId> model_ids_;
  std::unordered_map<std::string, size_t> places_;  // index in tokens_, by text
  std::vector<AddedToken> tokens_;
};

AddedToken read_added_token(const JsonView& json, TokenId id) {
  refuse_unknown_keys(
      json, {"id", "content", "single_word", "lstrip", "rstrip", "normalized", "special", "__type"});
  AddedToken token;
  token.text = json.at("content").as_string();
  token.id = id;
  token.single_word = json.bool_or("single_word", false);
  token.lstrip = json.bool_or("lstrip", false);
  token.rstrip = json.bool_or("rstrip", false);
  token.special = json.bool_or("special", false);
  token.normalized = json.bool_or("normalized", !token.special);
  return token;
}

void read_tokenizer_list(const JsonView& list, AddedTokenList& tokens) {
  for (const JsonView& item : list.items()) {
    AddedToken token = read_added_token(item, static_cast<TokenId>(item.at("id").as_int(0, kMaxId)));
    if (tokens.has(token.text)) {
      throw Error(ErrorCode::format, "{}: the token \"{}\" appears twice", item.where(),
                  printable(token.text));
    }
    tokens.put(std::move(token), item.where());
  }
}

// Reads {"5": {"content": ...}}.
void read_config_list(const JsonView& list, AddedTokenList& tokens) {
  for (const auto& [key, member] : list.members()) {
    TokenId id = -1;
    const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), id);
    if (error != std::errc() || end != key.data() + key.size() || id < 0 || id > kMaxId) {
      throw Error(ErrorCode::format, "{}: \"{}\" is not a token id", list.where(), printable(key));
    }
    const JsonView value(member, list.where() + "." + key);
    tokens.put(read_added_token(value, id), value.where());
  }
}

// Reads {"<token>": 5}: names and ids only; the tokens may be known already.
void read_plain_list(const JsonView& list, AddedTokenList& tokens) {
  for (const auto& [key, member] : list.members()) {
    const JsonView value(member, list.where() + "." + printable(key));
    AddedToken token;
    token.text = key;
    token.id = static_cast<TokenId>(value.as_int(0, kMaxId));
    const bool known = tokens.has(token.text);
    if (known && tokens.find_id(token.text) == token.id) continue;
    tokens.put(std::move(token), value.where());
  }
}

// Returns the text of a token given as a string or as {"content": ...}.
std::optional<std::string> token_name(const JsonView& value) {
  if (value.is_object()) return value.at("content").as_string();
  return value.as_string();
}

void mark_named_tokens(const JsonView& file, AddedTokenList& tokens) {
  for (const std::string_view name : kNames) {
    const auto value = file.find(name);
    if (!value || value->is_bool()) continue;
    tokens.mark_special(*token_name(*value), value->where());
  }
  const auto more = file.find("additional_special_tokens");
  if (!more || !more->is_array()) return;
  for (const JsonView& value : more->items()) tokens.mark_special(*token_name(value), value.where());
}

// Reads {"token": id}.
std::vector<Vocabulary::Entry> read_token_map(const JsonView& vocab) {
  std::vector<Vocabulary::Entry> entries;
  entries.reserve(vocab.members().size());
  for (const auto& [key, value] : vocab.members()) {
    const int64_t* const id = value.as_int();
    if (id == nullptr || *id < 0 || *id > kMaxId) {
      throw Error(ErrorCode::format, "{}: the id of \"{}\" must be a whole number from 0 to {}",
                  vocab.where(), printable(key), kMaxId);
    }
    entries.push_back({static_cast<TokenId>(*id), key, true});
  }
  return entries;
}

// Reads [["token", score]]; the id is the index.
std::vector<Vocabulary::Entry> read_token_list(const JsonView& vocab) {
  std::vector<Vocabulary::Entry> entries;
  entries.reserve(vocab.elements().size());
  for (const JsonValue& item : vocab.elements()) {
    const JsonValue::Array* const pair = item.as_array();
    if (pair == nullptr || pair->size() != 2 || pair->front().as_string() == nullptr) {
      throw Error(ErrorCode::format, "{}[{}] must be a token and its score", vocab.where(), entries.size());
    }
    entries.push_back({static_cast<TokenId>(entries.size()), *pair->front().as_string(), true});
  }
  return entries;
}

}  // namespace

std::vector<Vocabulary::Entry> load_model_tokens(const JsonView& vocab) {
  return vocab.is_array() ? read_token_list(vocab) : read_token_map(vocab);
}

std::vector<AddedToken> load_added_tokens(const TokenizerJson& json,
                                          const std::vector<Vocabulary::Entry>& model) {
  AddedTokenList tokens(model);
  if (json.tokenizer) {
    if (const auto list = json.tokenizer->find("added_tokens")) read_tokenizer_list(*list, tokens);
  }
  if (json.config) {
    if (const auto list = json.config->find("added_tokens_decoder")) read_config_list(*list, tokens);
  }
  if (json.added_tokens) read_plain_list(*json.added_tokens, tokens);
  if (json.config) mark_named_tokens(*json.config, tokens);
  if (json.special_tokens_map) mark_named_tokens(*json.special_tokens_map, tokens);
  return tokens.take();
}

std::optional<std::string> named_token(const TokenizerJson& json, std::string_view name) {
  for (const auto& file : {json.config, json.special_tokens_map}) {
    if (!file) continue;
    const auto value = file->find(name);
    if (value && !value->is_bool()) return token_name(*value);
  }
  return std::nullopt;
}

}  // namespace quire
