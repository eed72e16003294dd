// The device of a stage as hosts see it.
#include "core/stages/stage_device.h"

#include <cstddef>
#include <cstring>

#include <gtest/gtest.h>

namespace quire::testing {
namespace {

class NoPeer final : public StagePeer {
 public:
  std::shared_ptr<const RemoteLayers> build(const RemoteBuild&) override {
    throw Error(ErrorCode::unsupported, "nothing is built");
  }
};

// After its first fields the table has only function pointers.
TEST(StageDevice, EveryEntryIsFilled) {
  StageDescription description;
  description.table = "cpu";
  const auto device = make_stage_device("tcp://10.0.0.2:7430", description, std::make_shared<StageCounters>(),
                                        std::make_shared<NoPeer>());
  const KernelTable& table = device->table();
  const size_t first = offsetof(KernelTable, memory_use);
  for (size_t offset = first; offset < sizeof(KernelTable); offset += sizeof(void*)) {
    void* entry = nullptr;
    std::memcpy(&entry, reinterpret_cast<const char*>(&table) + offset, sizeof entry);
    EXPECT_NE(entry, nullptr) << "entry " << (offset - first) / sizeof(void*);
  }
  EXPECT_FALSE(device->reaches(*device));
}

}  // namespace
}  // namespace quire::testing
