#include "capi/cli/drafting.h"

#include <algorithm>
#include <array>

#include "capi/cli/session.h"

namespace quire::cli {

namespace {

// By QUIRE_DRAFTER_*.
constexpr std::array<const char*, 3> kDrafters = {"auto", "none", "ngram"};

}  // namespace

void add_drafting_options(CLI::App& app, DraftingChoice& choice) {
  app.add_option("--drafter", choice.drafter,
                 "What proposes tokens for a step to verify; no answer depends on it")
      ->type_name("auto|none|ngram")
      ->check(CLI::IsMember({"auto", "none", "ngram"}))
      ->capture_default_str();
  app.add_option("--max-drafts", choice.max_drafts, "Proposed tokens of a step at most (default: 4)")
      ->type_name("N")
      ->check(in_range(1, 15));
}

void set_drafting(quire_cache_options* options, const DraftingChoice& choice) {
  const auto* const found = std::find(kDrafters.begin(), kDrafters.end(), choice.drafter);
  call(quire_cache_options_set_drafter, options, static_cast<int32_t>(found - kDrafters.begin()));
  if (choice.max_drafts) call(quire_cache_options_set_max_drafts, options, *choice.max_drafts);
}

}  // namespace quire::cli
