// Converts a stream of bytes to valid UTF-8. Each maximal incomplete prefix of a character, and each byte
// that cannot start one, becomes one U+FFFD (Unicode 3.9, "substitution of maximal subparts").
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace quire {

// A copy continues from the same state. The result does not depend on how the bytes are split.
class LossyUtf8 {
 public:
  // Appends the characters that `bytes` complete; holds an incomplete one of at most 3 bytes.
  void push(std::string_view bytes, std::string& out);
  // Appends one U+FFFD for the held bytes. Returns whether there were any.
  bool finish(std::string& out);
  // Like the above, but with one U+FFFD for each byte of an invalid character.
  void push_each(char byte, std::string& out);
  bool finish_each(std::string& out);
  size_t num_held_bytes() const { return num_held_; }

 private:
  void start(unsigned char lead, std::string& out);
  bool continues(unsigned char byte) const;
  void add(char byte, std::string& out);

  std::array<char, 4> held_{};
  uint8_t num_held_ = 0;
  uint8_t length_ = 0;  // of the character that held_ starts
};

}  // namespace quire
