// Module lists of quantization_config: names, parts of names, or patterns.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace quire {

class ModulePattern;

// The comparison of a list entry with a module name.
enum class NameRule : uint8_t {
  part,      // AWQ: a substring of the name
  exact,     // compressed-tensors: the whole name, or "re:" and a pattern anchored at the beginning
  wildcard,  // ModelOpt, gpt-oss: "*" matches any text; a module includes its submodules
};

// A list of modules. Immutable and cheap to copy; safe to use from any thread.
class ModuleNames {
 public:
  ModuleNames() = default;
  // Throws ErrorCode::format beginning with `where` if a pattern is malformed or longer than 1 KiB.
  ModuleNames(std::vector<std::string> entries, NameRule rule, std::string_view where);

  bool empty() const { return entries_.empty(); }
  // Returns whether an entry matches the module. Matching of a pattern stops after a limited number of steps
  // and then counts as no match.
  bool contains(std::string_view module) const;
  // Returns whether an entry equals this word, such as the class "Linear".
  bool has_entry(std::string_view word) const;

 private:
  std::vector<std::string> entries_;
  std::vector<std::shared_ptr<const ModulePattern>> patterns_;  // parallel to entries_; null for a plain name
  NameRule rule_ = NameRule::exact;
};

}  // namespace quire
