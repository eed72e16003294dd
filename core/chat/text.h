// Text that remembers where its bytes come from: from the template, or from the content that it was given.
// All text of a rendering is made by TextBuilder, so that no operation can lose track.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace quire::chat {

// The bytes from the end of the run before to `end`.
struct OriginRun {
  size_t end = 0;
  bool from_template = false;
};

// Immutable UTF-8; positions are counted in code points, as Python does.
class Text {
 public:
  Text() = default;
  Text(std::string bytes, std::vector<OriginRun> runs);

  const std::string& bytes() const { return bytes_; }
  const std::vector<OriginRun>& runs() const { return runs_; }  // none empty, neighbours differ
  size_t num_chars() const { return num_chars_; }
  bool is_ascii() const { return num_chars_ == bytes_.size(); }
  // The byte at which a code point begins; bytes().size() for num_chars().
  size_t byte_offset(size_t char_idx) const;
  size_t char_index(size_t byte_offset) const;
  // True for text that the filter `safe` has made: what is added to it is escaped.
  bool is_markup() const { return is_markup_; }

 private:
  friend class TextBuilder;
  std::string bytes_;
  std::vector<OriginRun> runs_;
  size_t num_chars_ = 0;
  bool is_markup_ = false;
};

using TextRef = std::shared_ptr<const Text>;

TextRef make_text(std::string_view bytes, bool from_template);
size_t count_chars(std::string_view utf8);

class TextBuilder {
 public:
  void append(std::string_view bytes, bool from_template);
  void append(const Text& text) { append(text, 0, text.bytes().size()); }
  // The bytes [begin, end) with their origins.
  void append(const Text& text, size_t begin, size_t end);
  // `bytes` in place of the bytes [begin, end) of `text`, with the origin of the first of them.
  void append_changed(const Text& text, size_t begin, std::string_view bytes);

  size_t num_bytes() const { return bytes_.size(); }
  std::string_view bytes() const { return bytes_; }
  // Gives all that was appended, and starts anew.
  Text take(bool is_markup = false);

 private:
  void extend(size_t end, bool from_template);

  std::string bytes_;
  std::vector<OriginRun> runs_;
};

// The origin of the byte at `offset`.
bool is_from_template(const Text& text, size_t offset);

}  // namespace quire::chat
