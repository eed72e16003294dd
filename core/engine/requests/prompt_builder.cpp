#include "core/engine/requests/prompt_builder.h"

#include <algorithm>

#include <fmt/core.h>

#include "core/base/error.h"
#include "core/base/utf8.h"
#include "core/chat/segments.h"
#include "core/engine/requests/conversation_input.h"
#include "core/engine/requests/conversation_renderer.h"
#include "core/response/dialect_table.h"

namespace quire {
namespace {

// Tokens that the tokenizer puts around any text.
struct AddedTokens {
  TokenIds before;
  TokenIds after;
};

// Finds the added tokens by encoding a text with and without them.
AddedTokens added_tokens(const Tokenizer& tokenizer) {
  const TokenIds plain = tokenizer.encode("a", {.parse_special = false, .add_special_tokens = false});
  const TokenIds full = tokenizer.encode("a", {.parse_special = false, .add_special_tokens = true});
  const auto found = std::search(full.begin(), full.end(), plain.begin(), plain.end());
  if (found == full.end()) return {};
  return {{full.begin(), found}, {found + static_cast<ptrdiff_t>(plain.size()), full.end()}};
}

TokenId special_token(const Tokenizer& tokenizer, const std::string& spelling) {
  const auto token = tokenizer.find_token(spelling);
  if (token && tokenizer.is_special(*token)) return *token;
  throw Error(ErrorCode::not_found, "prompt: the tokenizer has no special token \"{}\"", printable(spelling));
}

// Runs `body`, and prefixes its error about invalid UTF-8 with the name of the field or part.
template <typename Body>
TokenIds encode_named(const std::string& name, const Body& body) {
  try {
    return body();
  } catch (const Error& failure) {
    if (failure.code() != ErrorCode::encoding) throw;
    throw Error(ErrorCode::encoding, "{}: {}", name, failure.what()).at(failure.parameter());
  }
}

TokenIds encode_part(const Model& model, const PromptPart& part, bool parse_special) {
  switch (part.kind) {
    case PromptPart::Kind::tokens:
      return part.tokens;
    case PromptPart::Kind::special:
      return {special_token(model.tokenizer(), part.text)};
    default:
      return model.tokenizer().encode(part.text,
                                      {.parse_special = parse_special, .add_special_tokens = false});
  }
}

// Throws ErrorCode::invalid_argument naming a setting that has an effect only with messages. Tools are also
// used to parse the answer, and so is a template if the dialect is "auto".
void refuse_without_messages(const RequestSpec& spec) {
  const ConversationSettings& made = spec.conversation;
  const bool is_read = !spec.response.dialect.empty();
  if (!made.tools.empty() && !is_read) {
    throw Error(ErrorCode::invalid_argument,
                "tools: has no effect for a prompt without messages; add messages, or set a response_dialect")
        .at("tools");
  }
  const char* const name = !made.arguments.empty() ? "template_arguments"
                           : made.chat.templates != nullptr && spec.response.dialect != kAutoDialect
                               ? "chat_template"
                               : nullptr;
  if (name == nullptr) return;
  throw Error(ErrorCode::invalid_argument, "{}: has no effect for a prompt without messages; add messages",
              name)
      .at(name);
}

// Encodes parts without messages. The tokenizer adds its tokens before the first part and after the last one,
// if they are texts.
TokenIds encode_parts(const std::vector<PromptPart>& parts, const RequestSpec& spec, const Model& model) {
  const bool text_first = spec.add_special && parts.front().kind == PromptPart::Kind::text;
  const bool text_last = spec.add_special && parts.back().kind == PromptPart::Kind::text;
  if (text_first && parts.size() == 1) {
    return model.tokenizer().encode(parts.front().text,
                                    {.parse_special = spec.parse_special, .add_special_tokens = true});
  }
  AddedTokens around;
  if (text_first || text_last) around = added_tokens(model.tokenizer());
  TokenIds prompt;
  const auto append = [&](const TokenIds& tokens) {
    prompt.insert(prompt.end(), tokens.begin(), tokens.end());
  };
  if (text_first) append(around.before);
  for (const PromptPart& part : parts)
    append(encode_named(fmt::format("part {}", &part - parts.data()),
                        [&] { return encode_part(model, part, spec.parse_special); }));
  if (text_last) append(around.after);
  return prompt;
}

std::string words_of_template(const chat::RenderedChat& rendered) {
  std::string words;
  size_t begin = 0;
  for (const chat::OriginRun& run : rendered.runs) {
    words += run.from_template ? rendered.text.substr(begin, run.end - begin) : ".";
    begin = run.end;
  }
  return words;
}

TokenIds encode_any_prompt(const RequestSpec& spec, const LoadedModel& model, std::string* words) {
  if (spec.prompt.empty())
    throw Error(ErrorCode::invalid_argument, "prompt: not set; add at least one part").at("prompt");
  const gsl::span<const PromptPart> messages = messages_of(spec.prompt);
  if (messages.empty()) {
    refuse_without_messages(spec);
    TokenIds prompt = encode_named("prompt", [&] { return encode_parts(spec.prompt, spec, *model.model); });
    if (words != nullptr) *words = model.model->tokenizer().decode(prompt, false);
    return prompt;
  }
  const Tokenizer& tokenizer = model.model->tokenizer();
  TokenIds prompt;
  for (const PromptPart& part : spec.prompt) {
    TokenIds tokens;
    if (!part.is_messages()) {
      tokens = encode_named(fmt::format("prompt: part {}", &part - spec.prompt.data()),
                            [&] { return encode_part(*model.model, part, spec.parse_special); });
      if (words != nullptr) *words += tokenizer.decode(tokens, false);
    } else if (&part == &messages.front()) {
      const chat::RenderedChat rendered = render_conversation(spec, model);
      tokens = with_parameter("messages", [&] { return chat::encode_rendered(tokenizer, rendered); });
      if (words != nullptr) *words += words_of_template(rendered);
    }
    prompt.insert(prompt.end(), tokens.begin(), tokens.end());
  }
  return prompt;
}

}  // namespace

TokenIds encode_prompt(const RequestSpec& spec, const LoadedModel& model, std::string* words) {
  return with_parameter("prompt", [&] { return encode_any_prompt(spec, model, words); });
}

TokenIds encode_negative_prompt(const RequestSpec& spec, const Model& model) {
  return with_parameter("negative_prompt", [&] {
    return encode_named("negative_prompt", [&] { return encode_parts(spec.negative_prompt, spec, model); });
  });
}

}  // namespace quire
