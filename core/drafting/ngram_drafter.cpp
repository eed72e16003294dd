#include "core/drafting/ngram_drafter.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "core/drafting/run_hash.h"

namespace quire {

namespace {

constexpr int32_t kMinMatch = NgramDrafter::kMinMatch;
constexpr size_t kFewestBuckets = 256;

uint32_t hash_of(gsl::span<const TokenId> tokens) {
  uint64_t hash = 0;
  for (const TokenId token : tokens) hash = add_to_hash(hash, token);
  return static_cast<uint32_t>(hash >> 32);
}

// An earlier occurrence of the last `length` tokens of a text, which ends before the index `next`; length 0:
// none.
struct Occurrence {
  int32_t next = 0;
  int32_t length = 0;
};

// Places of all runs of kMinMatch tokens in the text of one job: a chain for each bucket of the hash, the
// newest place first. Places are removed in reverse order, which restores the chains.
class NgramState final : public DraftState {
 public:
  explicit NgramState(std::shared_ptr<NgramDrafter::Memory> memory) : memory_(std::move(memory)) {}
  ~NgramState() override { memory_->used_bytes -= counted_bytes_; }
  NgramState(const NgramState&) = delete;
  NgramState& operator=(const NgramState&) = delete;

  // Brings the places to those of `history`, in which the first num_unchanged tokens are as before. Returns
  // false if there is no memory for them in the limit; then there are none.
  bool follow(gsl::span<const TokenId> history, int32_t num_unchanged) {
    forget_from(std::max(0, num_unchanged - kMinMatch + 1));
    const auto num_places = static_cast<int32_t>(history.size()) - kMinMatch + 1;
    if (!make_room(static_cast<size_t>(std::max(0, num_places)))) return false;
    for (auto place = static_cast<int32_t>(places_.size()); place < num_places; ++place) {
      const uint32_t hash = hash_of(history.subspan(static_cast<size_t>(place), kMinMatch));
      int32_t& newest = newest_[bucket(hash)];
      places_.push_back({hash, newest});
      newest = place;
    }
    return true;
  }

  // Returns the best earlier occurrence of the suffix.
  Occurrence find(gsl::span<const TokenId> history) const {
    Occurrence best;
    if (places_.size() < 2) return best;
    const Place& last = places_.back();
    int32_t place = last.previous;
    for (int32_t n = 0; n < NgramDrafter::kMaxPlaces && place >= 0; ++n) {
      const Place& held = places_[static_cast<size_t>(place)];
      const int32_t length = held.hash == last.hash ? match_length(history, place + kMinMatch) : 0;
      if (length >= kMinMatch && length > best.length) best = {place + kMinMatch, length};
      place = held.previous;
    }
    return best;
  }

 private:
  struct Place {
    uint32_t hash;
    int32_t previous;  // the next older place of the same bucket; -1: none
  };

  size_t bucket(uint32_t hash) const { return hash & (newest_.size() - 1); }

  void forget_from(int32_t num_kept) {
    while (places_.size() > static_cast<size_t>(num_kept)) {
      newest_[bucket(places_.back().hash)] = places_.back().previous;
      places_.pop_back();
    }
  }

  // Makes room for num_places places, with at least a bucket for each of them.
  bool make_room(size_t num_places) {
    if (num_places <= newest_.size() && num_places <= places_.capacity()) return true;
    size_t num_buckets = std::max(kFewestBuckets, newest_.size());
    while (num_buckets < num_places) num_buckets *= 2;
    const uint64_t bytes = num_buckets * (sizeof(int32_t) + sizeof(Place));
    if (memory_->used_bytes - counted_bytes_ + bytes > memory_->max_bytes) {
      clear();
      return false;
    }
    places_.reserve(num_buckets);
    newest_.assign(num_buckets, -1);
    memory_->used_bytes += bytes - counted_bytes_;
    counted_bytes_ = bytes;
    for (size_t place = 0; place < places_.size(); ++place) {
      int32_t& newest = newest_[bucket(places_[place].hash)];
      places_[place].previous = std::exchange(newest, static_cast<int32_t>(place));
    }
    return true;
  }

  void clear() {
    places_ = {};
    newest_ = {};
    memory_->used_bytes -= std::exchange(counted_bytes_, 0);
  }

  // Returns how many tokens before `end` equal the last ones of the history, at most kMaxMatch.
  static int32_t match_length(gsl::span<const TokenId> history, int32_t end) {
    int32_t length = 0;
    while (length < std::min(end, NgramDrafter::kMaxMatch) &&
           history[static_cast<size_t>(end - 1 - length)] ==
               history[history.size() - 1 - static_cast<size_t>(length)])
      ++length;
    return length;
  }

  std::shared_ptr<NgramDrafter::Memory> memory_;
  std::vector<Place> places_;    // by index of their first token
  std::vector<int32_t> newest_;  // of each bucket; -1: none. Their number is a power of two, or 0.
  uint64_t counted_bytes_ = 0;
};

}  // namespace

NgramDrafter::NgramDrafter(uint64_t max_bytes, uint64_t max_answer_bytes)
    : memory_(std::make_shared<Memory>()), answers_(max_answer_bytes) {
  memory_->max_bytes = max_bytes;
}

uint64_t NgramDrafter::memory_bytes() const {
  return memory_->used_bytes + answers_.memory_bytes();
}

namespace {

// Goes on as the text did after `next`; where it ends, with the proposal itself, as a loop would.
void continue_text(const DraftRequest& request, int32_t next) {
  const size_t num_left = request.history.size() - static_cast<size_t>(next);
  for (size_t i = 0; i < static_cast<size_t>(request.max_drafts); ++i) {
    request.drafts->push_back(i < num_left ? request.history[static_cast<size_t>(next) + i]
                                           : (*request.drafts)[i - num_left]);
  }
}

}  // namespace

// The text of the job itself decides if it has as many tokens in common.
void NgramDrafter::draft(gsl::span<const DraftRequest> requests) {
  for (const DraftRequest& request : requests) {
    if (*request.state == nullptr) *request.state = std::make_unique<NgramState>(memory_);
    auto& state = static_cast<NgramState&>(**request.state);
    Occurrence own;
    if (state.follow(request.history, request.num_unchanged)) own = state.find(request.history);
    const AnswerRing* const answers = answers_.find(request.name_space);
    const AnswerRing::Match other = answers != nullptr ? answers->find(request.history) : AnswerRing::Match();
    if (own.length > 0 && own.length >= other.length)
      continue_text(request, own.next);
    else if (other.length > 0)
      answers->read(other.next, request.max_drafts, *request.drafts);
  }
}

}  // namespace quire
