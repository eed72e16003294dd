package dev.quire.springai;

import dev.quire.ChatEngine;
import dev.quire.Embeddings;
import dev.quire.Pooling;
import java.util.List;
import java.util.Objects;
import java.util.stream.IntStream;
import org.springframework.ai.chat.metadata.DefaultUsage;
import org.springframework.ai.document.Document;
import org.springframework.ai.embedding.Embedding;
import org.springframework.ai.embedding.EmbeddingModel;
import org.springframework.ai.embedding.EmbeddingRequest;
import org.springframework.ai.embedding.EmbeddingResponse;
import org.springframework.ai.embedding.EmbeddingResponseMetadata;

/** Spring AI's embedding model with a model in this process. The texts of a call are computed together. */
public final class QuireEmbeddingModel implements EmbeddingModel {
  private final ChatEngine engine;
  private final Pooling pooling;

  /** Creates a model for vectors of length 1, the mean of the hidden states of a text. */
  public QuireEmbeddingModel(ChatEngine engine) {
    this(engine, Pooling.MEAN);
  }

  /** Creates a model for vectors of length 1 with the given pooling, which the model's authors define. */
  public QuireEmbeddingModel(ChatEngine engine, Pooling pooling) {
    this.engine = Objects.requireNonNull(engine, "engine");
    this.pooling = Objects.requireNonNull(pooling, "pooling");
  }

  /**
   * Computes vectors. Refuses a number of dimensions other than the model's own, since vectors are not
   * shortened.
   */
  @Override
  public EmbeddingResponse call(EmbeddingRequest request) {
    Integer asked = request.getOptions() == null ? null : request.getOptions().getDimensions();
    if (asked != null && asked != dimensions()) {
      throw new IllegalArgumentException("dimensions: " + asked + " is not supported; the model has " + dimensions());
    }
    Embeddings made = Embeddings.of(engine.cache(), request.getInstructions(), pooling);
    List<Embedding> vectors = IntStream.range(0, made.vectors().size())
        .mapToObj(i -> new Embedding(made.vectors().get(i), i)).toList();
    String name = request.getOptions() == null || request.getOptions().getModel() == null ? ""
        : request.getOptions().getModel();
    return new EmbeddingResponse(vectors, new EmbeddingResponseMetadata(name, new DefaultUsage((int) made.promptTokens(), 0)));
  }

  @Override
  public float[] embed(Document document) {
    return embed(Objects.requireNonNull(getEmbeddingContent(document), "the document has no text"));
  }

  /** Returns the hidden size of the model, without computing a vector. */
  @Override
  public int dimensions() {
    return engine.model().info().hiddenSize();
  }
}
