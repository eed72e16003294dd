// quire pull: brings a model from a hub into the cache that other programs share.
#include "capi/hub/pull.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <thread>

#include "capi/cli/commands.h"
#include "capi/cli/failure.h"
#include "capi/cli/terminal.h"
#include "capi/hub/error.h"

namespace quire::cli {
namespace {

struct PullCommandOptions {
  std::string name;
  int num_connections = 8;
  int num_retries = 5;
  bool verify = false;
  bool quiet = false;
  bool json = false;
  bool json_lines = false;

  bool prints_json() const { return json || json_lines; }
};

// Bar, share, size, speed and remaining time, on a terminal.
class DownloadBar {
 public:
  void show(const hub::DownloadProgress& progress) {
    if (!line_.enabled() || progress.total_bytes == 0) return;
    const auto now = std::chrono::steady_clock::now();
    if (first_done_ < 0) {
      first_done_ = progress.done_bytes;
      begin_ = now;
    }
    const int64_t done = std::min(progress.done_bytes, progress.total_bytes);
    const double share = static_cast<double>(done) / static_cast<double>(progress.total_bytes);
    constexpr size_t kWidth = 24;
    std::string bar(static_cast<size_t>(share * kWidth), '#');
    bar.resize(kWidth, '.');
    std::string text = "[" + bar + "] " + format_number(100.0 * share, 0) + "% of " +
                       format_bytes(static_cast<double>(progress.total_bytes));
    const double seconds = std::chrono::duration<double>(now - begin_).count();
    const auto new_bytes = static_cast<double>(done - first_done_);
    if (progress.is_checking) {
      text += "  checking";
    } else if (seconds > 1.0 && new_bytes > 0) {
      const double rate = new_bytes / seconds;
      text += "  " + format_bytes(rate) + "/s  " +
              time_text(static_cast<double>(progress.total_bytes - done) / rate);
    }
    line_.show(text);
  }
  void clear() { line_.clear(); }
  bool enabled() const { return line_.enabled(); }

 private:
  static std::string time_text(double seconds) {
    const auto whole = static_cast<int64_t>(std::min(seconds, 359999.0));
    const std::string rest = std::to_string(whole % 60);
    return std::to_string(whole / 60) + ":" + (rest.size() == 1 ? "0" : "") + rest + " left";
  }

  Progress line_;
  int64_t first_done_ = -1;
  std::chrono::steady_clock::time_point begin_{};
};

// Progress as JSON objects on standard output, at most two a second and one for each change of the work.
class ProgressLines {
 public:
  void show(const hub::DownloadProgress& progress) {
    const auto now = std::chrono::steady_clock::now();
    const bool changes = !is_shown_ || progress.is_checking != was_checking_;
    if (progress.total_bytes == 0 || (!changes && now - last_ < std::chrono::milliseconds(500))) return;
    print_json({{"completed", std::min(progress.done_bytes, progress.total_bytes)},
                {"total", progress.total_bytes},
                {"checking", progress.is_checking}});
    is_shown_ = true;
    was_checking_ = progress.is_checking;
    last_ = now;
  }

 private:
  bool is_shown_ = false;
  bool was_checking_ = false;
  std::chrono::steady_clock::time_point last_{};
};

// Copies the signal into the flag that the download checks.
class StopFlag {
 public:
  explicit StopFlag(const Interrupt& interrupt)
      : thread_([this, &interrupt] {
          while (!ending_.load() && !stop_.load()) {
            if (interrupt.requested()) stop_ = true;
            std::this_thread::sleep_for(std::chrono::milliseconds(20));
          }
        }) {}
  ~StopFlag() {
    ending_ = true;
    thread_.join();
  }
  StopFlag(const StopFlag&) = delete;
  StopFlag& operator=(const StopFlag&) = delete;
  const std::atomic<bool>& flag() const { return stop_; }

 private:
  std::atomic<bool> stop_{false};
  std::atomic<bool> ending_{false};
  std::thread thread_;  // the last member, as it uses the others
};

hub::PulledModel pull_with_progress(const PullCommandOptions& options, const Interrupt& interrupt) {
  hub::HubSettings settings = hub::settings_from_environment();
  settings.num_connections = options.num_connections;
  settings.num_retries = options.num_retries;
  const hub::ModelName name = hub::parse_model_name(options.name);
  const bool has_lines = !options.quiet && !options.prints_json();
  DownloadBar bar;
  ProgressLines lines;
  const hub::PullObserver observer{
      .show_progress =
          [&](const hub::DownloadProgress& progress) {
            if (options.json_lines) {
              lines.show(progress);
            } else if (!options.quiet) {
              bar.show(progress);
            }
          },
      .show_file =
          [&](const hub::RepositoryFile& file) {
            if (has_lines && !bar.enabled())
              note(file.path + "  " + format_bytes(static_cast<double>(file.size)));
          },
      .show_note =
          [&](const std::string& line) {
            bar.clear();
            if (has_lines) note(line);
          }};
  const StopFlag stop(interrupt);
  return hub::pull_model(settings, name, {.verify = options.verify}, observer, stop.flag());
}

int pull(const PullCommandOptions& options, Interrupt& interrupt) {
  const hub::PulledModel pulled = pull_with_progress(options, interrupt);
  if (options.prints_json()) {
    print_json({{"model", pulled.model.name.text()},
                {"path", pulled.model.path},
                {"commit", pulled.model.commit},
                {"bytes", pulled.model.bytes},
                {"num_files", pulled.num_files},
                {"num_downloaded_files", pulled.num_downloaded_files},
                {"downloaded_bytes", pulled.downloaded_bytes}});
    return kExitOk;
  }
  print_line(pulled.model.path);
  return kExitOk;
}

constexpr const char* kPullNotes =
    R"(Brings only the files that Quire needs, and prints the path of the model. What is there already is not brought
again, and an interrupted download continues. The cache is that of huggingface_hub.

Examples:
  quire pull HuggingFaceTB/SmolLM2-135M-Instruct
  quire pull bartowski/SmolLM2-135M-Instruct-GGUF:Q4_K_M
  quire pull turboderp/Llama-3.2-1B-Instruct-exl2@4.0bpw
  quire chat --model HuggingFaceTB/SmolLM2-135M-Instruct
)";

}  // namespace

Command add_pull(CLI::App& root) {
  auto options = std::make_shared<PullCommandOptions>();
  CLI::App* app = root.add_subcommand("pull", "Bring a model from a hub");
  app->footer(kPullNotes);
  app->add_option("NAME", options->name, "Model: ORG/NAME[:FILE or quantization][@revision]")->required();
  app->add_option("--connections", options->num_connections, "Connections at the same time")
      ->type_name("N")
      ->check(in_range(1, 64))
      ->capture_default_str();
  app->add_option("--retries", options->num_retries, "Attempts after a failure, if none brings anything")
      ->type_name("N")
      ->check(in_range(0, 100))
      ->capture_default_str();
  app->add_flag("--verify", options->verify, "Compute the digests of files that are there already");
  app->add_flag("-q,--quiet", options->quiet, "Show no progress");
  app->add_flag("--json", options->json, "Print one JSON object on standard output");
  app->add_flag(
      "--json-lines", options->json_lines,
      "Print JSON objects on standard output, one a line: bytes that have arrived, and at last the result");
  return {app, [options](Interrupt& interrupt) { return pull(*options, interrupt); }};
}

}  // namespace quire::cli
