// A small sound config.json that a test may bend.
#pragma once

#include <string>

#include "tests/support/json_text.h"

namespace quire::testing {

inline Json small_config(const std::string& architecture = "LlamaForCausalLM") {
  return {{"architectures", {architecture}}, {"hidden_size", 64},      {"intermediate_size", 96},
          {"num_attention_heads", 4},        {"num_hidden_layers", 2}, {"vocab_size", 160}};
}

}  // namespace quire::testing
