package story;

import dev.quire.QuireRuntime;

/**
 * Every attempt to use the binding without its native library fails with the reason, also after the first.
 */
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
