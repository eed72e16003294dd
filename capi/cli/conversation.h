// The messages of a conversation, in the format of OpenAI.
#pragma once

#include <string>
#include <utility>

#include "capi/cli/terminal.h"

namespace quire::cli {

class Conversation {
 public:
  // Replaces the system message; an empty text removes it.
  void set_system(const std::string& text);
  // Sets the tools from a JSON list; an empty text removes them. Throws Failure naming `where`.
  void set_tools(const std::string& json, const std::string& where);

  void ask(const std::string& text) { turns_.push_back({{"role", "user"}, {"content", text}}); }
  void answer(Json message) { turns_.push_back(std::move(message)); }
  // Appends the result of the first call of the last answer that has none. Throws Failure if there is no such
  // call.
  void give_result(const std::string& text);
  // Removes the last question, which got no answer.
  void take_back() { turns_.erase(turns_.size() - 1); }
  void forget_turns() { turns_ = Json::array(); }

  Json messages() const;
  const Json& tools() const { return tools_; }
  size_t num_turns() const { return turns_.size(); }
  // Returns {"messages": [...], "tools": [...]}, indented.
  std::string text() const;

 private:
  std::string system_;
  Json tools_ = Json::array();
  Json turns_ = Json::array();
};

}  // namespace quire::cli
