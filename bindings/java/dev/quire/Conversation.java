package dev.quire;

import java.util.LinkedHashMap;
import java.util.Map;

/**
 * A conversation as JSON texts in OpenAI's format. Tools, choice and format may be null.
 *
 * @param messages a list of messages
 * @param tools a list of tools
 * @param toolChoice "auto", "none" or "required" in quotes, or an object that names a function; null means "auto"
 * @param responseFormat the format of the text, an object with its type
 * @param calls the constraint on calls
 */
public record Conversation(String messages, String tools, String toolChoice, String responseFormat, Calls calls) {
  /** Constraint on calls if none is required. */
  public enum Calls {
    /** No constraint: the model calls as it was trained to. */
    FREE,
    /** Calls must match the schemas of their tools. */
    STRICT,
    /** At most one call, which must match its schema; exactly one if the choice requires a call. */
    SINGLE
  }

  private static final String NONE = "\"none\"";
  private static final String AUTO = "\"auto\"";

  /** Checks what must not be null. */
  public Conversation {
    Require.nonNull(messages, "messages");
    Require.nonNull(calls, "calls");
  }

  /** Creates a conversation with messages only. */
  public static Conversation of(String messages) {
    return new Conversation(messages, null, null, null, Calls.FREE);
  }

  /**
   * Creates a JSON object whose members keep their order, so that the same conversation has the same tokens.
   * Null values are left out.
   */
  public static Map<String, Object> object(Object... namesAndValues) {
    Map<String, Object> made = new LinkedHashMap<>();
    Require.nonNull(namesAndValues, "namesAndValues");
    for (int i = 0; i < namesAndValues.length; i += 2) {
      if (namesAndValues[i + 1] != null) {
        made.put((String) namesAndValues[i], namesAndValues[i + 1]);
      }
    }
    return made;
  }

  /** Returns true if the prompt contains the tools; with "none" it does not. */
  boolean hasTools() {
    return tools != null && !NONE.equals(toolChoice);
  }

  private boolean requiresCall() {
    return toolChoice != null && !toolChoice.equals(NONE) && !toolChoice.equals(AUTO);
  }

  /**
   * Returns true if the answer needs a constraint. Tools alone need none: a model calls them as it was
   * trained to.
   */
  boolean isConstrained() {
    return responseFormat != null || requiresCall() || (calls != Calls.FREE && hasTools());
  }

  /** Returns the rules of a response constraint. The request decides where reasoning begins. */
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
