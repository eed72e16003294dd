// Options for speculative decoding, common to commands that generate.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include <CLI/CLI.hpp>
#include <quire/quire.hpp>

namespace quire::cli {

struct DraftingChoice {
  std::string drafter = "auto";       // auto, none or ngram
  std::optional<int32_t> max_drafts;  // empty leaves the library's default
};

// Adds --drafter and --max-drafts.
void add_drafting_options(CLI::App& app, DraftingChoice& choice);
void set_drafting(quire_cache_options* options, const DraftingChoice& choice);

}  // namespace quire::cli
