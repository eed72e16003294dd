// Chat templates and conversations for tests.
#pragma once

#include <string>
#include <string_view>

#include "core/chat/chat_template.h"
#include "core/chat/template_error.h"
#include "tests/support/json_text.h"

namespace quire::chat {

using quire::testing::Json;

// Renders `source` with the members of a JSON object as variables; adds `messages` if it is missing.
RenderedChat render(std::string_view source, Json variables = Json::object(),
                    const TemplateLimits& limits = {});
inline std::string text_of(std::string_view source, Json variables = Json::object()) {
  return render(source, std::move(variables)).text;
}
// Returns the error of a rendering; the test fails if there is none.
TemplateError error_of(std::string_view source, Json variables = Json::object(),
                       const TemplateLimits& limits = {});

// Reads a file of golden outputs, of templates or of cases.
std::string read_golden(const std::string& path);

// Compares a rendering with the expected output of a case of golden/templates; returns the difference, or an
// empty string.
std::string golden_difference(const ChatTemplate& chat, const Json& file, const Json& item);
// Compares the rendering of the adapted conversation.
std::string golden_adapted_difference(const ChatTemplate& chat, const Json& file, const Json& item);

}  // namespace quire::chat
