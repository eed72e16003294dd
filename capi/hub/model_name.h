// Names of models on a hub: ORG/NAME, ORG/NAME:CHOICE, ORG/NAME@REVISION.
#pragma once

#include <string>
#include <string_view>

namespace quire::hub {

struct ModelName {
  std::string repository;  // "ORG/NAME", or "NAME" for a repository without an owner
  std::string choice;      // file, folder or quantization; empty means the hub's only or usual one
  std::string revision;    // branch, tag or commit

  // Returns the name without the revision if it is "main".
  std::string text() const;
};

// Parses a name. Throws HubError with Problem::usage that names the wrong part.
ModelName parse_model_name(std::string_view text);

// Returns whether the text has the form ORG/NAME, with or without the other parts. It may also be a path.
bool looks_like_model_name(std::string_view text);

// Returns whether a path of a repository stays below its folder and is harmless to print: no absolute path,
// no "..", no empty component, no control characters.
bool is_safe_path(std::string_view path);

// Returns whether a text is so many lower-case hexadecimal digits.
bool is_hex(std::string_view text, size_t num_digits);

}  // namespace quire::hub
