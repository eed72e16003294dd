// Text that must come, cut as a tokenizer cuts it: what a model has been trained on.
#pragma once

#include <string>
#include <string_view>

#include "core/tokenizer/tokenizer.h"

namespace quire {

// `before` ends where a token ended; `forced` comes after it, and then the text is over or goes on with one
// of `next`, each a character. The tokens of the beginning of `forced` that are there whichever comes; none
// where the tokenizer would not have ended a token there, or spells the text otherwise.
TokenIds cut_as_tokenizer(const Tokenizer& tokenizer, std::string_view before, std::string_view forced,
                          const std::vector<std::string>& next);

}  // namespace quire
