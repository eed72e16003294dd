#include "core/layers/pair_rows.h"

#include "core/layers/rows.h"

namespace quire {

using kernels::Scratch;

void need_pair_rows(Needs& all) {
  all.row(2 * all.hidden());
  all.scratch(Scratch::projected, all.hidden());
  all.scratch(Scratch::other, 2 * all.hidden());
  all.scratch(Scratch::rounded, 2 * all.hidden());
}

const void* pair_rows(const ForwardPass& pass, const NormedRows& left, const NormedRows& right) {
  const int32_t hidden = left.norm.columns;
  float* const both = pass.workspace.at(Scratch::other);
  float* const normed = pass.workspace.at(Scratch::projected);
  const auto place = [&](const NormedRows& from, float* target) {
    norm_rows_f32(pass, from.norm, from.rows, normed, pass.num_tokens());
    copy_rows(pass, target, 2 * hidden, normed, hidden, hidden);
  };
  place(left, both);
  place(right, both + hidden);
  return rounded_rows(pass, both, 2 * hidden);
}

}  // namespace quire
