#include "core/tokenizer/regex_set.h"

#include <fmt/format.h>

namespace quire {

void RegexSet::add(const RegexSet& other) {
  if (negated_) {
    std::string own = pattern();
    *this = RegexSet();
    others_.push_back(std::move(own));
  }
  if (other.negated_) {
    others_.push_back(other.pattern());
  } else {
    items_ += other.items_;
    others_.insert(others_.end(), other.others_.begin(), other.others_.end());
  }
}

RegexSet RegexSet::complement() const {
  RegexSet result = *this;
  result.negated_ = !negated_;
  return result;
}

RegexSet RegexSet::intersection(const RegexSet& other) const {
  if (negated_ && other.negated_) {
    RegexSet excluded = complement();
    excluded.add(other.complement());
    return excluded.complement();
  }
  const RegexSet& checked = negated_ ? *this : other;
  const RegexSet& taken = negated_ ? other : *this;
  RegexSet result;
  result.others_.push_back(fmt::format("(?:(?{}{}){})", checked.negated_ ? '!' : '=',
                                       checked.positive_pattern(), taken.pattern()));
  return result;
}

size_t RegexSet::num_bytes() const {
  size_t sum = items_.size();
  for (const std::string& other : others_) sum += other.size();
  return sum;
}

std::string RegexSet::pattern() const {
  if (!negated_) return positive_pattern();
  const std::string rest = items_.empty() ? "[\\x{0}-\\x{10ffff}]" : fmt::format("[^{}]", items_);
  return others_.empty() ? rest : fmt::format("(?:(?!{}){})", fmt::join(others_, "|"), rest);
}

std::string RegexSet::positive_pattern() const {
  if (others_.empty()) return items_.empty() ? "(?!)" : fmt::format("[{}]", items_);
  std::vector<std::string> alternatives = others_;
  if (!items_.empty()) alternatives.insert(alternatives.begin(), fmt::format("[{}]", items_));
  // Alternatives can overlap. The group is atomic, or else a failing search would try each of them for each
  // character.
  return alternatives.size() == 1 ? alternatives.front()
                                  : fmt::format("(?>{})", fmt::join(alternatives, "|"));
}

}  // namespace quire
