#include "core/base/text_place.h"

#include <algorithm>

#include <fmt/format.h>

#include "core/base/error.h"
#include "core/base/utf8.h"

namespace quire {

std::string place_in(std::string_view text, size_t position) {
  position = std::min(position, text.size());
  const std::string_view before = text.substr(0, position);
  const size_t line_begin = before.rfind('\n') + 1;  // 0 if there is no line end
  const auto line = 1 + std::count(before.begin(), before.end(), '\n');
  const auto is_first_byte = [](char byte) { return (static_cast<unsigned char>(byte) & 0xC0U) != 0x80U; };
  const auto column = 1 + std::count_if(before.begin() + static_cast<std::ptrdiff_t>(line_begin),
                                        before.end(), is_first_byte);
  if (position == text.size()) return fmt::format("line {}, column {}, at the end", line, column);
  const size_t length = decode_utf8(text, position).length;
  return fmt::format("line {}, column {}, at \"{}\"", line, column, printable(text.substr(position, length)));
}

}  // namespace quire
