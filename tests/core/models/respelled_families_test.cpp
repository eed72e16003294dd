// Fields and tensors as published files spell them, where the golden directories have other names, and
// switches of families that no golden directory sets.
#include <functional>

#include <gtest/gtest.h>

#include "tests/core/models/golden_file.h"
#include "tests/core/models/stored_model.h"
#include "tests/core/models/transformer_runner.h"
#include "tests/support/golden_families.h"

namespace quire::testing {
namespace {

std::vector<float> logits_of(const StoredModel& model, const TokenIds& ids) {
  return TransformerRunner(load_stored_model(model), {}).logits(ids, 512);
}

void rename_field(StoredModel& model, const char* from, const char* to) {
  const Json value = model.config[from];
  model.config[to] = value;
  model.config.erase(from);
}

void erase_fields(StoredModel& model, const std::vector<const char*>& names) {
  for (const char* name : names) model.config.erase(name);
}

void rename_start(StoredModel& model, const std::string& from, const std::string& to) {
  for (StoredTensor& tensor : model.tensors)
    if (tensor.name.starts_with(from)) tensor.name.replace(0, from.size(), to);
}

void drop_base(StoredModel& model) {
  rename_start(model, "transformer.", "");
}

// The names of the code that Falcon was first published with.
void to_first_falcon(StoredModel& model, const char* model_type) {
  model.config["architectures"] = {"RWForCausalLM"};
  model.config["model_type"] = model_type;
  rename_field(model, "num_hidden_layers", "n_layer");
  rename_field(model, "num_attention_heads", "n_head");
  if (model.config["new_decoder_architecture"].get<bool>()) rename_field(model, "num_kv_heads", "n_head_kv");
  erase_fields(model,
               {"num_kv_heads", "new_decoder_architecture", "num_ln_in_parallel_attn", "activation",
                "ffn_hidden_size", "max_position_embeddings", "rope_parameters", "tie_word_embeddings"});
}

void to_published_bloom(StoredModel& model) {
  drop_base(model);
  rename_field(model, "hidden_size", "n_embed");
  rename_field(model, "n_head", "num_attention_heads");
  model.config["n_inner"] = nullptr;
  model.config["seq_length"] = 2048;
  erase_fields(model, {"tie_word_embeddings", "apply_residual_connection_post_layernorm"});
}

void to_published_exaone(StoredModel& model) {
  rename_field(model, "num_hidden_layers", "num_layers");
  rename_field(model, "rms_norm_eps", "layer_norm_epsilon");
  rename_field(model, "hidden_act", "activation_function");
  erase_fields(model, {"attention_bias", "mlp_bias", "head_dim"});
}

void to_published_mpt(StoredModel& model) {
  model.config["architectures"] = {"MPTForCausalLM"};
  model.config["attn_config"] = {{"alibi", true}, {"attn_impl", "torch"}};
  erase_fields(model, {"tie_word_embeddings", "layer_norm_epsilon"});
}

void to_first_opt(StoredModel& model) {
  rename_start(model, "model.decoder.", "decoder.");
  erase_fields(model, {"_remove_final_layer_norm", "do_layer_norm_before", "enable_bias",
                       "layer_norm_elementwise_affine", "tie_word_embeddings", "word_embed_proj_dim"});
}

struct Respelling {
  const char* name;
  const char* family;
  std::function<void(StoredModel&)> apply;
};

const Respelling kRespellings[] = {
    {"bloom", "bloom", to_published_bloom},
    {"exaone", "exaone", to_published_exaone},
    {"falcon_rw", "falcon_rw", [](StoredModel& m) { to_first_falcon(m, "RefinedWebModel"); }},
    {"falcon_7b", "falcon_7b", [](StoredModel& m) { to_first_falcon(m, "RefinedWebModel"); }},
    {"falcon_40b", "falcon_40b", [](StoredModel& m) { to_first_falcon(m, "RefinedWeb"); }},
    {"gpt_neo_without_base", "gpt_neo", drop_base},
    {"gpt_neo_by_list", "gpt_neo", [](StoredModel& m) { m.config.erase("attention_types"); }},
    {"gpt_neo_by_class", "gpt_neo",
     [](StoredModel& m) {
       erase_fields(m, {"attention_types", "attention_layers", "tie_word_embeddings"});
     }},
    {"gptj", "gptj",
     [](StoredModel& m) {
       drop_base(m);
       erase_fields(m, {"n_inner", "tie_word_embeddings", "activation_function"});
     }},
    {"internlm3", "internlm3",
     [](StoredModel& m) {
       rename_field(m, "attention_bias", "qkv_bias");
       rename_field(m, "mlp_bias", "bias");
     }},
    {"jais2", "jais2",
     [](StoredModel& m) {
       erase_fields(m, {"attention_bias", "mlp_bias", "hidden_act", "head_dim"});
     }},
    {"mpt", "mpt", to_published_mpt},
    {"opt", "opt", to_first_opt},
    {"opt_350m", "opt_350m", [](StoredModel& m) { rename_start(m, "model.decoder.", "decoder."); }},
    {"persimmon", "persimmon",
     [](StoredModel& m) {
       erase_fields(m, {"qk_layernorm", "hidden_act", "rope_parameters"});
     }},
};

class RespelledFamily : public ::testing::TestWithParam<Respelling> {};

TEST_P(RespelledFamily, GivesTheSameLogits) {
  const FamilyDirectory directory(GetParam().family);
  const TokenIds ids = read_ids(directory.golden(), "input_ids");
  StoredModel model = read_stored_model(directory.path());
  const std::vector<float> expected = logits_of(model, ids);
  GetParam().apply(model);
  EXPECT_EQ(logits_of(model, ids), expected);
}

INSTANTIATE_TEST_SUITE_P(Families, RespelledFamily, ::testing::ValuesIn(kRespellings),
                         [](const auto& param) { return std::string(param.param.name); });

// Two forms of one model: the switch changes nothing if the tensors that it removes have no effect.
class FamilySwitch : public ::testing::Test {
 protected:
  void open(const char* family) {
    const FamilyDirectory directory(family);
    model_ = read_stored_model(directory.path());
    ids_ = read_ids(directory.golden(), "input_ids");
  }

  StoredModel model_;
  TokenIds ids_;
};

bool has_ending(const StoredTensor& tensor, const char* ending) {
  return tensor.name.ends_with(ending);
}

// Falcon 2 has the blocks of Falcon 40B, with one norm for both.
TEST_F(FamilySwitch, FalconBlocksMayShareTheirNorm) {
  open("falcon_40b");
  StoredModel shared = model_;
  for (const char* layer : {"transformer.h.0.", "transformer.h.1."}) {
    for (const char* part : {".weight", ".bias"}) {
      const std::string of_mlp = std::string(layer) + "ln_mlp" + part;
      const std::string of_attention = std::string(layer) + "ln_attn" + part;
      model_.tensor(of_mlp).bytes = model_.tensor(of_attention).bytes;
      shared.tensor(of_attention).name = std::string(layer) + "input_layernorm" + part;
    }
  }
  std::erase_if(shared.tensors,
                [](const auto& tensor) { return tensor.name.find("ln_mlp") != std::string::npos; });
  shared.config["num_ln_in_parallel_attn"] = 1;
  EXPECT_EQ(logits_of(shared, ids_), logits_of(model_, ids_));
}

// Galactica is OPT without biases. Norms without weights are those whose weights are one.
TEST_F(FamilySwitch, OptMayHaveNeitherBiasesNorWeightsOfNorms) {
  for (const char* family : {"opt", "opt_350m"}) {
    open(family);
    StoredModel bare = model_;
    for (StoredTensor& tensor : model_.tensors) {
      if (has_ending(tensor, ".bias")) tensor.bytes.assign(tensor.bytes.size(), '\0');
      if (!has_ending(tensor, "layer_norm.weight")) continue;
      for (size_t i = 0; i < tensor.bytes.size(); i += 2) tensor.bytes.replace(i, 2, "\x80\x3f");
    }
    std::erase_if(bare.tensors, [](const auto& tensor) {
      return has_ending(tensor, ".bias") || has_ending(tensor, "layer_norm.weight");
    });
    bare.config["enable_bias"] = false;
    bare.config["layer_norm_elementwise_affine"] = false;
    EXPECT_EQ(logits_of(bare, ids_), logits_of(model_, ids_)) << family;
  }
}

// The head then reads the residual stream itself.
TEST_F(FamilySwitch, OptMayLackItsLastNorm) {
  open("opt");
  const std::vector<float> expected = logits_of(model_, ids_);
  std::erase_if(model_.tensors,
                [](const auto& tensor) { return tensor.name.starts_with("model.decoder.final_layer_norm"); });
  model_.config["_remove_final_layer_norm"] = true;
  EXPECT_NE(logits_of(model_, ids_), expected);
}

}  // namespace
}  // namespace quire::testing
