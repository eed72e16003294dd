// Reports changes of a cache's pages as events to the queues that follow it.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/engine/events/event_stream.h"
#include "core/kv/page_listener.h"

namespace quire {

struct PageFollowing {
  std::shared_ptr<EventQueue> queue;
  std::optional<std::string> name_space;  // not set: all namespaces
  uint64_t tag = 0;
};

// Numbers the events of each follower. An event that is not read in time, or for which memory is short, is
// lost and leaves a gap in the numbers: the engine waits for no reader. Used by the engine's thread alone.
class PageFollowers final : public PageListener {
 public:
  // Limit of unread events, in addition to those that the subscription starts with.
  static constexpr size_t kMaxUnread = 4096;
  // Returns the hash used in events: the first bytes of the key, or 0 without a key.
  static uint64_t short_hash(const PrefixKey& key) noexcept;

  // Starts a subscription with a cleared event and a stored event for each page that `visit_all` visits.
  // Replaces an earlier one of the same queue and namespace. Throws if memory is short, and then changes
  // nothing.
  void follow(const PageFollowing& following, const std::function<void(const PageVisitor&)>& visit_all);
  // Sends a last cleared event when the cache closes.
  void end() noexcept;
  // Notifies the queues of the events since the last call.
  void flush() noexcept { pending_wakeups_.flush(); }

  void stored(const PageName& name, PageMedium medium, gsl::span<const TokenId> tokens) noexcept override;
  void removed(const PageName& name, PageMedium medium) noexcept override;

 private:
  struct Follower {
    std::optional<std::string> name_space;
    uint64_t tag = 0;
    int64_t next_number = 0;
    std::shared_ptr<EventStream> stream;

    bool wants(const PageName& name) const;
    Event make_event(PageChange&& change, gsl::span<const TokenId> tokens);
  };

  template <typename Make>
  void tell(const Make& make) noexcept;
  void drop_gone() noexcept;

  std::vector<Follower> followers_;
  EventBatch pending_wakeups_;
};

}  // namespace quire
