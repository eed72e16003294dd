#include "tests/core/chat/chat_fixture.h"

#include <gtest/gtest.h>

#include "core/base/file_system.h"
#include "core/base/json.h"
#include "core/chat/history.h"
#include "core/chat/time_text.h"

namespace quire::chat {
namespace {

constexpr std::string_view kNow = "2025-07-26T14:05:09";

constexpr uint64_t kMaxGoldenBytes = uint64_t{64} << 20;

std::string spans_of(const RenderedChat& rendered) {
  Json spans = Json::array();
  for (const CharRange& range : rendered.generated) spans.push_back({range.begin, range.end});
  return spans.dump();
}

std::string difference(const RenderedChat& rendered, const Json& item) {
  if (item.contains("error")) return "no error, but " + rendered.text;
  if (rendered.text != item["output"].get<std::string>()) {
    return "rendered\n" + rendered.text + "\nexpected\n" + item["output"].get<std::string>();
  }
  if (item.contains("assistant_spans") && spans_of(rendered) != item["assistant_spans"].dump()) {
    return "spans " + spans_of(rendered) + ", wanted " + item["assistant_spans"].dump();
  }
  return "";
}

std::string difference(const Error& error, const Json& item) {
  if (!item.contains("error")) return std::string("error: ") + error.what();
  const auto* of_template = dynamic_cast<const TemplateError*>(&error);
  const bool raised = of_template != nullptr && of_template->fault() == TemplateFault::raised;
  if (of_template != nullptr && of_template->fault() == TemplateFault::limit) return error.what();
  if (raised != (item["error_kind"] == "raise_exception"))
    return std::string("another kind of error: ") + error.what();
  if (raised && of_template->text() != item["error"].get<std::string>())
    return "raised " + of_template->text();
  return "";
}

}  // namespace

RenderedChat render(std::string_view source, Json variables, const TemplateLimits& limits) {
  if (!variables.contains("messages")) variables["messages"] = Json::array();
  TemplateContext context;
  context.now = parse_time(kNow, "now");
  return ChatTemplate::compile(source, limits)->render(parse_json(variables.dump(), "variables"), context);
}

TemplateError error_of(std::string_view source, Json variables, const TemplateLimits& limits) {
  try {
    const RenderedChat rendered = render(source, std::move(variables), limits);
    ADD_FAILURE() << source << " renders " << rendered.text.substr(0, 200);
  } catch (const TemplateError& error) {
    return error;
  }
  return TemplateError(TemplateFault::failed, {}, "none");
}

namespace {

TemplateContext context_of(const Json& file) {
  TemplateContext context;
  context.now = parse_time(file["now"].get<std::string>(), "now");
  for (const auto& [name, text] : file["context"].items()) {
    if (text.is_string()) context.special_tokens.emplace_back(name, text.get<std::string>());
  }
  return context;
}

}  // namespace

std::string golden_difference(const ChatTemplate& chat, const Json& file, const Json& item) {
  try {
    return difference(chat.render(parse_json(item["input"].dump(), "input"), context_of(file)), item);
  } catch (const Error& error) {
    return difference(error, item);
  }
}

std::string golden_adapted_difference(const ChatTemplate& chat, const Json& file, const Json& item) {
  try {
    return difference(render_history(chat, parse_json(item["input"].dump(), "input"), context_of(file)),
                      item);
  } catch (const TemplateError& error) {
    return difference(error, item);
  } catch (const Error&) {  // an error at a message
    return item.contains("error") ? "" : "error";
  }
}

std::string read_golden(const std::string& path) {
  return posix_file_system().read_text(path, kMaxGoldenBytes);
}

}  // namespace quire::chat
