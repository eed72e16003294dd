// A copy of the embedded model in which the embedding of one token is NaN, so that sequences with it compute
// NaN.
#pragma once

#include <cstdint>
#include <string>

#include "tests/support/temp_directory.h"

namespace quire::testing {

class PoisonedModel {
 public:
  PoisonedModel();
  const std::string& path() const { return directory_.path(); }
  // A special token that occurs in no text.
  static constexpr int32_t kPoison = 3;

 private:
  TempDirectory directory_;
};

}  // namespace quire::testing
