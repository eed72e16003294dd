#include "core/loader/safetensors_file.h"

#include <gtest/gtest.h>

#include "tests/support/case_stride.h"
#include "tests/support/expect_error.h"
#include "tests/support/memory_file_system.h"
#include "tests/support/safetensors_builder.h"

namespace quire {
namespace {

using testing::expect_error;
using testing::MemoryFileSystem;
using testing::safetensors_file;
using testing::SafetensorsBuilder;

SafetensorsFile open_bytes(const std::string& bytes) {
  MemoryFileSystem files;
  files.write("m/a.safetensors", bytes);
  return SafetensorsFile(files.open("m/a.safetensors"));
}

std::string small_file() {
  SafetensorsBuilder builder;
  builder.add<float>("model.norm.weight", "F32", {3}, {1.0f, 2.0f, 3.0f});
  builder.add<int16_t>("q_groups", "I16", {2, 2}, {4, 0, 2, 9});
  builder.add<uint8_t>("empty", "U8", {0, 7}, {});
  return builder.build();
}

// Opens and reads everything; returns true if all was valid, false if it was rejected with a message.
bool survives(const std::string& bytes) {
  try {
    const SafetensorsFile file = open_bytes(bytes);
    for (const TensorInfo& tensor : file.tensors()) {
      std::vector<std::byte> data(tensor.size_bytes);
      file.file().read_at(tensor.offset_bytes, data);
      EXPECT_EQ(file.find(tensor.name), &tensor);
    }
    return true;
  } catch (const Error& error) {
    const bool expected = error.code() == ErrorCode::format || error.code() == ErrorCode::truncated;
    EXPECT_TRUE(expected) << error.what();
    EXPECT_NE(std::string(error.what()).find("a.safetensors"), std::string::npos) << error.what();
    return false;
  }
}

std::string with_length(uint64_t length, std::string file) {
  std::memcpy(file.data(), &length, sizeof(length));
  return file;
}

TEST(SafetensorsFile, FindsTensorsByName) {
  const SafetensorsFile file = open_bytes(small_file());
  ASSERT_NE(file.find("q_groups"), nullptr);
  EXPECT_EQ(file.find("q_groups")->shape, (std::vector<int64_t>{2, 2}));
  EXPECT_EQ(file.find("q_group"), nullptr);
  EXPECT_EQ(file.find(""), nullptr);
  EXPECT_EQ(file.find("z"), nullptr);
}

TEST(SafetensorsFile, RefusesLengthsBeyondTheFile) {
  const std::string file = small_file();
  for (const uint64_t length : {uint64_t{file.size()} - 7, uint64_t{file.size()}, uint64_t{100'000'000}}) {
    expect_error(ErrorCode::truncated, {"a.safetensors", "a header of"},
                 [&] { open_bytes(with_length(length, file)); });
  }
  for (const uint64_t length : {uint64_t{100'000'001}, uint64_t{1} << 31, uint64_t{1} << 32,
                                uint64_t{1} << 63, ~uint64_t{0}, ~uint64_t{0} - 7}) {
    expect_error(ErrorCode::format, {"a.safetensors", "limit of 100000000"},
                 [&] { open_bytes(with_length(length, file)); });
  }
  expect_error(ErrorCode::format, {"a.safetensors"}, [&] { open_bytes(with_length(0, file)); });
}

TEST(SafetensorsFile, RefusesEveryTruncation) {
  const std::string file = small_file();
  ASSERT_TRUE(survives(file));
  for (size_t length = 0; length < file.size(); ++length) {
    EXPECT_FALSE(survives(file.substr(0, length))) << length;
  }
  EXPECT_FALSE(survives(file + '\0'));
}

TEST(SafetensorsFile, AnyHeaderByteMayHaveAnyValue) {
  const std::string file = small_file();
  uint64_t header_bytes = 0;
  std::memcpy(&header_bytes, file.data(), sizeof(header_bytes));
  size_t sound = 0;
  for (size_t position = 0; position < 8 + header_bytes; ++position) {
    for (int value = 0; value < 256; value += testing::stride_if_sanitized(5)) {
      std::string changed = file;
      changed[position] = static_cast<char>(value);
      sound += survives(changed) ? 1 : 0;
    }
  }
  // The unchanged byte at every position, and other letters in names.
  EXPECT_GT(sound, testing::kIsSanitized ? 0 : 8 + header_bytes);
}

TEST(SafetensorsFile, AnyHeaderByteMayBeMissingOrDoubled) {
  const std::string file = small_file();
  uint64_t header_bytes = 0;
  std::memcpy(&header_bytes, file.data(), sizeof(header_bytes));
  const std::string header = file.substr(8, header_bytes);
  const std::string data = file.substr(8 + header_bytes);
  for (size_t position = 0; position < header.size(); ++position) {
    survives(safetensors_file(header.substr(0, position) + header.substr(position + 1), data));
    survives(safetensors_file(header.substr(0, position) + header[position] + header.substr(position), data));
  }
}

}  // namespace
}  // namespace quire
