#include "core/config/layer_types.h"

#include <array>
#include <string>

#include "core/base/error.h"

namespace quire {
namespace {

struct LayerTypeName {
  std::string_view name;
  LayerType type;
};
constexpr std::array<LayerTypeName, 4> kAttentionTypes = {{
    {"full_attention", LayerType::full},
    {"indexed_attention", LayerType::full},
    {"sliding_attention", LayerType::sliding},
    {"chunked_attention", LayerType::chunked},
}};
// Words of families with recurrent layers, of transformers and of the files from before it.
constexpr std::array<LayerTypeName, 10> kHybridTypes = {{
    {"full_attention", LayerType::full},
    {"indexed_attention", LayerType::full},
    {"linear_attention", LayerType::recurrent},
    {"sliding_attention", LayerType::sliding},
    {"attention", LayerType::full},
    {"hybrid", LayerType::full},
    {"mamba", LayerType::recurrent},
    {"conv", LayerType::recurrent},
    {"mlp", LayerType::mlp},
    {"moe", LayerType::experts},
}};
// A string with a letter for each layer.
constexpr std::string_view kPattern = "hybrid_override_pattern";

bool is_hybrid(const ArchitectureSpec& row) {
  return row.type_of_layer != nullptr;
}

std::optional<JsonView> find_list(const ConfigFields& fields, const ArchitectureSpec& row) {
  return is_hybrid(row) ? fields.find(FieldNames{"layer_types", "layers_block_type"})
                        : fields.find("layer_types");
}

bool has_type(const ArchitectureSpec& row, LayerType type) {
  if (!is_hybrid(row)) return true;
  if (type == LayerType::sliding) return row.window != WindowRule::no_layer;
  return type <= LayerType::recurrent || row.has_one_part_layers;
}

LayerType type_named(const JsonView& word, const ArchitectureSpec& row) {
  const gsl::span<const LayerTypeName> types =
      is_hybrid(row) ? gsl::span<const LayerTypeName>(kHybridTypes) : kAttentionTypes;
  const std::string name = word.as_string();
  std::string names;
  for (const LayerTypeName& known : types) {
    if (!has_type(row, known.type)) continue;
    if (known.name == name) return known.type;
    names += fmt::format("{}{}", names.empty() ? "" : ", ", known.name);
  }
  throw Error(ErrorCode::unsupported, "{}: \"{}\" is not supported; supported are {}", word.where(),
              printable(name, 32), names);
}

LayerType type_of_letter(const JsonView& pattern, char letter) {
  switch (letter) {
    case 'M':
      return LayerType::recurrent;
    case '*':
      return LayerType::full;
    case '-':
      return LayerType::mlp;
    case 'E':
      return LayerType::experts;
    default:
      throw Error(ErrorCode::unsupported, "{}: \"{}\" is not supported; supported are M, *, - and E",
                  pattern.where(), printable(std::string(1, letter), 8));
  }
}

}  // namespace

std::vector<JsonView> layer_entries(const JsonView& list, const ConfigFields& fields, size_t num_layers) {
  const auto more = static_cast<size_t>(fields.int_or({{"num_nextn_predict_layers"}, 0, 64}, 0));
  const size_t count = list.is_array() ? list.elements().size() : 0;
  if (count != num_layers && (count == 0 || count != num_layers + more))
    throw Error(ErrorCode::format, "{} must be a list of {} entries", list.where(), num_layers);
  std::vector<JsonView> entries = list.items();
  entries.erase(entries.begin() + static_cast<ptrdiff_t>(num_layers), entries.end());
  return entries;
}

size_t num_listed_layers(const ConfigFields& fields, const ArchitectureSpec& row) {
  if (!row.has_one_part_layers) return 0;
  if (const auto list = find_list(fields, row)) return list->elements().size();
  const auto pattern = fields.find(kPattern);
  return pattern ? pattern->as_string().size() : 0;
}

std::optional<std::vector<LayerType>> listed_layer_types(const ConfigFields& fields,
                                                         const ArchitectureSpec& row, size_t num_layers) {
  std::vector<LayerType> types;
  if (const auto list = find_list(fields, row)) {
    for (const JsonView& word : layer_entries(*list, fields, num_layers))
      types.push_back(type_named(word, row));
    return types;
  }
  const auto pattern = row.has_one_part_layers ? fields.find(kPattern) : std::nullopt;
  if (!pattern) return std::nullopt;
  const std::string& letters = pattern->as_string();
  if (letters.size() != num_layers)
    throw Error(ErrorCode::format, "{} must have {} letters, one for each layer", pattern->where(),
                num_layers);
  for (const char letter : letters) types.push_back(type_of_letter(*pattern, letter));
  return types;
}

}  // namespace quire
