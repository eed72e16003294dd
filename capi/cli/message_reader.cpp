#include "capi/cli/message_reader.h"

#include <string_view>

#include "capi/cli/terminal.h"

namespace quire::cli {
namespace {

constexpr std::string_view kBlock = "\"\"\"";

bool ends_with(std::string_view text, std::string_view end) {
  return text.size() >= end.size() && text.substr(text.size() - end.size()) == end;
}

}  // namespace

bool MessageReader::next_line(const char* prompt, std::string& line) {
  if (prompts_) print(prompt);
  return lines_.next(line);
}

bool MessageReader::next(std::string& message) {
  message.clear();
  std::string line;
  if (!next_line("> ", line)) return false;
  const bool is_block = line.rfind(kBlock, 0) == 0;
  if (is_block) line.erase(0, kBlock.size());
  for (;;) {
    const std::string_view more = is_block ? std::string_view() : std::string_view("\\");
    const bool over = is_block ? ends_with(line, kBlock) : !ends_with(line, more);
    if (over) break;
    if (!is_block) line.pop_back();
    message += line + "\n";
    if (!next_line(". ", line)) return false;
  }
  if (is_block) line.erase(line.size() - kBlock.size());
  message += line;
  return true;
}

}  // namespace quire::cli
