#include "core/engine/model/device_list.h"

#include <charconv>
#include <limits>

#include "core/base/checked_math.h"
#include "core/base/error.h"

namespace quire {
namespace {

// Splits the text at commas. An empty text is one empty piece.
std::vector<std::string_view> pieces_of(std::string_view text) {
  std::vector<std::string_view> pieces;
  for (;;) {
    const size_t comma = text.find(',');
    pieces.push_back(text.substr(0, comma));
    if (comma == std::string_view::npos) return pieces;
    text.remove_prefix(comma + 1);
  }
}

template <typename Number>
bool read_whole(std::string_view text, Number& number) {
  const auto read = std::from_chars(text.data(), text.data() + text.size(), number);
  return !text.empty() && read.ec == std::errc() && read.ptr == text.data() + text.size();
}

uint64_t unit_of(char suffix) {
  switch (suffix) {
    case 'K':
      return uint64_t{1} << 10;
    case 'M':
      return uint64_t{1} << 20;
    case 'G':
      return uint64_t{1} << 30;
    default:
      return 1;
  }
}

uint64_t parse_bytes(std::string_view option, std::string_view text) {
  const uint64_t unit = text.empty() ? 1 : unit_of(text.back());
  uint64_t number = 0;
  const bool sound = read_whole(unit == 1 ? text : text.substr(0, text.size() - 1), number);
  if (!sound || number > uint64_t{std::numeric_limits<int64_t>::max()} / unit) {
    throw Error(ErrorCode::invalid_argument, "{}: \"{}\" is not a number of bytes such as 256M", option,
                printable(text))
        .at(option);
  }
  return number * unit;
}

[[noreturn]] void refuse_split(std::string_view text) {
  throw Error(ErrorCode::invalid_argument,
              "split: \"{}\" is invalid; use auto, or for each device a number of layers such as 20,12 or of "
              "bytes such as 24G,512M",
              printable(text))
      .at("split");
}

}  // namespace

std::vector<std::string> parse_devices(std::string_view text) {
  std::vector<std::string> names;
  for (const std::string_view piece : pieces_of(text)) {
    if (piece.empty()) {
      throw Error(ErrorCode::invalid_argument, "device: a name is missing in \"{}\"", printable(text))
          .at("device");
    }
    names.emplace_back(piece);
  }
  return names;
}

SplitChoice parse_split(std::string_view text) {
  SplitChoice choice;
  if (text == "auto") return choice;
  for (const std::string_view piece : pieces_of(text)) {
    int32_t layers = 0;
    if (!piece.empty() && unit_of(piece.back()) > 1) {
      choice.bytes.push_back(parse_bytes("split", piece));
    } else if (read_whole(piece, layers) && layers >= 0) {
      choice.layers.push_back(layers);
    } else {
      refuse_split(text);
    }
  }
  if (!choice.layers.empty() && !choice.bytes.empty()) refuse_split(text);
  return choice;
}

HostExpertsChoice parse_host_experts(std::string_view text) {
  HostExpertsChoice choice;
  if (text.empty() || text == "none") return choice;
  choice.is_automatic = text == "auto";
  if (text == "all") choice.num_layers = std::numeric_limits<int32_t>::max();
  if (choice.any()) return choice;
  if (!read_whole(text, choice.num_layers) || choice.num_layers < 0) {
    throw Error(ErrorCode::invalid_argument,
                "host_experts: \"{}\" is invalid; use none, all, auto or a number of layers", printable(text))
        .at("host_experts");
  }
  return choice;
}

std::vector<uint64_t> parse_reserve(std::string_view text) {
  std::vector<uint64_t> bytes;
  for (const std::string_view piece : pieces_of(text)) bytes.push_back(parse_bytes("reserve", piece));
  return bytes;
}

}  // namespace quire
