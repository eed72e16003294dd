package dev.quire;

import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Objects;

/**
 * What a model is to answer: texts in JSON as OpenAI has them, each null where there is none but the messages.
 *
 * @param messages a list of messages
 * @param tools a list of tools
 * @param toolChoice "auto", "none" or "required" in quotes, or an object that names a function; null is "auto"
 * @param responseFormat what the text has to be, an object with its type
 * @param calls what calls keep to
 */
public record Conversation(String messages, String tools, String toolChoice, String responseFormat, Calls calls) {
  /** What calls keep to though none is required. */
  public enum Calls {
    /** What the model has learned. */
    FREE,
    /** The schemas of their tools. */
    STRICT,
    /** The schema of its tool, and there is at most one; with a choice that requires a call, exactly one. */
    SINGLE
  }

  private static final String NONE = "\"none\"";
  private static final String AUTO = "\"auto\"";

  public Conversation {
    Objects.requireNonNull(messages, "messages");
  }

  /** Messages alone. */
  public static Conversation of(String messages) {
    return new Conversation(messages, null, null, null, Calls.FREE);
  }

  /** An object of JSON with its members in order, so that the same conversation has the same tokens; null values are left out. */
  public static Map<String, Object> object(Object... namesAndValues) {
    Map<String, Object> made = new LinkedHashMap<>();
    for (int i = 0; i < namesAndValues.length; i += 2) {
      if (namesAndValues[i + 1] != null) {
        made.put((String) namesAndValues[i], namesAndValues[i + 1]);
      }
    }
    return made;
  }

  /** Whether the model learns of tools: with "none" it does not. */
  boolean hasTools() {
    return tools != null && !NONE.equals(toolChoice);
  }

  private boolean requiresCall() {
    return toolChoice != null && !toolChoice.equals(NONE) && !toolChoice.equals(AUTO);
  }

  /** Tools alone ask for no constraint: a model calls them as it has learned to. */
  boolean isConstrained() {
    return responseFormat != null || requiresCall() || (calls != Calls.FREE && hasTools());
  }

  /** The rules of a response constraint, which leave it to the request where reasoning begins. */
  String rules(String dialect) {
    StringBuilder rules = new StringBuilder("{\"dialect\": \"").append(dialect).append('"');
    if (hasTools()) {
      rules.append(", \"tools\": ").append(tools);
    }
    if (hasTools() || requiresCall()) {
      rules.append(", \"tool_choice\": ").append(toolChoice == null ? AUTO : toolChoice);
    }
    if (calls == Calls.SINGLE) {
      rules.append(", \"parallel_tool_calls\": false");
    }
    if (responseFormat != null) {
      rules.append(", \"response_format\": ").append(responseFormat);
    }
    return rules.append('}').toString();
  }
}
