// Names of tensors as a directory has them, where they differ from those that the family's row declares.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/config/architecture.h"
#include "core/loader/load_linear.h"
#include "core/loader/weight_directory.h"

namespace quire {

// The program whose names a directory has.
enum class NamesOf : uint8_t {
  transformers,  // and its older versions and wrappers
  mistral,       // Mistral's own files (mistral_names.h)
};

// A stored matrix that is a slice of the outputs of a matrix that the model reads as one.
struct MatrixSlice {
  std::string key;
  int32_t num_out = 0;
};

// Translates names of a family's row to the names of a directory. Published files may lack the base prefix of
// the row ("h.0" for "transformer.h.0") or its beginning ("decoder." for "model.decoder."), or have the text
// part within another model ("language_model."). The name of the embedding decides the prefix for all
// tensors. Immutable; borrows the directory.
class TensorNames {
 public:
  TensorNames(const WeightDirectory& directory, const TensorKeys& keys,
              NamesOf names = NamesOf::transformers);

  // Returns the stored name of a tensor, or the stored key of a matrix; if the directory has neither, the
  // name that it should have.
  std::string stored(const std::string& name) const;
  const WeightDirectory& directory() const { return directory_; }
  // Returns the stored beginning of the keys of layers, such as "language_model.model.layers.".
  std::string layers() const { return stored_prefix_ + layers_; }

  // Makes a request for one of q, k and v, or gate and up, read its slice of the fused matrix, if the
  // directory has that instead. The fused matrix holds q, k, v or gate, up below each other; keys and values
  // are of the same size. A request for a matrix of one expert reads it from the stack of all experts:
  // gate_up_proj [experts, outputs, inputs] with gate first, and down_proj.
  LinearRequest with_fused_source(LinearRequest request) const;
  // Returns the parts of a fused matrix, if the directory has these instead; empty if it has the matrix.
  std::vector<MatrixSlice> slices_of(const std::string& key) const;

 private:
  bool holds(const std::string& name) const;
  LinearRequest with_stack(LinearRequest request) const;
  // Returns the number of outputs of a stored matrix; nothing if there is no such matrix.
  std::optional<int32_t> outputs_of(const std::string& key) const;

  const WeightDirectory& directory_;
  NamesOf names_of_;
  std::string base_;           // "model."
  std::string layers_;         // "layers."
  std::string stored_prefix_;  // in place of the base
  std::string wrapper_;        // part of stored_prefix_ before the base, for tensors outside the base
};

}  // namespace quire
