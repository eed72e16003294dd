package dev.quire;

import java.util.List;
import java.util.OptionalInt;
import java.util.stream.IntStream;

/** A loaded model with its tokenizer; it never changes. Any thread may use it at any time. */
public final class Model extends NativeHandle {
  private final Dispatcher dispatcher;

  Model(long value, Dispatcher dispatcher) {
    super(value, QuireNative::quire_model_free);
    this.dispatcher = dispatcher;
  }

  /** Takes the memory of a cache with every default and starts its scheduler. */
  public Cache createCache() {
    return createCache(new CacheOptions());
  }

  /** The same with room for so many tokens of all jobs together; 0 is one job of full length. */
  public Cache createCache(long maxTokens) {
    return createCache(new CacheOptions().maxTokens(maxTokens));
  }

  /** Takes the memory of a cache and starts its scheduler. */
  public Cache createCache(CacheOptions options) {
    return options.with(filled -> with(model -> new Cache(QuireNative.quire_cache_create(model, filled), dispatcher)));
  }

  /** How many bytes {@link #createCache} would take on the device of the model. */
  public long cacheBytes(CacheOptions options) {
    return options.with(filled -> with(model -> QuireNative.quire_cache_required_bytes(model, filled)));
  }

  /**
   * Text to token ids.
   *
   * @param addSpecial adds the tokens that the model's tokenizer puts around a text
   * @param parseSpecial reads the text of special tokens as those tokens: for templates, never for what users
   *     wrote
   */
  public int[] encode(String text, boolean addSpecial, boolean parseSpecial) {
    byte[] bytes = Utf8.bytes(text);
    int add = Settings.asInt(addSpecial);
    int parse = Settings.asInt(parseSpecial);
    return with(model -> Results.ints(out -> QuireNative.quire_model_encode(model, bytes, add, parse, out)));
  }

  /** Token ids to text. */
  public String decode(int[] tokens, boolean skipSpecial) {
    int skip = Settings.asInt(skipSpecial);
    return with(model -> Results.text(out -> QuireNative.quire_model_decode(model, tokens, skip, out)));
  }

  /** The bytes that one token stands for; they may be a part of a character. */
  public byte[] tokenBytes(int token) {
    return with(model -> Results.bytes(out -> QuireNative.quire_model_token_bytes(model, token, out)));
  }

  /** The token that the tokenizer's file spells so, such as "<|im_end|>". */
  public OptionalInt findToken(String text) {
    byte[] bytes = Utf8.bytes(text);
    return unlessNegative(with(model -> QuireNative.quire_model_find_token(model, bytes)));
  }

  public boolean isSpecial(int token) {
    return with(model -> QuireNative.quire_model_is_special(model, token)) == 1;
  }

  /** The token of one of the QUIRE_TOKEN_* of {@link QuireNativeConstants}. */
  public OptionalInt specialToken(int kind) {
    return unlessNegative(with(model -> QuireNative.quire_model_special_token(model, kind)));
  }

  /** Every token that ends a text. */
  public int[] eosTokens() {
    return with(model -> Results.ints(out -> QuireNative.quire_model_eos_tokens(model, out)));
  }

  /** How many ids the tokenizer knows. */
  public int tokenizerSize() {
    return with(model -> QuireNative.quire_model_tokenizer_size(model));
  }

  /** What the model is; QUIRE_ERROR_UNSUPPORTED for one that is a tokenizer alone. */
  public ModelInfo info() {
    return with(ModelInfo::of);
  }

  /** All tensors, in an order that does not change. */
  public List<Tensor> tensors() {
    return with(model -> IntStream.range(0, QuireNative.quire_model_num_tensors(model))
        .mapToObj(tensor -> Tensor.of(model, tensor)).toList());
  }

  private static OptionalInt unlessNegative(int token) {
    return token < 0 ? OptionalInt.empty() : OptionalInt.of(token);
  }
}
