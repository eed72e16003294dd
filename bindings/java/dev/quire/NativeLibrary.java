package dev.quire;

import java.nio.file.Path;

/** Loads the native library once: from -Dquire.native.dir, else by java.library.path. */
final class NativeLibrary {
  private NativeLibrary() {}

  private static boolean loaded;

  /** Fails where the library is missing or does not fit this package, each time for the reason. */
  static synchronized void load() {
    if (loaded) {
      return;
    }
    String directory = System.getProperty("quire.native.dir");
    if (directory != null) {
      System.load(Path.of(directory, System.mapLibraryName("quire_java")).toAbsolutePath().toString());
    } else {
      System.loadLibrary("quire_java");
    }
    QuireNative.quire_abi_check(QuireNativeConstants.QUIRE_ABI_MAJOR, QuireNativeConstants.QUIRE_ABI_MINOR);
    loaded = true;
  }
}
