// An answer as a person sees it while it comes, and as the conversation keeps it.
#pragma once

#include <string>
#include <vector>

#include "capi/cli/library.h"
#include "capi/cli/terminal.h"

namespace quire::cli {

// Reads the events of a job that has a dialect. Reasoning is shown dimmed in a terminal and not at all
// elsewhere; a call is shown as a line of JSON. Marks are never shown.
class Answer {
 public:
  explicit Answer(bool dims) : dims_(dims) {}

  void see(quire_event* event);
  // There is no more.
  void end();
  // As OpenAI writes it. Text alone is kept to the byte, so that the next prompt begins with its tokens.
  Json message() const;

 private:
  struct Call {
    std::string id;
    std::string name;
    std::string arguments;
  };

  void show(const std::string& text);
  void show_reasoning(const std::string& text);
  void begin_call(quire_event* event);
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
