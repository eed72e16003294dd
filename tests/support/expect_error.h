// Check of the error that an operation throws.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>

#include <gtest/gtest.h>

#include "core/base/error.h"

namespace quire::testing {

// Checks that `action` throws an Error with this code, whose one-line message contains each of `words`.
template <typename Action>
void expect_error(ErrorCode code, std::initializer_list<std::string_view> words, Action&& action) {
  try {
    action();
  } catch (const Error& error) {
    const std::string message = error.what();
    EXPECT_EQ(error_code_name(error.code()), error_code_name(code)) << message;
    EXPECT_EQ(message.find('\n'), std::string::npos) << message;
    for (const std::string_view word : words) {
      EXPECT_NE(message.find(word), std::string::npos) << "no \"" << word << "\" in: " << message;
    }
    return;
  }
  ADD_FAILURE() << "no error was thrown; expected " << error_code_name(code);
}

}  // namespace quire::testing
