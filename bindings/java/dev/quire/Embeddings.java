package dev.quire;

import java.util.ArrayList;
import java.util.List;

/**
 * Vectors of texts.
 *
 * @param vectors one vector per text, in order
 * @param promptTokens number of tokens of all texts together
 */
public record Embeddings(List<float[]> vectors, long promptTokens) {
  /** Computes the vectors of all texts together, each of length 1. Throws the first failure. */
  public static Embeddings of(Cache cache, List<String> texts, Pooling pooling) {
    Require.nonNull(cache, "cache");
    Require.nonNull(texts, "texts");
    Require.nonNull(pooling, "pooling");
    List<Job> jobs = new ArrayList<>();
    try {
      for (String text : texts) {
        jobs.add(cache.submit(new Request(Require.nonNull(text, "texts")).kind(JobKind.EMBED).pooling(pooling)));
      }
      List<float[]> vectors = new ArrayList<>();
      long promptTokens = 0;
      for (Job job : jobs) {
        for (Event event : job) {
          promptTokens += event.isLast() ? event.usage().promptTokens() : 0;
        }
        vectors.add(job.embedding());
      }
      return new Embeddings(vectors, promptTokens);
    } finally {
      jobs.forEach(Job::close); // cancels unfinished jobs
    }
  }
}
