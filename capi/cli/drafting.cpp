#include "capi/cli/drafting.h"

#include <algorithm>
#include <array>
#include <filesystem>

#include "capi/cli/session.h"
#include "capi/cli/terminal.h"
#include "capi/hub/model_name.h"

namespace quire::cli {

namespace {

// Drafter that the options know by a name.
struct NamedDrafter {
  const char* name;
  int32_t kind;         // of the cache
  const char* network;  // of the model
};
constexpr std::array<NamedDrafter, 4> kDrafters = {{{"auto", QUIRE_DRAFTER_AUTO, "auto"},
                                                    {"none", QUIRE_DRAFTER_NONE, "none"},
                                                    {"ngram", QUIRE_DRAFTER_NGRAM, "none"},
                                                    {"mtp", QUIRE_DRAFTER_NETWORK, "mtp"}}};

// Returns the drafter of this name; nullptr if the text is the path or hub name of a draft network.
const NamedDrafter* find_drafter(const std::string& text) {
  const auto* const found = std::find_if(kDrafters.begin(), kDrafters.end(),
                                         [&](const NamedDrafter& drafter) { return drafter.name == text; });
  return found == kDrafters.end() ? nullptr : found;
}

// Returns why a text is no drafter; empty if it may be one.
std::string refusal_of(const std::string& text) {
  std::error_code ignored;
  if (find_drafter(text) != nullptr || std::filesystem::exists(text, ignored) ||
      hub::looks_like_model_name(text))
    return {};
  return "must be auto, none, ngram, mtp, or the path or hub name of a draft network, which \"" + text +
         "\" is not";
}

}  // namespace

CLI::Option* add_drafter_option(CLI::App& app, DraftingChoice& choice) {
  return app
      .add_option("--drafter", choice.drafter,
                  "What proposes tokens for a step to verify: a name, or the path or hub name of a draft "
                  "network; no answer depends on it")
      ->type_name("auto|none|ngram|mtp|DIR")
      ->check(CLI::Validator(refusal_of, "", "drafter"))
      ->capture_default_str();
}

void add_drafting_options(CLI::App& app, DraftingChoice& choice) {
  add_drafter_option(app, choice);
  app.add_option("--max-drafts", choice.max_drafts, "Proposed tokens of a step at most (default: 4)")
      ->type_name("N")
      ->check(in_range(1, 15));
}

bool names_network(const DraftingChoice& choice) {
  const NamedDrafter* const named = find_drafter(choice.drafter);
  return named == nullptr || named->kind == QUIRE_DRAFTER_NETWORK;
}

void set_draft_network(quire_model_options* options, const DraftingChoice& choice) {
  const NamedDrafter* const named = find_drafter(choice.drafter);
  const std::string network = named != nullptr ? named->network : find_model(choice.drafter);
  call(quire_model_options_set_drafter, options, network);
}

void set_drafting(quire_cache_options* options, const DraftingChoice& choice) {
  const NamedDrafter* const named = find_drafter(choice.drafter);
  call(quire_cache_options_set_drafter, options, named != nullptr ? named->kind : QUIRE_DRAFTER_NETWORK);
  if (choice.max_drafts) call(quire_cache_options_set_max_drafts, options, *choice.max_drafts);
}

std::string draft_network_text(quire_model* model) {
  const std::string name = text_of(quire_model_drafter, model);
  if (name.empty()) return {};
  return name + ", " + format_bytes(static_cast<double>(call(quire_model_drafter_bytes, model)));
}

}  // namespace quire::cli
