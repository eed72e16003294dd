#include "core/engine/events/page_followers.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "core/base/contain.h"
#include "core/engine/events/event_queue.h"

namespace quire {
namespace {

PageChange change_of(PageChange::Kind kind, const PageName& name, PageMedium medium) {
  PageChange change;
  change.kind = kind;
  change.medium = medium;
  change.hash = PageFollowers::short_hash(name.key);
  change.parent = PageFollowers::short_hash(name.parent);
  if (name.name_space != nullptr) change.name_space = *name.name_space;
  return change;
}

}  // namespace

uint64_t PageFollowers::short_hash(const PrefixKey& key) noexcept {
  uint64_t hash = 0;
  if (key) std::memcpy(&hash, key->data(), sizeof hash);
  return hash;
}

bool PageFollowers::Follower::wants(const PageName& name) const {
  return !name_space || (name.name_space != nullptr && *name.name_space == *name_space);
}

Event PageFollowers::Follower::make_event(PageChange&& change, gsl::span<const TokenId> tokens) {
  change.number = next_number++;
  Event event;
  event.kind = EventKind::page;
  event.tag = tag;
  event.page = std::move(change);
  event.token_ids.assign(tokens.begin(), tokens.end());
  return event;
}

void PageFollowers::follow(const PageFollowing& following,
                           const std::function<void(const PageVisitor&)>& visit_all) {
  drop_gone();
  Follower follower{following.name_space, following.tag, 0, nullptr};
  std::vector<Event> begin;
  begin.push_back(follower.make_event({}, {}));
  visit_all([&](const PageName& name, PageMedium medium, gsl::span<const TokenId> tokens) {
    if (follower.wants(name))
      begin.push_back(follower.make_event(change_of(PageChange::Kind::stored, name, medium), tokens));
  });
  EventStreamOptions options;
  options.max_unread = static_cast<int32_t>(begin.size() + kMaxUnread);
  options.queue = following.queue;
  follower.stream = std::make_shared<EventStream>(options);
  followers_.reserve(followers_.size() + 1);
  for (Event& event : begin) follower.stream->push(std::move(event), &pending_wakeups_);
  const auto before = std::find_if(followers_.begin(), followers_.end(), [&](const Follower& known) {
    return known.stream->options().queue.lock() == following.queue &&
           known.name_space == following.name_space;
  });
  if (before != followers_.end()) {
    before->stream->abandon();
    *before = std::move(follower);
  } else {
    followers_.push_back(std::move(follower));
  }
}

void PageFollowers::drop_gone() noexcept {
  std::erase_if(followers_,
                [](const Follower& follower) { return follower.stream->options().queue.expired(); });
}

// Sends an event to each follower. The number is used up even if memory for the event is short, so that the
// reader sees a gap.
template <typename Make>
void PageFollowers::tell(const Make& make) noexcept {
  for (Follower& follower : followers_) {
    const int64_t number = follower.next_number;
    contain(
        "no memory", [&] { make(follower); },
        [&](ErrorCode, std::string_view) { follower.next_number = number + 1; });
  }
}

void PageFollowers::stored(const PageName& name, PageMedium medium,
                           gsl::span<const TokenId> tokens) noexcept {
  tell([&](Follower& follower) {
    if (!follower.wants(name)) return;
    PageChange change = change_of(PageChange::Kind::stored, name, medium);
    follower.stream->push(follower.make_event(std::move(change), tokens), &pending_wakeups_);
  });
}

void PageFollowers::removed(const PageName& name, PageMedium medium) noexcept {
  tell([&](Follower& follower) {
    if (!follower.wants(name)) return;
    PageChange change = change_of(PageChange::Kind::removed, name, medium);
    follower.stream->push(follower.make_event(std::move(change), {}), &pending_wakeups_);
  });
}

void PageFollowers::end() noexcept {
  for (Follower& follower : followers_)
    follower.stream->finish(follower.make_event({}, {}), &pending_wakeups_);
  pending_wakeups_.flush();
  followers_.clear();
}

}  // namespace quire
