// How a template fails.
#pragma once

#include <string>

#include "core/base/error.h"

namespace quire::chat {

// Counted from 1; columns in bytes.
struct Position {
  int32_t line = 1;
  int32_t column = 1;
};

enum class TemplateFault {
  syntax,  // the template is none; ErrorCode::format
  raised,  // it called raise_exception; ErrorCode::invalid_argument
  failed,  // what it does with its input cannot be done; ErrorCode::invalid_argument
  limit,   // it used up what a rendering may use; ErrorCode::capacity
};

// One line: where, and what. Words of a raise_exception stand at its end as the template says them.
class TemplateError : public Error {
 public:
  TemplateError(TemplateFault fault, const Position& position, std::string text);

  TemplateFault fault() const noexcept { return fault_; }
  const Position& position() const noexcept { return position_; }
  // Without the place; of a raise_exception exactly what the template says.
  const std::string& text() const noexcept { return text_; }

 private:
  TemplateFault fault_;
  Position position_;
  std::string text_;
};

}  // namespace quire::chat
