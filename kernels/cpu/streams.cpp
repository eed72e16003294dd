// Hyper-connections: several residual streams around a block. Plain loops, because the products around them
// dominate the time.
#include <algorithm>
#include <cmath>

#include "kernels/cpu/device.h"
#include "kernels/cpu/row_math.h"
#include "kernels/cpu/table_entries.h"

namespace quire::kernels::cpu_entries {
namespace {

// Square matrix of a token: C of ConnectionSpec.
struct Mixing {
  float* at;  // [n, n]
  size_t n;
  float epsilon;

  void divide_row(size_t row) const {
    float sum = 0.0f;
    for (size_t j = 0; j < n; ++j) sum += at[row * n + j];
    for (size_t j = 0; j < n; ++j) at[row * n + j] /= sum + epsilon;
  }
  void divide_column(size_t column) const {
    float sum = 0.0f;
    for (size_t i = 0; i < n; ++i) sum += at[i * n + column];
    for (size_t i = 0; i < n; ++i) at[i * n + column] /= sum + epsilon;
  }
  void divide_columns() const {
    for (size_t column = 0; column < n; ++column) divide_column(column);
  }
};

// Replaces a row by its softmax, plus epsilon.
void soften(float* row, size_t n, float epsilon) {
  const float most = *std::max_element(row, row + n);
  float sum = 0.0f;
  for (size_t j = 0; j < n; ++j) sum += row[j] = std::exp(row[j] - most);
  for (size_t j = 0; j < n; ++j) row[j] = row[j] / sum + epsilon;
}

void mix_doubly_stochastic(const Mixing& mixing, int32_t iterations) {
  for (size_t row = 0; row < mixing.n; ++row) soften(mixing.at + row * mixing.n, mixing.n, mixing.epsilon);
  mixing.divide_columns();
  for (int32_t i = 1; i < iterations; ++i) {
    for (size_t row = 0; row < mixing.n; ++row) mixing.divide_row(row);
    mixing.divide_columns();
  }
}

// Computes the coefficients of a token and the weights of its streams in x.
void make_coefficients(const CollapseStreamsParams& p, size_t token, float* pre) {
  const size_t n = size(p.num_streams);
  const float* products = p.products + token * size(connection_products(p));
  float* const post = p.coefficients + token * size(connection_coefficients(p));
  float* const mixing = post + n;
  for (size_t i = 0; i < n; ++i) {
    pre[i] = sigmoid(products[i] * p.scale[0] + p.base[i]) + p.epsilon;
    post[i] = 2.0f * sigmoid(products[n + i] * p.scale[1] + p.base[n + i]);
  }
  for (size_t i = 0; i < n * n; ++i) mixing[i] = products[2 * n + i] * p.scale[2] + p.base[2 * n + i];
  mix_doubly_stochastic({mixing, n, p.epsilon}, p.iterations);
}

void expand_token(const ExpandStreamsParams& p, size_t token) {
  const size_t n = size(p.num_streams), columns = size(p.columns);
  const float* const post = p.coefficients + token * size(connection_coefficients(p));
  const float* const mixing = post + n;
  const float* const result = p.result + token * columns;
  float* const streams = p.streams + token * n * columns;
  float own[kMostConnectedStreams];
  for (size_t c = 0; c < columns; ++c) {
    for (size_t i = 0; i < n; ++i) own[i] = streams[i * columns + c];
    for (size_t j = 0; j < n; ++j) {
      float sum = post[j] * result[c];
      for (size_t i = 0; i < n; ++i) sum += mixing[i * n + j] * own[i];
      streams[j * columns + c] = sum;
    }
  }
}

Status check_connection(const char* operation, const ConnectionSpec& spec) {
  if (spec.num_streams >= 1 && spec.num_streams <= kMostConnectedStreams) return Status::ok;
  return failed(Status::invalid_argument, "%s: %d residual streams (at most %d)", operation, spec.num_streams,
                kMostConnectedStreams);
}

}  // namespace

Status collapse_streams(Context* context, const CollapseStreamsParams* params) {
  const CollapseStreamsParams& p = *params;
  QUIRE_RETURN_IF_FAILED(check_connection("collapse_streams", p));
  const size_t n = size(p.num_streams), columns = size(p.columns);
  const int64_t work = int64_t{2} * p.columns * p.num_streams + int64_t{16} * p.iterations * p.num_streams;
  share_work(context, p.tokens, work, [&](int32_t, int64_t first, int64_t last) {
    for (auto t = static_cast<size_t>(first); t < static_cast<size_t>(last); ++t) {
      float pre[kMostConnectedStreams];
      make_coefficients(p, t, pre);
      const float* const streams = p.streams + t * n * columns;
      float* const x = p.x + t * columns;
      for (size_t c = 0; c < columns; ++c) {
        float sum = 0.0f;
        for (size_t i = 0; i < n; ++i) sum += pre[i] * streams[i * columns + c];
        x[c] = sum;
      }
    }
  });
  return Status::ok;
}

Status expand_streams(Context* context, const ExpandStreamsParams* params) {
  const ExpandStreamsParams& p = *params;
  QUIRE_RETURN_IF_FAILED(check_connection("expand_streams", p));
  share_work(context, p.tokens, int64_t{2} * p.columns * p.num_streams * p.num_streams,
             [&](int32_t, int64_t first, int64_t last) {
               for (auto t = static_cast<size_t>(first); t < static_cast<size_t>(last); ++t)
                 expand_token(p, t);
             });
  return Status::ok;
}

}  // namespace quire::kernels::cpu_entries
