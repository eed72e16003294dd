#include "core/loader/gguf_file.h"

#include <functional>

#include <gtest/gtest.h>

#include "tests/support/case_stride.h"
#include "tests/support/expect_error.h"
#include "tests/support/gguf_builder.h"
#include "tests/support/memory_file_system.h"

namespace quire {
namespace {

using testing::append;
using testing::expect_error;
using testing::GgufBuilder;
using testing::MemoryFileSystem;

GgufFile open_bytes(const std::string& bytes) {
  MemoryFileSystem files;
  files.write("m/a.gguf", bytes);
  return GgufFile(files.open("m/a.gguf"));
}

GgufBuilder small_file() {
  GgufBuilder file;
  file.add_text("general.architecture", "llama").add_u32("llama.block_count", 2).add_f32("llama.eps", 0.5f);
  file.add_flag("tokenizer.ggml.add_bos_token", true);
  file.add_texts("tokenizer.ggml.tokens", {"a", "", "ccc"});
  file.add_numbers<int32_t>("tokenizer.ggml.token_type", 5, {1, 3, -1});
  file.add_floats("norm", {3}, {1.0f, 2.0f, 3.0f});
  file.add_tensor("q", {32, 2}, 8, std::string(68, '\1'));
  return file;
}

// Opens and reads everything; returns true if all was valid, false if it was rejected with a message.
bool survives(const std::string& bytes) {
  try {
    const GgufFile file = open_bytes(bytes);
    for (const TensorInfo& tensor : file.tensors()) {
      std::vector<std::byte> data(tensor.size_bytes);
      file.file()->read_at(tensor.offset_bytes, data);
      EXPECT_EQ(file.find(tensor.name), &tensor);
    }
    return true;
  } catch (const Error& error) {
    const bool expected = error.code() == ErrorCode::format || error.code() == ErrorCode::truncated ||
                          error.code() == ErrorCode::unsupported;
    EXPECT_TRUE(expected) << error.what();
    EXPECT_NE(std::string(error.what()).find("a.gguf"), std::string::npos) << error.what();
    return false;
  }
}

TEST(GgufFile, HasTypedMetadataAndTensorsByName) {
  const GgufFile file = open_bytes(small_file().build());
  const GgufMetadata& metadata = file.metadata();
  EXPECT_EQ(metadata.require_text("general.architecture"), "llama");
  EXPECT_EQ(metadata.require_integer("llama.block_count"), 2);
  EXPECT_EQ(metadata.number("llama.eps"), 0.5);
  EXPECT_EQ(metadata.flag("tokenizer.ggml.add_bos_token"), true);
  EXPECT_EQ(metadata.integer("absent"), std::nullopt);
  const GgufValue* tokens = metadata.array("tokenizer.ggml.tokens", true);
  ASSERT_NE(tokens, nullptr);
  ASSERT_EQ(tokens->size(), 3U);
  EXPECT_EQ(tokens->text(0), "a");
  EXPECT_EQ(tokens->text(1), "");
  EXPECT_EQ(tokens->text(2), "ccc");
  EXPECT_EQ(tokens->text(3), std::nullopt);
  EXPECT_EQ(metadata.array("tokenizer.ggml.token_type", false)->integer(2), -1);
  ASSERT_NE(file.find("q"), nullptr);
  EXPECT_EQ(file.find("q")->shape, (std::vector<int64_t>{2, 32}));
  EXPECT_EQ(file.find("q")->type->name, "Q8_0");
  EXPECT_EQ(file.find("q")->size_bytes, 68U);
  EXPECT_EQ(file.find("q")->offset_bytes % 32, 0U);
  EXPECT_EQ(file.find("p"), nullptr);
}

TEST(GgufFile, AValueOfAnotherTypeIsAnErrorThatNamesTheKey) {
  const GgufFile file = open_bytes(small_file().build());
  const GgufMetadata& metadata = file.metadata();
  const auto refused = [&](const char* key, const std::function<void()>& read) {
    expect_error(ErrorCode::format, {"m/a.gguf", key}, read);
  };
  refused("general.architecture", [&] { (void)metadata.integer("general.architecture"); });
  refused("llama.block_count", [&] { (void)metadata.text("llama.block_count"); });
  refused("llama.eps", [&] { (void)metadata.integer("llama.eps"); });
  refused("llama.block_count", [&] { (void)metadata.flag("llama.block_count"); });
  refused("tokenizer.ggml.tokens", [&] { (void)metadata.array("tokenizer.ggml.tokens", false); });
  refused("llama.rope", [&] { (void)metadata.require_integer("llama.rope"); });
}

struct Malformed {
  const char* name;
  std::function<void(GgufBuilder&)> change;
  const char* message;
};

std::string array_bytes(uint32_t element, uint64_t count, const std::string& elements) {
  std::string bytes;
  append(bytes, element);
  append(bytes, count);
  return bytes + elements;
}

std::string nested_arrays(int depth) {
  std::string inner = array_bytes(0, 1, "x");
  for (int i = 1; i < depth; ++i) inner = array_bytes(9, 1, inner);
  return inner;
}

constexpr uint64_t kAll = ~uint64_t{0};

const std::vector<Malformed>& malformed() {
  static const std::vector<Malformed> kCases = {
      {"magic", [](GgufBuilder& f) { f.magic = "GGML"; }, "does not begin with \"GGUF\""},
      {"big endian", [](GgufBuilder& f) { f.version = 0x03000000; }, "big-endian"},
      {"version 0", [](GgufBuilder& f) { f.version = 0; }, "version 0"},
      {"version 1", [](GgufBuilder& f) { f.version = 1; }, "version 1"},
      {"version 77", [](GgufBuilder& f) { f.version = 77; }, "version 77"},
      {"tensor count", [](GgufBuilder& f) { f.num_tensors = uint64_t{1} << 63; }, "tensors, more than"},
      {"one tensor more", [](GgufBuilder& f) { f.num_tensors = 3; }, ""},
      {"key count", [](GgufBuilder& f) { f.num_keys = kAll; }, "keys, more than"},
      {"one key more", [](GgufBuilder& f) { f.num_keys = 7; }, ""},
      {"key length", [](GgufBuilder& f) { f.keys[1].name_length = kAll - 7; }, "a key needs"},
      {"key beyond file", [](GgufBuilder& f) { f.keys[1].name_length = 1 << 30; }, "a key needs"},
      {"key twice", [](GgufBuilder& f) { f.add_u32("llama.block_count", 1); },
       "\"llama.block_count\" appears twice"},
      {"value type", [](GgufBuilder& f) { f.keys[1].type = 13; }, "\"llama.block_count\" has the type 13"},
      {"array type", [](GgufBuilder& f) { f.add("x", 9, array_bytes(99, 1, "12345678")); },
       "has the type 99"},
      {"array length", [](GgufBuilder& f) { f.add("x", 9, array_bytes(0, uint64_t{1} << 62, "123")); },
       "needs"},
      {"array bytes overflow",
       [](GgufBuilder& f) { f.add("x", 9, array_bytes(10, (uint64_t{1} << 61) + 1, "12345678")); },
       "overflows"},
      {"text length",
       [](GgufBuilder& f) {
         std::string s;
         append(s, kAll - 15);
         f.add("x", 8, s);
       },
       "needs"},
      {"text in array",
       [](GgufBuilder& f) {
         std::string s;
         append(s, uint64_t{1} << 40);
         f.add("x", 9, array_bytes(8, 1, s));
       },
       "needs"},
      {"texts overflow", [](GgufBuilder& f) { f.add("x", 9, array_bytes(8, uint64_t{1} << 62, "")); },
       "overflows"},
      {"arrays nested", [](GgufBuilder& f) { f.add("x", 9, nested_arrays(9)); },
       "nests arrays more than 4 deep"},
      {"arrays in array", [](GgufBuilder& f) { f.add("x", 9, array_bytes(9, uint64_t{1} << 50, "")); },
       "needs"},
      {"alignment 0", [](GgufBuilder& f) { f.add_u32("general.alignment", 0); },
       "\"general.alignment\" is 0"},
      {"alignment 3", [](GgufBuilder& f) { f.add_u32("general.alignment", 3); },
       "\"general.alignment\" is 3"},
      {"alignment huge", [](GgufBuilder& f) { f.add_u32("general.alignment", 1U << 31); },
       "not a power of two of"},
      {"alignment text", [](GgufBuilder& f) { f.add_text("general.alignment", "32"); }, "not a whole number"},
      {"five dimensions",
       [](GgufBuilder& f) {
         f.tensors[1].shape = {32, 2, 1, 1, 1};
       },
       "has 5 dimensions"},
      {"dimensions", [](GgufBuilder& f) { f.tensors[1].rank = 0xffffffff; }, "has 4294967295 dimensions"},
      {"negative extent", [](GgufBuilder& f) { f.tensors[1].shape[1] = uint64_t{1} << 63; },
       "dimension 1 is"},
      {"extent 0", [](GgufBuilder& f) { f.tensors[1].shape[1] = 0; }, "dimension 1 is 0"},
      {"elements overflow",
       [](GgufBuilder& f) {
         f.tensors[1].shape = {uint64_t{1} << 32, uint64_t{1} << 32, 32};
       },
       "overflows"},
      {"part of a block",
       [](GgufBuilder& f) {
         f.tensors[1].shape = {30, 2};
       },
       "no multiple of the blocks of 32"},
      {"removed type", [](GgufBuilder& f) { f.tensors[1].type = 4; }, "the type 4 is not supported"},
      {"unknown type", [](GgufBuilder& f) { f.tensors[1].type = 255; }, "the type 255 is not supported"},
      {"offset not aligned", [](GgufBuilder& f) { f.tensors[1].offset = 33; },
       "no multiple of the alignment 32"},
      {"offset overflow", [](GgufBuilder& f) { f.tensors[1].offset = kAll - 31; }, "overflows"},
      {"offset beyond file", [](GgufBuilder& f) { f.tensors[1].offset = uint64_t{1} << 40; }, "ends at byte"},
      {"overlap", [](GgufBuilder& f) { f.tensors[1].offset = 0; }, "overlaps another tensor"},
      {"name twice", [](GgufBuilder& f) { f.tensors[1].name = "norm"; }, "\"norm\" appears twice"},
      {"long name", [](GgufBuilder& f) { f.tensors[1].name = std::string(2000, 'n'); },
       "more than the limit of 1024"},
  };
  return kCases;
}

TEST(GgufFile, RefusesMalformedFilesByName) {
  for (const Malformed& wrong : malformed()) {
    SCOPED_TRACE(wrong.name);
    GgufBuilder file = small_file();
    wrong.change(file);
    EXPECT_FALSE(survives(file.build()));
    try {
      open_bytes(file.build());
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find(wrong.message), std::string::npos) << error.what();
    }
  }
}

TEST(GgufFile, ReadsUnusualFiles) {
  GgufBuilder file = small_file();
  file.version = 2;
  EXPECT_TRUE(survives(file.build()));
  EXPECT_TRUE(survives(file.build() + std::string(96, '\0')));
  file = small_file();
  file.alignment = 128;
  file.add_u32("general.alignment", 128);
  EXPECT_TRUE(survives(file.build()));
  file.add("nested", 9, nested_arrays(3));
  EXPECT_TRUE(survives(file.build()));
}

TEST(GgufFile, RefusesEveryTruncation) {
  const std::string file = small_file().build();
  ASSERT_TRUE(survives(file));
  for (size_t length = 0; length < file.size(); ++length)
    EXPECT_FALSE(survives(file.substr(0, length))) << length;
}

TEST(GgufFile, AnyHeaderByteMayHaveAnyValue) {
  const std::string file = small_file().build();
  const size_t header_bytes = small_file().header().size();
  size_t sound = 0;
  for (size_t position = 0; position < header_bytes; ++position) {
    for (int value = 0; value < 256; value += testing::stride_if_sanitized(5)) {
      std::string changed = file;
      changed[position] = static_cast<char>(value);
      sound += survives(changed) ? 1 : 0;
    }
  }
  // The unchanged byte at every position, and other letters in names.
  EXPECT_GT(sound, testing::kIsSanitized ? 0 : header_bytes);
}

GgufBuilder part_of(uint16_t index, uint16_t count) {
  GgufBuilder file;
  std::string number, total, tensors;
  append(number, index);
  append(total, count);
  append(tensors, int32_t{3});
  file.add("split.no", 2, number).add("split.count", 2, total).add("split.tensors.count", 5, tensors);
  file.add_floats("t" + std::to_string(index), {2}, {1.0f, 2.0f});
  return file;
}

TEST(GgufFile, AModelMayHaveSeveralFiles) {
  MemoryFileSystem files;
  const auto path = [](int i) { return "m/x-0000" + std::to_string(i) + "-of-00003.gguf"; };
  for (int i = 0; i < 3; ++i) files.write(path(i + 1), part_of(static_cast<uint16_t>(i), 3).build());
  const std::vector<GgufFile> opened = open_gguf_files(files, path(1));
  ASSERT_EQ(opened.size(), 3U);
  EXPECT_NE(opened[2].find("t2"), nullptr);
  expect_error(ErrorCode::unsupported, {path(2), "name the first one", "-00001-of-00003.gguf"},
               [&] { open_gguf_files(files, path(2)); });
  files.write("m/y.gguf", part_of(0, 3).build());
  expect_error(ErrorCode::format, {"m/y.gguf", "does not end in \"-00001-of-00003.gguf\""},
               [&] { open_gguf_files(files, "m/y.gguf"); });
  files.write(path(3), part_of(1, 3).build());
  expect_error(ErrorCode::format, {path(3), "\"split.no\" is 1"}, [&] { open_gguf_files(files, path(1)); });
  GgufBuilder more = part_of(2, 3);
  more.add_floats("u", {1}, {0.0f});
  files.write(path(3), more.build());
  expect_error(ErrorCode::format, {path(1), "\"split.tensors.count\" is 3", "have 4 tensors"},
               [&] { open_gguf_files(files, path(1)); });
  MemoryFileSystem two;
  two.write(path(1), part_of(0, 3).build());
  expect_error(ErrorCode::not_found, {path(2)}, [&] { open_gguf_files(two, path(1)); });
}

}  // namespace
}  // namespace quire
