// Text that records the origin of its bytes: the template or the content of the conversation. Only
// TextBuilder makes the texts of a rendering, so that no operation loses the origin.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace quire::chat {

// The bytes from the end of the previous run up to `end`.
struct OriginRun {
  size_t end = 0;
  bool from_template = false;
};

// Immutable UTF-8; positions are counted in code points, as in Python.
class Text {
 public:
  Text() = default;
  Text(std::string bytes, std::vector<OriginRun> runs);

  const std::string& bytes() const { return bytes_; }
  const std::vector<OriginRun>& runs() const { return runs_; }  // never empty; adjacent runs differ in origin
  size_t num_chars() const { return num_chars_; }
  bool is_ascii() const { return num_chars_ == bytes_.size(); }
  // Returns the byte at which a code point begins; bytes().size() for num_chars().
  size_t byte_offset(size_t char_idx) const;
  size_t char_index(size_t byte_offset) const;
  // True for text made by the filter `safe`: text that is added to it is escaped.
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
  // Appends the bytes [begin, end) with their origins.
  void append(const Text& text, size_t begin, size_t end);
  // Appends `bytes` with the origin of the byte of `text` at `begin`, which they replace.
  void append_changed(const Text& text, size_t begin, std::string_view bytes);

  size_t num_bytes() const { return bytes_.size(); }
  std::string_view bytes() const { return bytes_; }
  // Returns the appended text and starts over.
  Text take(bool is_markup = false);

 private:
  void extend(size_t end, bool from_template);

  std::string bytes_;
  std::vector<OriginRun> runs_;
};

// Returns whether the byte at `offset` comes from the template.
bool is_from_template(const Text& text, size_t offset);

}  // namespace quire::chat
