// Chooses how to compute a product with an EXL3 matrix. Up to eight rows: one kernel, which also transforms
// the outputs, and the inputs and the norm of a single row. More rows: a kernel transforms the inputs, or
// their norm, for each part, the product's kernel stores the partial sums of all strips, and a third one adds
// and transforms these.
#include "kernels/cuda/gemm/linear_trellis.h"

#include <algorithm>
#include <vector>

#include "kernels/cuda/plan/trellis_tiles.h"
#include "kernels/cuda/pointwise/rotated_rows.h"

namespace quire::kernels {
namespace {

// Returns the matrix as the product's kernel sees it, whose outputs are the sums of all strips.
Matrix unrotated(const Matrix& m) {
  Matrix out = m;
  out.paired = 0;
  out.bias = nullptr;
  return out;
}

Matrix part_of(const Matrix& m, int32_t part) {
  Matrix out = m;
  out.num_parts = 1;
  out.parts[0] = m.parts[part];
  out.num_strips = m.parts[part].num_strips;
  return out;
}

int64_t elements_of_part(const Matrix& m, int32_t rows, bool arranged) {
  const int32_t columns = m.num_blocks * kBlockRows;
  return static_cast<int64_t>(arranged ? arranged_elements(rows, columns)
                                       : static_cast<size_t>(rows) * static_cast<size_t>(columns));
}

// Transforms the inputs for each part into Context::gathered.
Status rotate_inputs(Context& c, const Matrix& m, const TrellisInput& input, int32_t rows, bool arranged) {
  RotatedInputs p;
  p.source = input.rows;
  p.source_stride = input.stride;
  p.rows = rows;
  p.columns = m.num_rows;
  p.num_blocks = m.num_blocks;
  p.num_parts = m.num_parts;
  for (int32_t part = 0; part < m.num_parts; ++part) p.scales[part] = m.parts[part].trellis.input_scales;
  p.target = c.gathered;
  p.part_stride = elements_of_part(m, rows, arranged);
  p.arranged = arranged;
  if (static_cast<size_t>(p.part_stride) * static_cast<size_t>(m.num_parts) > c.gathered_elements)
    return c.device->fail(Status::invalid_argument,
                          "linear: more activations than the limits of the context allow");
  return c.device->check(input.norm != nullptr ? launch_norm_rotated(*input.norm, p, c.launch())
                                               : launch_rotate_inputs(p, c.launch()),
                         "transforming activations");
}

GemmArguments arguments_of(Context& c, const Matrix& m, const GemmShape& shape, int32_t rows) {
  GemmArguments a;
  a.matrix = m;
  a.shape = shape;
  a.rows = rows;
  a.input = c.gathered;
  a.input_stride = m.num_blocks * kBlockRows;
  a.counters = c.counters;
  a.trellis.part_stride = elements_of_part(m, rows, shape.is_broad());
  return a;
}

Status launch(Context& c, const GemmArguments& a) {
  const Launch l = c.launch();
  return c.device->check(launch_gemm_trellis(a, l.stream, l.dependent), "multiplying by weights");
}

size_t sums_of_row(const Matrix& m) {
  return static_cast<size_t>(m.num_strips) * kStripColumns;
}

// How the sums of some rows are computed: by a product of all parts, or by one for each part.
struct SumsPlan {
  int32_t rows = 0;              // 0: there is no shape for them
  std::vector<Matrix> matrices;  // unrotated
  std::vector<GemmShape> shapes;
  std::vector<PartSums> sums;  // of each product, from its first strip on
  size_t floats = 0;           // of all sums
};

// Adds a matrix to the plan. Returns false if there is too little memory for its inputs or sums.
bool add_matrix(const Context& c, const Matrix& m, SumsPlan& plan) {
  const GemmShape s = gemm_shape(*c.device, m, plan.rows);
  if (s.tiles == 1 || s.shared_bytes == 0 || !parts_fit_groups(m, s.is_broad() ? 2 * s.strips : s.strips))
    return false;
  const auto inputs = static_cast<size_t>(elements_of_part(m, plan.rows, s.is_broad()));
  if (inputs * static_cast<size_t>(m.num_parts) > c.gathered_elements) return false;
  const int32_t tokens = s.tiles * 8, tiles = (plan.rows + tokens - 1) / tokens;
  const size_t floats = partial_floats(m, s) * static_cast<size_t>(tiles);
  if (floats > c.partial_floats - plan.floats) return false;
  plan.matrices.push_back(m);
  plan.shapes.push_back(s);
  plan.sums.push_back({c.partials + plan.floats, m.num_strips, 0, s.tiles, s.num_partial_sums});
  plan.floats += floats;
  return true;
}

// Plans one product, or, if groups of strips would have strips of two parts, or if there is too little memory
// for the inputs of all parts, one for each part. If there is too little for both, plans fewer rows.
SumsPlan plan_sums(const Context& c, const Matrix& m, int32_t rows) {
  constexpr int32_t kTile = 64;
  const Matrix whole = unrotated(m);
  const auto most = static_cast<int32_t>(std::min<size_t>(c.partial_floats / sums_of_row(m), INT32_MAX));
  SumsPlan plan;
  plan.rows = std::min(rows, most > kMaxTileTokens ? most / kMaxTileTokens * kMaxTileTokens
                             : most > kTile        ? kTile
                                                   : most);
  for (; plan.rows > 0; plan.rows /= 2) {
    if (add_matrix(c, whole, plan)) return plan;
    bool fits = m.num_parts > 1;
    for (int32_t p = 0; p < m.num_parts && fits; ++p) fits = add_matrix(c, part_of(whole, p), plan);
    if (fits) return plan;
    const int32_t tried = plan.rows;
    plan = {};
    plan.rows = tried;
  }
  return plan;
}

// Computes the sums of all strips for the planned rows.
Status multiply_sums(Context& c, const SumsPlan& plan, const TrellisInput& input) {
  for (size_t i = 0; i < plan.matrices.size(); ++i) {
    const Matrix& m = plan.matrices[i];
    const Status s = rotate_inputs(c, m, input, plan.rows, plan.shapes[i].is_broad());
    if (s != Status::ok) return s;
    GemmArguments a = arguments_of(c, m, plan.shapes[i], plan.rows);
    a.partials = const_cast<float*>(plan.sums[i].sums);
    if (const Status launched = launch(c, a); launched != Status::ok) return launched;
  }
  return Status::ok;
}

// Transforms the sums.
Status rotate_sums(Context& c, const SumsPlan& plan, const Matrix& m, const Epilogue& epilogue) {
  RotatedOutputs p;
  p.matrix = m;
  p.epilogue = epilogue;
  p.rows = plan.rows;
  int32_t first_strip = 0;
  for (size_t part = 0; part < static_cast<size_t>(m.num_parts); ++part) {
    const bool alone = plan.sums.size() > 1;
    p.parts[part] = plan.sums[alone ? part : 0];
    if (!alone) p.parts[part].first_strip = first_strip;
    first_strip += m.parts[part].num_strips;
  }
  return c.device->check(launch_rotate_outputs(p, c.launch()), "transforming products");
}

Epilogue advanced(Epilogue e, int32_t rows) {
  const size_t at = static_cast<size_t>(rows) * static_cast<size_t>(e.stride);
  if (e.output != nullptr) e.output += at;
  if (e.residual != nullptr) e.residual += at;
  if (e.output_f32 != nullptr) e.output_f32 += at;
  return e;
}

// Returns true if the kernel of the product normalises a single row itself. The other kernel of a norm also
// has a row that is left over from several.
bool normalizes_within(const NormParams& norm) {
  return norm.rows == 1;
}

// Returns true if the kernel of the product transforms a single row itself.
bool rotates_within(const Matrix& m, const TrellisInput& input) {
  if (input.norm != nullptr) return normalizes_within(*input.norm);
  return m.num_rows % kBlockRows == 0 && reinterpret_cast<uintptr_t>(input.rows) % 16 == 0;
}

// Returns the input from row `first` on.
TrellisInput advanced(const TrellisInput& input, int32_t first, NormParams& norm) {
  TrellisInput out = input;
  if (input.norm == nullptr) {
    out.rows += static_cast<size_t>(first) * static_cast<size_t>(input.stride);
    return out;
  }
  norm = *input.norm;
  const int32_t stride = norm.input_stride != 0 ? norm.input_stride : norm.columns;
  if (norm.row_index != nullptr) {
    norm.row_index += first;
  } else {
    norm.input += static_cast<size_t>(first) * static_cast<size_t>(stride);
  }
  out.norm = &norm;
  return out;
}

Status multiply_narrow(Context& c, const Matrix& m, const TrellisInput& input, const GemmShape& shape,
                       int32_t rows, const Epilogue& epilogue) {
  const bool within = rows == 1 && rotates_within(m, input);
  if (!within) {
    if (const Status s = rotate_inputs(c, m, input, rows, false); s != Status::ok) return s;
  }
  GemmArguments a = arguments_of(c, m, shape, rows);
  a.trellis.sums = c.partials;
  if (within) {
    a.trellis.part_stride = 0;
    a.input = input.rows;
    if (input.norm != nullptr) a.norm = *input.norm;
  }
  a.epilogue = epilogue;
  return launch(c, a);
}

// Returns the rows of a launch of the narrow kernel.
int32_t most_narrow_rows(const Context& c, const Matrix& m, int32_t rows) {
  const size_t transforms = static_cast<size_t>(m.num_strips / kTransformStrips);
  const auto inputs = static_cast<size_t>(m.num_parts * m.num_blocks * kBlockRows);
  const size_t most = std::min({static_cast<size_t>(c.num_counters) / transforms,
                                c.partial_floats / sums_of_row(m), c.gathered_elements / inputs});
  return static_cast<int32_t>(std::min(most, static_cast<size_t>(rows)));
}

}  // namespace

bool normalizes_rows(const Context& c, const Matrix& m, const NormParams& norm) {
  if (!normalizes_within(norm)) return norm_rotated_fits(m.num_blocks);
  return norm.kind == NormKind::rms && m.num_rows % kBlockRows == 0 &&
         gemm_shape(*c.device, m, 1).tiles == 1 && most_narrow_rows(c, m, 1) == 1;
}

Status multiply_trellis(Context& c, const Matrix& m, const TrellisInput& input, int32_t rows,
                        const Epilogue& epilogue) {
  for (int32_t first = 0, count = 0; first < rows; first += count) {
    NormParams norm;
    const TrellisInput own = advanced(input, first, norm);
    const Epilogue to = advanced(epilogue, first);
    const GemmShape shape = gemm_shape(*c.device, m, rows - first);
    Status status = Status::ok;
    if (shape.tiles == 1 && shape.shared_bytes > 0) {
      count = most_narrow_rows(c, m, rows - first);
      if (count > 0) status = multiply_narrow(c, m, own, gemm_shape(*c.device, m, count), count, to);
    } else {
      const SumsPlan plan = plan_sums(c, m, rows - first);
      count = plan.rows;
      if (count > 0) status = multiply_sums(c, plan, own);
      if (count > 0 && status == Status::ok) status = rotate_sums(c, plan, m, to);
    }
    if (count == 0)
      return c.device->fail(Status::unsupported,
                            "linear: the matrix has too many rows for the shared memory of this card");
    if (status != Status::ok) return status;
  }
  return Status::ok;
}

}  // namespace quire::kernels
