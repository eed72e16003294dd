// Splits forced text into tokens as the tokenizer does, because models are trained on such splits.
#pragma once

#include <string>
#include <string_view>

#include "core/tokenizer/tokenizer.h"

namespace quire {

// `before` ends at a token boundary; `forced` follows it; then the text ends or continues with one of the
// characters `next`. Returns the leading tokens of `forced` that are the same in all these cases. Returns
// none if the tokenizer would not end a token there, or does not reproduce the text.
TokenIds split_as_tokenizer(const Tokenizer& tokenizer, std::string_view before, std::string_view forced,
                            const std::vector<std::string>& next);

}  // namespace quire
