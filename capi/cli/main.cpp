// The `quire` command: parses the command line, runs one subcommand, and turns any failure into one line and
// an exit code.
#include <algorithm>
#include <csignal>
#include <cstdio>
#include <exception>

#include "capi/cli/commands.h"
#include "capi/cli/failure.h"
#include "capi/cli/terminal.h"
#include "capi/hub/error.h"

namespace quire::cli {
namespace {

constexpr const char* kFooter = R"(Environment:
  QUIRE_MODEL   model if --model is not given
  HF_HOME       folder of models from a hub (default: ~/.cache/huggingface); they are in its folder hub
  HF_ENDPOINT   address of the hub (default: https://huggingface.co)
  HF_TOKEN      token of the hub, for private and gated models
  HF_HUB_OFFLINE  1 forbids requests to the hub

Exit codes:
  0    done
  1    a failure at run time
  2    the command line, or a value in it, is wrong
  3    the model cannot be loaded
  130  interrupted (128 plus the number of the signal)
  141  standard output was closed by its reader

Every failure is one line on standard error that begins with "quire: ". `quire COMMAND --help` describes a command.
)";

std::string one_line(std::string text) {
  for (char& c : text) {
    if (c == '\n' || c == '\r') c = ' ';
  }
  return text;
}

int fail(int exit_code, const std::string& message) {
  if (!message.empty()) note("quire: " + one_line(message));
  return exit_code;
}

int fail_in_library(const Error& error, const Interrupt& interrupt) {
  if (error.code() == QUIRE_ERROR_CANCELLED && interrupt.requested()) {
    return fail(interrupt.exit_code(), "interrupted");
  }
  return fail(error.code() == QUIRE_ERROR_INVALID_ARGUMENT ? kExitUsage : kExitFailed, error.what());
}

int fail_at_hub(const hub::HubError& error, const Interrupt& interrupt) {
  switch (error.problem()) {
    case hub::Problem::usage:
      return fail(kExitUsage, error.what());
    case hub::Problem::absent:
      return fail(kExitNoModel, error.what());
    case hub::Problem::interrupted:
      return fail(interrupt.exit_code(), error.what());
    case hub::Problem::failed:
      break;
  }
  return fail(kExitFailed, error.what());
}

int run(const Command& command) {
  Interrupt interrupt;
  try {
    return command.run(interrupt);
  } catch (const Failure& failure) {
    return fail(failure.exit_code(), failure.what());
  } catch (const Error& error) {
    return fail_in_library(error, interrupt);
  } catch (const hub::HubError& error) {
    return fail_at_hub(error, interrupt);
  } catch (const std::bad_alloc&) {
    return fail(kExitFailed, "out of memory");
  } catch (const std::exception& error) {
    return fail(kExitFailed, error.what());
  }
}

// Returns the message for a wrong command line. It names an unknown command first; CLI11 would only report a
// missing one.
std::string parse_problem(const CLI::App& app, const CLI::ParseError& error, int argc, char** argv) {
  const std::string first = argc > 1 ? argv[1] : "";
  const auto commands = app.get_subcommands([](const CLI::App*) { return true; });
  const bool known = std::any_of(commands.begin(), commands.end(),
                                 [&](const CLI::App* command) { return command->get_name() == first; });
  if (first.empty()) return "no command given; quire --help lists the commands";
  if (!known && first[0] != '-') return "unknown command \"" + first + "\"; quire --help lists the commands";
  if (!known) return first + ": not allowed before a command; quire --help lists the commands";
  return std::string(error.what()) + "; see quire " + first + " --help";
}

int parse_and_run(int argc, char** argv) {
  CLI::App app("Runs large language models on this machine.", "quire");
  app.footer(kFooter);
  app.require_subcommand(1);
  app.set_version_flag("--version", std::string("quire ") + quire_version_string());
  const Command commands[] = {add_generate(app),   add_chat(app),      add_score(app),    add_tokenize(app),
                              add_detokenize(app), add_constrain(app), add_parse(app),    add_render(app),
                              add_inspect(app),    add_plan(app),      add_diagnose(app), add_bench(app),
                              add_pull(app),       add_models(app),    add_stage(app)};
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& success) {  // --help, --version
    return app.exit(success);
  } catch (const CLI::ParseError& error) {
    return fail(kExitUsage, parse_problem(app, error, argc, argv));
  }
  for (const Command& command : commands) {
    if (app.got_subcommand(command.app)) return run(command);
  }
  return kExitUsage;
}

}  // namespace
}  // namespace quire::cli

int main(int argc, char** argv) {
  std::signal(SIGPIPE, SIG_IGN);  // a reader that closed the pipe becomes a write error
  try {
    quire::call(quire_abi_check, QUIRE_ABI_MAJOR, QUIRE_ABI_MINOR);
    return quire::cli::parse_and_run(argc, argv);
  } catch (const std::exception& error) {
    return quire::cli::fail(quire::cli::kExitFailed, error.what());
  }
}
