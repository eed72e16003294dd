#include "tests/support/plain_tokenizer.h"

#include <limits>
#include <map>

#include "core/base/utf8.h"

namespace quire::testing {
namespace {

using Strings = std::vector<std::string>;
using Ids = std::vector<int>;

std::string text_or(const Json& json, const char* key, const std::string& fallback) {
  return json.contains(key) && !json[key].is_null() ? json[key].get<std::string>() : fallback;
}

// Splits valid UTF-8 into characters.
Strings characters_of(const std::string& text) {
  Strings characters;
  for (const char c : text) {
    if ((static_cast<unsigned char>(c) & 0xc0) != 0x80) characters.emplace_back();
    characters.back() += c;
  }
  return characters;
}

std::string hex_token(char byte) {
  constexpr const char* kDigits = "0123456789ABCDEF";
  const auto value = static_cast<unsigned char>(byte);
  return {'<', '0', 'x', kDigits[value >> 4], kDigits[value & 15], '>'};
}

// Returns the tokens of the bytes; nothing unless all of them exist.
std::optional<Strings> byte_tokens(const std::map<std::string, int>& vocab, const std::string& text) {
  Strings tokens;
  for (const char byte : text) {
    tokens.push_back(hex_token(byte));
    if (!vocab.contains(tokens.back())) return std::nullopt;
  }
  return tokens;
}

Strings spell_for_bpe(const Json& model, const std::map<std::string, int>& vocab, const std::string& piece) {
  const std::string unknown = text_or(model, "unk_token", "");
  const Strings characters = characters_of(piece);
  Strings symbols;
  size_t num_unknown = 0;  // consecutive unknown characters not among the symbols yet
  const auto flush = [&] {
    const bool fuse = model.value("fuse_unk", false);
    for (; num_unknown > 0; num_unknown = fuse ? 0 : num_unknown - 1) symbols.push_back(unknown);
  };
  for (size_t i = 0; i < characters.size(); ++i) {
    std::string symbol = characters[i];
    if (i > 0) symbol.insert(0, text_or(model, "continuing_subword_prefix", ""));
    if (i + 1 == characters.size()) symbol += text_or(model, "end_of_word_suffix", "");
    const auto bytes = model.value("byte_fallback", false) ? byte_tokens(vocab, symbol) : std::nullopt;
    if (vocab.contains(symbol)) {
      flush();
      symbols.push_back(symbol);
    } else if (bytes) {
      // A run of unknown characters continues after bytes; all of it except the last is output.
      if (num_unknown > 1 && !model.value("fuse_unk", false)) {
        symbols.insert(symbols.end(), num_unknown - 1, unknown);
        num_unknown = 1;
      }
      symbols.insert(symbols.end(), bytes->begin(), bytes->end());
    } else if (!unknown.empty()) {
      ++num_unknown;
    }
  }
  flush();
  return symbols;
}

std::optional<Ids> encode_bpe(const Json& model, const std::string& piece) {
  const auto vocab = model["vocab"].get<std::map<std::string, int>>();
  if (model.value("ignore_merges", false) && vocab.contains(piece)) return Ids{vocab.at(piece)};
  std::map<std::pair<std::string, std::string>, size_t> ranks;
  for (size_t i = 0; i < model["merges"].size(); ++i)
    ranks[{model["merges"][i][0], model["merges"][i][1]}] = i;
  const size_t prefix_bytes = text_or(model, "continuing_subword_prefix", "").size();
  Strings symbols = spell_for_bpe(model, vocab, piece);
  while (true) {
    size_t best_at = symbols.size();
    size_t best_rank = std::numeric_limits<size_t>::max();
    for (size_t i = 0; i + 1 < symbols.size(); ++i) {
      const auto it = ranks.find({symbols[i], symbols[i + 1]});
      if (it == ranks.end() || it->second >= best_rank) continue;
      best_at = i;
      best_rank = it->second;
    }
    if (best_at == symbols.size()) break;
    symbols[best_at] += symbols[best_at + 1].substr(prefix_bytes);
    symbols.erase(symbols.begin() + static_cast<ptrdiff_t>(best_at) + 1);
  }
  Ids ids;
  for (const std::string& symbol : symbols) ids.push_back(vocab.at(symbol));
  return ids;
}

struct Path {
  double score = 0.0;
  Strings tokens;
  std::vector<bool> unknown;
  bool there = false;
};

// Finds the best path to the end of each character, over every substring that is a token.
std::optional<Path> best_path(const Json& model, const Strings& characters) {
  double least = std::numeric_limits<double>::infinity();
  std::map<std::string, double> scores;
  for (const Json& entry : model["vocab"]) {
    scores[entry[0].get<std::string>()] = entry[1].get<double>();
    least = std::min(least, entry[1].get<double>());
  }
  std::vector<Path> paths(characters.size() + 1);
  paths[0].there = true;
  for (size_t begin = 0; begin < characters.size(); ++begin) {
    std::string text;
    for (size_t end = begin + 1; end <= characters.size(); ++end) {
      text += characters[end - 1];
      const bool known = scores.contains(text);
      if (!known && end > begin + 1) continue;
      if (!known && !model.contains("unk_id")) return std::nullopt;
      const double score = paths[begin].score + (known ? scores[text] : least - 10.0);
      if (paths[end].there && score <= paths[end].score) continue;
      paths[end] = paths[begin];
      paths[end].score = score;
      paths[end].tokens.push_back(text);
      paths[end].unknown.push_back(!known);
      paths[end].there = true;
    }
  }
  return paths.back();
}

std::optional<Ids> encode_unigram(const Json& model, const std::string& piece) {
  std::map<std::string, int> vocab;
  for (size_t i = 0; i < model["vocab"].size(); ++i)
    vocab[model["vocab"][i][0].get<std::string>()] = static_cast<int>(i);
  const auto path = best_path(model, characters_of(piece));
  if (!path) return std::nullopt;
  Strings tokens;
  for (size_t i = 0; i < path->tokens.size(); ++i) {
    if (i > 0 && path->unknown[i] && path->unknown[i - 1]) {
      tokens.back() += path->tokens[i];
    } else {
      tokens.push_back(path->tokens[i]);
    }
  }
  Ids ids;
  for (const std::string& token : tokens) {
    const auto bytes = model.value("byte_fallback", false) ? byte_tokens(vocab, token) : std::nullopt;
    if (vocab.contains(token)) {
      ids.push_back(vocab[token]);
    } else if (bytes) {
      for (const std::string& byte : *bytes) ids.push_back(vocab[byte]);
    } else {
      ids.push_back(model["unk_id"].get<int>());
    }
  }
  return ids;
}

std::optional<Ids> encode_word_piece(const Json& model, const std::string& piece) {
  const auto vocab = model["vocab"].get<std::map<std::string, int>>();
  const Ids unknown = {vocab.at(text_or(model, "unk_token", "[UNK]"))};
  const Strings characters = characters_of(piece);
  if (characters.size() > model.value("max_input_chars_per_word", size_t{100})) return unknown;
  Ids ids;
  for (size_t begin = 0; begin < characters.size();) {
    size_t end = characters.size();
    for (; end > begin; --end) {
      std::string text = begin > 0 ? text_or(model, "continuing_subword_prefix", "##") : "";
      for (size_t i = begin; i < end; ++i) text += characters[i];
      if (!vocab.contains(text)) continue;
      ids.push_back(vocab.at(text));
      break;
    }
    if (end == begin) return unknown;
    begin = end;
  }
  return ids;
}

std::string replace_all(std::string text, const std::string& pattern, const std::string& content) {
  for (size_t at = text.find(pattern); at != std::string::npos;
       at = text.find(pattern, at + content.size())) {
    text.replace(at, pattern.size(), content);
  }
  return text;
}

std::string clean_up(std::string text) {
  for (const auto& [pattern, content] :
       std::vector<std::pair<std::string, std::string>>{{" .", "."},
                                                        {" ?", "?"},
                                                        {" !", "!"},
                                                        {" ,", ","},
                                                        {" ' ", "'"},
                                                        {" n't", "n't"},
                                                        {" 'm", "'m"},
                                                        {" do not", " don't"},
                                                        {" 's", "'s"},
                                                        {" 've", "'ve"},
                                                        {" 're", "'re"}}) {
    text = replace_all(text, pattern, content);
  }
  return text;
}

// Replaces each byte that is not part of a complete character by U+FFFD.
std::string text_of_bytes(const std::string& bytes) {
  std::string text;
  for (size_t pos = 0; pos < bytes.size();) {
    const Utf8Char next = decode_utf8(bytes, pos);
    text += next.valid ? bytes.substr(pos, next.length) : "\xef\xbf\xbd";
    pos += next.valid ? next.length : 1;
  }
  return text;
}

Strings join_bytes(const Strings& tokens) {
  Strings out;
  std::string bytes;
  const auto flush = [&] {
    if (!bytes.empty()) out.push_back(text_of_bytes(bytes));
    bytes.clear();
  };
  for (const std::string& token : tokens) {
    const bool byte = token.size() == 6 && token.starts_with("<0x") && token.ends_with(">") &&
                      token.find_first_not_of("0123456789ABCDEFabcdef", 3) == 5;
    if (byte) {
      bytes += static_cast<char>(std::stoi(token.substr(3, 2), nullptr, 16));
    } else {
      flush();
      out.push_back(token);
    }
  }
  flush();
  return out;
}

std::string strip(const Json& step, const std::string& token) {
  const Strings characters = characters_of(token);
  const auto content = step["content"].get<std::string>();
  size_t begin = 0;
  while (begin < characters.size() && begin < step["start"].get<size_t>() && characters[begin] == content)
    ++begin;
  size_t end = characters.size();
  while (end > begin && characters.size() - end < step["stop"].get<size_t>() &&
         characters[end - 1] == content)
    --end;
  std::string text;
  for (size_t i = begin; i < end; ++i) text += characters[i];
  return text;
}

Strings fuse(const Strings& tokens) {
  std::string text;
  for (const std::string& token : tokens) text += token;
  return {text};
}

Strings apply(const Json& step, Strings tokens) {
  const std::string type = step["type"];
  if (type == "Sequence") {
    for (const Json& inner : step["decoders"]) tokens = apply(inner, std::move(tokens));
    return tokens;
  }
  if (type == "Fuse") return fuse(tokens);
  if (type == "ByteFallback") return join_bytes(tokens);
  Strings out;
  for (size_t i = 0; i < tokens.size(); ++i) {
    std::string token = tokens[i];
    if (type == "Strip") token = strip(step, token);
    if (type == "Replace") token = replace_all(token, step["pattern"]["String"], step["content"]);
    if (type == "Metaspace") {
      const bool drop = i == 0 && step["prepend_scheme"] != "never";
      token = replace_all(token, step["replacement"], drop ? "" : " ");
    }
    if (type == "WordPiece") {
      const std::string prefix = step["prefix"];
      if (i > 0) token = token.starts_with(prefix) ? token.substr(prefix.size()) : " " + token;
      if (step["cleanup"].get<bool>()) token = clean_up(token);
    }
    if (type == "BPEDecoder") token = replace_all(token, step["suffix"], i + 1 == tokens.size() ? "" : " ");
    if (type == "CTC") {
      if (i > 0 && tokens[i] == tokens[i - 1]) continue;
      token = replace_all(token, step["pad_token"], "");
      if (step["cleanup"].get<bool>())
        token = replace_all(clean_up(token), step["word_delimiter_token"], " ");
    }
    out.push_back(token);
  }
  return out;
}

}  // namespace

std::optional<Ids> encode_plainly(const Json& model, const std::string& piece) {
  if (model["type"] == "Unigram") return encode_unigram(model, piece);
  return model["type"] == "BPE" ? encode_bpe(model, piece) : encode_word_piece(model, piece);
}

std::string decode_plainly(const Json& decoder, Strings tokens) {
  return fuse(apply(decoder, std::move(tokens)))[0];
}

}  // namespace quire::testing
