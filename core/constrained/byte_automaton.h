// Languages over code points, read byte by byte: as UTF-8, or as a JSON string with its quotes and every way
// to escape a character. States and their rows are made when they are first needed.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

#include "core/constrained/language_store.h"
#include "core/constrained/plain_text.h"

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
  const ByteRow* known_row(ByteStateId state) const { return rows_[state].get(); }  // null: not made yet
  const ByteRow& row(ByteStateId state) {
    if (rows_[state] == nullptr) make_row(state);
    return *rows_[state];
  }
  // The byte that comes next where there is no choice but of spelling: a character that a JSON string may
  // hold as it is, is not escaped. -1 where there is a choice, or nothing comes.
  int only_byte(ByteStateId state);
  // What walks ask of each state, as bits.
  enum Trait : uint8_t {
    kAccepts = 1U << 0,
    kLeadsOn = 1U << 1,  // whether any byte may follow; set for some where none does
  };
  uint8_t traits(ByteStateId state) const { return traits_[state]; }
  bool accepts(ByteStateId state) const { return (traits(state) & kAccepts) != 0; }
  bool leads_on(ByteStateId state) const { return (traits(state) & kLeadsOn) != 0; }
  // Inside of a JSON string, classes whose characters may come in any order, as many as a plain token has. As
  // far as that is known: more may be once the row is made.
  ByteClasses free_classes(ByteStateId state) const { return free_classes_[state]; }
  // Whether the state is inside the quotes of a JSON string, between two characters.
  bool in_json_text(ByteStateId state) const { return states_[state].kind == Kind::body; }
  // Characters of a JSON string of which any may come next; 0 for other states.
  uint32_t free_chars(ByteStateId state) const {
    return in_json_text(state) ? languages_.free_length(states_[state].language) : 0;
  }
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
  uint8_t traits_of(const State& state) const;
  ByteStateId between(LanguageId language, Spelling spelling);
  ByteStateId inside(Kind kind, const State& from, uint32_t count, LanguageEdges edges);
  void make_row(ByteStateId state);
  ByteClasses loops_of(ByteStateId id, const ByteRow& row) const;
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
  std::vector<uint8_t> traits_;
  std::vector<ByteClasses> free_classes_;
  std::vector<std::unique_ptr<ByteRow>> rows_;
  struct KeyHash {
    size_t operator()(const std::vector<uint32_t>& key) const;
  };
  std::unordered_map<std::vector<uint32_t>, ByteStateId, KeyHash> by_key_;
};

}  // namespace quire
