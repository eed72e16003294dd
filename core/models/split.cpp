#include "core/models/split.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <optional>

#include "core/base/error.h"

namespace quire {
namespace {

using DeviceCapacities = gsl::span<const DeviceCapacity>;

int32_t num_layers(DeviceCapacities devices) {
  return gsl::narrow<int32_t>(devices.front().demand.layer_bytes.size());
}

bool holds(const DeviceCapacity& device, int32_t first, int32_t end) {
  return device.demand.bytes_of(first, end) <= device.usable_bytes() &&
         std::all_of(device.peers.begin(), device.peers.end(),
                     [=](const DeviceCapacity& peer) { return holds(peer, first, end); });
}

// Returns the number of layers that each device takes if the devices are filled in order, from layer `first`
// on.
std::vector<int32_t> fill_forwards(DeviceCapacities devices, int32_t first) {
  std::vector<int32_t> counts;
  for (const DeviceCapacity& device : devices) {
    int32_t end = first;
    while (end < num_layers(devices) && holds(device, first, end + 1)) ++end;
    counts.push_back(end - first);
    first = end;
  }
  return counts;
}

// Returns the number of layers that each device takes if the devices are filled in reverse order, from the
// last layer down to layer `first`.
std::vector<int32_t> fill_backwards(DeviceCapacities devices, int32_t first) {
  std::vector<int32_t> counts(devices.size(), 0);
  int32_t end = devices.empty() ? first : num_layers(devices);
  for (size_t i = devices.size(); i-- > 0;) {
    int32_t begin = end;
    while (begin > first && holds(devices[i], begin - 1, end)) --begin;
    counts[i] = end - begin;
    end = begin;
  }
  return counts;
}

int32_t sum(const std::vector<int32_t>& counts) {
  return std::accumulate(counts.begin(), counts.end(), 0);
}

// Puts all layers on devices that are not the host; nullopt if they do not fit.
std::optional<std::vector<int32_t>> split_without_host(DeviceCapacities devices) {
  std::vector<DeviceCapacity> others;
  std::vector<size_t> places;
  for (size_t i = 0; i < devices.size(); ++i) {
    if (devices[i].is_host) continue;
    others.push_back(devices[i]);
    places.push_back(i);
  }
  if (others.empty()) return std::nullopt;
  const std::vector<int32_t> filled = fill_forwards(others, 0);
  if (sum(filled) < num_layers(devices)) return std::nullopt;
  std::vector<int32_t> counts(devices.size(), 0);
  for (size_t i = 0; i < others.size(); ++i) counts[places[i]] = filled[i];
  return counts;
}

std::optional<std::vector<int32_t>> split_around_host(DeviceCapacities devices, size_t host) {
  std::vector<int32_t> counts = fill_forwards(devices.first(host), 0);
  if (host == 0) counts.clear();
  const int32_t first = sum(counts);
  const std::vector<int32_t> after = fill_backwards(devices.subspan(host + 1), first);
  const int32_t between = num_layers(devices) - first - sum(after);
  if (!holds(devices[host], first, first + between)) return std::nullopt;
  counts.push_back(between);
  counts.insert(counts.end(), after.begin(), after.end());
  return counts;
}

// Adds a device and its peers to the text of an error.
void describe(const DeviceCapacity& device, std::string& rooms, uint64_t& usable) {
  usable += device.usable_bytes();
  rooms += fmt::format("{}{} has {} bytes free, of which {} are reserved", rooms.empty() ? "" : ", ",
                       device.name, device.free_bytes, device.reserve_bytes);
  if (device.budget_bytes) rooms += fmt::format(" and at most {} may be used", *device.budget_bytes);
  for (const DeviceCapacity& peer : device.peers) describe(peer, rooms, usable);
}

uint64_t bytes_of_model(const DeviceCapacity& device) {
  const auto end = gsl::narrow<int32_t>(device.demand.layer_bytes.size());
  return std::accumulate(device.peers.begin(), device.peers.end(), device.demand.bytes_of(0, end),
                         [](uint64_t sum, const DeviceCapacity& peer) { return sum + bytes_of_model(peer); });
}

[[noreturn]] void refuse(DeviceCapacities devices) {
  std::string rooms;
  uint64_t usable = 0;
  for (const DeviceCapacity& device : devices) describe(device, rooms, usable);
  const bool has_peers = !devices.front().peers.empty();
  throw Error(ErrorCode::out_of_memory,
              "the model needs {} bytes on {}, but only {} are usable: {}; name more devices (cpu is one), "
              "allow more bytes with split, or make the cache smaller",
              bytes_of_model(devices.front()), has_peers ? "the devices of one stage" : "one device", usable,
              rooms);
}

}  // namespace

uint64_t DeviceDemand::bytes_of(int32_t first, int32_t end) const {
  if (first >= end) return 0;
  const auto begin = layer_bytes.begin();
  uint64_t bytes = std::accumulate(begin + first, begin + end, stage_bytes);
  if (first == 0) bytes += embedding_bytes;
  if (static_cast<size_t>(end) == layer_bytes.size()) bytes += head_bytes;
  return bytes;
}

DeviceDemand& DeviceDemand::operator+=(const DeviceDemand& other) {
  stage_bytes += other.stage_bytes;
  embedding_bytes += other.embedding_bytes;
  head_bytes += other.head_bytes;
  std::transform(layer_bytes.begin(), layer_bytes.end(), other.layer_bytes.begin(), layer_bytes.begin(),
                 std::plus<>());
  return *this;
}

Placement split_automatically(DeviceCapacities devices) {
  if (devices.empty())
    throw Error(ErrorCode::invalid_argument, "split: no device is given; name at least one").at("device");
  if (const auto split = split_without_host(devices)) return place_by_counts(*split, num_layers(devices));
  const auto is_host = [](const DeviceCapacity& device) { return device.is_host; };
  const auto host = std::find_if(devices.begin(), devices.end(), is_host);
  if (host == devices.end()) refuse(devices);
  const auto index_of_host = static_cast<size_t>(host - devices.begin());
  const auto split = split_around_host(devices, index_of_host);
  if (!split) refuse(devices);
  return place_by_counts(*split, num_layers(devices));
}

}  // namespace quire
