package story;

import dev.quire.QuireRuntime;

/**
 * A jar whose libraries cannot be loaded fails with the reason. The argument is a text that the message contains:
 * this platform, if the jar is for another one, otherwise the platform of the jar.
 */
public final class PlatformTest {
  private PlatformTest() {}

  public static void main(String[] arguments) {
    for (int i = 0; i < 2; i++) {
      try {
        QuireRuntime.create().close();
        throw new AssertionError("a library was found");
      } catch (UnsatisfiedLinkError refused) {
        String message = refused.getMessage();
        Fixture.check(message.contains("linux-x86_64") && message.contains(arguments[0]) && !message.contains("\n"), message);
      }
    }
  }
}
