// The configuration of a GGUF model in the words of config.json, so that the family's row reads it.
#pragma once

#include <string>

#include "core/models/gguf_families.h"
#include "core/models/gguf_model.h"

namespace quire {

// Returns the text of config.json. Throws ErrorCode::format that names the key that is missing or has another
// type, ErrorCode::unsupported if the class cannot express the model.
std::string gguf_config(const GgufModel& model, const GgufFamily& family);

// Returns the text of generation_config.json: tokens that end an answer, and settings of sampling.
std::string gguf_generation_config(const GgufModel& model);

}  // namespace quire
