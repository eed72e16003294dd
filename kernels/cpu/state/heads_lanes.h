// Heads of layers with a recurrent state: S <- decay S + key update^T, o = S^T query.
//
// With G_t the decay summed from the line to token t, and S the state at the line, token t computes
//   read = (e^G_t key_t)^T S + sum over j < t of ((e^(G_t - G_j) key_t) . key_j) update_j    (delta rule
//   only) update_t = beta (value_t - read), or a multiple of value_t o_t = (e^G_t query_t)^T S + sum over j
//   <= t of ((e^(G_t - G_j) query_t) . key_j) update_j
// and the state at the next line is e^G S + sum over j of (e^(G - G_j) key_j) update_j^T, with G the whole
// sum.
//
// Every sum runs over key elements or rows in their order, with one fused multiply-add for each; how many
// tokens and columns are computed together changes nothing. So one token alone has the bits that it has in a
// prefill. Exponents are differences of decays, at most 0.
#pragma once

namespace quire::kernels {
namespace {

// Sums that are kept in registers.
constexpr int kStateSums = kDenseRows >= 8 ? 16 : kDenseRows;
constexpr int32_t kValueChunk = 128;  // columns of the value that are computed together

// Consecutive tokens of a lane in one line.
struct LineTile {
  int32_t row = 0;    // matrix row of the first token
  int32_t begin = 0;  // index in the line of the first token, and one past the last
  int32_t end = 0;
  const float* state = nullptr;  // of this head at the line, or nullptr: zeros
  float* updates = nullptr;      // rows of this head in the line's bank
  float* decays = nullptr;
};

// Work memory of one head and line. Rows of keys have `stride` floats, zeros beyond key_dim.
struct HeadSpace {
  int32_t stride;
  float keys[kStateLine * kMaxStateKey];         // all rows of the line so far
  float vectors[2 * kStateLine * kMaxStateKey];  // e^G key, e^G query of each token, side by side
  float queries[kStateLine * kMaxStateKey];
  float products[2 * kStateLine * kValueChunk];  // vectors times the state
  float key_weights[kStateLine][kStateLine];     // [token, row]
  float query_weights[kStateLine][kStateLine];
  float factors[kStateLine];  // beta, or the multiple of the value
};

inline bool reads_keys(HeadRule rule) {
  return rule == HeadRule::delta || rule == HeadRule::delta_per_channel;
}

inline size_t rows_floats(int32_t rows, int32_t row_floats) {
  return static_cast<size_t>(rows) * static_cast<size_t>(row_floats);
}

inline int32_t decay_floats(const HeadsWork& work) {
  return work.rule == HeadRule::delta_per_channel ? padded_dim_of_state(work.key_dim) : 1;
}

inline size_t head_state(const HeadsWork& work, int32_t head) {
  return rows_floats(head, padded_dim_of_state(work.key_dim)) *
         static_cast<size_t>(padded_dim_of_state(work.value_dim));
}

inline size_t head_updates(const HeadsWork& work, int32_t head) {
  return rows_floats(head, kStateLine * padded_dim_of_state(work.value_dim));
}

inline size_t head_decays(const HeadsWork& work, int32_t head) {
  return rows_floats(head, kStateLine * decay_floats(work));
}

inline const float* head_keys(const HeadsWork& work, const uint8_t* bank, int32_t head) {
  return bank_floats(bank, work.keys) +
         rows_floats(head / work.heads_per_key, kStateLine * padded_dim_of_state(work.key_dim));
}

inline void copy_padded(float* target, const float* source, int32_t count, int32_t padded) {
  for (int32_t c = 0; c < padded; c += 16) store(target + c, load_partial(source + c, lanes_left(count, c)));
}

// Fills a vector with one column of the tile's rows.
inline F32 column_of_rows(const StateColumns& columns, const LineTile& tile, int32_t column) {
  float values[16] = {};
  for (int32_t i = tile.begin; i < tile.end; ++i)
    values[i - tile.begin] = row_of(columns, tile.row + i - tile.begin)[column];
  return load(values);
}

// Returns the logarithms g of the decay from x: see DecayKind. `rate` is exp(a_log).
QUIRE_LANE_INLINE F32 decay_lanes(const HeadsWork& work, F32 rate, F32 x) {
  if (work.decay_kind == DecayKind::bounded) return mul(splat(work.lower_bound), sigmoid_lanes(mul(rate, x)));
  return negate(mul(rate, softplus_lanes(x)));
}

// Stores the summed decays of a head with one number for each token, from g.
inline void sum_decays(const LineTile& tile, F32 steps) {
  float g[16];
  store(g, steps);
  float sum = tile.begin > 0 ? tile.decays[tile.begin - 1] : 0.0f;
  for (int32_t i = tile.begin; i < tile.end; ++i) {
    sum = sum + g[i - tile.begin];
    tile.decays[i] = sum;
  }
}

inline void sum_channel_decays(const HeadsWork& work, int32_t head, const LineTile& tile, int32_t stride) {
  const F32 rate = exp_lanes(splat(work.a_log[head]));
  for (int32_t c = 0; c < work.key_dim; c += 16) {
    const int32_t n = lanes_left(work.key_dim, c), column = head * work.key_dim + c;
    F32 sum = tile.begin > 0 ? load(tile.decays + rows_floats(tile.begin - 1, stride) + c) : splat(0.0f);
    for (int32_t i = tile.begin; i < tile.end; ++i) {
      F32 x = load_partial(row_of(work.decay, tile.row + i - tile.begin) + column, n);
      if (work.bias != nullptr) x = add(x, load_partial(work.bias + column, n));
      sum = add(sum, decay_lanes(work, rate, x));
      store(tile.decays + rows_floats(i, stride) + c, sum);
    }
  }
}

// Computes what each token has as single numbers: summed decays, and the factors of the updates.
inline void prepare_tokens(const HeadsWork& work, int32_t head, const LineTile& tile, HeadSpace& space) {
  const F32 bias =
      splat(work.bias != nullptr && work.rule != HeadRule::delta_per_channel ? work.bias[head] : 0.0f);
  switch (work.rule) {
    case HeadRule::delta: {
      const F32 x = add(column_of_rows(work.decay, tile, head), bias);
      sum_decays(tile, decay_lanes(work, exp_lanes(splat(work.a_log[head])), x));
      break;
    }
    case HeadRule::delta_per_channel:
      sum_channel_decays(work, head, tile, space.stride);
      break;
    case HeadRule::state_space: {
      F32 step = softplus_lanes(add(column_of_rows(work.decay, tile, head), bias));
      step = minimum(splat(work.most_step), maximum(splat(work.least_step), step));
      sum_decays(tile, negate(mul(exp_lanes(splat(work.a_log[head])), step)));
      store(space.factors, step);
      return;
    }
    case HeadRule::linear:
      sum_decays(tile, splat(-work.slopes[head]));
      store(space.factors, splat(1.0f));
      return;
  }
  const F32 beta = sigmoid_lanes(column_of_rows(work.beta, tile, head));
  store(space.factors, mul(splat(work.beta_scale), beta));
}

// Copies the keys and queries of the tile, and computes the vectors that read the state.
inline void prepare_vectors(const HeadsWork& work, int32_t head, const LineTile& tile, HeadSpace& space) {
  const int32_t stride = space.stride, column = head / work.heads_per_key * work.key_dim;
  const bool per_channel = work.rule == HeadRule::delta_per_channel;
  float* vector = space.vectors;
  for (int32_t i = tile.begin; i < tile.end; ++i) {
    const int32_t row = tile.row + i - tile.begin;
    float* key = space.keys + rows_floats(i, stride);
    float* query = space.queries + rows_floats(i, stride);
    copy_padded(key, row_of(work.key, row) + column, work.key_dim, stride);
    copy_padded(query, row_of(work.query, row) + column, work.key_dim, stride);
    const F32 of_token = per_channel ? splat(0.0f) : exp_lanes(splat(tile.decays[i]));
    const float* const sources[] = {key, query};
    for (const float* source : sources) {
      if (source == key && !reads_keys(work.rule)) continue;
      for (int32_t c = 0; c < stride; c += 16) {
        const F32 decay = per_channel ? exp_lanes(load(tile.decays + rows_floats(i, stride) + c)) : of_token;
        store(vector + c, mul(decay, load(source + c)));
      }
      vector += stride;
    }
  }
}

// Computes the weights of the rows up to each token, one decay for each token.
inline void weigh_rows(const LineTile& tile, bool with_keys, HeadSpace& space) {
  const int32_t stride = space.stride;
  for (int32_t i = tile.begin; i < tile.end; ++i) {
    const float* key = space.keys + rows_floats(i, stride);
    const float* query = space.queries + rows_floats(i, stride);
    const F32 decays = exp_lanes(sub(splat(tile.decays[i]), load_partial(tile.decays, i + 1)));
    float factors[16];
    store(factors, decays);
    for (int32_t j = 0; j <= i; ++j) {
      const float* other = space.keys + rows_floats(j, stride);
      F32 of_key = splat(0.0f), of_query = splat(0.0f);
      for (int32_t c = 0; c < stride; c += 16) {
        of_query = fma(load(query + c), load(other + c), of_query);
        if (with_keys) of_key = fma(load(key + c), load(other + c), of_key);
      }
      space.query_weights[i][j] = factors[j] * sum_lanes(of_query);
      if (with_keys) space.key_weights[i][j] = factors[j] * sum_lanes(of_key);
    }
  }
}

// The same with a decay for each channel.
inline void weigh_rows_by_channel(const LineTile& tile, HeadSpace& space) {
  const int32_t stride = space.stride;
  for (int32_t i = tile.begin; i < tile.end; ++i) {
    const float* key = space.keys + rows_floats(i, stride);
    const float* query = space.queries + rows_floats(i, stride);
    const float* decays = tile.decays + rows_floats(i, stride);
    for (int32_t j = 0; j <= i; ++j) {
      const float* other = space.keys + rows_floats(j, stride);
      const float* other_decays = tile.decays + rows_floats(j, stride);
      F32 of_key = splat(0.0f), of_query = splat(0.0f);
      for (int32_t c = 0; c < stride; c += 16) {
        const F32 decayed = mul(exp_lanes(sub(load(decays + c), load(other_decays + c))), load(other + c));
        of_key = fma(load(key + c), decayed, of_key);
        of_query = fma(load(query + c), decayed, of_query);
      }
      space.key_weights[i][j] = sum_lanes(of_key);
      space.query_weights[i][j] = sum_lanes(of_query);
    }
  }
}

// Vectors times columns of the state.
struct StateRead {
  const float* state;  // first column
  size_t stride;
  int32_t key_dim;
  const float* vectors;
  int32_t vector_stride;
  float* products;  // [vectors, kValueChunk]
};

template <int kVectors, int kBlocks>
QUIRE_LANE_INLINE void read_columns(const StateRead& read, int32_t vector, int32_t column) {
  F32 sums[kVectors][kBlocks];
#pragma GCC unroll 4
  for (int i = 0; i < kVectors; ++i)
#pragma GCC unroll 16
    for (int b = 0; b < kBlocks; ++b) sums[i][b] = splat(0.0f);
  const float* row = read.state + column;
  const float* x = read.vectors + rows_floats(vector, read.vector_stride);
  for (int32_t k = 0; k < read.key_dim; ++k, row += read.stride) {
    F32 elements[kBlocks];
#pragma GCC unroll 16
    for (int b = 0; b < kBlocks; ++b) elements[b] = load(row + 16 * b);
#pragma GCC unroll 4
    for (int i = 0; i < kVectors; ++i) {
      const F32 factor = splat(x[rows_floats(i, read.vector_stride) + static_cast<size_t>(k)]);
#pragma GCC unroll 16
      for (int b = 0; b < kBlocks; ++b) sums[i][b] = fma(factor, elements[b], sums[i][b]);
    }
  }
#pragma GCC unroll 4
  for (int i = 0; i < kVectors; ++i)
#pragma GCC unroll 16
    for (int b = 0; b < kBlocks; ++b)
      store(read.products + rows_floats(vector + i, kValueChunk) + column + 16 * b, sums[i][b]);
}

template <int kVectors>
void read_vectors(const StateRead& read, int32_t vector, int32_t columns) {
  constexpr int kBlocks = kStateSums / kVectors >= 8   ? 8
                          : kStateSums / kVectors >= 1 ? kStateSums / kVectors
                                                       : 1;
  int32_t column = 0;
  for (; column + 16 * kBlocks <= columns; column += 16 * kBlocks)
    read_columns<kVectors, kBlocks>(read, vector, column);
  for (; column < columns; column += 16) read_columns<kVectors, 1>(read, vector, column);
}

inline void read_state(const StateRead& read, int32_t num_vectors, int32_t columns) {
  int32_t vector = 0;
  for (; vector + 4 <= num_vectors; vector += 4) read_vectors<4>(read, vector, columns);
  for (; vector + 2 <= num_vectors; vector += 2) read_vectors<2>(read, vector, columns);
  if (vector < num_vectors) read_vectors<1>(read, vector, columns);
}

// Columns of values that are computed together.
struct ValueColumns {
  int32_t chunk;   // first column of the chunk, a multiple of kValueChunk
  int32_t column;  // within the chunk
};

// Computes updates and results of the tile's tokens, in their order, for adjacent blocks of 16 columns.
template <int kBlocks, bool kReadsKeys>
QUIRE_LANE_INLINE void finish_columns(const HeadsWork& work, int32_t head, const LineTile& tile,
                                      const HeadSpace& space, ValueColumns at) {
  const int32_t value_stride = padded_dim_of_state(work.value_dim), first = at.chunk + at.column;
  const int32_t column = head * work.value_dim + first;
  const F32 skip = splat(work.skip != nullptr ? work.skip[head] : 0.0f);
  const float* product = space.products + at.column;
  for (int32_t i = tile.begin; i < tile.end; ++i) {
    const int32_t row = tile.row + i - tile.begin;
    F32 read[kBlocks], sum[kBlocks];
#pragma GCC unroll 4
    for (int b = 0; b < kBlocks; ++b) read[b] = sum[b] = splat(0.0f);
    if (tile.state != nullptr) {
      if (kReadsKeys) {
#pragma GCC unroll 4
        for (int b = 0; b < kBlocks; ++b) read[b] = load(product + 16 * b);
        product += kValueChunk;
      }
#pragma GCC unroll 4
      for (int b = 0; b < kBlocks; ++b) sum[b] = load(product + 16 * b);
      product += kValueChunk;
    }
    const float* other = tile.updates + first;
    for (int32_t j = 0; j < i; ++j, other += value_stride) {
      const F32 of_query = splat(space.query_weights[i][j]);
      const F32 of_key = splat(kReadsKeys ? space.key_weights[i][j] : 0.0f);
#pragma GCC unroll 4
      for (int b = 0; b < kBlocks; ++b) {
        const F32 update = load(other + 16 * b);
        sum[b] = fma(of_query, update, sum[b]);
        if (kReadsKeys) read[b] = fma(of_key, update, read[b]);
      }
    }
#pragma GCC unroll 4
    for (int b = 0; b < kBlocks; ++b) {
      const int32_t n = lanes_left(work.value_dim, first + 16 * b);
      const F32 value = load_partial(row_of(work.value, row) + column + 16 * b, n);
      const F32 update = mul(splat(space.factors[i - tile.begin]), kReadsKeys ? sub(value, read[b]) : value);
      store(tile.updates + rows_floats(i, value_stride) + first + 16 * b, update);
      F32 y = fma(splat(space.query_weights[i][i]), update, sum[b]);
      if (work.skip != nullptr) y = fma(skip, value, y);
      float* output = work.output + static_cast<size_t>(row) * work.output_stride;
      store_partial(output + column + 16 * b, y, n);
    }
  }
}

template <bool kReadsKeys>
void finish_chunk(const HeadsWork& work, int32_t head, const LineTile& tile, const HeadSpace& space,
                  int32_t chunk, int32_t columns) {
  constexpr int kBlocks = kStateSums >= 16 ? 4 : 1;
  int32_t column = 0;
  for (; column + 16 * kBlocks <= columns; column += 16 * kBlocks)
    finish_columns<kBlocks, kReadsKeys>(work, head, tile, space, {chunk, column});
  for (; column < columns; column += 16)
    finish_columns<1, kReadsKeys>(work, head, tile, space, {chunk, column});
}

inline void gate_tile(const HeadsWork& work, int32_t head, const LineTile& tile) {
  const GatedNormSpec& spec = *work.gate.spec;
  const auto column = static_cast<size_t>(head) * static_cast<size_t>(work.value_dim);
  const float* weight = work.gate.weight;
  if (weight != nullptr && !spec.shared_weight) weight += column;
  for (int32_t row = tile.row; row < tile.row + tile.end - tile.begin; ++row) {
    float* output = work.output + static_cast<size_t>(row) * work.output_stride + column;
    const float* gate = spec.gate != GateKind::none ? row_of(work.gate.gate, row) + column : nullptr;
    gate_group(spec, output, gate, weight, output);
  }
}

// Computes a tile. Keys of the line's rows before it are in `space`.
inline void compute_tile(const HeadsWork& work, int32_t head, const LineTile& tile, HeadSpace& space) {
  const bool with_keys = reads_keys(work.rule);
  const int32_t value_stride = padded_dim_of_state(work.value_dim);
  const int32_t num_vectors = (tile.end - tile.begin) * (with_keys ? 2 : 1);
  prepare_tokens(work, head, tile, space);
  prepare_vectors(work, head, tile, space);
  if (work.rule == HeadRule::delta_per_channel) {
    weigh_rows_by_channel(tile, space);
  } else {
    weigh_rows(tile, with_keys, space);
  }
  for (int32_t chunk = 0; chunk < value_stride; chunk += kValueChunk) {
    const int32_t columns = value_stride - chunk < kValueChunk ? value_stride - chunk : kValueChunk;
    if (tile.state != nullptr) {
      const StateRead read = {tile.state + chunk, static_cast<size_t>(value_stride),
                              work.key_dim,       space.vectors,
                              space.stride,       space.products};
      read_state(read, num_vectors, columns);
    }
    if (with_keys) {
      finish_chunk<true>(work, head, tile, space, chunk, columns);
    } else {
      finish_chunk<false>(work, head, tile, space, chunk, columns);
    }
  }
  if (work.gate.spec != nullptr) gate_tile(work, head, tile);
}

// The state at a line, the rows from there on, and the state at the next line.
struct FormedState {
  const float* from;  // or nullptr: zeros
  float* to;          // may be `from`
  const float* updates;
  const float* decays;
};

// Writes e^(G - G_j) key_j of all rows j of a line, [key element, row], and e^G.
inline void weigh_keys(const HeadsWork& work, const FormedState& form, HeadSpace& space, float* decays) {
  const int32_t stride = space.stride;
  const bool per_channel = work.rule == HeadRule::delta_per_channel;
  const float* last = form.decays + rows_floats(kStateLine - 1, decay_floats(work));
  float factors[16];
  if (!per_channel) store(factors, exp_lanes(sub(splat(*last), load(form.decays))));
  for (int32_t c = 0; c < stride; c += 16) {
    F32 rows[kStateLine];
    for (int32_t j = 0; j < kStateLine; ++j) {
      const F32 factor = per_channel
                             ? exp_lanes(sub(load(last + c), load(form.decays + rows_floats(j, stride) + c)))
                             : splat(factors[j]);
      rows[j] = mul(factor, load(space.keys + rows_floats(j, stride) + c));
    }
    transpose(rows);
    for (int32_t k = 0; k < 16; ++k) store(space.vectors + rows_floats(c + k, kStateLine), rows[k]);
    store(decays + c, exp_lanes(per_channel ? load(last + c) : splat(*last)));
  }
}

// Forms the state at the line after the rows. Keys of all rows are in `space`.
inline void form_state(const HeadsWork& work, const FormedState& form, HeadSpace& space) {
  float decays[kMaxStateKey];
  weigh_keys(work, form, space, decays);
  const int32_t value_stride = padded_dim_of_state(work.value_dim);
  for (int32_t v = 0; v < value_stride; v += 16) {
    F32 updates[kStateLine];
    for (int32_t j = 0; j < kStateLine; ++j)
      updates[j] = load(form.updates + rows_floats(j, value_stride) + v);
    for (int32_t k = 0; k < work.key_dim; ++k) {
      const size_t at = rows_floats(k, value_stride) + static_cast<size_t>(v);
      const float* weights = space.vectors + rows_floats(k, kStateLine);
      F32 sum = form.from != nullptr ? mul(splat(decays[k]), load(form.from + at)) : splat(0.0f);
#pragma GCC unroll 16
      for (int32_t j = 0; j < kStateLine; ++j) sum = fma(splat(weights[j]), updates[j], sum);
      store(form.to + at, sum);
    }
  }
}

// Loads the first `count` keys of a line that a bank holds.
inline void load_keys_of_line(const HeadsWork& work, const uint8_t* bank, int32_t head, int32_t count,
                              HeadSpace& space) {
  copy_floats(space.keys, head_keys(work, bank, head), count * space.stride);
}

inline FormedState form_from(const HeadsWork& work, const uint8_t* bank, int32_t head, const float* state,
                             uint8_t* to) {
  return {state, bank_floats(to, work.state) + head_state(work, head),
          bank_floats(bank, work.updates) + head_updates(work, head),
          bank_floats(bank, work.decays) + head_decays(work, head)};
}

// Computes all rows of a lane for one head, line by line.
void run_head(const HeadsWork& work, const StateLane& lane, int32_t head) {
  HeadSpace space;
  space.stride = padded_dim_of_state(work.key_dim);
  const float* state = nullptr;  // at the line of the next row; at line 0 there is none
  if (source_line(lane) > 0) state = bank_floats(lane.source, work.state) + head_state(work, head);
  if (lane.forms) {
    load_keys_of_line(work, lane.source, head, kStateLine, space);
    const FormedState form = form_from(work, lane.source, head, state, lane.first);
    form_state(work, form, space);
    state = form.to;
  } else {
    load_keys_of_line(work, lane.source, head, lane.position % kStateLine, space);
  }
  uint8_t* bank = lane.first;
  for (int32_t done = 0; done < lane.num_rows;) {
    const int32_t begin = (lane.position + done) % kStateLine, left = lane.num_rows - done;
    LineTile tile = {.row = lane.first_row + done, .begin = begin};
    tile.end = left < kStateLine - begin ? begin + left : kStateLine;
    tile.state = state;
    tile.updates = bank_floats(bank, work.updates) + head_updates(work, head);
    tile.decays = bank_floats(bank, work.decays) + head_decays(work, head);
    compute_tile(work, head, tile, space);
    done += tile.end - begin;
    if (done == lane.num_rows) break;
    const FormedState form = form_from(work, bank, head, state, lane.later);
    form_state(work, form, space);
    state = form.to;
    bank = lane.later;
  }
}

}  // namespace
}  // namespace quire::kernels
