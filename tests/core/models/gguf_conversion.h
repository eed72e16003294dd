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
  // Writes keys that most classes lack, or write otherwise. nullptr: there are none.
  void (*metadata)(const Json& config, GgufBuilder& file) = nullptr;
  // Returns what the file has for a tensor that takes more than another name: tensors that are named as
  // within a layer of the file. `rest` is the tensor's name within its layer, or its last two words. Empty:
  // the tensor is like those of most classes.
  std::vector<StoredTensor> (*convert)(const Json& config, const std::string& rest,
                                       const StoredTensor& tensor) = nullptr;
};

// Returns the families that GGUF files can have.
const std::vector<GgufConversion>& gguf_conversions();
// Returns those of them whose layers may have a recurrent state.
std::vector<GgufConversion> hybrid_gguf_conversions();
// Returns those with experts under names of their own, and GPT-2 and its successors.
std::vector<GgufConversion> more_gguf_conversions();

// Converts vectors that files have under another ending: decays, biases for choosing experts, and
// convolutions without their middle dimension.
std::vector<StoredTensor> convert_vectors(const Json& config, const std::string& rest,
                                          const StoredTensor& tensor);

// The name of a tensor in parts: the number of its layer, empty outside of layers, and its name within the
// layer, or without the first word.
struct NameParts {
  std::string layer;
  std::string rest;
};
NameParts parts_of_name(const std::string& name);

// Returns the elements of a BF16 or F32 tensor.
std::vector<float> floats_of(const StoredTensor& tensor);
// Returns a tensor of F32 with these values under another name.
StoredTensor with_floats(const std::string& name, const StoredTensor& like, const std::vector<float>& values);
// Returns the rows [first, last) of a matrix, or of each matrix of a stack.
StoredTensor rows_of(const std::string& name, const StoredTensor& tensor, size_t first, size_t last);

// Writes the sizes of latent attention as files with `attn_k_b` and `attn_v_b` have them, and converts its
// matrix to these two.
void add_latent_sizes(const std::string& architecture, const Json& config, GgufBuilder& file);
std::vector<StoredTensor> split_latent(const Json& config, const std::string& rest,
                                       const StoredTensor& tensor);

// Write what Granite's classes with experts or a shared MLP have; also used by those with Mamba.
void granite_moe(const std::string& architecture, const Json& config, GgufBuilder& file);
std::vector<StoredTensor> convert_granite_moe(const Json& config, const std::string& rest,
                                              const StoredTensor& tensor);

// Returns the file. Matrices are BF16, vectors F32, as the directories have them in BF16.
GgufBuilder gguf_of(const StoredModel& model, const GgufConversion& conversion);

}  // namespace quire::testing
