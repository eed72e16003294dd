#include "core/layers/block.h"

#include "core/layers/rows.h"

namespace quire {

const void* Block::input_rows(const ForwardPass& pass) const {
  if (input != nullptr) return input;
  norm_rows(pass, norm, pass.workspace.hidden, pass.workspace.normed, pass.num_tokens());
  return pass.workspace.normed;
}

void Block::add_result(const ForwardPass& pass, const float* result) const {
  if (post_norm) return norm_rows_onto(pass, *post_norm, result, pass.workspace.hidden, pass.num_tokens());
  add_rows(pass, pass.workspace.hidden, result, hidden());
}

}  // namespace quire
