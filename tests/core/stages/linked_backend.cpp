#include "tests/core/stages/linked_backend.h"

#include <atomic>
#include <cstdio>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "kernels/cpu/cpu_backend.h"

namespace quire::testing {
namespace {

using kernels::Status;

constexpr uint64_t kLinkBytes = 4096;

std::atomic<LinkFault> link_fault{LinkFault::none};
std::atomic<int32_t> num_links{0};

// What two ends share.
struct Pair {
  std::mutex mutex;
  bool exists[2] = {};
  bool is_over = false;
  std::deque<std::vector<float>> rows[2];  // on the way to each end
};

std::mutex pairs_mutex;
std::map<std::string, std::weak_ptr<Pair>>& pairs() {
  static auto* const all = new std::map<std::string, std::weak_ptr<Pair>>;
  return *all;
}

struct End {
  std::shared_ptr<Pair> pair;
  int32_t number = 0;
  float* wanted = nullptr;  // where rows are to be received; null: none are
  size_t count = 0;
};

End& end_of(kernels::Link* link) {
  return *reinterpret_cast<End*>(link);
}

Status open_links(kernels::Device*, kernels::LinkSupport* support) {
  if (link_fault == LinkFault::no_library) return kernels::failed(Status::unsupported, "there is no library");
  std::snprintf(support->library, sizeof support->library, "queues %d",
                link_fault == LinkFault::other_library ? 2 : 1);
  support->bytes = kLinkBytes;
  return Status::ok;
}

Status make_link_id(kernels::Device*, kernels::LinkId* id) {
  static std::atomic<uint32_t> last{0};
  const uint32_t number = ++last;
  std::memcpy(id->bytes, &number, sizeof number);
  return Status::ok;
}

Status create_link(kernels::Context*, const kernels::LinkId* id, int32_t end, kernels::Link** link) {
  if (link_fault == (end == 0 ? LinkFault::no_first_end : LinkFault::no_second_end))
    return kernels::failed(Status::unsupported, "end %d is refused", end);
  const std::scoped_lock lock(pairs_mutex);
  std::weak_ptr<Pair>& known = pairs()[std::string(std::begin(id->bytes), std::end(id->bytes))];
  auto made = std::make_unique<End>(End{known.lock(), end});
  if (made->pair == nullptr) known = made->pair = std::make_shared<Pair>();
  made->pair->exists[end] = true;
  ++num_links;
  *link = reinterpret_cast<kernels::Link*>(made.release());
  return Status::ok;
}

Status poll_link(kernels::Link* link, kernels::LinkState* state) {
  End& end = end_of(link);
  const std::scoped_lock lock(end.pair->mutex);
  const bool is_connected = end.pair->exists[0] && end.pair->exists[1];
  auto& arrived = end.pair->rows[end.number];
  if (end.wanted != nullptr && !arrived.empty()) {
    if (arrived.front().size() != end.count)
      return kernels::failed(Status::device_lost, "rows of another size");
    std::copy(arrived.front().begin(), arrived.front().end(), end.wanted);
    arrived.pop_front();
    end.wanted = nullptr;
  }
  if (end.wanted != nullptr && end.pair->is_over)
    return kernels::failed(Status::device_lost, "the other end is gone");
  *state = !is_connected           ? kernels::LinkState::busy
           : end.wanted != nullptr ? kernels::LinkState::issued
                                   : kernels::LinkState::done;
  return Status::ok;
}

Status send_by_link(kernels::Link* link, const float* device_rows, int32_t rows, int32_t columns) {
  End& end = end_of(link);
  const std::scoped_lock lock(end.pair->mutex);
  if (link_fault != LinkFault::deaf)
    end.pair->rows[1 - end.number].emplace_back(device_rows, device_rows + int64_t{rows} * columns);
  return Status::ok;
}

Status receive_by_link(kernels::Link* link, float* device_rows, int32_t rows, int32_t columns) {
  End& end = end_of(link);
  const std::scoped_lock lock(end.pair->mutex);
  end.wanted = device_rows;
  end.count = static_cast<size_t>(rows) * static_cast<size_t>(columns);
  return Status::ok;
}

void release_link(kernels::Link* link) {
  End& end = end_of(link);
  {
    const std::scoped_lock lock(end.pair->mutex);
    end.pair->is_over = true;
  }
  --num_links;
  delete &end;
}

// Plans and counts no memory for links.
const kernels::KernelTable* table(const kernels::Device* device) {
  static const kernels::KernelTable* const made = [&] {
    auto* const with_links = new kernels::KernelTable(*kernels::cpu_backend().table(device));
    with_links->open_links = open_links;
    with_links->make_link_id = make_link_id;
    with_links->create_link = create_link;
    with_links->poll_link = poll_link;
    with_links->send_by_link = send_by_link;
    with_links->receive_by_link = receive_by_link;
    with_links->release_link = release_link;
    return with_links;
  }();
  return made;
}

}  // namespace

void set_link_fault(LinkFault fault) {
  link_fault = fault;
}

int32_t num_live_links() {
  return num_links;
}

const kernels::Backend& linked_backend() {
  static const kernels::Backend backend = [] {
    kernels::Backend made = kernels::cpu_backend();
    made.name = "card";
    made.table = table;
    return made;
  }();
  return backend;
}

}  // namespace quire::testing
