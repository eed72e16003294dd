#include "core/loader/weight_directory.h"

#include <filesystem>
#include <sys/stat.h>

#include <gtest/gtest.h>

#include "tests/support/expect_error.h"
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

TEST(WeightDirectory, NeverReadsAnIndex) {
  MemoryFileSystem files;
  files.write("m/model.safetensors", shard({"a"}));
  files.write("m/model.safetensors.index.json",
              R"({"weight_map":{"a":"../../etc/passwd","b":"missing.safetensors"}})");
  files.break_reads("m/model.safetensors.index.json");
  EXPECT_EQ(WeightDirectory::open(files, "m").entries().size(), 1U);
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
