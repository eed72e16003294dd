package dev.quire.springai;

import java.util.Objects;
import org.jspecify.annotations.Nullable;
import org.springframework.ai.chat.prompt.ChatOptions;
import org.springframework.ai.model.tool.DefaultToolCallingChatOptions;
import org.springframework.ai.model.tool.StructuredOutputChatOptions;

/** Spring AI's portable options, tools and schemas, and options of the library. */
public final class QuireChatOptions extends DefaultToolCallingChatOptions implements StructuredOutputChatOptions {
  private final @Nullable String outputSchema;
  private final @Nullable String toolChoice;
  private final @Nullable Boolean parallelToolCalls;
  private final @Nullable Long seed;

  private QuireChatOptions(Builder from, DefaultToolCallingChatOptions portable) {
    super(portable.getToolCallbacks(), portable.getToolContext(), portable.getModel(), portable.getFrequencyPenalty(),
        portable.getMaxTokens(), portable.getPresencePenalty(), portable.getStopSequences(), portable.getTemperature(),
        portable.getTopK(), portable.getTopP());
    outputSchema = from.outputSchema;
    toolChoice = from.toolChoice;
    parallelToolCalls = from.parallelToolCalls;
    seed = from.seed;
  }

  /** Returns the JSON schema that the text of the answer must match; a constraint enforces it. */
  @Override
  public @Nullable String getOutputSchema() {
    return outputSchema;
  }

  /** Returns "auto", "none", "required", or the name of the tool to call. */
  public @Nullable String getToolChoice() {
    return toolChoice;
  }

  /** Returns false if an answer has at most one call, which must match the schema of its tool. */
  public @Nullable Boolean getParallelToolCalls() {
    return parallelToolCalls;
  }

  /** Returns the seed of sampling; without one each request gets a random seed. */
  public @Nullable Long getSeed() {
    return seed;
  }

  public static Builder builder() {
    return new Builder();
  }

  @Override
  public Builder mutate() {
    return builder().model(getModel()).frequencyPenalty(getFrequencyPenalty()).maxTokens(getMaxTokens())
        .presencePenalty(getPresencePenalty()).stopSequences(getStopSequences()).temperature(getTemperature()).topK(getTopK())
        .topP(getTopP()).toolCallbacks(getToolCallbacks()).toolContext(getToolContext()).outputSchema(outputSchema)
        .toolChoice(toolChoice).parallelToolCalls(parallelToolCalls).seed(seed);
  }

  @Override
  public boolean equals(@Nullable Object other) {
    return super.equals(other) && other instanceof QuireChatOptions that && Objects.equals(outputSchema, that.outputSchema)
        && Objects.equals(toolChoice, that.toolChoice) && Objects.equals(parallelToolCalls, that.parallelToolCalls)
        && Objects.equals(seed, that.seed);
  }

  @Override
  public int hashCode() {
    return Objects.hash(super.hashCode(), outputSchema, toolChoice, parallelToolCalls, seed);
  }

  public static final class Builder extends DefaultToolCallingChatOptions.Builder<Builder>
      implements StructuredOutputChatOptions.Builder<Builder> {
    private @Nullable String outputSchema;
    private @Nullable String toolChoice;
    private @Nullable Boolean parallelToolCalls;
    private @Nullable Long seed;

    private Builder() {}

    @Override
    public Builder outputSchema(@Nullable String schema) {
      outputSchema = schema;
      return this;
    }

    public Builder toolChoice(@Nullable String choice) {
      toolChoice = choice;
      return this;
    }

    public Builder parallelToolCalls(@Nullable Boolean parallel) {
      parallelToolCalls = parallel;
      return this;
    }

    public Builder seed(@Nullable Long drawn) {
      seed = drawn;
      return this;
    }

    @Override
    public Builder combineWith(ChatOptions.Builder<?> other) {
      super.combineWith(other);
      if (other.build() instanceof StructuredOutputChatOptions structured && structured.getOutputSchema() != null) {
        outputSchema = structured.getOutputSchema();
      }
      if (other instanceof Builder that) {
        toolChoice = that.toolChoice != null ? that.toolChoice : toolChoice;
        parallelToolCalls = that.parallelToolCalls != null ? that.parallelToolCalls : parallelToolCalls;
        seed = that.seed != null ? that.seed : seed;
      }
      return this;
    }

    @Override
    public QuireChatOptions build() {
      return new QuireChatOptions(this, (DefaultToolCallingChatOptions) super.build());
    }
  }
}
