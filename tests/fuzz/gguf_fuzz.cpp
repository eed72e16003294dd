// Any bytes as a GGUF file: the result is an Error, or configuration, tokenizer and tensors can be read.
#include <cstdint>
#include <functional>
#include <string>

#include "core/base/error.h"
#include "core/loader/gguf_file.h"
#include "core/models/gguf_source.h"
#include "tests/support/memory_file_system.h"

namespace quire {
namespace {

// Runs one part of the test. It may throw Error, and the other parts run all the same.
void attempt(const std::function<void()>& part) {
  try {
    part();
  } catch (const Error&) {
  }
}

void read_tensors(const GgufFile& file) {
  constexpr uint64_t kMaxBytes = uint64_t{1} << 20;
  for (const TensorInfo& tensor : file.tensors()) {
    if (tensor.size_bytes > kMaxBytes) continue;
    std::vector<std::byte> bytes(tensor.size_bytes);
    file.file()->read_at(tensor.offset_bytes, bytes);
  }
}

void run(std::string bytes) {
  testing::MemoryFileSystem files;
  files.write("m/a.gguf", std::move(bytes));
  attempt([&] { read_tensors(GgufFile(files.open("m/a.gguf"))); });
  attempt([&] {
    const auto source = open_gguf_model(files, "m/a.gguf");
    attempt([&] { source->config(); });
    attempt([&] { source->tensors(); });
    attempt([&] { source->weights(ReadScope::layout, {}); });
    attempt([&] { Tokenizer::load(source->tokenizer().files())->encode("a b<s>"); });
  });
}

}  // namespace
}  // namespace quire

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t num_bytes) {
  quire::run(std::string(reinterpret_cast<const char*>(data), num_bytes));
  return 0;
}
