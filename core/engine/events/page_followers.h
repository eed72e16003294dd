// What becomes of the pages of a cache, as events of the queues that follow it.
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
  std::optional<std::string> name_space;  // none: of all
  uint64_t tag = 0;
};

// Numbers the events of each follower. One that nobody takes in time, or that there is no memory for, is
// lost, and its number with it: the engine waits for no reader. The engine's thread alone.
class PageFollowers final : public PageListener {
 public:
  // Of events that nobody has taken, besides those that following begins with.
  static constexpr size_t kMaxUnread = 4096;
  // As events tell it: the beginning of the key, 0 where there is none.
  static uint64_t short_hash(const PrefixKey& key) noexcept;

  // Begins with CLEARED and what `visit_all` visits. One that the queue has begun before for the same
  // namespaces is over. Throws for want of memory, and then nothing has changed.
  void follow(const PageFollowing& following, const std::function<void(const PageVisitor&)>& visit_all);
  // The cache is over: CLEARED, and no more.
  void end() noexcept;
  // Tells the queues what came since.
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
