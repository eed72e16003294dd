// Code shared by the decode and the prefill kernels of attention, so that a query gets the same bits from
// both.
//
// Online softmax over chunks of 128 keys at fixed positions. For one row and one chunk: the scores are a
// chain of mma over the head dimension; then the chunk's maximum; the weights are exp2(score - maximum)
// rounded to f16; their sum and the weighted values are chains of mma over the chunk's keys. A span is 16
// chunks at fixed positions. Chunks of a span are merged in order of position, then the spans. Masked keys
// have weight exactly 0, and a chunk without visible keys changes nothing. So the result depends neither on
// the other rows of a tile nor on how the keys are split over blocks (split-KV).
//
// Keys and values lie in shared memory as f16 [128][HD], in 16-byte pieces swizzled by the row. Quantized
// pages are converted to f16 during that copy but stay Hadamard-transformed: the queries are transformed too,
// and the output is transformed back at the end. Dimensions of quantized keys, and of queries multiplied with
// them, are in the order in which a lane of attention_codes.cu unpacks its 16 of each 64 (key_slot).
#pragma once

#include <cuda_fp16.h>

#include "kernels/cuda/attention/attention.h"
#include "kernels/cuda/device/launch.cuh"
#include "kernels/cuda/device/ptx.cuh"
#include "kernels/cuda/gemm/hadamard.cuh"

namespace quire::kernels {

constexpr float kLog2E = 1.4426950408889634f;
constexpr uint32_t kOnes = 0x3c003c00U;  // two f16 1.0
// Chunks of a span. A block that merges chunks itself writes at most one partial result per span to memory.
constexpr int kSpanChunks = 16;

// Allows a kernel to use `bytes` of dynamic shared memory.
template <typename... Parameters>
cudaError_t allow_shared(void (*kernel)(Parameters...), size_t bytes) {
  return cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(bytes));
}

template <int HD>
__device__ __forceinline__ uint32_t tile_offset(int row, int piece) {
  return static_cast<uint32_t>(row * HD * 2 + ((piece ^ (row & 7)) << 4));
}

// One layer's keys or values as one block reads them.
struct PageReader {
  const uint8_t* data;
  const __half* scales;
  const int32_t* pages;  // page table of the sequence
  KvFormat format;
  int32_t page_tokens;
  int32_t num_kv_heads;
  int32_t kv_head;
  int32_t head_dim;
  // Range of keys, first .. length - 1, that any row of the block attends to. Other positions are not looked
  // up, because pages before a window may belong to another sequence by now.
  int32_t first;
  int32_t length;

  __device__ __forceinline__ bool has(int position) const { return position >= first && position < length; }

  __device__ __forceinline__ size_t row(int position) const {
    const int page = position / page_tokens;
    return (static_cast<size_t>(pages[page]) * num_kv_heads + kv_head) * page_tokens +
           (position - page * page_tokens);
  }
};

// Reads keys or values `first` to `length` - 1 of a sequence.
template <bool kKeys>
__device__ __forceinline__ PageReader page_reader(const AttentionParams& p, int sequence, int kv_head,
                                                  int first, int length) {
  return {static_cast<const uint8_t*>(kKeys ? p.kv.keys : p.kv.values),
          static_cast<const __half*>(kKeys ? p.kv.key_scales : p.kv.value_scales),
          p.batch.page_table + static_cast<size_t>(sequence) * p.batch.page_table_stride,
          kKeys ? p.kv_shape.key_format : p.kv_shape.value_format,
          p.kv_shape.page_tokens,
          p.heads.num_kv_heads,
          kv_head,
          p.heads.head_dim,
          first,
          length};
}

// Rows of one chunk in the pages. If a page holds whole chunks, the rows are contiguous and need one
// division.
struct ChunkRows {
  size_t first;
  bool together;
  int32_t begin;

  __device__ __forceinline__ ChunkRows(const PageReader& from, int chunk)
      : first(0), together(from.page_tokens % kChunkTokens == 0), begin(chunk * kChunkTokens) {
    if (together) first = from.row(begin);
  }
  __device__ __forceinline__ size_t row(const PageReader& from, int local) const {
    return together ? first + local : from.row(begin + local);
  }
};

__device__ __forceinline__ uint32_t half_pair(uint32_t low, uint32_t high) {
  return low | high << 16;
}

// Returns the position of dimension `d` within a row of keys. In each 64 dimensions, lane t of a tensor-core
// operand holds the 16 from 16t on. It assigns them to its pairs of k (2t + {0, 1} and 2t + 8 + {0, 1} of
// each mma) in the order in which they unpack: for q8, bytes {0, 1} and {2, 3} of a word; for q4, each nibble
// with the nibble 4 positions later.
__device__ __forceinline__ int key_slot(KvFormat format, int d) {
  const int t = d % 64 / 16, e = d % 16, block = d & ~63;
  if (format == KvFormat::q8) return block + 16 * (e >> 2) + 8 * (e >> 1 & 1) + 2 * t + (e & 1);
  if (format == KvFormat::q4)
    return block + 32 * (e >> 3) + 16 * (e >> 1 & 1) + 8 * (e & 1) + 2 * t + (e >> 2 & 1);
  return d;
}

constexpr uint32_t kUpperBytes = 0x64646464U;  // high bytes of f16 values from 1024 on

// Converts two bytes of a word of q8 codes, first or second half, to scaled f16.
__device__ __forceinline__ uint32_t expand_q8_pair(uint32_t word, int half, __half2 scale,
                                                   uint32_t upper_bytes = kUpperBytes) {
  const uint32_t raw = __byte_perm(word, upper_bytes, half == 0 ? 0x4140 : 0x4342);
  return bits_of(__hmul2(__hsub2(half2_of(raw), __float2half2_rn(1152.0f)), scale));
}

// Converts nibbles i and i + 4 of a word of q4 codes to scaled f16.
__device__ __forceinline__ uint32_t expand_q4_pair(uint32_t word, int i, __half2 scale) {
  const uint32_t raw = and_or(i < 2 ? word : word >> 8, i % 2 == 0 ? 0x000f000fU : 0x00f000f0U, 0x64006400U);
  const __half2 code = i % 2 == 0
                           ? __hsub2(half2_of(raw), __float2half2_rn(1032.0f))
                           : __hfma2(half2_of(raw), __float2half2_rn(0.0625f), __float2half2_rn(-72.0f));
  return bits_of(__hmul2(code, scale));
}

// Converts 32 dimensions to f16, four pieces of 16 bytes. For values these are one block of dimensions in
// order. For keys they are a quarter of each lane's words of 64 dimensions, lane by lane, in the order of
// key_slot. Lanes 0 and 1 use the first scale.
template <bool kKeys>
__device__ __forceinline__ void expand_q8(const uint32_t (&words)[8], __half2 scales, uint4 (&out)[4]) {
#pragma unroll
  for (int piece = 0; piece < 4; ++piece) {
    uint32_t pairs[4];
#pragma unroll
    for (int t = 0; t < 4; ++t) {
      const __half2 scale = t < 2 || !kKeys ? __low2half2(scales) : __high2half2(scales);
      pairs[t] = kKeys ? expand_q8_pair(words[2 * t + piece / 2], piece % 2, scale)
                       : expand_q8_pair(words[2 * piece + t / 2], t % 2, scale);
    }
    out[piece] = make_uint4(pairs[0], pairs[1], pairs[2], pairs[3]);
  }
}

template <bool kKeys>
__device__ __forceinline__ void expand_q4(const uint32_t (&words)[4], __half2 scales, uint4 (&out)[4]) {
#pragma unroll
  for (int piece = 0; piece < 4; ++piece) {
    uint32_t pairs[4];
#pragma unroll
    for (int t = 0; t < 4; ++t) {
      if constexpr (kKeys) {
        pairs[t] = expand_q4_pair(words[t], piece, t < 2 ? __low2half2(scales) : __high2half2(scales));
      } else {
        const uint32_t byte = (words[piece] >> (8 * t)) & 0xffU;
        pairs[t] = expand_q4_pair(byte | byte << 12, 0, __low2half2(scales));
      }
    }
    out[piece] = make_uint4(pairs[0], pairs[1], pairs[2], pairs[3]);
  }
}

__device__ __forceinline__ void expand_fp8(uint4 codes, uint4 (&out)[2]) {
  const uint32_t words[4] = {codes.x, codes.y, codes.z, codes.w};
  uint32_t pairs[8];
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    pairs[2 * i] = __byte_perm(words[i], 0, 0x1404);
    pairs[2 * i + 1] = __byte_perm(words[i], 0, 0x3424);
  }
  out[0] = make_uint4(pairs[0], pairs[1], pairs[2], pairs[3]);
  out[1] = make_uint4(pairs[4], pairs[5], pairs[6], pairs[7]);
}

// Loads a chunk one element at a time, for head sizes that 16-byte copies do not fit.
template <int HD, int kThreads>
__device__ __noinline__ void load_odd_chunk(const PageReader from, int chunk, uint32_t tile) {
  for (int i = threadIdx.x; i < kChunkTokens * (HD / 8); i += kThreads) {
    const int row = i / (HD / 8), piece = i % (HD / 8);
    const int position = chunk * kChunkTokens + row;
    uint16_t v[8] = {};
    if (from.has(position)) {
      const size_t at = from.row(position) * from.head_dim;
      for (int e = 0; e < 8; ++e) {
        const int d = piece * 8 + e;
        if (d >= from.head_dim) break;
        v[e] = from.format == KvFormat::f16 ? reinterpret_cast<const uint16_t*>(from.data)[at + d]
                                            : static_cast<uint16_t>(from.data[at + d] << 8);
      }
    }
    store_shared_16(tile + tile_offset<HD>(row, piece), *reinterpret_cast<uint4*>(v));
  }
}

template <int HD, int kThreads>
__device__ __forceinline__ void load_f16_chunk(const PageReader& from, int chunk, uint32_t tile) {
  constexpr int kPieces = HD / 8;
  const ChunkRows rows(from, chunk);
  if (rows.together && from.head_dim == HD) {
    // The whole chunk is contiguous.
    const uint8_t* source = from.data + rows.first * (HD * 2) + threadIdx.x * 16;
    constexpr int kRowsAtOnce = kThreads / kPieces;
    const int piece = threadIdx.x % kPieces, first = threadIdx.x / kPieces;
    const int live = from.length - chunk * kChunkTokens - first;
#pragma unroll
    for (int i = 0; i < kChunkTokens / kRowsAtOnce; ++i) {
      const bool there = i * kRowsAtOnce < live;
      copy_async_16(tile + tile_offset<HD>(first + i * kRowsAtOnce, piece),
                    there ? source + i * (kThreads * 16) : from.data, there ? 16 : 0);
    }
    return;
  }
#pragma unroll 4
  for (int i = threadIdx.x; i < kChunkTokens * kPieces; i += kThreads) {
    const int row = i / kPieces, piece = i % kPieces;
    const int position = chunk * kChunkTokens + row;
    const bool live = from.has(position) && piece * 8 < from.head_dim;
    const uint8_t* source = from.data;
    if (live) source += (from.row(position) * from.head_dim + piece * 8) * 2;
    copy_async_16(tile + tile_offset<HD>(row, piece), source, live ? 16 : 0);
  }
}

// Loads a chunk of fp8 pages with kThreads threads, of which this is number `thread`. Each thread has kBatch
// units of 16 bytes in flight.
template <int HD, int kThreads>
__device__ __forceinline__ void fill_fp8_chunk(const PageReader& from, int chunk, uint32_t tile, int thread) {
  constexpr int kUnits = HD / 16;  // units of a row
  constexpr int kTotal = kChunkTokens * kUnits;
  constexpr int kBatch = kTotal / kThreads < 8 ? kTotal / kThreads : 8;
  static_assert(kTotal % (kThreads * kBatch) == 0);
  const ChunkRows rows(from, chunk);
#pragma unroll 1
  for (int first = thread; first < kTotal; first += kThreads * kBatch) {
    uint4 codes[kBatch];
#pragma unroll
    for (int b = 0; b < kBatch; ++b) {
      const int i = first + b * kThreads, row = i / kUnits, unit = i % kUnits;
      codes[b] = make_uint4(0, 0, 0, 0);
      if (from.has(chunk * kChunkTokens + row) && unit * 16 < from.head_dim)
        codes[b] = __ldg(
            reinterpret_cast<const uint4*>(from.data + rows.row(from, row) * from.head_dim + unit * 16));
    }
#pragma unroll
    for (int b = 0; b < kBatch; ++b) {
      const int i = first + b * kThreads, row = i / kUnits, unit = i % kUnits;
      uint4 out[2];
      expand_fp8(codes[b], out);
      store_shared_16(tile + tile_offset<HD>(row, unit * 2), out[0]);
      store_shared_16(tile + tile_offset<HD>(row, unit * 2 + 1), out[1]);
    }
  }
}

// Words and scales of 32 dimensions of a row of codes, as expand_q8 and expand_q4 read them.
template <KvFormat kFormat, bool kKeys>
struct CodedUnit {
  static constexpr int kWords = kFormat == KvFormat::q4 ? 4 : 8;
  uint32_t words[kWords] = {};
  __half2 scales = __float2half2_rn(0.0f);

  // `block` is the index among all blocks of 32 dimensions in the pages.
  __device__ __forceinline__ void load(const PageReader& from, size_t block) {
    if constexpr (kKeys) {
      constexpr int kOfLane = kWords / 4;
      const size_t pair = block & ~size_t{1};  // pair of blocks: 64 dimensions
      const auto* first =
          reinterpret_cast<const uint32_t*>(from.data) + pair * kWords + (block & 1) * kOfLane;
#pragma unroll
      for (int i = 0; i < kWords; ++i) words[i] = __ldg(first + i / kOfLane * (2 * kOfLane) + i % kOfLane);
      scales = __ldg(reinterpret_cast<const __half2*>(from.scales + pair));
    } else {
      const auto* first = reinterpret_cast<const uint4*>(from.data) + block * (kWords / 4);
#pragma unroll
      for (int i = 0; i < kWords / 4; ++i) {
        const uint4 v = __ldg(first + i);
        words[4 * i] = v.x;
        words[4 * i + 1] = v.y;
        words[4 * i + 2] = v.z;
        words[4 * i + 3] = v.w;
      }
      scales = __half2half2(__ldg(from.scales + block));
    }
  }
  __device__ __forceinline__ void expand(uint4 (&out)[4]) const {
    if constexpr (kFormat == KvFormat::q4) {
      expand_q4<kKeys>(words, scales, out);
    } else {
      expand_q8<kKeys>(words, scales, out);
    }
  }
};

// Loads a chunk of quantized pages in the same way, with kBatch units of 32 dimensions in flight.
template <int HD, int kThreads, KvFormat kFormat, bool kKeys>
__device__ __forceinline__ void fill_coded_chunk(const PageReader& from, int chunk, uint32_t tile,
                                                 int thread) {
  constexpr int kUnits = HD / 32;  // units of a row
  constexpr int kTotal = kChunkTokens * kUnits;
  constexpr int kBatch = kTotal / kThreads < 4 ? kTotal / kThreads : 4;
  static_assert(kTotal % (kThreads * kBatch) == 0);
  const ChunkRows rows(from, chunk);
#pragma unroll 1
  for (int first = thread; first < kTotal; first += kThreads * kBatch) {
    CodedUnit<kFormat, kKeys> units[kBatch];
#pragma unroll
    for (int b = 0; b < kBatch; ++b) {
      const int i = first + b * kThreads, row = i / kUnits, unit = i % kUnits;
      if (from.has(chunk * kChunkTokens + row) && unit * 32 < from.head_dim)
        units[b].load(from, rows.row(from, row) * (from.head_dim / 32) + unit);
    }
#pragma unroll
    for (int b = 0; b < kBatch; ++b) {
      const int i = first + b * kThreads, row = i / kUnits, unit = i % kUnits;
      uint4 out[4];
      units[b].expand(out);
#pragma unroll
      for (int piece = 0; piece < 4; ++piece)
        store_shared_16(tile + tile_offset<HD>(row, unit * 4 + piece), out[piece]);
    }
  }
}

// Loads a chunk with all threads of a block. Not inlined, so that all callers share one copy of the code.
template <int HD, int kThreads>
__device__ __noinline__ void load_fp8_chunk(const PageReader from, int chunk, uint32_t tile) {
  fill_fp8_chunk<HD, kThreads>(from, chunk, tile, static_cast<int>(threadIdx.x));
}
template <int HD, int kThreads, KvFormat kFormat, bool kKeys>
__device__ __noinline__ void load_coded_chunk(const PageReader from, int chunk, uint32_t tile) {
  fill_coded_chunk<HD, kThreads, kFormat, kKeys>(from, chunk, tile, static_cast<int>(threadIdx.x));
}

// Loads a chunk into shared memory: f16 pages asynchronously (cp.async), other formats completely before the
// next barrier. Commits one group of copies in both cases.
template <int HD, int kThreads, bool kKeys>
__device__ __forceinline__ void load_chunk(const PageReader& from, int chunk, uint32_t tile) {
  const bool odd = from.head_dim % 16 != 0 && (from.format == KvFormat::fp8 || from.head_dim % 8 != 0);
  if (odd) {
    load_odd_chunk<HD, kThreads>(from, chunk, tile);
  } else if (from.format == KvFormat::f16) {
    load_f16_chunk<HD, kThreads>(from, chunk, tile);
  } else if (from.format == KvFormat::fp8) {
    load_fp8_chunk<HD, kThreads>(from, chunk, tile);
  } else if (from.format == KvFormat::q8) {
    load_coded_chunk<HD, kThreads, KvFormat::q8, kKeys>(from, chunk, tile);
  } else {
    load_coded_chunk<HD, kThreads, KvFormat::q4, kKeys>(from, chunk, tile);
  }
  commit_copies();
}

// Returns 2^31 / divisor, rounded up. It turns a division, which takes 40 instructions, into a
// multiplication.
__host__ __device__ constexpr uint32_t reciprocal_of(int32_t divisor) {
  return ((1U << 31) + static_cast<uint32_t>(divisor) - 1) / static_cast<uint32_t>(divisor);
}
// Exact for n from 0 up to 2^31 / divisor.
__device__ __forceinline__ int quotient_of(int n, uint32_t share) {
  return static_cast<int>(static_cast<uint64_t>(n) * share >> 31);
}

struct Divisor {
  int32_t value;
  uint32_t share;

  __device__ __forceinline__ static Divisor of(int32_t value) { return {value, reciprocal_of(value)}; }
  __device__ __forceinline__ int quotient(int n) const { return quotient_of(n, share); }
  __device__ __forceinline__ int rest(int n) const { return n - quotient(n) * value; }
};

// Query rows of one sequence and one kv head (GQA): row r is token r / group, head r % group.
struct QueryRows {
  const __half* qkv;
  int32_t first_token;  // first token of the sequence in the batch
  int32_t num_rows;     // tokens of the sequence * group
  Divisor group;
  int32_t kv_head;
  int32_t head_dim;
  int32_t row_stride;  // elements between rows of qkv

  __device__ __forceinline__ int token(int r) const { return first_token + group.quotient(r); }
  __device__ __forceinline__ int head(int r) const { return kv_head * group.value + group.rest(r); }
  __device__ __forceinline__ const __half* query(int r) const {
    return qkv + static_cast<size_t>(token(r)) * row_stride + head(r) * head_dim;
  }
};

// Stores element d of a query row at the position that keys of the format require.
template <int HD>
__device__ __forceinline__ void put_query(uint8_t* tile, int row, KvFormat format, int d, float v) {
  const int slot = key_slot(format, d);
  *reinterpret_cast<__half*>(tile + tile_offset<HD>(row, slot / 8) + slot % 8 * 2) = __float2half_rn(v);
}

// Stores a query row transformed for quantized keys, by one warp: lane l holds elements 2l and 2l + 1 of each
// 64.
template <int HD>
__device__ __forceinline__ void put_transformed(uint8_t* tile, int row, KvFormat format,
                                                float2 (&pairs)[HD / 64]) {
  const int lane = threadIdx.x & 31;
  hadamard_pairs(pairs, lane);
#pragma unroll
  for (int i = 0; i < HD / 64; ++i) {
    put_query<HD>(tile, row, format, 64 * i + 2 * lane, pairs[i].x * 0.03125f);
    put_query<HD>(tile, row, format, 64 * i + 2 * lane + 1, pairs[i].y * 0.03125f);
  }
}

// Loads queries first_row .. first_row + kRows - 1 as f16 [kRows][HD] into `tile`, in the form that keys of
// that format require. `scratch` holds kRows * HD floats if keys are quantized. Called by the first kThreads
// threads of a block, which synchronize at named barrier 1. kOffset returns the offset of a row's 16-byte
// piece in `tile`.
template <int HD, int kThreads, int kRows, uint32_t (*kOffset)(int, int) = tile_offset<HD>>
__device__ __forceinline__ void load_queries(const QueryRows& q, int first_row, KvFormat keys, uint8_t* tile,
                                             float* scratch) {
  const bool turn = is_quantized(keys);
  if (!turn && q.head_dim % 8 == 0) {
    constexpr int kPieces = HD / 8, kAll = kRows * kPieces;
    constexpr int kAtOnce = kAll / kThreads >= 8 ? 8 : 1;  // loads in flight before the first store
    for (int first = threadIdx.x; first < kAll; first += kAtOnce * kThreads) {
      uint4 v[kAtOnce];
#pragma unroll
      for (int j = 0; j < kAtOnce; ++j) {
        const int i = first + j * kThreads, row = i / kPieces, piece = i % kPieces;
        const bool live = i < kAll && first_row + row < q.num_rows && piece * 8 < q.head_dim;
        v[j] = live ? *reinterpret_cast<const uint4*>(q.query(first_row + row) + piece * 8)
                    : make_uint4(0, 0, 0, 0);
      }
#pragma unroll
      for (int j = 0; j < kAtOnce; ++j) {
        const int i = first + j * kThreads;
        if (i < kAll) *reinterpret_cast<uint4*>(tile + kOffset(i / kPieces, i % kPieces)) = v[j];
      }
    }
    return;
  }
  auto store = [&](int row, int d, float v) {
    *reinterpret_cast<__half*>(tile + kOffset(row, d / 8) + (d % 8) * 2) = __float2half_rn(v);
  };
  // One warp per row, because finding a row takes divisions.
  for (int row = threadIdx.x / 32; row < kRows; row += kThreads / 32) {
    const bool live = first_row + row < q.num_rows;
    const __half* from = live ? q.query(first_row + row) : q.qkv;
#pragma unroll
    for (int i = 0; i < HD / 32; ++i) {
      const int d = (threadIdx.x & 31) + 32 * i;
      const float v = live && d < q.head_dim ? __half2float(from[d]) : 0.0f;
      if (turn) {
        scratch[row * HD + d] = v;
      } else {
        store(row, d, v);
      }
    }
  }
  if (!turn) return;
  named_barrier(1, kThreads);
  constexpr int kWarps = kThreads / 32;
  for (int row = threadIdx.x / 32; row < kRows; row += kWarps)
    hadamard_warp(scratch + row * HD, HD, threadIdx.x & 31);
  named_barrier(1, kThreads);
  for (int i = threadIdx.x; i < kRows * HD; i += kThreads)
    store(i / HD, key_slot(keys, i % HD), scratch[i] * 0.03125f);
}

__device__ __noinline__ inline float capped(float s, float softcap) {
  return __fmul_rn(softcap, tanhf(s / softcap));
}

// Mask of a row, and the conversion of a product to a score in units of log2.
struct ScoreRule {
  float scale;
  float softcap;
  int32_t window;

  __device__ __forceinline__ bool hides(int key, int position) const {
    return key > position || (window > 0 && key <= position - window);
  }
  __device__ __forceinline__ float operator()(float product, int key, int position) const {
    return hides(key, position) ? -INFINITY : score(product);
  }
  __device__ __forceinline__ float score(float product) const {
    if (softcap > 0.0f) {
      cap(product);
    } else {
      take(product);
    }
    return product;
  }
  // Convert a product to a score, without and with softcap.
  __device__ __forceinline__ void take(float& s) const { s = __fmul_rn(s, __fmul_rn(scale, kLog2E)); }
  __device__ __forceinline__ void cap(float& s) const {
    s = __fmul_rn(capped(__fmul_rn(s, scale), softcap), kLog2E);
  }
  // Returns true if a row at `position`, and every later row, attends to all keys of a chunk.
  __device__ __forceinline__ bool shows_all(int chunk, int position) const {
    return window <= 0 && (chunk + 1) * kChunkTokens - 1 <= position;
  }
  // Returns the first key that a row at `position` attends to; first_chunk returns the chunk of that key.
  __device__ __forceinline__ int first_key(int position) const {
    return window > 0 ? max(0, position - window + 1) : 0;
  }
  __device__ __forceinline__ int first_chunk(int position) const {
    return first_key(position) / kChunkTokens;
  }
};

// Computes the factors for merging a chunk (maximum m_c) into the earlier ones (maximum m): one for the old
// sum, one for the new (online softmax).
__device__ __forceinline__ void merge_factors(float& m, float m_c, float& old_factor, float& new_factor) {
  if (m_c == -INFINITY) {
    old_factor = 1.0f;
    new_factor = 0.0f;
    return;
  }
  const float both = fmaxf(m, m_c);
  old_factor = m == -INFINITY ? 0.0f : exp2_fast(m - both);
  new_factor = exp2_fast(m_c - both);
  m = both;
}

__device__ __forceinline__ float merged(float old_value, float old_factor, float new_value,
                                        float new_factor) {
  return __fmaf_rn(new_value, new_factor, __fmul_rn(old_value, old_factor));
}

__device__ __forceinline__ float weight_of(float score, float maximum) {
  return maximum == -INFINITY ? 0.0f : exp2_fast(score - maximum);
}

}  // namespace quire::kernels
