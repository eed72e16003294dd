/* A C99 program that loads the library through the table and prints its version. */
#include <stdio.h>

#include <quire_dynamic.h>

int main(int argc, char** argv) {
  struct quire_functions quire;
  const char* missing = quire_dynamic_load(&quire, argc > 1 ? argv[1] : "");
  quire_error* error = NULL;
  if (missing != NULL) {
    fprintf(stderr, "%s\n", missing);
    return 1;
  }
  if (quire_dynamic_load(&quire, "libnothing.so") == NULL) return 2;
  if (strcmp(quire.version_string(), QUIRE_VERSION_STRING) != 0) return 3;
  if (quire.runtime_num_devices(NULL, &error) != -1) return 4;
  if (quire.error_code(error) != QUIRE_ERROR_INVALID_ARGUMENT) return 5;
  quire.error_free(error);
  return 0;
}
