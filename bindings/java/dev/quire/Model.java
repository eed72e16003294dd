package dev.quire;

/** A loaded model with its tokenizer; it never changes. Any thread may use it at any time. */
public final class Model extends NativeHandle {
  Model(long value) {
    super(value, QuireNative::quire_model_free);
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
    return with(
        model -> {
          int[] tokens = new int[0];
          while (true) {
            int size = Math.toIntExact(QuireNative.quire_model_encode(
                model, bytes, addSpecial ? 1 : 0, parseSpecial ? 1 : 0, tokens));
            if (size <= tokens.length) {
              return tokens;
            }
            tokens = new int[size];
          }
        });
  }

  /** Token ids to text. */
  public String decode(int[] tokens, boolean skipSpecial) {
    return with(
        model -> {
          byte[] text = new byte[0];
          while (true) {
            int size =
                Math.toIntExact(QuireNative.quire_model_decode(model, tokens, skipSpecial ? 1 : 0, text));
            if (size <= text.length) {
              return Utf8.string(text);
            }
            text = new byte[size];
          }
        });
  }

  /** Takes the memory of a cache with every default and starts its scheduler. */
  public Cache createCache() {
    return createCache(0);
  }

  /** The same with room for so many tokens of all jobs together; 0 is one job of full length. */
  public Cache createCache(long maxTokens) {
    long options = QuireNative.quire_cache_options_create();
    try {
      QuireNative.quire_cache_options_set_max_tokens(options, maxTokens);
      return with(model -> new Cache(QuireNative.quire_cache_create(model, options)));
    } finally {
      QuireNative.quire_cache_options_free(options);
    }
  }
}
