#include "core/layers/layer_builder.h"

#include <algorithm>
#include <array>

#include "core/base/error.h"
#include "core/layers/norm.h"

namespace quire {
namespace {

std::string with_number(const std::string& key, int32_t expert) {
  const size_t at = key.find("{}");
  return at == std::string::npos ? key : key.substr(0, at) + std::to_string(expert) + key.substr(at + 2);
}

// Selects and orders the outputs of a matrix. An order may repeat outputs or omit some.
void apply_order(const std::vector<int32_t>& order, LinearWeight& weight) {
  std::vector<int32_t> columns = order;
  if (!weight.column_order.empty())
    for (int32_t& column : columns) column = weight.column_order[static_cast<size_t>(column)];
  weight.column_order = std::move(columns);
  weight.num_out = gsl::narrow<int32_t>(order.size());
  if (!weight.bias.empty()) weight.bias.resize(std::max(weight.bias.size(), order.size()));
}

// Returns the numbers of `order` from `first` to end - 1, counted from `first`.
ColumnOrder outputs_between(const std::vector<int32_t>& order, int32_t first, int32_t end) {
  std::vector<int32_t> own;
  for (const int32_t output : order)
    if (output >= first && output < end) own.push_back(output - first);
  return std::make_shared<const std::vector<int32_t>>(std::move(own));
}

// True if the outputs are contiguous: the matrix as stored, or a shard's slice of it.
bool is_run(const std::vector<int32_t>& order) {
  for (size_t i = 1; i < order.size(); ++i)
    if (order[i] != order[i - 1] + 1) return false;
  return true;
}

}  // namespace

std::string LayerBuilder::stored_name(const std::string& name) const {
  return weights_.stored_name(name);
}

std::vector<MatrixSlice> LayerBuilder::slices_of(const MatrixPart& part) const {
  const bool is_ordered = part.whole_outputs > 0 ? part.whole_is_ordered : part.order != nullptr;
  return is_ordered || part.num_slabs > 0 ? std::vector<MatrixSlice>() : weights_.slices_of(part.key);
}

// A shard has outputs of each slice, in their order.
MatrixParts LayerBuilder::as_stored(const MatrixParts& parts) const {
  MatrixParts stored;
  for (const MatrixPart& part : parts) {
    const std::vector<MatrixSlice> slices = slices_of(part);
    if (slices.empty()) stored.push_back(part);
    int32_t first = 0;
    for (const MatrixSlice& slice : slices) {
      MatrixPart own = part;
      own.key = slice.key;
      own.num_out = slice.num_out;
      if (part.order) own.order = outputs_between(*part.order, first, first + slice.num_out);
      first += slice.num_out;
      if (!own.order || !own.order->empty()) stored.push_back(std::move(own));
    }
  }
  return stored;
}

std::vector<int32_t> LayerBuilder::whole_columns(const MatrixParts& parts) const {
  std::vector<int32_t> columns;
  for (const MatrixPart& part : parts) {
    if (part.whole_outputs == 0) return {};
    const std::vector<MatrixSlice> slices = slices_of(part);
    if (slices.empty()) columns.push_back(part.whole_outputs);
    for (const MatrixSlice& slice : slices) columns.push_back(slice.num_out);
  }
  if (parts.front().whole_parts > gsl::narrow<int32_t>(parts.size())) columns.push_back(0);
  return columns;
}

// Returns the name of the two that the files have.
const std::string& LayerBuilder::present_name(const VectorPart& part) const {
  if (part.other_name.empty() || has_tensor(stored_name(part.name))) return part.name;
  if (has_tensor(stored_name(part.other_name))) return part.other_name;
  throw Error(ErrorCode::format, "no file holds the tensor \"{}\", which other files name \"{}\"",
              stored_name(part.name), stored_name(part.other_name));
}

std::vector<float> LayerBuilder::host_vector(const VectorPart& part) const {
  std::vector<float> values;
  const std::string& name = present_name(part);
  for (int32_t i = 0; i < part.num_tensors; ++i) {
    const std::vector<float> own =
        weights_.vector(stored_name(with_number(name, i)), part.count / part.num_tensors);
    values.insert(values.end(), own.begin(), own.end());
  }
  if (part.offset != 0.0f || part.scale != 1.0f) {
    for (float& value : values) value = (value + part.offset) * part.scale;
  }
  if (!part.order) return values;
  std::vector<float> taken;
  for (const int32_t element : *part.order) taken.push_back(values[static_cast<size_t>(element)]);
  return taken;
}

DeviceBuffer LayerBuilder::vector(const VectorPart& part) const {
  const bool is_absent = part.may_be_absent && !has_tensor(stored_name(part.name));
  return part.name.empty() || is_absent ? DeviceBuffer() : floats(host_vector(part), part.name);
}

DeviceBuffer LayerBuilder::floats(const std::vector<float>& values, std::string_view what) const {
  return mode_ == BuildMode::plan ? DeviceBuffer::planned(values.size() * sizeof(float))
                                  : upload_floats(device_, values, what);
}

HostTensor LayerBuilder::read_table(const std::string& name, int32_t rows, int32_t columns) const {
  return weights_.table(name, rows, columns);
}

PreparedWeight LayerBuilder::table(const std::string& key, int32_t rows, int32_t columns) const {
  const std::string name = stored_name(key + ".weight");
  return prepare_table(read_table(name, rows, columns), name);
}

PreparedWeight LayerBuilder::prepare_table(const HostTensor& stored, const std::string& name) const {
  const std::string what = "preparing " + name;
  const UnreadTensor* const unread = stored.unread();
  const TableSource source = {stored.dtype(),
                              gsl::narrow<int32_t>(stored.shape()[0]),
                              gsl::narrow<int32_t>(stored.shape()[1]),
                              stored.data(),
                              bytes_of(unread),
                              stored.blocks()};
  if (mode_ == BuildMode::plan) return PreparedWeight::planned_table(*device_, source, what);
  PreparedWeight table;
  while_device_reads({&unread, 1}, [&] { table = PreparedWeight::table(device_, source, what); });
  return table;
}

LinearWeight& LayerBuilder::linear(const MatrixPart& part, int32_t expert) {
  LinearRequest request;
  request.key = stored_name(with_number(part.key, expert));
  request.num_in = part.num_in;
  request.num_out = part.num_out;
  request.needs_bias = part.bias == BiasRule::required;
  request.prescale = part.prescale;
  request.part.num_experts = part.num_slabs;
  request.part.expert = part.num_slabs > 0 ? expert : 0;
  request.part.input_major = part.transposed;
  request.read_by = ReadBy::device;
  LinearWeight& weight = read_.emplace_back(weights_.linear(request));
  unread_.push_back(weight.unread());
  for (float& value : weight.bias) value *= part.prescale;
  if (part.order) apply_order(*part.order, weight);
  return weight;
}

void LayerBuilder::request(PreparedWeight& target, const MatrixParts& parts, int32_t expert) {
  PrepareRequest made;
  for (const MatrixPart& part : as_stored(parts)) made.parts.push_back(linear(part, expert).source());
  made.whole_columns = whole_columns(parts);
  made.target = &target;
  requests_.push_back(std::move(made));
  if (expert == 0) name_request(parts.front().key);
}

void LayerBuilder::request(PreparedWeight& target, const MatrixPart& part, const WeightSource& source,
                           const std::string& key) {
  requests_.push_back({{source}, &target, whole_columns({part})});
  if (!key.empty()) name_request(key);
}

void LayerBuilder::request_folded(PreparedWeight& target, const MatrixParts& fused, LinearWeight& consumer,
                                  int32_t expert) {
  std::vector<LinearWeight*> producers;
  const MatrixParts parts = as_stored(fused);
  for (const MatrixPart& part : parts) producers.push_back(&linear(part, expert));
  const bool can_fold = std::all_of(parts.begin(), parts.end(), [&](const MatrixPart& part) {
    return part.num_out == consumer.num_in && (!part.order || is_run(*part.order));
  });
  if (can_fold) fold_row_order(consumer, producers);
  PrepareRequest made;
  for (const LinearWeight* producer : producers) made.parts.push_back(producer->source());
  made.whole_columns = whole_columns(fused);
  made.target = &target;
  requests_.push_back(std::move(made));
  if (expert == 0) name_request(parts.front().key);
}

void LayerBuilder::mark_experts(size_t first) {
  for (size_t i = first; i < requests_.size(); ++i)
    for (WeightSource& part : requests_[i].parts) part.is_expert = true;
}

bool LayerBuilder::are_packed(size_t first, size_t num_parts) const {
  for (size_t i = first; i < requests_.size(); ++i) {
    const std::vector<WeightSource>& parts = requests_[i].parts;
    if (parts.size() != ((i - first) % 2 == 0 ? num_parts : 1)) return false;
    if (!kernels::is_packed_form(parts.data(), parts.size())) return false;
  }
  return true;
}

void LayerBuilder::set_activations(kernels::ActivationDtype activations) {
  for (PrepareRequest& request : requests_)
    for (WeightSource& part : request.parts) part.activations = activations;
}

void LayerBuilder::prepare() {
  if (requests_.empty()) return;
  const std::string what = "preparing " + requested_keys_;
  if (mode_ == BuildMode::plan) {
    PreparedWeight::plan_matrices(*device_, requests_, what);
  } else {
    while_device_reads(unread_, [&] { PreparedWeight::prepare_matrices(device_, requests_, what); });
  }
  for (const std::function<void()>& action : actions_) action();
}

void LayerBuilder::name_request(const std::string& key) {
  requested_keys_ += (requested_keys_.empty() ? "" : ", ") + key;
}

}  // namespace quire
