#include "capi/cli/conversation.h"

#include "capi/cli/failure.h"

namespace quire::cli {

void Conversation::set_system(const std::string& text) {
  system_ = text;
}

void Conversation::set_tools(const std::string& json, const std::string& where) {
  Json tools = json.empty() ? Json::array() : Json::parse(json, nullptr, false);
  if (!tools.is_array()) throw Failure(kExitFailed, where + ": not a JSON list of tools");
  tools_ = std::move(tools);
}

void Conversation::give_result(const std::string& text) {
  size_t answer = turns_.size();
  while (answer > 0 && turns_[answer - 1]["role"] == "tool") --answer;
  const size_t num_results = turns_.size() - answer;
  const Json calls = answer > 0 ? turns_[answer - 1].value("tool_calls", Json::array()) : Json::array();
  if (num_results >= calls.size()) throw Failure(kExitFailed, "/result: no call waits for a result");
  const Json& of = calls[num_results];
  turns_.push_back(
      {{"role", "tool"}, {"tool_call_id", of["id"]}, {"name", of["function"]["name"]}, {"content", text}});
}

Json Conversation::messages() const {
  Json messages = Json::array();
  if (!system_.empty()) messages.push_back({{"role", "system"}, {"content", system_}});
  messages.insert(messages.end(), turns_.begin(), turns_.end());
  return messages;
}

std::string Conversation::text() const {
  Json all = {{"messages", messages()}};
  if (!tools_.empty()) all["tools"] = tools_;
  return all.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace quire::cli
