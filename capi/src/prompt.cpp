#include "capi/src/prompt.h"

#include <algorithm>
#include <array>

#include "capi/src/guard.h"

namespace quire::capi {
namespace {

// The tokens that the tokenizer puts around any text, told by how it encodes one.
struct Surroundings {
  TokenIds before;
  TokenIds after;
};

Surroundings surroundings(const Tokenizer& tokenizer) {
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

// One text alone is for the tokenizer to surround; of several parts the outer ones decide.
TokenIds encode_prompt(const RequestSettings& settings, const Model& model) {
  const std::vector<PromptPart>& parts = settings.prompt;
  if (parts.empty()) throw Error(ErrorCode::invalid_argument, "prompt: not set");
  const bool text_first = settings.add_special && parts.front().kind == PromptPart::Kind::text;
  const bool text_last = settings.add_special && parts.back().kind == PromptPart::Kind::text;
  if (text_first && parts.size() == 1) {
    return model.tokenizer().encode(parts.front().text,
                                    {.parse_special = settings.parse_special, .add_special_tokens = true});
  }
  Surroundings around;
  if (text_first || text_last) around = surroundings(model.tokenizer());
  TokenIds prompt;
  const auto append = [&](const TokenIds& tokens) {
    prompt.insert(prompt.end(), tokens.begin(), tokens.end());
  };
  if (text_first) append(around.before);
  for (const PromptPart& part : parts) append(encode_part(model, part, settings.parse_special));
  if (text_last) append(around.after);
  return prompt;
}

constexpr std::array<std::string_view, 4> kKinds = {"a job of kind GENERATE", "a job of kind SCORE",
                                                    "a job of kind WARM", "a job of kind EMBED"};

void require_counting_for_kind(const RequestSettings& settings) {
  const auto kind = static_cast<uint32_t>(settings.job.kind);
  require_counting(settings, uint32_t{1} << kind, kKinds[kind]);
}

}  // namespace

void require_counting(const RequestSettings& settings, uint32_t counts_for, std::string_view what) {
  for (const Setting& made : settings.made) {
    if ((made.counts & counts_for) == 0) {
      throw Error(ErrorCode::invalid_argument, "{}: does not count for {}", made.name, what);
    }
  }
}

JobRequest read_request(quire_job_request* request, const CacheShare& cache, uint32_t counts_for) {
  RequestSettings settings = Pinned(request, "request")->read();
  if (counts_for == Counts::for_kind) require_counting_for_kind(settings);
  if (counts_for == Counts::score) {
    require_counting(settings, Counts::score, "a score");
    if (settings.queue.events != nullptr) {
      throw Error(ErrorCode::invalid_argument, "queue: does not count for a score, which waits by itself");
    }
  }
  JobRequest job = std::move(settings.job);
  job.prompt = encode_prompt(settings, *cache.model->model);
  if (settings.queue.events != nullptr && settings.queue.runtime != cache.model->runtime) {
    throw Error(ErrorCode::invalid_argument, "queue: it belongs to another runtime than the cache");
  }
  job.queue = std::move(settings.queue.events);
  return job;
}

}  // namespace quire::capi
