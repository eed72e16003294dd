// Errors of chat templates.
#pragma once

#include <string>

#include "core/base/error.h"

namespace quire::chat {

// A position in the source. Lines and columns are counted from 1; columns count bytes.
struct Position {
  int32_t line = 1;
  int32_t column = 1;
};

enum class TemplateFault {
  syntax,  // the source is not a valid template; ErrorCode::format
  raised,  // the template called raise_exception; ErrorCode::invalid_argument
  failed,  // an operation failed on its input; ErrorCode::invalid_argument
  limit,   // a limit of the rendering was exceeded; ErrorCode::capacity
};

// One line with the position and the reason. The text of a raise_exception is at the end, unchanged.
class TemplateError : public Error {
 public:
  TemplateError(TemplateFault fault, const Position& position, std::string text);

  TemplateFault fault() const noexcept { return fault_; }
  const Position& position() const noexcept { return position_; }
  // Returns the reason without the position; for raise_exception, exactly the text of the template.
  const std::string& text() const noexcept { return text_; }

 private:
  TemplateFault fault_;
  Position position_;
  std::string text_;
};

}  // namespace quire::chat
