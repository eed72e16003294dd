#include "core/loader/weight_reader.h"

#include <limits>
#include <stdexcept>
#include <utility>

#include <gtest/gtest.h>

#include "kernels/interface/host_memory.h"
#include "tests/support/expect_error.h"
#include "tests/support/memory_file_system.h"
#include "tests/support/safetensors_builder.h"

namespace quire {
namespace {

using testing::expect_error;
using testing::MemoryFileSystem;
using testing::SafetensorsBuilder;

constexpr const char* kFile = "m/model.safetensors";

class WeightReaderTest : public ::testing::Test {
 protected:
  WeightReader reader(LoadMonitor monitor = {}) {
    files_.write(kFile, builder_.build());
    directory_ = std::make_unique<WeightDirectory>(WeightDirectory::open(files_, "m"));
    return WeightReader(*directory_, std::move(monitor));
  }
  // Adds a tensor whose bytes depend on their position.
  void add_pattern(const std::string& name, size_t size_bytes) {
    std::vector<uint8_t> bytes(size_bytes);
    for (size_t i = 0; i < size_bytes; ++i) bytes[i] = static_cast<uint8_t>(i * 31 + (i >> 16));
    builder_.add(name, "U8", {static_cast<int64_t>(size_bytes)}, bytes);
  }

  SafetensorsBuilder builder_;
  MemoryFileSystem files_;
  std::unique_ptr<WeightDirectory> directory_;
};

TEST_F(WeightReaderTest, ReadsIntoAlignedMemory) {
  builder_.add<uint8_t>("odd", "U8", {3}, {1, 2, 3});
  builder_.add<int32_t>("ints", "I32", {2, 2}, {1, -2, 3, -4});
  builder_.add<float>("none", "F32", {4, 0}, {});
  WeightReader weights = reader();
  HostTensor tensor = weights.read("ints");
  EXPECT_EQ(reinterpret_cast<uintptr_t>(tensor.bytes().data()) % kernels::kHostAlignment, 0U);
  EXPECT_EQ(tensor.dtype(), DType::i32);
  EXPECT_EQ(tensor.shape(), (std::vector<int64_t>{2, 2}));
  EXPECT_EQ(tensor.elements<int32_t>()[3], -4);
  const std::byte* before = tensor.bytes().data();
  const HostTensor moved = std::move(tensor);
  EXPECT_EQ(moved.bytes().data(), before);
  EXPECT_TRUE(weights.read("none").empty());
}

TEST_F(WeightReaderTest, ReadsLargeTensorsInPieces) {
  const size_t kSize = (size_t{17} << 20) + 5;
  add_pattern("big", kSize);
  std::vector<uint64_t> steps;
  WeightReader weights = reader({[&](const LoadProgress& progress) {
                                   EXPECT_EQ(progress.tensor, "big");
                                   EXPECT_EQ(progress.total_bytes, kSize);
                                   steps.push_back(progress.done_bytes);
                                 },
                                 nullptr});
  const HostTensor tensor = weights.read("big");
  EXPECT_EQ(steps, (std::vector<uint64_t>{size_t{8} << 20, size_t{16} << 20, kSize}));
  for (size_t i = 0; i < kSize; i += 4099) {
    ASSERT_EQ(static_cast<uint8_t>(tensor.bytes()[i]), static_cast<uint8_t>(i * 31 + (i >> 16))) << i;
  }
}

TEST_F(WeightReaderTest, StopsWithinOnePieceOfACancel) {
  add_pattern("big", size_t{32} << 20);
  std::atomic<bool> cancel{false};
  uint64_t done = 0;
  WeightReader weights = reader({[&](const LoadProgress& progress) {
                                   done = progress.done_bytes;
                                   cancel = true;
                                 },
                                 &cancel});
  expect_error(ErrorCode::cancelled, {"m was cancelled"}, [&] { weights.read("big"); });
  EXPECT_EQ(done, size_t{8} << 20);
  EXPECT_EQ(weights.unused(), std::vector<std::string>{"big"});
}

TEST_F(WeightReaderTest, EndsTheLoadIfProgressThrows) {
  add_pattern("small", 8);
  WeightReader weights = reader({[](const LoadProgress&) { throw std::runtime_error("enough"); }, nullptr});
  EXPECT_THROW(weights.read("small"), std::runtime_error);
}

TEST_F(WeightReaderTest, CountsATensorReadTwiceOnce) {
  add_pattern("tied", 8);
  add_pattern("other", 8);
  uint64_t done = 0;
  WeightReader weights = reader({[&](const LoadProgress& progress) { done = progress.done_bytes; }, nullptr});
  weights.read("tied");
  weights.read("tied");
  EXPECT_EQ(done, 8U);
  weights.read("other");
  EXPECT_EQ(done, weights.directory().total_bytes());
}

// Two reads overlap, as if two threads read a tied tensor at the same time.
TEST_F(WeightReaderTest, CountsATensorOnceWhoseReadsOverlap) {
  add_pattern("tied", size_t{9} << 20);
  uint64_t done = 0;
  WeightReader* self = nullptr;
  bool overlaps = false;
  WeightReader weights = reader({[&](const LoadProgress& progress) {
                                   done = progress.done_bytes;
                                   if (!std::exchange(overlaps, true)) self->read("tied");
                                 },
                                 nullptr});
  self = &weights;
  weights.read("tied");
  EXPECT_EQ(done, weights.directory().total_bytes());
}

TEST_F(WeightReaderTest, LeavesTheReadOfATensorToADevice) {
  add_pattern("left", 100);
  uint64_t done = 0;
  WeightReader weights = reader({[&](const LoadProgress& progress) { done = progress.done_bytes; }, nullptr});
  const HostTensor whole = weights.read("left");
  done = 0;
  WeightReader again(*directory_,
                     {[&](const LoadProgress& progress) { done = progress.done_bytes; }, nullptr});
  const HostTensor left = again.read_values("left", {100}, ReadBy::device);
  const HostTensor rows = again.read_rows("left", {100}, {10, 3, 2}, ReadBy::device);
  EXPECT_EQ(left.data(), nullptr);
  EXPECT_EQ(left.size_bytes(), 100U);
  EXPECT_EQ(rows.size_bytes(), 20U);
  EXPECT_TRUE(again.unused().empty());
  EXPECT_EQ(done, 0U);
  std::vector<std::byte> bytes(100);
  const auto read = [&](const HostTensor& tensor, uint64_t offset, size_t count) {
    const kernels::UnreadBytes& unread = *tensor.unread()->bytes();
    EXPECT_TRUE(unread.read(unread.owner, offset, bytes.data() + offset, count));
  };
  for (int32_t pass = 0; pass < 2; ++pass) {  // the second pass is not counted
    read(left, 0, 60);
    read(left, 60, 40);
    EXPECT_TRUE(std::equal(bytes.begin(), bytes.end(), whole.bytes().begin()));
    EXPECT_EQ(done, 100U);
  }
  read(rows, 0, 20);
  EXPECT_TRUE(std::equal(bytes.begin(), bytes.begin() + 20, whole.bytes().begin() + 30));
}

TEST_F(WeightReaderTest, ThrowsTheErrorOfAReadByADevice) {
  add_pattern("w", 100);
  WeightReader weights = reader();
  const HostTensor left = weights.read_values("w", {100}, ReadBy::device);
  EXPECT_NO_THROW(left.unread()->rethrow_failure());
  files_.truncate(kFile, 120);
  std::vector<std::byte> bytes(100);
  const kernels::UnreadBytes& unread = *left.unread()->bytes();
  EXPECT_FALSE(unread.read(unread.owner, 0, bytes.data(), 100));
  expect_error(ErrorCode::truncated, {kFile}, [&] { left.unread()->rethrow_failure(); });
}

TEST_F(WeightReaderTest, ListsUnusedTensors) {
  for (const char* name : {"b", "a", "c", "d"}) add_pattern(name, 1);
  WeightReader weights = reader();
  weights.read("a");
  weights.skip("c");
  weights.skip("absent");
  EXPECT_EQ(weights.unused(), (std::vector<std::string>{"b", "d"}));
}

TEST_F(WeightReaderTest, RefusesATypeOnlyWhenItIsRead) {
  builder_.add<uint8_t>("mask", "BOOL", {2}, {0, 1});
  builder_.add<uint8_t>("tiny", "F8_E5M2", {2}, {0, 1});
  builder_.add<uint8_t>("good", "I8", {2}, {0, 1});
  WeightReader weights = reader();
  EXPECT_NO_THROW(weights.read("good"));
  expect_error(ErrorCode::unsupported, {kFile, "\"mask\"", "BOOL"}, [&] { weights.read("mask"); });
  expect_error(ErrorCode::unsupported, {kFile, "\"tiny\"", "F8_E5M2"}, [&] { weights.read("tiny"); });
}

TEST_F(WeightReaderTest, RequiresTheExpectedShape) {
  builder_.add<float>("w", "F32", {2, 3}, std::vector<float>(6));
  WeightReader weights = reader();
  EXPECT_NO_THROW(weights.read("w", {2, 3}));
  expect_error(ErrorCode::format, {kFile, "\"w\"", "[2, 3]", "[3, 2]"}, [&] { weights.read("w", {3, 2}); });
  expect_error(ErrorCode::format, {"\"v\""}, [&] { weights.read("v", {3, 2}); });
}

TEST_F(WeightReaderTest, ReadsFloatsOfEveryFloatType) {
  builder_.add<uint16_t>("f16", "F16", {2}, {0x3c00, 0xc000});
  builder_.add<uint16_t>("bf16", "BF16", {2}, {0x3f80, 0xc000});
  builder_.add<float>("f32", "F32", {2}, {1.0f, -2.0f});
  builder_.add<double>("f64", "F64", {2}, {1.0, -2.0});
  builder_.add<int32_t>("i32", "I32", {2}, {1, -2});
  WeightReader weights = reader();
  for (const char* name : {"f16", "bf16", "f32", "f64"}) {
    EXPECT_EQ(weights.read_floats(name, {2}), (std::vector<float>{1.0f, -2.0f})) << name;
  }
  expect_error(ErrorCode::unsupported, {"\"i32\"", "I32"}, [&] { weights.read_floats("i32", {2}); });
}

TEST_F(WeightReaderTest, RefusesValuesThatAreNotFinite) {
  builder_.add<float>("nan", "F32", {2}, {1.0f, std::numeric_limits<float>::quiet_NaN()});
  builder_.add<uint16_t>("inf", "F16", {1}, {0x7c00});
  builder_.add<double>("large", "F64", {1}, {1e300});
  WeightReader weights = reader();
  expect_error(ErrorCode::numeric, {kFile, "\"nan\"", "element 1"}, [&] { weights.read_floats("nan", {2}); });
  expect_error(ErrorCode::numeric, {"\"inf\"", "element 0"}, [&] { weights.read_floats("inf", {1}); });
  expect_error(ErrorCode::numeric, {"\"large\"", "element 0"}, [&] { weights.read_floats("large", {1}); });
}

TEST_F(WeightReaderTest, NamesTheFileThatShrankOrFailed) {
  add_pattern("w", 100);
  WeightReader weights = reader();
  files_.truncate(kFile, 120);
  expect_error(ErrorCode::truncated, {kFile}, [&] { weights.read("w"); });
  files_.break_reads(kFile);
  expect_error(ErrorCode::io, {kFile}, [&] { weights.read("w"); });
}

}  // namespace
}  // namespace quire
