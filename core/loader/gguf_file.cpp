#include "core/loader/gguf_file.h"

#include <algorithm>
#include <array>

#include "core/base/checked_math.h"
#include "core/base/error.h"

namespace quire {
namespace {

using kernels::BlockType;

constexpr std::string_view kMagic = "GGUF";
constexpr uint64_t kMaxKeys = uint64_t{1} << 16;
constexpr uint64_t kMaxNameBytes = 1024;
constexpr uint32_t kMaxRank = 4;
constexpr uint64_t kMaxAlignment = uint64_t{1} << 20;
constexpr uint64_t kMaxExtent = uint64_t{1} << 40;

// Types of whole numbers and floats, which safetensors has too.
struct PlainType {
  uint32_t id = 0;
  std::string_view name;
};
constexpr std::array<PlainType, 8> kPlainTypes = {{
    {0, "F32"},
    {1, "F16"},
    {24, "I8"},
    {25, "I16"},
    {26, "I32"},
    {27, "I64"},
    {28, "F64"},
    {30, "BF16"},
}};

// Types whose elements are coded in blocks.
struct NumberedBlocks {
  uint32_t id = 0;
  BlockType type = BlockType::none;
};
constexpr std::array<NumberedBlocks, 25> kBlockTypes = {{
    {2, BlockType::q4_0},     {3, BlockType::q4_1},    {6, BlockType::q5_0},     {7, BlockType::q5_1},
    {8, BlockType::q8_0},     {10, BlockType::q2_k},   {11, BlockType::q3_k},    {12, BlockType::q4_k},
    {13, BlockType::q5_k},    {14, BlockType::q6_k},   {16, BlockType::iq2_xxs}, {17, BlockType::iq2_xs},
    {18, BlockType::iq3_xxs}, {19, BlockType::iq1_s},  {20, BlockType::iq4_nl},  {21, BlockType::iq3_s},
    {22, BlockType::iq2_s},   {23, BlockType::iq4_xs}, {29, BlockType::iq1_m},   {34, BlockType::tq1_0},
    {35, BlockType::tq2_0},   {39, BlockType::mxfp4},  {40, BlockType::nvfp4},   {41, BlockType::q1_0},
    {42, BlockType::q2_0},
}};

std::string read_magic(const File& file) {
  std::string bytes(static_cast<size_t>(std::min<uint64_t>(file.size_bytes(), kMagic.size())), '\0');
  file.read_at(0, gsl::as_writable_bytes(gsl::span<char>(bytes.data(), bytes.size())));
  return bytes;
}

void check_version(uint32_t version, const std::string& path) {
  if (version == 2 || version == 3) return;
  if (version != 0 && (version & 0xffffU) == 0) {
    throw Error(ErrorCode::unsupported, "{}: a GGUF file for big-endian machines, which is not supported",
                path);
  }
  throw Error(ErrorCode::unsupported, "{}: version {} of GGUF is not supported; 2 and 3 are", path, version);
}

uint64_t alignment_of(const GgufMetadata& metadata) {
  const int64_t alignment = metadata.integer("general.alignment").value_or(32);
  const auto value = static_cast<uint64_t>(alignment);
  if (alignment > 0 && value <= kMaxAlignment && (value & (value - 1)) == 0) return value;
  throw Error(ErrorCode::format, "{}: \"general.alignment\" is {}, not a power of two of at most {}",
              metadata.source(), alignment, kMaxAlignment);
}

// Returns the size of a tensor; its shape was checked.
uint64_t size_of(const TensorInfo& tensor, const std::string& where) {
  const uint64_t elements = tensor.num_elements();
  if (!tensor.type->has_blocks()) return checked_mul(elements, uint64_t{tensor.type->bits / 8}, where);
  const kernels::BlockShape& shape = kernels::block_shape(tensor.type->blocks);
  return elements / static_cast<uint64_t>(shape.weights) * static_cast<uint64_t>(shape.bytes);
}

std::vector<int64_t> read_shape(GgufCursor& cursor, const std::string& what, const std::string& where) {
  const auto rank = cursor.take<uint32_t>(what);
  if (rank > kMaxRank)
    throw Error(ErrorCode::format, "{}: has {} dimensions, more than {}", where, rank, kMaxRank);
  std::vector<int64_t> shape;
  uint64_t elements = 1;
  for (uint32_t i = 0; i < rank; ++i) {
    const auto extent = cursor.take<uint64_t>(what);
    if (extent == 0 || extent > kMaxExtent)
      throw Error(ErrorCode::format, "{}: dimension {} is {}, not in 1 to {}", where, i, extent, kMaxExtent);
    elements = checked_mul(elements, extent, where);
    shape.push_back(static_cast<int64_t>(extent));
  }
  if (elements > uint64_t{INT64_MAX})
    throw Error(ErrorCode::format, "{}: {} elements are too many", where, elements);
  std::reverse(shape.begin(), shape.end());
  return shape;
}

void require_whole_blocks(const TensorInfo& tensor, const std::string& where) {
  if (!tensor.type->has_blocks()) return;
  const kernels::BlockShape& shape = kernels::block_shape(tensor.type->blocks);
  const int64_t columns = tensor.shape.empty() ? 1 : tensor.shape.back();
  if (columns % shape.weights == 0) return;
  throw Error(ErrorCode::format, "{}: rows of {} elements are no multiple of the blocks of {} of {}", where,
              columns, shape.weights, shape.name);
}

TensorInfo read_tensor(GgufCursor& cursor, const std::string& path) {
  TensorInfo tensor;
  tensor.name = cursor.take_text(kMaxNameBytes, "the name of a tensor");
  const std::string what = fmt::format("the entry of tensor \"{}\"", printable(tensor.name));
  const std::string where = fmt::format("{}: tensor \"{}\"", path, printable(tensor.name));
  tensor.shape = read_shape(cursor, what, where);
  const auto type = cursor.take<uint32_t>(what);
  tensor.type = find_gguf_type(type);
  if (tensor.type == nullptr)
    throw Error(ErrorCode::unsupported, "{}: the type {} is not supported", where, type);
  require_whole_blocks(tensor, where);
  tensor.size_bytes = size_of(tensor, where);
  tensor.offset_bytes = cursor.take<uint64_t>(what);
  return tensor;
}

}  // namespace

const StoredType* find_gguf_type(uint32_t id) {
  for (const PlainType& type : kPlainTypes)
    if (type.id == id) return find_stored_type(type.name);
  for (const NumberedBlocks& blocks : kBlockTypes)
    if (blocks.id == id) return &stored_type_of(blocks.type);
  return nullptr;
}

bool is_gguf_file(const FileSystem& files, const std::string& path) {
  return files.is_file(path) && read_magic(*files.open(path)) == kMagic;
}

GgufFile::GgufFile(std::unique_ptr<File> file) : file_(std::move(file)), metadata_(file_->path()) {
  read_header();
}

void GgufFile::read_header() {
  if (read_magic(*file_) != kMagic)
    throw Error(ErrorCode::format, "{}: does not begin with \"GGUF\"", path());
  GgufCursor cursor(*file_);
  cursor.skip(kMagic.size(), "the header");
  check_version(cursor.take<uint32_t>("the version"), path());
  const auto num_tensors = cursor.take<uint64_t>("the number of tensors");
  const auto num_keys = cursor.take<uint64_t>("the number of keys");
  if (num_keys > kMaxKeys)
    throw Error(ErrorCode::format, "{}: {} keys, more than the limit of {}", path(), num_keys, kMaxKeys);
  if (num_tensors > kMaxTensorsOfFile)
    throw Error(ErrorCode::format, "{}: {} tensors, more than the limit of {}", path(), num_tensors,
                kMaxTensorsOfFile);
  for (uint64_t i = 0; i < num_keys; ++i) {
    std::string key = cursor.take_text(kMaxNameBytes, "a key");
    GgufValue value = read_gguf_value(cursor, key, path());
    metadata_.add(std::move(key), std::move(value));
  }
  read_tensors(cursor, num_tensors);
  place_tensors(round_up(cursor.position(), alignment_of(metadata_)));
  std::sort(tensors_.begin(), tensors_.end(),
            [](const TensorInfo& a, const TensorInfo& b) { return a.name < b.name; });
  const auto twice =
      std::adjacent_find(tensors_.begin(), tensors_.end(),
                         [](const TensorInfo& a, const TensorInfo& b) { return a.name == b.name; });
  if (twice != tensors_.end())
    throw Error(ErrorCode::format, "{}: tensor \"{}\" appears twice", path(), printable(twice->name));
}

void GgufFile::read_tensors(GgufCursor& cursor, uint64_t count) {
  constexpr uint64_t kLeastEntryBytes = 24;
  cursor.require(count * kLeastEntryBytes, "the table of tensors");  // the count is limited
  tensors_.reserve(static_cast<size_t>(count));
  for (uint64_t i = 0; i < count; ++i) tensors_.push_back(read_tensor(cursor, path()));
}

// Turns offsets within the data into offsets in the file, and checks that tensors lie within it and apart.
void GgufFile::place_tensors(uint64_t data_offset) {
  const uint64_t alignment = alignment_of(metadata_), file_bytes = file_->size_bytes();
  std::sort(tensors_.begin(), tensors_.end(),
            [](const TensorInfo& a, const TensorInfo& b) { return a.offset_bytes < b.offset_bytes; });
  uint64_t free_from = data_offset;
  for (TensorInfo& tensor : tensors_) {
    const std::string where = fmt::format("{}: tensor \"{}\"", path(), printable(tensor.name));
    if (tensor.offset_bytes % alignment != 0)
      throw Error(ErrorCode::format, "{}: the offset {} is no multiple of the alignment {}", where,
                  tensor.offset_bytes, alignment);
    tensor.offset_bytes = checked_add(data_offset, tensor.offset_bytes, where);
    const uint64_t end = checked_add(tensor.offset_bytes, tensor.size_bytes, where);
    if (end > file_bytes)
      throw Error(ErrorCode::truncated, "{}: ends at byte {}, but the file has {}", where, end, file_bytes);
    if (tensor.offset_bytes < free_from)
      throw Error(ErrorCode::format, "{}: overlaps another tensor at byte {}", where, tensor.offset_bytes);
    free_from = end;
  }
}

const TensorInfo* GgufFile::find(std::string_view name) const {
  const auto it =
      std::lower_bound(tensors_.begin(), tensors_.end(), name,
                       [](const TensorInfo& tensor, std::string_view key) { return tensor.name < key; });
  return it != tensors_.end() && it->name == name ? &*it : nullptr;
}

namespace {

constexpr int64_t kMaxFiles = 1024;

// Requires that a file of a split model has its own number and that of all files.
void require_part(const GgufFile& file, int64_t index, int64_t count) {
  const auto check = [&](std::string_view key, int64_t wanted) {
    const int64_t found = file.metadata().integer(key).value_or(-1);
    if (found != wanted)
      throw Error(ErrorCode::format,
                  "{}: \"{}\" is {}, but {} is needed; the files of one model belong together", file.path(),
                  key, found, wanted);
  };
  check("split.no", index);
  check("split.count", count);
}

// Returns the path of file `index` of a model in `count` files whose first file is `path`.
std::string path_of_part(const std::string& path, int64_t index, int64_t count) {
  const std::string ending = fmt::format("-00001-of-{:05}.gguf", count);
  if (!path.ends_with(ending)) {
    throw Error(ErrorCode::format, "{}: one of {} files of a model, but its name does not end in \"{}\"",
                path, count, ending);
  }
  return fmt::format("{}-{:05}-of-{:05}.gguf", path.substr(0, path.size() - ending.size()), index + 1, count);
}

}  // namespace

std::vector<GgufFile> open_gguf_files(const FileSystem& files, const std::string& path) {
  std::vector<GgufFile> opened;
  opened.emplace_back(files.open(path));
  const int64_t count = opened.front().metadata().integer("split.count").value_or(0);
  if (count <= 1) return opened;
  if (count > kMaxFiles)
    throw Error(ErrorCode::format, "{}: \"split.count\" is {}, more than {}", path, count, kMaxFiles);
  if (const int64_t index = opened.front().metadata().integer("split.no").value_or(-1); index != 0) {
    throw Error(ErrorCode::unsupported,
                "{}: file {} of {} of a model; name the first one, which ends in \"-00001-of-{:05}.gguf\"",
                path, index + 1, count, count);
  }
  for (int64_t i = 1; i < count; ++i) opened.emplace_back(files.open(path_of_part(path, i, count)));
  size_t num_tensors = 0;
  for (int64_t i = 0; i < count; ++i) {
    require_part(opened[static_cast<size_t>(i)], i, count);
    num_tensors += opened[static_cast<size_t>(i)].tensors().size();
  }
  const auto declared = opened.front().metadata().integer("split.tensors.count");
  if (declared && *declared != static_cast<int64_t>(num_tensors))
    throw Error(ErrorCode::format, "{}: \"split.tensors.count\" is {}, but the files have {} tensors", path,
                *declared, num_tensors);
  return opened;
}

}  // namespace quire
