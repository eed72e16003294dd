#include "core/models/token_map.h"

#include "core/base/error.h"
#include "core/loader/typed_tensor.h"

namespace quire {
namespace {

// Returns the token of each column of a tensor with elements of type T.
template <typename T>
std::vector<TokenId> tokens_of(const HostTensor& tensor, const std::string& where, int32_t num_tokens) {
  const gsl::span<const T> differences = tensor.elements<T>();
  std::vector<TokenId> tokens;
  tokens.reserve(differences.size());
  for (size_t column = 0; column < differences.size(); ++column) {
    const auto first = static_cast<int64_t>(column), difference = int64_t{differences[column]};
    if (difference < -first || difference >= num_tokens - first) {
      throw Error(ErrorCode::format,
                  "{}: column {} is none of the target's tokens, 0 to {}; choose a drafter that was trained "
                  "for this model",
                  where, column, num_tokens - 1);
    }
    tokens.push_back(static_cast<TokenId>(first + difference));
  }
  return tokens;
}

}  // namespace

std::vector<TokenId> read_token_map(const WeightDirectory& files, const std::string& name, int32_t columns,
                                    int32_t num_tokens) {
  WeightReader reader(files);
  const WeightDirectory::Entry& entry = files.at(name);
  const std::string where = describe(entry);
  if (entry.tensor->type->dtype == DType::i32)
    return tokens_of<int32_t>(read_typed(reader, name, {columns}, DType::i32), where, num_tokens);
  return tokens_of<int64_t>(read_typed(reader, name, {columns}, DType::i64), where, num_tokens);
}

}  // namespace quire
