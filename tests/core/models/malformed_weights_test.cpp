// Weights of every family, modified one tensor at a time: every tensor of the files is checked, and the error
// names it.
#include <gtest/gtest.h>

#include "core/base/error.h"
#include "tests/core/models/stored_model.h"
#include "tests/support/case_stride.h"
#include "tests/support/golden_families.h"

namespace quire::testing {
namespace {

// Returns the name of a tensor without the wrapper of its checkpoint, which messages lack if the tensor does.
std::string unwrapped(const std::string& name) {
  const std::string inner = "model.language_model.", outer = "language_model.";
  if (name.starts_with(inner)) return "model." + name.substr(inner.size());
  return name.starts_with(outer) ? name.substr(outer.size()) : name;
}

// Checks for the name of the module if its weights may have several formats.
void expect_named(const StoredTensor& tensor, const std::string& words) {
  const size_t ending = tensor.name.rfind(".weight");
  const std::string module = tensor.name.substr(0, ending);
  EXPECT_TRUE(words.find(module) != std::string::npos || words.find(unwrapped(module)) != std::string::npos)
      << tensor.name << ": " << words;
}

// Adds a row of zeros; a single number becomes two.
void lengthen(StoredTensor& tensor) {
  if (tensor.shape.empty()) tensor.shape.push_back(1);
  tensor.bytes.append(tensor.bytes.size() / static_cast<size_t>(tensor.shape.front()), '\0');
  ++tensor.shape.front();
}

// Returns whether it is a constant of an activation, which transformers stores with the trained weights, or
// the bias that files of A.X K1 may lack.
bool may_be_absent(const StoredTensor& tensor, const std::string& family) {
  return tensor.name.find(".act_fn.beta") != std::string::npos ||
         tensor.name.find(".act_fn.eps") != std::string::npos ||
         (family == "axk1" && tensor.name.ends_with("e_score_correction_bias"));
}

// Returns whether the tensor belongs to a part that is not read, such as a vision tower.
bool is_of_another_part(const StoredTensor& tensor) {
  for (const char* part : {"visual.", "vision_", "embed_vision.", "mm_projector.", "multi_modal_projector.",
                           "vit_large_projector."}) {
    if (tensor.name.starts_with(part) || tensor.name.starts_with(std::string("model.") + part)) return true;
  }
  return false;
}

class MalformedWeights : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    const FamilyDirectory family(GetParam());
    if (const std::string refusal = refusal_of(family.path()); !refusal.empty()) GTEST_SKIP() << refusal;
  }

  // Returns the error message; empty if the model loads.
  static std::string refusal(const StoredModel& model) {
    try {
      (void)load_stored_model(model);
    } catch (const Error& error) {
      return error.what();
    }
    return {};
  }

  // The tensors of the parts that are read.
  static StoredModel read_text_part(const std::string& family) {
    StoredModel model = read_stored_model(FamilyDirectory(family).path());
    std::erase_if(model.tensors, is_of_another_part);
    return model;
  }

  const StoredModel model_ = read_text_part(GetParam());
};

TEST_P(MalformedWeights, AMissingTensorIsNamed) {
  for (size_t i = 0; i < model_.tensors.size(); ++i) {
    if (may_be_absent(model_.tensors[i], GetParam())) continue;
    StoredModel bent = model_;
    bent.tensors.erase(bent.tensors.begin() + static_cast<std::ptrdiff_t>(i));
    expect_named(model_.tensors[i], refusal(bent));
  }
}

TEST_P(MalformedWeights, ATensorOfAnotherShapeIsNamed) {
  for (size_t i = 0; i < model_.tensors.size(); ++i) {
    StoredModel bent = model_;
    lengthen(bent.tensors[i]);
    expect_named(model_.tensors[i], refusal(bent));
  }
}

TEST_P(MalformedWeights, AnIntegerTensorIsNamed) {
  for (size_t i = 0; i < model_.tensors.size(); ++i) {
    StoredModel bent = model_;
    bent.tensors[i].dtype = "I16";
    expect_named(model_.tensors[i], refusal(bent));
  }
}

INSTANTIATE_TEST_SUITE_P(Families, MalformedWeights,
                         ::testing::ValuesIn(thin_if_sanitized(golden_families(), 12)),
                         [](const auto& family) { return family.param; });

}  // namespace
}  // namespace quire::testing
