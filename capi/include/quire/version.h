/*
 * Which library this is, and whether it fits the header that the caller was compiled with.
 *
 * A caller, a language binding above all, calls quire_abi_check(QUIRE_ABI_MAJOR, QUIRE_ABI_MINOR, &error)
 * before anything else. What the numbers promise is written in docs/api-stability.md.
 */
#ifndef QUIRE_VERSION_H
#define QUIRE_VERSION_H

#include <quire/base.h>

/* Version of this header, and the same as text. */
#define QUIRE_VERSION_MAJOR 0        /* a caller has to change */
#define QUIRE_VERSION_MINOR 1        /* something is new, or while the major number is 0, changed */
#define QUIRE_VERSION_PATCH 0        /* something is mended */
#define QUIRE_VERSION_STRING "0.1.0" /* the three, with dots */

/* Version of the binary interface. The major number changes when something that was there changes or goes;
 * the minor number when something is added, and while the major number is 0 also when something changes or
 * goes. The SONAME has the major number, and while that is 0 the minor number too. */
#define QUIRE_ABI_MAJOR 0 /* a caller has to be compiled anew */
#define QUIRE_ABI_MINOR 1 /* there is more; while the major number is 0, as the major number */

#ifdef __cplusplus
extern "C" {
#endif

/**
 * Version of the library that is loaded, such as "0.1.0", zero-terminated. Static: never freed. Cannot fail.
 */
QUIRE_API const char* quire_version_string(void);

/**
 * Whether a caller compiled against binary interface major.minor can use this library: the major numbers are
 * equal, and the library's minor number is not smaller; while the major number is 0, it is equal. Returns 1,
 * or 0 with QUIRE_ERROR_VERSION and both versions in the message.
 */
QUIRE_API int32_t quire_abi_check(int32_t major, int32_t minor, quire_error** error);

#ifdef __cplusplus
}
#endif

#endif /* QUIRE_VERSION_H */
