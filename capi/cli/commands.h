// Functions that register the subcommands, each in a file of its own.
#pragma once

#include "capi/cli/session.h"

namespace quire::cli {

Command add_generate(CLI::App& root);
Command add_chat(CLI::App& root);
Command add_score(CLI::App& root);
Command add_tokenize(CLI::App& root);
Command add_detokenize(CLI::App& root);
Command add_constrain(CLI::App& root);
Command add_parse(CLI::App& root);
Command add_render(CLI::App& root);
Command add_inspect(CLI::App& root);
Command add_plan(CLI::App& root);
Command add_diagnose(CLI::App& root);
Command add_bench(CLI::App& root);
Command add_pull(CLI::App& root);
Command add_models(CLI::App& root);
Command add_stage(CLI::App& root);

}  // namespace quire::cli
