// Table entries for experts (MoE). The host chooses shapes and grids from the numbers of rows only, so that a
// recorded step fits every choice of experts.
#include "kernels/cuda/experts/experts.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "kernels/cuda/collective/communicator.h"
#include "kernels/cuda/experts/choose.h"
#include "kernels/cuda/plan/trellis_tiles.h"
#include "kernels/cuda/step/context.h"
#include "kernels/interface/composite.h"
#include "kernels/interface/expert_activation.h"

namespace quire::kernels {
namespace {

constexpr std::array<TileKind, 8> kKinds = {TileKind::exl2,    TileKind::gptq,  TileKind::gptq8,
                                            TileKind::fp8,     TileKind::mxfp4, TileKind::blocks,
                                            TileKind::trellis, TileKind::dense};

using LaunchExperts = cudaError_t (*)(const ExpertArguments&, int32_t, cudaStream_t, bool);
LaunchExperts launch_of(TileKind kind) {
  switch (kind) {
    case TileKind::gptq:
      return launch_expert_gemm_gptq;
    case TileKind::gptq8:
      return launch_expert_gemm_gptq8;
    case TileKind::fp8:
      return launch_expert_gemm_fp8;
    case TileKind::mxfp4:
      return launch_expert_gemm_mxfp4;
    case TileKind::blocks:
      return launch_expert_gemm_blocks;
    case TileKind::trellis:
      return launch_expert_gemm_trellis;
    case TileKind::dense:
      return launch_expert_gemm_dense;
    default:
      return launch_expert_gemm_exl2;
  }
}

// Returns the stride of the records: those of expert e begin at e * stride. Returns 0 if they are not evenly
// spaced.
int32_t record_stride(const ExpertLinearParams& p) {
  if (p.experts[0]->records == nullptr) return 0;
  if (p.num_experts == 1) return 1;
  const ptrdiff_t stride = p.experts[1]->records - p.experts[0]->records;
  for (int32_t e = 1; e < p.num_experts; ++e)
    if (p.experts[e]->records - p.experts[e - 1]->records != stride) return 0;
  return stride > 0 ? static_cast<int32_t>(stride) : 0;
}

bool is_shaped_as(const Matrix& a, const Matrix& b) {
  bool same = a.num_parts == b.num_parts && a.num_rows == b.num_rows && a.num_strips == b.num_strips &&
              a.paired == b.paired;
  for (int32_t p = 0; same && p < a.num_parts; ++p) same = a.parts[p].num_strips == b.parts[p].num_strips;
  return same;
}

// Finds a matrix that represents group `group` of all experts whose matrix there is of this kind. Returns
// false if their shapes differ.
bool common_matrix(const ExpertLinearParams& p, size_t group, TileKind kind, Matrix& common) {
  common = {};
  for (int32_t e = 0; e < p.num_experts; ++e) {
    const auto& groups = p.experts[e]->groups;
    if (groups.size() <= group || groups[group].matrix.kind != kind) continue;
    const Matrix& m = groups[group].matrix;
    if (common.num_parts == 0) common = m;
    if (!is_shaped_as(m, common)) return false;
    common.max_segment_bytes = std::max(common.max_segment_bytes, m.max_segment_bytes);
  }
  return true;
}

// Returns the number of 8-row tiles that one expert's product handles at a time, from the rows per expert. 0:
// single rows, which reads a matrix once per row.
int32_t tiles_for(int32_t rows, int32_t num_experts) {
  if (rows <= num_experts / 2) return 0;
  if (rows <= 6 * num_experts) return 2;
  return rows <= 32 * num_experts ? 4 : 8;
}

// Returns the same for EXL3 matrices: only the kernel for up to 8 rows also transforms the outputs. Decoding
// the weights takes most of its time, so a tile that has two of the 8 rows is worth it.
int32_t trellis_tiles_for(int32_t rows, int32_t num_experts) {
  return tiles_for(rows, num_experts) == 0 ? 0 : 1;
}

int32_t most_tiles(int32_t rows, int32_t num_experts, int32_t tile_rows) {
  return std::min(rows, num_experts + rows / tile_rows);
}

// Returns the expected number of tiles if experts are chosen at random.
double likely_tiles(int32_t rows, int32_t num_experts, int32_t tile_rows) {
  const double chosen = num_experts * (1.0 - std::pow(1.0 - 1.0 / num_experts, rows));
  return chosen * (1.0 + std::max(0.0, rows / chosen / tile_rows - 0.5));
}

// Returns the largest number of rows, a multiple of those that share an input, whose tiles fit in `slots`.
int32_t rows_at_once(const ExpertLinearParams& p, int32_t tile_rows, int64_t slots) {
  const auto fits = [&](int32_t rows) {
    return int64_t{most_tiles(rows, p.num_experts, tile_rows)} * tile_rows <= slots;
  };
  int32_t rows = p.rows;
  while (rows > 1 && !fits(rows)) rows /= 2;
  rows -= rows % p.rows_per_input;
  return fits(rows) ? rows : 0;
}

// Matrix of one kind and group that represents those of all experts.
struct ExpertMatrix {
  size_t group = 0;
  Matrix matrix;
};

Status collect_matrices(Context& c, const ExpertLinearParams& p, std::vector<ExpertMatrix>& matrices) {
  size_t most_groups = 0;
  for (int32_t e = 0; e < p.num_experts; ++e)
    most_groups = std::max(most_groups, p.experts[e]->groups.size());
  for (size_t group = 0; group < most_groups; ++group) {
    for (const TileKind kind : kKinds) {
      Matrix common;
      if (!common_matrix(p, group, kind, common))
        return c.device->fail(Status::unsupported,
                              "expert_linear: the matrices of the experts have different formats or shapes");
      if (common.num_parts > 0) matrices.push_back({group, common});
    }
  }
  return Status::ok;
}

GemmShape shape_of(const Context& c, const Matrix& matrix, int32_t tiles, int32_t num_tiles,
                   uint32_t staged_bytes = 0) {
  return expert_shape(*c.device, matrix, tiles, num_tiles, kExpertBytes + staged_bytes);
}

// Returns the number of blocks per tile: that of the shape, which assumes the largest possible number of
// tiles, or one block per task if that takes less time with the expected number of tiles. The few blocks that
// fill the card in one round leave multiprocessors idle if there are fewer tiles. Cost: 1 for a block of 128
// rows of a task, 3 for the start of a thread block.
int32_t blocks_of_tile(const Context& c, const GemmShape& shape, const Matrix& matrix, double tiles) {
  const auto cost = [&](int32_t blocks) {
    const int32_t tasks = (shape.tasks + blocks - 1) / blocks;
    return std::max(1.0, tiles * blocks / c.device->num_multiprocessors) * (tasks * matrix.num_blocks + 3);
  };
  return cost(shape.tasks) < cost(shape.blocks) ? shape.tasks : shape.blocks;
}

// A single row is first copied to shared memory unordered if two blocks still fit on a multiprocessor.
void shape_rows(const Context& c, int32_t rows, ExpertArguments& a) {
  const auto row_bytes = static_cast<uint32_t>(a.matrix.num_rows * sizeof(__half));
  if (row_bytes % 16 == 0) {
    a.shape = shape_of(c, a.matrix, 0, rows, row_bytes);
    a.staged_bytes = row_bytes;
    if (a.shape.shared_bytes > 0 &&
        2 * (a.shape.shared_bytes + kExpertBytes + row_bytes + 1024) <= c.device->shared_per_multiprocessor)
      return;
  }
  a.staged_bytes = 0;
  a.shape = shape_of(c, a.matrix, 0, rows);
}

// Returns true if the card can run tiles of that size for all of the matrices.
bool tiles_fit(const Context& c, const std::vector<ExpertMatrix>& matrices, int32_t tiles) {
  return std::all_of(matrices.begin(), matrices.end(),
                     [&](const ExpertMatrix& m) { return shape_of(c, m.matrix, tiles, 1).shared_bytes > 0; });
}

// Returns the number of rows, or of slots of tiles, for which there is memory: those of a trellis need sums
// and counters.
int64_t rows_with_sums(const Context& c, const std::vector<ExpertMatrix>& matrices) {
  int64_t rows = INT32_MAX;
  for (const ExpertMatrix& of_experts : matrices) {
    const Matrix& m = of_experts.matrix;
    if (m.kind != TileKind::trellis) continue;
    const size_t sums = c.partial_floats / (static_cast<size_t>(m.num_strips) * kStripColumns);
    const int32_t counters = c.num_counters / (m.num_strips / kTransformStrips);
    rows = std::min({rows, static_cast<int64_t>(sums), int64_t{counters}});
  }
  return rows;
}

// Returns the largest number of single rows, a multiple of those that share an input, for which there is
// memory.
int32_t single_rows_at_once(const Context& c, const ExpertLinearParams& p,
                            const std::vector<ExpertMatrix>& matrices) {
  const auto rows = static_cast<int32_t>(std::min<int64_t>(p.rows, rows_with_sums(c, matrices)));
  return rows == p.rows ? rows : rows - rows % p.rows_per_input;
}

// Returns the number of slots of tiles for which there is memory.
int64_t slots_at_once(const Context& c, const ExpertLinearParams& p,
                      const std::vector<ExpertMatrix>& matrices) {
  const int64_t stride = (p.experts[0]->num_rows + kBlockRows - 1) / kBlockRows * kBlockRows;
  int64_t parts = 1;  // inputs of a slot
  for (const ExpertMatrix& m : matrices)
    if (m.matrix.kind == TileKind::trellis) parts = std::max<int64_t>(parts, m.matrix.num_parts);
  const auto room = static_cast<int64_t>(c.expert_input_elements) / (stride * parts);
  return std::min({room, int64_t{kMaxExpertSlots}, rows_with_sums(c, matrices)});
}

bool is_trellis(const ExpertMatrix& m) {
  return m.matrix.kind == TileKind::trellis;
}

// Returns the number of 8-row tiles to begin with; 0: single rows.
int32_t first_tiles(const Context& c, const ExpertLinearParams& p,
                    const std::vector<ExpertMatrix>& matrices) {
  if (std::all_of(matrices.begin(), matrices.end(), is_trellis))
    return trellis_tiles_for(p.rows, p.num_experts);
  if (std::any_of(matrices.begin(), matrices.end(), is_trellis)) return 0;
  const int32_t tiles = tiles_for(p.rows, p.num_experts);
  // With 64 KiB of shared memory, single rows of weights of 8 bits do not fit.
  return tiles == 0 && !tiles_fit(c, matrices, 0) ? 2 : tiles;
}

// Destination of the products, and their activation.
struct Target {
  __half* output = nullptr;
  int32_t stride = 0;
  int32_t activation = -1;  // see Epilogue
};

// Returns true if the matrix kernel can apply the activation to gate and up.
bool fuses_mlp(const ExpertLinearParams& p, const std::vector<ExpertMatrix>& matrices) {
  return p.mlp != nullptr && p.mlp->gated && mechanisms_of(*p.mlp) == 0 &&
         std::all_of(matrices.begin(), matrices.end(),
                     [](const ExpertMatrix& m) { return m.group == 0 && m.matrix.paired != 0; });
}

Target target_of(const ExpertLinearParams& p, bool fused) {
  Target target;
  target.output = static_cast<__half*>(p.mlp != nullptr && !fused ? p.products : p.output);
  target.stride = fused ? p.experts[0]->num_columns / 2 : p.experts[0]->num_columns;
  if (fused) target.activation = static_cast<int32_t>(p.mlp->activation);
  return target;
}

// Products of rows [first, first + rows) with their experts.
struct Round {
  int32_t first = 0;
  int32_t rows = 0;
  int32_t tiles = 0;  // tiles of 8 rows, 1 for EXL3 only; 0: single rows
  int32_t record_stride = 0;
  Target target;
};

Status multiply_matrix(Context& c, const ExpertLinearParams& p, const Round& round, const ExpertTiles& tiles,
                       const ExpertMatrix& of_experts) {
  const Matrix& common = of_experts.matrix;
  ExpertArguments a;
  const int32_t num_tiles = round.tiles == 0 ? round.rows : tiles.num_tiles;
  a.matrix = common;
  if (round.tiles == 0) {
    shape_rows(c, num_tiles, a);
  } else {
    const double likely = likely_tiles(round.rows, p.num_experts, tiles.tile_rows);
    const bool narrow = round.tiles == 1;
    a.shape = shape_of(c, common, round.tiles, narrow ? static_cast<int32_t>(likely) : num_tiles);
    if (a.shape.shared_bytes > 0 && !narrow) a.shape.blocks = blocks_of_tile(c, a.shape, common, likely);
  }
  if (a.shape.shared_bytes == 0)
    return c.device->fail(
        Status::unsupported,
        "expert_linear: the matrices of the experts have too many rows for the shared memory of this card");
  a.epilogue.activation = round.target.activation;
  a.epilogue.stride = round.target.stride;
  a.epilogue.output =
      round.target.output + static_cast<size_t>(round.first) * static_cast<size_t>(round.target.stride);
  a.records = p.experts[0]->records + of_experts.group;
  a.record_stride = round.record_stride;
  a.num_experts = p.num_experts;
  a.trellis.sums = c.partials;
  a.counters = c.counters;
  if (round.tiles == 0) {
    a.rows = round.rows;
    a.input = static_cast<const __half*>(p.input) +
              static_cast<size_t>(round.first / p.rows_per_input) * static_cast<size_t>(common.num_rows);
    a.experts = p.expert_of_row + round.first;
    a.rows_per_input = p.rows_per_input;
    if (p.input_scale != nullptr) a.input_scale = p.input_scale + round.first;
  } else {
    const int32_t slots = tiles.num_tiles * tiles.tile_rows;
    a.rows = slots;
    a.input = c.expert_input;
    a.input_stride = common.num_blocks * kBlockRows;
    a.experts = tiles.experts;
    a.rows_of_slots = tiles.rows_of_slots;
    a.trellis.part_stride = int64_t{slots} * a.input_stride;
    ExpertGather gather;
    gather.input = static_cast<const __half*>(p.input) +
                   static_cast<size_t>(round.first / p.rows_per_input) * static_cast<size_t>(common.num_rows);
    if (p.input_scale != nullptr) gather.input_scale = p.input_scale + round.first;
    gather.rows_per_input = p.rows_per_input;
    gather.columns = common.num_rows;
    gather.records = a.records;
    gather.record_stride = a.record_stride;
    gather.target = c.expert_input;
    gather.stride = a.input_stride;
    gather.part_stride = a.trellis.part_stride;
    const auto launch_gather = round.tiles == 1 ? launch_gather_rotated : launch_gather_experts;
    if (const Status s =
            c.device->check(launch_gather(gather, tiles, c.launch()), "gathering rows of experts");
        s != Status::ok)
      return s;
  }
  const Launch l = c.launch();
  return c.device->check(launch_of(common.kind)(a, num_tiles, l.stream, l.dependent),
                         "multiplying by experts");
}

// Sorts the rows, unless they are still sorted from the previous product.
Status sort_rows(Context& c, const ExpertLinearParams& p, const Round& round, const ExpertTiles& tiles) {
  const int32_t* const experts = p.expert_of_row + round.first;
  const SortedRows wanted{experts, round.rows, p.num_experts, tiles.tile_rows};
  if (p.same_rows && c.sorted_rows == wanted) return Status::ok;
  c.sorted_rows = wanted;
  return c.device->check(launch_sort_rows(experts, round.rows, p.num_experts, tiles, c.launch()),
                         "sorting rows of experts");
}

Status multiply_round(Context& c, const ExpertLinearParams& p, const Round& round,
                      const std::vector<ExpertMatrix>& matrices) {
  ExpertTiles tiles;
  if (round.tiles > 0) {
    tiles.tile_rows = round.tiles * 8;
    tiles.num_tiles = most_tiles(round.rows, p.num_experts, tiles.tile_rows);
    tiles.experts = c.expert_slots;
    tiles.rows_of_slots = c.expert_slots + kMaxExpertSlots;
    if (const Status s = sort_rows(c, p, round, tiles); s != Status::ok) return s;
  }
  for (const ExpertMatrix& matrix : matrices)
    if (const Status s = multiply_matrix(c, p, round, tiles, matrix); s != Status::ok) return s;
  return Status::ok;
}

bool is_choice(const RouteParams& p) {
  return p.num_experts > 0 && p.num_experts <= kMaxExperts && p.num_chosen > 0 &&
         p.num_chosen <= p.num_experts && p.num_groups > 0;
}

// Returns the shape of the kernel that multiplies by the router and chooses; shared_bytes is 0 if there is
// none.
GemmShape shape_of_choice(const Context& c, const Weight& router, const RouteParams& choice) {
  if (!c.device->is_hopper || !is_choice(choice) || !supports_row_order(router)) return {};
  const WeightGroup& group = router.groups.front();
  if (!group.row_order.empty() || router.num_columns != choice.num_experts) return {};
  const GemmShape shape = gemm_shape(*c.device, group.matrix, choice.rows);
  return choice_fits(*c.device, group.matrix, shape, choice.rows, choice.num_experts) ? shape : GemmShape{};
}

// `norm` has no input if the rows are not to be normalised.
Status choose_at_once(Context& c, const GemmShape& shape, const LinearParams& product, const NormParams& norm,
                      const RouteParams& choice) {
  const Matrix& m = product.weight->groups.front().matrix;
  ChoiceArguments a;
  a.product.matrix = m;
  a.product.shape = shape;
  a.product.input = static_cast<const __half*>(product.input);
  a.product.input_stride = m.num_rows;
  a.product.rows = product.rows;
  a.product.norm = norm;
  a.product.epilogue.output_f32 = product.output_f32;
  a.product.epilogue.stride = choice.num_experts;
  a.route = choice;
  return c.device->check(launch_choose(a, c.launch()), "choosing experts");
}

}  // namespace

Status route(Context* context, const RouteParams* params) {
  if (params->rows <= 0) return Status::ok;
  if (!is_choice(*params))
    return context->device->fail(Status::invalid_argument, "route: more experts to choose than exist");
  return context->device->check(launch_route(*params, context->launch()), "choosing experts");
}

Status choose_experts(Context* context, const ExpertChoiceParams* params) {
  Context& c = *context;
  const ExpertChoiceParams& p = *params;
  if (p.num_tokens <= 0) return Status::ok;
  NormParams norm = p.norm;
  norm.input = p.workspace.hidden;
  norm.rows = p.num_tokens;
  norm.output = p.workspace.normed;
  LinearParams product;
  product.weight = p.router;
  product.input = p.input != nullptr ? p.input : norm.output;
  product.rows = p.num_tokens;
  product.output_f32 = p.workspace.at(Scratch::router);
  const RouteParams choice = route_params(p);
  const GemmShape shape = shape_of_choice(c, *p.router, choice);
  const bool at_once = shape.shared_bytes > 0;
  const bool norm_within =
      at_once && p.input == nullptr && !gathers_within(c, norm) && fuses_norm(c, *p.router, norm);
  if (p.input == nullptr && !norm_within) {
    QUIRE_RETURN_IF_FAILED(normalize(c, norm, nullptr));
  } else {
    QUIRE_RETURN_IF_FAILED(run_delayed_gather(c));
  }
  if (at_once) return choose_at_once(c, shape, product, norm_within ? norm : NormParams(), choice);
  if (const Status s = multiply(c, product, {}); s != Status::ok) return s;
  return route(context, &choice);
}

Status expert_linear(Context* context, const ExpertLinearParams* params) {
  Context& c = *context;
  const ExpertLinearParams& p = *params;
  if (p.rows <= 0) return Status::ok;
  Round round;
  round.record_stride = record_stride(p);
  if (round.record_stride == 0)
    return c.device->fail(Status::invalid_argument,
                          "expert_linear: the experts were not prepared together and in order");
  std::vector<ExpertMatrix> matrices;
  if (const Status s = collect_matrices(c, p, matrices); s != Status::ok) return s;
  const bool fused = fuses_mlp(p, matrices);
  round.target = target_of(p, fused);
  round.tiles = first_tiles(c, p, matrices);
  const int64_t slots = slots_at_once(c, p, matrices);
  int32_t most = p.rows;
  for (; round.tiles > 0; round.tiles = round.tiles == 2 ? 0 : round.tiles / 2) {
    most = tiles_fit(c, matrices, round.tiles) ? rows_at_once(p, round.tiles * 8, slots) : 0;
    if (most > 0) break;
  }
  if (round.tiles == 0) most = single_rows_at_once(c, p, matrices);
  if (most <= 0)
    return c.device->fail(Status::unsupported,
                          "expert_linear: too many experts of a token for the memory for partial sums");
  for (round.first = 0; round.first < p.rows; round.first += most) {
    round.rows = std::min(most, p.rows - round.first);
    if (const Status s = multiply_round(c, p, round, matrices); s != Status::ok) return s;
  }
  if (p.mlp == nullptr || fused) return Status::ok;
  const ActivationParams of_products = activation_of(p);
  return activation(context, &of_products);
}

Status combine(Context* context, const CombineParams* params) {
  if (params->tokens <= 0) return Status::ok;
  return context->device->check(launch_combine(*params, context->launch()), "adding up experts");
}

}  // namespace quire::kernels
