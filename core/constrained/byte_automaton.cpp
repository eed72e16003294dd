#include "core/constrained/byte_automaton.h"

#include <algorithm>

#include "core/constrained/reserve_one.h"
#include "core/constrained/states_full.h"

namespace quire {
namespace {

constexpr size_t kStateBytes = 200;  // of a state in all lists, without its edges and row

// Returns the edges within [first, first + width), shifted so that `first` becomes 0.
LanguageEdges part_of(const LanguageEdges& edges, uint32_t first, uint32_t width) {
  LanguageEdges part;
  const uint32_t last = first + width - 1;
  for (const LanguageEdge& edge : edges) {
    if (edge.last < first || edge.first > last) continue;
    part.push_back({std::max(edge.first, first) - first, std::min(edge.last, last) - first, edge.rest});
  }
  return part;
}

LanguageId rest_at(const LanguageEdges& edges, uint32_t value) {
  for (const LanguageEdge& edge : edges) {
    if (edge.first <= value && value <= edge.last) return edge.rest;
  }
  return LanguageStore::kNothing;
}

// Returns the code points that can follow \ud: U+D000 to U+D7FF, or a surrogate pair.
LanguageEdges after_d(const LanguageEdges& edges) {
  LanguageEdges kept;
  for (const LanguageEdge& edge : edges) {
    const uint32_t low = std::max(edge.first, 0xD000U);
    if (low <= std::min(edge.last, 0xD7FFU)) kept.push_back({low, std::min(edge.last, 0xD7FFU), edge.rest});
    if (edge.last >= 0x10000) kept.push_back({std::max(edge.first, 0x10000U), edge.last, edge.rest});
  }
  return kept;
}

struct ShortEscape {
  char letter;
  char meaning;
};
constexpr ShortEscape kShortEscapes[] = {{'"', '"'},  {'\\', '\\'}, {'/', '/'},  {'b', '\b'},
                                         {'f', '\f'}, {'n', '\n'},  {'r', '\r'}, {'t', '\t'}};

}  // namespace

size_t ByteAutomaton::KeyHash::operator()(const std::vector<uint32_t>& key) const {
  uint64_t hash = key.size();
  for (const uint32_t part : key) hash = (hash ^ part) * 0x9E3779B97F4A7C15U + (hash >> 31);
  return static_cast<size_t>(hash ^ (hash >> 32));
}

ByteAutomaton::ByteAutomaton(LanguageStore& languages, size_t max_states)
    : languages_(languages), max_states_(max_states) {
  intern({});
  rows_[kDead] = std::make_unique<ByteRow>();
}

ByteStateId ByteAutomaton::intern(State state) {
  std::vector<uint32_t> key = {static_cast<uint32_t>(state.kind) << 1 | static_cast<uint32_t>(state.spelling),
                               state.count, state.language};
  for (const LanguageEdge& edge : state.edges) key.insert(key.end(), {edge.first, edge.last, edge.rest});
  const auto known = by_key_.find(key);
  if (known != by_key_.end()) return known->second;
  if (states_.size() >= capacity_of(max_states_)) throw StatesFull("max_states", max_states_, "states");
  const auto id = static_cast<ByteStateId>(states_.size());
  const uint8_t traits = traits_of(state);
  const bool is_free = state.kind == Kind::body && languages_.free_length(state.language) >= kMaxPlainChars;
  const size_t num_bytes = kStateBytes + 2 * sizeof(LanguageEdge) * state.edges.size();
  reserve_one(traits_, free_classes_, states_, rows_);
  by_key_.emplace(std::move(key), id);
  // Nothing below can fail.
  traits_.push_back(traits);
  free_classes_.push_back(is_free ? kAllBytes : 0);
  states_.push_back(std::move(state));
  rows_.emplace_back();
  held_bytes_ += num_bytes;
  return id;
}

uint8_t ByteAutomaton::traits_of(const State& state) const {
  const bool is_text = state.kind == Kind::text;
  const bool accepts = state.kind == Kind::done || (is_text && languages_.has_empty_text(state.language));
  const bool ends = state.kind == Kind::done || (is_text && state.language == LanguageStore::kEmpty);
  return static_cast<uint8_t>((accepts ? kAccepts : 0) | (ends ? 0 : kMayContinue));
}

ByteStateId ByteAutomaton::start(LanguageId language, Spelling spelling) {
  if (languages_.is_empty(language)) return kDead;
  State state;
  state.spelling = spelling;
  state.kind = spelling == Spelling::utf8 ? Kind::text : Kind::quote;
  state.language = language;
  return intern(std::move(state));
}

ByteStateId ByteAutomaton::between(LanguageId language, Spelling spelling) {
  if (languages_.is_empty(language)) return kDead;
  State state;
  state.spelling = spelling;
  state.kind = spelling == Spelling::utf8 ? Kind::text : Kind::body;
  state.language = language;
  return intern(std::move(state));
}

ByteStateId ByteAutomaton::inside(Kind kind, const State& from, uint32_t count, LanguageEdges edges) {
  if (edges.empty()) return kDead;
  State state;
  state.kind = kind;
  state.spelling = from.spelling;
  state.count = count;
  state.edges = std::move(edges);
  return intern(std::move(state));
}

ByteAutomaton::Place ByteAutomaton::place(ByteStateId state) const {
  const State& at = states_[state];
  return {at.language, at.kind == Kind::text || at.kind == Kind::body};
}

ByteStateId ByteAutomaton::cut(ByteStateId state, uint32_t horizon) {
  const Place at = place(state);
  if (!at.in_text) return state;
  return between(languages_.cut(at.language, horizon), states_[state].spelling);
}

LanguageEdges ByteAutomaton::living_edges(LanguageId language) {
  const LanguageEdges all = languages_.edges(language);
  LanguageEdges living;
  for (const LanguageEdge& edge : all) {
    if (!languages_.is_empty(edge.rest)) living.push_back(edge);
  }
  return living;
}

int ByteAutomaton::only_byte(ByteStateId state) {
  const ByteRow& next = row(state);
  const bool may_escape = in_json_text(state) && next['\\'] != kDead;
  int only = -1;
  for (int byte = 0; byte < 256; ++byte) {
    if (next[static_cast<size_t>(byte)] == kDead || (may_escape && byte == '\\')) continue;
    if (only >= 0) return -1;
    only = byte;
  }
  if (!may_escape) return only;
  if (only < 0) return '\\';
  const LanguageEdges edges = living_edges(states_[state].language);
  return edges.size() == 1 && edges[0].first == edges[0].last ? only : -1;
}

void ByteAutomaton::make_row(ByteStateId id) {
  auto row = std::make_unique<ByteRow>();
  row->fill(kDead);
  const State state = states_[id];
  switch (state.kind) {
    case Kind::dead:
    case Kind::done:
      break;
    case Kind::quote:
      (*row)['"'] = between(state.language, state.spelling);
      break;
    case Kind::text:
    case Kind::body:
      fill_characters(state, *row);
      break;
    case Kind::escape:
      fill_escape(state, *row);
      break;
    case Kind::tail:
      fill_tail(state, *row);
      break;
    case Kind::low_mark:
      (*row)['\\'] = inside(Kind::low_u, state, 0, state.edges);
      break;
    case Kind::low_u:
      (*row)['u'] = inside(Kind::low_d, state, 0, state.edges);
      break;
    default:
      fill_digits(state, *row);
  }
  if (state.kind == Kind::body) free_classes_[id] |= looping_classes(id, *row);
  rows_[id] = std::move(row);
  held_bytes_ += sizeof(ByteRow);
}

// Returns the byte classes of which every character leads back to the state itself.
ByteClasses ByteAutomaton::looping_classes(ByteStateId id, const ByteRow& row) const {
  ByteClasses others = 0;
  for (uint32_t byte = 0x20; byte < 0x80; ++byte) {
    if (row[byte] != id) others |= kByteClasses[byte];
  }
  const LanguageId language = states_[id].language;
  const LanguageEdges& edges = languages_.edges(language);
  const auto leads_back = [&](const CharRange& range) {
    return std::any_of(edges.begin(), edges.end(), [&](const LanguageEdge& edge) {
      return edge.rest == language && edge.first <= range.first && edge.last >= range.last;
    });
  };
  const CharSet beyond_ascii = intersected(all_chars(), {{0x80, UINT32_MAX}});
  if (!std::all_of(beyond_ascii.begin(), beyond_ascii.end(), leads_back)) others |= kByteClasses[0x80];
  return ~others;
}

void ByteAutomaton::fill_characters(const State& state, ByteRow& row) {
  const LanguageEdges edges = living_edges(state.language);
  const bool json = state.kind == Kind::body;
  const uint32_t first_plain = json ? 0x20 : 0;
  for (const LanguageEdge& edge : edges) {
    if (edge.first > 0x7F) break;
    const ByteStateId target = between(edge.rest, state.spelling);
    for (uint32_t byte = std::max(edge.first, first_plain); byte <= std::min(edge.last, 0x7FU); ++byte) {
      row[byte] = target;
    }
  }
  for (uint32_t lead = 0xC2; lead <= 0xF4; ++lead) {
    fill_lead(state, edges, row, lead, lead < 0xE0 ? 1 : (lead < 0xF0 ? 2 : 3));
  }
  if (!json) return;
  row['"'] = kDead;
  if (languages_.has_empty_text(state.language)) {
    State done;
    done.kind = Kind::done;
    row['"'] = intern(std::move(done));
  }
  row['\\'] = inside(Kind::escape, state, 0, edges);
}

void ByteAutomaton::fill_lead(const State& state, const LanguageEdges& edges, ByteRow& row, uint32_t lead,
                              uint32_t num_tail) {
  const uint32_t width = 1U << (6 * num_tail);
  const uint32_t first = (lead & (0x3FU >> num_tail)) << (6 * num_tail);
  constexpr uint32_t kLeast[] = {0, 0x80, 0x800, 0x10000};  // overlong forms are not UTF-8
  LanguageEdges part = part_of(edges, first, width);
  if (first < kLeast[num_tail]) {
    const uint32_t skipped = kLeast[num_tail] - first;
    LanguageEdges kept;
    for (LanguageEdge edge : part) {
      if (edge.last < skipped) continue;
      edge.first = std::max(edge.first, skipped);
      kept.push_back(edge);
    }
    part = std::move(kept);
  }
  row[lead] = inside(Kind::tail, state, num_tail, std::move(part));
}

void ByteAutomaton::fill_tail(const State& state, ByteRow& row) {
  const uint32_t width = 1U << (6 * (state.count - 1));
  for (uint32_t value = 0; value < 64; ++value) {
    row[0x80 + value] = state.count == 1 ? between(rest_at(state.edges, value), state.spelling)
                                         : inside(Kind::tail, state, state.count - 1,
                                                  part_of(state.edges, value * width, width));
  }
}

void ByteAutomaton::fill_escape(const State& state, ByteRow& row) {
  for (const ShortEscape& escape : kShortEscapes) {
    const LanguageId rest = rest_at(state.edges, static_cast<uint8_t>(escape.meaning));
    row[static_cast<uint8_t>(escape.letter)] = between(rest, state.spelling);
  }
  row['u'] = inside(Kind::unicode, state, 4, state.edges);
}

void ByteAutomaton::fill_digits(const State& state, ByteRow& row) {
  for (uint32_t digit = 0; digit < 16; ++digit) {
    const ByteStateId target = after_digit(state, digit);
    if (digit < 10) {
      row['0' + digit] = target;
    } else {
      row['a' + digit - 10] = target;
      row['A' + digit - 10] = target;
    }
  }
}

ByteStateId ByteAutomaton::after_digit(const State& state, uint32_t digit) {
  switch (state.kind) {
    case Kind::unicode:
      if (digit == 0xD) return inside(Kind::unicode_d, state, 3, after_d(state.edges));
      return inside(Kind::hex, state, 3, part_of(state.edges, digit << 12, 1 << 12));
    case Kind::unicode_d:
      if (digit < 8) return inside(Kind::hex, state, 2, part_of(state.edges, 0xD000 + (digit << 8), 1 << 8));
      if (digit >= 12) return kDead;
      return inside(Kind::high, state, 2, part_of(state.edges, 0x10000 + ((digit - 8) << 18), 1 << 18));
    case Kind::high: {
      const uint32_t width = 1U << (10 + 4 * (state.count - 1));
      LanguageEdges part = part_of(state.edges, digit * width, width);
      return inside(state.count == 1 ? Kind::low_mark : Kind::high, state, state.count - 1, std::move(part));
    }
    case Kind::low_d:
      return digit == 0xD ? inside(Kind::low_c, state, 0, state.edges) : kDead;
    case Kind::low_c:
      return digit < 12 ? kDead
                        : inside(Kind::hex, state, 2, part_of(state.edges, (digit - 12) << 8, 1 << 8));
    default: {
      if (state.count == 1) return between(rest_at(state.edges, digit), state.spelling);
      const uint32_t width = 1U << (4 * (state.count - 1));
      return inside(Kind::hex, state, state.count - 1, part_of(state.edges, digit * width, width));
    }
  }
}

}  // namespace quire
