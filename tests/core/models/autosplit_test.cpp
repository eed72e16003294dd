// The automatic split of layers compared with all possible splits: small models, random sizes.
#include <algorithm>
#include <functional>
#include <optional>
#include <random>

#include <gtest/gtest.h>

#include "core/base/error.h"
#include "core/models/split.h"

namespace quire::testing {
namespace {

bool fits(const std::vector<int32_t>& counts, const std::vector<DeviceCapacity>& devices) {
  int32_t first = 0;
  for (size_t i = 0; i < devices.size(); ++i) {
    const DeviceDemand& demand = devices[i].demand;
    if (demand.bytes_of(first, first + counts[i]) > devices[i].usable_bytes()) return false;
    first += counts[i];
  }
  return true;
}

std::vector<int32_t> counts_of(const Placement& placement, size_t num_devices) {
  std::vector<int32_t> counts(num_devices, 0);
  for (const int32_t device : placement.device_of_layer) ++counts[static_cast<size_t>(device)];
  return counts;
}

// Returns the number of layers that the best of all splits leaves to the host; nothing if no split fits.
std::optional<int32_t> fewest_on_host(const std::vector<DeviceCapacity>& devices) {
  const auto num_layers = static_cast<int32_t>(devices.front().demand.layer_bytes.size());
  std::optional<int32_t> fewest;
  std::vector<int32_t> counts;
  const std::function<void(int32_t)> deal = [&](int32_t left) {
    if (counts.size() + 1 == devices.size()) {
      counts.push_back(left);
      if (fits(counts, devices)) {
        int32_t on_host = 0;
        for (size_t i = 0; i < devices.size(); ++i) on_host += devices[i].is_host ? counts[i] : 0;
        fewest = std::min(fewest.value_or(on_host), on_host);
      }
      counts.pop_back();
      return;
    }
    for (int32_t count = 0; count <= left; ++count) {
      counts.push_back(count);
      deal(left - count);
      counts.pop_back();
    }
  };
  deal(num_layers);
  return fewest;
}

DeviceDemand random_demand(std::mt19937& random, size_t num_layers) {
  const auto up_to = [&](uint32_t most) { return uint64_t{random() % (most + 1)}; };
  DeviceDemand demand;
  demand.stage_bytes = up_to(10);
  demand.embedding_bytes = up_to(15);
  demand.head_bytes = up_to(15);
  for (size_t i = 0; i < num_layers; ++i) demand.layer_bytes.push_back(1 + up_to(9));
  return demand;
}

std::vector<DeviceCapacity> random_devices(std::mt19937& random) {
  const size_t num_layers = 1 + random() % 7;
  const size_t num_devices = 1 + random() % 4;
  const size_t host = random() % 5;  // an index beyond the last device: no host
  const DeviceDemand on_cards = random_demand(random, num_layers);
  const DeviceDemand on_host = random_demand(random, num_layers);
  std::vector<DeviceCapacity> devices;
  for (size_t i = 0; i < num_devices; ++i) {
    DeviceCapacity device;
    device.name = "device " + std::to_string(i);
    device.free_bytes = random() % 60;
    device.reserve_bytes = random() % 10;
    if (random() % 3 == 0) device.budget_bytes = random() % 60;
    device.is_host = i == host;
    device.demand = i == host ? on_host : on_cards;
    devices.push_back(device);
  }
  return devices;
}

TEST(AutomaticSplit, IsTheOneWithTheFewestLayersOnTheHost) {
  int num_split = 0;
  int num_refused = 0;
  for (uint32_t seed = 0; seed < 4000; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    const std::vector<DeviceCapacity> devices = random_devices(random);
    const std::optional<int32_t> fewest = fewest_on_host(devices);
    try {
      const Placement placement = split_automatically(devices);
      ASSERT_TRUE(fewest.has_value());
      const std::vector<int32_t>& layers = placement.device_of_layer;
      ASSERT_EQ(layers.size(), devices.front().demand.layer_bytes.size());
      EXPECT_TRUE(std::is_sorted(layers.begin(), layers.end()));
      EXPECT_TRUE(fits(counts_of(placement, devices.size()), devices));
      const auto on_host = std::count_if(layers.begin(), layers.end(), [&](int32_t device) {
        return devices[static_cast<size_t>(device)].is_host;
      });
      EXPECT_EQ(on_host, *fewest);
      ++num_split;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::out_of_memory);
      EXPECT_FALSE(fewest.has_value()) << error.what();
      ++num_refused;
    }
  }
  EXPECT_GT(num_split, 500);
  EXPECT_GT(num_refused, 500);
}

DeviceCapacity room(std::string name, uint64_t free_bytes, bool is_host = false) {
  DeviceCapacity device;
  device.name = std::move(name);
  device.free_bytes = free_bytes;
  device.is_host = is_host;
  device.demand = {5, 10, {10, 10, 10, 10}, 20};
  return device;
}

TEST(AutomaticSplit, UsesOnlyTheFirstDeviceIfThatIsEnough) {
  const std::vector<DeviceCapacity> devices = {room("a", 75), room("b", 1000)};
  EXPECT_EQ(split_automatically(devices), (Placement{{0, 0, 0, 0}}));
}

TEST(AutomaticSplit, KeepsTheReserveFree) {
  std::vector<DeviceCapacity> devices = {room("a", 75), room("b", 1000)};
  devices[0].reserve_bytes = 1;
  EXPECT_EQ(split_automatically(devices), (Placement{{0, 0, 0, 1}}));
}

TEST(AutomaticSplit, RespectsTheBudgets) {
  std::vector<DeviceCapacity> devices = {room("a", 1000), room("b", 1000), room("cpu", 1000, true)};
  devices[0].budget_bytes = 25;
  devices[1].budget_bytes = 24;
  EXPECT_EQ(split_automatically(devices), (Placement{{0, 1, 2, 2}}));
  devices[0].budget_bytes = 0;
  devices[1].budget_bytes = 2000;  // more than the device has
  EXPECT_EQ(split_automatically(devices), (Placement{{1, 1, 1, 1}}));
}

TEST(AutomaticSplit, PutsLayersOnTheHostThatDoNotFitOnTheCard) {
  const std::vector<DeviceCapacity> host_first = {room("cpu", 1000, true), room("a", 45)};
  EXPECT_EQ(split_automatically(host_first), (Placement{{0, 0, 1, 1}}));
  const std::vector<DeviceCapacity> host_last = {room("a", 45), room("cpu", 1000, true)};
  EXPECT_EQ(split_automatically(host_last), (Placement{{0, 0, 0, 1}}));
}

TEST(AutomaticSplit, ReportsTheNeededAndTheFreeBytes) {
  std::vector<DeviceCapacity> devices = {room("a", 30), room("b", 99)};
  devices[1].budget_bytes = 21;
  try {
    (void)split_automatically(devices);
    FAIL() << "a model of 75 bytes in 51";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::out_of_memory);
    const std::string message = error.what();
    for (const char* part :
         {"75 bytes", "only 51 are usable", "a has 30", "b has 99", "at most 21 may be used"}) {
      EXPECT_NE(message.find(part), std::string::npos) << part << " in: " << message;
    }
  }
}

// A stage of two cards has as many layers as the smaller card has room for.
TEST(AutomaticSplit, ShardsMustAllFit) {
  const DeviceDemand demand = {0, 0, {4, 4, 4, 4}, 0};
  DeviceCapacity pair = {"a", 100, 0, std::nullopt, false, demand};
  pair.peers.push_back({"b", 8, 0, std::nullopt, false, demand});
  const DeviceCapacity next = {"c", 100, 0, std::nullopt, false, demand};
  EXPECT_EQ(split_automatically(std::vector{pair, next}), (Placement{{0, 0, 1, 1}}));
  try {
    (void)split_automatically(std::vector{pair});
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::out_of_memory);
    EXPECT_NE(std::string(error.what()).find("b has 8 bytes free"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace quire::testing
