#include "core/loader/safetensors_header.h"

#include <algorithm>
#include <optional>
#include <unordered_set>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "core/base/error.h"
#include "core/base/utf8.h"

namespace quire {
namespace {

constexpr std::string_view kMetadataKey = "__metadata__";

// Tensor as the header describes it, before validation.
struct Entry {
  std::string name;
  const StoredType* type = nullptr;
  std::optional<std::vector<uint64_t>> shape;
  std::optional<std::vector<uint64_t>> offsets;
};

// SAX handler for the fixed grammar of a header, so that no document tree is built and a value in the wrong
// place is rejected at once:
//
//    { "__metadata__": { name: string ... }, name: { "dtype": string, "shape": [int ...],
//      "data_offsets": [int, int] } ... }
class HeaderHandler final : public nlohmann::json_sax<nlohmann::json> {
 public:
  explicit HeaderHandler(std::string_view source) : source_(source) {}

  std::vector<Entry> entries;
  std::map<std::string, std::string> metadata;

  bool null() override { unexpected("null"); }
  bool boolean(bool) override { unexpected("true or false"); }
  bool number_integer(number_integer_t) override { unexpected("a negative number"); }
  bool number_float(number_float_t, const string_t&) override {
    unexpected("a number that is no whole number of 64 bits");
  }
  bool binary(binary_t&) override { unexpected("binary data"); }

  bool number_unsigned(number_unsigned_t value) override {
    if (place_ == Place::shape) {
      if (entry_.shape->size() == kMaxTensorRank) fail("has more than {} dimensions", kMaxTensorRank);
      entry_.shape->push_back(value);
    } else if (place_ == Place::offsets) {
      if (entry_.offsets->size() == 2) fail("has more than two data_offsets");
      entry_.offsets->push_back(value);
    } else {
      unexpected("a number");
    }
    return true;
  }

  bool string(string_t& value) override {
    if (place_ == Place::metadata) {
      metadata.emplace(key_, std::move(value));
      return true;
    }
    if (place_ != Place::tensor || key_ != "dtype") unexpected("a string");
    entry_.type = find_stored_type(value);
    if (!entry_.type) fail("has the unknown type \"{}\"", printable(value, 32));
    return true;
  }

  bool start_object(std::size_t) override {
    if (place_ == Place::start) {
      place_ = Place::names;
    } else if (place_ == Place::names) {
      place_ = key_ == kMetadataKey ? Place::metadata : Place::tensor;
      seen_.clear();
      if (place_ == Place::tensor) {
        entry_ = Entry();
        entry_.name = key_;
      }
    } else {
      unexpected("an object");
    }
    return true;
  }

  bool end_object() override {
    if (place_ == Place::tensor) {
      require(entry_.type != nullptr, "dtype");
      require(entry_.shape.has_value(), "shape");
      require(entry_.offsets && entry_.offsets->size() == 2, "data_offsets of two numbers");
      if (entries.size() == kMaxTensorsOfFile) {
        throw Error(ErrorCode::format, "{}: more than {} tensors", source_, kMaxTensorsOfFile);
      }
      entries.push_back(std::move(entry_));
    }
    place_ = place_ == Place::names ? Place::done : Place::names;
    return true;
  }

  bool start_array(std::size_t) override {
    if (place_ == Place::tensor && key_ == "shape") {
      entry_.shape.emplace();
      place_ = Place::shape;
    } else if (place_ == Place::tensor && key_ == "data_offsets") {
      entry_.offsets.emplace();
      place_ = Place::offsets;
    } else {
      unexpected("a list");
    }
    return true;
  }

  bool end_array() override {
    place_ = Place::tensor;
    return true;
  }

  bool key(string_t& name) override {
    auto& seen = place_ == Place::names ? names_ : seen_;
    if (!seen.insert(name).second) {
      throw Error(ErrorCode::format, "{}: the name \"{}\" appears twice in its header", source_,
                  printable(name));
    }
    if (place_ == Place::tensor && name != "dtype" && name != "shape" && name != "data_offsets") {
      fail("has the unknown field \"{}\"", printable(name, 32));
    }
    key_ = std::move(name);
    return true;
  }

  bool parse_error(std::size_t position, const std::string&, const nlohmann::detail::exception&) override {
    throw Error(ErrorCode::format, "{}: its header is not valid JSON at byte {}", source_, position);
  }

 private:
  enum class Place { start, names, metadata, tensor, shape, offsets, done };

  template <typename... Args>
  [[noreturn]] void fail(fmt::format_string<Args...> format, Args&&... args) const {
    throw Error(ErrorCode::format, "{}: tensor \"{}\" {}", source_, printable(entry_.name),
                fmt::format(format, std::forward<Args>(args)...));
  }

  [[noreturn]] void unexpected(std::string_view what) const {
    switch (place_) {
      case Place::start:
      case Place::done:
        throw Error(ErrorCode::format, "{}: its header must be one JSON object", source_);
      case Place::names:
        throw Error(ErrorCode::format, "{}: \"{}\" is {}, but an object is needed", source_, printable(key_),
                    what);
      case Place::metadata:
        throw Error(ErrorCode::format, "{}: {} \"{}\" is {}, but a string is needed", source_, kMetadataKey,
                    printable(key_), what);
      case Place::tensor:
        fail("has {} as its {}", what, key_);
      case Place::shape:
        fail("has {} in its shape", what);
      case Place::offsets:
        fail("has {} in its data_offsets", what);
    }
    throw Error(ErrorCode::internal, "{}: the header parser is in an unknown state", source_);
  }

  void require(bool present, std::string_view what) const {
    if (!present) fail("has no {}", what);
  }

  std::string_view source_;
  Place place_ = Place::start;
  std::string key_;
  Entry entry_;
  std::unordered_set<std::string> names_;  // of the whole header
  std::unordered_set<std::string> seen_;   // of the innermost object
};

// Returns the name of a tensor for an error message. Only called to build a message: doing so for every
// tensor took most of the time of parsing a header.
std::string name_of(const Entry& entry, std::string_view source) {
  return fmt::format("{}: tensor \"{}\"", source, printable(entry.name));
}

// Returns shape x type in bytes. Extents of zero are left out of the product, so that an overflow is found
// wherever they are.
uint64_t bytes_of_shape(const Entry& entry, std::string_view source) {
  uint64_t bits = entry.type->bits;
  bool empty = false;
  for (const uint64_t extent : *entry.shape) {
    const bool fits = std::in_range<int64_t>(extent);
    if (extent == 0) {
      empty = true;
    } else if (!fits || __builtin_mul_overflow(bits, extent, &bits)) {
      throw Error(ErrorCode::format, "{}: the product of its extents overflows at {}", name_of(entry, source),
                  extent);
    }
  }
  if (empty) return 0;
  if (bits % 8 != 0) {
    throw Error(ErrorCode::format, "{}: {} bits of {} do not fill whole bytes", name_of(entry, source), bits,
                entry.type->name);
  }
  return bits / 8;
}

TensorInfo checked_tensor(Entry entry, uint64_t data_offset, std::string_view source) {
  const uint64_t begin = (*entry.offsets)[0];
  const uint64_t end = (*entry.offsets)[1];
  const uint64_t size = bytes_of_shape(entry, source);
  uint64_t offset = 0;
  if (begin > end || __builtin_add_overflow(data_offset, end, &offset)) {
    throw Error(ErrorCode::format, "{}: its data_offsets {} and {} are not a range of bytes",
                name_of(entry, source), begin, end);
  }
  TensorInfo tensor;
  for (const uint64_t extent : *entry.shape) tensor.shape.push_back(static_cast<int64_t>(extent));
  if (size != end - begin) {
    throw Error(ErrorCode::format, "{}: its shape {} of {} takes {} bytes, its data_offsets hold {}",
                name_of(entry, source), shape_text(tensor.shape), entry.type->name, size, end - begin);
  }
  tensor.name = std::move(entry.name);
  tensor.type = entry.type;
  tensor.offset_bytes = data_offset + begin;
  tensor.size_bytes = size;
  return tensor;
}

// Checks that every byte of the data area belongs to exactly one tensor. An empty tensor lies at a boundary.
// If tensors cover more bytes than exist, the file was truncated.
void require_exact_cover(std::vector<TensorInfo>& tensors, uint64_t data_offset, uint64_t data_bytes,
                         std::string_view source) {
  std::sort(tensors.begin(), tensors.end(), [](const TensorInfo& a, const TensorInfo& b) {
    return std::pair(a.offset_bytes, a.size_bytes) < std::pair(b.offset_bytes, b.size_bytes);
  });
  uint64_t covered = data_offset;
  for (const TensorInfo& tensor : tensors) {
    if (tensor.offset_bytes != covered) {
      throw Error(ErrorCode::format,
                  "{}: tensor \"{}\" begins at byte {} of the data, but byte {} is next ({})", source,
                  printable(tensor.name), tensor.offset_bytes - data_offset, covered - data_offset,
                  tensor.offset_bytes < covered ? "ranges overlap" : "a hole");
    }
    covered += tensor.size_bytes;
  }
  const uint64_t needed = covered - data_offset;
  if (needed > data_bytes) {
    throw Error(ErrorCode::truncated,
                "{}: its tensors need {} bytes, it has {}; the file is truncated, copy it again", source,
                needed, data_bytes);
  }
  if (needed < data_bytes) {
    throw Error(ErrorCode::format, "{}: {} bytes after the last tensor belong to no tensor", source,
                data_bytes - needed);
  }
}

}  // namespace

uint64_t TensorInfo::num_elements() const {
  uint64_t product = 1;
  for (const int64_t extent : shape) product *= static_cast<uint64_t>(extent);
  return product;
}

std::string shape_text(const std::vector<int64_t>& shape) {
  return fmt::format("[{}]", fmt::join(shape, ", "));
}

SafetensorsHeader parse_safetensors_header(std::string_view text, uint64_t data_offset, uint64_t data_bytes,
                                           std::string_view source) {
  if (text.empty() || text.front() != '{') {
    throw Error(ErrorCode::format, "{}: its header does not begin with '{{'", source);
  }
  // The parser would take a NUL for the end of the text.
  if (text.find('\0') != std::string_view::npos) {
    throw Error(ErrorCode::format, "{}: its header is not valid JSON at byte {}", source, text.find('\0'));
  }
  const size_t invalid = find_invalid_utf8(text);
  if (invalid != text.size()) {
    throw Error(ErrorCode::format, "{}: its header is not UTF-8 at byte {}", source, invalid);
  }
  HeaderHandler handler(source);
  if (!nlohmann::json::sax_parse(text.begin(), text.end(), &handler)) {
    throw Error(ErrorCode::format, "{}: its header is not valid JSON", source);
  }
  SafetensorsHeader header;
  header.metadata = std::move(handler.metadata);
  header.tensors.reserve(handler.entries.size());
  for (Entry& entry : handler.entries) {
    header.tensors.push_back(checked_tensor(std::move(entry), data_offset, source));
  }
  require_exact_cover(header.tensors, data_offset, data_bytes, source);
  std::sort(header.tensors.begin(), header.tensors.end(),
            [](const TensorInfo& a, const TensorInfo& b) { return a.name < b.name; });
  return header;
}

}  // namespace quire
