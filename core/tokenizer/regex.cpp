#include "core/tokenizer/regex.h"

#include <algorithm>
#include <utility>

#include <pcre2.h>

#include "core/base/error.h"
#include "core/base/utf8.h"
#include "core/tokenizer/regex_syntax.h"

namespace quire {
namespace {

constexpr size_t kMaxPatternBytes = 16384;
constexpr uint32_t kMaxParentheses = 100;
constexpr uint32_t kMaxDepth = 1000000;
constexpr uint32_t kMaxHeapKib = 65536;  // for the interpreter
constexpr size_t kJitStackBytes = 32768;
constexpr size_t kMaxJitStackBytes = 1U << 20;
constexpr uint64_t kMinSteps = 1U << 20;
constexpr uint32_t kStepGrowth = 4;

template <auto kFree>
struct Deleter {
  template <typename T>
  void operator()(T* pointer) const {
    kFree(pointer);
  }
};
template <typename T, auto kFree>
using Owned = std::unique_ptr<T, Deleter<kFree>>;

template <typename T>
T* require_memory(T* pointer) {
  if (pointer == nullptr) throw Error(ErrorCode::out_of_memory, "out of memory for a regular expression");
  return pointer;
}

}  // namespace

struct RegexScratch::Memory {
  Owned<pcre2_match_data, pcre2_match_data_free> match;
  Owned<pcre2_match_context, pcre2_match_context_free> context;
  Owned<pcre2_jit_stack, pcre2_jit_stack_free> stack;
};

RegexScratch::RegexScratch(size_t num_text_bytes)
    : memory_(std::make_unique<Memory>()), max_steps_(kMinSteps + kStepsPerByte * num_text_bytes) {
  memory_->match.reset(require_memory(pcre2_match_data_create(1, nullptr)));
  memory_->context.reset(require_memory(pcre2_match_context_create(nullptr)));
  pcre2_set_depth_limit(memory_->context.get(), kMaxDepth);
  pcre2_set_heap_limit(memory_->context.get(), kMaxHeapKib);
}

RegexScratch::~RegexScratch() = default;

struct Regex::Code {
  Owned<pcre2_code, pcre2_code_free> code;
  bool jit = false;
};

namespace {

std::string compile_error_text(int error) {
  char text[128] = {};
  pcre2_get_error_message(error, reinterpret_cast<PCRE2_UCHAR*>(text), sizeof text);
  return text;
}

Owned<pcre2_code, pcre2_code_free> compile(const std::string& pattern, uint32_t options,
                                           const std::string& where) {
  const Owned<pcre2_compile_context, pcre2_compile_context_free> context(
      require_memory(pcre2_compile_context_create(nullptr)));
  pcre2_set_newline(context.get(), PCRE2_NEWLINE_LF);
  pcre2_set_parens_nest_limit(context.get(), kMaxParentheses);
  int error = 0;
  size_t offset = 0;
  Owned<pcre2_code, pcre2_code_free> code(pcre2_compile(
      reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(),
      PCRE2_UTF | PCRE2_UCP | PCRE2_NEVER_BACKSLASH_C | options, &error, &offset, context.get()));
  if (!code) {
    throw Error(ErrorCode::unsupported, "{}: the regular expression does not compile: {}", where,
                compile_error_text(error));
  }
  return code;
}

}  // namespace

Regex::Regex(std::string_view pattern, std::string where, RegexDialect dialect) : where_(std::move(where)) {
  if (pattern.size() > kMaxPatternBytes) {
    throw Error(ErrorCode::unsupported, "{}: the regular expression has {} bytes, more than {}", where_,
                pattern.size(), kMaxPatternBytes);
  }
  const auto make = [&](const std::string& translated, uint32_t options) {
    auto code = std::make_unique<Code>();
    code->code = compile(translated, options, where_);
    code->jit = pcre2_jit_compile(code->code.get(), PCRE2_JIT_COMPLETE) == 0;
    return code;
  };
  const std::string first = to_pcre2(pattern, where_, {dialect, true});
  const std::string later = to_pcre2(pattern, where_, {dialect, false});
  unanchored_ = make(first, 0);
  anchored_ = make(first, PCRE2_ANCHORED);
  if (later != first) continued_ = make(later, PCRE2_ANCHORED);
}

Regex::~Regex() = default;
Regex::Regex(Regex&&) noexcept = default;

bool Regex::is_compiled_to_machine_code() const {
  return unanchored_->jit;
}

void Regex::use_interpreter() {
  unanchored_->jit = false;
  anchored_->jit = false;
  if (continued_) continued_->jit = false;
}

std::optional<RegexMatch> Regex::find(std::string_view text, size_t from, RegexScratch& scratch) const {
  RegexMatch match;
  switch (attempt(*unanchored_, text, from, RegexScratch::kFreeSteps, scratch, match)) {
    case Attempt::match:
      return match;
    case Attempt::no_match:
      return std::nullopt;
    case Attempt::out_of_steps:
      break;
  }
  return find_by_position(text, from, scratch);
}

// Searches position by position. PCRE2 restarts its step count at every start position, so one search could
// take kFreeSteps at each of them, and it does not report where it stopped. The limit grows by a constant
// factor and each attempt is charged, so the charge is proportional to the actual cost.
std::optional<RegexMatch> Regex::find_by_position(std::string_view text, size_t from,
                                                  RegexScratch& scratch) const {
  for (size_t pos = from; pos <= text.size();) {
    const Code& code = pos > from && continued_ ? *continued_ : *anchored_;
    uint32_t limit = RegexScratch::kFreeSteps;
    RegexMatch match;
    Attempt result = attempt(code, text, pos, limit, scratch, match);
    while (result == Attempt::out_of_steps) {
      limit *= kStepGrowth;
      scratch.num_steps_ += limit;
      if (scratch.num_steps_ > scratch.max_steps_ || limit > UINT32_MAX / kStepGrowth) refuse_text();
      result = attempt(code, text, pos, limit, scratch, match);
    }
    if (result == Attempt::match) return match;
    pos += pos < text.size() ? decode_utf8(text, pos).length : 1;
  }
  return std::nullopt;
}

Regex::Attempt Regex::attempt(const Code& code, std::string_view text, size_t from, uint32_t max_steps,
                              RegexScratch& scratch, RegexMatch& match) const {
  RegexScratch::Memory& memory = *scratch.memory_;
  pcre2_set_match_limit(memory.context.get(), max_steps);
  const auto subject = reinterpret_cast<PCRE2_SPTR>(text.data() != nullptr ? text.data() : "");
  const auto run = [&](auto&& function, uint32_t options) {
    return function(code.code.get(), subject, text.size(), from, PCRE2_NO_UTF_CHECK | options,
                    memory.match.get(), memory.context.get());
  };
  int rc = code.jit ? run(pcre2_jit_match, 0) : run(pcre2_match, PCRE2_NO_JIT);
  if (rc == PCRE2_ERROR_JIT_STACKLIMIT && !memory.stack) {
    memory.stack.reset(require_memory(pcre2_jit_stack_create(kJitStackBytes, kMaxJitStackBytes, nullptr)));
    pcre2_jit_stack_assign(memory.context.get(), nullptr, memory.stack.get());
    rc = run(pcre2_jit_match, 0);
  }
  if (rc == PCRE2_ERROR_JIT_STACKLIMIT) rc = run(pcre2_match, PCRE2_NO_JIT);
  if (rc == PCRE2_ERROR_NOMATCH) return Attempt::no_match;
  if (rc == PCRE2_ERROR_MATCHLIMIT) return Attempt::out_of_steps;
  if (rc < 0) refuse_text();
  const size_t* bounds = pcre2_get_ovector_pointer(memory.match.get());
  match = {bounds[0], bounds[1]};
  return Attempt::match;
}

void Regex::refuse_text() const {
  throw Error(ErrorCode::unsupported,
              "{}: the regular expression takes too many steps or too much memory on this text", where_);
}

std::optional<RegexMatch> RegexMatches::next() {
  while (from_ <= text_.size()) {
    const auto match = regex_.find(text_, from_, scratch_);
    if (!match) break;
    if (match->begin == match->end && match->end == last_end_) {
      from_ += from_ < text_.size() ? decode_utf8(text_, from_).length : 1;
      continue;
    }
    from_ = match->end;
    last_end_ = match->end;
    return match;
  }
  from_ = text_.size() + 1;
  return std::nullopt;
}

}  // namespace quire
