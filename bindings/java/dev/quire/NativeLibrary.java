package dev.quire;

import java.io.IOException;
import java.io.InputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Locale;

/**
 * Loads the native library once: from -Dquire.native.dir, otherwise from this jar, otherwise from
 * java.library.path.
 */
final class NativeLibrary {
  private NativeLibrary() {}

  // Paths of the libraries in a shipped jar (packaging/dist/jar.py). The second library finds the first in
  // its own folder.
  private static final String PLATFORM = "linux-x86_64";
  private static final String FOLDER = "native/" + PLATFORM + "/";
  private static final String[] CARRIED = {
    "libquire.so." + libraryAbi(), System.mapLibraryName("quire_java")
  };

  private static boolean loaded;

  /** Fails with the reason, on each call, if the library is missing or does not fit this package. */
  static synchronized void load() {
    if (loaded) {
      return;
    }
    String directory = System.getProperty("quire.native.dir");
    if (directory != null) {
      System.load(Path.of(directory, CARRIED[1]).toAbsolutePath().toString());
    } else if (NativeLibrary.class.getResource(FOLDER + CARRIED[1]) != null) {
      requirePlatform();
      loadCarried();
    } else {
      System.loadLibrary("quire_java");
    }
    QuireNative.quire_abi_check(QuireNativeConstants.QUIRE_ABI_MAJOR, QuireNativeConstants.QUIRE_ABI_MINOR);
    loaded = true;
  }

  /** Throws if the libraries of the jar are for another platform than that of this JVM. */
  private static void requirePlatform() {
    String name = System.getProperty("os.name", "").toLowerCase(Locale.ROOT).replaceAll(" .*", "");
    String architecture = System.getProperty("os.arch", "").replace("amd64", "x86_64");
    String here = name + "-" + architecture;
    if (!here.equals(PLATFORM)) {
      throw new UnsatisfiedLinkError("the jar of Quire carries libraries for " + PLATFORM + " only, and this JVM runs on "
          + here + "; set -Dquire.native.dir to a folder with libraries that were built for it");
    }
  }

  private static String libraryAbi() {
    int major = QuireNativeConstants.QUIRE_ABI_MAJOR;
    return major == 0 ? "0." + QuireNativeConstants.QUIRE_ABI_MINOR : Integer.toString(major);
  }

  /**
   * Unpacks and loads the libraries. The linker needs files, so they are written to a new folder that only
   * the user can read, and removed after loading.
   */
  private static void loadCarried() {
    try {
      Path folder = Files.createTempDirectory("quire-");
      try {
        for (String name : CARRIED) {
          try (InputStream library = NativeLibrary.class.getResourceAsStream(FOLDER + name)) {
            Files.copy(library, folder.resolve(name));
          }
        }
        System.load(folder.resolve(CARRIED[1]).toAbsolutePath().toString());
      } catch (UnsatisfiedLinkError refused) {
        throw new UnsatisfiedLinkError("the libraries of Quire's jar, for " + PLATFORM + " with glibc, cannot be loaded: "
            + refused.getMessage());
      } finally {
        for (String name : CARRIED) {
          Files.deleteIfExists(folder.resolve(name));
        }
        Files.delete(folder);
      }
    } catch (IOException e) {
      throw new UnsatisfiedLinkError(
          "cannot unpack the native library of the jar: " + e + "; set -Djava.io.tmpdir to a writable folder, or"
              + " -Dquire.native.dir to a folder with the library");
    }
  }
}
