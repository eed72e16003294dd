// Languages over code points, read byte by byte: as UTF-8, or as a JSON string with its quotes and every way
// to escape a character. States and their rows are made when they are first needed.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

#include "core/constrained/language_store.h"

namespace quire {

using ByteStateId = uint32_t;
using ByteRow = std::array<ByteStateId, 256>;

enum class Spelling : uint32_t { utf8, json_string };

// Not thread-safe. From every state but kDead an accepting one can be reached. ErrorCode::capacity where
// there are more than max_states.
class ByteAutomaton {
 public:
  static constexpr ByteStateId kDead = 0;

  ByteAutomaton(LanguageStore& languages, size_t max_states);

  // kDead where the language is empty.
  ByteStateId start(LanguageId language, Spelling spelling);
  ByteStateId next(ByteStateId state, uint8_t byte) { return row(state)[byte]; }
  const ByteRow& row(ByteStateId state) {
    if (rows_[state] == nullptr) make_row(state);
    return *rows_[state];
  }
  bool accepts(ByteStateId state) const { return accepts_[state] != 0; }
  // Whether any byte may follow; true for some where none does.
  bool leads_on(ByteStateId state) const {
    const State& at = states_[state];
    return at.kind != Kind::done && (at.kind != Kind::text || at.language != LanguageStore::kEmpty);
  }
  // Whether the state is inside the quotes of a JSON string, between two characters.
  bool in_json_text(ByteStateId state) const { return states_[state].kind == Kind::body; }
  // What is left between two characters of the text; nothing inside of a character, and of other states.
  struct Place {
    LanguageId language = 0;
    bool in_text = false;
  };
  Place place(ByteStateId state) const;
  // A state that tokens of up to `horizon` characters cannot tell from this one.
  ByteStateId cut(ByteStateId state, uint32_t horizon);

  size_t num_states() const { return states_.size(); }
  size_t num_rows() const { return num_rows_; }

 private:
  enum class Kind : uint32_t {
    dead,
    done,
    text,       // UTF-8, between two characters
    quote,      // before the first quote
    body,       // of a JSON string, between two characters
    escape,     // after a backslash
    unicode,    // after \u
    unicode_d,  // after \ud
    high,       // in a high surrogate: `count` digits to come
    low_mark,   // before the backslash of a low surrogate
    low_u,
    low_d,
    low_c,  // before the second digit of a low surrogate
    hex,    // `count` digits to come
    tail    // `count` bytes of UTF-8 to come
  };
  struct State {
    Kind kind = Kind::dead;
    Spelling spelling = Spelling::utf8;
    uint32_t count = 0;
    LanguageId language = 0;  // where the kind is between characters
    LanguageEdges edges;      // over what is left of the code point, else
  };

  ByteStateId intern(State state);
  ByteStateId between(LanguageId language, Spelling spelling);
  ByteStateId inside(Kind kind, const State& from, uint32_t count, LanguageEdges edges);
  void make_row(ByteStateId state);
  void fill_characters(const State& state, ByteRow& row);
  void fill_lead(const State& state, const LanguageEdges& edges, ByteRow& row, uint32_t lead,
                 uint32_t num_tail);
  void fill_tail(const State& state, ByteRow& row);
  void fill_escape(const State& state, ByteRow& row);
  void fill_digits(const State& state, ByteRow& row);
  ByteStateId after_digit(const State& state, uint32_t digit);
  LanguageEdges living_edges(LanguageId language);

  LanguageStore& languages_;
  size_t max_states_;
  size_t num_rows_ = 0;
  std::vector<State> states_;
  std::vector<uint8_t> accepts_;
  std::vector<std::unique_ptr<ByteRow>> rows_;
  struct KeyHash {
    size_t operator()(const std::vector<uint32_t>& key) const;
  };
  std::unordered_map<std::vector<uint32_t>, ByteStateId, KeyHash> by_key_;
};

}  // namespace quire
