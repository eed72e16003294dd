package dev.quire;

import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/** Reads the JSON that the library writes: objects, arrays, strings and numbers. */
final class Json {
  private final String text;
  private int at;

  private Json(String text) {
    this.text = text;
  }

  /** A Map, List, String or Double, or a Long for a whole number. */
  static Object parse(String text) {
    Json json = new Json(text);
    Object value = json.value();
    if (json.at != text.length()) {
      throw json.unexpected();
    }
    return value;
  }

  private Object value() {
    switch (peek()) {
      case '{':
        return object();
      case '[':
        return array();
      case '"':
        return string();
      default:
        return number();
    }
  }

  private Map<String, Object> object() {
    Map<String, Object> members = new LinkedHashMap<>();
    take('{');
    while (!takeIf('}')) {
      if (!members.isEmpty()) {
        take(',');
      }
      String name = string();
      take(':');
      members.put(name, value());
    }
    return members;
  }

  private List<Object> array() {
    List<Object> elements = new ArrayList<>();
    take('[');
    while (!takeIf(']')) {
      if (!elements.isEmpty()) {
        take(',');
      }
      elements.add(value());
    }
    return elements;
  }

  private String string() {
    StringBuilder content = new StringBuilder();
    take('"');
    while (!takeIf('"')) {
      char next = peek();
      at++;
      content.append(next == '\\' ? escaped() : next);
    }
    return content.toString();
  }

  private char escaped() {
    char escape = peek();
    at++;
    if (escape == 'u') {
      return hexadecimal();
    }
    int known = "bfnrt\"\\/".indexOf(escape);
    if (known < 0) {
      throw unexpected();
    }
    return "\b\f\n\r\t\"\\/".charAt(known);
  }

  private char hexadecimal() {
    int end = Math.min(at + 4, text.length());
    String digits = text.substring(at, end);
    if (!digits.matches("[0-9a-fA-F]{4}")) {
      throw unexpected();
    }
    at = end;
    return (char) Integer.parseInt(digits, 16);
  }

  private Object number() {
    int start = at;
    while (at < text.length() && "+-.0123456789eE".indexOf(text.charAt(at)) >= 0) {
      at++;
    }
    String digits = text.substring(start, at);
    try {
      return digits.matches("-?[0-9]+") ? (Object) Long.valueOf(digits) : (Object) Double.valueOf(digits);
    } catch (NumberFormatException error) {
      throw unexpected();
    }
  }

  private char peek() {
    if (at >= text.length()) {
      throw unexpected();
    }
    return text.charAt(at);
  }

  private boolean takeIf(char wanted) {
    if (peek() != wanted) {
      return false;
    }
    at++;
    return true;
  }

  private void take(char wanted) {
    if (!takeIf(wanted)) {
      throw unexpected();
    }
  }

  private QuireException unexpected() {
    return QuireException.of(
        QuireNativeConstants.QUIRE_ERROR_INTERNAL, Utf8.bytes("text of the library at " + at + " is not JSON"));
  }
}
