// The feed-forward half of a layer: dense, experts, or both side by side.
#pragma once

#include <optional>

#include "core/layers/experts.h"
#include "core/layers/mlp.h"

namespace quire {

struct FeedForwardLayer {
  NormLayer norm;
  std::optional<NormLayer> post_norm;
  std::optional<MlpLayer> dense;
  std::optional<ExpertsLayer> experts;
  // Where both are there.
  NormLayer dense_post_norm;
  NormLayer experts_norm;
  NormLayer experts_post_norm;

  // `input`: rows that are normalised already, or nullptr.
  void forward(const ForwardPass& pass, const void* input, const kernels::Weight* next) const;
  // The matrix that it reads first.
  const kernels::Weight* first() const { return dense ? dense->gate_up.get() : nullptr; }

  template <typename Visit>
  void each_matrix(Visit visit) const {
    if (dense) dense->each_matrix(visit);
    if (experts) experts->each_matrix(visit);
  }
  template <typename Visit>
  void each_buffer(Visit visit) const {
    for (const NormLayer* of : {&norm, &dense_post_norm, &experts_norm, &experts_post_norm})
      of->each_buffer(visit);
    if (post_norm) post_norm->each_buffer(visit);
    if (dense) dense->each_buffer(visit);
    if (experts) experts->each_buffer(visit);
  }

 private:
  void forward_dense(const ForwardPass& pass, const void* input, const kernels::Weight* next) const;
  void forward_experts(const ForwardPass& pass, const void* input) const;
};

}  // namespace quire
