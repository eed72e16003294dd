// Display of an answer while it is generated, and its message for the conversation.
#pragma once

#include <string>
#include <vector>

#include <quire/quire.hpp>

#include "capi/cli/terminal.h"

namespace quire::cli {

// Reads the events of a job that has a dialect. Reasoning is shown dimmed in a terminal and not at all
// elsewhere. A call is shown as a line of JSON. Markup is never shown.
class Answer {
 public:
  explicit Answer(bool dims) : dims_(dims) {}

  void see(const Event& event);
  // Ends the display after the last event.
  void end();
  // Returns the message in the format of OpenAI. Plain text is kept byte for byte, so that the next prompt
  // begins with the same tokens.
  Json message() const;

 private:
  struct Call {
    std::string id;
    std::string name;
    std::string arguments;
  };

  void show(const std::string& text);
  void show_reasoning(const std::string& text);
  void begin_call(const Event& event);
  void show_call();
  void begin_line();
  void undim();

  bool dims_;
  bool is_dim_ = false;
  bool in_line_ = false;
  bool in_call_ = false;
  std::string raw_;
  std::string text_;
  std::string reasoning_;
  std::vector<Call> calls_;
};

}  // namespace quire::cli
