// The table of families whose modules for multi-token prediction (MTP) are read: names of the tensors, and
// what their layer has of the layers of the model.
#pragma once

#include <cstdint>
#include <string_view>

#include "core/config/architecture.h"

namespace quire {

// Names of the tensors of a family's first module, without ".weight". The number of
// the target's layers replaces "{}".
struct MtpNames {
  // Beginning of the names of the module's layer. With `feed_forward` it has attention alone, and another
  // layer has experts alone.
  std::string_view layer;
  std::string_view feed_forward;
  std::string_view embedding_norm;
  std::string_view state_norm;
  std::string_view projection;
  std::string_view last_norm;  // empty: the target's
  bool state_first = false;
  std::string_view feed_forward_norm = {};  // empty: named as in the target's layers
  std::string_view head = {};               // its own matrix for the logits; empty: the target's
};

// The layers of the target whose attention is like that of the module.
enum class MtpAttention : uint8_t {
  full,      // over all tokens
  windowed,  // with a window
  listed,    // of the type that the configuration lists for the module
};

struct MtpFamily {
  const ArchitectureSpec* architecture;
  const MtpNames* names;
  MtpAttention attention = MtpAttention::full;
  bool is_dense = false;        // its layer has a dense MLP, also if others have experts
  bool reads_normed = true;     // the states that it reads, also its own, are those after the last norm
  bool is_unannounced = false;  // published configurations do not say whether there is a module
};

// Returns nullptr if modules of this family are not read.
const MtpFamily* find_mtp_family(const ArchitectureSpec* architecture);

}  // namespace quire
