// quire parse: splits the output of a model into text, reasoning and calls.
#include <array>
#include <cerrno>
#include <optional>
#include <unistd.h>

#include "capi/cli/commands.h"
#include "capi/cli/failure.h"
#include "capi/cli/input.h"
#include "capi/cli/terminal.h"

namespace quire::cli {
namespace {

struct ParseOptions {
  ModelChoice model;
  std::string dialect;
  std::string tools_path;
  std::string prompt_path;
  bool reasoning_open = false;
  bool reasoning_off = false;
  bool raw = false;
};

std::string dialect_of(const ParseOptions& options, Interrupt& interrupt) {
  if (options.dialect != "auto") return options.dialect;
  const std::string path = find_model(options.model.path);
  const ChatTemplate chat(call(quire_chat_template_open, path));
  std::string name = text_of(quire_response_detect, chat.get(), static_cast<quire_model*>(nullptr));
  if (name != "plain") return name;
  const Runtime runtime = open_runtime(options.model);
  const Model model = load_model(runtime.get(), options.model, QUIRE_MODEL_SCOPE_TOKENIZER, interrupt);
  return text_of(quire_response_detect, chat.get(), model.get());
}

void set_up(quire_response_parser* parser, const ParseOptions& options, const Interrupt& interrupt) {
  if (!options.tools_path.empty()) {
    const std::string tools = read_input(options.tools_path, interrupt);
    call(quire_response_parser_set_tools, parser, tools);
  }
  if (!options.prompt_path.empty()) {
    const std::string prompt = read_input(options.prompt_path, interrupt);
    call(quire_response_parser_set_prompt, parser, prompt);
  }
  if (options.reasoning_open) call(quire_response_parser_set_reasoning, parser, QUIRE_REASONING_OPEN);
  if (options.reasoning_off) call(quire_response_parser_set_reasoning, parser, QUIRE_REASONING_OFF);
}

const char* type_name(int32_t kind) {
  switch (kind) {
    case QUIRE_RESPONSE_TEXT:
      return "text";
    case QUIRE_RESPONSE_REASONING:
      return "reasoning";
    case QUIRE_RESPONSE_CALL_BEGIN:
      return "call_begin";
    case QUIRE_RESPONSE_ARGUMENTS:
      return "arguments";
    case QUIRE_RESPONSE_CALL_END:
      return "call_end";
    default:
      return "markup";
  }
}

Json event_of(quire_response_parser* parser, bool raw) {
  const int32_t kind = call(quire_response_parser_kind, parser);
  Json event{{"type", type_name(kind)}};
  const int64_t index = call(quire_response_parser_call_index, parser);
  if (index >= 0) event["index"] = index;
  if (kind == QUIRE_RESPONSE_CALL_BEGIN || kind == QUIRE_RESPONSE_CALL_END) {
    event["name"] = text_of(quire_response_parser_name, parser);
    const std::string id = text_of(quire_response_parser_id, parser);
    event["id"] = id.empty() ? Json() : Json(id);
  } else if (kind != QUIRE_RESPONSE_MARKUP) {
    event["text"] = text_of(quire_response_parser_text, parser);
  }
  if (raw) event["raw"] = text_of(quire_response_parser_raw, parser);
  return event;
}

void print_events(quire_response_parser* parser, bool raw) {
  while (call(quire_response_parser_next, parser) == 1) {
    const bool is_markup = call(quire_response_parser_kind, parser) == QUIRE_RESPONSE_MARKUP;
    if (!is_markup || raw) print_json(event_of(parser, raw));
  }
}

// Reads a piece of standard input; empty at its end.
std::string_view read_piece(std::array<char, 1 << 16>& buffer, const Interrupt& interrupt) {
  for (;;) {
    const ssize_t size = read(STDIN_FILENO, buffer.data(), buffer.size());
    if (size >= 0) return {buffer.data(), static_cast<size_t>(size)};
    if (errno != EINTR || interrupt.requested()) return {};
  }
}

int parse(const ParseOptions& options, Interrupt& interrupt) {
  const std::string name = dialect_of(options, interrupt);
  const ResponseParser parser(call(quire_response_parser_create, name));
  set_up(parser.get(), options, interrupt);
  std::array<char, 1 << 16> buffer{};
  for (;;) {
    const std::string_view piece = read_piece(buffer, interrupt);
    if (piece.empty()) break;
    call(quire_response_parser_feed, parser.get(), piece);
    print_events(parser.get(), options.raw);
  }
  call(quire_response_parser_finish, parser.get());
  print_events(parser.get(), options.raw);
  return interrupt.requested() ? interrupt.exit_code() : kExitOk;
}

constexpr const char* kParseExamples =
    R"(Reads the raw output of a model on standard input and writes its parts, one JSON object per line: text, reasoning,
call_begin, arguments, call_end.

Examples:
  quire parse --dialect hermes --tools tools.json < answer.txt
  quire parse --dialect auto --model DIR --reasoning-open < answer.txt
)";

}  // namespace

Command add_parse(CLI::App& root) {
  auto options = std::make_shared<ParseOptions>();
  CLI::App* app = root.add_subcommand("parse", "Split a model's raw output into text, reasoning and calls");
  app->footer(kParseExamples);
  app->add_option("--dialect", options->dialect,
                  "Output format of the model; auto takes it from the template of --model")
      ->type_name("NAME")
      ->required();
  app->add_option("--model", options->model.path, "Model directory or GGUF file for --dialect auto")
      ->type_name("DIR");
  app->add_option("--tools", options->tools_path, "File with the JSON list of the request's tools")
      ->type_name("FILE");
  app->add_option("--prompt", options->prompt_path, "File with the prompt before the output")
      ->type_name("FILE");
  CLI::Option* open =
      app->add_flag("--reasoning-open", options->reasoning_open, "The prompt has already opened reasoning");
  app->add_flag("--reasoning-off", options->reasoning_off, "Treat reasoning and its markers as text")
      ->excludes(open);
  app->add_flag("--raw", options->raw, "Add to each event the bytes that it covers, and print markup too");
  return {app, [options](Interrupt& interrupt) {
            if (options->dialect == "auto" && options->model.path.empty()) {
              throw Failure(kExitUsage,
                            "--dialect auto: needs --model, whose template determines the dialect");
            }
            return parse(*options, interrupt);
          }};
}

}  // namespace quire::cli
