#include "core/models/gguf_model.h"

#include <algorithm>

#include "core/base/error.h"

namespace quire {
namespace {

constexpr int64_t kMaxLayers = 1024;
constexpr uint64_t kMaxVectorElements = uint64_t{1} << 16;

}  // namespace

std::string_view GgufModel::architecture() const {
  const std::string_view type = metadata().text("general.type").value_or("model");
  const std::string_view name = metadata().require_text("general.architecture");
  if (name == "clip" || type == "mmproj") {
    throw Error(
        ErrorCode::unsupported,
        "{}: a projector of images or sound, which this build does not read; name the file of the text model",
        path());
  }
  if (type == "adapter")
    throw Error(ErrorCode::unsupported, "{}: an adapter, not a model; name the file of the model", path());
  if (type == "imatrix")
    throw Error(ErrorCode::unsupported, "{}: statistics for quantization, not a model", path());
  return name;
}

std::optional<int64_t> GgufModel::same_in_layers(std::string_view field, Zeros zeros) const {
  const GgufValue* value = metadata().find(key(field));
  if (value == nullptr || !value->is_array()) return integer(field);
  std::optional<int64_t> same;
  for (uint64_t i = 0; i < std::max<uint64_t>(value->size(), 1); ++i) {
    const auto entry = value->integer(i);
    if (!entry)
      throw Error(ErrorCode::format, "{}: \"{}\" is not a list of whole numbers", path(), key(field));
    if (*entry == 0 && zeros == Zeros::are_absent) continue;
    if (same && same != entry)
      throw Error(ErrorCode::unsupported, "{}: \"{}\" differs between layers, which is not supported", path(),
                  key(field));
    same = entry;
  }
  return same;
}

std::optional<bool> GgufModel::is_positive(std::string_view field, int32_t layer) const {
  const GgufValue* value = metadata().find(key(field));
  if (value == nullptr || !value->is_array()) return std::nullopt;
  const auto index = static_cast<uint64_t>(layer);
  if (const auto flag = value->flag(index)) return flag;
  const auto entry = value->integer(index);
  return entry ? std::optional(*entry > 0) : std::nullopt;
}

const TensorInfo* GgufModel::find(std::string_view name) const {
  for (const GgufFile& file : files_)
    if (const TensorInfo* tensor = file.find(name)) return tensor;
  return nullptr;
}

std::vector<float> GgufModel::floats(std::string_view name) const {
  for (const GgufFile& file : files_) {
    const TensorInfo* tensor = file.find(name);
    if (tensor == nullptr) continue;
    if (tensor->type->dtype != DType::f32 || tensor->shape.size() != 1 ||
        tensor->num_elements() > kMaxVectorElements)
      throw Error(ErrorCode::format, "{}: tensor \"{}\" is not a vector of F32", path(), printable(name));
    std::vector<float> values(tensor->num_elements());
    file.file()->read_at(tensor->offset_bytes, gsl::as_writable_bytes(gsl::span<float>(values)));
    return values;
  }
  return {};
}

int32_t GgufModel::num_layers() const {
  const int64_t ahead = integer("nextn_predict_layers").value_or(0);
  const int64_t layers = require_integer("block_count") - ahead;
  if (layers >= 1 && layers <= kMaxLayers && ahead >= 0) return static_cast<int32_t>(layers);
  throw Error(ErrorCode::format, "{}: \"{}\" gives {} layers, not 1 to {}", path(), key("block_count"),
              layers, kMaxLayers);
}

}  // namespace quire
