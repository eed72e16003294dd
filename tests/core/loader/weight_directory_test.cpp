#include "core/loader/weight_directory.h"

#include <filesystem>
#include <sys/stat.h>

#include <gtest/gtest.h>

#include "tests/support/expect_error.h"
#include "tests/support/json_text.h"
#include "tests/support/memory_file_system.h"
#include "tests/support/safetensors_builder.h"
#include "tests/support/temp_directory.h"

namespace quire {
namespace {

using testing::expect_error;
using testing::MemoryFileSystem;
using testing::SafetensorsBuilder;
using testing::TempDirectory;

std::string shard(const std::vector<std::string>& names) {
  SafetensorsBuilder builder;
  for (const std::string& name : names) builder.add<float>(name, "F32", {2}, {1.0f, 2.0f});
  return builder.build();
}

TEST(WeightDirectory, JoinsAllShards) {
  MemoryFileSystem files;
  files.write("m/output-00002-of-00002.safetensors", shard({"a", "d"}));
  files.write("m/output-00001-of-00002.safetensors", shard({"c", "b"}));
  files.write("m/config.json", "{}");
  const WeightDirectory directory = WeightDirectory::open(files, "m");
  EXPECT_EQ(directory.num_files(), 2U);
  EXPECT_EQ(directory.total_bytes(), 32U);
  ASSERT_EQ(directory.entries().size(), 4U);
  for (size_t i = 0; i < 4; ++i)
    EXPECT_EQ(directory.entries()[i].tensor->name, std::string(1, static_cast<char>('a' + i)));
  EXPECT_EQ(directory.find("a")->file->path(), "m/output-00002-of-00002.safetensors");
  EXPECT_EQ(directory.find("e"), nullptr);
  expect_error(ErrorCode::format, {"m:", "\"e\""}, [&] { directory.at("e"); });
}

std::string index_of(const std::vector<std::pair<std::string, std::string>>& files_of_tensors) {
  testing::Json map = testing::Json::object();
  for (const auto& [tensor, file] : files_of_tensors) map[tensor] = file;
  return testing::Json{{"metadata", {{"total_size", 1}}}, {"weight_map", map}}.dump();
}

std::vector<std::string> names_of(const WeightDirectory& directory) {
  std::vector<std::string> names;
  for (const WeightDirectory::Entry& entry : directory.entries()) names.push_back(entry.tensor->name);
  return names;
}

TEST(WeightDirectory, TheIndexDecidesWhichCopyCounts) {
  for (const char* chosen : {"1.safetensors", "2.safetensors"}) {
    MemoryFileSystem files;
    files.write("m/1.safetensors", shard({"a", "b"}));
    files.write("m/2.safetensors", shard({"b", "c"}));
    files.write("m/model.safetensors.index.json",
                index_of({{"a", "1.safetensors"}, {"b", chosen}, {"c", "2.safetensors"}}));
    const WeightDirectory directory = WeightDirectory::open(files, "m");
    EXPECT_EQ(directory.find("b")->file->path(), std::string("m/") + chosen);
    EXPECT_EQ(names_of(directory), (std::vector<std::string>{"a", "b", "c"}));
    EXPECT_EQ(directory.total_bytes(), 24U);
  }
}

TEST(WeightDirectory, FilesThatTheIndexDoesNotNameAreNotOpened) {
  MemoryFileSystem files;
  files.write("m/model-00001-of-00001.safetensors", shard({"a", "b"}));
  files.write("m/model-00001-of-00002.safetensors", "broken");
  files.write("m/model.safetensors", "broken");
  files.write("m/model.safetensors.index.json", index_of({{"a", "model-00001-of-00001.safetensors"}}));
  const WeightDirectory directory = WeightDirectory::open(files, "m");
  EXPECT_EQ(directory.num_files(), 1U);
  EXPECT_EQ(names_of(directory), (std::vector<std::string>{"a", "b"}));
}

TEST(WeightDirectory, AnIndexOfFilesThatAreNotThereIsIgnored) {
  MemoryFileSystem files;
  files.write("m/model.safetensors", shard({"a"}));
  files.write("m/model.safetensors.index.json",
              R"({"weight_map":{"a":"../../etc/passwd","b":"missing.safetensors"}})");
  const WeightDirectory directory = WeightDirectory::open(files, "m");
  EXPECT_EQ(names_of(directory), std::vector<std::string>{"a"});
  expect_error(ErrorCode::format, {"m:", "\"b\"", "model.safetensors.index.json", "missing.safetensors"},
               [&] { directory.at("b"); });
}

TEST(WeightDirectory, AMalformedIndexIsRefused) {
  for (const char* text : {"", "[]", "{}", R"({"weight_map":[]})", R"({"weight_map":{"a":1}})"}) {
    MemoryFileSystem files;
    files.write("m/model.safetensors", shard({"a"}));
    files.write("m/model.safetensors.index.json", text);
    expect_error(ErrorCode::format, {"m/model.safetensors.index.json"},
                 [&] { WeightDirectory::open(files, "m"); });
  }
}

TEST(WeightDirectory, LeftoversBesideTheWholeFileDoNotCount) {
  MemoryFileSystem files;
  files.write("m/model.safetensors", shard({"a"}));
  files.write("m/consolidated.safetensors", shard({"tok_embeddings"}));
  files.write("m/model-00001-of-00002.safetensors", shard({"a"}));
  EXPECT_EQ(names_of(WeightDirectory::open(files, "m")), std::vector<std::string>{"a"});
}

TEST(WeightDirectory, TheCompleteSetOfShardsCounts) {
  MemoryFileSystem files;
  files.write("m/model-00001-of-00002.safetensors", shard({"a"}));
  files.write("m/model-00002-of-00002.safetensors", shard({"b"}));
  files.write("m/model-00003-of-00003.safetensors", shard({"b"}));
  files.write("m/consolidated-00001-of-00001.safetensors", shard({"c"}));
  EXPECT_EQ(names_of(WeightDirectory::open(files, "m")), (std::vector<std::string>{"a", "b"}));
  files.write("m/model-00001-of-00003.safetensors", shard({"a"}));
  files.write("m/model-00002-of-00003.safetensors", shard({"c"}));
  expect_error(ErrorCode::format, {"\"a\" is also in"}, [&] { WeightDirectory::open(files, "m"); });
}

TEST(WeightDirectory, ADirectoryOfOtherNamesAloneIsRead) {
  MemoryFileSystem files;
  files.write("m/consolidated.safetensors", shard({"c"}));
  EXPECT_EQ(names_of(WeightDirectory::open(files, "m")), std::vector<std::string>{"c"});
}

TEST(WeightDirectory, RefusesTheSameTensorInTwoShards) {
  MemoryFileSystem files;
  files.write("m/1.safetensors", shard({"a", "b"}));
  files.write("m/2.safetensors", shard({"b", "c"}));
  expect_error(ErrorCode::format, {"m/1.safetensors", "m/2.safetensors", "\"b\""},
               [&] { WeightDirectory::open(files, "m"); });
}

TEST(WeightDirectory, RefusesADirectoryWithoutWeights) {
  MemoryFileSystem files;
  files.write("m/config.json", "{}");
  files.write("m/.safetensors", shard({"a"}));
  expect_error(ErrorCode::not_found, {"m: holds no *.safetensors"},
               [&] { WeightDirectory::open(files, "m"); });
  expect_error(ErrorCode::not_found, {"/nonexistent"},
               [] { WeightDirectory::open(posix_file_system(), "/nonexistent/model"); });
}

TEST(WeightDirectory, NamesTheMalformedShard) {
  MemoryFileSystem files;
  files.write("m/1.safetensors", shard({"a"}));
  files.write("m/2.safetensors", shard({"b"}) + "x");
  expect_error(ErrorCode::format, {"m/2.safetensors"}, [&] { WeightDirectory::open(files, "m"); });
}

TEST(WeightDirectory, RefusesEntriesThatAreNotRegularFiles) {
  {
    const TempDirectory temp;
    ASSERT_EQ(::mkfifo(temp.file("pipe.safetensors").c_str(), 0600), 0);
    expect_error(ErrorCode::io, {"pipe.safetensors"},
                 [&] { WeightDirectory::open(posix_file_system(), temp.path()); });
  }
  {
    const TempDirectory temp;
    std::filesystem::create_directory(temp.file("folder.safetensors"));
    expect_error(ErrorCode::io, {"folder.safetensors"},
                 [&] { WeightDirectory::open(posix_file_system(), temp.path()); });
  }
  {
    const TempDirectory temp;
    std::filesystem::create_symlink("/dev/zero", temp.file("zero.safetensors"));
    expect_error(ErrorCode::io, {"zero.safetensors"},
                 [&] { WeightDirectory::open(posix_file_system(), temp.path()); });
  }
  {
    const TempDirectory temp;
    std::filesystem::create_symlink("nowhere", temp.file("lost.safetensors"));
    expect_error(ErrorCode::not_found, {"lost.safetensors"},
                 [&] { WeightDirectory::open(posix_file_system(), temp.path()); });
  }
}

TEST(WeightDirectory, FollowsLinksToRegularFiles) {
  const TempDirectory blobs;
  const TempDirectory snapshot;
  blobs.write("0123", shard({"a"}));
  std::filesystem::create_symlink(blobs.file("0123"), snapshot.file("model.safetensors"));
  EXPECT_TRUE(WeightDirectory::open(posix_file_system(), snapshot.path()).has("a"));
}

}  // namespace
}  // namespace quire
