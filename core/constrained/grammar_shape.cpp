#include "core/constrained/grammar_shape.h"

#include <algorithm>
#include <optional>

#include "core/base/error.h"

namespace quire {
namespace {

using Kind = Expression::Kind;

class GrammarNormalizer {
 public:
  GrammarNormalizer(Grammar& grammar, LanguageStore& languages)
      : grammar_(grammar),
        languages_(languages),
        rule_languages_(grammar.rules.size()),
        nullable_(grammar.rules.size()) {}

  void run() {
    find_regular_rules();
    for (size_t i = 0; i < grammar_.rules.size(); ++i) {
      Rule& rule = grammar_.rules[i];
      if (rule.shortest && !rule_languages_[i]) {
        throw Error(ErrorCode::unsupported,
                    "the lazy rule \"{}\" is not regular; only regular rules can be lazy",
                    printable(rule.name));
      }
      rule.body = rule_languages_[i] ? grammar_.add_language(*rule_languages_[i]) : with_lexemes(rule.body);
    }
    grammar_.root = with_lexemes(grammar_.root);
    find_nullable_rules();
    for (uint32_t i = 0; i < grammar_.rules.size(); ++i) remove_left_recursion(i);
    refuse_left_recursion();
  }

 private:
  Expression at(ExpressionId id) const { return grammar_.expressions[id]; }

  // Works upward from rules without references; recursive rules are never regular.
  void find_regular_rules() {
    for (bool changed = true; changed;) {
      changed = false;
      for (size_t i = 0; i < grammar_.rules.size(); ++i) {
        if (rule_languages_[i]) continue;
        rule_languages_[i] = language_of(grammar_.rules[i].body);
        if (rule_languages_[i] && grammar_.rules[i].shortest)
          rule_languages_[i] = shortest_of(*rule_languages_[i]);
        changed = changed || rule_languages_[i];
      }
    }
  }

  LanguageId shortest_of(LanguageId language) {
    const LanguageId more = languages_.repeat(languages_.chars(all_chars()), 1, kNoMaximum);
    return languages_.all_of({language, languages_.complement(languages_.concat(language, more))});
  }

  std::optional<LanguageId> language_of(ExpressionId id) {
    const Expression expression = at(id);
    std::vector<LanguageId> parts;
    for (const ExpressionId part : expression.parts) {
      const auto language = language_of(part);
      if (!language) return std::nullopt;
      parts.push_back(*language);
    }
    switch (expression.kind) {
      case Kind::empty:
        return LanguageStore::kEmpty;
      case Kind::nothing:
        return LanguageStore::kNothing;
      case Kind::language:
        return expression.a;
      case Kind::sequence:
        return languages_.sequence(parts);
      case Kind::choice:
        return languages_.any_of(std::move(parts));
      case Kind::conjunction:
        return languages_.all_of(std::move(parts));
      case Kind::negation: {
        const auto part = language_of(expression.a);
        if (!part) return std::nullopt;
        return languages_.complement(*part);
      }
      case Kind::rule:
        return rule_languages_[expression.a];
      case Kind::repetition: {
        const auto part = language_of(expression.a);
        if (!part) return std::nullopt;
        return languages_.repeat(*part, expression.min, expression.max);
      }
      default:
        return std::nullopt;
    }
  }

  ExpressionId with_lexemes(ExpressionId id) {
    if (const auto language = language_of(id)) return grammar_.add_language(*language);
    Expression expression = at(id);
    if (expression.kind == Kind::conjunction || expression.kind == Kind::negation) {
      throw Error(ErrorCode::unsupported,
                  "an operand of & or ~ is not regular: use only patterns, texts and terminals without "
                  "tokens, %json and recursion");
    }
    if (expression.kind == Kind::repetition) {
      expression.a = with_lexemes(expression.a);
      return grammar_.add(std::move(expression));
    }
    if (expression.kind != Kind::sequence && expression.kind != Kind::choice) return id;
    std::vector<ExpressionId> parts;
    std::vector<LanguageId> regular;  // adjacent parts of a sequence, or all of a choice
    const bool choice = expression.kind == Kind::choice;
    const auto flush = [&] {
      if (regular.empty()) return;
      parts.push_back(grammar_.add_language(choice ? languages_.any_of(std::move(regular))
                                                   : languages_.sequence(regular)));
      regular.clear();
    };
    for (const ExpressionId part : expression.parts) {
      if (const auto language = language_of(part)) {
        regular.push_back(*language);
        continue;
      }
      if (!choice) flush();
      parts.push_back(with_lexemes(part));
    }
    flush();
    return grammar_.add_group(expression.kind, std::move(parts));
  }

  bool is_nullable(ExpressionId id) const {
    const Expression& expression = grammar_.expressions[id];
    const auto part_is = [this](ExpressionId part) { return is_nullable(part); };
    switch (expression.kind) {
      case Kind::empty:
        return true;
      case Kind::language:
        return languages_.has_empty_text(expression.a);
      case Kind::sequence:
        return std::all_of(expression.parts.begin(), expression.parts.end(), part_is);
      case Kind::choice:
        return std::any_of(expression.parts.begin(), expression.parts.end(), part_is);
      case Kind::repetition:
        return expression.min == 0 || is_nullable(expression.a);
      case Kind::rule:
        return nullable_[expression.a];
      default:
        return false;
    }
  }

  void find_nullable_rules() {
    for (bool changed = true; changed;) {
      changed = false;
      for (size_t i = 0; i < grammar_.rules.size(); ++i) {
        if (nullable_[i] || !is_nullable(grammar_.rules[i].body)) continue;
        nullable_[i] = changed = true;
      }
    }
  }

  bool is_rule(ExpressionId id, uint32_t rule) const {
    return grammar_.expressions[id].kind == Kind::rule && grammar_.expressions[id].a == rule;
  }

  // Removes direct left recursion: `a: a x | y` becomes `a: y x*`.
  void remove_left_recursion(uint32_t rule) {
    const Expression body = at(grammar_.rules[rule].body);
    const std::vector<ExpressionId> branches =
        body.kind == Kind::choice ? body.parts : std::vector{grammar_.rules[rule].body};
    std::vector<ExpressionId> firsts;
    std::vector<ExpressionId> rests;
    for (const ExpressionId branch : branches) {
      const Expression sequence = at(branch);
      const bool itself = sequence.kind == Kind::sequence && is_rule(sequence.parts[0], rule);
      if (is_rule(branch, rule)) continue;  // `a: a` has no effect
      if (!itself) {
        firsts.push_back(branch);
        continue;
      }
      rests.push_back(grammar_.add_group(Kind::sequence, {sequence.parts.begin() + 1, sequence.parts.end()}));
    }
    if (rests.empty()) return;
    const ExpressionId rest = grammar_.add_group(Kind::choice, std::move(rests));
    const ExpressionId more = grammar_.add_repetition(rest, 0, kNoMaximum);
    grammar_.rules[rule].body =
        grammar_.add_group(Kind::sequence, {grammar_.add_group(Kind::choice, std::move(firsts)), more});
  }

  // Collects the rules that a text of the expression can begin with.
  void first_rules(ExpressionId id, std::vector<bool>& found) const {
    const Expression& expression = grammar_.expressions[id];
    if (expression.kind == Kind::rule) found[expression.a] = true;
    if (expression.kind == Kind::repetition) first_rules(expression.a, found);
    for (const ExpressionId part : expression.parts) {
      first_rules(part, found);
      if (expression.kind == Kind::sequence && !is_nullable(part)) return;
    }
  }

  void refuse_left_recursion() const {
    const size_t num_rules = grammar_.rules.size();
    std::vector<std::vector<bool>> firsts(num_rules, std::vector<bool>(num_rules));
    for (size_t i = 0; i < num_rules; ++i) first_rules(grammar_.rules[i].body, firsts[i]);
    for (size_t i = 0; i < num_rules; ++i) {
      std::vector<bool> reached(num_rules);
      std::vector<size_t> todo = {i};
      while (!todo.empty()) {
        const size_t at = todo.back();
        todo.pop_back();
        for (size_t next = 0; next < num_rules; ++next) {
          if (!firsts[at][next] || reached[next]) continue;
          reached[next] = true;
          todo.push_back(next);
        }
      }
      if (reached[i]) {
        throw Error(ErrorCode::unsupported,
                    "the rule \"{}\" begins with itself through another rule (indirect left recursion), "
                    "which is not supported",
                    printable(grammar_.rules[i].name));
      }
    }
  }

  Grammar& grammar_;
  LanguageStore& languages_;
  std::vector<std::optional<LanguageId>> rule_languages_;
  std::vector<bool> nullable_;
};

}  // namespace

void normalize_grammar(Grammar& grammar, LanguageStore& languages) {
  GrammarNormalizer(grammar, languages).run();
}

}  // namespace quire
