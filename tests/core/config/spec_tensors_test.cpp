// The tensors that the spec of a family names are those of its file, with the shapes that the spec gives; and
// the spec leaves out no tensor.
#include <map>
#include <set>

#include <gtest/gtest.h>

#include "core/config/model_config.h"
#include "tests/core/config/tensor_walk.h"
#include "tests/support/derived_weights.h"
#include "tests/support/golden_families.h"
#include "tests/support/json_text.h"

namespace quire {
namespace {

using testing::Json;
using testing::Shape;
using testing::TensorWalk;

// Returns the name that a spec has for a tensor; empty for those of towers.
std::string text_name(const std::string& name) {
  constexpr std::string_view kText = "model.language_model.";
  if (name.starts_with("model.visual.")) return {};
  return name.starts_with(kText) ? "model." + name.substr(kText.size()) : name;
}

// Returns the shape of each tensor of a family's text part.
std::map<std::string, Shape> stored_shapes(const std::string& family) {
  std::map<std::string, Shape> shapes;
  const Json rows = Json::parse(testing::golden_family_tensors(family));
  for (const auto& [names, row] : rows.items())
    for (const std::string& name : testing::expand_ranges(names))
      shapes[text_name(name)] = row[0].get<Shape>();
  shapes.erase("");
  return shapes;
}

bool is_hybrid(const ModelConfig& config) {
  return config.architecture->type_of_layer != nullptr;
}

TEST(SpecTensors, AreThoseOfTheFileInFamiliesWithRecurrentLayers) {
  int32_t num_families = 0;
  for (const std::string& family : testing::golden_families()) {
    SCOPED_TRACE(family);
    const ModelConfig config = parse_model_config(testing::golden_family_config(family));
    if (!is_hybrid(config)) continue;
    ++num_families;
    TensorWalk walk(stored_shapes(family));
    walk.ends(config.spec);
    for (const LayerSpec& layer : config.spec.layers) walk.layer(layer);
    EXPECT_EQ(walk.unnamed(), std::set<std::string>());
  }
  EXPECT_EQ(num_families, 24);
}

}  // namespace
}  // namespace quire
