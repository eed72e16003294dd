// Fault injection while a model is loaded, whole or in shards: each read or allocation fails in turn, once or
// from then on. The load returns an error, nothing leaks, and the next load succeeds.
#include <atomic>
#include <iostream>

#include <gtest/gtest.h>

#include "core/base/error.h"
#include "core/models/model.h"
#include "core/models/transformer_executor.h"
#include "kernels/cpu/cpu_backend.h"
#include "tests/support/case_stride.h"
#include "tests/support/fault_loop.h"

namespace quire::testing {
namespace {

// Files of the system that fail at the fault point.
class FailingFiles final : public FileSystem {
 public:
  explicit FailingFiles(const FaultPoint& point) : point_(point) {}

  std::unique_ptr<File> open(const std::string& path) const override {
    count(path);
    return std::make_unique<FailingFile>(*this, posix_file_system().open(path));
  }
  bool is_directory(const std::string& path) const override { return posix_file_system().is_directory(path); }
  bool is_file(const std::string& path) const override { return posix_file_system().is_file(path); }
  std::vector<std::string> list(const std::string& path) const override {
    count(path);
    return posix_file_system().list(path);
  }
  bool failed() const { return count_ >= point_.nth; }

 private:
  class FailingFile final : public File {
   public:
    FailingFile(const FailingFiles& files, std::unique_ptr<File> file)
        : files_(files), file_(std::move(file)) {}
    uint64_t size_bytes() const override { return file_->size_bytes(); }
    void read_at(uint64_t offset, gsl::span<std::byte> out) const override {
      files_.count(path());
      file_->read_at(offset, out);
    }
    const std::string& path() const override { return file_->path(); }

   private:
    const FailingFiles& files_;
    std::unique_ptr<File> file_;
  };

  void count(const std::string& path) const {
    const int64_t now = ++count_;
    const bool fails = point_.span == FaultSpan::once ? now == point_.nth : now >= point_.nth;
    if (fails) throw Error(ErrorCode::io, "{}: injected", path);
  }

  FaultPoint point_;
  mutable std::atomic<int64_t> count_{0};
};

class LoadFaults : public ::testing::TestWithParam<int32_t> {
 protected:
  std::shared_ptr<const Model> load_model(const FileSystem& files, int32_t num_helpers) const {
    ModelOptions options;
    options.source = open_model_source(files, std::string(QUIRE_TEST_DATA) + "/architectures/llama3");
    options.devices = {device_};
    options.num_helpers = num_helpers;
    options.num_shards = GetParam();
    return Model::load(options);
  }

  template <typename Make>
  static ErrorCode code_of(Make make) {
    try {
      make();
    } catch (const Error& error) {
      return error.code();
    } catch (const std::bad_alloc&) {
      return ErrorCode::out_of_memory;
    }
    return ErrorCode::ok;
  }
  ErrorCode load(const FileSystem& files, int32_t num_helpers = 0) const {
    return code_of([&] { load_model(files, num_helpers); });
  }

  // Makes each allocation of any thread fail in turn, including those of the device's memory.
  template <typename Make>
  static int64_t fail_allocations(Make make, int64_t stride = 1) {
    return for_each_fault(
        [&](const FaultPoint& point) {
          SCOPED_TRACE(::testing::Message() << point);
          const int64_t live_before = num_live_allocations();
          const auto [code, failed] = [&] {
            const AllocationFault fault(point.nth, point.span, FaultScope::all_threads);
            const ErrorCode of_make = code_of(make);
            return std::pair(of_make, fault.num_failed() > 0);
          }();
          // A sort falls back to a slower algorithm if it cannot allocate.
          EXPECT_TRUE(code == ErrorCode::ok || (failed && code == ErrorCode::out_of_memory))
              << error_code_name(code);
          EXPECT_EQ(num_live_allocations(), live_before);
          return failed && !HasFailure();
        },
        stride);
  }

  std::shared_ptr<Device> device_ = Device::open(kernels::cpu_backend(), 0, {1, 1});
};

TEST_P(LoadFaults, EveryReadFails) {
  ASSERT_EQ(load(posix_file_system()), ErrorCode::ok);
  const int64_t num_points = for_each_fault([&](const FaultPoint& point) {
    SCOPED_TRACE(::testing::Message() << point);
    const int64_t live_before = num_live_allocations();
    const FailingFiles files(point);
    const ErrorCode code = load(files);
    EXPECT_EQ(code, files.failed() ? ErrorCode::io : ErrorCode::ok);
    EXPECT_EQ(num_live_allocations(), live_before);
    return files.failed() && !HasFailure();
  });
  EXPECT_GT(num_points, 10);
  EXPECT_EQ(load(posix_file_system()), ErrorCode::ok);
  std::cout << num_points << " faults\n";
}

TEST_P(LoadFaults, EveryAllocationFails) {
  ASSERT_EQ(load(posix_file_system()), ErrorCode::ok);
  constexpr int64_t kStride = stride_if_sanitized(11);
  const int64_t num_points = fail_allocations([&] { load_model(posix_file_system(), 0); }, kStride);
  EXPECT_GT(num_points, 1000 / kStride);
  EXPECT_EQ(load(posix_file_system()), ErrorCode::ok);
  std::cout << num_points << " faults\n";
}

// Allocations of pages, contexts, the communicator of shards and their threads.
TEST_P(LoadFaults, EveryAllocationOfAnExecutorFails) {
  const auto model = load_model(posix_file_system(), 0);
  const auto make = [&] {
    TransformerExecutorOptions options;
    options.max_tokens = 8;
    options.max_sequences = options.max_logit_rows = options.max_pages_per_sequence = 2;
    options.kv.num_pages = 4;
    const TransformerExecutor executor(model->transformer(), options);
  };
  ASSERT_EQ(code_of(make), ErrorCode::ok);
  const int64_t num_points = fail_allocations(make);
  EXPECT_GT(num_points, 10);
  EXPECT_EQ(code_of(make), ErrorCode::ok);
  std::cout << num_points << " faults\n";
}

TEST_P(LoadFaults, EveryReadFailsOfSeveralThreads) {
  ASSERT_EQ(load(posix_file_system(), 3),
            ErrorCode::ok);  // performs the allocations that the first thread of a process makes once
  const int64_t num_points = for_each_fault([&](const FaultPoint& point) {
    SCOPED_TRACE(::testing::Message() << point);
    const int64_t live_before = num_live_allocations();
    const FailingFiles files(point);
    const ErrorCode code = load(files, 3);
    EXPECT_EQ(code, files.failed() ? ErrorCode::io : ErrorCode::ok);
    EXPECT_EQ(num_live_allocations(), live_before);
    return files.failed() && !HasFailure();
  });
  EXPECT_GT(num_points, 10);
}

INSTANTIATE_TEST_SUITE_P(Shards, LoadFaults, ::testing::Values(1, 2));

}  // namespace
}  // namespace quire::testing
