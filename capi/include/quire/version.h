/*
 * Version of the library, and the check that it fits the header the caller was compiled with.
 *
 * A caller, above all a language binding, calls quire_abi_check(QUIRE_ABI_MAJOR, QUIRE_ABI_MINOR, &error)
 * before anything else. docs/api-stability.md defines what the version numbers promise.
 */
#ifndef QUIRE_VERSION_H
#define QUIRE_VERSION_H

#include <quire/base.h>

/* Version of this header, as numbers and as text. */
#define QUIRE_VERSION_MAJOR 0        /* raised by a change that callers must adapt to */
#define QUIRE_VERSION_MINOR 1        /* raised by an addition; while the major number is 0, by any change */
#define QUIRE_VERSION_PATCH 0        /* raised by a fix */
#define QUIRE_VERSION_STRING "0.1.0" /* the three numbers, separated by dots */

/* Version of the binary interface. The major number changes if something is changed or removed. The
 * minor number changes if something is added and, while the major number is 0, also if something is
 * changed or removed. The SONAME contains the major number and, while that is 0, also the minor number. */
#define QUIRE_ABI_MAJOR 0 /* raised if callers have to be recompiled */
#define QUIRE_ABI_MINOR 1 /* raised by an addition; while the major number is 0, by any change */

#ifdef __cplusplus
extern "C" {
#endif

/**
 * Returns the version of the loaded library, such as "0.1.0", zero-terminated. The string is static and
 * never freed. Cannot fail.
 */
QUIRE_API const char* quire_version_string(void);

/**
 * Checks whether a caller compiled against binary interface major.minor can use this library. It can if the
 * major numbers are equal and the minor number of the library is not smaller. While the major number is 0,
 * the minor numbers must be equal too. Returns 1, or 0 with QUIRE_ERROR_VERSION and both versions in the
 * message.
 */
QUIRE_API int32_t quire_abi_check(int32_t major, int32_t minor, quire_error** error);

#ifdef __cplusplus
}
#endif

#endif /* QUIRE_VERSION_H */
