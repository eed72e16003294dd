// Takes the memory of a context.
#pragma once

#include "kernels/cuda/step/context.h"

namespace quire::kernels {

// Allocates the memory of a context, or only computes its size.
class ContextBuilder {
 public:
  enum class Mode { take, count };
  ContextBuilder(Device& device, Context& context, Mode mode)
      : device_(device), context_(context), mode_(mode) {}

  template <typename T>
  void take(T*& target, size_t count, const char* what) {
    if (status_ != Status::ok) return;
    use_.held_bytes += taken_bytes(count * sizeof(T));
    if (mode_ == Mode::count) return;
    void* memory = nullptr;
    status_ = device_.allocate(count * sizeof(T), &memory, what);
    if (status_ != Status::ok) return;
    context_.device_memory.push_back(memory);
    target = static_cast<T*>(memory);
  }
  template <typename T>
  void pin(T*& target, size_t count, const char* what) {
    if (status_ != Status::ok) return;
    use_.pinned_bytes += count * sizeof(T);
    if (mode_ == Mode::count) return;
    void* memory = nullptr;
    status_ = device_.pin(count * sizeof(T), &memory, what);
    if (status_ != Status::ok) return;
    context_.pinned_memory.push_back(memory);
    target = static_cast<T*>(memory);
  }
  void check(cudaError_t error, const char* what) {
    if (status_ == Status::ok) status_ = device_.check(error, what);
  }
  Status status() const { return status_; }
  bool counts() const { return mode_ == Mode::count; }
  const MemoryUse& use() const { return use_; }

 private:
  Device& device_;
  Context& context_;
  Mode mode_;
  MemoryUse use_;
  Status status_ = Status::ok;
};

// Memory, stream and events of packed experts (packed_experts.cpp). release_packed_stream accepts what was
// made in part.
void take_packed_memory(ContextBuilder& build, Context& context, const PackedExpertLimits& limits);
void make_packed_stream(ContextBuilder& build, PackedMemory& packed);
void release_packed_stream(const PackedMemory& packed);

}  // namespace quire::kernels
