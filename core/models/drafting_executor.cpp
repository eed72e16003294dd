#include "core/models/drafting_executor.h"

namespace quire {
namespace {

// Returns the weights of the draft network among those of its target, and keeps the target's alive with them.
WeightsSource source_of_network(const WeightsSource& source) {
  if (source == nullptr) return nullptr;
  return [source]() -> std::shared_ptr<const Transformer> {
    const std::shared_ptr<const Transformer> target = source();
    return {target, &target->drafter->network};
  };
}

}  // namespace

std::unique_ptr<Executor> make_executor(const std::shared_ptr<const Transformer>& transformer,
                                        const TransformerExecutorOptions& options, WeightsSource source) {
  if (transformer->drafter != nullptr)
    return std::make_unique<DraftingExecutor>(transformer, options, source);
  return std::make_unique<TransformerExecutor>(transformer, options, std::move(source));
}

DraftingExecutor::DraftingExecutor(const std::shared_ptr<const Transformer>& transformer,
                                   const TransformerExecutorOptions& options, const WeightsSource& source)
    : target_(transformer, options, source),
      network_(transformer->drafter, target_, options, source_of_network(source)),
      num_pages_(target_.limits().guaranteed_pages()) {}

void DraftingExecutor::acquire_weights() {
  target_.acquire_weights();
  own().acquire_weights();
}

void DraftingExecutor::release_weights() {
  own().release_weights();
  target_.release_weights();
}

void DraftingExecutor::set_num_pages(int32_t num_pages) {
  target_.set_num_pages(num_pages);
  try {
    own().set_num_pages(num_pages);
  } catch (...) {
    target_.set_num_pages(num_pages_);
    throw;
  }
  num_pages_ = num_pages;
}

uint64_t DraftingExecutor::page_bytes(int32_t table) const {
  const uint64_t bytes = target_.page_bytes(table);
  return table > 0 ? bytes : bytes + network_.executor().page_bytes(0);
}

void DraftingExecutor::read_page(int32_t table, PageId page, gsl::span<std::byte> out) {
  const auto first = static_cast<size_t>(target_.page_bytes(table));
  target_.read_page(table, page, out.first(first));
  if (table == 0) own().read_page(0, page, out.subspan(first));
}

void DraftingExecutor::write_page(int32_t table, PageId page, gsl::span<const std::byte> bytes) {
  const auto first = static_cast<size_t>(target_.page_bytes(table));
  target_.write_page(table, page, bytes.first(first));
  if (table == 0) own().write_page(0, page, bytes.subspan(first));
}

}  // namespace quire
