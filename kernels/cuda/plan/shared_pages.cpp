#include "kernels/cuda/plan/shared_pages.h"

#include <algorithm>
#include <bit>
#include <numeric>

namespace quire::kernels {
namespace {

// Limits below which shared pages do not pay. They cost one more kernel per layer for the keys, and another
// one to append the tokens. Keys that each sequence reads itself are mostly in the L2: with three quarters of
// all reads saved, attention took as long as without sharing; with 85 %, three quarters of the time. A step
// that saved 210 reads took 8 % longer, one with 434 was 2 % faster, and one with 3,570 was 13 % faster
// (H100, 16 to 256 sequences of 2,048 tokens, 8B model).
constexpr int64_t kMinSaved = 400;   // reads of a chunk
constexpr int64_t kSavedOfFive = 4;  // out of five reads, at least
// Members per page: few if there are few pages, so that each multiprocessor has work. Otherwise many, since
// each group of members reads the page once more.
constexpr int32_t kMaxMembers = 64;
constexpr int32_t kMinMembers = 16;
constexpr int32_t kEnoughChunks =
    33;  // enough for the multiprocessors of a card, with the kv heads of a common model
constexpr int32_t kMinPages = 16;  // written for every step, with or without members

int32_t pieces_of(int32_t members, int32_t most) {
  return (members + most - 1) / most;
}

class Search {
 public:
  Search(const BatchView& host, int32_t num_sequences, const SharedPages& out)
      : host_(host), num_sequences_(num_sequences), out_(out) {
    std::iota(out.members, out.members + num_sequences, 0);
    std::fill_n(out.page_counts, num_sequences, 0);
  }

  int32_t run() {
    search(0, num_sequences_, 0);
    if (num_saved_ * chunks() < kMinSaved || num_saved_ * chunks() * 5 < num_reads() * kSavedOfFive) return 0;
    split(most_members());
    const auto told = static_cast<int32_t>(std::bit_ceil(static_cast<uint32_t>(num_pages_)));
    const int32_t padded = std::max(kMinPages, told);
    std::fill(out_.pages + num_pages_, out_.pages + padded, SharedPage{0, 0, 0});
    return padded;
  }

 private:
  int64_t chunks() const { return host_.page_tokens / kChunkTokens; }
  int32_t page(int32_t sequence, int32_t depth) const {
    return host_.page_table[static_cast<size_t>(sequence) * static_cast<size_t>(host_.page_table_stride) +
                            static_cast<size_t>(depth)];
  }
  // Returns the number of pages before the page of the sequence's token.
  int32_t whole_pages(int32_t sequence) const {
    return std::min((host_.kv_lengths[sequence] - 1) / host_.page_tokens, host_.page_table_stride);
  }
  int64_t num_reads() const {
    int64_t reads = 0;
    for (int32_t s = 0; s < num_sequences_; ++s) reads += (host_.kv_lengths[s] - 1) / kChunkTokens + 1;
    return reads;
  }

  // Searches among the members [first, last), which have the same pages before `depth`.
  void search(int32_t first, int32_t last, int32_t depth) {
    int32_t* members = out_.members;
    for (;; ++depth) {
      last = static_cast<int32_t>(
          std::partition(members + first, members + last, [&](int32_t s) { return whole_pages(s) > depth; }) -
          members);
      if (last - first < 2) return;
      const int32_t page_of_first = page(members[first], depth);
      if (std::any_of(members + first + 1, members + last,
                      [&](int32_t s) { return page(s, depth) != page_of_first; }))
        return part(first, last, depth);
      if (!tell(first, last, depth)) return;
    }
  }
  // Continues the search separately for each run of members with the same page.
  void part(int32_t first, int32_t last, int32_t depth) {
    int32_t* members = out_.members;
    std::sort(members + first, members + last,
              [&](int32_t a, int32_t b) { return page(a, depth) < page(b, depth); });
    for (int32_t end = first; first < last; first = end) {
      while (end < last && page(members[end], depth) == page(members[first], depth)) ++end;
      if (end - first > 1) search(first, end, depth);
    }
  }
  bool tell(int32_t first, int32_t last, int32_t depth) {
    const int32_t pieces = pieces_of(last - first, kMaxMembers);
    if (num_pieces_ + pieces > kMaxSharedPages) return false;
    num_pieces_ += pieces;
    num_saved_ += last - first - 1;
    out_.pages[num_pages_++] = {depth, first, last - first};
    for (int32_t i = first; i < last; ++i) out_.page_counts[out_.members[i]] = depth + 1;
    return true;
  }

  int32_t count_pieces(int32_t most) const {
    return std::accumulate(out_.pages, out_.pages + num_pages_, 0, [&](int32_t sum, const SharedPage& page) {
      return sum + pieces_of(page.num_members, most);
    });
  }
  int32_t most_members() const {
    int32_t most = kMaxMembers;
    while (most > kMinMembers && count_pieces(most) * chunks() < kEnoughChunks) most /= 2;
    return most;
  }
  // Splits pages with more than `most` members into several, starting at the last, so that each destination
  // is free.
  void split(int32_t most) {
    int32_t to = count_pieces(most);
    const int32_t total = to;
    for (int32_t i = num_pages_ - 1; i >= 0; --i) {
      const SharedPage page = out_.pages[i];
      const int32_t pieces = pieces_of(page.num_members, most);
      for (int32_t piece = pieces - 1; piece >= 0; --piece) {
        const int32_t begin = page.num_members * piece / pieces,
                      end = page.num_members * (piece + 1) / pieces;
        out_.pages[--to] = {page.index, page.first_member + begin, end - begin};
      }
    }
    num_pages_ = total;
  }

  const BatchView& host_;
  const int32_t num_sequences_;
  const SharedPages& out_;
  int32_t num_pages_ = 0;
  int32_t num_pieces_ = 0;  // pieces of kMaxMembers
  int64_t num_saved_ = 0;   // saved reads of a page
};

}  // namespace

int32_t find_shared_pages(const BatchView& host, int32_t num_sequences, const SharedPages& out) {
  if (host.page_tokens <= 0 || host.page_tokens % kChunkTokens != 0 || num_sequences < 2) return 0;
  return Search(host, num_sequences, out).run();
}

}  // namespace quire::kernels
