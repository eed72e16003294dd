// Counts the live handles that were created from one runtime, by type.
#pragma once

#include <array>
#include <atomic>
#include <memory>
#include <string>
#include <utility>

#include "capi/src/handle_table.h"

namespace quire::capi {

// Thread-safe.
class HandleCensus {
 public:
  void add(HandleType type, int64_t change) noexcept { alive_[static_cast<size_t>(type)] += change; }
  // Returns text such as "1 quire_model, 3 quire_job"; empty if no handle is alive.
  std::string describe() const;

 private:
  std::array<std::atomic<int64_t>, kNumHandleTypes> alive_{};
};

// Counts one handle during the lifetime of its object.
class CensusEntry {
 public:
  CensusEntry(std::shared_ptr<HandleCensus> census, HandleType type)
      : census_(std::move(census)), type_(type) {
    census_->add(type_, 1);
  }
  CensusEntry(const CensusEntry&) = delete;
  CensusEntry& operator=(const CensusEntry&) = delete;
  ~CensusEntry() { census_->add(type_, -1); }

 private:
  std::shared_ptr<HandleCensus> census_;
  HandleType type_;
};

}  // namespace quire::capi
