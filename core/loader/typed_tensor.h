// Reads of tensors with checks of rank, shape and type.
#pragma once

#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/loader/weight_reader.h"

namespace quire {

inline void require_rank(const WeightDirectory::Entry& entry, size_t rank) {
  if (entry.tensor->shape.size() == rank) return;
  throw Error(ErrorCode::format, "{}: has the shape {}, but {} dimensions are needed", describe(entry),
              shape_text(entry.tensor->shape), rank);
}

inline void require_type(const WeightDirectory::Entry& entry, DType dtype) {
  if (entry.tensor->type->dtype == dtype) return;
  throw Error(ErrorCode::format, "{}: has the type {}, but {} is needed", describe(entry),
              entry.tensor->type->name, dtype_name(dtype));
}

inline HostTensor read_typed(WeightReader& reader, const std::string& name, const std::vector<int64_t>& shape,
                             DType dtype) {
  require_type(reader.directory().at(name), dtype);
  return reader.read(name, shape);
}

// Reads a tensor; without data if only the layout is read.
inline HostTensor read_typed_values(WeightReader& reader, const std::string& name,
                                    const std::vector<int64_t>& shape, DType dtype,
                                    ReadBy by = ReadBy::host) {
  require_type(reader.directory().at(name), dtype);
  return reader.read_values(name, shape, by);
}

}  // namespace quire
