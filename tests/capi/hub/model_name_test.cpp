#include "capi/hub/model_name.h"

#include <fstream>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "capi/hub/error.h"

namespace quire::hub {
namespace {

nlohmann::json read_golden(const char* name) {
  std::ifstream file(std::string(QUIRE_TEST_DATA) + "/hub/" + name);
  return nlohmann::json::parse(file);
}

TEST(ModelNameTest, NamesHaveTheirPartsAndOtherTextsAreRefused) {
  for (const auto& row : read_golden("names.json")) {
    const auto text = row.at("text").get<std::string>();
    SCOPED_TRACE(text);
    if (row.at("repository").is_null()) {
      EXPECT_THROW(parse_model_name(text), HubError);
      continue;
    }
    const ModelName name = parse_model_name(text);
    EXPECT_EQ(name.repository, row.at("repository"));
    EXPECT_EQ(name.choice, row.at("choice"));
    EXPECT_EQ(name.revision, row.at("revision"));
    EXPECT_EQ(name.text(), text);
  }
}

TEST(ModelNameTest, ErrorsContainNoControlCharacters) {
  try {
    parse_model_name("org/na\x1b[31mme\n");
    FAIL();
  } catch (const HubError& error) {
    for (const char c : std::string(error.what())) EXPECT_GE(static_cast<unsigned char>(c), 0x20);
  }
}

TEST(ModelNameTest, PathsOfTheMachineDoNotLookLikeNames) {
  for (const char* path :
       {"/models/x", "./models", "../x/y", "models", "a/b/c", "synthetic:llama-3.2-1b", "", "~/x"})
    EXPECT_FALSE(looks_like_model_name(path)) << path;
  for (const char* name : {"org/name", "org/name:Q4_K_M", "org/name@main", "models/file.gguf"})
    EXPECT_TRUE(looks_like_model_name(name)) << name;
}

TEST(ModelNameTest, SafePathsStayBelowTheirFolder) {
  for (const char* path : {"a", "a/b.gguf", "..a", "a..b/c", ".gitattributes"})
    EXPECT_TRUE(is_safe_path(path)) << path;
  for (const char* path :
       {"", ".", "..", "/", "/a", "a/", "a//b", "a/../b", "../a", "a/..", "a/./b", "a\\b", "a\nb", "a\x7f"})
    EXPECT_FALSE(is_safe_path(path)) << path;
  EXPECT_FALSE(is_safe_path(std::string_view("a\0b", 3)));
  EXPECT_FALSE(is_safe_path(std::string(300, 'a')));
  EXPECT_FALSE(is_safe_path([] {
    std::string deep = "a";
    for (int i = 0; i < 1000; ++i) deep += "/a";
    return deep;
  }()));
}

}  // namespace
}  // namespace quire::hub
