// The vocabulary: for every token its id, its text in the file, and the bytes it decodes to.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/ids.h"
#include "core/tokenizer/id_table.h"

namespace quire {

// All tokens, immutable once loaded (mark_special and set_decoded_text are for loading); then safe to use
// from any thread.
class Vocabulary {
 public:
  struct Entry {
    TokenId id = 0;
    std::string text;
    bool in_model = false;  // the model can produce it, not only the added tokens
  };

  Vocabulary() = default;
  // Throws ErrorCode::format naming `where` if two tokens have the same id or text, or if an id is so large
  // that a table by id would be much larger than the file.
  Vocabulary(const std::vector<Entry>& entries, const std::string& where);

  size_t size() const { return texts_.size(); }  // the largest id plus 1
  bool contains(TokenId id) const { return id >= 0 && static_cast<size_t>(id) < size() && present(id); }
  bool in_model(TokenId id) const { return (flags_[static_cast<size_t>(id)] & kInModel) != 0; }
  bool is_special(TokenId id) const { return (flags_[static_cast<size_t>(id)] & kSpecial) != 0; }
  void mark_special(TokenId id) { flags_[static_cast<size_t>(id)] |= kSpecial; }

  // Returns the text of an existing id. Valid as long as the vocabulary.
  std::string_view text(TokenId id) const { return texts_[static_cast<size_t>(id)].of(arena_); }
  // Returns the bytes that the text spells in the byte alphabet, otherwise the bytes of the text itself.
  std::string_view bytes(TokenId id) const { return bytes_[static_cast<size_t>(id)].of(arena_); }
  // Returns whether bytes() are spelled in the byte alphabet; false for an added token such as "a b".
  bool is_spelled(TokenId id) const { return (flags_[static_cast<size_t>(id)] & kSpelled) != 0; }

  // Sets the text that the decoder uses. An added token that is matched in normalized text decodes to its
  // normalized form, every other token to itself.
  void set_decoded_text(TokenId id, std::string_view text);
  std::string_view decoded_text(TokenId id) const {
    return decoded_texts_[static_cast<size_t>(id)].of(arena_);
  }
  std::string_view decoded_bytes(TokenId id) const {
    return decoded_bytes_[static_cast<size_t>(id)].of(arena_);
  }

  std::optional<TokenId> find(std::string_view text) const;

 private:
  struct Slice {
    uint32_t offset = 0;
    uint32_t length = 0;
    std::string_view of(const std::string& arena) const {
      return std::string_view(arena).substr(offset, length);
    }
  };
  enum Flag : uint8_t { kPresent = 1, kInModel = 2, kSpecial = 4, kSpelled = 8 };

  bool present(TokenId id) const { return (flags_[static_cast<size_t>(id)] & kPresent) != 0; }
  void add(const Entry& entry, const std::string& where);
  Slice store(std::string_view text);

  std::string arena_;
  std::vector<Slice> texts_;  // by id
  std::vector<Slice> bytes_;  // by id
  std::vector<Slice> decoded_texts_;
  std::vector<Slice> decoded_bytes_;
  std::vector<uint8_t> flags_;
  IdTable by_text_;
};

}  // namespace quire
