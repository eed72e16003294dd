// Runs a fuzz target over the files of its corpus, as a regression test of inputs found before. Fails if the
// corpus is empty or missing, because a test that runs nothing must not pass.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t num_bytes);

namespace {

std::vector<std::filesystem::path> corpus_files(const std::filesystem::path& directory) {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(directory)) {
    if (entry.is_regular_file()) files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  return files;
}

void replay(const std::filesystem::path& path) {
  std::ifstream stream(path, std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>()};
  LLVMFuzzerTestOneInput(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size());
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: %s CORPUS_DIRECTORY\n", argv[0]);
    return 2;
  }
  try {
    const auto files = corpus_files(argv[1]);
    for (const auto& file : files) {
      std::printf("%s\n", file.filename().c_str());
      std::fflush(stdout);  // the last name printed is the input that crashed
      replay(file);
    }
    std::printf("%zu inputs\n", files.size());
    return files.empty() ? 1 : 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "replay failed: %s\n", error.what());
    return 1;
  }
}
