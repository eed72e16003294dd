#include "core/config/module_names.h"

#include <algorithm>

#include <pcre2.h>

#include "core/base/ascii.h"
#include "core/base/error.h"

namespace quire {
namespace {

constexpr size_t kMaxPatternBytes = 1024;
constexpr uint32_t kMaxMatchSteps = 100'000;
constexpr uint32_t kMaxMatchDepth = 1000;
constexpr uint32_t kMaxHeapKib = 1024;

// Turns a wildcard "a*b" into a regular expression that matches a module and its submodules.
std::string pattern_of_wildcard(std::string_view text) {
  std::string out;
  for (const char c : text) {
    const bool is_plain = is_ascii_letter_or_digit(c) || c == '_';
    if (c == '*') {
      out += ".*";
    } else {
      if (!is_plain) out += '\\';
      out += c;
    }
  }
  return out + R"((?:\..*)?$)";
}

}  // namespace

// A compiled pattern, anchored at the beginning like Python's re.match.
class ModulePattern {
 public:
  ModulePattern(std::string_view text, std::string_view where) {
    if (text.size() > kMaxPatternBytes)
      throw Error(ErrorCode::format, "{}: a pattern of {} bytes, more than {}", where, text.size(),
                  kMaxPatternBytes);
    int error = 0;
    PCRE2_SIZE offset = 0;
    code_.reset(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(),
                              PCRE2_ANCHORED | PCRE2_NEVER_BACKSLASH_C, &error, &offset, nullptr));
    if (!code_) {
      throw Error(ErrorCode::format, "{}: the pattern \"{}\" is malformed at {}", where, printable(text),
                  offset);
    }
  }

  bool matches(std::string_view name) const {
    const std::unique_ptr<pcre2_match_data, Free> data(pcre2_match_data_create(1, nullptr));
    const std::unique_ptr<pcre2_match_context, Free> context(pcre2_match_context_create(nullptr));
    if (!data || !context) throw std::bad_alloc();
    pcre2_set_match_limit(context.get(), kMaxMatchSteps);
    pcre2_set_depth_limit(context.get(), kMaxMatchDepth);
    pcre2_set_heap_limit(context.get(), kMaxHeapKib);
    return pcre2_match(code_.get(), reinterpret_cast<PCRE2_SPTR>(name.data()), name.size(), 0, 0, data.get(),
                       context.get()) >= 0;
  }

 private:
  struct Free {
    void operator()(pcre2_code* code) const { pcre2_code_free(code); }
    void operator()(pcre2_match_data* data) const { pcre2_match_data_free(data); }
    void operator()(pcre2_match_context* context) const { pcre2_match_context_free(context); }
  };
  std::unique_ptr<pcre2_code, Free> code_;
};

ModuleNames::ModuleNames(std::vector<std::string> entries, NameRule rule, std::string_view where)
    : entries_(std::move(entries)), rule_(rule) {
  constexpr std::string_view kPattern = "re:";
  for (const std::string& entry : entries_) {
    std::shared_ptr<const ModulePattern> pattern;
    if (rule == NameRule::exact && entry.starts_with(kPattern))
      pattern = std::make_shared<ModulePattern>(std::string_view(entry).substr(kPattern.size()), where);
    if (rule == NameRule::wildcard)
      pattern = std::make_shared<ModulePattern>(pattern_of_wildcard(entry), where);
    patterns_.push_back(std::move(pattern));
  }
}

bool ModuleNames::contains(std::string_view module) const {
  for (size_t i = 0; i < entries_.size(); ++i) {
    if (patterns_[i] != nullptr   ? patterns_[i]->matches(module)
        : rule_ == NameRule::part ? module.find(entries_[i]) != std::string_view::npos
                                  : module == entries_[i])
      return true;
  }
  return false;
}

bool ModuleNames::has_entry(std::string_view word) const {
  return std::find(entries_.begin(), entries_.end(), word) != entries_.end();
}

}  // namespace quire
