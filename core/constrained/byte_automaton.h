// Deterministic automata over bytes for languages over code points. A text is spelled either as UTF-8 or as a
// JSON string with quotes and all escapes of a character. States and their transition rows are made on first
// use.
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

// Automata over bytes. Not thread-safe. An accepting state is reachable from every state except kDead. Throws
// StatesFull if more than max_states are needed. An exception leaves all states intact; some new ones may
// have been added.
class ByteAutomaton {
 public:
  static constexpr ByteStateId kDead = 0;

  ByteAutomaton(LanguageStore& languages, size_t max_states);

  // Returns the start state; kDead if the language is empty.
  ByteStateId start(LanguageId language, Spelling spelling);
  ByteStateId next(ByteStateId state, uint8_t byte) { return row(state)[byte]; }
  const ByteRow* known_row(ByteStateId state) const { return rows_[state].get(); }  // null if not made yet
  const ByteRow& row(ByteStateId state) {
    if (rows_[state] == nullptr) make_row(state);
    return *rows_[state];
  }
  // Returns the only byte that can come next, apart from alternative escapes: a character that a JSON string
  // can contain unescaped is not escaped. Returns -1 if several bytes or none can come next.
  int only_byte(ByteStateId state);
  // Bits that walks over the vocabulary test for each state.
  enum Trait : uint8_t {
    kAccepts = 1U << 0,
    kMayContinue = 1U << 1,  // some byte may follow; also set for some states after which none can
  };
  uint8_t traits(ByteStateId state) const { return traits_[state]; }
  bool accepts(ByteStateId state) const { return (traits(state) & kAccepts) != 0; }
  bool leads_on(ByteStateId state) const { return (traits(state) & kMayContinue) != 0; }
  // Returns byte classes whose characters can follow in any order inside a JSON string, up to the length of a
  // plain token. A lower bound: more classes may be known once the row is made.
  ByteClasses free_classes(ByteStateId state) const { return free_classes_[state]; }
  // Returns whether the state is inside the quotes of a JSON string, between two characters.
  bool in_json_text(ByteStateId state) const { return states_[state].kind == Kind::body; }
  // Returns how many arbitrary characters can come next in a JSON string; 0 for other states.
  uint32_t free_chars(ByteStateId state) const {
    return in_json_text(state) ? languages_.free_length(states_[state].language) : 0;
  }
  // The remaining language between two characters of a text; none inside a character and for other states.
  struct Place {
    LanguageId language = 0;
    bool in_text = false;
  };
  Place place(ByteStateId state) const;
  // Returns a state that texts of up to `horizon` characters cannot distinguish from this one.
  ByteStateId cut(ByteStateId state, uint32_t horizon);

  size_t num_states() const { return states_.size(); }
  size_t held_bytes() const { return held_bytes_; }

 private:
  enum class Kind : uint32_t {
    dead,
    done,
    text,       // UTF-8, between two characters
    quote,      // before the opening quote
    body,       // in a JSON string, between two characters
    escape,     // after a backslash
    unicode,    // after \u
    unicode_d,  // after \ud
    high,       // in a high surrogate: `count` digits left
    low_mark,   // before the backslash of a low surrogate
    low_u,
    low_d,
    low_c,  // before the second digit of a low surrogate
    hex,    // `count` digits left
    tail    // `count` bytes of UTF-8 left
  };
  struct State {
    Kind kind = Kind::dead;
    Spelling spelling = Spelling::utf8;
    uint32_t count = 0;
    LanguageId language = 0;  // if the kind is between characters
    LanguageEdges edges;      // otherwise: edges over the rest of the code point
  };

  ByteStateId intern(State state);
  uint8_t traits_of(const State& state) const;
  ByteStateId between(LanguageId language, Spelling spelling);
  ByteStateId inside(Kind kind, const State& from, uint32_t count, LanguageEdges edges);
  void make_row(ByteStateId state);
  ByteClasses looping_classes(ByteStateId id, const ByteRow& row) const;
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
  size_t held_bytes_ = 0;
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
