// Product of a single row with an EXL3 matrix, including the transforms of its inputs and outputs.
//
// It is bound by the instructions that decode weights, so multiprocessors must have equal work: a group is
// one strip, not two as for other formats with 8 chains. Each of a block's 16 warps computes one chain: with
// 16 chains of the whole strip, with 8 of half of it. (Halves of strips with 16 chains keep two blocks on
// each multiprocessor, so that the next kernel cannot start beside this one: 89 instead of 87 us for a
// layer.)
#pragma once

#include "kernels/cuda/gemm/row_activations.cuh"
#include "kernels/cuda/gemm/trellis_narrow.cuh"

namespace quire::kernels {

constexpr int kHalfColumns = kStripColumns / 2;

// Strip of a group.
__device__ __forceinline__ StripPlace strip_of_group(const Matrix& m, int group) {
  int strip = group, p = 0;
#pragma unroll 1
  for (; strip >= m.parts[p].num_strips; ++p) strip -= m.parts[p].num_strips;
  return {p, strip};
}

// Starts the copies of a warp's segments, or halves of segments, in the order of use.
class RowRequests {
 public:
  // `half` is that of the warp; negative: the whole strip.
  __device__ __forceinline__ RowRequests(const Matrix& matrix, const GemmShape& shape, int half, int first,
                                         int end)
      : matrix_(matrix),
        shape_(shape),
        group_(first < end ? blockIdx.y : shape.groups),
        half_(half),
        first_(first),
        end_(end) {
    open();
  }
  __device__ __forceinline__ void next(WarpRing& ring, int lane) {
    if (group_ >= shape_.groups) return ring.request_nothing();
    ring.request(next_, half_ < 0 ? bytes_ : bytes_ / 2, lane);
    next_ += bytes_;
    if (++segment_ < end_) return;
    group_ += shape_.blocks;
    open();
  }

 private:
  __device__ __forceinline__ void open() {
    if (group_ >= shape_.groups) return;
    const StripPlace place = strip_of_group(matrix_, group_);
    const Part& part = matrix_.parts[place.part];
    segment_ = first_;
    bytes_ = part.runs[0].segment_bytes;
    next_ = part.strips + static_cast<size_t>(place.strip) * part.strip_bytes + first_ * bytes_ +
            (half_ > 0 ? bytes_ / 2 : 0);
  }

  const Matrix& matrix_;
  const GemmShape& shape_;
  int group_;
  int half_;
  int first_;
  int end_;
  int segment_ = 0;
  uint32_t bytes_ = 0;  // of a segment
  const uint8_t* next_ = nullptr;
};

// Transforms a chain's part of a row in shared memory, by its warps: from the inputs, trellis_row_at, to a
// row for each part. Scales are loaded ahead, the first before the row is complete.
class ChainTransform {
 public:
  __device__ __forceinline__ ChainTransform(const Matrix& m, const GemmShape& shape, const ChainShare& share,
                                            int lane)
      : m_(m), share_(share), lane_(lane), parts_(parts_of_block(m, shape)) {
    fetch(__ffs(static_cast<int>(parts_)) - 1, share.first + share.slot);
  }
  __device__ __forceinline__ void run(uint8_t* activations) {
    const int row_bytes = m_.num_blocks * kBlockRows * 2;
    const uint8_t* row = activations + trellis_row_at(m_);
#pragma unroll 1
    for (uint32_t left = parts_; left != 0; left &= left - 1) {
      const int part = __ffs(static_cast<int>(left)) - 1,
                after = __ffs(static_cast<int>(left & (left - 1))) - 1;
#pragma unroll 1
      for (int block = share_.first + share_.slot; block < share_.end;) {
        float4 scales[kAtOnce];
        uint2 inputs[kAtOnce];
#pragma unroll
        for (int i = 0; i < kAtOnce; ++i) {
          scales[i] = ahead_[i];
          inputs[i] = reinterpret_cast<const uint2*>(row + block_at(block, i) * kBlockRows * 2)[lane_];
        }
        const int next = block + kAtOnce * share_.warps;
        if (next < share_.end) {
          fetch(part, next);
        } else if (after >= 0) {
          fetch(after, share_.first + share_.slot);
        }
        uint8_t* target = activations + part * row_bytes;
        __syncwarp();  // a single part is transformed in place
#pragma unroll
        for (int i = 0; i < kAtOnce; ++i) {
          if (block + i * share_.warps >= share_.end) break;
          auto* to = reinterpret_cast<__half2*>(target + block_at(block, i) * kBlockRows * 2);
          transform_inputs(inputs[i], scales[i], lane_, [&](int at, __half2 pair) { to[at / 2] = pair; });
        }
        block = next;
      }
    }
    share_.meet();
  }

 private:
  static constexpr int kAtOnce = 4;  // blocks of 128 inputs

  // Returns a bit for each part of which a thread block computes strips.
  __device__ __forceinline__ static uint32_t parts_of_block(const Matrix& m, const GemmShape& shape) {
    if (m.num_parts == 1) return 1;
    uint32_t parts = 0;
#pragma unroll 1
    for (int group = blockIdx.y; group < shape.groups; group += shape.blocks)
      parts |= 1U << strip_of_group(m, group).part;
    return parts;
  }
  // Returns block i of those of this warp from `block` on, or `block` if the chain ends before.
  __device__ __forceinline__ int block_at(int block, int i) const {
    const int at = block + i * share_.warps;
    return at < share_.end ? at : block;
  }
  __device__ __forceinline__ void fetch(int part, int block) {
    if (block >= share_.end) return;
    const auto* scales = reinterpret_cast<const float4*>(m_.parts[part].trellis.input_scales) + lane_;
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) ahead_[i] = __ldg(scales + block_at(block, i) * (kBlockRows / 4));
  }

  const Matrix& m_;
  const ChainShare& share_;
  int lane_;
  uint32_t parts_;
  float4 ahead_[kAtOnce] = {};
};

// Loads the inputs of a trellis that are transformed already: a chain's part of the row of each part.
__device__ __forceinline__ void load_transformed_row(const GemmArguments& a, uint8_t* activations,
                                                     const ChainShare& share, int lane) {
  const int row_bytes = a.matrix.num_blocks * kBlockRows * 2;
  wait_for_predecessor();
#pragma unroll 1
  for (int p = 0; p < a.matrix.num_parts; ++p)
    copy_row(a.input + p * a.trellis.part_stride, activations + p * row_bytes,
             share.first * kRowSegmentBytes<TileKind::trellis>,
             share.end * kRowSegmentBytes<TileKind::trellis>, share, lane);
  commit_copies();
  wait_for_copies<0>();
  share.meet();
}

// Stores a warp's sums of its chain, of two half strips or of one.
__device__ __forceinline__ void put_chain(float* place, const Sums& totals, bool whole, int lane) {
  if ((lane & 3) != 0) return;
  const int g = lane >> 2;
  place[g] = totals[0][0];
  place[8 + g] = totals[0][2];
  if (!whole) return;
  place[16 + g] = totals[1][0];
  place[24 + g] = totals[1][2];
}

// Adds the sums of all chains for a column of each lane, and stores them.
template <typename Arguments>
__device__ __forceinline__ void store_group(const Arguments& a, const float* sums, int group, int token,
                                            int lane) {
  const float sum =
      a.matrix.chain_bits == kMaxChainBits
          ? add_16_chains(sums + lane, kStripColumns)
          : add_8_chains(sums + lane / kHalfColumns * kFewChains * kHalfColumns + lane % kHalfColumns,
                         kHalfColumns);
  store_rotated(a, strip_of_group(a.matrix, group), token, lane, sum);
}

// Arrives with the sums of all groups of a thread block, each by one of its warps. At the end, because a warp
// that meets the others between two groups would keep its block waiting.
template <typename Arguments>
__device__ __forceinline__ void finish_groups(const Arguments& a, int token, int warp, int lane) {
  __syncthreads();
#pragma unroll 1
  for (int group = blockIdx.y + warp * a.shape.blocks; group < a.shape.groups;
       group += kNarrowWarps * a.shape.blocks)
    finish_rotated(a, strip_of_group(a.matrix, group), token, lane);
}

// Runs a thread block: bring(share, lane) loads the transformed activations into shared memory, at least
// those of the warp's chain.
template <typename Arguments, typename Bring>
__device__ __forceinline__ void multiply_trellis_row(const Arguments& a, uint8_t* shared, int token,
                                                     Bring bring) {
  const Matrix& m = a.matrix;
  const GemmShape& shape = a.shape;
  const int warp = __shfl_sync(0xffffffffU, threadIdx.x >> 5, 0), lane = threadIdx.x & 31;
  const uint32_t base = shared_address(shared);
  const int chains = 1 << m.chain_bits, slot = warp >> m.chain_bits, chain = warp & (chains - 1);
  const bool whole = m.chain_bits == kMaxChainBits;
  const int first = chain_begin<TileKind::trellis>(m, chain),
            end = chain_begin<TileKind::trellis>(m, chain + 1);
  constexpr int kSegmentBytes = kRowSegmentBytes<TileKind::trellis>;

  WarpRing ring(base + shape.rings_at + warp * shape.ring_slots * shape.slot_bytes,
                base + warp * kBarrierBytes, shape.ring_slots, shape.slot_bytes, lane);
  RowRequests requests(m, shape, whole ? -1 : slot, first, end);
#pragma unroll 1
  for (int i = 0; i < ring.size(); ++i) requests.next(ring, lane);
  bring(ChainShare{chain, first, end, slot, kNarrowWarps >> m.chain_bits}, lane);

  const uint32_t row = base + shape.activations_at + first * kSegmentBytes + (lane & 3) * 16;
  const uint32_t last_step = row + (end - first) * kSegmentBytes - kStepRows * 2;
  auto* sums = reinterpret_cast<float*>(shared + shape.sums_at);
  int turn = 0;  // sums of halves have two places, so that a group waits only once
#pragma unroll 1
  for (int group = blockIdx.y; group < shape.groups; group += shape.blocks, turn ^= 1) {
    Sums totals;
    clear(totals);
    if (first < end) {
      const int part = strip_of_group(m, group).part;
      const uint32_t of_part = part * (m.num_blocks * kBlockRows * 2);
      const int form = m.parts[part].runs[0].bits;
      RowActivations<true, 1> take(nullptr, row + of_part, last_step + of_part);
#pragma unroll 1
      for (int segment = first; segment < end; ++segment) {
        const uint32_t address = ring.wait();
        if (whole) {
          multiply_trellis(address, form, lane, take, totals);
        } else {
          multiply_half_trellis(address, form, lane, take, totals[0]);
        }
        __syncwarp();
        requests.next(ring, lane);
      }
    }
    float* const of_group = sums + (whole ? 0 : turn * (kNarrowWarps * kHalfColumns));
    if (whole) __syncthreads();  // the sums of the previous group have been added
    put_chain(of_group + warp * (whole ? kStripColumns : kHalfColumns), totals, whole, lane);
    __syncthreads();
    if (warp == 0) store_group(a, of_group, group, token, lane);
  }
  finish_groups(a, token, warp, lane);
}

}  // namespace quire::kernels
