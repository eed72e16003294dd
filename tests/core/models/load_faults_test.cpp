// Loading a model while reads or allocations fail, each in its turn, once and for ever: a status, nothing
// left behind, and the next load works.
#include <atomic>
#include <iostream>

#include <gtest/gtest.h>

#include "core/base/error.h"
#include "core/models/model.h"
#include "kernels/cpu/cpu_backend.h"
#include "tests/support/fault_loop.h"

namespace quire::testing {
namespace {

// The files of the machine, until it is told to fail.
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

class LoadFaults : public ::testing::Test {
 protected:
  ErrorCode load(const FileSystem& files, int32_t num_helpers = 0) const {
    try {
      ModelOptions options;
      options.source = open_model_source(files, std::string(QUIRE_TEST_DATA) + "/architectures/llama3");
      options.devices = {device_};
      options.num_helpers = num_helpers;
      Model::load(options);
    } catch (const Error& error) {
      return error.code();
    } catch (const std::bad_alloc&) {
      return ErrorCode::out_of_memory;
    }
    return ErrorCode::ok;
  }

  // What the load says, and whether memory failed it.
  std::pair<ErrorCode, bool> load_with_failing_memory(const FaultPoint& point) const {
    const AllocationFault fault(point.nth, point.span, FaultScope::all_threads);
    const ErrorCode code = load(posix_file_system());
    return {code, fault.num_failed() > 0};
  }

  std::shared_ptr<Device> device_ = Device::open(kernels::cpu_backend(), 0, {1, 1});
};

TEST_F(LoadFaults, EveryReadFails) {
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

// Of all threads of a load, the device's own memory included.
TEST_F(LoadFaults, EveryAllocationFails) {
  ASSERT_EQ(load(posix_file_system()), ErrorCode::ok);
  const int64_t num_points = for_each_fault([&](const FaultPoint& point) {
    SCOPED_TRACE(::testing::Message() << point);
    const int64_t live_before = num_live_allocations();
    const auto [code, failed] = load_with_failing_memory(point);
    // A sort that finds no room for a faster way goes the slower one.
    EXPECT_TRUE(code == ErrorCode::ok || (failed && code == ErrorCode::out_of_memory))
        << error_code_name(code);
    EXPECT_EQ(num_live_allocations(), live_before);
    return failed && !HasFailure();
  });
  EXPECT_GT(num_points, 1000);
  EXPECT_EQ(load(posix_file_system()), ErrorCode::ok);
  std::cout << num_points << " faults\n";
}

TEST_F(LoadFaults, EveryReadFailsOfSeveralThreads) {
  ASSERT_EQ(load(posix_file_system(), 3),
            ErrorCode::ok);  // what the first thread of a process takes for good
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

}  // namespace
}  // namespace quire::testing
