// Long file: each operation beside its plain recurrence.
#include "tests/kernels/cpu/state_ops.h"

#include <algorithm>
#include <cmath>

namespace quire::testing {

using kernels::ConvolutionTaps;
using kernels::DecayKind;
using kernels::GatedNormInput;
using kernels::GatedNormSpec;
using kernels::GateKind;
using kernels::StateOpParams;
using kernels::StateRows;
using kernels::StateShape;
using kernels::Status;

namespace {

using Doubles = std::vector<double>;

size_t at(int64_t row, int32_t columns) {
  return static_cast<size_t>(row) * static_cast<size_t>(columns);
}

double sigmoid(double x) {
  return 1.0 / (1.0 + std::exp(-x));
}

double silu(double x) {
  return x * sigmoid(x);
}

double softplus(double x) {
  return x > 0 ? x + std::log1p(std::exp(-x)) : std::log1p(std::exp(x));
}

// Weights of one convolution.
struct Taps {
  int32_t channels = 0;
  int32_t num_taps = 0;
  std::vector<float> weight;  // [taps, channels]
  std::vector<float> bias;

  Taps() = default;
  Taps(Random& random, int32_t num_channels, int32_t taps, bool has_bias)
      : channels(num_channels), num_taps(taps), weight(random_floats(random, at(taps, num_channels))) {
    if (has_bias) bias = random_floats(random, static_cast<size_t>(num_channels));
  }
  ConvolutionTaps params(const StateTarget& on) const { return {on.place(weight), channels, on.place(bias)}; }
};

// One part of the rows of a sequence.
struct Part {
  const std::vector<float>& rows;
  int32_t row_columns;
  int32_t first;
  int32_t columns;

  double operator()(int64_t token, int32_t column) const {
    return double{rows[at(token, row_columns) + static_cast<size_t>(first + column)]};
  }
};

// Returns a part after convolution and silu, [tokens, columns].
template <typename Input>
Doubles convolved(const Input& input, int64_t tokens, int32_t columns, const Taps& taps, bool with_silu) {
  Doubles out(at(tokens, columns));
  for (int64_t t = 0; t < tokens; ++t) {
    for (int32_t c = 0; c < columns; ++c) {
      double sum = taps.num_taps == 0 ? input(t, c) : 0.0;
      for (int32_t j = 0; j < taps.num_taps; ++j) {
        const int64_t source = t - taps.num_taps + 1 + j;
        if (source >= 0)
          sum += double{taps.weight[at(j, columns) + static_cast<size_t>(c)]} * input(source, c);
      }
      if (!taps.bias.empty()) sum += double{taps.bias[static_cast<size_t>(c)]};
      out[at(t, columns) + static_cast<size_t>(c)] = with_silu ? silu(sum) : sum;
    }
  }
  return out;
}

void normalise(double* x, int32_t count, double scale) {
  double squares = 1e-6;
  for (int32_t c = 0; c < count; ++c) squares += x[c] * x[c];
  for (int32_t c = 0; c < count; ++c) x[c] *= scale / std::sqrt(squares);
}

// The end of each operation: gate and norm.
struct Norm {
  GatedNormSpec spec;
  int32_t gate = 0;  // first column of the gate
  std::vector<float> weight;

  Norm() = default;
  Norm(Random& random, const GatedNormSpec& with, int32_t columns) : spec(with) {
    weight = random_floats(random, static_cast<size_t>(spec.shared_weight ? spec.group_columns : columns));
  }
  GatedNormInput params(const StateTarget& on, float* rows, int32_t stride) const {
    return {{rows + gate, stride}, on.place(weight)};
  }
  void apply(const std::vector<float>& rows, int32_t row_columns, int32_t columns, Doubles& out) const {
    if (!spec.normalises && spec.gate == GateKind::none) return;
    const auto tokens = static_cast<int64_t>(out.size()) / columns;
    for (int64_t t = 0; t < tokens; ++t) {
      for (int32_t c = 0; c < columns; c += spec.group_columns) {
        double* group = out.data() + at(t, columns) + static_cast<size_t>(c);
        const float* gate_row = rows.data() + at(t, row_columns) + static_cast<size_t>(gate + c);
        const float* weights = weight.data() + static_cast<size_t>(spec.shared_weight ? 0 : c);
        gated_norm_reference(spec, group, gate_row, weights, group);
      }
    }
  }
};

class DeltaOp : public StateOp {
 public:
  DeltaOp(std::string name, Random& random, const kernels::DeltaRuleSpec& spec)
      : StateOp(std::move(name)), spec_(spec) {
    const int32_t keys = spec.num_key_heads * spec.key_dim, values = spec.num_heads * spec.value_dim;
    const int32_t decays = spec.num_heads * (spec.decay_per_channel ? spec.key_dim : 1);
    query_ = take(keys);
    key_ = take(keys);
    value_ = take(values);
    decay_ = take(decays);
    beta_ = take(spec.num_heads);
    norm_ = Norm(random, spec.norm, values);
    norm_.gate = take(values);
    if (spec.conv_taps > 0) {
      query_taps_ = Taps(random, keys, spec.conv_taps, false);
      key_taps_ = Taps(random, keys, spec.conv_taps, true);
      value_taps_ = Taps(random, values, spec.conv_taps, false);
    }
    a_log_ = random_floats(random, static_cast<size_t>(spec.num_heads), -2.0f, 0.5f);
    bias_ = random_floats(random, static_cast<size_t>(decays), -2.0f, 1.0f);
  }
  StateShape shape() const override { return state_shape(spec_); }
  int32_t output_columns() const override { return spec_.num_heads * spec_.value_dim; }

  Status run(const StateTarget& on, const StateOpParams& common, float* rows) const override {
    kernels::DeltaRuleParams p;
    static_cast<kernels::DeltaRuleSpec&>(p) = spec_;
    static_cast<StateOpParams&>(p) = common;
    p.query = {rows + query_, input_columns()};
    p.key = {rows + key_, input_columns()};
    p.value = {rows + value_, input_columns()};
    p.decay = {rows + decay_, input_columns()};
    p.beta = {rows + beta_, input_columns()};
    p.query_taps = query_taps_.params(on);
    p.key_taps = key_taps_.params(on);
    p.value_taps = value_taps_.params(on);
    p.a_log = on.place(a_log_);
    p.decay_bias = on.place(bias_);
    p.norm_input = norm_.params(on, rows, input_columns());
    return on.table.delta_rule(on.context, &p);
  }

  Doubles reference(const std::vector<float>& rows) const override {
    const int32_t wide = input_columns(), keys = spec_.num_key_heads * spec_.key_dim;
    const int32_t values = output_columns();
    const auto tokens = static_cast<int64_t>(rows.size()) / wide;
    const bool silu = spec_.conv_taps > 0;
    Doubles q = convolved(Part{rows, wide, query_, keys}, tokens, keys, query_taps_, silu);
    Doubles k = convolved(Part{rows, wide, key_, keys}, tokens, keys, key_taps_, silu);
    const Doubles v = convolved(Part{rows, wide, value_, values}, tokens, values, value_taps_, silu);
    for (size_t head = 0; head < q.size(); head += static_cast<size_t>(spec_.key_dim)) {
      normalise(q.data() + head, spec_.key_dim, 1.0 / std::sqrt(double(spec_.key_dim)));
      normalise(k.data() + head, spec_.key_dim, 1.0);
    }
    Doubles out(at(tokens, values));
    for (int32_t h = 0; h < spec_.num_heads; ++h) recur(rows, h, q, k, v, out);
    norm_.apply(rows, wide, values, out);
    return out;
  }

 private:
  double decay(const std::vector<float>& rows, int64_t t, int32_t h, int32_t c) const {
    const int32_t column = spec_.decay_per_channel ? h * spec_.key_dim + c : h;
    const double x = Part{rows, input_columns(), decay_, 0}(t, column) + double{bias_[size_t(column)]};
    const double rate = std::exp(double{a_log_[size_t(h)]});
    if (spec_.decay_kind == DecayKind::bounded) return double{spec_.lower_bound} * sigmoid(rate * x);
    return -rate * softplus(x);
  }

  void recur(const std::vector<float>& rows, int32_t h, const Doubles& q, const Doubles& k, const Doubles& v,
             Doubles& out) const {
    const int32_t dk = spec_.key_dim, dv = spec_.value_dim, keys = spec_.num_key_heads * dk;
    const auto tokens = static_cast<int64_t>(rows.size()) / input_columns();
    const int32_t key_head = h / (spec_.num_heads / spec_.num_key_heads);
    Doubles state(at(dk, dv));
    for (int64_t t = 0; t < tokens; ++t) {
      const double* key = k.data() + at(t, keys) + at(key_head, dk);
      const double* query = q.data() + at(t, keys) + at(key_head, dk);
      const size_t value = at(t, output_columns()) + at(h, dv);
      const double beta = double{spec_.beta_scale} * sigmoid(Part{rows, input_columns(), beta_, 0}(t, h));
      for (int32_t c = 0; c < dk; ++c)
        for (int32_t j = 0; j < dv; ++j) state[at(c, dv) + size_t(j)] *= std::exp(decay(rows, t, h, c));
      for (int32_t j = 0; j < dv; ++j) {
        double read = 0.0, result = 0.0;
        for (int32_t c = 0; c < dk; ++c) read += key[c] * state[at(c, dv) + size_t(j)];
        const double update = beta * (v[value + size_t(j)] - read);
        for (int32_t c = 0; c < dk; ++c) {
          state[at(c, dv) + size_t(j)] += key[c] * update;
          result += query[c] * state[at(c, dv) + size_t(j)];
        }
        out[value + size_t(j)] = result;
      }
    }
  }

  kernels::DeltaRuleSpec spec_;
  int32_t query_, key_, value_, decay_, beta_;
  Norm norm_;
  Taps query_taps_, key_taps_, value_taps_;
  std::vector<float> a_log_, bias_;
};

class StateSpaceOp : public StateOp {
 public:
  StateSpaceOp(std::string name, Random& random, const kernels::StateSpaceSpec& spec)
      : StateOp(std::move(name)), spec_(spec) {
    const int32_t keys = spec.num_groups * spec.state_dim, values = spec.num_heads * spec.head_dim;
    norm_ = Norm(random, spec.norm, values);
    norm_.gate = take(values);
    input_ = take(values);
    key_ = take(keys);
    query_ = take(keys);
    step_ = take(spec.num_heads);
    if (spec.conv_taps > 0) {
      input_taps_ = Taps(random, values, spec.conv_taps, true);
      key_taps_ = Taps(random, keys, spec.conv_taps, true);
      query_taps_ = Taps(random, keys, spec.conv_taps, true);
    }
    a_log_ = random_floats(random, static_cast<size_t>(spec.num_heads), -2.0f, 1.0f);
    bias_ = random_floats(random, static_cast<size_t>(spec.num_heads), -3.0f, 1.0f);
    skip_ = random_floats(random, static_cast<size_t>(spec.num_heads));
  }
  StateShape shape() const override { return state_shape(spec_); }
  int32_t output_columns() const override { return spec_.num_heads * spec_.head_dim; }

  Status run(const StateTarget& on, const StateOpParams& common, float* rows) const override {
    kernels::StateSpaceParams p;
    static_cast<kernels::StateSpaceSpec&>(p) = spec_;
    static_cast<StateOpParams&>(p) = common;
    p.input = {rows + input_, input_columns()};
    p.key = {rows + key_, input_columns()};
    p.query = {rows + query_, input_columns()};
    p.step = {rows + step_, input_columns()};
    p.input_taps = input_taps_.params(on);
    p.key_taps = key_taps_.params(on);
    p.query_taps = query_taps_.params(on);
    p.a_log = on.place(a_log_);
    p.step_bias = on.place(bias_);
    p.skip = on.place(skip_);
    p.norm_input = norm_.params(on, rows, input_columns());
    return on.table.state_space(on.context, &p);
  }

  Doubles reference(const std::vector<float>& rows) const override {
    const int32_t wide = input_columns(), n = spec_.state_dim, p = spec_.head_dim;
    const int32_t keys = spec_.num_groups * n, values = output_columns();
    const auto tokens = static_cast<int64_t>(rows.size()) / wide;
    const Doubles x = convolved(Part{rows, wide, input_, values}, tokens, values, input_taps_, true);
    const Doubles b = convolved(Part{rows, wide, key_, keys}, tokens, keys, key_taps_, true);
    const Doubles c = convolved(Part{rows, wide, query_, keys}, tokens, keys, query_taps_, true);
    Doubles out(at(tokens, values));
    for (int32_t h = 0; h < spec_.num_heads; ++h) {
      const size_t group = at(h / (spec_.num_heads / spec_.num_groups), n);
      Doubles state(at(p, n));
      for (int64_t t = 0; t < tokens; ++t) {
        const double raw = Part{rows, wide, step_, 0}(t, h) + double{bias_[size_t(h)]};
        const double step = std::clamp(softplus(raw), double{spec_.least_step}, double{spec_.most_step});
        const double decay = std::exp(-std::exp(double{a_log_[size_t(h)]}) * step);
        for (int32_t i = 0; i < p; ++i) {
          const size_t value = at(t, values) + at(h, p) + size_t(i);
          double result = double{skip_[size_t(h)]} * x[value];
          for (int32_t j = 0; j < n; ++j) {
            double& s = state[at(i, n) + size_t(j)];
            s = decay * s + step * x[value] * b[at(t, keys) + group + size_t(j)];
            result += s * c[at(t, keys) + group + size_t(j)];
          }
          out[value] = result;
        }
      }
    }
    norm_.apply(rows, wide, values, out);
    return out;
  }

 private:
  kernels::StateSpaceSpec spec_;
  int32_t input_, key_, query_, step_;
  Norm norm_;
  Taps input_taps_, key_taps_, query_taps_;
  std::vector<float> a_log_, bias_, skip_;
};

class LinearAttentionOp : public StateOp {
 public:
  LinearAttentionOp(std::string name, Random& random, const kernels::LinearAttentionSpec& spec)
      : StateOp(std::move(name)), spec_(spec) {
    const int32_t columns = output_columns();
    query_ = take(columns);
    key_ = take(columns);
    value_ = take(columns);
    norm_ = Norm(random, spec.norm, columns);
    norm_.gate = take(columns);
    slopes_ = random_floats(random, static_cast<size_t>(spec.num_heads), 0.01f, 0.9f);
  }
  StateShape shape() const override { return state_shape(spec_); }
  int32_t output_columns() const override { return spec_.num_heads * spec_.head_dim; }

  Status run(const StateTarget& on, const StateOpParams& common, float* rows) const override {
    kernels::LinearAttentionParams p;
    static_cast<kernels::LinearAttentionSpec&>(p) = spec_;
    static_cast<StateOpParams&>(p) = common;
    p.query = {rows + query_, input_columns()};
    p.key = {rows + key_, input_columns()};
    p.value = {rows + value_, input_columns()};
    p.slopes = on.place(slopes_);
    p.norm_input = norm_.params(on, rows, input_columns());
    return on.table.linear_attention(on.context, &p);
  }

  Doubles reference(const std::vector<float>& rows) const override {
    const int32_t wide = input_columns(), d = spec_.head_dim, columns = output_columns();
    const auto tokens = static_cast<int64_t>(rows.size()) / wide;
    Doubles out(at(tokens, columns));
    for (int32_t h = 0; h < spec_.num_heads; ++h) {
      const auto element = [&](int32_t part, int64_t t, int32_t i) {
        return silu(Part{rows, wide, part, columns}(t, h * d + i));
      };
      Doubles state(at(d, d));
      for (int64_t t = 0; t < tokens; ++t) {
        for (int32_t j = 0; j < d; ++j) {
          double result = 0.0;
          for (int32_t i = 0; i < d; ++i) {
            double& s = state[at(i, d) + size_t(j)];
            s = std::exp(-double{slopes_[size_t(h)]}) * s + element(key_, t, i) * element(value_, t, j);
            result += s * element(query_, t, i);
          }
          out[at(t, columns) + at(h, d) + size_t(j)] = result;
        }
      }
    }
    norm_.apply(rows, wide, columns, out);
    return out;
  }

 private:
  kernels::LinearAttentionSpec spec_;
  int32_t query_, key_, value_;
  Norm norm_;
  std::vector<float> slopes_;
};

class SelectiveScanOp : public StateOp {
 public:
  SelectiveScanOp(std::string name, Random& random, const kernels::SelectiveScanSpec& spec)
      : StateOp(std::move(name)), spec_(spec) {
    input_ = take(spec.channels);
    step_ = take(spec.channels);
    key_ = take(spec.state_dim);
    query_ = take(spec.state_dim);
    if (spec.kind == kernels::ScanKind::rg_lru) {
      input_gate_ = take(spec.channels);
      input_bias_ = random_floats(random, static_cast<size_t>(spec.channels));
    }
    norm_.spec = spec.norm;
    norm_.gate = take(spec.channels);
    a_log_ = random_floats(random, at(spec.state_dim, spec.channels), -2.0f, 2.0f);
    bias_ = random_floats(random, static_cast<size_t>(spec.channels), -3.0f, 1.0f);
    skip_ = random_floats(random, static_cast<size_t>(spec.channels));
  }
  StateShape shape() const override { return state_shape(spec_); }
  int32_t output_columns() const override { return spec_.channels; }

  Status run(const StateTarget& on, const StateOpParams& common, float* rows) const override {
    kernels::SelectiveScanParams p;
    static_cast<kernels::SelectiveScanSpec&>(p) = spec_;
    static_cast<StateOpParams&>(p) = common;
    p.input = {rows + input_, input_columns()};
    p.step = {rows + step_, input_columns()};
    p.key = {rows + key_, input_columns()};
    p.query = {rows + query_, input_columns()};
    p.input_gate = {rows + input_gate_, input_columns()};
    p.input_bias = on.place(input_bias_);
    p.a_log = on.place(a_log_);
    p.step_bias = on.place(bias_);
    p.skip = on.place(skip_);
    p.norm_input = norm_.params(on, rows, input_columns());
    return on.table.selective_scan(on.context, &p);
  }

  Doubles reference(const std::vector<float>& rows) const override {
    const int32_t wide = input_columns(), n = spec_.state_dim, channels = spec_.channels;
    const auto tokens = static_cast<int64_t>(rows.size()) / wide;
    Doubles out(at(tokens, channels));
    Doubles state(at(channels, n));
    for (int64_t t = 0; t < tokens; ++t) {
      for (int32_t c = 0; c < channels; ++c) {
        const auto part = [&](int32_t first, int32_t column) {
          return Part{rows, wide, first, 0}(t, column);
        };
        const bool is_lru = spec_.kind == kernels::ScanKind::rg_lru;
        const double x = part(input_, c), dt = part(step_, c) + double{bias_[size_t(c)]};
        const double step = is_lru ? sigmoid(dt) : softplus(dt);
        double result = double{skip_[size_t(c)]} * x;
        for (int32_t j = 0; j < n; ++j) {
          double& s = state[at(c, n) + size_t(j)];
          const double rate = std::exp(double{a_log_[at(j, channels) + size_t(c)]});
          const double decay = std::exp(-rate * step);
          if (is_lru) {
            const double gate = sigmoid(part(input_gate_, c) + double{input_bias_[size_t(c)]});
            s = decay * s + (t == 0 ? 1.0 : std::sqrt(1.0 - decay * decay)) * gate * x;
            result += s;
          } else {
            s = decay * s + step * x * part(key_, j);
            result += s * part(query_, j);
          }
        }
        out[at(t, channels) + size_t(c)] = result;
      }
    }
    norm_.apply(rows, wide, channels, out);
    return out;
  }

 private:
  kernels::SelectiveScanSpec spec_;
  int32_t input_, step_, key_, query_;
  int32_t input_gate_ = 0;
  std::vector<float> input_bias_;
  Norm norm_;
  std::vector<float> a_log_, bias_, skip_;
};

class ConvolveOp : public StateOp {
 public:
  // With `multiplies` the inputs and results are multiplied by rows (LFM2); otherwise there is a bias
  // (Mamba).
  ConvolveOp(std::string name, Random& random, const kernels::ConvolutionSpec& spec, bool multiplies)
      : StateOp(std::move(name)), spec_(spec), multiplies_(multiplies) {
    before_ = take(spec.channels);
    after_ = take(spec.channels);
    input_ = take(spec.channels);
    taps_ = Taps(random, spec.channels, spec.taps, !multiplies);
  }
  StateShape shape() const override { return state_shape(spec_); }
  int32_t output_columns() const override { return spec_.channels; }

  Status run(const StateTarget& on, const StateOpParams& common, float* rows) const override {
    kernels::ConvolveParams p;
    static_cast<kernels::ConvolutionSpec&>(p) = spec_;
    static_cast<StateOpParams&>(p) = common;
    p.input = {rows + input_, input_columns()};
    if (multiplies_) {
      p.before = {rows + before_, input_columns()};
      p.after = {rows + after_, input_columns()};
    }
    p.weights = taps_.params(on);
    return on.table.convolve(on.context, &p);
  }

  Doubles reference(const std::vector<float>& rows) const override {
    const int32_t wide = input_columns(), channels = spec_.channels;
    const auto tokens = static_cast<int64_t>(rows.size()) / wide;
    const Part x = {rows, wide, input_, channels}, before = {rows, wide, before_, channels};
    const Part after = {rows, wide, after_, channels};
    const auto product = [&](int64_t t, int32_t c) { return multiplies_ ? x(t, c) * before(t, c) : x(t, c); };
    Doubles out = convolved(product, tokens, channels, taps_, spec_.silu);
    for (int64_t t = 0; t < tokens && multiplies_; ++t)
      for (int32_t c = 0; c < channels; ++c) out[at(t, channels) + size_t(c)] *= after(t, c);
    return out;
  }

 private:
  kernels::ConvolutionSpec spec_;
  bool multiplies_;
  int32_t before_, after_, input_;
  Taps taps_;
};

GatedNormSpec norm_of(GateKind gate, bool normalises, int32_t group_columns, bool gates_first = false,
                      bool shared_weight = false) {
  return {gate, normalises, gates_first, shared_weight, group_columns, 1e-5f};
}

kernels::DeltaRuleSpec delta(int32_t heads, int32_t key_heads, int32_t key_dim, int32_t value_dim) {
  kernels::DeltaRuleSpec spec;
  spec.num_heads = heads;
  spec.num_key_heads = key_heads;
  spec.key_dim = key_dim;
  spec.value_dim = value_dim;
  spec.conv_taps = 4;
  spec.norm = norm_of(GateKind::silu, true, value_dim, false, true);
  return spec;
}

kernels::DeltaRuleSpec by_channel(kernels::DeltaRuleSpec spec, DecayKind kind) {
  spec.decay_per_channel = true;
  spec.decay_kind = kind;
  spec.lower_bound = -5.0f;
  spec.norm.gate = GateKind::sigmoid;
  return spec;
}

kernels::StateSpaceSpec state_space(int32_t heads, int32_t groups, int32_t state_dim, int32_t head_dim) {
  kernels::StateSpaceSpec spec;
  spec.num_heads = heads;
  spec.num_groups = groups;
  spec.state_dim = state_dim;
  spec.head_dim = head_dim;
  spec.conv_taps = 4;
  spec.norm = norm_of(GateKind::silu, true, heads * head_dim / groups, true);
  return spec;
}

using Ops = std::vector<std::unique_ptr<StateOp>>;

template <typename Op, typename Spec, typename... More>
void add(Ops& ops, const char* name, Random& random, const Spec& spec, More... more) {
  ops.push_back(std::make_unique<Op>(name, random, spec, more...));
}

void add_small(Ops& ops, Random& random) {
  add<DeltaOp>(ops, "gdn", random, delta(4, 2, 16, 32));
  add<DeltaOp>(ops, "kda", random, by_channel(delta(2, 2, 32, 16), DecayKind::softplus));
  add<StateSpaceOp>(ops, "mamba2", random, state_space(4, 2, 32, 16));
  add<LinearAttentionOp>(ops, "lightning", random,
                         kernels::LinearAttentionSpec{3, 16, norm_of(GateKind::sigmoid, true, 48)});
  add<SelectiveScanOp>(ops, "mamba1", random,
                       kernels::SelectiveScanSpec{40, 16, norm_of(GateKind::silu, false, 40)});
  add<SelectiveScanOp>(
      ops, "rg_lru", random,
      kernels::SelectiveScanSpec{40, 1, norm_of(GateKind::gelu_tanh, false, 40), kernels::ScanKind::rg_lru});
  add<ConvolveOp>(ops, "lfm2", random, kernels::ConvolutionSpec{48, 3, false}, true);
}

}  // namespace

std::vector<float> StateOp::random_rows(Random& random, int32_t count) const {
  return random_floats(random, at(count, input_columns_), -2.0f, 2.0f);
}

int32_t StateOp::take(int32_t columns) {
  const int32_t first = input_columns_;
  input_columns_ += columns;
  return first;
}

Ops small_state_ops(Random& random) {
  Ops ops;
  add_small(ops, random);
  return ops;
}

Ops all_state_ops(Random& random) {
  Ops ops;
  add_small(ops, random);
  add<DeltaOp>(ops, "gdn of whole size", random, delta(2, 1, 128, 128));
  add<DeltaOp>(ops, "gdn with ends", random, delta(5, 1, 20, 13));
  add<DeltaOp>(ops, "gdn with wide values", random, delta(1, 1, 16, 150));
  add<DeltaOp>(ops, "gdn with long keys", random, delta(2, 1, 150, 80));
  for (const int32_t taps : {2, 5}) {
    kernels::DeltaRuleSpec tapped = by_channel(delta(2, 1, 32, 32), DecayKind::softplus);
    tapped.conv_taps = taps;
    add<DeltaOp>(ops, taps == 2 ? "kda of two taps" : "kda of five taps", random, tapped);
  }
  kernels::DeltaRuleSpec plain = delta(2, 2, 16, 16);
  plain.conv_taps = 0;
  plain.beta_scale = 2.0f;
  plain.norm = norm_of(GateKind::sigmoid, true, 32, false, false);
  add<DeltaOp>(ops, "gdn without convolution, norm over heads", random, plain);
  add<DeltaOp>(ops, "kda bounded", random, by_channel(delta(2, 2, 32, 32), DecayKind::bounded));
  add<DeltaOp>(ops, "kda of whole size", random, by_channel(delta(2, 2, 128, 128), DecayKind::softplus));
  add<DeltaOp>(ops, "kda with ends", random, by_channel(delta(2, 1, 21, 9), DecayKind::bounded));
  add<StateSpaceOp>(ops, "mamba2 of whole size", random, state_space(2, 1, 128, 64));
  kernels::StateSpaceSpec limited = state_space(6, 3, 18, 10);
  limited.least_step = 0.05f;
  limited.most_step = 1.5f;
  limited.norm = norm_of(GateKind::silu, true, 20);
  add<StateSpaceOp>(ops, "mamba2 with ends and limits, norm before gate", random, limited);
  kernels::StateSpaceSpec bare = state_space(4, 1, 256, 16);
  bare.norm = norm_of(GateKind::silu, false, 64);
  bare.conv_taps = 2;
  add<StateSpaceOp>(ops, "mamba2 without norm", random, bare);
  bare.norm = {};
  bare.conv_taps = 0;
  add<StateSpaceOp>(ops, "mamba2 without convolution, norm and gate", random, bare);
  add<SelectiveScanOp>(ops, "mamba1 with ends", random, kernels::SelectiveScanSpec{37, 5, {}});
  add<SelectiveScanOp>(ops, "rg_lru with ends", random,
                       kernels::SelectiveScanSpec{37, 1, {}, kernels::ScanKind::rg_lru});
  add<ConvolveOp>(ops, "convolution of mamba1", random, kernels::ConvolutionSpec{150, 4, true}, false);
  add<ConvolveOp>(ops, "convolution of one tap", random, kernels::ConvolutionSpec{19, 1, false}, true);
  add<ConvolveOp>(ops, "convolution of eight taps", random, kernels::ConvolutionSpec{32, 8, true}, false);
  return ops;
}

void gated_norm_reference(const GatedNormSpec& spec, const double* input, const float* gate,
                          const float* weight, double* output) {
  const auto columns = static_cast<size_t>(spec.group_columns);
  const auto gated = [&](double y, size_t c) {
    if (spec.gate == GateKind::none) return y;
    const double x = double{gate[c]};
    if (spec.gate == GateKind::gelu_tanh)
      return y * 0.5 * x * (1.0 + std::tanh(0.7978845608028654 * (x + 0.044715 * x * x * x)));
    return y * (spec.gate == GateKind::silu ? silu(x) : sigmoid(x));
  };
  const bool first = spec.gates_first || !spec.normalises;
  Doubles y(columns);
  double squares = 0.0;
  for (size_t c = 0; c < columns; ++c) {
    y[c] = first ? gated(input[c], c) : input[c];
    squares += y[c] * y[c];
  }
  const double factor = 1.0 / std::sqrt(squares / double(columns) + double{spec.epsilon});
  for (size_t c = 0; c < columns; ++c) {
    output[c] = spec.normalises ? y[c] * factor * double{weight[c]} : y[c];
    if (!first) output[c] = gated(output[c], c);
  }
}

}  // namespace quire::testing
