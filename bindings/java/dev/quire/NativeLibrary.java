package dev.quire;

import java.io.IOException;
import java.io.InputStream;
import java.nio.file.Files;
import java.nio.file.Path;

/** Loads the native library once: from -Dquire.native.dir, else from this jar, else by java.library.path. */
final class NativeLibrary {
  private NativeLibrary() {}

  // Where a jar that is shipped carries them (packaging/dist/jar.py). The second looks for the first beside itself.
  private static final String FOLDER = "native/linux-x86_64/";
  private static final String[] CARRIED = {
    "libquire.so." + libraryAbi(), System.mapLibraryName("quire_java")
  };

  private static boolean loaded;

  /** Fails where the library is missing or does not fit this package, each time for the reason. */
  static synchronized void load() {
    if (loaded) {
      return;
    }
    String directory = System.getProperty("quire.native.dir");
    if (directory != null) {
      System.load(Path.of(directory, CARRIED[1]).toAbsolutePath().toString());
    } else if (NativeLibrary.class.getResource(FOLDER + CARRIED[1]) != null) {
      loadCarried();
    } else {
      System.loadLibrary("quire_java");
    }
    QuireNative.quire_abi_check(QuireNativeConstants.QUIRE_ABI_MAJOR, QuireNativeConstants.QUIRE_ABI_MINOR);
    loaded = true;
  }

  private static String libraryAbi() {
    int major = QuireNativeConstants.QUIRE_ABI_MAJOR;
    return major == 0 ? "0." + QuireNativeConstants.QUIRE_ABI_MINOR : Integer.toString(major);
  }

  /** The linker wants files: they lie in a new folder of the user alone, and are gone once they are loaded. */
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
      } finally {
        for (String name : CARRIED) {
          Files.deleteIfExists(folder.resolve(name));
        }
        Files.delete(folder);
      }
    } catch (IOException e) {
      throw new UnsatisfiedLinkError(
          "cannot unpack the native library of the jar: " + e + "; name a folder with -Djava.io.tmpdir, or one that"
              + " has the library with -Dquire.native.dir");
    }
  }
}
