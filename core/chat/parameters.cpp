#include "core/chat/parameters.h"

#include <algorithm>

#include "core/chat/compare.h"

namespace quire::chat {

Parameters::Parameters(Machine& machine, Arguments& arguments, std::initializer_list<std::string_view> names,
                       size_t num_required)
    : machine_(machine), names_(names), values_(names_.size()), given_(names_.size()) {
  if (arguments.positional.size() > names_.size()) {
    machine.fail("{} arguments are given, at most {} are allowed", arguments.positional.size(),
                 names_.size());
  }
  for (size_t i = 0; i < arguments.positional.size(); ++i) {
    values_[i] = std::move(arguments.positional[i]);
    given_[i] = true;
  }
  for (auto& [name, value] : arguments.named) {
    const auto found = std::find(names_.begin(), names_.end(), name);
    const auto idx = static_cast<size_t>(found - names_.begin());
    if (found == names_.end() || given_[idx]) machine.fail("unexpected argument '{}'", printable(name));
    values_[idx] = std::move(value);
    given_[idx] = true;
  }
  for (size_t i = 0; i < num_required; ++i) {
    if (!given_[i]) machine.fail("argument '{}' is missing", names_[i]);
  }
}

void Parameters::fail(size_t idx, std::string_view wanted) const {
  if (values_[idx].is_undefined()) machine_.fail_undefined(values_[idx]);
  machine_.fail("argument '{}' must be {}, not {}", names_[idx], wanted, type_name(values_[idx]));
}

int64_t Parameters::integer(size_t idx, int64_t fallback) const {
  if (!given_[idx]) return fallback;
  if (!values_[idx].is_integer()) fail(idx, "a whole number");
  return values_[idx].integer();
}

bool Parameters::flag(size_t idx, bool fallback) const {
  return given_[idx] ? is_true(values_[idx]) : fallback;
}

const TextRef& Parameters::text(size_t idx) const {
  if (!values_[idx].is_text()) fail(idx, "a text");
  return values_[idx].text_ref();
}

}  // namespace quire::chat
