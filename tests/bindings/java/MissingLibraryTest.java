package story;

import dev.quire.QuireRuntime;

/** Each try without the native library fails for the reason, the second as the first. */
public final class MissingLibraryTest {
  private MissingLibraryTest() {}

  public static void main(String[] arguments) {
    for (int i = 0; i < 3; i++) {
      try {
        QuireRuntime.create().close();
        throw new AssertionError("a library was found");
      } catch (UnsatisfiedLinkError missing) {
        Fixture.check(missing.getMessage().contains("quire_java"), missing);
      }
    }
  }
}
