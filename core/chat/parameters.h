// Binds the arguments of a builtin to the names of its parameters.
#pragma once

#include <initializer_list>
#include <string_view>

#include "core/chat/machine.h"
#include "core/chat/objects.h"

namespace quire::chat {

class Parameters {
 public:
  // Fails if an argument matches no parameter, or if one of the first `num_required` parameters is missing.
  Parameters(Machine& machine, Arguments& arguments, std::initializer_list<std::string_view> names,
             size_t num_required);

  bool has(size_t idx) const { return given_[idx]; }
  // Undefined if the argument is not given.
  const Value& operator[](size_t idx) const { return values_[idx]; }
  bool is_none(size_t idx) const { return !given_[idx] || values_[idx].is_none(); }

  // Return the argument as the required type; fail for another type. Return `fallback` if it is not given.
  int64_t integer(size_t idx, int64_t fallback = 0) const;
  bool flag(size_t idx, bool fallback) const;
  const TextRef& text(size_t idx) const;

 private:
  [[noreturn]] void fail(size_t idx, std::string_view wanted) const;

  Machine& machine_;
  std::vector<std::string_view> names_;
  std::vector<Value> values_;
  std::vector<bool> given_;
};

}  // namespace quire::chat
