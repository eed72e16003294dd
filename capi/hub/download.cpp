#include "capi/hub/download.h"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <thread>
#include <utility>

#include "capi/hub/error.h"

namespace quire::hub {
namespace {

constexpr std::chrono::milliseconds kShowInterval(20);
// An attempt that brings less counts as a failure, so that a hub cannot keep the client busy with single
// bytes.
constexpr int64_t kMinAttemptBytes = 64 << 10;

// The numbers of "bytes FIRST-LAST/TOTAL".
struct ContentRange {
  int64_t first = -1;
  int64_t last = -1;
  int64_t total = -1;
};

ContentRange parse_content_range(std::string_view text) {
  constexpr std::string_view kUnit = "bytes ";
  ContentRange range;
  if (!text.starts_with(kUnit)) return range;
  text.remove_prefix(kUnit.size());
  const auto read = [&](int64_t& value, char end) {
    const auto parsed = std::from_chars(text.data(), text.data() + text.size(), value);
    const auto length = static_cast<size_t>(parsed.ptr - text.data());
    const bool is_good = parsed.ec == std::errc() &&
                         (end == '\0' ? length == text.size() : length < text.size() && text[length] == end);
    if (!is_good) value = -1;
    text.remove_prefix(std::min(text.size(), length + 1));
    return is_good;
  };
  if (read(range.first, '-') && read(range.last, '/')) read(range.total, '\0');
  return range;
}

}  // namespace

// Writes an answer to its place in the file. It accepts exactly the bytes that were requested.
class Download::PieceSink final : public BodySink {
 public:
  // `abandoned` becomes true if another connection has taken over the file.
  PieceSink(const PartialFile& file, ByteRange wanted, const std::atomic<bool>* abandoned,
            std::atomic<int64_t>& done_bytes)
      : file_(file), wanted_(wanted), abandoned_(abandoned), done_bytes_(done_bytes) {}

  bool begin(const HttpResponse& response) override {
    if (response.status == 206) {
      const ContentRange range = parse_content_range(response.content_range);
      if (!is_ranged() || range.first != wanted_.first || range.total != file_.file().size)
        problem_ = Kind::other_bytes;
    } else if (response.status != 200) {
      problem_ = Kind::other_bytes;
    } else if (is_ranged()) {
      problem_ = Kind::no_ranges;
    }
    return problem_ == Kind::none;
  }

  bool write(std::string_view bytes) override {
    if (abandoned_ != nullptr && abandoned_->load()) return false;
    if (static_cast<int64_t>(bytes.size()) > wanted_.size - num_written_) {
      problem_ = Kind::other_bytes;
      return false;
    }
    try {
      file_.write(wanted_.first + num_written_, bytes);
    } catch (const HubError&) {
      failure_ = std::current_exception();
      return false;
    }
    num_written_ += static_cast<int64_t>(bytes.size());
    done_bytes_ += static_cast<int64_t>(bytes.size());
    return true;
  }

  bool is_ranged() const { return wanted_.size != file_.file().size; }
  int64_t num_written() const { return num_written_; }
  bool is_complete() const { return num_written_ == wanted_.size; }
  // True if the hub answered with other bytes than those requested, or too many.
  bool has_other_bytes() const { return problem_ == Kind::other_bytes; }
  bool has_no_ranges() const { return problem_ == Kind::no_ranges; }
  // Throws the failure of the disk, if there was one.
  void rethrow() const {
    if (failure_) std::rethrow_exception(failure_);
  }

 private:
  enum class Kind { none, other_bytes, no_ranges };

  const PartialFile& file_;
  const ByteRange wanted_;
  const std::atomic<bool>* const abandoned_;
  std::atomic<int64_t>& done_bytes_;
  int64_t num_written_ = 0;
  Kind problem_ = Kind::none;
  std::exception_ptr failure_;
};

Download::Download(const HubSettings& settings, const ModelName& name, std::string commit,
                   const std::atomic<bool>& stop)
    : settings_(settings), name_(name), commit_(std::move(commit)), caller_stop_(stop) {}

void Download::add(std::unique_ptr<PartialFile> file) {
  files_.push_back(std::make_unique<File>());
  files_.back()->content = std::move(file);
}

int64_t Download::bytes_to_allocate() const {
  int64_t bytes = 0;
  for (const auto& file : files_) bytes += file->content->bytes_to_allocate();
  return bytes;
}

std::string Download::name_of(const File& file) const {
  return name_.repository + "/" + file.content->file().path;
}

void Download::plan() {
  for (const auto& file : files_) {
    file->content->reserve();
    total_bytes_ += file->content->file().size;
    done_bytes_ += file->content->bytes_here();
    for (int64_t number = 0; number < file->content->num_pieces(); ++number) {
      if (file->content->has_piece(number)) continue;
      work_.pieces.push_back({file.get(), number});
      ++file->num_missing;
    }
  }
}

void Download::run(const ShowProgress& show_progress, const ShowFile& show_file) {
  plan();
  HubClient client(settings_, stop_);  // opens libcurl before threads begin
  for (const auto& file : files_) file->url = client.address_of(name_, commit_, file->content->file().path);
  std::vector<std::thread> threads;
  const size_t wanted =
      std::clamp<size_t>(work_.pieces.size(), 1, static_cast<size_t>(settings_.num_connections));
  work_.num_threads = static_cast<int>(wanted);
  for (size_t i = 0; i < wanted; ++i) threads.emplace_back([this] { work(); });
  const size_t num_shown = wait_for_workers(show_progress, show_file);
  for (std::thread& thread : threads) thread.join();
  if (work_.failure) std::rethrow_exception(work_.failure);
  // Files of which every piece was there already, and empty ones.
  for (const auto& file : files_) {
    if (file->content->bytes_here() == file->content->file().size &&
        !regular_file_size(file->content->blob()))
      complete_file(client, *file);
  }
  show_completed(num_shown, show_file);
}

size_t Download::wait_for_workers(const ShowProgress& show_progress, const ShowFile& show_file) {
  size_t num_shown = 0;
  for (;;) {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      if (work_.num_threads == 0) return num_shown;
    }
    num_shown = show_completed(num_shown, show_file);
    if (caller_stop_.load()) stop_ = true;
    const int64_t done = done_bytes_.load();
    show_progress({.done_bytes = done, .total_bytes = total_bytes_, .is_checking = done >= total_bytes_});
    std::this_thread::sleep_for(kShowInterval);
  }
}

size_t Download::show_completed(size_t num_shown, const ShowFile& show_file) {
  std::vector<const RepositoryFile*> completed;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    completed = work_.completed;
  }
  for (size_t i = num_shown; i < completed.size(); ++i) show_file(*completed[i]);
  return completed.size();
}

void Download::record_failure() {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (!work_.failure) work_.failure = std::current_exception();
  stop_ = true;
}

bool Download::next(Piece& piece) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (work_.next_piece == work_.pieces.size() || stop_.load()) return false;
  piece = work_.pieces[work_.next_piece++];
  ++piece.file->num_active;
  return true;
}

void Download::work() {
  try {
    HubClient client(settings_, stop_);
    for (Piece piece; next(piece);) {
      if (!piece.file->is_whole.load()) fetch_piece(client, piece);
      --piece.file->num_active;
    }
    if (caller_stop_.load())
      throw HubError(Problem::interrupted, "interrupted; the same command continues the download");
  } catch (...) {
    record_failure();
  }
  const std::lock_guard<std::mutex> lock(mutex_);
  --work_.num_threads;
}

// Requests the bytes from the address that answered before, and from the hub's own if that one no longer
// works.
HttpResponse Download::request(HubClient& client, File& file, const std::optional<ByteRange>& range,
                               PieceSink& sink) {
  std::string direct;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    direct = file.direct_url;
  }
  HttpResponse response;
  if (!direct.empty()) {
    response = client.fetch(direct, range, sink);
    if (response.status < 400) return response;
  }
  response = client.fetch(file.url, range, sink);
  const std::lock_guard<std::mutex> lock(mutex_);
  const bool is_good = response.status >= 200 && response.status < 300 && response.url != file.url;
  file.direct_url = is_good ? response.url : std::string();
  return response;
}

void Download::fetch_piece(HubClient& client, const Piece& piece) {
  File& file = *piece.file;
  const ByteRange whole{piece.number * kPieceBytes, file.content->piece_bytes(piece.number)};
  RetryCounter retries(settings_.num_retries, stop_);
  for (int64_t done = 0; done < whole.size;) {
    const ByteRange wanted{whole.first + done, whole.size - done};
    PieceSink sink(*file.content, wanted, &file.is_whole, done_bytes_);
    const HttpResponse response =
        request(client, file, sink.is_ranged() ? std::optional(wanted) : std::nullopt, sink);
    sink.rethrow();
    if (file.is_whole.load()) return;
    if (sink.has_other_bytes()) throw other_bytes(file);
    if (sink.has_no_ranges()) return take_whole(client, file);
    done += sink.num_written();
    if (done == whole.size) break;
    const bool passes = HubClient::is_passing(response, name_of(file));
    // A shorter answer is allowed for a range only.
    if (!passes && response.status != 206) throw other_bytes(file);
    if (sink.num_written() >= kMinAttemptBytes) retries.forget();
    const std::string failure = passes ? HubClient::failure_of(response, name_of(file))
                                       : name_of(file) + ": the hub sends too few bytes";
    if (passes || sink.num_written() < kMinAttemptBytes) retries.wait(response.retry_seconds, failure);
  }
  file.content->complete(piece.number);
  if (--file.num_missing == 0 && !file.is_whole.load()) complete_file(client, file);
}

void Download::take_whole(HubClient& client, File& file) {
  if (file.is_whole.exchange(true)) return;
  // The others stop at their next bytes; nothing may write to the file after its digest is checked.
  while (file.num_active.load() > 1 && !stop_.load()) std::this_thread::sleep_for(kShowInterval);
  fetch_whole(client, file);
  complete_file(client, file);
}

// Fetches a file from its beginning over one connection. A cut connection begins again.
void Download::fetch_whole(HubClient& client, File& file) {
  RetryCounter retries(settings_.num_retries, stop_);
  for (;;) {
    PieceSink sink(*file.content, {0, file.content->file().size}, nullptr, done_bytes_);
    const HttpResponse response = request(client, file, std::nullopt, sink);
    sink.rethrow();
    if (sink.is_complete() && response.broken.empty()) return;
    if (sink.has_other_bytes() || !HubClient::is_passing(response, name_of(file))) throw other_bytes(file);
    done_bytes_ -= sink.num_written();
    retries.wait(response.retry_seconds, HubClient::failure_of(response, name_of(file)));
  }
}

HubError Download::other_bytes(const File& file) const {
  return {Problem::failed, name_of(file) + ": the hub sends other bytes than the " +
                               std::to_string(file.content->file().size) + " that it lists; try again later"};
}

void Download::complete_file(HubClient& client, File& file) {
  PartialFile& content = *file.content;
  const std::string expected = content.file().blob();
  std::string actual = content.digest(stop_);
  if (actual != expected && content.is_continued()) {
    // What an earlier download has left may be damaged, for example by a loss of power.
    content.begin_again();
    content.reserve();
    done_bytes_ -= content.file().size;
    fetch_whole(client, file);
    actual = content.digest(stop_);
  }
  if (actual != expected) {
    content.begin_again();
    throw HubError(Problem::failed, name_of(file) + ": the content has the digest " + actual +
                                        " and not the listed " + expected + "; it was removed, try again");
  }
  content.finish();
  const std::lock_guard<std::mutex> lock(mutex_);
  work_.completed.push_back(&content.file());
}

}  // namespace quire::hub
