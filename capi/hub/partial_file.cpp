#include "capi/hub/partial_file.h"

#include <algorithm>
#include <charconv>
#include <fcntl.h>
#include <utility>

#include "capi/hub/digest.h"
#include "capi/hub/error.h"
#include "core/base/hex.h"
#include "core/base/sha256.h"

namespace quire::hub {
namespace {

constexpr size_t kReadBytes = 1 << 20;
constexpr size_t kMaxJournalBytes = 64 << 20;

int64_t count_pieces(int64_t size) {
  return size / kPieceBytes + (size % kPieceBytes != 0 ? 1 : 0);
}

// Parses a line of the journal; -1 if it is no number.
int64_t parse_piece(std::string_view line) {
  int64_t piece = -1;
  const auto read = std::from_chars(line.data(), line.data() + line.size(), piece);
  return read.ec == std::errc() && read.ptr == line.data() + line.size() ? piece : -1;
}

// Returns the digest of the kind that the hub lists for the file.
std::string digest_of(const RepositoryFile& file, const OpenFile& data, const std::atomic<bool>& stop) {
  Sha256Stream sha256;
  Sha1 sha1;
  const bool is_large = !file.sha256.empty();
  sha1.add("blob " + std::to_string(file.size) + std::string(1, '\0'));
  std::string buffer(kReadBytes, '\0');
  for (int64_t offset = 0; offset < file.size;) {
    if (stop.load())
      throw HubError(Problem::interrupted, "interrupted; the same command continues the download");
    const size_t count = data.read_at(offset, buffer.data(), buffer.size());
    if (count == 0) throw HubError(Problem::failed, data.path() + ": another program has made it shorter");
    const std::string_view bytes(buffer.data(), count);
    if (is_large) {
      sha256.add(bytes);
    } else {
      sha1.add(bytes);
    }
    offset += static_cast<int64_t>(count);
  }
  return is_large ? to_hex(sha256.finish()) : sha1.finish();
}

}  // namespace

std::string file_digest(const RepositoryFile& file, const std::string& path, const std::atomic<bool>& stop) {
  return digest_of(file, OpenFile(path, O_RDONLY), stop);
}

PartialFile::PartialFile(RepositoryFile file, std::string blob)
    : file_(std::move(file)),
      blob_(std::move(blob)),
      data_(blob_ + ".quire.incomplete", O_RDWR | O_CREAT | O_NOFOLLOW),
      journal_(blob_ + ".quire.pieces", O_RDWR | O_CREAT | O_APPEND | O_NOFOLLOW),
      has_piece_(static_cast<size_t>(count_pieces(file_.size))) {
  read_journal();
}

std::string PartialFile::header() const {
  return "quire pieces " + std::to_string(file_.size) + " " + std::to_string(kPieceBytes) + "\n";
}

// A journal of another size, or with anything unknown in it, counts as none. A last line without its end is
// one that was being written.
void PartialFile::read_journal() {
  const std::string text = read_small_file(journal_.path(), kMaxJournalBytes).value_or("");
  if (!text.starts_with(header()) || data_.size() != file_.size) {
    begin_again();
    return;
  }
  std::string_view rest = std::string_view(text).substr(header().size());
  for (size_t end = rest.find('\n'); end != std::string_view::npos; end = rest.find('\n')) {
    const int64_t piece = parse_piece(rest.substr(0, end));
    if (piece < 0 || piece >= num_pieces()) {
      begin_again();
      return;
    }
    has_piece_[static_cast<size_t>(piece)] = true;
    is_continued_ = true;
    rest.remove_prefix(end + 1);
  }
  journal_.resize(static_cast<int64_t>(text.size() - rest.size()));
}

void PartialFile::begin_again() {
  std::fill(has_piece_.begin(), has_piece_.end(), false);
  is_continued_ = false;
  data_.resize(0);
  journal_.resize(0);
  journal_.append(header());
}

int64_t PartialFile::piece_bytes(int64_t piece) const {
  return std::min(kPieceBytes, file_.size - piece * kPieceBytes);
}

int64_t PartialFile::bytes_here() const {
  int64_t bytes = 0;
  for (int64_t piece = 0; piece < num_pieces(); ++piece) bytes += has_piece(piece) ? piece_bytes(piece) : 0;
  return bytes;
}

int64_t PartialFile::bytes_to_allocate() const {
  return std::max<int64_t>(0, file_.size - data_.allocated_bytes());
}

void PartialFile::complete(int64_t piece) {
  const std::lock_guard<std::mutex> lock(mutex_);
  has_piece_[static_cast<size_t>(piece)] = true;
  journal_.append(std::to_string(piece) + "\n");
}

std::string PartialFile::digest(const std::atomic<bool>& stop) const {
  return digest_of(file_, data_, stop);
}

void PartialFile::finish() const {
  data_.sync();
  rename_file(data_.path(), blob_);
  remove_file(journal_.path());
}

}  // namespace quire::hub
