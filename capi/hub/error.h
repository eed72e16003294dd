// Failures of the hub client. They are separate from those of libquire, which knows no hub.
#pragma once

#include <stdexcept>
#include <string>

namespace quire::hub {

enum class Problem {
  usage,        // a name, an option or an environment variable is wrong
  absent,       // the cache lacks the model
  failed,       // the hub, the network or the disk failed
  interrupted,  // the caller requested the end
};

// Failure with a message of one line that names the thing at fault and the way out.
class HubError : public std::runtime_error {
 public:
  HubError(Problem problem, const std::string& message) : std::runtime_error(message), problem_(problem) {}
  Problem problem() const { return problem_; }

 private:
  Problem problem_;
};

}  // namespace quire::hub
