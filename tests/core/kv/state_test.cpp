// Slots of recurrent states: checked by rules, and against a memory that keeps the state as kernels do.
#include <algorithm>
#include <map>
#include <numeric>
#include <random>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "core/base/error.h"
#include "core/kv/kv_cache.h"
#include "tests/support/case_stride.h"
#include "tests/support/state_memory.h"

namespace quire {
namespace {

using testing::state_of;
using testing::StateMemory;

TokenIds counting(TokenId first, int32_t count) {
  TokenIds tokens(static_cast<size_t>(count));
  std::iota(tokens.begin(), tokens.end(), first);
  return tokens;
}

KvCacheOptions options_of(int32_t page_tokens, int32_t num_pages, int32_t num_slots) {
  KvCacheOptions options{{num_pages, page_tokens, 64}, 64, 8, {}};
  options.num_state_slots = num_slots;
  return options;
}

// A cache with a memory of states. Each step is checked token by token.
class Model {
 public:
  explicit Model(const KvCacheOptions& options) : kv(options), memory(options.num_state_slots) {}

  struct Feed {
    SequenceId sequence;
    TokenIds tokens;         // known ones, then candidates
    int32_t num_prompt = 0;  // 0: all known ones
    int32_t num_candidates = 0;
    int32_t num_accepted = -1;  // of the computed tokens; -1: all
  };
  enum class Ending { commit, fails, never_runs };

  // Runs one step over all feeds. Returns the number of tokens found in the cache.
  int32_t step(const std::vector<Feed>& feeds, int32_t most, Ending ending = Ending::commit) {
    std::vector<Lane> lanes(feeds.size());
    StepPlan plan;
    for (size_t i = 0; i < feeds.size(); ++i) {
      lanes[i].tokens = feeds[i].tokens;
      lanes[i].num_candidates = feeds[i].num_candidates;
      const int32_t known = static_cast<int32_t>(feeds[i].tokens.size()) - feeds[i].num_candidates;
      lanes[i].num_prompt_tokens = feeds[i].num_prompt > 0 ? feeds[i].num_prompt : known;
      lanes[i].sequence = feeds[i].sequence;
      plan.lanes.emplace_back();
      plan.lanes[i].lane = &lanes[i];
      plan.lanes[i].max_tokens = most;
    }
    Reservation reservation = kv.reserve(plan);
    if (ending == Ending::never_runs) return 0;
    for (const StateCopy& copy : reservation.state_copies()) memory.copy(copy.source, copy.target);
    int32_t found = 0;
    for (size_t i = 0; i < feeds.size(); ++i) found += run(plan.lanes[i], lanes[i].tokens);
    if (ending == Ending::fails) return 0;
    for (size_t i = 0; i < feeds.size(); ++i) {
      const int32_t accepted = feeds[i].num_accepted;
      plan.lanes[i].num_accepted = accepted < 0 ? plan.lanes[i].num_tokens : accepted;
    }
    reservation.commit();
    EXPECT_EQ(kv.audit(), "");
    poison_free_slots();
    return found;
  }

  // Computes the missing tokens, `most` at a time. Returns the number of tokens found in the cache.
  int32_t compute(SequenceId sequence, const TokenIds& tokens, int32_t most) {
    int32_t found = 0;
    while (kv.length(sequence) < static_cast<int32_t>(tokens.size()))
      found += step({{sequence, tokens}}, most);
    return found;
  }

  KvCache kv;
  StateMemory memory;

 private:
  int32_t run(const PlannedLane& lane, const TokenIds& tokens) {
    std::vector<uint64_t> states;
    const auto all = gsl::span<const TokenId>(tokens);
    memory.run(lane.state_slot, lane.state_bank, lane.start,
               all.subspan(static_cast<size_t>(lane.start), static_cast<size_t>(lane.num_tokens)), states);
    for (int32_t i = 0; i < lane.num_tokens; ++i)
      EXPECT_EQ(states[static_cast<size_t>(i)], state_of(all.first(static_cast<size_t>(lane.start + i + 1))))
          << "token " << lane.start + i;
    return lane.num_found_tokens;
  }

  void poison_free_slots() {
    for (int32_t slot = 0; slot < kv.states().num_slots(); ++slot)
      if (!kv.states().is_used(slot) && !kv.states().is_snapshot(slot)) memory.poison(slot);
  }
};

TEST(States, ASequenceContinuesAfterChunksOfAnySize) {
  for (const int32_t most : {1, 3, 15, 16, 17, 31, 64, 200}) {
    Model model(options_of(8, 64, 2));
    const SequenceId sequence = model.kv.create({});
    model.compute(sequence, counting(1, 130), most);
    EXPECT_EQ(model.kv.states().num_used(), 1);
    model.kv.destroy(sequence);
    EXPECT_EQ(model.kv.states().num_used(), 0);
  }
}

TEST(States, LengthsAroundEveryLineContinue) {
  for (int32_t length = 1; length <= 130; ++length) {
    Model model(options_of(16, 64, 3));
    const SequenceId sequence = model.kv.create({});
    model.compute(sequence, counting(1, length), 64);
    model.compute(sequence, counting(1, length + 20), 1);
    const SequenceId again = model.kv.create({});
    const int32_t found = model.compute(again, counting(1, length + 30), 50);
    EXPECT_EQ(found, (length + 19) / 16 * 16) << "the snapshot before the end of the longer prompt";
  }
}

TEST(States, WithoutASnapshotNothingIsFound) {
  Model model(options_of(8, 64, 2));
  SequenceOptions options;
  options.publish = false;
  const SequenceId first = model.kv.create(options);
  model.compute(first, counting(1, 100), 100);
  const SequenceId second = model.kv.create({});
  EXPECT_EQ(model.kv.demand(second, counting(1, 100)).found_tokens, 0);
  EXPECT_EQ(model.compute(second, counting(1, 100), 100), 0);
}

TEST(States, TheNextTurnFindsTheEndOfTheLast) {
  Model model(options_of(256, 16, 4));
  const SequenceId first = model.kv.create({});
  model.compute(first, counting(1, 70), 64);
  for (int32_t length = 71; length <= 100; ++length) model.step({{first, counting(1, length), 70}}, 1);
  model.kv.destroy(first);
  const SequenceId second = model.kv.create({});
  EXPECT_EQ(model.compute(second, counting(1, 150), 64), 96) << "100 tokens, on the line before";
}

TEST(States, ASnapshotIsNotChangedByTheSequenceThatMadeIt) {
  Model model(options_of(8, 64, 4));
  const SequenceId first = model.kv.create({});
  model.compute(first, counting(1, 40), 40);
  TokenIds longer = counting(1, 40);
  for (int32_t i = 0; i < 60; ++i) {
    longer.push_back(500 + i);
    model.step({{first, longer, 40}}, 1);
  }
  const SequenceId second = model.kv.create({});
  EXPECT_EQ(model.compute(second, counting(1, 90), 7), 32);
}

TEST(States, AForkCopiesTheStateWhenItWrites) {
  Model model(options_of(8, 64, 4));
  const SequenceId parent = model.kv.create({});
  model.compute(parent, counting(1, 45), 45);
  const SequenceId child = model.kv.fork(parent);
  TokenIds one = counting(1, 45), other = one;
  for (int32_t i = 0; i < 40; ++i) {
    one.push_back(100 + i);
    other.push_back(200 + i);
    model.step({{parent, one, 45}, {child, other, 45}}, 1);
  }
  EXPECT_EQ(model.kv.states().num_used(), 2);
}

TEST(States, AShorterForkReadsItsOwnRowsWhileTheOtherWrites) {
  for (const bool parent_first : {false, true}) {
    Model model(options_of(8, 64, 2));
    const SequenceId parent = model.kv.create({});
    model.compute(parent, counting(1, 45), 45);
    const SequenceId child = model.kv.fork(parent);
    model.kv.truncate(child, 41);
    TokenIds one = counting(1, 45), other = counting(1, 41);
    one.push_back(100);
    other.insert(other.end(), {201, 202, 203});
    std::vector<Model::Feed> feeds = {{child, other, 41}, {parent, one, 45}};
    if (parent_first) std::swap(feeds[0], feeds[1]);
    model.step(feeds, 8);
    model.compute(parent, one, 1);
  }
}

TEST(States, ARewindWithinTwoLinesKeepsTheTokensAndOneBelowBeginsAgain) {
  Model model(options_of(8, 64, 2));
  SequenceOptions options;
  options.publish = false;
  const SequenceId sequence = model.kv.create(options);
  for (int32_t length = 1; length <= 70; ++length) model.step({{sequence, counting(1, length), 1}}, 1);
  model.kv.truncate(sequence, 50);
  EXPECT_EQ(model.kv.length(sequence), 50);
  TokenIds tokens = counting(1, 50);
  for (int32_t i = 0; i < 40; ++i) tokens.push_back(300 + i);
  model.compute(sequence, tokens, 5);
  model.kv.truncate(sequence, 20);
  EXPECT_EQ(model.kv.length(sequence), 0) << "no snapshot, so nothing is left";
  model.compute(sequence, counting(1, 80), 64);
}

TEST(States, ARewindBelowTheLinesContinuesFromASnapshot) {
  Model model(options_of(8, 64, 3));
  const SequenceId sequence = model.kv.create({});
  model.compute(sequence, counting(1, 40), 40);
  for (int32_t length = 41; length <= 100; ++length) model.step({{sequence, counting(1, length), 40}}, 1);
  model.kv.truncate(sequence, 39);
  EXPECT_EQ(model.kv.length(sequence), 32);
  model.compute(sequence, counting(1, 90), 9);
}

TEST(States, RejectedDraftsAreOverwritten) {
  for (int32_t drafts = 1; drafts <= 40; ++drafts) {
    Model model(options_of(8, 64, 2));
    const SequenceId sequence = model.kv.create({});
    for (int32_t length = 20; length <= 60; ++length) {
      TokenIds tokens = counting(1, length);
      const int32_t missing = length - model.kv.length(sequence);
      for (int32_t i = 0; i < drafts; ++i) tokens.push_back(700 + i);
      model.step({{sequence, tokens, 20, drafts, missing}}, 200);
      EXPECT_LE(model.kv.length(sequence), length);
    }
  }
}

TEST(States, AFailedStepCanRunAgain) {
  for (const Model::Ending ending : {Model::Ending::fails, Model::Ending::never_runs}) {
    for (int32_t most = 1; most <= 70; ++most) {
      Model model(options_of(8, 64, 2));
      const SequenceId sequence = model.kv.create({});
      while (model.kv.length(sequence) < 100) {
        const int32_t before = model.kv.length(sequence);
        model.step({{sequence, counting(1, 100)}}, most, ending);
        EXPECT_EQ(model.kv.length(sequence), before) << "the step may begin where it began";
        model.step({{sequence, counting(1, 100)}}, most);
      }
    }
  }
}

TEST(States, AllSlotsInUseAreAnErrorThatNamesThem) {
  Model model(options_of(8, 64, 1));
  const SequenceId first = model.kv.create({}), second = model.kv.create({});
  model.step({{first, counting(1, 10)}}, 10);
  EXPECT_THROW(model.step({{second, counting(5, 10)}}, 10), Error);
  EXPECT_EQ(model.kv.audit(), "");
  model.kv.destroy(first);
  model.step({{second, counting(5, 10)}}, 10);
}

// If no slot is free, a sequence takes one that holds a snapshot.
TEST(States, WithOneSlotForEachSequenceNoStepLacksOne) {
  Model model(options_of(8, 256, 3));
  std::vector<SequenceId> sequences;
  for (int32_t i = 0; i < 3; ++i) sequences.push_back(model.kv.create({}));
  for (int32_t length = 20; length < 90; ++length) {
    std::vector<Model::Feed> feeds;
    for (int32_t i = 0; i < 3; ++i)
      feeds.push_back({sequences[static_cast<size_t>(i)], counting(1, length), 20});
    model.step(feeds, 64);
  }
}

TEST(States, SnapshotsOfEvictedPagesAreForgotten) {
  Model model(options_of(8, 8, 2));
  const SequenceId first = model.kv.create({});
  model.compute(first, counting(1, 40), 40);
  model.kv.destroy(first);
  EXPECT_EQ(model.kv.states().num_snapshots(), 1);
  const SequenceId second = model.kv.create({{"other", 0}, true, false});
  model.compute(second, counting(300, 60), 60);
  EXPECT_EQ(model.kv.demand(PrefixDomain{}, counting(1, 40)).found_tokens, 0);
}

TokenIds joined(TokenIds one, const TokenIds& other) {
  one.insert(one.end(), other.begin(), other.end());
  return one;
}

// The second of two prompts that part leaves a snapshot there, for all that follow.
TEST(States, ThePlaceWherePromptsPartGetsASnapshot) {
  for (const int32_t page_tokens : {5, 8, 16, 64, 256}) {
    for (const int32_t common : {16, 31, 100, 128, 129}) {
      Model model(options_of(page_tokens, 2000 / page_tokens + 8, 6));
      const TokenIds system = counting(1, common);
      const auto ask = [&](TokenId first, int32_t most) {
        const SequenceId sequence = model.kv.create({});
        const int32_t found = model.compute(sequence, joined(system, counting(first, 60)), most);
        model.kv.destroy(sequence);
        return found;
      };
      EXPECT_EQ(ask(1000, 500), 0);
      EXPECT_EQ(ask(2000, 500), 0) << "only its snapshot at the end is there, beyond the common tokens";
      EXPECT_EQ(ask(3000, 500), common / 16 * 16) << page_tokens << " " << common;
      EXPECT_EQ(ask(4000, 7), common / 16 * 16);
    }
  }
}

TEST(States, APromptThatIsNotPublishedLeavesNoSnapshotWhereItParts) {
  Model model(options_of(8, 200, 6));
  const auto ask = [&](TokenId first, bool publish) {
    SequenceOptions options;
    options.publish = publish;
    const SequenceId sequence = model.kv.create(options);
    const int32_t found = model.compute(sequence, joined(counting(1, 64), counting(first, 60)), 500);
    model.kv.destroy(sequence);
    return found;
  };
  ask(1000, true);
  ask(2000, false);
  EXPECT_EQ(ask(3000, true), 0);
  EXPECT_EQ(ask(4000, true), 64);
}

// Runs a prompt to its end. Returns the number of tokens that were found.
int32_t run(Model& model, const TokenIds& tokens) {
  const SequenceId sequence = model.kv.create({});
  const int32_t found = model.compute(sequence, tokens, 500);
  model.kv.destroy(sequence);
  return found;
}

// Returns how many tokens of a prompt would be found.
int32_t found(const Model& model, const TokenIds& tokens) {
  return model.kv.demand(PrefixDomain{}, tokens).found_tokens;
}

TEST(States, ASnapshotThatSavesMoreTokensOutlivesOnesThatSaveFew) {
  Model model(options_of(8, 400, 3));
  const TokenIds longest = counting(1, 400);
  run(model, longest);
  for (TokenId first = 1000; first < 3000; first += 100) run(model, counting(first, 20));
  EXPECT_EQ(found(model, longest), 384) << "short prompts save few tokens";
  for (TokenId first = 3000; first < 9000; first += 100) run(model, counting(first, 20));
  EXPECT_EQ(found(model, longest), 0) << "in the end it is dropped like any other that is not used";
}

TEST(States, AnOlderTurnIsDroppedBeforeTheOnlySnapshotOfAnotherPrompt) {
  Model model(options_of(8, 400, 4));
  const TokenIds other = counting(1000, 200);
  run(model, other);
  TokenIds turns = counting(1, 200);
  for (int32_t turn = 0; turn < 8; ++turn) {
    run(model, turns);
    turns = joined(turns, counting(300 + turn * 40, 40));
  }
  EXPECT_EQ(found(model, other), 192);
  EXPECT_EQ(found(model, turns), 464) << "the last turn";
}

// A pool without a cache around it.
class RatedSnapshots {
 public:
  StatePool pool{{5}, 8};
  int32_t freeze(int32_t position, uint64_t parent, int32_t before) {
    const int32_t slot = pool.take();
    pool.record(slot, 0, position + 1);
    pool.freeze(slot, {ContentId{parent}, position, {}}, before);
    pool.leave(slot);
    return slot;
  }
};

TEST(States, AFollowedSnapshotIsDroppedFirstUntilPromptsPartAtIt) {
  RatedSnapshots snapshots;
  StatePool& pool = snapshots.pool;
  const int32_t first = snapshots.freeze(160, 1, -1);
  const int32_t other = snapshots.freeze(96, 2, -1);
  EXPECT_EQ(pool.next_dropped(), -1) << "there are free slots";
  const int32_t second = snapshots.freeze(176, 3, first);
  snapshots.freeze(240, 4, -1);
  snapshots.freeze(320, 5, -1);
  EXPECT_EQ(pool.next_dropped(), first);
  pool.touch(first);
  EXPECT_EQ(pool.next_dropped(), second) << "it saves 16 tokens";
  pool.thaw(first);
  pool.use(first);
  EXPECT_EQ(pool.next_dropped(), other) << "the second now saves 176 tokens, this one 96";
}

TEST(States, ASnapshotHasItsWorthAgainWhenTheNextOneIsDropped) {
  RatedSnapshots snapshots;
  StatePool& pool = snapshots.pool;
  const int32_t first = snapshots.freeze(160, 1, -1);
  const int32_t second = snapshots.freeze(176, 2, first);
  const int32_t third = snapshots.freeze(192, 3, first);
  const int32_t other = snapshots.freeze(96, 4, -1);
  snapshots.freeze(240, 5, -1);
  pool.thaw(second);
  pool.use(second);
  EXPECT_EQ(pool.next_dropped(), first) << "the third follows it";
  pool.thaw(third);
  pool.use(third);
  EXPECT_EQ(pool.next_dropped(), other);
}

TEST(States, APinKeepsTheSnapshotAndThePageOfItsLastTokens) {
  for (const int32_t page_tokens : {5, 8, 64}) {
    KvCacheOptions options = options_of(page_tokens, 200 / page_tokens + 2, 4);
    options.max_sequences = 2;
    Model model(options);
    const TokenIds pinned = counting(1, 90);
    run(model, pinned);
    const PinnedPrefix pin = model.kv.pin({}, pinned, 100);
    EXPECT_EQ(pin.pages.size(), static_cast<size_t>(pages_for(80, page_tokens)));
    EXPECT_GE(pin.state_slot, 0);
    for (TokenId first = 1000; first < 3000; first += 100) run(model, counting(first, 64));
    EXPECT_EQ(model.kv.audit(), "");
    EXPECT_EQ(run(model, joined(pinned, counting(500, 9))), 80) << page_tokens;
    model.kv.unpin(pin);
    EXPECT_EQ(model.kv.audit(), "");
    EXPECT_EQ(model.kv.states().num_used(), 0);
  }
}

TEST(States, PinsLeaveASlotToEverySequence) {
  KvCacheOptions options = options_of(8, 400, 5);
  options.max_sequences = 3;
  Model model(options);
  std::vector<PinnedPrefix> pins;
  for (TokenId first = 0; first < 2000; first += 1000) {
    run(model, counting(first + 1, 40));
    pins.push_back(model.kv.pin({}, counting(first + 1, 40), 100));
  }
  pins.push_back(model.kv.pin({}, counting(1, 40), 100));
  run(model, counting(5000, 40));
  EXPECT_THROW(model.kv.pin({}, counting(5000, 40), 100), Error);
  EXPECT_EQ(model.kv.audit(), "");
  std::vector<SequenceId> sequences;
  std::vector<TokenIds> prompts;
  for (TokenId i = 0; i < 3; ++i) {
    sequences.push_back(model.kv.create({}));
    prompts.push_back(joined(counting(i < 2 ? 1 : 1001, 40), counting(7000 + 100 * i, 20)));
  }
  for (int32_t step = 0; step < 4; ++step) {
    std::vector<Model::Feed> feeds;
    for (size_t i = 0; i < 3; ++i)
      if (model.kv.length(sequences[i]) < 60) feeds.push_back({sequences[i], prompts[i]});
    if (!feeds.empty()) model.step(feeds, 9);
  }
  for (const PinnedPrefix& pin : pins) model.kv.unpin(pin);
  EXPECT_EQ(model.kv.audit(), "");
}

// Random schedules: chunks, drafts, failures, forks, rewinds, ends and hits.
TEST(States, RandomSchedulesKeepEveryState) {
  for (int32_t seed = 0; seed < 200; seed += testing::stride_if_sanitized(10)) {
    std::mt19937 random(static_cast<uint32_t>(seed));
    const auto below = [&](int32_t limit) {
      return static_cast<int32_t>(random() % static_cast<uint32_t>(limit));
    };
    const int32_t page_tokens = 1 + below(20);
    KvCacheOptions options = options_of(page_tokens, 1600, 4 + below(6));
    if (below(3) == 0) options.windows = {{1 + below(30), 1600}};
    options.max_pages_per_sequence = 400;
    Model model(options);
    std::map<uint64_t, TokenIds> sequences;
    const auto tokens_after = [&](TokenIds tokens, int32_t count) {
      while (count-- > 0) tokens.push_back(below(2));
      return tokens;
    };
    for (int32_t event = 0; event < 120; ++event) {
      if (sequences.empty() || (sequences.size() < 4 && below(4) == 0)) {
        const SequenceId added = sequences.empty() || below(2) == 0
                                     ? model.kv.create({})
                                     : model.kv.fork(SequenceId{sequences.begin()->first});
        sequences[added.value] = model.kv.length(added) > 0 ? sequences.begin()->second : TokenIds();
        sequences[added.value].resize(static_cast<size_t>(model.kv.length(added)));
      }
      auto chosen = sequences.begin();
      std::advance(chosen, below(static_cast<int32_t>(sequences.size())));
      const SequenceId id{chosen->first};
      const int32_t kind = below(12);
      if (kind == 0) {
        model.kv.destroy(id);
        sequences.erase(chosen);
        continue;
      }
      if (kind == 1 && model.kv.length(id) > 0) {
        model.kv.truncate(id, below(model.kv.length(id)));
        chosen->second.resize(static_cast<size_t>(model.kv.length(id)));
        continue;
      }
      std::vector<Model::Feed> feeds;
      for (auto& [sequence, tokens] : sequences) {
        if (tokens.size() > 250 || (sequence != id.value && below(2) == 0)) continue;
        const auto length = static_cast<size_t>(model.kv.length(SequenceId{sequence}));
        if (tokens.size() == length) tokens = tokens_after(tokens, 1 + below(below(2) == 0 ? 2 : 60));
        Model::Feed feed{SequenceId{sequence}, tokens, static_cast<int32_t>(tokens.size())};
        if (below(4) == 0) {
          feed.num_candidates = 1 + below(30);
          feed.num_accepted = static_cast<int32_t>(tokens.size() - length);
          feed.tokens = tokens_after(tokens, feed.num_candidates);
        }
        if (feed.num_candidates > 0 && length == 0) continue;  // it may find more tokens than it has now
        feeds.push_back(feed);
      }
      if (feeds.empty()) continue;
      const bool has_drafts =
          std::any_of(feeds.begin(), feeds.end(), [](const auto& feed) { return feed.num_candidates > 0; });
      const int32_t most = has_drafts ? 500 : 1 + below(80);
      if (!has_drafts && below(6) == 0)
        model.step(feeds, most, below(2) == 0 ? Model::Ending::fails : Model::Ending::never_runs);
      model.step(feeds, most);
      ASSERT_FALSE(HasFailure()) << "seed " << seed;
    }
  }
}

}  // namespace
}  // namespace quire
