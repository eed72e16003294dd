#include "core/tokenizer/vocabulary.h"

#include <algorithm>

#include "core/base/checked_math.h"
#include "core/base/error.h"
#include "core/tokenizer/byte_alphabet.h"

namespace quire {
namespace {

// Ids may have gaps, but tables by id must stay proportional to the number of tokens.
size_t max_table_size(size_t num_tokens) {
  return 4 * num_tokens + 4096;
}

}  // namespace

Vocabulary::Vocabulary(const std::vector<Entry>& entries, const std::string& where)
    : by_text_(entries.size()) {
  TokenId last = -1;
  for (const Entry& entry : entries) {
    if (entry.id < 0) throw Error(ErrorCode::format, "{}: the id {} is negative", where, entry.id);
    last = std::max(last, entry.id);
  }
  const size_t table_size = static_cast<size_t>(last + int64_t{1});
  if (table_size > max_table_size(entries.size())) {
    throw Error(ErrorCode::format, "{}: the id {} is too large for {} tokens", where, last, entries.size());
  }
  texts_.resize(table_size);
  bytes_.resize(table_size);
  decoded_texts_.resize(table_size);
  decoded_bytes_.resize(table_size);
  flags_.resize(table_size);
  for (const Entry& entry : entries) add(entry, where);
}

void Vocabulary::add(const Entry& entry, const std::string& where) {
  const auto idx = static_cast<size_t>(entry.id);
  if (present(entry.id)) {
    throw Error(ErrorCode::format, "{}: the id {} belongs to both \"{}\" and \"{}\"", where, entry.id,
                printable(text(entry.id)), printable(entry.text));
  }
  flags_[idx] = kPresent;
  if (entry.in_model) flags_[idx] |= kInModel;
  texts_[idx] = store(entry.text);
  bytes_[idx] = texts_[idx];
  if (const auto spelled = spelled_bytes(entry.text)) {
    flags_[idx] |= kSpelled;
    if (*spelled != entry.text) bytes_[idx] = store(*spelled);
  }
  decoded_texts_[idx] = texts_[idx];
  decoded_bytes_[idx] = bytes_[idx];
  if (!by_text_.insert(entry.id, [this](TokenId id) { return text(id); })) {
    throw Error(ErrorCode::format, "{}: the token \"{}\" appears twice", where, printable(entry.text));
  }
}

void Vocabulary::set_decoded_text(TokenId id, std::string_view text) {
  const auto idx = static_cast<size_t>(id);
  decoded_texts_[idx] = store(text);
  const auto spelled = spelled_bytes(text);
  decoded_bytes_[idx] = spelled ? store(*spelled) : decoded_texts_[idx];
}

Vocabulary::Slice Vocabulary::store(std::string_view text) {
  const Slice slice{checked_cast<uint32_t>(arena_.size(), "vocabulary size in bytes"),
                    checked_cast<uint32_t>(text.size(), "token size in bytes")};
  arena_.append(text);
  return slice;
}

std::optional<TokenId> Vocabulary::find(std::string_view text) const {
  const TokenId id = by_text_.find(text, [this](TokenId other) { return this->text(other); });
  if (id == IdTable::kNone) return std::nullopt;
  return id;
}

}  // namespace quire
