// quire constrain: checks texts against a constraint, token by token.
#include <fstream>
#include <iostream>
#include <iterator>
#include <optional>

#include "capi/cli/commands.h"
#include "capi/cli/failure.h"
#include "capi/cli/input.h"
#include "capi/cli/terminal.h"

namespace quire::cli {
namespace {

struct ConstrainOptions {
  ModelChoice model;
  std::optional<std::string> schema_file;
  std::optional<std::string> pattern;
  std::optional<std::string> grammar_file;
  std::optional<std::string> lark_file;
};

struct Source {
  int32_t kind;
  std::string text;
};

std::string read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw Failure(kExitFailed, path + ": cannot be read");
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

Source source_of(const ConstrainOptions& options) {
  if (options.schema_file) return {QUIRE_CONSTRAINT_JSON_SCHEMA, read_file(*options.schema_file)};
  if (options.pattern) return {QUIRE_CONSTRAINT_REGEX, *options.pattern};
  if (options.grammar_file) return {QUIRE_CONSTRAINT_GBNF, read_file(*options.grammar_file)};
  return {QUIRE_CONSTRAINT_LARK, read_file(*options.lark_file)};
}

bool lets_through(quire_model* model, quire_constraint* constraint, const std::string& text) {
  const Matcher matcher(call(quire_matcher_create, constraint));
  for (const int32_t token : encode(model, text, false, false)) {
    if (call(quire_matcher_accept, matcher.get(), token) == 0) return false;
  }
  return call(quire_matcher_may_end, matcher.get()) == 1;
}

int constrain(const ConstrainOptions& options, Interrupt& interrupt) {
  const Source source = source_of(options);
  const Runtime runtime = open_runtime(options.model);
  const Model model = load_model(runtime.get(), options.model, QUIRE_MODEL_SCOPE_TOKENIZER, interrupt);
  const Constraint constraint(call(quire_constraint_create, model.get(), source.kind, source.text));
  LineReader reader(interrupt);
  std::string line;
  for (size_t number = 1; reader.next(line); ++number) {
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    const Json text = Json::parse(line, nullptr, false);
    if (!text.is_string()) {
      throw Failure(kExitFailed, "standard input, line " + std::to_string(number) + ": not a JSON string");
    }
    print_json(lets_through(model.get(), constraint.get(), text.get<std::string>()));
  }
  return interrupt.requested() ? interrupt.exit_code() : kExitOk;
}

constexpr const char* kConstrainExamples =
    R"(Reads one JSON string per line and writes true or false per line: true if the constraint accepts all tokens
of the text and the text may end there.

Examples:
  echo '"{\"a\": 1}"' | quire constrain --schema schema.json
  jq -c .text data.jsonl | quire constrain --regex '[a-z]+' --model tokenizer.json
)";

}  // namespace

Command add_constrain(CLI::App& root) {
  auto options = std::make_shared<ConstrainOptions>();
  CLI::App* app = root.add_subcommand("constrain", "Check texts against a schema, a pattern or a grammar");
  app->footer(kConstrainExamples);
  add_model_options(*app, options->model);
  app->get_option("--model")->description(
      "Model directory, GGUF file or tokenizer.json (default: the embedded model)");
  CLI::Option_group* sources = app->add_option_group("constraint");
  sources->add_option("--schema", options->schema_file, "File with a JSON Schema");
  sources->add_option("--regex", options->pattern, "Regular expression that the whole text must match");
  sources->add_option("--grammar", options->grammar_file,
                      "File with a grammar in llama.cpp's notation (GBNF)");
  sources->add_option("--lark", options->lark_file, "File with a grammar in Lark's notation");
  sources->require_option(1);
  return {app, [options](Interrupt& interrupt) { return constrain(*options, interrupt); }};
}

}  // namespace quire::cli
