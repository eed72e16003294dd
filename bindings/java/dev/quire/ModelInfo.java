package dev.quire;

/**
 * What a model is.
 *
 * @param architecture as config.json names it
 * @param vocabSize logits that the model computes; may exceed the size of the tokenizer
 * @param maxContext tokens that the model was made to see at once
 * @param weightBytes on the device where the weights are loaded, else on disk
 */
public record ModelInfo(String architecture, int vocabSize, int numLayers, int hiddenSize, int numHeads,
    int numKvHeads, long maxContext, double bitsPerWeight, long weightBytes) {
  static ModelInfo of(long model) {
    return new ModelInfo(Results.text(out -> QuireNative.quire_model_architecture(model, out)),
        QuireNative.quire_model_vocab_size(model), QuireNative.quire_model_num_layers(model),
        QuireNative.quire_model_hidden_size(model), QuireNative.quire_model_num_heads(model),
        QuireNative.quire_model_num_kv_heads(model), QuireNative.quire_model_max_context(model),
        QuireNative.quire_model_bits_per_weight(model), QuireNative.quire_model_weight_bytes(model));
  }
}
