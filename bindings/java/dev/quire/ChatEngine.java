package dev.quire;

import java.util.List;
import java.util.function.Consumer;

/**
 * A model that conversations are answered by: its cache, and how it writes reasoning and calls. What the adapters of chat
 * frameworks stand on. Settings belong to one thread while they are filled; any thread may submit at any time.
 */
public final class ChatEngine implements AutoCloseable {
  private static final String AUTO = "auto";

  private final Model model;
  private final Cache cache;
  /** Null where model and cache are the program's. */
  private final QuireRuntime owned;
  private final boolean recommendsSampling;
  private ChatTemplate ownedTemplate;
  private ChatTemplate template;
  private String dialect = AUTO;
  private boolean thinks = true;

  private ChatEngine(Model model, Cache cache, QuireRuntime owned) {
    this.model = model;
    this.cache = cache;
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

  /** Answers by a model of the program, which closes both; a cache may serve other jobs too. */
  public static ChatEngine of(Model model, Cache cache) {
    return new ChatEngine(model, cache, null);
  }

  /** Loads the model of a directory, and takes its cache; both go when this is closed. */
  public static ChatEngine load(String path, ModelOptions modelOptions, CacheOptions cacheOptions) {
    QuireRuntime runtime = QuireRuntime.create();
    Model model = null;
    try {
      model = runtime.loadModel(path, modelOptions);
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
    return load(path, new ModelOptions(), new CacheOptions());
  }

  /** A directory without a template is no failure: one may be set, and embeddings need none. */
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

  /** The template of all conversations, in place of that of the model's directory. It stays the caller's. */
  public ChatEngine chatTemplate(ChatTemplate chosen) {
    template = chosen;
    return this;
  }

  /** The dialect that the model writes calls in; by default the one that its template tells. */
  public ChatEngine dialect(String name) {
    dialect = name;
    return this;
  }

  /** False: the model never reasons before it answers, and marks of reasoning are text. True by default. */
  public ChatEngine thinks(boolean reasons) {
    thinks = reasons;
    return this;
  }

  public Model model() {
    return model;
  }

  public Cache cache() {
    return cache;
  }

  /** A request that samples as the model's authors recommend, where they do, with a seed of its own for each submit. */
  public Request request() {
    Request made = new Request();
    return (recommendsSampling ? made.samplingOfModel(model) : made).randomSeed(true);
  }

  /** The same with what is not null, stops beside those that there are. */
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
   * Hands over a conversation. The request has what else is to be set, sampling and lengths; without a number of tokens an
   * answer may fill what the cache leaves to one job. Read the events with an {@link Answer}.
   */
  public Job submit(Conversation conversation, Request request, Integer maxNewTokens) {
    fill(conversation, request);
    request.maxNewTokens(maxNewTokens != null ? maxNewTokens : Integer.MAX_VALUE);
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

  /** Frees what {@link #load} made; its jobs end with QUIRE_ERROR_CLOSED. */
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
