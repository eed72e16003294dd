// Prefixes that one process stores and another one loads: results are equal to those of a warm page, bit by
// bit.
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tests/support/temp_directory.h"

namespace quire::testing {
namespace {

// A page has 16 tokens.
constexpr const char* kPrompt =
    "Once upon a time there lived in a small house at the edge of the forest an old woman who knew the name "
    "of every bird, and each morning before the sun rose she went down to the river with a basket on her arm "
    "to see what the water had brought her in the night.";

struct Computed {
  std::string line;  // tokens and log probabilities
  int64_t num_found = -1;
};

struct Output {
  std::vector<Computed> prompts;
  int64_t num_refused = -1;
  int status = -1;
};

// Runs one process from its start to its end.
Output run_process(const std::string& directory, int num_times) {
  std::string command =
      std::string(QUIRE_PREFIX_CLIENT) + " '" + QUIRE_EMBEDDED_MODEL + "' '" + directory + "'";
  for (int i = 0; i < num_times; ++i) command += " '" + std::string(kPrompt) + "'";
  Output output;
  FILE* const pipe = ::popen(command.c_str(), "r");
  if (pipe == nullptr) return output;
  std::string text;
  char piece[4096];
  for (size_t count = 0; (count = std::fread(piece, 1, sizeof piece, pipe)) > 0;) text.append(piece, count);
  output.status = ::pclose(pipe);
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string word;
    words >> word;
    if (word == "computed") output.prompts.push_back({line, -1});
    if (word == "found") words >> output.prompts.back().num_found;
    if (word == "refused") words >> output.num_refused;
  }
  return output;
}

std::vector<std::filesystem::path> files_below(const std::string& directory) {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(directory))
    if (entry.is_regular_file()) files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  return files;
}

void flip_byte(const std::filesystem::path& path, uint64_t place) {
  std::fstream file(path, std::ios::binary | std::ios::in | std::ios::out);
  file.seekg(static_cast<std::streamoff>(place));
  const int byte = file.get();
  ASSERT_NE(byte, EOF);
  file.seekp(static_cast<std::streamoff>(place));
  file.put(static_cast<char>(byte ^ 0x10));
}

class PrefixProcesses : public ::testing::Test {
 protected:
  // Runs the first process: the prompt without cached pages, then on the pages that it left.
  void SetUp() override {
    const Output first = run_process(directory_.path(), 2);
    ASSERT_EQ(first.status, 0);
    ASSERT_EQ(first.prompts.size(), 2U);
    EXPECT_EQ(first.prompts[0].num_found, 0);
    warm_ = first.prompts[1];
    ASSERT_GT(warm_.num_found, 3 * 16);
    EXPECT_GT(warm_.line.size(), size_t{6} * 21 * 8) << "six tokens with those that were likely";
    EXPECT_EQ(first.prompts[0].line, warm_.line);
    ASSERT_GE(files_below(directory_.path()).size(), 4U);
  }

  const TempDirectory directory_;
  Computed warm_;
};

TEST_F(PrefixProcesses, ALaterProcessLoadsThemAndComputesTheSameBits) {
  const Output later = run_process(directory_.path(), 1);
  ASSERT_EQ(later.status, 0);
  ASSERT_EQ(later.prompts.size(), 1U);
  EXPECT_GE(later.prompts[0].num_found, warm_.num_found / 16 * 16);
  EXPECT_EQ(later.prompts[0].line, warm_.line);
  EXPECT_EQ(later.num_refused, 0);
}

// Flips a byte at the begin of a file, in its middle and at its end. Files are numbered in the order of
// writing: first the pages of the prompt, then those of the generated tokens.
TEST_F(PrefixProcesses, AFlippedByteIsDetectedAndRecomputed) {
  const TempDirectory copies;
  const auto restore = [&](const std::string& from, const std::string& to) {
    std::filesystem::copy(
        from, to,
        std::filesystem::copy_options::recursive | std::filesystem::copy_options::overwrite_existing);
  };
  restore(directory_.path(), copies.path());
  const auto files = files_below(directory_.path());
  const int64_t num_pages = warm_.num_found / 16;
  for (int64_t page = 0; page < num_pages; ++page) {
    const auto& file = files[static_cast<size_t>(page)];
    const uint64_t last = std::filesystem::file_size(file) - 1;
    for (const uint64_t place : {uint64_t{0}, last / 2, last}) {
      flip_byte(file, place);
      const Output later = run_process(directory_.path(), 1);
      ASSERT_EQ(later.status, 0);
      ASSERT_EQ(later.prompts.size(), 1U);
      EXPECT_EQ(later.num_refused, 1) << file << " at " << place;
      EXPECT_EQ(later.prompts[0].num_found, page * 16) << file << " at " << place;
      EXPECT_EQ(later.prompts[0].line, warm_.line) << file << " at " << place;
      restore(copies.path(), directory_.path());
    }
  }
}

}  // namespace
}  // namespace quire::testing
