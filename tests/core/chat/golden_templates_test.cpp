// Golden outputs of transformers for real chat templates: the committed selection, and all templates if the
// shared directory exists.
#include <algorithm>

#include <gtest/gtest.h>

#include "core/base/file_system.h"
#include "tests/core/chat/chat_fixture.h"
#include "tests/support/golden_folders.h"

namespace quire::chat {
namespace {

struct Count {
  size_t num_templates = 0;
  size_t num_cases = 0;
  uint64_t most_steps = 0;
};

void expect_cases(const std::string& folder, const std::string& name, Count& count) {
  const Json file = Json::parse(read_golden(folder + "/" + name));
  const auto chat =
      ChatTemplate::compile(read_golden(folder + "/" + file["template_file"].get<std::string>()));
  ++count.num_templates;
  for (const Json& item : file["cases"]) {
    ++count.num_cases;
    EXPECT_EQ(golden_difference(*chat, file, item), "") << name << ", " << item["name"];
  }
}

Count expect_folder(const std::string& folder) {
  Count count;
  for (const std::string& name : posix_file_system().list(folder)) {
    const bool is_case = name.size() > 5 && name.substr(name.size() - 5) == ".json";
    if (is_case && name != "features.json" && name != "jinja_units.json") expect_cases(folder, name, count);
  }
  return count;
}

TEST(GoldenTemplates, AreRenderedByteForByte) {
  const std::vector<std::string> folders = testing::golden_folders("templates");
  for (const std::string& folder : folders) {
    const Count count = expect_folder(folder);
    const bool is_whole = folder != folders.front();
    EXPECT_GE(count.num_templates, is_whole ? 165U : 10U);
    EXPECT_GE(count.num_cases, is_whole ? 4184U : 200U);
  }
}

void expect_units(const std::string& path, size_t min_cases) {
  const Json file = Json::parse(read_golden(path));
  ASSERT_GE(file["cases"].size(), min_cases);
  for (const Json& item : file["cases"]) {
    SCOPED_TRACE(item["template"].get<std::string>());
    const bool fails = item.contains("error");
    try {
      const std::string text = text_of(item["template"].get<std::string>(), item["vars"]);
      EXPECT_FALSE(fails) << text;
      if (!fails) {
        EXPECT_EQ(text, item["output"].get<std::string>());
      }
    } catch (const TemplateError& error) {
      EXPECT_TRUE(fails) << error.what();
    }
  }
}

TEST(GoldenTemplates, SmallTemplatesOfTheLanguage) {
  expect_units(std::string(QUIRE_TEST_DATA) + "/templates/jinja_units.json", 320);
}

}  // namespace
}  // namespace quire::chat
