package dev.quire;

/** Checks arguments of public methods. */
final class Require {
  private Require() {}

  /** Returns the value, or throws an exception that names the argument if it is null. */
  static <T> T nonNull(T value, String name) {
    if (value == null) {
      throw new NullPointerException(name + ": must not be null");
    }
    return value;
  }
}
