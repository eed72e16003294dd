// Opens devices with the shared memory of other cards, which only the emulation can have.
#include <cstdlib>

#include "tests/kernels/cuda/cuda_device.h"

namespace quire::kernels {
namespace {

// A kernel that asks for more shared memory than the card has makes opening fail: 100 KiB of compute
// capability 8.6, 8.9 and 12.0, 164 of 8.0, 228 of 9.0 and 10.0. The emulated card of 7.5 always has 64.
TEST(CudaDeviceTest, DevicesOpenWithTheSharedMemoryOfEveryCard) {
  const Backend* backend = cuda_backend();
  ASSERT_NE(backend, nullptr) << dlerror();
  char why[512] = {};
  if (backend->num_devices(why, sizeof(why)) == 0) GTEST_SKIP() << why;
  if (!num_copies_in_flight()) GTEST_SKIP() << "a real card has its own shared memory";
  const char* const usual = std::getenv("QUIRE_EMULATED_SHARED_KIB");
  const std::string before = usual != nullptr ? usual : "";
  for (const char* kib : {"100", "164", "228"}) {
    SCOPED_TRACE(std::string(kib) + " KiB");
    setenv("QUIRE_EMULATED_SHARED_KIB", kib, 1);
    Device* device = nullptr;
    EXPECT_EQ(backend->open_device(0, nullptr, &device), Status::ok);
    backend->close_device(device);
  }
  if (usual != nullptr)
    setenv("QUIRE_EMULATED_SHARED_KIB", before.c_str(), 1);
  else
    unsetenv("QUIRE_EMULATED_SHARED_KIB");
}

// Without the library there are no links, and the reason names it. On a machine that has it they can be
// opened.
TEST_F(CudaTest, LinksNeedALibrary) {
  LinkSupport support;
  const Status opened = table_->open_links(device_, &support);
  if (opened == Status::ok) {
    EXPECT_EQ(std::string(support.library).substr(0, 7), "NCCL 2.");
    EXPECT_GT(support.bytes, 0U);
    return;
  }
  EXPECT_EQ(opened, Status::unsupported);
  EXPECT_NE(std::string(opened.words).find("libnccl.so.2"), std::string::npos) << opened.words;
  LinkId id;
  EXPECT_EQ(table_->make_link_id(device_, &id), Status::unsupported);
  Link* link = nullptr;
  EXPECT_EQ(table_->create_link(context_, &id, 0, &link), Status::unsupported);
  EXPECT_EQ(link, nullptr);
}

}  // namespace
}  // namespace quire::kernels
