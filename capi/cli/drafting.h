// Options for speculative decoding, common to commands that generate or plan.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include <CLI/CLI.hpp>
#include <quire/quire.hpp>

namespace quire::cli {

struct DraftingChoice {
  std::string drafter = "auto";       // auto, none, ngram, mtp, or the path or hub name of a draft network
  std::optional<int32_t> max_drafts;  // empty leaves the library's default
};

// Adds --drafter, whose default is the present value. Returns it.
CLI::Option* add_drafter_option(CLI::App& app, DraftingChoice& choice);
// Adds --drafter and --max-drafts.
void add_drafting_options(CLI::App& app, DraftingChoice& choice);

// True if the drafter is a draft network that a model must have: mtp, a path or a hub name.
bool names_network(const DraftingChoice& choice);

// Sets the draft network that is loaded with the model: none for a drafter without one. Throws Failure with
// kExitNoModel if the drafter is a name of a hub and the cache lacks it.
void set_draft_network(quire_model_options* options, const DraftingChoice& choice);
void set_drafting(quire_cache_options* options, const DraftingChoice& choice);

// Returns the draft network of a model and its size; empty if it has none.
std::string draft_network_text(quire_model* model);

}  // namespace quire::cli
