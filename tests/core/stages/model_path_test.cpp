// A stage finds a model by the end of the host's path, and nothing outside of its directory.
#include "core/stages/model_path.h"

#include <filesystem>

#include <gtest/gtest.h>

#include "core/base/error.h"
#include "tests/support/expect_error.h"
#include "tests/support/temp_directory.h"

namespace quire::testing {
namespace {

class ModelPath : public ::testing::Test {
 protected:
  void SetUp() override {
    std::filesystem::create_directories(directory_.path() + "/org/name/4.0bpw");
    std::filesystem::create_directories(directory_.path() + "/name");
    directory_.write("file.gguf", "GGUF");
  }
  std::string find(std::string_view path) const {
    return find_model(posix_file_system(), directory_.path(), path);
  }
  const TempDirectory directory_;
};

TEST_F(ModelPath, IsTheLongestEndThatExists) {
  EXPECT_EQ(find("/srv/models/org/name"), directory_.path() + "/org/name");
  EXPECT_EQ(find("org//./name/"), directory_.path() + "/org/name");
  EXPECT_EQ(find("/srv/other/name"), directory_.path() + "/name");
  EXPECT_EQ(find("/srv/org/name/4.0bpw"), directory_.path() + "/org/name/4.0bpw");
  EXPECT_EQ(find("/a/b/file.gguf"), directory_.path() + "/file.gguf");
}

TEST_F(ModelPath, StaysInTheDirectory) {
  for (const std::string& path :
       {std::string("../name"), std::string("/a/../name"), std::string(), std::string("/"), std::string("."),
        std::string("na\0me", 5), std::string(5000, 'a')})
    expect_error(ErrorCode::invalid_argument, {"not a path"}, [&] { (void)find(path); });
  expect_error(ErrorCode::not_found, {"no model \"passwd\"", directory_.path()},
               [&] { (void)find("/etc/passwd"); });
  EXPECT_THROW((void)find_model(posix_file_system(), "", "/etc"), Error);
}

TEST_F(ModelPath, SyntheticModelsNeedNoFiles) {
  EXPECT_EQ(find_model(posix_file_system(), "", "synthetic:llama-3.2-1b"), "synthetic:llama-3.2-1b");
}

}  // namespace
}  // namespace quire::testing
