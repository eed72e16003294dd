// Converts the files of a tiny model to GGUF as llama.cpp's converter does: names, order of rows, stacks of
// experts and metadata are written down here once more, independently of the code under test.
#pragma once

#include <string>

#include "tests/core/models/stored_model.h"
#include "tests/support/gguf_builder.h"

namespace quire::testing {

// Properties of the converter's class for a family.
struct GgufConversion {
  std::string family;        // directory of tests/golden/derived
  std::string architecture;  // of the file
  bool permutes = false;     // rows of q and k are put in rotary pairs
  bool adds_one = false;     // to the weights of norms
  // Parts of a layer that this class names otherwise than most: first the name in the directory.
  std::vector<std::pair<std::string, std::string>> parts = {};
};

// Returns the families that GGUF files can have.
const std::vector<GgufConversion>& gguf_conversions();

// Returns the file. Matrices are BF16, vectors F32, as the directories have them in BF16.
GgufBuilder gguf_of(const StoredModel& model, const GgufConversion& conversion);

}  // namespace quire::testing
