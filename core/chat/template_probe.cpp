#include "core/chat/template_probe.h"

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>

#include "core/base/ascii.h"
#include "core/base/error.h"
#include "core/chat/conversation.h"
#include "core/chat/history.h"
#include "core/chat/interpreter.h"
#include "core/chat/template_questions.h"

namespace quire::chat {
namespace {

// Number of renderings that use all of their steps and that all questions together may make.
constexpr uint64_t kNumFullRenderings = 4;

bool contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

bool contains_all(std::string_view text, std::string_view words) {
  while (!words.empty()) {
    const size_t end = std::min(words.find(' '), words.size());
    if (!contains(text, words.substr(0, end))) return false;
    words.remove_prefix(std::min(end + 1, words.size()));
  }
  return true;
}

bool is_kept(const std::optional<std::string>& rendered, std::string_view marks) {
  return rendered && contains_all(*rendered, marks) &&
         std::none_of(kWrongForms.begin(), kWrongForms.end(),
                      [&](std::string_view form) { return contains(*rendered, form); });
}

std::string replaced(std::string text, std::string_view old_part, std::string_view new_part) {
  for (size_t at = text.find(old_part); at != std::string::npos;
       at = text.find(old_part, at + new_part.size()))
    text.replace(at, old_part.size(), new_part);
  return text;
}

class Prober {
 public:
  Prober(const Syntax& syntax, const TemplateLimits& limits)
      : syntax_(syntax), limits_(limits), steps_left_(limits.max_steps * kNumFullRenderings) {
    limits_.steps_per_input_byte = 0;
  }

  void ask(gsl::span<const Question> questions, std::string_view tools) {
    tools_ = tools;
    for (const Question& question : questions) ask(question);
  }

  // Returns whether the template renders the conversation of a question only if there are tools.
  bool needs_tools(const Question& question) {
    tools_ = {};
    if (is_kept(render(question.messages, found_), question.marks)) return false;
    tools_ = kProbeTools;
    return is_kept(render(question.messages, found_), question.marks);
  }

  Adaptations found() const { return found_; }

 private:
  void ask(const Question& question) {
    const std::optional<std::string> as_given = render(question.messages, found_);
    if (is_kept(as_given, question.marks) && relates(*as_given, question)) return;
    const std::string_view marks = question.choice_marks.empty() ? question.marks : question.choice_marks;
    for (const Adaptations choice : question.choices) {
      if (choice.empty()) return;
      if (!is_kept(render(question.messages, found_ | choice), marks)) continue;
      found_ = found_ | choice;
      return;
    }
  }

  bool relates(const std::string& rendered, const Question& question) {
    if (question.relation == Relation::any) return true;
    const std::optional<std::string> reference = render(question.reference, found_);
    if (!reference) return true;
    if (question.relation == Relation::same) return rendered == *reference;
    // Templates write the names of roles in lower case, or with a capital.
    return ascii_lower(rendered) != replaced(ascii_lower(*reference), kNoRole, question.role);
  }

  // Returns the rendering of the adapted messages, or nothing if it fails.
  std::optional<std::string> render(std::string_view messages, Adaptations adaptations) {
    std::string text = R"({"add_generation_prompt": true, "messages": )";
    text.append(messages);
    if (!tools_.empty()) text.append(R"(, "tools": )").append(tools_);
    const AdaptedInput adapted = adapt_input(parse_json(text + "}", "question"), adaptations);
    TemplateContext context;
    context.special_tokens = {
        {"bos_token", "<s>"}, {"eos_token", "</s>"}, {"pad_token", "<pad>"}, {"unk_token", "<unk>"}};
    apply_to_context(adaptations, context);
    limits_.max_steps = std::min(limits_.max_steps, steps_left_);
    Machine machine(limits_, approximate_bytes(adapted.input));
    std::optional<std::string> rendered;
    try {
      const Dict* variables = conversation_variables(machine, adapted.input, context);
      rendered = interpret(machine, syntax_, *variables).text.bytes();
    } catch (const Error&) {  // the template does not take this form
    }
    steps_left_ -= std::min(steps_left_, machine.steps_used());
    return rendered;
  }

  const Syntax& syntax_;
  TemplateLimits limits_;
  uint64_t steps_left_;
  std::string_view tools_;
  Adaptations found_;
};

}  // namespace

Adaptations probe_template(const Syntax& syntax, const TemplateLimits& limits) {
  Prober prober(syntax, limits);
  const bool needs_tools = prober.needs_tools(role_questions()[0]);
  prober.ask(role_questions(), needs_tools ? kProbeTools : std::string_view());
  prober.ask(call_questions(), kProbeTools);
  return prober.found();
}

}  // namespace quire::chat
