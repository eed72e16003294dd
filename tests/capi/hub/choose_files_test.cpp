#include "capi/hub/choose_files.h"

#include <algorithm>
#include <ctime>
#include <fstream>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "capi/hub/error.h"

namespace quire::hub {
namespace {

using Names = std::vector<std::string>;

Names sorted(Names names) {
  std::sort(names.begin(), names.end());
  return names;
}

TEST(ChooseFilesTest, EveryRowOfTheTableIsFollowed) {
  std::ifstream file(QUIRE_TEST_DATA "/hub/choices.json");
  for (const auto& row : nlohmann::json::parse(file)) {
    SCOPED_TRACE(row.at("why").get<std::string>());
    const auto names = row.at("files").get<Names>();
    const auto choice = row.at("choice").get<std::string>();
    if (row.contains("error")) {
      try {
        choose_model_files(names, choice);
        ADD_FAILURE() << "no error";
      } catch (const HubError& error) {
        for (const auto& words : row.at("error"))
          EXPECT_NE(std::string(error.what()).find(words.get<std::string>()), std::string::npos)
              << error.what();
      }
      continue;
    }
    const ModelFiles model = choose_model_files(names, choice);
    EXPECT_EQ(model.path(), row.at("path"));
    EXPECT_EQ(sorted(model.files), sorted(row.at("bring").get<Names>()));
  }
}

TEST(ChooseFilesTest, ChoicesOfARepositoryLeadBackToTheirModels) {
  const Names names = {"a-Q4_K_M.gguf",
                       "a-UD-Q4_K_M.gguf",
                       "a-Q8_0-00001-of-00002.gguf",
                       "a-Q8_0-00002-of-00002.gguf",
                       "b/config.json",
                       "b/model.safetensors",
                       "config.json",
                       "model.safetensors",
                       "plain.gguf"};
  const Names choices = list_choices(names);
  EXPECT_EQ(sorted(choices), sorted({"", "b", "Q8_0", "a-Q4_K_M.gguf", "a-UD-Q4_K_M.gguf", "plain.gguf"}));
  for (const std::string& choice : choices) EXPECT_NO_THROW(choose_model_files(names, choice)) << choice;
}

TEST(ChooseFilesTest, AnIndexReplacesTheWeightFiles) {
  const Names names = {"config.json", "model-00001-of-00001.safetensors", "model.safetensors.index.json",
                       "old.safetensors"};
  ModelFiles model = choose_model_files(names, "");
  follow_index(model, names, R"({"weight_map": {"a": "model-00001-of-00001.safetensors"}})");
  EXPECT_EQ(sorted(model.files),
            sorted({"config.json", "model-00001-of-00001.safetensors", "model.safetensors.index.json"}));
}

TEST(ChooseFilesTest, AnIndexThatIsWrongChangesNothing) {
  const Names names = {"config.json", "a.safetensors", "model.safetensors.index.json", "secret.key"};
  const ModelFiles before = choose_model_files(names, "");
  const std::string deep(100000, '[');
  for (const std::string& index :
       {std::string(R"({"weight_map": {"a": "missing.safetensors"}})"),
        std::string(R"({"weight_map": {"a": "secret.key"}})"),
        std::string(R"({"weight_map": {"a": "../../x.safetensors"}})"),
        std::string(R"({"weight_map": {"a": 3}})"), std::string(R"({"weight_map": {}})"), std::string("{}"),
        std::string("{"), std::string(), deep}) {
    ModelFiles model = before;
    follow_index(model, names, index);
    EXPECT_EQ(model.files, before.files) << index.substr(0, 60);
  }
}

TEST(ChooseFilesTest, AHugeListIsChosenFromInLinearTime) {
  Names names;
  for (int i = 0; i < 100000; ++i) names.push_back("d" + std::to_string(i) + "/config.json");
  for (int i = 0; i < 100000; ++i) names.push_back("d" + std::to_string(i) + "/x.safetensors");
  EXPECT_THROW(choose_model_files(names, ""), HubError);
  EXPECT_EQ(choose_model_files(names, "d99999").files.size(), 2U);
}

// A comparison of each name with each weight file takes 23 s for such a list.
TEST(ChooseFilesTest, AHugeFolderIsChosenFromInLinearTime) {
  Names names = {"config.json"};
  for (int i = 0; i < 99999; ++i) names.push_back("model-" + std::to_string(100000 + i) + ".safetensors");
  const std::clock_t begin = std::clock();
  EXPECT_EQ(choose_model_files(names, "").files.size(), names.size());
  EXPECT_LT(std::clock() - begin, 5 * CLOCKS_PER_SEC);
}

}  // namespace
}  // namespace quire::hub
