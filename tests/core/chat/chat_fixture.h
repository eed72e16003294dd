// Templates and conversations for tests.
#pragma once

#include <string>
#include <string_view>

#include "core/chat/chat_template.h"
#include "core/chat/template_error.h"
#include "tests/support/json_text.h"

namespace quire::chat {

using quire::testing::Json;

// Renders `source` with the variables of a JSON object; messages are there in any case.
RenderedChat render(std::string_view source, Json variables = Json::object(),
                    const TemplateLimits& limits = {});
inline std::string text_of(std::string_view source, Json variables = Json::object()) {
  return render(source, std::move(variables)).text;
}
// The error that it ends with; a test fails where there is none.
TemplateError error_of(std::string_view source, Json variables = Json::object(),
                       const TemplateLimits& limits = {});

// A file of golden outputs, of templates or of cases.
std::string read_golden(const std::string& path);

// What a case of golden/templates has to give, compared with what it gives; empty where they are the same.
std::string golden_difference(const ChatTemplate& chat, const Json& file, const Json& item);

}  // namespace quire::chat
