// Long file: the measures and the derivatives of each kind of language, which mirror each other.
#include "core/constrained/language_store.h"

#include <algorithm>
#include <map>

#include "core/base/error.h"
#include "core/base/utf8.h"
#include "core/constrained/reserve_one.h"
#include "core/constrained/states_full.h"

namespace quire {
namespace {

constexpr uint16_t kMaxDepth = 1000;
constexpr size_t kTermBytes = 240;  // of a term in all lists, without its operands and edges

uint32_t saturating_add(uint32_t a, uint32_t b) {
  return a > kNoMaximum - b ? kNoMaximum : a + b;
}

uint32_t saturating_mul(uint32_t a, uint32_t b) {
  if (a == 0 || b == 0) return 0;
  return a > kNoMaximum / b ? kNoMaximum : a * b;
}

// Appends an edge, and merges it with the last edge if they are adjacent and lead to the same language.
void append_edge(LanguageEdges& edges, const LanguageEdge& edge) {
  if (edge.rest == LanguageStore::kNothing) return;
  if (!edges.empty() && edges.back().rest == edge.rest && edges.back().last + 1 == edge.first) {
    edges.back().last = edge.last;
  } else {
    edges.push_back(edge);
  }
}

// The ranges on which all of several edge lists are constant, each with the languages that the lists have
// there.
struct Overlay {
  std::vector<uint32_t> starts;  // ascending; a range ends before the next start
  std::vector<std::vector<LanguageId>> rests;
};

Overlay overlay(gsl::span<const LanguageEdges* const> lists) {
  Overlay result;
  for (const LanguageEdges* const list : lists) {
    for (const LanguageEdge& edge : *list) {
      result.starts.push_back(edge.first);
      result.starts.push_back(edge.last + 1);
    }
  }
  std::sort(result.starts.begin(), result.starts.end());
  result.starts.erase(std::unique(result.starts.begin(), result.starts.end()), result.starts.end());
  result.rests.resize(result.starts.size());
  for (const LanguageEdges* const list : lists) {
    for (const LanguageEdge& edge : *list) {
      const auto it = std::lower_bound(result.starts.begin(), result.starts.end(), edge.first);
      for (auto idx = static_cast<size_t>(it - result.starts.begin()); result.starts[idx] <= edge.last;
           ++idx) {
        result.rests[idx].push_back(edge.rest);
      }
    }
  }
  return result;
}

}  // namespace

size_t LanguageStore::KeyHash::operator()(const std::vector<uint32_t>& key) const {
  uint64_t hash = key.size();
  for (const uint32_t part : key) hash = (hash ^ part) * 0x9E3779B97F4A7C15U + (hash >> 29);
  return static_cast<size_t>(hash ^ (hash >> 32));
}

LanguageStore::LanguageStore(size_t max_terms) : max_terms_(max_terms) {
  intern(Kind::nothing, {});
  intern(Kind::empty, {});
  complement(kNothing);
}

LanguageId LanguageStore::intern(Kind kind, std::vector<uint32_t> operands) {
  std::vector<uint32_t> key;
  key.reserve(operands.size() + 1);
  key.assign(operands.begin(), operands.end());
  key.push_back(static_cast<uint32_t>(kind));
  const auto known = by_key_.find(key);
  if (known != by_key_.end()) return known->second;
  if (terms_.size() >= capacity_of(max_terms_)) throw StatesFull("max_states", max_terms_, "states");
  Term term;
  term.kind = kind;
  term.operands = std::move(operands);
  measure(term);
  if (term.depth > kMaxDepth)
    throw Error(ErrorCode::capacity, "a pattern is nested deeper than {} levels", kMaxDepth);
  const auto id = static_cast<LanguageId>(terms_.size());
  const size_t num_bytes = kTermBytes + 2 * sizeof(uint32_t) * term.operands.size();
  reserve_one(terms_, edges_, has_edges_, emptiness_);
  by_key_.emplace(std::move(key), id);
  // Nothing below can fail.
  terms_.push_back(std::move(term));
  edges_.emplace_back();
  has_edges_.push_back(0);
  emptiness_.push_back(0);
  held_bytes_ += num_bytes;
  return id;
}

void LanguageStore::measure(Term& term) const {
  switch (term.kind) {
    case Kind::nothing:
      term.may_be_empty = true;
      return;
    case Kind::empty:
      term.nullable = true;
      return;
    case Kind::chars:
      term.max_length = 1;
      term.depth = 1;
      term.free_length = char_sets_[term.operands[0]] == all_chars() ? 1 : 0;
      return;
    case Kind::number:
      term.max_length = kNoMaximum;
      term.may_be_empty = true;
      term.nullable = number_tests_[term.operands[0]].passes(number_states_[term.operands[1]]);
      return;
    case Kind::concat:
      return measure_concat(term);
    case Kind::repeat:
      return measure_repeat(term);
    case Kind::complement:
      return measure_complement(term);
    case Kind::any_of:
      return measure_any_of(term);
    case Kind::all_of:
      return measure_all_of(term);
  }
}

void LanguageStore::measure_concat(Term& term) const {
  const Term& first = terms_[term.operands[0]];
  const Term& second = terms_[term.operands[1]];
  term.nullable = first.nullable && second.nullable;
  term.may_be_empty = first.may_be_empty || second.may_be_empty;
  term.depth = static_cast<uint16_t>(1 + std::max(first.depth, first.nullable ? second.depth : uint16_t{0}));
  term.max_length = saturating_add(first.max_length, second.max_length);
  term.most_counted = std::max(first.most_counted, second.most_counted);
  // A prefix of the first part is a prefix of the whole, if the second part is not empty.
  term.free_length = second.may_be_empty ? 0 : first.free_length;
  if (second.cofinite_from == 0 && first.nullable) term.cofinite_from = 0;
}

void LanguageStore::measure_repeat(Term& term) const {
  const Term& body = terms_[term.operands[0]];
  const uint32_t min = term.operands[1];
  const uint32_t max = term.operands[2];
  term.nullable = min == 0 || body.nullable;
  term.may_be_empty = body.may_be_empty;
  term.depth = static_cast<uint16_t>(1 + body.depth);
  term.max_length = saturating_mul(body.max_length, max);
  term.most_counted = max == kNoMaximum ? min : max;
  if (body.kind == Kind::chars && body.free_length == 1) {
    term.free_length = max;
    if (max == kNoMaximum) term.cofinite_from = min;
  }
}

void LanguageStore::measure_complement(Term& term) const {
  const Term& operand = terms_[term.operands[0]];
  term.nullable = !operand.nullable;
  term.may_be_empty = term.operands[0] != kNothing;
  term.depth = static_cast<uint16_t>(1 + operand.depth);
  term.max_length = operand.cofinite_from == kNoMaximum ? kNoMaximum : operand.cofinite_from;
  if (operand.max_length != kNoMaximum)
    term.cofinite_from = term.operands[0] == kNothing ? 0 : operand.max_length + 1;
  term.free_length = term.cofinite_from == kNoMaximum ? 0 : kNoMaximum;
  if (term.cofinite_from != kNoMaximum) term.may_be_empty = false;
}

void LanguageStore::measure_any_of(Term& term) const {
  term.nullable = false;
  term.may_be_empty = true;
  term.max_length = 0;
  term.cofinite_from = kNoMaximum;
  for (const LanguageId part : term.operands) {
    const Term& operand = terms_[part];
    term.depth = std::max(term.depth, static_cast<uint16_t>(1 + operand.depth));
    term.most_counted = std::max(term.most_counted, operand.most_counted);
    term.nullable = term.nullable || operand.nullable;
    term.may_be_empty = term.may_be_empty && operand.may_be_empty;
    term.max_length = std::max(term.max_length, operand.max_length);
    term.cofinite_from = std::min(term.cofinite_from, operand.cofinite_from);
    term.free_length = std::max(term.free_length, operand.free_length);
  }
}

void LanguageStore::measure_all_of(Term& term) const {
  term.nullable = true;
  term.may_be_empty = true;
  term.max_length = kNoMaximum;
  term.cofinite_from = 0;
  uint32_t bounded_free = kNoMaximum;  // the minimum over the parts that are not cofinite
  size_t num_bounded = 0;
  for (const LanguageId part : term.operands) {
    const Term& operand = terms_[part];
    term.depth = std::max(term.depth, static_cast<uint16_t>(1 + operand.depth));
    term.most_counted = std::max(term.most_counted, operand.most_counted);
    term.nullable = term.nullable && operand.nullable;
    term.max_length = std::min(term.max_length, operand.max_length);
    term.cofinite_from = std::max(term.cofinite_from, operand.cofinite_from);
    if (operand.cofinite_from != kNoMaximum) continue;
    ++num_bounded;
    bounded_free = std::min(bounded_free, operand.free_length);
  }
  if (term.cofinite_from != kNoMaximum) {
    term.free_length = kNoMaximum;
    term.may_be_empty = false;
    return;
  }
  // Handles one bounded repetition of any character, intersected with languages that contain all texts of its
  // full length.
  uint32_t others = 0;
  for (const LanguageId part : term.operands) {
    if (terms_[part].cofinite_from != kNoMaximum) others = std::max(others, terms_[part].cofinite_from);
  }
  const bool one_count = num_bounded == 1 && bounded_free != 0;
  if (!one_count) return;
  for (const LanguageId part : term.operands) {
    const Term& operand = terms_[part];
    if (operand.cofinite_from != kNoMaximum || operand.kind != Kind::repeat) continue;
    if (operand.max_length == operand.free_length && others <= operand.free_length) {
      term.free_length = operand.free_length;
      term.may_be_empty = false;
    }
  }
}

// Returns the index of a value in `values`. Its key is one that no term has.
template <typename Value>
uint32_t LanguageStore::number_of(std::vector<uint32_t> key, const Value& value, std::vector<Value>& values) {
  const auto known = by_key_.find(key);
  if (known != by_key_.end()) return known->second;
  Value copy = value;
  reserve_one(values);
  const auto number = static_cast<uint32_t>(values.size());
  const size_t num_bytes = kTermBytes + 2 * sizeof(uint32_t) * key.size();
  by_key_.emplace(std::move(key), number);
  values.push_back(std::move(copy));
  held_bytes_ += num_bytes;
  return number;
}

LanguageId LanguageStore::chars(const CharSet& set) {
  if (set.empty()) return kNothing;
  std::vector<uint32_t> key;
  for (const CharRange& range : set) {
    key.push_back(range.first);
    key.push_back(range.last);
  }
  key.push_back(UINT32_MAX);
  return intern(Kind::chars, {number_of(std::move(key), set, char_sets_)});
}

LanguageId LanguageStore::text(std::string_view utf8) {
  std::vector<LanguageId> parts;
  for (size_t pos = 0; pos < utf8.size();) {
    const Utf8Char next = decode_utf8(utf8, pos);
    if (!next.valid)
      throw Error(ErrorCode::encoding, "a text of a constraint: not valid UTF-8 at byte {}", pos);
    parts.push_back(chars({{next.code_point, next.code_point}}));
    pos += next.length;
  }
  return sequence(parts);
}

LanguageId LanguageStore::sequence(gsl::span<const LanguageId> parts) {
  LanguageId rest = kEmpty;
  for (size_t i = parts.size(); i-- > 0;) rest = concat(parts[i], rest);
  return rest;
}

LanguageId LanguageStore::concat(LanguageId first, LanguageId second) {
  std::vector<LanguageId> parts;  // parts of `first`; concatenations nest to the right
  while (terms_[first].kind == Kind::concat) {
    parts.push_back(terms_[first].operands[0]);
    first = terms_[first].operands[1];
  }
  parts.push_back(first);
  for (size_t i = parts.size(); i-- > 0;) {
    if (parts[i] == kNothing || second == kNothing) return kNothing;
    if (parts[i] == kEmpty) continue;
    if (second == kEmpty) {
      second = parts[i];
    } else if (parts[i] != kAnything || second != kAnything) {
      second = intern(Kind::concat, {parts[i], second});
    }
  }
  return second;
}

void LanguageStore::flatten(Kind kind, std::vector<LanguageId>& parts) const {
  std::vector<LanguageId> flat;
  for (const LanguageId part : parts) {
    if (terms_[part].kind == kind) {
      flat.insert(flat.end(), terms_[part].operands.begin(), terms_[part].operands.end());
    } else {
      flat.push_back(part);
    }
  }
  std::sort(flat.begin(), flat.end());
  flat.erase(std::unique(flat.begin(), flat.end()), flat.end());
  parts = std::move(flat);
}

void LanguageStore::join_char_sets(std::vector<LanguageId>& parts) {
  const auto is_set = [this](LanguageId part) { return terms_[part].kind == Kind::chars; };
  if (std::count_if(parts.begin(), parts.end(), is_set) < 2) return;
  CharSet joined;
  for (const LanguageId part : parts) {
    if (!is_set(part)) continue;
    const CharSet& set = char_sets_[terms_[part].operands[0]];
    joined.insert(joined.end(), set.begin(), set.end());
  }
  parts.erase(std::remove_if(parts.begin(), parts.end(), is_set), parts.end());
  parts.push_back(chars(normalized(std::move(joined))));
  std::sort(parts.begin(), parts.end());
}

LanguageId LanguageStore::any_of(std::vector<LanguageId> parts) {
  if (parts.size() == 2 && parts[0] == parts[1]) return parts[0];
  flatten(Kind::any_of, parts);
  join_char_sets(parts);
  std::erase(parts, kNothing);
  if (std::binary_search(parts.begin(), parts.end(), kAnything)) return kAnything;
  if (parts.size() > 1 && std::binary_search(parts.begin(), parts.end(), kEmpty)) {
    const bool other = std::any_of(parts.begin(), parts.end(), [this](LanguageId part) {
      return part != kEmpty && terms_[part].nullable;
    });
    if (other) std::erase(parts, kEmpty);
  }
  if (parts.empty()) return kNothing;
  if (parts.size() == 1) return parts[0];
  return intern(Kind::any_of, std::move(parts));
}

LanguageId LanguageStore::all_of(std::vector<LanguageId> parts) {
  flatten(Kind::all_of, parts);
  std::erase(parts, kAnything);
  if (parts.empty()) return kAnything;
  if (parts[0] == kNothing) return kNothing;
  if (parts.size() == 1) return parts[0];
  if (std::binary_search(parts.begin(), parts.end(), kEmpty)) {
    const bool all =
        std::all_of(parts.begin(), parts.end(), [this](LanguageId part) { return terms_[part].nullable; });
    return all ? kEmpty : kNothing;
  }
  for (const LanguageId part : parts) {
    if (terms_[part].kind == Kind::complement &&
        std::binary_search(parts.begin(), parts.end(), terms_[part].operands[0])) {
      return kNothing;
    }
  }
  return intern(Kind::all_of, std::move(parts));
}

LanguageId LanguageStore::complement(LanguageId language) {
  if (terms_[language].kind == Kind::complement) return terms_[language].operands[0];
  return intern(Kind::complement, {language});
}

LanguageId LanguageStore::repeat(LanguageId language, uint32_t min, uint32_t max) {
  if (max == 0 || language == kEmpty) return kEmpty;
  if (language == kNothing) return min == 0 ? kEmpty : kNothing;
  if (min == 1 && max == 1) return language;
  if (terms_[language].nullable) min = 0;
  const Term& body = terms_[language];
  if (body.kind == Kind::repeat && body.operands[1] == 0 && body.operands[2] == kNoMaximum) return language;
  const bool any_char = body.kind == Kind::chars && body.free_length == 1;
  if (language == kAnything || (any_char && min == 0 && max == kNoMaximum)) return kAnything;
  return intern(Kind::repeat, {language, min, max});
}

LanguageId LanguageStore::number(const NumberTest& test) {
  const auto it = std::find(number_tests_.begin(), number_tests_.end(), test);
  const auto idx = static_cast<uint32_t>(it - number_tests_.begin());
  if (it == number_tests_.end()) number_tests_.push_back(test);
  return number_state(idx, {});
}

LanguageId LanguageStore::number_state(uint32_t test_idx, const NumberProgress& progress) {
  std::vector<uint32_t> key = {
      static_cast<uint32_t>(progress.phase),
      static_cast<uint32_t>(progress.negative) | static_cast<uint32_t>(progress.nonzero) << 1 |
          static_cast<uint32_t>(progress.small_exponent) << 2 |
          static_cast<uint32_t>(progress.one_digit) << 3 | static_cast<uint32_t>(progress.order + 1) << 4,
      progress.num_whole,
      progress.num_fraction,
      static_cast<uint32_t>(progress.remainder >> 32),
      static_cast<uint32_t>(progress.remainder),
      UINT32_MAX - 1};
  return intern(Kind::number, {test_idx, number_of(std::move(key), progress, number_states_)});
}

const LanguageEdges& LanguageStore::edges(LanguageId language) {
  if (has_edges_[language] == 0) derive_with_parts(language);
  return edges_[language];
}

// Derives the parts that the derivative needs first. The list replaces a recursion as deep as the language,
// which would not fit into a small stack.
void LanguageStore::derive_with_parts(LanguageId language) {
  std::vector<LanguageId> todo = {language};
  while (!todo.empty()) {
    const LanguageId next = todo.back();
    const size_t size = todo.size();
    if (has_edges_[next] == 0) push_parts_to_derive(next, todo);
    if (todo.size() > size) continue;
    todo.pop_back();
    if (has_edges_[next] != 0) continue;
    LanguageEdges found = derive(next);
    held_bytes_ += found.capacity() * sizeof(LanguageEdge);
    edges_[next] = std::move(found);
    has_edges_[next] = 1;
  }
}

void LanguageStore::push_parts_to_derive(LanguageId language, std::vector<LanguageId>& todo) const {
  const Term& term = terms_[language];
  const auto push = [&](LanguageId part) {
    if (has_edges_[part] == 0) todo.push_back(part);
  };
  switch (term.kind) {
    case Kind::concat:
      push(term.operands[0]);
      if (terms_[term.operands[0]].nullable) push(term.operands[1]);
      return;
    case Kind::repeat:
    case Kind::complement:
      return push(term.operands[0]);
    case Kind::any_of:
    case Kind::all_of:
      std::for_each(term.operands.begin(), term.operands.end(), push);
      return;
    default:
      return;
  }
}

LanguageEdges LanguageStore::derive(LanguageId language) {
  const Term term = terms_[language];
  switch (term.kind) {
    case Kind::nothing:
    case Kind::empty:
      return {};
    case Kind::chars: {
      LanguageEdges found;
      for (const CharRange& range : char_sets_[term.operands[0]])
        found.push_back({range.first, range.last, kEmpty});
      return found;
    }
    case Kind::concat:
      return derive_concat(term.operands[0], term.operands[1]);
    case Kind::repeat: {
      const uint32_t min = term.operands[1] == 0 ? 0 : term.operands[1] - 1;
      const uint32_t max = term.operands[2] == kNoMaximum ? kNoMaximum : term.operands[2] - 1;
      const LanguageId rest = repeat(term.operands[0], min, max);
      const LanguageEdges body = edges(term.operands[0]);
      LanguageEdges found;
      for (const LanguageEdge& edge : body)
        append_edge(found, {edge.first, edge.last, concat(edge.rest, rest)});
      return found;
    }
    case Kind::complement:
      return derive_complement(term.operands[0]);
    case Kind::number:
      return derive_number(language);
    default:
      return derive_boolean(language);
  }
}

LanguageEdges LanguageStore::derive_concat(LanguageId first, LanguageId second) {
  const LanguageEdges of_first = edges(first);
  LanguageEdges moved;
  for (const LanguageEdge& edge : of_first)
    append_edge(moved, {edge.first, edge.last, concat(edge.rest, second)});
  if (!terms_[first].nullable) return moved;
  const LanguageEdges of_second = edges(second);
  const LanguageEdges* const lists[] = {&moved, &of_second};
  Overlay both = overlay(lists);
  LanguageEdges found;
  for (size_t i = 0; i + 1 < both.starts.size(); ++i) {
    append_edge(found, {both.starts[i], both.starts[i + 1] - 1, any_of(std::move(both.rests[i]))});
  }
  return found;
}

LanguageEdges LanguageStore::derive_boolean(LanguageId language) {
  const std::vector<LanguageId> parts = terms_[language].operands;
  const bool any = terms_[language].kind == Kind::any_of;
  for (const LanguageId part : parts) edges(part);
  std::vector<const LanguageEdges*> lists;
  lists.reserve(parts.size());
  for (const LanguageId part : parts) lists.push_back(&edges_[part]);
  Overlay all = overlay(lists);
  LanguageEdges found;
  for (size_t i = 0; i + 1 < all.starts.size(); ++i) {
    LanguageId rest = kNothing;
    if (any) {
      rest = any_of(std::move(all.rests[i]));
    } else if (all.rests[i].size() == parts.size()) {
      rest = all_of(std::move(all.rests[i]));
    }
    append_edge(found, {all.starts[i], all.starts[i + 1] - 1, rest});
  }
  return found;
}

LanguageEdges LanguageStore::derive_complement(LanguageId operand) {
  const LanguageEdges of_operand = edges(operand);
  CharSet covered;
  LanguageEdges found;
  for (const LanguageEdge& edge : of_operand) {
    covered.push_back({edge.first, edge.last});
    found.push_back({edge.first, edge.last, complement(edge.rest)});
  }
  for (const CharRange& gap : quire::complement(normalized(covered)))
    found.push_back({gap.first, gap.last, kAnything});
  std::sort(found.begin(), found.end(),
            [](const LanguageEdge& a, const LanguageEdge& b) { return a.first < b.first; });
  LanguageEdges joined;
  for (const LanguageEdge& edge : found) append_edge(joined, edge);
  return joined;
}

LanguageEdges LanguageStore::derive_number(LanguageId language) {
  const uint32_t test_idx = terms_[language].operands[0];
  const NumberProgress here = number_states_[terms_[language].operands[1]];
  LanguageEdges found;
  for (const char symbol : std::string_view("+-.0123456789Ee")) {
    NumberProgress next = here;
    if (!number_tests_[test_idx].advance(next, symbol)) continue;
    const auto code = static_cast<uint32_t>(static_cast<unsigned char>(symbol));
    append_edge(found, {code, code, number_state(test_idx, next)});
  }
  return found;
}

LanguageId LanguageStore::after(LanguageId language, uint32_t code_point) {
  const LanguageEdges& found = edges(language);
  const auto it = std::upper_bound(found.begin(), found.end(), code_point,
                                   [](uint32_t code, const LanguageEdge& edge) { return code < edge.first; });
  if (it == found.begin() || std::prev(it)->last < code_point) return kNothing;
  return std::prev(it)->rest;
}

bool LanguageStore::contains(LanguageId language, std::string_view utf8) {
  for (size_t pos = 0; pos < utf8.size() && language != kNothing;) {
    const Utf8Char next = decode_utf8(utf8, pos);
    language = next.valid ? after(language, next.code_point) : kNothing;
    pos += next.length;
  }
  return terms_[language].nullable;
}

bool LanguageStore::is_empty(LanguageId language) {
  if (!terms_[language].may_be_empty || terms_[language].nullable) return false;
  if (emptiness_[language] != 0) return emptiness_[language] == 1;
  std::vector<LanguageId> order = {language};
  std::vector<size_t> parents = {0};
  std::unordered_map<LanguageId, bool> seen = {{language, true}};
  for (size_t i = 0; i < order.size(); ++i) {
    const LanguageEdges found = edges(order[i]);
    for (const LanguageEdge& edge : found) {
      const bool known =
          !terms_[edge.rest].may_be_empty || terms_[edge.rest].nullable || emptiness_[edge.rest] == 2;
      if (known) {
        for (size_t at = i;; at = parents[at]) {
          emptiness_[order[at]] = 2;
          if (at == 0) return false;
        }
      }
      if (emptiness_[edge.rest] == 1 || !seen.emplace(edge.rest, true).second) continue;
      order.push_back(edge.rest);
      parents.push_back(i);
    }
  }
  for (const LanguageId empty : order) emptiness_[empty] = 1;
  return true;
}

LanguageId LanguageStore::cut(LanguageId language, uint32_t horizon) {
  Cuts cuts;
  std::vector<LanguageId> todo = {language};
  while (!todo.empty()) {
    const LanguageId next = todo.back();
    const size_t size = todo.size();
    if (!cuts.contains(next)) push_parts_to_cut(next, cuts, horizon, todo);
    if (todo.size() > size) continue;
    todo.pop_back();
    if (!cuts.contains(next)) cuts.emplace(next, cut_with_parts(next, cuts, horizon));
  }
  return cuts.at(language);
}

void LanguageStore::push_parts_to_cut(LanguageId language, const Cuts& cuts, uint32_t horizon,
                                      std::vector<LanguageId>& todo) const {
  const Term& term = terms_[language];
  const bool has_parts = term.kind == Kind::concat || term.kind == Kind::any_of || term.kind == Kind::all_of;
  if (term.most_counted <= horizon + 1 || !has_parts) return;
  for (const LanguageId part : term.operands) {
    if (!cuts.contains(part)) todo.push_back(part);
  }
}

LanguageId LanguageStore::cut_with_parts(LanguageId language, const Cuts& cuts, uint32_t horizon) {
  if (terms_[language].most_counted <= horizon + 1) return language;
  const Term term = terms_[language];
  if (term.kind == Kind::concat) return concat(cuts.at(term.operands[0]), cuts.at(term.operands[1]));
  if (term.kind == Kind::repeat) {
    const uint32_t min = std::min(term.operands[1], horizon + 1);
    const uint32_t max = term.operands[2] > horizon + 1 ? kNoMaximum : term.operands[2];
    return repeat(term.operands[0], min, max);
  }
  if (term.kind == Kind::any_of || term.kind == Kind::all_of) {
    std::vector<LanguageId> parts;
    for (const LanguageId part : term.operands) parts.push_back(cuts.at(part));
    return term.kind == Kind::any_of ? any_of(std::move(parts)) : all_of(std::move(parts));
  }
  return language;
}

}  // namespace quire
