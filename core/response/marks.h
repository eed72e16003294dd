// Finds the longest of several marks at the beginning of a text that is still growing.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string_view>
#include <vector>

namespace quire {

enum class MoreToCome : bool { no, yes };

template <typename Meaning>
class MarkSet {
 public:
  struct Found {
    bool wait = false;  // more text is needed to decide
    size_t size = 0;    // 0: no mark
    Meaning meaning = {};
  };

  // If two marks have the same words, the first one counts. The words must outlive the set.
  void add(std::string_view words, Meaning meaning) {
    if (!words.empty()) marks_.push_back({words, meaning});
  }
  template <typename List>
  void add_all(const List& list, Meaning meaning) {
    for (const std::string_view words : list) add(words, meaning);
  }
  size_t size() const { return marks_.size(); }
  // Returns whether the rest of the text, which ends here, is an incomplete mark with this meaning.
  bool is_cut(std::string_view text, Meaning meant) const {
    return std::any_of(marks_.begin(), marks_.end(), [&](const Mark& mark) {
      return mark.meaning == meant && mark.words.size() > text.size() &&
             mark.words.substr(0, text.size()) == text;
    });
  }
  // Returns whether the rest of the text, which ends here, is an incomplete mark.
  bool is_cut(std::string_view text) const {
    return std::any_of(marks_.begin(), marks_.end(),
                       [&](const Mark& mark) { return is_cut(text, mark.meaning); });
  }
  Found find(std::string_view text, MoreToCome more) const {
    Found found;
    for (const auto& [words, meaning] : marks_) {
      if (words.size() > text.size()) {
        found.wait |= more == MoreToCome::yes && words.substr(0, text.size()) == text;
      } else if (words.size() > found.size && text.substr(0, words.size()) == words) {
        found.size = words.size();
        found.meaning = meaning;
      }
    }
    return found;
  }

 private:
  struct Mark {
    std::string_view words;
    Meaning meaning;
  };
  std::vector<Mark> marks_;
};

}  // namespace quire
