// GEMM for tiles of 16, 32 and 64 tokens on cards without warpgroup products: mma.sync, cp.async, split-K.
// See GemmShape.
//
// Each warp of a block computes 32 columns for all tokens of the tile: a strip or, if gate and up are paired,
// the same half of a strip of each, so that both factors of a result are in one thread. All warps copy the
// weights of one strip and a share of the activations of a block of 128 rows to a ring slot, several slots
// ahead of the one that they multiply, and meet once per slot.
//
// Per 1,024 weights of 4 bits and 64 tokens: 32 products (mma), 8 loads of activations, 36 instructions to
// decode the weights. Shared memory delivers 4 KB for them, and the products take 128 clocks of a quarter of
// a multiprocessor at their peak rate on compute capability 8.0, 9.0 and 10.0, twice that on 8.6, 8.9
// and 12.0.
//
// Activations lie in a slot as [step][token] rows of 64 bytes. The 16 bytes from 16t on of token g are the
// operands of lane 4g + t for both products of a step, in the order of the weights' pairs (matrix.h). The
// sums have the same bits as those of warpgroup products.
#pragma once

#include <type_traits>

#include "kernels/cuda/gemm/gemm_finish.cuh"

namespace quire::kernels {

// Sums of a warp's two half strips.
template <int kTiles>
using PairSums = HalfSums<kTiles>[2];

template <int kTiles>
__device__ __forceinline__ void fill_pair(PairSums<kTiles>& sums, float value) {
  fill_half<kTiles>(sums[0], value);
  fill_half<kTiles>(sums[1], value);
}

// Largest records of a block of 128 rows in a strip.
constexpr uint32_t kMaxRecordsBytes = 512;

// Copies blocks of 128 rows to the slots of a ring in the order of work. Called by all warps of the block. A
// warp copies the weights of its strip, and every `strips`-th piece of 512 bytes of the activations, one step
// of 8 tokens. A copy is started in parts, between the products of the steps of another block.
template <TileKind kKind, int kTiles, typename Arguments>
class StripRing {
 public:
  __device__ __forceinline__ StripRing(const Arguments& a, const FormTable<kKind>& table, uint32_t base,
                                       int warp, int lane)
      : a_(a),
        walk_(a.matrix, a.shape, tasks_of_block()),
        sources_(a.matrix, a.shape, table, warp),
        slots_(base + a.shape.activations_at),
        weights_at_(kBlockSteps * kStepBytes<kTiles> + warp * a.shape.slot_bytes),
        warp_(warp),
        lane_(lane) {
    // Tokens that do not exist are replaced by the last one, and affect only their own sums.
    const int token = static_cast<int>(blockIdx.x) * (kTiles * 8) + (lane >> 2);
#pragma unroll
    for (int k = 0; k < kRows; ++k)
      rows_[k] =
          min(token + (warp + k * a.shape.strips) % kTiles * 8, a.rows - 1) * a.input_stride + (lane & 3) * 8;
    find_source();
#pragma unroll 1
    for (int i = 1; i < a.shape.pipeline_slots; ++i) copy_block();
  }
  // Waits for the next slot of the order of work and returns its address. Then copy_block, or copy_part for
  // all parts and finish_copy, fills the slot that was returned before, which no warp may read any more.
  __device__ __forceinline__ uint32_t take() {
    wait_for_slot();
    __syncthreads();
    const uint32_t slot = slots_ + reading_ * a_.shape.pipeline_slot_bytes;
    if (++reading_ == a_.shape.pipeline_slots) reading_ = 0;
    return slot;
  }
  template <int kPart>
  __device__ __forceinline__ void copy_part() const {
    const uint32_t slot = slots_ + filling_ * a_.shape.pipeline_slot_bytes;
    const uint32_t weights = slot + weights_at_ + lane_ * 16;
#pragma unroll
    for (uint32_t at = kPart * 512; at < kMaxStripBytes; at += kBlockSteps * 512)
      if (at + lane_ * 16 < source_.bytes) copy_async_16(weights + at, source_.from + at + lane_ * 16);
    copy_activations<kPart>(slot, warp_ + kPart * a_.shape.strips);
  }
  __device__ __forceinline__ void finish_copy() {
    const uint32_t slot = slots_ + filling_ * a_.shape.pipeline_slot_bytes;
    // Pieces that are left if the block has few strips.
#pragma unroll 1
    for (int i = warp_ + kBlockSteps * a_.shape.strips; i < kBlockSteps * kTiles;
         i += kBlockSteps * a_.shape.strips)
      for_constants<kBlockSteps>(
          [&]<int k>(std::integral_constant<int, k>) { copy_activations<k>(slot, i + k * a_.shape.strips); });
    commit_copies();
    if (!walk_.valid()) return;
    if (++filling_ == a_.shape.pipeline_slots) filling_ = 0;
    walk_.next();
    find_source();
  }
  __device__ __forceinline__ void copy_block() {
    for_constants<kBlockSteps>([&]<int i>(std::integral_constant<int, i>) { copy_part<i>(); });
    finish_copy();
  }

 private:
  // Octets of tokens of which a warp copies pieces: with an even number of strips every second at most.
  static constexpr int kRows = kTiles / 2;
  static constexpr uint32_t kMaxStripBytes =
      kKind == TileKind::dense
          ? kBlockRows * kStripColumns * 2
          : kBlockRows * kStripColumns * (kOnlyBits<kKind> == 4 ? 4 : 8) / 8 + kMaxRecordsBytes;

  // Copies piece `i` of the activations, whose row is that of part kPart.
  template <int kPart>
  __device__ __forceinline__ void copy_activations(uint32_t slot, int i) const {
    if (walk_.valid() && i < kBlockSteps * kTiles)
      copy_async_16(slot + i * 512 + lane_ * 16, input_ + rows_[kPart % kRows] + i / kTiles * kStepRows);
  }
  // One group of copies is committed per slot, and all slots but one are ahead of the reader.
  __device__ __forceinline__ void wait_for_slot() const {
    switch (a_.shape.pipeline_slots) {
      case 2:
        return wait_for_copies<0>();
      case 3:
        return wait_for_copies<1>();
      case 4:
        return wait_for_copies<2>();
      case 5:
        return wait_for_copies<3>();
      default:
        return wait_for_copies<kMaxStripSlots - 2>();
    }
  }
  // Looks up where the next block lies, while the products of the current one run.
  __device__ __forceinline__ void find_source() {
    source_ = {nullptr, 0};
    if (!walk_.valid()) return;
    source_ = sources_.at(walk_);
    input_ = a_.input + input_place<kKind>(a_, walk_.group()) + walk_.block() * kBlockRows;
  }

  const Arguments& a_;
  BlockWalk walk_;
  StripSources<kKind> sources_;
  StripSource source_;
  const __half* input_;
  uint32_t slots_;
  uint32_t weights_at_;
  int warp_;
  int lane_;
  int rows_[kRows];
  int reading_ = 0;
  int filling_ = 0;
};

// Half strips of a warp: where their weights lie in a slot, and their forms.
struct HalfPair {
  uint32_t weights_at[2];
  uint32_t forms[2];
  int half[2];
  int lane;
  __device__ __forceinline__ SlotView view(uint32_t slot, int i) const {
    return {slot + weights_at[i], 0, lane, half[i]};
  }
};

// sums += weights of a step of both half strips by the activations of that step at `step`.
template <int kTiles>
__device__ __forceinline__ void multiply_pair_step(PairSums<kTiles>& sums, const __half2 (&w)[2][8],
                                                   uint32_t step, int lane) {
#pragma unroll
  for (int n = 0; n < kTiles; ++n) {
    const uint4 b = load_shared_16(step + n * 512 + lane * 16);
    multiply_half_step(w[0], b, sums[0][n]);
    multiply_half_step(w[1], b, sums[1][n]);
  }
}

// Decodes step `i` of the half strips [kFirst, kEnd) if all have codes of `bits` bits and the scales `group`.
template <TileKind kKind, int kFirst, int kEnd>
__device__ __forceinline__ void decode_pair_step(const HalfPair& of, uint32_t slot, const int (&records)[2],
                                                 int bits, int i, const HalfScales<kKind> (&group)[2],
                                                 __half2 (&w)[2][8]) {
  with_width<kKind>(bits, [&]<int kBits>(std::integral_constant<int, kBits>) {
    HalfTile<kKind, kBits> tile[2];
#pragma unroll
    for (int h = kFirst; h < kEnd; ++h)
      tile[h].fetch(slot + of.weights_at[h] + records[h] * kRecordBytes<kKind>, i, of.lane, of.half[h]);
#pragma unroll
    for (int h = kFirst; h < kEnd; ++h) tile[h].decode(group[h], w[h]);
  });
}

// totals += a block of 128 rows, for exl2 and dense weights.
template <TileKind kKind, int kTiles, typename Ring>
__device__ __forceinline__ void multiply_pair_scaled(const HalfPair& of, uint32_t slot,
                                                     const uint32_t (&form)[2], Ring& ring,
                                                     PairSums<kTiles>& totals) {
  const int bits[2] = {form_bits(form[0]), form_bits(form[1])};
  const int records[2] = {form_records(form[0]), form_records(form[1])};
  HalfScales<kKind> group[2];
  const auto read_scales = [&](int h, int record) {
    if constexpr (kKind != TileKind::dense)
      group[h].read(slot + of.weights_at[h] + record * kRecordBytes<kKind>, of.lane >> 2, of.half[h]);
  };
  read_scales(0, 0);
  read_scales(1, 0);
  if (bits[0] == bits[1] && records[0] <= 1 && records[1] <= 1) {
    with_width<kKind>(bits[0], [&]<int kBits>(std::integral_constant<int, kBits>) {
      __half2 w[2][2][8];
      decode_pair_step<kKind, 0, 2>(of, slot, records, kBits, 0, group, w[0]);
      for_constants<kBlockSteps>([&]<int i>(std::integral_constant<int, i>) {
        // Decodes the next step while the products of this one run.
        if constexpr (i + 1 < kBlockSteps)
          decode_pair_step<kKind, 0, 2>(of, slot, records, kBits, i + 1, group, w[(i + 1) & 1]);
        multiply_pair_step<kTiles>(totals, w[i & 1], slot + i * kStepBytes<kTiles>, of.lane);
        ring.template copy_part<i>();
      });
    });
    ring.finish_copy();
    return;
  }
  ring.copy_block();
#pragma unroll 1
  for (int i = 0; i < kBlockSteps; ++i) {
    __half2 w[2][8];
    if (records[0] > 1) read_scales(0, i);
    if (records[1] > 1) read_scales(1, i);
    decode_pair_step<kKind, 0, 1>(of, slot, records, bits[0], i, group, w);
    decode_pair_step<kKind, 1, 2>(of, slot, records, bits[1], i, group, w);
    multiply_pair_step<kTiles>(totals, w, slot + i * kStepBytes<kTiles>, of.lane);
  }
}

// totals += kSteps steps from `first` on, times the scales of their group, for the half strips [kFirst,
// kEnd).
template <TileKind kKind, int kTiles, int kSteps, int kFirst, int kEnd>
__device__ __forceinline__ void multiply_pair_group(const HalfPair& of, uint32_t slot,
                                                    const int (&records)[2], int first, int record,
                                                    PairSums<kTiles>& totals) {
  HalfScales<kKind> group[2];
  __half2 w[kSteps][2][8];
#pragma unroll
  for (int h = kFirst; h < kEnd; ++h)
    group[h].read(slot + of.weights_at[h] + record * kRecordBytes<kKind>, of.lane >> 2, of.half[h]);
#pragma unroll
  for (int i = 0; i < kSteps; ++i)
    decode_pair_step<kKind, kFirst, kEnd>(of, slot, records, kOnlyBits<kKind>, first + i, group, w[i]);
#pragma unroll
  for (int n = 0; n < kTiles; ++n) {
    float sums[2][4] = {};
#pragma unroll
    for (int i = 0; i < kSteps; ++i) {
      const uint4 b = load_shared_16(slot + (first + i) * kStepBytes<kTiles> + n * 512 + of.lane * 16);
#pragma unroll
      for (int h = kFirst; h < kEnd; ++h) multiply_half_step(w[i][h], b, sums[h]);
    }
#pragma unroll
    for (int h = kFirst; h < kEnd; ++h) {
#pragma unroll
      for (int x = 0; x < 4; ++x)
        totals[h][n][x] = __fmaf_rn(sums[h][x], group[h].scale[x >> 1], totals[h][n][x]);
    }
  }
}

// totals += a block of 128 rows of the half strips [kFirst, kEnd), all with one record of scales or all with
// one per step, for kinds whose sums are scaled.
template <TileKind kKind, int kTiles, int kFirst, int kEnd>
__device__ __forceinline__ void multiply_pair_groups(const HalfPair& of, uint32_t slot,
                                                     const int (&records)[2], PairSums<kTiles>& totals) {
  if (kIsPlain<kKind> || records[kFirst] == 1)
    return multiply_pair_group<kKind, kTiles, kBlockSteps, kFirst, kEnd>(of, slot, records, 0, 0, totals);
  if constexpr (!kIsPlain<kKind>) {
#pragma unroll 1
    for (int i = 0; i < kBlockSteps; ++i)
      multiply_pair_group<kKind, kTiles, 1, kFirst, kEnd>(of, slot, records, i, i, totals);
  }
}

// totals += a block of 128 rows of GGUF's blocks.
template <int kTiles>
__device__ __forceinline__ void multiply_pair_blocks(const HalfPair& of, uint32_t slot,
                                                     const uint32_t (&form)[2], PairSums<kTiles>& totals) {
#pragma unroll 1
  for (int i = 0; i < kBlockSteps; ++i) {
    __half2 w[2][8];
    decode_block_steps<1>(of.view(slot, 0), form_bits(form[0]), i, w[0]);
    decode_block_steps<1>(of.view(slot, 1), form_bits(form[1]), i, w[1]);
    multiply_pair_step<kTiles>(totals, w, slot + i * kStepBytes<kTiles>, of.lane);
  }
}

// totals += a block of 128 rows of a trellis, whose two half strips have one form.
template <int kTiles, typename Ring>
__device__ __forceinline__ void multiply_pair_trellis(const HalfPair& of, uint32_t slot, int form, Ring& ring,
                                                      PairSums<kTiles>& totals) {
  for_constants<kBlockSteps>([&]<int i>(std::integral_constant<int, i>) {
    __half2 w[2][8];
    decode_trellis_steps<1, i>(of.view(slot, 0), form, w[0]);
    decode_trellis_steps<1, i>(of.view(slot, 1), form, w[1]);
    multiply_pair_step<kTiles>(totals, w, slot + i * kStepBytes<kTiles>, of.lane);
    ring.template copy_part<i>();
  });
  ring.finish_copy();
}

// totals += a block of 128 rows.
template <TileKind kKind, int kTiles, typename Ring>
__device__ __forceinline__ void multiply_pair_block(const HalfPair& of, uint32_t slot,
                                                    const uint32_t (&form)[2], Ring& ring,
                                                    PairSums<kTiles>& totals) {
  if constexpr (kKind == TileKind::blocks) {
    ring.copy_block();
    multiply_pair_blocks<kTiles>(of, slot, form, totals);
  } else if constexpr (kKind == TileKind::trellis) {
    multiply_pair_trellis<kTiles>(of, slot, form_bits(form[0]), ring, totals);
  } else if constexpr (!kScalesSums<kKind>) {
    multiply_pair_scaled<kKind, kTiles>(of, slot, form, ring, totals);
  } else {
    ring.copy_block();
    const int records[2] = {form_records(form[0]), form_records(form[1])};
    if ((records[0] == 1) == (records[1] == 1)) {
      multiply_pair_groups<kKind, kTiles, 0, 2>(of, slot, records, totals);
    } else {
      multiply_pair_groups<kKind, kTiles, 0, 1>(of, slot, records, totals);
      multiply_pair_groups<kKind, kTiles, 1, 2>(of, slot, records, totals);
    }
  }
}

// Computes a warp's sums of a task. `parked` is this lane's shared memory for one set of sums. If another
// split computes the preceding part of K, `leave` receives the sums of each eighth of K with its number, and
// they are not added to `sums`.
template <TileKind kKind, int kTiles, typename Ring, typename Leave>
__device__ __forceinline__ void multiply_pair_chains(const HalfPair& of, Ring& ring, const TaskChains& chains,
                                                     uint32_t parked, PairSums<kTiles>& sums, Leave leave) {
  fill_pair<kTiles>(sums, -0.0f);  // adding to -0 changes nothing, not even a sign
#pragma unroll 1
  for (int i = 0; i < chains.count; ++i) {
    PairSums<kTiles> totals;
    fill_pair<kTiles>(totals, 0.0f);
    int block, end;
    chains.find(i, block, end);
    uint32_t form[2] = {form_of_block<kKind>(of.forms[0], chains, block),
                        form_of_block<kKind>(of.forms[1], chains, block)};
#pragma unroll 1
    for (; block < end; ++block) {
      const uint32_t slot = ring.take();
      const uint32_t current[2] = {uniform(form[0]), uniform(form[1])};
      form[0] = form_of_block<kKind>(of.forms[0], chains, block + 1);
      form[1] = form_of_block<kKind>(of.forms[1], chains, block + 1);
      multiply_pair_block<kKind, kTiles>(of, slot, current, ring, totals);
    }
    if (chains.in_pairs() && (i & 1) == 0) {
      park<kTiles>(parked, totals[0]);
      park<kTiles>(parked + kTiles * 512, totals[1]);
      continue;
    }
    if (chains.in_pairs()) {
      add_parked<kTiles>(parked, totals[0]);
      add_parked<kTiles>(parked + kTiles * 512, totals[1]);
    }
    if (chains.first > 0) {
      leave(chains.first + (chains.in_pairs() ? i >> 1 : i), totals);
    } else {
      add_half<kTiles>(totals[0], sums[0]);
      add_half<kTiles>(totals[1], sums[1]);
    }
  }
}

// Runs a thread block.
template <TileKind kKind, int kTiles, typename Arguments>
__device__ __forceinline__ void multiply_strips(const Arguments& a, uint8_t* shared) {
  constexpr bool kMaySplit = std::is_same_v<Arguments, GemmArguments>;  // products of experts are not split
  const Matrix& m = a.matrix;
  const int warp = static_cast<int>(uniform(threadIdx.x >> 5)), lane = lane_index();
  const uint32_t base = uniform(shared_address(shared));
  const FormTable<kKind> table(base + a.shape.table_at, m);
  table.fill(m);
  __syncthreads();
  wait_for_predecessor();
  StripRing<kKind, kTiles, Arguments> ring(a, table, base, warp, lane);
  const uint32_t parked = base + a.shape.sums_at + warp * (2 * kTiles * 512) + lane * 16;
#pragma unroll 1
  for (int number = static_cast<int>(blockIdx.y); number < a.shape.tasks;
       number += static_cast<int>(gridDim.y)) {
    const WideTask task = wide_task(a.shape, number);
    HalfPair pair;
    HalfStrip of[2];
    pair.lane = lane;
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const int slot = m.paired ? (warp & ~1) + h : warp, half = m.paired ? warp & 1 : h;
      of[h] = {place_strip(m, a.shape, task.group, slot), half, lane};
      pair.weights_at[h] = kBlockSteps * kStepBytes<kTiles> + slot * a.shape.slot_bytes;
      pair.forms[h] = table.forms(max(of[h].strip.part, 0));
      pair.half[h] = half;
    }
    // Computed again each time: if it were kept, the loops would have too few registers.
    const auto meeting = [&](const auto& splits, int h) {
      const int slot = static_cast<int>(uniform(warp));
      return sum_exchange<kTiles>(splits, of[h], task, task.group, slot, static_cast<int>(gridDim.y));
    };
    const auto leave = [&](int eighth, const PairSums<kTiles>& left) {
      if (of[0].strip.part < 0) return;
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        if constexpr (kKind == TileKind::trellis) {
          store_rotated_half<kTiles>(a, task.group * a.shape.strips + warp, of[h], eighth, left[h]);
        } else if constexpr (kMaySplit) {
          store_partial_sums<kTiles>(a.shape, meeting(a, h), eighth, left[h]);
        }
      }
    };
    PairSums<kTiles> sums;
    multiply_pair_chains<kKind, kTiles>(pair, ring, TaskChains(a.shape, m, task.split), parked, sums, leave);
    if (of[0].strip.part < 0) continue;
    if constexpr (kKind == TileKind::trellis) {
      if (task.split == 0) leave(a.shape.eighths - 1, sums);
    } else if (m.paired) {
      finish_gate_up<kTiles, kTiles>(a, of[0], 0, sums[0], sums[1]);
    } else if (a.shape.splits == 1) {
      finish_half<kTiles>(a, of[0], sums[0]);
      finish_half<kTiles>(a, of[1], sums[1]);
    } else if constexpr (kMaySplit) {
      if (task.split == 0) leave(a.shape.eighths - 1, sums);
      combine_splits<kTiles>(a, of[0], meeting(a, 0));
      combine_splits<kTiles>(a, of[1], meeting(a, 1));
    }
  }
}

}  // namespace quire::kernels
