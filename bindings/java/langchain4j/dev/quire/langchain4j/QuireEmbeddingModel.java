package dev.quire.langchain4j;

import dev.langchain4j.data.embedding.Embedding;
import dev.langchain4j.data.segment.TextSegment;
import dev.langchain4j.model.embedding.DimensionAwareEmbeddingModel;
import dev.langchain4j.model.output.Response;
import dev.langchain4j.model.output.TokenUsage;
import dev.quire.ChatEngine;
import dev.quire.Embeddings;
import dev.quire.Pooling;
import dev.quire.QuireException;
import java.util.List;

/** langchain4j's embedding model with a model in this process. The texts of a call are computed together. */
public final class QuireEmbeddingModel extends DimensionAwareEmbeddingModel {
  private final ChatEngine engine;
  private final Pooling pooling;

  private QuireEmbeddingModel(ChatEngine engine, Pooling pooling) {
    this.engine = engine;
    this.pooling = pooling;
  }

  /** Creates a model for vectors of length 1, the mean of the hidden states of a text. */
  public static QuireEmbeddingModel of(ChatEngine engine) {
    return of(engine, Pooling.MEAN);
  }

  /** Creates a model for vectors of length 1 with the given pooling, which the model's authors define. */
  public static QuireEmbeddingModel of(ChatEngine engine, Pooling pooling) {
    return new QuireEmbeddingModel(engine, pooling);
  }

  @Override
  public Response<List<Embedding>> embedAll(List<TextSegment> segments) {
    try {
      Embeddings made = Embeddings.of(engine.cache(), segments.stream().map(TextSegment::text).toList(), pooling);
      return Response.from(made.vectors().stream().map(Embedding::from).toList(),
          new TokenUsage((int) made.promptTokens(), 0));
    } catch (QuireException failure) {
      throw Failures.of(failure);
    }
  }

  /** Returns the hidden size of the model, without computing a vector. */
  @Override
  protected Integer knownDimension() {
    return engine.model().info().hiddenSize();
  }
}
