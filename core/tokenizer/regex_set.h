// Sets of characters in a pattern for PCRE2, with the operations of character classes.
#pragma once

#include <string>
#include <vector>

namespace quire {

// A set of characters. PCRE2 knows unions of ranges and properties, and their complement. A set of any other
// form becomes a character with lookaheads. Copies are independent.
class RegexSet {
 public:
  // Makes an empty set.
  RegexSet() = default;
  // Makes a set from the items of a PCRE2 class, such as "a-z\\p{N}".
  explicit RegexSet(std::string items) : items_(std::move(items)) {}

  void add(const RegexSet& other);
  RegexSet complement() const;
  RegexSet intersection(const RegexSet& other) const;
  RegexSet difference(const RegexSet& other) const { return intersection(other.complement()); }
  RegexSet symmetric_difference(const RegexSet& other) const {
    RegexSet result = difference(other);
    result.add(other.difference(*this));
    return result;
  }

  // Returns a pattern that matches one character of the set.
  std::string pattern() const;
  // Returns the approximate size of the pattern, which operations may double.
  size_t num_bytes() const;

 private:
  std::string positive_pattern() const;

  // The set is the union of both, or the complement of the union.
  std::string items_;
  std::vector<std::string> others_;  // patterns that match one character each
  bool negated_ = false;
};

}  // namespace quire
