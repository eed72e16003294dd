package dev.quire;

import java.util.List;
import java.util.Map;

/** The reader of the library's JSON, from within its package. */
public final class JsonTest {
  private JsonTest() {}

  public static void main(String[] arguments) {
    NativeLibrary.load();
    Map<String, Object> expected = Map.of("a", List.of(), "b", Map.of(), "c", List.of(-7L, 2.5, "x"));
    check(Json.parse("{\"a\":[],\"b\":{},\"c\":[-7,2.5,\"x\"]}").equals(expected), "values");
    check(Json.parse("\"\\\"\\\\\\/\\n\\u00e9\\ud83d\\ude42\"")
        .equals("\"\\/\n\u00e9\ud83d\ude42"), "escapes");
    check(Json.parse("9223372036854775807").equals(Long.MAX_VALUE), "the largest number");
    String[] malformed = {"", "{", "[1", "[1,", "{\"a\"", "{\"a\":", "\"", "\"\\", "\"\\u12", "\"\\u12x4\"", "\"\\q\"",
        "1-", "-", "[1 2]", "{1:2}", "[]]", "9223372036854775808", "x"};
    for (String text : malformed) {
      try {
        Json.parse(text);
      } catch (QuireException refusal) {
        check(refusal.codeName().equals("internal"), refusal.codeName());
        continue;
      }
      throw new AssertionError(text + " was read");
    }
    System.out.println("ok: JSON");
  }

  private static void check(boolean holds, String what) {
    if (!holds) {
      throw new AssertionError(what);
    }
  }
}
