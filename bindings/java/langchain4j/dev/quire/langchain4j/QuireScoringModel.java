package dev.quire.langchain4j;

import dev.langchain4j.data.segment.TextSegment;
import dev.langchain4j.model.output.Response;
import dev.langchain4j.model.output.TokenUsage;
import dev.langchain4j.model.scoring.ScoringModel;
import dev.quire.ChatEngine;
import dev.quire.JobKind;
import dev.quire.Job;
import dev.quire.Model;
import dev.quire.QuireException;
import dev.quire.Request;
import java.util.ArrayList;
import java.util.List;
import java.util.Objects;
import java.util.function.UnaryOperator;
import java.util.stream.IntStream;

/**
 * langchain4j's scoring model, based on the likelihood of the query. The score of a text is the mean
 * log-probability of the query's tokens after the text. So any generating model can rank texts; scores are at
 * most 0.
 */
public final class QuireScoringModel implements ScoringModel {
  private final ChatEngine engine;
  private final UnaryOperator<String> prompt;

  private QuireScoringModel(ChatEngine engine, UnaryOperator<String> prompt) {
    this.engine = engine;
    this.prompt = prompt;
  }

  /** Creates a model that puts the query after the text, on a line of its own. */
  public static QuireScoringModel of(ChatEngine engine) {
    return of(engine, text -> text + "\n");
  }

  /**
   * Creates a model that puts the query after the result of `prompt` for the text, such as an instruction to
   * ask a question about it.
   */
  public static QuireScoringModel of(ChatEngine engine, UnaryOperator<String> prompt) {
    return new QuireScoringModel(engine, Objects.requireNonNull(prompt, "prompt"));
  }

  @Override
  public Response<List<Double>> scoreAll(List<TextSegment> segments, String query) {
    List<Job> jobs = new ArrayList<>();
    try {
      int[] asked = engine.model().encode(query, false, false);
      for (TextSegment segment : segments) {
        jobs.add(engine.cache().submit(request(segment, asked)));
      }
      List<Double> scores = new ArrayList<>();
      long promptTokens = 0;
      for (Job job : jobs) {
        job.forEach(event -> { });
        scores.add(meanOfLast(job.scores(), asked.length));
        promptTokens += job.info().promptTokens();
      }
      return Response.from(scores, new TokenUsage((int) promptTokens, 0));
    } catch (QuireException failure) {
      throw Failures.of(failure);
    } finally {
      jobs.forEach(Job::close); // cancels unfinished jobs
    }
  }

  private Request request(TextSegment segment, int[] asked) {
    Model model = engine.model();
    int[] before = model.encode(prompt.apply(segment.text()), true, false);
    return new Request(IntStream.concat(IntStream.of(before), IntStream.of(asked)).toArray()).kind(JobKind.SCORE);
  }

  private static double meanOfLast(float[] logProbs, int count) {
    return IntStream.range(logProbs.length - count, logProbs.length).mapToDouble(i -> logProbs[i]).average().orElse(0);
  }
}
