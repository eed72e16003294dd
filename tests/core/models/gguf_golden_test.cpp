// Whole GGUF files that llama.cpp made, compared with the logits that llama.cpp computes from their
// dequantized weights in F32: those of the shared folder, and its archive's if QUIRE_GGUF_DIR names the
// folder where it was unpacked.
#include <cctype>
#include <cstdlib>
#include <map>

#include <gtest/gtest.h>

#include "core/models/model_source.h"
#include "tests/core/models/golden_file.h"
#include "tests/core/models/transformer_runner.h"
#include "tests/support/file_text.h"
#include "tests/support/json_text.h"

namespace quire::testing {
namespace {

const std::string kGolden = std::string(QUIRE_SHARED_DIR) + "/golden/gguf/";

// Returns the path of a file of the shared folder or of QUIRE_GGUF_DIR; empty if neither has it.
std::string find_file(const std::string& name) {
  if (exists(kGolden + name)) return kGolden + name;
  const char* const more = std::getenv("QUIRE_GGUF_DIR");
  const std::string path = more == nullptr ? "" : std::string(more) + "/" + name;
  return exists(path) ? path : "";
}

struct GgufCase {
  const char* name;
};

class GgufGolden : public ::testing::TestWithParam<GgufCase> {
 protected:
  void SetUp() override {
    path_ = find_file(std::string(GetParam().name) + ".gguf");
    if (path_.empty()) GTEST_SKIP() << GetParam().name << ".gguf is not here";
    golden_ = Json::parse(file_text(kGolden + GetParam().name + ".json"));
    if (const std::string refusal = refusal_of(path_); !refusal.empty()) GTEST_SKIP() << refusal;
  }

  TokenIds prompt(size_t index) const { return golden_["prompts"][index]["ids"].get<TokenIds>(); }

  std::string path_;
  Json golden_;
};

TEST_P(GgufGolden, LogitsAreThoseOfTheFloatsInTheFile) {
  TransformerRunner runner(load_model(path_), {});
  const std::string outputs = kGolden + GetParam().name + ".safetensors";
  const auto vocab = static_cast<size_t>(runner.vocab_size());
  for (size_t i = 0; i < 2; ++i) {
    const std::vector<float> logits = runner.logits(prompt(i), 512);
    std::vector<float> every_eighth;
    for (size_t row = 0; row < logits.size(); row += vocab)
      for (size_t column = 0; column < vocab; column += 8) every_eighth.push_back(logits[row + column]);
    const double error = relative_rms(every_eighth, read_floats(outputs, "exact_logits" + std::to_string(i)));
    RecordProperty("relative_rms_" + std::to_string(i), std::to_string(error));
    EXPECT_LE(error, tolerance(2e-3, 1e-2)) << i;
  }
}

TEST_P(GgufGolden, GreedyTextAgreesUpToTheFirstNearTie) {
  TransformerRunner runner(load_model(path_), {});
  const double near_tie = tolerance(0.01, 0.05);
  for (size_t i = 0; i < golden_["prompts"].size(); ++i) {
    const Json& exact = golden_["prompts"][i]["exact"];
    const auto expected = exact["greedy"].get<TokenIds>();
    const auto gap = exact["gap"].get<std::vector<float>>();
    TokenIds ids = prompt(i);
    std::vector<float> rows = runner.logits(ids, 512);
    for (size_t step = 0; step < expected.size(); ++step) {
      const int32_t vocab = runner.vocab_size();
      const TokenId token = arg_max(rows.data() + rows.size() - static_cast<size_t>(vocab), vocab);
      if (gap[step] < near_tie && token != expected[step]) break;
      ASSERT_EQ(token, expected[step]) << "prompt " << i << ", token " << step << ", gap " << gap[step];
      rows = runner.step({{0, static_cast<int32_t>(ids.size()), {token}}});
      ids.push_back(token);
    }
  }
}

TEST_P(GgufGolden, EachTensorHasItsTypeInTheDescription) {
  const auto source = open_model_source(posix_file_system(), path_);
  std::map<std::string, int> stored, described;
  for (const auto& [name, type] : golden_["types"].items()) {
    std::string word = type;
    for (char& c : word) c = static_cast<char>(std::tolower(c));
    if (word != "f32") ++stored[word];
  }
  for (const TensorDescription& tensor : source->tensors().list)
    if (tensor.format != "f32") ++described[tensor.format];
  EXPECT_EQ(described, stored);
}

const GgufCase kCases[] = {{"story-3m-Q8_0"},   {"story-3m-Q4_0"},   {"story-3m-Q4_K_M"},
                           {"story-3m-Q6_K"},   {"story-3m-Q4_1"},   {"story-3m-Q5_1"},
                           {"story-3m-Q2_K"},   {"story-3m-Q3_K_M"}, {"story-3m-IQ4_XS"},
                           {"story-3m-IQ3_S"},  {"story-3m-MXFP4"},  {"story-3m-NVFP4-scaled"},
                           {"story-3m-untied"}, {"story-3m-floats"}, {"story-3m-Q4_1-split-00001-of-00003"}};

std::string case_name(const ::testing::TestParamInfo<GgufCase>& one) {
  std::string name = one.param.name;
  for (char& c : name)
    if (c == '-') c = '_';
  return name;
}

INSTANTIATE_TEST_SUITE_P(Stories, GgufGolden, ::testing::ValuesIn(kCases), case_name);

}  // namespace
}  // namespace quire::testing
