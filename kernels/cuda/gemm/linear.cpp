// Chooses the kernel of a product: the streaming kernel for tiles of up to 64 tokens, the E4M3 kernel for
// matrices of that kind, or, for many tokens, slabs of expanded weights and cuBLASLt, with which results may
// depend on the number of tokens.
#include <algorithm>

#include "kernels/cuda/gemm/gemm_float8.h"
#include "kernels/cuda/gemm/linear_trellis.h"
#include "kernels/cuda/gemm/matrix_library.h"
#include "kernels/cuda/pointwise/float8_rows.h"
#include "kernels/cuda/step/context.h"
#include "kernels/cuda/weights/weight_repack.h"

namespace quire::kernels {
namespace {

constexpr int32_t kLibraryRows = 96;  // smallest number of rows for which expanding the weights once is
                                      // faster than streaming them per 64 tokens

// Rows of f16, or the norm of one row of f32.
struct StreamedInput {
  const __half* rows = nullptr;
  int32_t stride = 0;
  // Set if the columns are not in the stored row order of the matrix, padded to whole blocks of rows.
  const WeightGroup* gathered_for = nullptr;
  bool arranged = false;
  const NormParams* norm = nullptr;
  const int32_t* norm_place = nullptr;
};

Epilogue epilogue_of(const LinearParams& p, const ProductForm& form) {
  const int32_t columns = p.weight->num_columns;
  Epilogue e;
  e.output = static_cast<__half*>(p.output);
  e.residual = p.residual;
  e.output_f32 = p.output_f32;
  e.activation = form.activation;
  e.stride = p.output_stride != 0 ? p.output_stride : form.activation >= 0 ? columns / 2 : columns;
  if (form.arranges) e.arranged_blocks = e.stride / kBlockRows;
  return e;
}

Epilogue advanced(Epilogue e, int32_t rows) {
  const size_t at = static_cast<size_t>(rows) * static_cast<size_t>(e.stride);
  if (e.output != nullptr) e.output += at;
  if (e.residual != nullptr) e.residual += at;
  if (e.output_f32 != nullptr) e.output_f32 += at;
  return e;
}

cudaError_t launch_streaming(const GemmArguments& arguments, Launch l) {
  switch (arguments.matrix.kind) {
    case TileKind::gptq:
      return launch_gemm_gptq(arguments, l.stream, l.dependent);
    case TileKind::gptq8:
      return launch_gemm_gptq8(arguments, l.stream, l.dependent);
    case TileKind::fp8:
      return launch_gemm_fp8(arguments, l.stream, l.dependent);
    case TileKind::mxfp4:
      return launch_gemm_mxfp4(arguments, l.stream, l.dependent);
    case TileKind::blocks:
      return launch_gemm_blocks(arguments, l.stream, l.dependent);
    case TileKind::dense:
      return launch_gemm_dense(arguments, l.stream, l.dependent);
    default:
      return launch_gemm_exl2(arguments, l.stream, l.dependent);
  }
}

// Returns how many tokens one launch may have: with split-K, as many as there is memory for partial sums.
int32_t most_rows(const Context& c, const Matrix& m, const GemmShape& s, int32_t rows) {
  if (s.splits == 1) return rows;
  const auto tokens = static_cast<size_t>(s.tiles) * 8;
  const size_t tiles = std::min(c.partial_floats / partial_floats(m, s),
                                static_cast<size_t>(c.num_counters / (2 * m.num_strips)));
  return static_cast<int32_t>(std::min(tiles * tokens, static_cast<size_t>(rows)));
}

// Shape of a product, and the number of rows of one launch.
struct LaunchPlan {
  GemmShape shape;
  int32_t most = 0;
};

LaunchPlan plan_product(const Context& c, const Matrix& m, int32_t rows) {
  LaunchPlan partition;
  partition.shape = gemm_shape(*c.device, m, rows);
  partition.most = most_rows(c, m, partition.shape, rows);
  if (partition.most == rows) return partition;
  partition.shape = gemm_shape(*c.device, m, partition.most);  // the shape for the rows of one launch
  partition.most = most_rows(c, m, partition.shape, partition.most);
  if (partition.shape.is_broad()) partition.most -= partition.most % (partition.shape.tiles * 8);
  return partition;
}

// Brings activations into the form that a kernel reads: gathered into the stored row order, arranged or in
// rows. Does nothing if they have that form already.
Status place_input(Context& c, const Matrix& m, int32_t rows, bool arranged, StreamedInput& input) {
  if (input.gathered_for == nullptr && arranged == input.arranged) return Status::ok;
  const int32_t stride = m.num_blocks * kBlockRows;
  const size_t placed =
      arranged ? arranged_elements(rows, stride) : static_cast<size_t>(rows) * static_cast<size_t>(stride);
  if (placed > c.gathered_elements)
    return c.device->fail(Status::invalid_argument,
                          "linear: more activations than the limits of the context allow");
  PlacedRows placed_rows;
  placed_rows.source = input.rows;
  placed_rows.source_stride = input.stride;
  placed_rows.rows = rows;
  placed_rows.columns = m.num_rows;
  placed_rows.target = c.gathered;
  placed_rows.target_stride = stride;
  placed_rows.arranged = arranged;
  if (input.gathered_for != nullptr) placed_rows.order = input.gathered_for->device_row_order;
  const cudaError_t error = input.gathered_for != nullptr
                                ? launch_gather(placed_rows, c.device->shared_per_block, c.launch())
                                : launch_arrange(placed_rows, c.launch());
  input.rows = c.gathered;
  input.stride = stride;
  input.gathered_for = nullptr;
  return c.device->check(error, "gathering activations");
}

Status stream_weights(Context& c, const Matrix& m, StreamedInput input, int32_t rows,
                      const Epilogue& epilogue) {
  const LaunchPlan partition = plan_product(c, m, rows);
  if (partition.shape.shared_bytes == 0)
    return c.device->fail(Status::unsupported,
                          "linear: the matrix has too many rows for the shared memory of this card");
  if (const Status s = place_input(c, m, rows, partition.shape.is_broad(), input); s != Status::ok) return s;
  for (int32_t first = 0; first < rows; first += partition.most) {
    GemmArguments a;
    a.matrix = m;
    a.shape = partition.shape;
    a.input = input.rows + static_cast<size_t>(first) * static_cast<size_t>(input.stride);
    a.input_stride = input.stride;
    a.rows = std::min(partition.most, rows - first);
    if (input.norm != nullptr) {
      a.norm = *input.norm;
      a.norm_place = input.norm_place;
    }
    a.epilogue = advanced(epilogue, first);
    a.partials = c.partials;
    a.counters = c.counters;
    if (const Status s = c.device->check(launch_streaming(a, c.launch()), "multiplying by weights");
        s != Status::ok)
      return s;
  }
  return Status::ok;
}

// Arguments of an E4M3 product, and memory for its rows, which must be written first.
struct Float8Product {
  Float8Arguments arguments;
  Float8Rows rows;
};

Status plan_float8(Context& c, const Matrix& m, int32_t rows, const Epilogue& e, Float8Product& product) {
  Float8Arguments& a = product.arguments;
  a.tiles = m.parts[0].strips;
  a.column_tiles = m.parts[0].num_strips;
  a.num_blocks = m.num_blocks;
  a.num_columns = m.num_columns;
  a.paired = m.paired;
  a.bias = m.bias;
  a.rows = rows;
  a.epilogue = e;
  a.shape = float8_shape(*c.device, a.column_tiles, a.num_blocks, rows);
  const size_t bytes = static_cast<size_t>(m.num_blocks) * static_cast<size_t>(a.shape.token_tiles) *
                       float8_token_bytes(a.shape.octets);
  if (bytes > c.gathered_elements * sizeof(__half))
    return c.device->fail(Status::invalid_argument,
                          "linear: more activations than the limits of the context allow");
  Float8Rows& to = product.rows;
  to.rows = rows;
  to.columns = m.num_rows;
  to.octets = a.shape.octets;
  to.token_tiles = a.shape.token_tiles;
  to.tiles = reinterpret_cast<uint8_t*>(c.gathered);
  a.tokens = to.tiles;
  return Status::ok;
}

Status run_float8(Context& c, const Float8Product& product) {
  const Launch l = c.launch();
  const auto launch = c.device->warpgroup_products ? launch_gemm_float8 : launch_gemm_float8_strips;
  return c.device->check(launch(product.arguments, l.stream, l.dependent), "multiplying by weights");
}

Status multiply_float8(Context& c, const Matrix& m, const StreamedInput& input, int32_t rows,
                       const Epilogue& e) {
  Float8Product product;
  if (const Status s = plan_float8(c, m, rows, e, product); s != Status::ok) return s;
  const Status s = c.device->check(launch_round_float8(input.rows, input.stride, product.rows, c.launch()),
                                   "rounding activations");
  return s == Status::ok ? run_float8(c, product) : s;
}

// Expands one slab of a part and multiplies it. Returns unsupported if the library refuses.
Status multiply_slab(Context& c, const Matrix& m, const Slab& slab, const StreamedInput& input, int32_t rows,
                     const Epilogue& e) {
  const Part& part = m.parts[slab.part];
  const int32_t depth = (m.num_rows + 7) / 8 * 8;
  Device& device = *c.device;
  if (const Status s = device.check(expand_columns(m, slab, c.slab, depth, c.stream), "expanding weights");
      s != Status::ok)
    return s;
  const int32_t first = slab.first_strip * kStripColumns;
  const int32_t column = part.first_column + first;
  Product product;
  product.weights = c.slab;
  product.weight_stride = depth;
  product.input = input.rows;
  product.input_stride = input.stride;
  product.rows = rows;
  product.columns = std::min(slab.num_strips * kStripColumns, part.num_columns - first);
  product.depth = m.num_rows;
  const bool direct = m.bias == nullptr;
  product.output_stride = direct ? e.stride : product.columns;
  product.output_f32 = !direct || e.output == nullptr;
  product.accumulate = direct && e.residual != nullptr;
  if (!direct) {
    product.output = c.product;
  } else if (e.output != nullptr) {
    product.output = e.output + column;
  } else {
    product.output = (e.residual != nullptr ? e.residual : e.output_f32) + column;
  }
  if (!device.library->multiply(product, c.library_workspace, c.stream))
    return device.fail(Status::unsupported, "cuBLASLt refuses a product of " + std::to_string(rows) +
                                                " tokens; deterministic mode does not need it");
  if (direct) return Status::ok;
  FinishedRows finished;
  finished.source = c.product;
  finished.bias = m.bias + column;
  finished.rows = rows;
  finished.columns = product.columns;
  if (e.output != nullptr) finished.output = e.output + column;
  if (e.residual != nullptr) finished.residual = e.residual + column;
  if (e.output_f32 != nullptr) finished.output_f32 = e.output_f32 + column;
  finished.stride = e.stride;
  return device.check(launch_finish_rows(finished, c.launch()), "adding a bias");
}

Status expand_and_multiply(Context& c, const Matrix& m, StreamedInput input, int32_t rows,
                           const Epilogue& e) {
  const size_t depth = static_cast<size_t>((m.num_rows + 7) / 8) * 8;
  int32_t most = static_cast<int32_t>(kSlabBytes / (depth * 2 * kStripColumns));
  if (m.bias != nullptr)
    most =
        std::min(most, static_cast<int32_t>(kProductBytes / (static_cast<size_t>(rows) * 4 * kStripColumns)));
  most = most >= 4 ? most / 4 * 4 : most;
  if (most == 0) return stream_weights(c, m, input, rows, e);
  StreamedInput placed = input;
  if (const Status s = place_input(c, m, rows, false, placed); s != Status::ok) return s;
  for (int32_t p = 0; p < m.num_parts; ++p) {
    // Slabs of equal size.
    const int32_t slabs = (m.parts[p].num_strips + most - 1) / most;
    const int32_t size = std::min(most, ((m.parts[p].num_strips + slabs - 1) / slabs + 3) / 4 * 4);
    for (int32_t strip = 0; strip < m.parts[p].num_strips; strip += size) {
      const int32_t strips = std::min(size, m.parts[p].num_strips - strip);
      const Status s = multiply_slab(c, m, {p, strip, strips}, placed, rows, e);
      // For example, the card has no memory for the library's kernels.
      if (s == Status::unsupported && p == 0 && strip == 0) return stream_weights(c, m, input, rows, e);
      if (s != Status::ok) return s;
    }
  }
  return Status::ok;
}

bool is_trellis(const Weight& weight) {
  return weight.groups.front().matrix.kind == TileKind::trellis;
}

}  // namespace

bool supports_row_order(const Weight& weight) {
  return weight.groups.size() == 1 && weight.num_rows % kBlockRows == 0 && !is_trellis(weight);
}

const int32_t* row_place(const Weight& weight) {
  return weight.groups.front().device_row_place;
}

bool uses_library(const Context& c, int32_t rows) {
  return !c.device->deterministic && c.device->library != nullptr && rows >= kLibraryRows;
}

size_t arranged_elements(int32_t rows, int32_t columns) {
  const int32_t placed = (rows + kMaxTileTokens - 1) / kMaxTileTokens * kMaxTileTokens;
  return static_cast<size_t>(placed) * static_cast<size_t>(columns);
}

bool reads_arranged(const Context& c, const Weight& weight, int32_t rows) {
  if (!supports_row_order(weight) || uses_library(c, rows)) return false;
  const Matrix& m = weight.groups.front().matrix;
  return m.kind != TileKind::float8 && plan_product(c, m, rows).shape.is_broad();
}

Status multiply(Context& c, const LinearParams& p, const ProductForm& form) {
  const Weight& weight = *p.weight;
  if (weight.table != nullptr || weight.groups.empty())
    return c.device->fail(Status::invalid_argument, "linear: the weight is not a matrix");
  const Epilogue epilogue = epilogue_of(p, form);
  for (const WeightGroup& group : weight.groups) {
    const Matrix& m = group.matrix;
    StreamedInput input{static_cast<const __half*>(p.input), m.num_rows};
    if (m.kind == TileKind::float8) {
      if (const Status s = multiply_float8(c, m, input, p.rows, epilogue); s != Status::ok) return s;
      continue;
    }
    if (m.kind == TileKind::trellis) {
      const Status s = multiply_trellis(c, m, {input.rows, input.stride}, p.rows, epilogue);
      if (s != Status::ok) return s;
      continue;
    }
    input.arranged = form.arranged;
    if (!form.in_row_order && (!group.row_order.empty() || m.num_rows % kBlockRows != 0))
      input.gathered_for = &group;
    const bool library = uses_library(c, p.rows) && form.activation < 0;
    const Status s = library ? expand_and_multiply(c, m, input, p.rows, epilogue)
                             : stream_weights(c, m, input, p.rows, epilogue);
    if (s != Status::ok) return s;
  }
  return Status::ok;
}

bool rounds_norm(const Weight& weight) {
  return !weight.groups.empty() && weight.groups.front().matrix.kind == TileKind::float8;
}

bool fuses_norm(const Context& c, const Weight& weight, const NormParams& norm) {
  if (rounds_norm(weight)) return norm_float8_fits(norm);
  if (weight.groups.size() == 1 && is_trellis(weight))
    return normalizes_rows(c, weight.groups.front().matrix, norm);
  return norm.rows == 1 && norm.kind == NormKind::rms && supports_row_order(weight) && !uses_library(c, 1) &&
         gemm_shape(*c.device, weight.groups.front().matrix, 1).tiles == 1;
}

Status multiply_normed(Context& c, const NormParams& norm, const LinearParams& p, const ProductForm& form) {
  const Matrix& m = p.weight->groups.front().matrix;
  const Epilogue epilogue = epilogue_of(p, form);
  if (rounds_norm(*p.weight)) {
    Float8Product product;
    if (const Status s = plan_float8(c, m, p.rows, epilogue, product); s != Status::ok) return s;
    const Status s = c.device->check(launch_norm_float8(norm, product.rows, c.launch()), "normalising");
    return s == Status::ok ? run_float8(c, product) : s;
  }
  if (is_trellis(*p.weight)) return multiply_trellis(c, m, {nullptr, 0, &norm}, p.rows, epilogue);
  StreamedInput input;
  input.norm = &norm;
  input.norm_place = row_place(*p.weight);
  return stream_weights(c, m, input, p.rows, epilogue);
}

}  // namespace quire::kernels
