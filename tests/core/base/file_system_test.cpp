#include "core/base/file_system.h"

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <sys/stat.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include "core/base/error.h"

namespace quire {
namespace {

// A fixture with a new directory for each test, removed at the end.
class FileSystemTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = ::testing::TempDir() + "quire-files-XXXXXX";
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    directory_ = pattern;
  }
  void TearDown() override {
    for (const std::string& name : posix_file_system().list(directory_))
      ::unlink((directory_ + "/" + name).c_str());
    ::rmdir(directory_.c_str());
  }
  std::string write(const std::string& name, const std::string& text) const {
    std::ofstream(directory_ + "/" + name, std::ios::binary) << text;
    return directory_ + "/" + name;
  }
  std::string directory_;
};

ErrorCode code_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    return error.code();
  }
  return ErrorCode::ok;
}

TEST_F(FileSystemTest, ReadsAtAnOffsetAndNamesATruncatedFile) {
  const auto file = posix_file_system().open(write("a", "hello world"));
  std::array<std::byte, 5> part{};
  file->read_at(6, part);
  EXPECT_EQ(std::memcmp(part.data(), "world", 5), 0);
  try {
    file->read_at(8, part);
    FAIL() << "a read beyond the end passed";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::truncated);
    EXPECT_NE(std::string(error.what()).find(directory_ + "/a"), std::string::npos);
  }
}

TEST_F(FileSystemTest, AFileThatShrinksWhileOpenIsAnErrorInsteadOfASignal) {
  const std::string path = write("shrinks", std::string(100'000, 'x'));
  const auto file = posix_file_system().open(path);
  ASSERT_EQ(::truncate(path.c_str(), 10), 0);
  std::vector<std::byte> all(file->size_bytes());
  EXPECT_EQ(code_of([&] { file->read_at(0, all); }), ErrorCode::truncated);
}

TEST_F(FileSystemTest, OpensOnlyRegularFiles) {
  const std::string fifo = directory_ + "/fifo";
  ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
  EXPECT_EQ(code_of([&] { (void)posix_file_system().open(fifo); }), ErrorCode::io);
  EXPECT_EQ(code_of([&] { (void)posix_file_system().open("/dev/zero"); }), ErrorCode::io);
  EXPECT_EQ(code_of([&] { (void)posix_file_system().open(directory_); }), ErrorCode::io);
  EXPECT_EQ(code_of([&] { (void)posix_file_system().open(directory_ + "/none"); }), ErrorCode::not_found);
}

TEST_F(FileSystemTest, LimitsTextAndSortsListings) {
  write("b", "text");
  write("a", "");
  EXPECT_EQ(posix_file_system().list(directory_), (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(posix_file_system().read_text(directory_ + "/b", 4), "text");
  EXPECT_EQ(posix_file_system().read_text(directory_ + "/a", 4), "");
  EXPECT_EQ(code_of([&] { (void)posix_file_system().read_text(directory_ + "/b", 3); }), ErrorCode::format);
}

}  // namespace
}  // namespace quire
