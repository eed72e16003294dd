// What has been said in a conversation, as OpenAI writes messages.
#pragma once

#include <string>
#include <utility>

#include "capi/cli/terminal.h"

namespace quire::cli {

class Conversation {
 public:
  // Takes the place of an earlier one; an empty text takes it away.
  void set_system(const std::string& text);
  // A JSON list of tools, in JSON; an empty text takes them away. Throws Failure naming `where`.
  void set_tools(const std::string& json, const std::string& where);

  void ask(const std::string& text) { turns_.push_back({{"role", "user"}, {"content", text}}); }
  void answer(Json message) { turns_.push_back(std::move(message)); }
  // Of the first call of the last answer that has no result. Throws Failure where there is none.
  void give_result(const std::string& text);
  // The question that got no answer.
  void take_back() { turns_.erase(turns_.size() - 1); }
  void forget_turns() { turns_ = Json::array(); }

  Json messages() const;
  const Json& tools() const { return tools_; }
  size_t num_turns() const { return turns_.size(); }
  // {"messages": [...], "tools": [...]}, for people to read.
  std::string text() const;

 private:
  std::string system_;
  Json tools_ = Json::array();
  Json turns_ = Json::array();
};

}  // namespace quire::cli
