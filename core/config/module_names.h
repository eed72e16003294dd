// Lists of modules as quantization_config writes them: names, parts of names, patterns.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace quire {

class ModulePattern;

// How an entry of a list is held against the name of a module.
enum class NameRule : uint8_t {
  part,      // AWQ: anywhere in the name
  exact,     // compressed-tensors: the whole name, or "re:" and a pattern from the name's beginning
  wildcard,  // ModelOpt, gpt-oss: "*" stands for any text; a module covers what lies in it
};

// Immutable once made, copied freely; any thread.
class ModuleNames {
 public:
  ModuleNames() = default;
  // Throws ErrorCode::format beginning with `where` where a pattern is malformed or longer than 1 KiB.
  ModuleNames(std::vector<std::string> entries, NameRule rule, std::string_view where);

  bool empty() const { return entries_.empty(); }
  // Whether an entry names the module; patterns stop after a bounded number of steps, which counts as no
  // match.
  bool contains(std::string_view module) const;
  // Whether an entry is exactly this word, such as the class "Linear".
  bool has_entry(std::string_view word) const;

 private:
  std::vector<std::string> entries_;
  std::vector<std::shared_ptr<const ModulePattern>> patterns_;  // as entries_; null where it is a name
  NameRule rule_ = NameRule::exact;
};

}  // namespace quire
