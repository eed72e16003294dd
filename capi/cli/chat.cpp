// quire chat: a conversation in a terminal, or through a pipe.
#include <algorithm>
#include <fstream>
#include <functional>
#include <optional>
#include <unistd.h>

#include "capi/cli/answer.h"
#include "capi/cli/commands.h"
#include "capi/cli/conversation.h"
#include "capi/cli/failure.h"
#include "capi/cli/generate_options.h"
#include "capi/cli/input.h"
#include "capi/cli/job_batch.h"
#include "capi/cli/message_reader.h"
#include "capi/cli/terminal.h"

namespace quire::cli {
namespace {

constexpr int64_t kDefaultContext = 8192;
constexpr int32_t kDefaultNewTokens = 2048;

struct ChatOptions {
  GenerateOptions generate;
  std::string system;
  std::string tools_file;
  std::string template_file;
  std::string dialect = "auto";
  std::string tool_choice;
};

constexpr const char* kHelp =
    R"(/system TEXT  sets the system message; without TEXT, removes it
/tools FILE   sets the tools from a JSON list; without FILE, removes them
/result TEXT  gives the result of the tool that the model called; the model continues
/save FILE    writes the conversation as JSON
/stats        shows tokens and speed of the last answer
/reset        starts a new conversation
/help         shows this text
/quit         quits, like the end of the input
A line that ends in \ continues on the next line, and so does text between """ and """. Ctrl-C stops an answer.)";

Cache open_cache(quire_model* model, const GenerateOptions& options) {
  const int64_t most = call(quire_model_max_context, model);
  const int64_t context = options.context.value_or(std::min(most, kDefaultContext));
  const CacheOptions cache_options = choose_cache(options.model);
  call(quire_cache_options_set_max_tokens, cache_options.get(), context);
  call(quire_cache_options_set_max_seq_len, cache_options.get(), context);
  call(quire_cache_options_set_max_batch_size, cache_options.get(), 1);
  return Cache(call(quire_cache_create, model, cache_options.get()));
}

std::string stats_line(const JobOutcome& last, size_t num_turns) {
  return std::to_string(num_turns) + " messages; prompt: " + std::to_string(last.usage.prompt_tokens) +
         " tokens, " + std::to_string(last.usage.cached_tokens) + " of them cached, " +
         format_token_rate(last.usage.prompt_tokens - last.usage.cached_tokens, last.usage.prefill_ns) +
         "; answer: " + std::to_string(last.usage.new_tokens) + " tokens, " +
         format_token_rate(last.usage.new_tokens - 1, last.usage.generate_ns) + drafts_text(last.usage) +
         ", " + finish_reason_name(last.finish.reason);
}

// The model of the chat with its cache.
struct LoadedModel {
  LoadedModel(const GenerateOptions& options, Interrupt& interrupt)
      : runtime(open_runtime(options.model)),
        model(load_model(runtime.get(), options.model, QUIRE_MODEL_SCOPE_FULL, interrupt)),
        cache(open_cache(model.get(), options)) {}

  const Runtime runtime;
  const Model model;
  const Cache cache;
};

class Chat {
 public:
  Chat(const ChatOptions& options, Interrupt& interrupt)
      : options_(options),
        interrupt_(interrupt),
        is_typed_(isatty(STDIN_FILENO) == 1 && stdout_is_terminal()),
        loaded_(options.generate, interrupt) {
    conversation_.set_system(options.system);
    if (!options.tools_file.empty()) read_tools(options.tools_file);
    if (!options.template_file.empty()) {
      const std::string source = read_input(options.template_file, interrupt_);
      template_ = ChatTemplate(call(quire_chat_template_create, source));
    }
    if (!options.generate.schema_file.empty()) schema_ = read_input(options.generate.schema_file, interrupt_);
    if (options.tool_choice.empty() && !schema_.empty()) {
      constraint_ = Constraint(
          call(quire_constraint_create, loaded_.model.get(), int32_t{QUIRE_CONSTRAINT_JSON_SCHEMA}, schema_));
    }
  }

  int run() {
    MessageReader reader(interrupt_, is_typed_);
    std::string message;
    while (!is_over_) {
      if (!reader.next(message)) {
        // At the prompt Ctrl-C discards the typed text. Any other end of the input ends the program.
        if (!is_typed_ || !interrupt_.forgive()) break;
        print("\n");
        continue;
      }
      if (!message.empty()) take(message);
    }
    if (is_typed_) print("\n");
    return interrupt_.requested() ? interrupt_.exit_code() : exit_code_;
  }

 private:
  // Handles one message or command. An error does not end the conversation, but the exit code reports it.
  void take(const std::string& message) {
    try {
      if (message[0] == '/') return obey(message);
      conversation_.ask(message);
      answer();
    } catch (const Error& error) {
      complain(error.what());
    } catch (const Failure& failure) {
      if (failure.exit_code() == kExitReaderGone) throw;
      complain(failure.what());
    }
  }

  void complain(const std::string& what) {
    note("quire: " + what);
    exit_code_ = kExitFailed;
  }

  void obey(const std::string& line) {
    const size_t blank = line.find(' ');
    const std::string name = line.substr(0, blank);
    const std::string rest = blank == std::string::npos ? std::string() : line.substr(blank + 1);
    if (name == "/system") return conversation_.set_system(rest);
    if (name == "/tools") return read_tools(rest);
    if (name == "/result") {
      conversation_.give_result(rest);
      return answer();
    }
    if (name == "/save") return save(rest);
    if (name == "/stats")
      return print_line(last_ ? stats_line(*last_, conversation_.num_turns()) : "no answer yet");
    if (name == "/reset") return conversation_.forget_turns();
    if (name == "/help") return print_line(kHelp);
    if (name != "/quit") throw Failure(kExitFailed, name + ": unknown command; /help lists the commands");
    is_over_ = true;
  }

  void read_tools(const std::string& path) {
    conversation_.set_tools(path.empty() ? std::string() : read_input(path, interrupt_), path);
  }

  void save(const std::string& path) {
    if (path.empty()) throw Failure(kExitFailed, "/save: give a file name");
    std::ofstream file(path, std::ios::trunc);
    if (!(file << conversation_.text()).flush()) throw Failure(kExitFailed, "cannot write " + path);
  }

  Request request_of_conversation() const {
    Request request(call(quire_job_request_create));
    const std::string messages =
        conversation_.messages().dump(-1, ' ', false, Json::error_handler_t::replace);
    call(quire_job_request_add_messages, request.get(), messages);
    const std::string tools = conversation_.tools().dump();
    call(quire_job_request_set_tools, request.get(), tools);
    call(quire_job_request_set_chat_template, request.get(), template_.get());
    call(quire_job_request_set_response_dialect, request.get(), options_.dialect);
    const Constraint rules = constraint_of_rules();
    call(quire_job_request_set_constraint, request.get(), rules ? rules.get() : constraint_.get());
    set_recommended_sampling(request.get(), loaded_.model.get());
    apply_settings(request.get(), options_.generate);
    return request;
  }

  // Returns the dialect of the answers. A template from the options decides, if there is one, otherwise the
  // model's own.
  std::string dialect() const {
    if (options_.dialect != "auto" || !template_) return options_.dialect;
    return text_of(quire_response_detect, template_.get(), loaded_.model.get());
  }

  // Creates the constraint for --tool-choice, or none if there is no choice or no tool.
  Constraint constraint_of_rules() const {
    if (options_.tool_choice.empty() || conversation_.tools().empty()) return {};
    const std::string& choice = options_.tool_choice;
    const bool is_word = choice == "auto" || choice == "required" || choice == "none";
    Json rules = {{"dialect", dialect()},
                  {"tools", conversation_.tools()},
                  {"tool_choice", is_word ? Json(choice) : Json{{"name", choice}}}};
    if (!schema_.empty()) {
      rules["response_format"] = {
          {"type", "json_schema"},
          {"json_schema", {{"name", "answer"}, {"schema", Json::parse(schema_, nullptr, false)}}}};
    }
    const std::string text = rules.dump(-1, ' ', false, Json::error_handler_t::replace);
    return Constraint(call(quire_response_constraint_create, loaded_.model.get(), text));
  }

  void answer() {
    Answer shown(is_typed_);
    try {
      JobBatch batch(loaded_.runtime.get(), loaded_.cache.get());
      const Request request = request_of_conversation();
      batch.submit(request.get());
      batch.run(interrupt_, [&](size_t, const Event& event, const std::string&) { shown.see(event); });
      shown.end();
      last_ = batch.outcomes().front();
    } catch (...) {
      conversation_.take_back();
      throw;
    }
    if (last_->finish.reason == QUIRE_FINISH_ERROR) {
      conversation_.take_back();
      throw Failure(kExitFailed, last_->finish.error);
    }
    conversation_.answer(shown.message());
    interrupt_.forgive();
  }

  const ChatOptions& options_;
  Interrupt& interrupt_;
  const bool is_typed_;
  const LoadedModel loaded_;
  ChatTemplate template_;
  std::string schema_;
  Constraint constraint_;
  Conversation conversation_;
  std::optional<JobOutcome> last_;
  bool is_over_ = false;
  int exit_code_ = kExitOk;
};

void add_chat_options(CLI::App& app, ChatOptions& options) {
  options.generate.max_new_tokens = kDefaultNewTokens;
  add_runtime_options(app, options.generate.model);
  app.add_option("--system", options.system, "System message")->type_name("TEXT");
  app.add_option("--tools", options.tools_file, "File with a JSON list of tools")->type_name("FILE");
  app.add_option("--template", options.template_file, "File with a chat template, instead of the model's")
      ->type_name("FILE");
  app.add_option("--dialect", options.dialect,
                 "Format of reasoning and calls (default: auto, from the model's template)")
      ->type_name("NAME");
  app.add_option("--tool-choice", options.tool_choice,
                 "Constrain calls of the tools: auto, required, none, or the name of a tool")
      ->type_name("CHOICE");
  app.add_option("--context", options.generate.context,
                 "Maximum tokens of a conversation (default: the model's, up to 8192)")
      ->type_name("N");
  add_settings(app, options.generate);
}

constexpr const char* kChatExamples = R"(Examples:
  quire chat --model DIR
  quire chat --model DIR --system "Answer in one sentence." --temperature 0.7
  printf 'Hello\nWho are you?\n' | quire chat --model DIR
)";

}  // namespace

Command add_chat(CLI::App& root) {
  auto options = std::make_shared<ChatOptions>();
  CLI::App* app = root.add_subcommand("chat", "Talk with a model in a terminal or through a pipe");
  app->footer(std::string(kChatExamples) + "\nCommands in a conversation:\n" + kHelp + "\n");
  add_chat_options(*app, *options);
  return {app, [options](Interrupt& interrupt) { return Chat(*options, interrupt).run(); }};
}

}  // namespace quire::cli
