// Temporary folder of a test, removed at its end.
#pragma once

#include <filesystem>
#include <fstream>
#include <string>
#include <unistd.h>

namespace quire::hub {

class HubFolder {
 public:
  HubFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "quire-hub-XXXXXX").string();
    path_ = ::mkdtemp(name.data());
  }
  ~HubFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  HubFolder(const HubFolder&) = delete;
  HubFolder& operator=(const HubFolder&) = delete;

  const std::string& path() const { return path_; }
  void write(const std::string& name, const std::string& text) const {
    const std::filesystem::path file = path_ + "/" + name;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file, std::ios::binary) << text;
  }
  void link(const std::string& name, const std::string& target) const {
    const std::filesystem::path file = path_ + "/" + name;
    std::filesystem::create_directories(file.parent_path());
    std::filesystem::create_symlink(target, file);
  }
  std::string read(const std::string& name) const {
    std::ifstream file(path_ + "/" + name, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  }
  bool has(const std::string& name) const { return std::filesystem::exists(path_ + "/" + name); }

 private:
  std::string path_;
};

}  // namespace quire::hub
