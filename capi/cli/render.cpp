// quire render: turns a conversation into the text of a prompt, or its tokens.
#include <optional>

#include "capi/cli/commands.h"
#include "capi/cli/failure.h"
#include "capi/cli/input.h"
#include "capi/cli/terminal.h"

namespace quire::cli {
namespace {

struct RenderOptions {
  ModelChoice model;
  std::string template_path;
  std::string input_path;
  std::optional<std::string> bos;
  std::optional<std::string> eos;
  std::optional<std::string> now;
  std::string name;
  bool tokens = false;
  bool as_given = false;
};

ChatTemplate open_template(const RenderOptions& options, const Interrupt& interrupt) {
  if (options.template_path.empty()) {
    return ChatTemplate(call(quire_chat_template_open, find_model(options.model.path)));
  }
  const std::string source = read_input(options.template_path, interrupt);
  return ChatTemplate(call(quire_chat_template_create, source));
}

void set_up(quire_chat_template* chat, const RenderOptions& options) {
  const auto set_token = [&](int32_t kind, const std::optional<std::string>& text) {
    if (text) call(quire_chat_template_set_token, chat, kind, *text);
  };
  set_token(QUIRE_TOKEN_BOS, options.bos);
  set_token(QUIRE_TOKEN_EOS, options.eos);
  call(quire_chat_template_set_adapts_history, chat, options.as_given ? 0 : 1);
  call(quire_chat_template_choose, chat, options.name);
  if (!options.now) return;
  try {
    call(quire_chat_template_set_now, chat, *options.now);
  } catch (const Error&) {
    throw Failure(kExitUsage, "--now: not a time such as 2025-07-26 or 2025-07-26T14:05:09");
  }
}

void print_tokens(quire_chat_template* chat, const RenderOptions& options, const std::string& input,
                  Interrupt& interrupt) {
  const Runtime runtime = open_runtime(options.model);
  const Model model = load_model(runtime.get(), options.model, QUIRE_MODEL_SCOPE_TOKENIZER, interrupt);
  print_json(values_of<int32_t>(quire_chat_template_tokens, chat, model.get(), input));
}

// Reports on standard error what was changed in the conversation.
void note_changes(quire_chat_template* chat, const std::string& input) {
  const Json changes = Json::parse(text_of(quire_chat_template_changes, chat, input), nullptr, false);
  for (const Json& change : changes) {
    note("quire: changed for the template: " + change.value("field", "") + ": " + change.value("change", ""));
  }
}

int render(const RenderOptions& options, Interrupt& interrupt) {
  const ChatTemplate chat = open_template(options, interrupt);
  set_up(chat.get(), options);
  const std::string input = read_input(options.input_path, interrupt);
  if (options.tokens) {
    print_tokens(chat.get(), options, input, interrupt);
  } else {
    print(text_of(quire_chat_template_render, chat.get(), input));
  }
  note_changes(chat.get(), input);
  return kExitOk;
}

int checked_render(const RenderOptions& options, Interrupt& interrupt) {
  if (options.tokens && options.model.path.empty()) {
    throw Failure(kExitUsage, "--tokens: needs --model, whose tokenizer creates the tokens");
  }
  if (options.template_path.empty() && options.model.path.empty()) {
    throw Failure(kExitUsage, "render: give --template FILE or --model DIR");
  }
  try {
    return render(options, interrupt);
  } catch (const Error& error) {  // an error raised by the template is no fault of the command line
    throw Failure(kExitFailed, error.what());
  }
}

constexpr const char* kRenderExamples =
    R"(Renders one JSON object: messages, and other variables of the template (tools, add_generation_prompt, ...).
Prints the text unchanged, without a final line break. Changes that give the conversation the form that the
template needs are reported on standard error.

Examples:
  quire render --model DIR --input conversation.json
  quire render --template chat_template.jinja --bos "<s>" --now 2025-07-26 --input -
)";

}  // namespace

Command add_render(CLI::App& root) {
  auto options = std::make_shared<RenderOptions>();
  CLI::App* app = root.add_subcommand("render", "Turn a conversation into the text of a prompt");
  app->footer(kRenderExamples);
  app->add_option("--template", options->template_path, "File with the template")->type_name("FILE");
  app->add_option("--model", options->model.path,
                  "Model directory or GGUF file with the template, and with the tokenizer")
      ->type_name("DIR");
  app->add_option("--input", options->input_path, "File with the JSON object, - for standard input")
      ->type_name("FILE")
      ->required();
  app->add_flag("--tokens", options->tokens, "Print the ids of the tokens as a JSON list");
  app->add_flag("--as-given", options->as_given,
                "Render the conversation without changing it for the template");
  app->add_option("--name", options->name, "Name of the template, if the model has several")
      ->type_name("NAME");
  app->add_option("--bos", options->bos, "Text of the token that begins a prompt")->type_name("TEXT");
  app->add_option("--eos", options->eos, "Text of the token that ends a turn")->type_name("TEXT");
  app->add_option("--now", options->now,
                  "Date, or date and time, for the template (default: the clock, in UTC)")
      ->type_name("DATE");
  return {app, [options](Interrupt& interrupt) { return checked_render(*options, interrupt); }};
}

}  // namespace quire::cli
