// A KV cache with a real model: runs sequences as the step loop does, and compares the logits of every token.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "core/engine/loop/freed_memory.h"
#include "core/engine/prefixes/prefix_store.h"
#include "core/kv/kv_cache.h"
#include "core/models/model.h"
#include "core/models/transformer_executor.h"

namespace quire::testing {

// Tokens, and the logits of a model for them, [tokens, vocabulary].
struct KnownText {
  TokenIds tokens;
  std::vector<float> logits;

  int32_t size() const { return static_cast<int32_t>(tokens.size()); }
  TokenIds first(int32_t num_tokens) const { return {tokens.begin(), tokens.begin() + num_tokens}; }
};

struct RigOptions {
  int32_t page_tokens = 16;
  int32_t num_pages = 0;
  int32_t max_sequences = 4;
  int32_t max_seq_len = 320;
  int32_t num_window_slots = 0;  // of each group of layers with a window; 0: they have pages like the others
  PrefixStoreOptions prefixes;
  const FileSystem* files = &posix_file_system();
};

// Slots and pages that no sequence and no prefix has are filled with NaN after each step.
class ModelCacheRig {
 public:
  ModelCacheRig(const std::shared_ptr<const Model>& model, const RigOptions& options);

  // Sequence of a step, which becomes the first num_tokens tokens of a text, or a part of them.
  struct Feed {
    SequenceId sequence;
    const KnownText* text = nullptr;
    int32_t num_tokens = 0;
    TokenIds drafts;  // after those, all rejected
  };
  // Runs one step with at most `most` tokens of each feed. Returns the number of tokens that were found.
  int32_t step(const std::vector<Feed>& feeds, int32_t most);
  // Runs steps until the sequence has the first num_tokens tokens of the text.
  int32_t compute(SequenceId sequence, const KnownText& text, int32_t num_tokens, int32_t most);
  // Runs a text as a job that ends: in a sequence of its own.
  int32_t run(const KnownText& text, int32_t most);
  // Finds or loads the prefix of a text that waits, as the engine does before it plans a step.
  void reload(const KnownText& text) { kv_->reload_prefix(PrefixDomain{}, text.tokens); }
  // Writes pages and snapshots to files, as a cache that closes does.
  void close();

  KvCache& kv() { return *kv_; }
  bool has_windows() const { return !executor_->limits().windows.empty(); }
  int64_t num_different_rows() const { return num_different_rows_; }
  int64_t num_rows() const { return num_rows_; }

 private:
  class NoListener final : public PageListener {
   public:
    void stored(const PageName&, PageMedium, gsl::span<const TokenId>) noexcept override {}
    void removed(const PageName&, PageMedium) noexcept override {}
  };

  void compare(const PlannedLane& lane, const Feed& feed, const Drawn& drawn);

  std::unique_ptr<TransformerExecutor> executor_;
  Log log_;
  NoListener listener_;
  std::unique_ptr<PrefixStore> store_;
  std::unique_ptr<KvCache> kv_;
  std::optional<FreedMemory> freed_memory_;
  Batch batch_;
  int64_t num_different_rows_ = 0;
  int64_t num_rows_ = 0;
};

}  // namespace quire::testing
