// JSON helpers for all components of a tokenizer.json: types, known fields, sequences and patterns.
#pragma once

#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/json.h"
#include "core/tokenizer/regex.h"

namespace quire {

// Throws ErrorCode::unsupported naming the first key of `object` that is not in `known`.
void refuse_unknown_keys(const JsonView& object, std::initializer_list<std::string_view> known);

std::string type_of(const JsonView& json);
// Throws ErrorCode::unsupported naming the type.
[[noreturn]] void refuse_type(const JsonView& json);

// Returns the elements of nested Sequences in order. `key` is the name of the list in each Sequence.
std::vector<JsonView> flatten(const JsonView& json, std::string_view key);

// Returns the text of {"String": ...}; nothing for another form. An empty text is an error.
std::optional<std::string> literal_pattern(const JsonView& json);
// Loads {"Regex": ...}.
Regex load_regex(const JsonView& json);

// Returns the value of a field that must be one code point.
std::string load_character(const JsonView& json);

// Decodes Base64; throws ErrorCode::format naming `where`.
std::string decode_base64(std::string_view text, const std::string& where);

}  // namespace quire
