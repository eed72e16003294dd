// Stop strings and a text, split by the input's own bytes, compared with a search of the whole text. The
// input is lines: the bytes of the first line are the lengths of the pieces, the last line is the text, and
// those between are the stop strings.
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/error.h"
#include "core/base/utf8.h"
#include "core/tokenizer/stop_matcher.h"

namespace {

void require(bool condition) {
  if (!condition) std::abort();
}

std::vector<std::string> lines_of(std::string_view input) {
  std::vector<std::string> lines(1);
  for (const char c : input) {
    if (c == '\n') {
      lines.emplace_back();
    } else {
      lines.back() += c;
    }
  }
  return lines;
}

// Returns the text before the match that ends first, the longest of those.
std::string text_before_stop(const std::vector<std::string>& stops, const std::string& text) {
  for (size_t end = 1; end <= text.size(); ++end) {
    size_t longest = 0;
    for (const std::string& stop : stops) {
      const bool ends_here = stop.size() <= end && text.compare(end - stop.size(), stop.size(), stop) == 0;
      if (ends_here && stop.size() > longest) longest = stop.size();
    }
    if (longest > 0) return text.substr(0, end - longest);
  }
  return text;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t num_bytes) {
  if (num_bytes > 4096) return 0;  // the plain search is slow
  std::vector<std::string> lines = lines_of({reinterpret_cast<const char*>(data), num_bytes});
  if (lines.size() < 3) return 0;
  const std::string cuts = lines.front() + '\1';
  const std::string text = lines.back();
  const std::vector<std::string> stops(lines.begin() + 1, lines.end() - 1);
  try {
    quire::StopMatcher matcher(stops);
    std::string out;
    size_t cut_idx = 0;
    for (size_t pos = 0; pos < text.size();) {
      const size_t length = static_cast<unsigned char>(cuts[cut_idx++ % cuts.size()]) % 16;
      matcher.push(std::string_view(text).substr(pos, length), out);
      pos += length;
      if (cut_idx > 8 * text.size() + 8) break;  // only empty pieces
    }
    if (cut_idx > 8 * text.size() + 8) return 0;
    matcher.finish(out);
    require(out == text_before_stop(stops, text));
  } catch (const quire::Error& error) {
    require(error.code() == quire::ErrorCode::invalid_argument || error.code() == quire::ErrorCode::encoding);
  }
  return 0;
}
