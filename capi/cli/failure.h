// Exit codes and failures of a command. Scripts rely on the numbers: docs/command.md lists them.
#pragma once

#include <stdexcept>
#include <string>

namespace quire::cli {

enum ExitCode : int {
  kExitOk = 0,
  kExitFailed = 1,        // a failure at run time
  kExitUsage = 2,         // the command line, or a value in it, is wrong
  kExitNoModel = 3,       // the model cannot be loaded
  kExitSignal = 128,      // plus the number of the signal: 130 after an interrupt
  kExitReaderGone = 141,  // standard output was closed by its reader; the code of SIGPIPE
};

// Ends the command with one line on standard error.
class Failure : public std::runtime_error {
 public:
  Failure(int exit_code, const std::string& message) : std::runtime_error(message), exit_code_(exit_code) {}
  int exit_code() const { return exit_code_; }

 private:
  int exit_code_;
};

}  // namespace quire::cli
