// Sizes that the configuration classes of transformers default to.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace quire {

// Returns the default of an integer field in the configuration class of a model type; nothing if there is no
// such class or field in the table. transformers leaves out fields with these values when it saves the text
// part of a multimodal model; it always writes them for a model of text alone.
std::optional<int32_t> class_default(std::string_view model_type, std::string_view field);

}  // namespace quire
