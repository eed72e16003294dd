// Refusals of constraints.
#pragma once

#include <string>

#include <gtest/gtest.h>

#include "core/base/error.h"
#include "tests/core/constrained/constraint_fixture.h"

namespace quire {

// Expects that compiling a source fails with this code and a message that contains `word`.
inline void expect_refusal(ConstraintKind kind, const std::string& source, ErrorCode code,
                           const std::string& word) {
  try {
    compile(kind, source);
    ADD_FAILURE() << source;
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code) << error.what();
    EXPECT_NE(std::string(error.what()).find(word), std::string::npos) << error.what();
  }
}

}  // namespace quire
