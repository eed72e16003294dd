#include "core/constrained/pattern.h"

#include <algorithm>

#include "core/base/error.h"
#include "core/constrained/pattern_tree.h"

namespace quire {
namespace {

using NodeKind = PatternNode::Kind;

bool is_zero_width(const PatternNode& node) {
  if (node.kind == NodeKind::lookahead || node.kind == NodeKind::start || node.kind == NodeKind::end)
    return true;
  const bool group = node.kind == NodeKind::sequence || node.kind == NodeKind::choice;
  return group && std::all_of(node.parts.begin(), node.parts.end(), is_zero_width);
}

bool looks_around(const PatternNode& node) {
  if (node.kind == NodeKind::lookahead || node.kind == NodeKind::start || node.kind == NodeKind::end)
    return true;
  return std::any_of(node.parts.begin(), node.parts.end(), looks_around);
}

// The language of a pattern followed by `tail`; lookahead applies to the tail as well.
class PatternLanguage {
 public:
  PatternLanguage(std::string_view text, LanguageStore& store) : text_(text), store_(store) {}

  LanguageId of(const PatternNode& node, LanguageId tail, bool at_start) {
    switch (node.kind) {
      case NodeKind::chars:
        return store_.concat(store_.chars(node.set), tail);
      case NodeKind::sequence:
        return of_sequence(node, tail, at_start);
      case NodeKind::choice:
        return of_choice(node, tail, at_start);
      case NodeKind::repeat:
        return of_repeat(node, tail, at_start);
      case NodeKind::lookahead: {
        const LanguageId seen = of(node.parts[0], LanguageStore::kAnything, at_start);
        return store_.all_of({tail, node.negative ? store_.complement(seen) : seen});
      }
      case NodeKind::start:
        return at_start ? tail : LanguageStore::kNothing;
      case NodeKind::end:
        return store_.all_of({tail, LanguageStore::kEmpty});
    }
    return LanguageStore::kNothing;
  }

 private:
  LanguageId of_sequence(const PatternNode& node, LanguageId tail, bool at_start) {
    size_t num_leading = 0;
    while (num_leading < node.parts.size() && is_zero_width(node.parts[num_leading])) ++num_leading;
    for (size_t i = node.parts.size(); i-- > 0;) tail = of(node.parts[i], tail, at_start && i <= num_leading);
    return tail;
  }

  LanguageId of_choice(const PatternNode& node, LanguageId tail, bool at_start) {
    const bool apart = looks_around(node);
    std::vector<LanguageId> branches;
    for (const PatternNode& part : node.parts) {
      branches.push_back(of(part, apart ? tail : LanguageStore::kEmpty, at_start));
    }
    const LanguageId any = store_.any_of(std::move(branches));
    return apart ? any : store_.concat(any, tail);
  }

  LanguageId of_repeat(const PatternNode& node, LanguageId tail, bool at_start) {
    const PatternNode& body = node.parts[0];
    if (!looks_around(body)) {
      const LanguageId once = of(body, LanguageStore::kEmpty, false);
      return store_.concat(store_.repeat(once, node.min, node.max), tail);
    }
    if (node.min == 0 && node.max == 1) return store_.any_of({tail, of(body, tail, at_start)});
    return of_guarded_repeat(node, tail);
  }

  // Returns the language of ((?!x)c)*: characters of c, with no x beginning at any of them.
  LanguageId of_guarded_repeat(const PatternNode& node, LanguageId tail) {
    const PatternNode& body = node.parts[0];
    const bool known = body.kind == NodeKind::sequence && body.parts.size() == 2 && node.max == kNoMaximum &&
                       body.parts[0].kind == NodeKind::lookahead && body.parts[0].negative &&
                       body.parts[1].kind == NodeKind::chars && !looks_around(body.parts[0].parts[0]) &&
                       tail == LanguageStore::kEmpty;
    if (!known) {
      throw Error(ErrorCode::unsupported, "pattern \"{}\": lookaround inside a repetition is not supported",
                  printable(text_));
    }
    const LanguageId avoided = of(body.parts[0].parts[0], LanguageStore::kAnything, false);
    const LanguageId somewhere = store_.concat(LanguageStore::kAnything, avoided);
    const LanguageId run = store_.repeat(store_.chars(body.parts[1].set), node.min, kNoMaximum);
    return store_.all_of({run, store_.complement(somewhere)});
  }

  std::string_view text_;
  LanguageStore& store_;
};

}  // namespace

LanguageId parse_pattern(std::string_view pattern, const PatternOptions& options, LanguageStore& store) {
  const PatternNode node = read_pattern(pattern, options);
  PatternLanguage language(pattern, store);
  if (options.dialect == PatternDialect::python) return language.of(node, LanguageStore::kEmpty, true);
  const LanguageId at_start = language.of(node, LanguageStore::kAnything, true);
  const LanguageId inside = language.of(node, LanguageStore::kAnything, false);
  if (inside == LanguageStore::kNothing) return at_start;
  return store.any_of({at_start, store.concat(LanguageStore::kAnything, inside)});
}

}  // namespace quire
