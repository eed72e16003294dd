package dev.quire;

import java.util.List;
import java.util.function.Consumer;

/**
 * A model for conversations: its cache, and its format of reasoning and calls. The adapters of chat
 * frameworks use it. Settings are not safe for concurrent use; submit is.
 */
public final class ChatEngine implements AutoCloseable {
  private static final String AUTO = "auto";

  private final Model model;
  private final Cache cache;
  /** Null if the program owns model and cache. */
  private final QuireRuntime owned;
  private final boolean recommendsSampling;
  private ChatTemplate ownedTemplate;
  private ChatTemplate template;
  private String dialect = AUTO;
  private boolean thinks = true;

  private ChatEngine(Model model, Cache cache, QuireRuntime owned) {
    this.model = Require.nonNull(model, "model");
    this.cache = Require.nonNull(cache, "cache");
    this.owned = owned;
    recommendsSampling = recommendsSampling(model);
  }

  private static boolean recommendsSampling(Model model) {
    try {
      return new Request().samplingOfModel(model).with(filled -> true);
    } catch (QuireException none) {
      if (none.code() != ErrorCode.NOT_FOUND) {
        throw none;
      }
      return false;
    }
  }

  /**
   * Creates an engine for a model and cache of the program, which closes both. The cache may serve other jobs
   * too.
   */
  public static ChatEngine of(Model model, Cache cache) {
    return new ChatEngine(model, cache, null);
  }

  /** Loads the model of a directory and creates its cache; close frees both. Options may be null: every default. */
  public static ChatEngine load(String path, ModelOptions modelOptions, CacheOptions cacheOptions) {
    Require.nonNull(path, "path");
    QuireRuntime runtime = QuireRuntime.create();
    Model model = null;
    try {
      model = runtime.loadModel(path, modelOptions == null ? new ModelOptions() : modelOptions);
      ChatEngine made = new ChatEngine(model, model.createCache(cacheOptions), runtime);
      return made.openTemplate(model.path());
    } catch (RuntimeException failure) {
      if (model != null) {
        model.close();
      }
      runtime.close();
      throw failure;
    }
  }

  /** Loads the model of a directory with every default. */
  public static ChatEngine load(String path) {
    return load(path, null, null);
  }

  /**
   * Opens the template. A directory without one is no failure: one may be set later, and embeddings need
   * none.
   */
  private ChatEngine openTemplate(String path) {
    try {
      ownedTemplate = ChatTemplate.open(path);
      return chatTemplate(ownedTemplate);
    } catch (QuireException none) {
      if (none.code() != ErrorCode.NOT_FOUND) {
        close();
        throw none;
      }
      return this;
    }
  }

  /**
   * Sets the template of all conversations, instead of that of the model's directory. The caller owns it. Null means
   * the model's own template.
   */
  public ChatEngine chatTemplate(ChatTemplate chosen) {
    template = chosen;
    return this;
  }

  /** Sets the dialect of calls; by default that of the template. */
  public ChatEngine dialect(String name) {
    dialect = Require.nonNull(name, "name");
    return this;
  }

  /**
   * Sets whether the model may reason before it answers. If false, reasoning markers are text. Default: true.
   */
  public ChatEngine thinks(boolean reasons) {
    thinks = reasons;
    return this;
  }

  /** Returns the model; the engine owns it if it has loaded it. */
  public Model model() {
    return model;
  }

  /** Returns the cache; the engine owns it if it has created it. */
  public Cache cache() {
    return cache;
  }

  /**
   * Returns a request with the sampling that the model's authors recommend, if any, and a random seed for
   * each submit.
   */
  public Request request() {
    Request made = new Request();
    return (recommendsSampling ? made.samplingOfModel(model) : made).randomSeed(true);
  }

  /** Does the same with the values that are not null; stop texts are added to the existing ones. */
  public Request request(Double temperature, Double topP, Integer topK, Double frequencyPenalty, Double presencePenalty,
      List<String> stopTexts) {
    Request made = request();
    set(temperature, made::temperature);
    set(topP, made::topP);
    set(topK, made::topK);
    set(frequencyPenalty, made::frequencyPenalty);
    set(presencePenalty, made::presencePenalty);
    set(stopTexts, texts -> texts.forEach(made::stopText));
    return made;
  }

  private static <T> void set(T value, Consumer<T> setter) {
    if (value != null) {
      setter.accept(value);
    }
  }

  /**
   * Submits a conversation. The request has the other settings, such as sampling and lengths. If `maxNewTokens` is
   * null, the maximum of the request applies. Without one, an answer may use all that the cache allows one job. Read
   * the events with an {@link Answer}.
   */
  public Job submit(Conversation conversation, Request request, Integer maxNewTokens) {
    Require.nonNull(conversation, "conversation");
    Require.nonNull(request, "request").defaultMaxNewTokens(Integer.MAX_VALUE);
    fill(conversation, request);
    if (maxNewTokens != null) {
      request.maxNewTokens(maxNewTokens);
    }
    if (!conversation.isConstrained()) {
      return cache.submit(request);
    }
    try (Constraint constraint = model.createResponseConstraint(conversation.rules(resolvedDialect()))) {
      return cache.submit(request.constraint(constraint));
    }
  }

  private void fill(Conversation conversation, Request request) {
    request.addMessages(conversation.messages()).responseDialect(dialect);
    if (!thinks) {
      request.reasoning(ReasoningStart.OFF);
    }
    if (conversation.hasTools()) {
      request.tools(conversation.tools());
    }
    if (template != null) {
      request.chatTemplate(template);
    }
  }

  private String resolvedDialect() {
    return dialect.equals(AUTO) && template != null ? template.dialect(model) : dialect;
  }

  /** Frees the objects of {@link #load}; its jobs end with ErrorCode.CLOSED. */
  @Override
  public void close() {
    if (owned == null) {
      return;
    }
    cache.shutdown();
    cache.close();
    model.close();
    owned.close();
    if (ownedTemplate != null) {
      ownedTemplate.close();
    }
  }
}
