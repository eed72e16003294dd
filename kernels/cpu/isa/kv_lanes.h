// One head of one token, written to and read from the KV cache: head norm, rotary embedding, and the cache's
// formats (docs/formats.md, "KV cache").
#pragma once

namespace quire::kernels {
namespace {

// Address of one head of one token.
struct CacheRow {
  uint8_t* codes;
  uint16_t* scales;
};

inline size_t bytes_of_row(KvFormat format, int32_t head_dim) {
  const auto elements = static_cast<size_t>(head_dim);
  if (format == KvFormat::f16) return elements * 2;
  return format == KvFormat::q4 ? elements / 2 : elements;
}

struct CacheSide {
  KvShape shape;  // shape with the dimensions of the keys, or of the values
  KvFormat format;
  void* codes;
  void* scales;
};

struct HeadPlace {
  int32_t page;
  int32_t kv_head;
  int32_t slot;
};

inline CacheRow cache_row(const CacheSide& side, const HeadPlace& at) {
  const KvShape& shape = side.shape;
  const size_t head = static_cast<size_t>(at.page) * static_cast<size_t>(shape.num_kv_heads) +
                      static_cast<size_t>(at.kv_head);
  const size_t row = head * static_cast<size_t>(shape.page_tokens) + static_cast<size_t>(at.slot);
  uint16_t* first_scale = static_cast<uint16_t*>(side.scales);
  return {static_cast<uint8_t*>(side.codes) + row * bytes_of_row(side.format, shape.head_dim),
          is_quantized(side.format) ? first_scale + row * static_cast<size_t>(shape.head_dim / 32) : nullptr};
}

// Computes the transform of the quantized formats, unscaled, in place; it is its own inverse except for a
// factor 32. Blocks of 64: a 32-point Walsh-Hadamard transform of the even elements and one of the odd. If
// head_dim is no multiple of 64: blocks of 32, one transform each.
inline void hadamard(float* x, int32_t head_dim) {
  const bool wide = head_dim % 64 == 0;
  const int32_t block = wide ? 64 : 32;
  for (int32_t width = wide ? 2 : 1; width < block; width *= 2) {
    for (int32_t first = 0; first < head_dim; first += 2 * width) {
      for (int32_t i = first; i < first + width; ++i) {
        const float a = x[i];
        const float b = x[i + width];
        x[i] = a + b;
        x[i + width] = a - b;
      }
    }
  }
}

inline F32 round_to_half(F32 x) {
  uint16_t bits[16];
  store_half(bits, x);
  return load_half(bits);
}

inline float largest_magnitude(const float* x) {
  const I32 size_mask = splat_int(0x7fffffff);
  const int32_t bits =
      max_lanes(maximum(bit_and(as_int(load(x)), size_mask), bit_and(as_int(load(x + 16)), size_mask)));
  float amax;
  __builtin_memcpy(&amax, &bits, sizeof amax);
  return amax;
}

// Encodes 32 transformed elements. A block with a NaN or an infinity is read back as NaN; a scale beyond the
// range of f16 becomes its largest value.
inline void encode_block(const float* x, bool eight_bits, uint8_t* codes, uint16_t* scale) {
  const float zero = eight_bits ? 128.0f : 8.0f;
  const float amax = largest_magnitude(x);
  const bool finite = amax < __builtin_inff();
  const float divisor = finite && amax > 0.0f ? amax : 1.0f;
  uint8_t bytes[32];
  for (int h = 0; h < 2; ++h) {
    const F32 ratio = finite ? round_to_half(div(load(x + 16 * h), splat(divisor))) : splat(0.0f);
    const I32 code = to_int(minimum(fma(ratio, splat(zero), splat(zero)), splat(2.0f * zero - 1.0f)));
    store_bytes(bytes + 16 * h, code);
  }
  if (eight_bits) {
    __builtin_memcpy(codes, bytes, 32);
  } else {
    for (int i = 0; i < 16; ++i) codes[i] = static_cast<uint8_t>(bytes[2 * i] | (bytes[2 * i + 1] << 4));
  }
  const float stored = finite ? amax / zero : __builtin_nanf("");
  uint16_t bits[16];
  store_half(bits, splat(stored > 65504.0f ? 65504.0f : stored));
  *scale = bits[0];
}

inline void encode_row(const float* x, KvFormat format, int32_t head_dim, CacheRow row) {
  if (is_quantized(format)) {
    float transformed[kMaxHeadDim];
    __builtin_memcpy(transformed, x, static_cast<size_t>(head_dim) * sizeof(float));
    hadamard(transformed, head_dim);
    const bool eight_bits = format == KvFormat::q8;
    for (int32_t b = 0; b < head_dim / 32; ++b) {
      encode_block(transformed + 32 * b, eight_bits, row.codes + b * (eight_bits ? 32 : 16), row.scales + b);
    }
    return;
  }
  for (int32_t d = 0; d < head_dim; d += 16) {
    const int32_t n = lanes_left(head_dim, d);
    uint16_t bits[16];
    store_half(bits, load_partial(x + d, n));
    if (format == KvFormat::f16) {
      __builtin_memcpy(row.codes + 2 * d, bits, static_cast<size_t>(n) * 2);
    } else {
      for (int32_t i = 0; i < n; ++i) row.codes[d + i] = static_cast<uint8_t>(bits[i] >> 8);
    }
  }
}

// Loads the scales of a row as f32, for decode_lanes.
inline void decode_scales(KvFormat format, int32_t head_dim, CacheRow row, float* scales) {
  if (!is_quantized(format)) return;
  uint16_t bits[16] = {};
  __builtin_memcpy(bits, row.scales, static_cast<size_t>(head_dim / 32) * 2);
  store(scales, load_half(bits));
}

// Loads elements d..d+15 of a row, 0 beyond head_dim; elements of the quantized formats stay transformed.
QUIRE_LANE_INLINE F32 decode_lanes(KvFormat format, int32_t head_dim, CacheRow row, const float* scales,
                                   int32_t d) {
  switch (format) {
    case KvFormat::q8:
      return mul(sub(to_float(load_bytes(row.codes + d)), splat(128.0f)), splat(scales[d / 32]));
    case KvFormat::q4:
      return mul(sub(to_float(load_nibbles(row.codes + d / 2)), splat(8.0f)), splat(scales[d / 32]));
    case KvFormat::f16:
      return load_as_float(DType::f16, row.codes, d, lanes_left(head_dim, d));
    default: {
      uint16_t bits[16] = {};
      const int32_t n = lanes_left(head_dim, d);
      for (int32_t i = 0; i < n; ++i) bits[i] = static_cast<uint16_t>(row.codes[d + i] << 8);
      return load_half(bits);
    }
  }
}

inline void rotate_halves(float* x, const float* cosines, const float* sines, int32_t half) {
  for (int32_t i = 0; i < half; i += 16) {
    const int32_t n = lanes_left(half, i);
    const F32 a = load_partial(x + i, n);
    const F32 b = load_partial(x + half + i, n);
    const F32 c = load_partial(cosines + i, n);
    const F32 s = load_partial(sines + i, n);
    store_partial(x + i, sub(mul(a, c), mul(b, s)), n);
    store_partial(x + half + i, add(mul(b, c), mul(a, s)), n);
  }
}

inline void rotate_pairs(float* x, const float* cosines, const float* sines, int32_t half) {
  for (int32_t i = 0; i < half; ++i) {
    const float a = x[2 * i];
    const float b = x[2 * i + 1];
    x[2 * i] = a * cosines[i] - b * sines[i];
    x[2 * i + 1] = b * cosines[i] + a * sines[i];
  }
}

// Returns the floats of a token's row of q, k and v.
inline size_t row_columns(const AttentionSpec& spec) {
  const HeadShape& heads = spec.heads;
  const int32_t values = heads.value_dim != 0 ? heads.value_dim : heads.head_dim;
  int32_t columns = heads.num_heads * heads.head_dim;
  if (!spec.reads_cache_only) columns += heads.num_kv_heads * heads.head_dim;
  if (!spec.reads_cache_only && !spec.values_are_keys) columns += heads.num_kv_heads * values;
  return static_cast<size_t>(columns);
}

// Parameters of a norm of q or k; nullptr: ones, or zeros.
struct HeadNorm {
  const float* weight;
  const float* bias;

  HeadNorm from(int32_t element) const {
    return {weight != nullptr ? weight + element : nullptr, bias != nullptr ? bias + element : nullptr};
  }
};

inline void norm_in_place(const AttentionSpec& spec, NormKind kind, const HeadNorm& of, int32_t columns,
                          float* x) {
  NormRow norm;
  norm.kind = kind;
  norm.weight = of.weight;
  norm.bias = of.bias;
  norm.epsilon = spec.qk_norm_epsilon;
  norm.columns = columns;
  norm_row(norm, x, x);
}

inline void rotate_head(const AppendKvParams& params, int32_t token, float* head) {
  const int32_t half = params.rotary_dim / 2;
  if (params.rope == RopeStyle::none || half == 0) return;
  const size_t first = static_cast<size_t>(token) * static_cast<size_t>(half);
  if (params.rope == RopeStyle::neox_halves) {
    rotate_halves(head, params.cos + first, params.sin + first, half);
  } else {
    rotate_pairs(head, params.cos + first, params.sin + first, half);
  }
}

// Normalises and rotates all heads of q, or of k, in place.
inline void rotate_heads(const AppendKvParams& params, const HeadNorm& norm, int32_t token, float* heads,
                         int32_t num_heads) {
  const int32_t dim = params.heads.head_dim;
  if (params.qk_norm == QkNorm::all_heads) {
    norm_in_place(params, params.qk_norm_kind, norm, num_heads * dim, heads);
  }
  for (int32_t h = 0; h < num_heads; ++h) {
    float* head = heads + static_cast<size_t>(h) * static_cast<size_t>(dim);
    const HeadNorm own = params.qk_weight_per_head ? norm.from(h * dim) : norm;
    const bool normed = params.qk_norm == QkNorm::each_head;
    if (normed && !params.norm_after_rope) norm_in_place(params, params.qk_norm_kind, own, dim, head);
    rotate_head(params, token, head);
    if (normed && params.norm_after_rope) norm_in_place(params, params.qk_norm_kind, own, dim, head);
  }
}

inline void clip_row(float* row, size_t columns, float limit) {
  for (size_t i = 0; i < columns; ++i) {
    if (row[i] > limit) row[i] = limit;
    if (row[i] < -limit) row[i] = -limit;
  }
}

inline void scale_row(float* row, int32_t columns, float factor) {
  for (int32_t i = 0; i < columns; ++i) row[i] *= factor;
}

// Location of a token in the pages.
struct TokenPlace {
  int32_t page;
  int32_t slot;
};

inline TokenPlace place_of(const AppendKvParams& params, int32_t token) {
  const BatchView& batch = params.batch;
  const int32_t position = batch.positions[token];
  const int32_t* pages = batch.page_table + static_cast<size_t>(batch.sequence_of_token[token]) *
                                                static_cast<size_t>(batch.page_table_stride);
  return {pages[position / params.kv_shape.page_tokens], position % params.kv_shape.page_tokens};
}

inline void append_values(const AppendKvParams& params, TokenPlace at, float* values) {
  KvShape shape = params.kv_shape;
  if (shape.value_dim != 0) shape.head_dim = shape.value_dim;
  for (int32_t h = 0; h < params.heads.num_kv_heads; ++h) {
    float* value = values + static_cast<size_t>(h) * static_cast<size_t>(shape.head_dim);
    float normed[kMaxHeadDim];
    if (params.value_norm) {
      __builtin_memcpy(normed, value, static_cast<size_t>(shape.head_dim) * sizeof(float));
      norm_in_place(params, NormKind::rms, {nullptr, nullptr}, shape.head_dim, normed);
      value = normed;
    }
    encode_row(value, shape.value_format, shape.head_dim,
               cache_row({shape, shape.value_format, params.kv.values, params.kv.value_scales},
                         {at.page, h, at.slot}));
  }
}

void append_token(const AppendToken& work) {
  const AppendKvParams& params = *work.params;
  const KvShape& shape = params.kv_shape;
  const int32_t head_dim = params.heads.head_dim;
  const int32_t num_heads = params.heads.num_heads;
  const int32_t num_kv_heads = params.heads.num_kv_heads;
  const size_t columns = row_columns(params);
  float* row = static_cast<float*>(params.qkv) + static_cast<size_t>(work.token) * columns;
  if (params.clip != 0.0f) clip_row(row, columns, params.clip);
  const auto head_at = [row, head_dim](int32_t h) {
    return row + static_cast<size_t>(h) * static_cast<size_t>(head_dim);
  };
  // Values go first: if they are copies of the keys, those are not rotated yet.
  float* keys = head_at(num_heads);
  const TokenPlace at = params.reads_cache_only ? TokenPlace{} : place_of(params, work.token);
  if (!params.reads_cache_only) {
    append_values(params, at, params.values_are_keys ? keys : head_at(num_heads + num_kv_heads));
  }
  rotate_heads(params, {params.q_norm, params.q_norm_bias}, work.token, row, num_heads);
  if (work.query_factor != 1.0f) scale_row(row, num_heads * head_dim, work.query_factor);
  if (params.reads_cache_only) return;
  rotate_heads(params, {params.k_norm, params.k_norm_bias}, work.token, keys, num_kv_heads);
  for (int32_t h = 0; h < num_kv_heads; ++h) {
    encode_row(
        head_at(num_heads + h), shape.key_format, head_dim,
        cache_row({shape, shape.key_format, params.kv.keys, params.kv.key_scales}, {at.page, h, at.slot}));
  }
}

}  // namespace
}  // namespace quire::kernels
