#include "core/engine/prefixes/prefix_files.h"

#include <algorithm>
#include <array>
#include <charconv>

#include <fmt/format.h>

#include "core/base/checksum.h"
#include "core/base/error.h"
#include "core/base/hex.h"

namespace quire {
namespace {

// File names are NUMBER-FINGERPRINT-KEY.page with 16, 16 and 64 hexadecimal digits; those of snapshots end in
// .state.
constexpr size_t kNumberDigits = 16;
constexpr size_t kFingerprintDigits = 16;
constexpr size_t kKeyDigits = 2 * sizeof(Sha256);
constexpr std::string_view kPageSuffix = ".page";
constexpr std::string_view kStateSuffix = ".state";

// Header of a file. The tokens follow, then the bytes of the page, then a checksum of all of it.
struct Head {
  std::array<char, 8> magic = {'Q', 'U', 'I', 'R', 'E', 'P', 'F', 'X'};
  uint32_t version = 1;
  uint32_t num_tokens = 0;
  uint64_t num_bytes = 0;
  Sha256 fingerprint{};
  Sha256 key{};

  bool operator==(const Head&) const = default;
};
static_assert(sizeof(Head) == 88, "the header of a file must have no padding");

template <typename Number>
std::optional<Number> from_hex(std::string_view digits) {
  Number number{};
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number, 16);
  if (error != std::errc{} || end != digits.data() + digits.size()) return std::nullopt;
  return number;
}

struct Name {
  uint64_t number = 0;
  std::string_view fingerprint;
  Sha256 key{};
  FiledKind kind = FiledKind::page;
};

std::optional<Name> parse_name(std::string_view name) {
  constexpr size_t kKeyPlace = kNumberDigits + kFingerprintDigits + 2;
  if (name.size() <= kKeyPlace + kKeyDigits) return std::nullopt;
  const std::string_view suffix = name.substr(kKeyPlace + kKeyDigits);
  if (suffix != kPageSuffix && suffix != kStateSuffix) return std::nullopt;
  if (name[kNumberDigits] != '-' || name[kKeyPlace - 1] != '-') return std::nullopt;
  const auto number = from_hex<uint64_t>(name.substr(0, kNumberDigits));
  if (!number) return std::nullopt;
  Name parsed{*number,
              name.substr(kNumberDigits + 1, kFingerprintDigits),
              {},
              suffix == kStateSuffix ? FiledKind::state : FiledKind::page};
  for (size_t i = 0; i < parsed.key.size(); ++i) {
    const auto byte = from_hex<uint8_t>(name.substr(kKeyPlace + 2 * i, 2));
    if (!byte) return std::nullopt;
    parsed.key[i] = *byte;
  }
  return parsed;
}

Head head_of(const FiledPage& page, const Sha256& fingerprint) {
  Head head;
  head.num_tokens = gsl::narrow<uint32_t>(page.tokens.size());
  head.num_bytes = page.bytes.size();
  head.fingerprint = fingerprint;
  head.key = *page.name.key;
  return head;
}

uint64_t file_bytes(const FiledPage& page) {
  return sizeof(Head) + page.tokens.size_bytes() + page.bytes.size() + sizeof(uint64_t);
}

uint64_t sum_of(const Head& head, gsl::span<const std::byte> tokens, gsl::span<const std::byte> bytes) {
  return checksum(checksum(checksum(0, gsl::as_bytes(gsl::span(&head, 1))), tokens), bytes);
}

// Reads the page's bytes. Returns false if the file differs in any way from what was written.
bool read_page(const File& file, const FiledPage& page, const Sha256& fingerprint) {
  if (file.size_bytes() != file_bytes(page)) return false;
  Head head;
  file.read_at(0, gsl::as_writable_bytes(gsl::span(&head, 1)));
  if (head != head_of(page, fingerprint)) return false;
  std::vector<TokenId> tokens(page.tokens.size());
  const auto token_bytes = gsl::as_writable_bytes(gsl::span(tokens));
  file.read_at(sizeof(Head), token_bytes);
  if (!std::equal(tokens.begin(), tokens.end(), page.tokens.begin())) return false;
  uint64_t sum = 0;
  file.read_at(sizeof(Head) + token_bytes.size(), page.bytes);
  file.read_at(file.size_bytes() - sizeof sum, gsl::as_writable_bytes(gsl::span(&sum, 1)));
  return sum == sum_of(head, token_bytes, page.bytes);
}

}  // namespace

PrefixFiles::PrefixFiles(const FileSystem& files, const PrefixFilesOptions& options, const Log& log,
                         PageListener& listener)
    : files_(files),
      options_(options),
      log_(log),
      listener_(listener),
      fingerprint_digits_(to_hex(options.fingerprint).substr(0, kFingerprintDigits)) {
  if (!files.is_directory(options.directory)) {
    throw Error(ErrorCode::invalid_argument, "prefix_directory: {} is not a directory; create it first",
                options.directory)
        .at("prefix_directory");
  }
  for (const std::string& name : files.list(options.directory)) take_in(name);
  make_room(0);
}

// Adds a page of an earlier run. Ignores files that cannot be opened.
void PrefixFiles::take_in(const std::string& name) {
  const std::optional<Name> parsed = parse_name(name);
  if (!parsed) return;
  Entry entry{name, 0, {}, parsed->kind};
  try {
    entry.bytes = files_.open(path_of(name))->size_bytes();
  } catch (const Error&) {
    return;
  }
  last_number_ = std::max(last_number_, parsed->number);
  num_bytes_ += entry.bytes;
  const bool is_own = parsed->fingerprint == fingerprint_digits_ && !pages_.contains(parsed->key);
  if (is_own) entry.page.key = parsed->key;
  entries_.push_back(std::move(entry));
  if (!is_own) return;
  pages_.emplace(parsed->key, std::prev(entries_.end()));
  num_states_ += parsed->kind == FiledKind::state ? 1 : 0;
}

// Forgets a page and, if `removes`, deletes its file. Another process may have deleted it already.
void PrefixFiles::drop(Entries::iterator entry, bool removes) {
  if (removes) {
    try {
      files_.remove(path_of(entry->name));
    } catch (const Error& error) {
      log_(LogLevel::debug, "a stored prefix cannot be deleted: {}", error.what());
    }
  }
  num_bytes_ -= entry->bytes;
  if (entry->page.key) {
    pages_.erase(*entry->page.key);
    if (entry->kind == FiledKind::page) listener_.removed(entry->page, PageMedium::file);
    num_states_ -= entry->kind == FiledKind::state ? 1 : 0;
  }
  entries_.erase(entry);
}

void PrefixFiles::make_room(uint64_t bytes) {
  while (!entries_.empty() && num_bytes_ + bytes > options_.max_bytes) drop(entries_.begin(), true);
}

bool PrefixFiles::read(const FiledPage& page) {
  const auto found = pages_.find(*page.name.key);
  if (found == pages_.end()) return false;
  std::string_view why = "its content is damaged";
  bool is_there = true;
  try {
    if (read_page(*files_.open(path_of(found->second->name)), page, options_.fingerprint)) return true;
  } catch (const Error& error) {
    is_there = error.code() != ErrorCode::not_found;
    why = "it cannot be read";
  }
  // A file that another process deleted does not count as damaged.
  if (is_there) {
    ++num_refused_;
    log_(LogLevel::warning, "the stored prefix {} is not used: {}", path_of(found->second->name), why);
  }
  drop(found->second, is_there);
  return false;
}

void PrefixFiles::write(const FiledPage& page) {
  const uint64_t bytes = file_bytes(page);
  if (!is_writable_ || has(*page.name.key) || bytes > options_.max_bytes) return;
  make_room(bytes);
  const Head head = head_of(page, options_.fingerprint);
  const auto tokens = gsl::as_bytes(page.tokens);
  const uint64_t sum = sum_of(head, tokens, page.bytes);
  const std::array<gsl::span<const std::byte>, 4> pieces = {gsl::as_bytes(gsl::span(&head, 1)), tokens,
                                                            page.bytes, gsl::as_bytes(gsl::span(&sum, 1))};
  const bool is_state = page.kind == FiledKind::state;
  Entry entry{fmt::format("{:016x}-{}-{}{}", last_number_ + 1, fingerprint_digits_, to_hex(*page.name.key),
                          is_state ? kStateSuffix : kPageSuffix),
              bytes, page.name, page.kind};
  try {
    files_.write_whole(path_of(entry.name), pieces);
  } catch (const Error& error) {
    is_writable_ = false;
    log_(LogLevel::warning, "no more prefixes are written to files: {}", error.what());
    return;
  }
  ++last_number_;
  num_bytes_ += bytes;
  entries_.push_back(std::move(entry));
  pages_.emplace(*page.name.key, std::prev(entries_.end()));
  num_states_ += is_state ? 1 : 0;
  if (!is_state) listener_.stored(page.name, PageMedium::file, page.tokens);
}

// Calls `visit` for the pages with this fingerprint. Passes no tokens: those of pages from other processes
// are unknown.
void PrefixFiles::visit_pages(const PageVisitor& visit) const {
  for (const Entry& entry : entries_)
    if (entry.page.key && entry.kind == FiledKind::page) visit(entry.page, PageMedium::file, {});
}

}  // namespace quire
