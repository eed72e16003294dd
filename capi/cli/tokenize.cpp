// quire tokenize and quire detokenize: convert between texts and token ids, as JSON lines.
#include <functional>
#include <optional>

#include "capi/cli/commands.h"
#include "capi/cli/failure.h"
#include "capi/cli/input.h"
#include "capi/cli/terminal.h"

namespace quire::cli {
namespace {

struct TokenizeOptions {
  ModelChoice model;
  std::optional<std::string> argument;  // replaces standard input
  bool no_special = false;
  bool plain = false;
};

using Convert = std::function<Json(const std::string& input, const std::string& where)>;

// Converts line by line, so that the command can serve a pipe without waiting for its end.
void convert_lines(const Convert& convert, bool as_one_object, const Interrupt& interrupt) {
  Json results = Json::array();
  LineReader reader(interrupt);
  std::string line;
  for (size_t number = 1; reader.next(line); ++number) {
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    Json result = convert(line, "standard input, line " + std::to_string(number));
    if (as_one_object) {
      results.push_back(std::move(result));
    } else {
      print_json(result);
    }
  }
  if (as_one_object) print_json({{"results", std::move(results)}});
}

void convert_argument(const TokenizeOptions& options, const Convert& convert) {
  const Json result = convert(*options.argument, "the argument");
  print_json(options.model.json ? Json{{"results", Json::array({result})}} : result);
}

int tokenize(const TokenizeOptions& options, Interrupt& interrupt) {
  const Runtime runtime = open_runtime(options.model);
  const Model model = load_model(runtime.get(), options.model, QUIRE_MODEL_SCOPE_TOKENIZER, interrupt);
  const auto ids_of = [&](const std::string& text) {
    return Json(encode(model.get(), text, !options.no_special, !options.plain));
  };
  if (options.argument) {
    convert_argument(options, [&](const std::string& text, const std::string&) { return ids_of(text); });
    return kExitOk;
  }
  const auto convert = [&](const std::string& line, const std::string& where) {
    const Json text = Json::parse(line, nullptr, false);
    if (!text.is_string()) throw Failure(kExitFailed, where + ": not a JSON string");
    return ids_of(text.get<std::string>());
  };
  convert_lines(convert, options.model.json, interrupt);
  return interrupt.requested() ? interrupt.exit_code() : kExitOk;
}

int detokenize(const TokenizeOptions& options, Interrupt& interrupt) {
  const Runtime runtime = open_runtime(options.model);
  const Model model = load_model(runtime.get(), options.model, QUIRE_MODEL_SCOPE_TOKENIZER, interrupt);
  const auto convert = [&](const std::string& line, const std::string& where) {
    const std::vector<int32_t> ids = parse_ids(line, where);
    try {
      return Json(text_of(quire_model_decode, model.get(), ids, int32_t{options.no_special}));
    } catch (const Error& error) {
      throw Failure(kExitFailed, where + ": " + error.what());
    }
  };
  if (options.argument) {
    convert_argument(options, convert);
    return kExitOk;
  }
  convert_lines(convert, options.model.json, interrupt);
  return interrupt.requested() ? interrupt.exit_code() : kExitOk;
}

constexpr const char* kTokenizeExamples =
    R"(Reads one JSON string per line and writes one JSON list of ids per line; an argument is plain text.

Examples:
  quire tokenize "Once upon a time"
  jq -c .text data.jsonl | quire tokenize --model tokenizer.json --no-special
)";

constexpr const char* kDetokenizeExamples =
    R"(Reads one JSON list of ids per line and writes one JSON string per line; an argument is a JSON list.

Examples:
  quire detokenize "[51,1405,593]"
  echo '"Once upon a time"' | quire tokenize | quire detokenize --no-special
)";

}  // namespace

Command add_tokenize(CLI::App& root) {
  auto options = std::make_shared<TokenizeOptions>();
  CLI::App* app = root.add_subcommand("tokenize", "Convert texts to token ids");
  app->footer(kTokenizeExamples);
  add_model_options(*app, options->model);
  app->get_option("--model")->description(
      "Model directory, GGUF file or tokenizer.json (default: the embedded model)");
  app->add_flag("--no-special", options->no_special,
                "Do not add the tokens that the model puts around a text");
  app->add_flag("--plain", options->plain, "Treat the text of special tokens as ordinary text");
  app->add_option("TEXT", options->argument, "Text to convert instead of standard input");
  return {app, [options](Interrupt& interrupt) { return tokenize(*options, interrupt); }};
}

Command add_detokenize(CLI::App& root) {
  auto options = std::make_shared<TokenizeOptions>();
  CLI::App* app = root.add_subcommand("detokenize", "Convert token ids to texts");
  app->footer(kDetokenizeExamples);
  add_model_options(*app, options->model);
  app->get_option("--model")->description(
      "Model directory, GGUF file or tokenizer.json (default: the embedded model)");
  app->add_flag("--no-special", options->no_special, "Leave special tokens out of the text");
  app->add_option("IDS", options->argument, "List to convert instead of standard input");
  return {app, [options](Interrupt& interrupt) { return detokenize(*options, interrupt); }};
}

}  // namespace quire::cli
