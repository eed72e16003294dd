/*
 * Why a call failed: a code that a program can act on, and one line of text for a person.
 *
 * An error object is made by the failing call and owned by the caller. It never changes, so any number of
 * threads may read it; freeing it while another thread reads its message is the caller's mistake to avoid,
 * since the message is borrowed. The message names the parameter, file, field or tensor at fault and the way
 * out; it never holds prompt text or addresses. Making an error cannot fail: where there is no memory for it
 * the caller gets a ready-made QUIRE_ERROR_OUT_OF_MEMORY.
 */
#ifndef QUIRE_ERROR_H
#define QUIRE_ERROR_H

#include <quire/base.h>

#define QUIRE_ERROR_OK 0               /* nothing failed */
#define QUIRE_ERROR_INVALID_ARGUMENT 1 /* a parameter; the message names it and its range */
#define QUIRE_ERROR_BAD_HANDLE 2       /* a handle that is freed, foreign, or of another type */
#define QUIRE_ERROR_OUT_OF_MEMORY 3    /* of host or device; the message has bytes needed and free */
#define QUIRE_ERROR_NOT_FOUND 4        /* a file, device or id that does not exist */
#define QUIRE_ERROR_IO 5               /* the operating system refused a read or a write */
#define QUIRE_ERROR_FORMAT 6           /* a file is malformed */
#define QUIRE_ERROR_TRUNCATED 7        /* a file is shorter than its header says */
#define QUIRE_ERROR_UNSUPPORTED 8      /* well-formed, but not something this library can do */
#define QUIRE_ERROR_CAPACITY 9         /* there is no room now, and later there may be */
#define QUIRE_ERROR_CANCELLED 10       /* a quire_cancel was triggered */
#define QUIRE_ERROR_TIMEOUT 11         /* a timeout passed */
#define QUIRE_ERROR_CLOSED 12          /* the object was closed, perhaps while the call waited */
#define QUIRE_ERROR_ENCODING 13        /* text that is not UTF-8; the message has the byte offset */
#define QUIRE_ERROR_NUMERIC 14         /* NaN or infinity where a number was needed */
#define QUIRE_ERROR_DEVICE_LOST 15     /* a device failed; everything on it is over, freeing still works */
#define QUIRE_ERROR_DEADLINE 16        /* a deadline of the job passed; at another time it may not */
#define QUIRE_ERROR_FORKED 17          /* called in a child of fork() */
#define QUIRE_ERROR_VERSION 18         /* the caller was compiled against an incompatible header */
#define QUIRE_ERROR_INTERNAL 19        /* a defect of the library */
#define QUIRE_ERROR_REENTRANT 20       /* called from a callback that does not allow it */
#define QUIRE_ERROR_QUOTA 21           /* the share of a namespace is used up now, and later it may not be */
#define QUIRE_ERROR_TOO_LARGE 22       /* it can never fit, into the cache or the quota of its namespace */
#define QUIRE_ERROR_SLOW_READER 23     /* nobody took the events of the job (QUIRE_EVENTS_END) */
#define QUIRE_ERROR_DEADLINE_TOO_SHORT 24 /* no job like this has ever been as fast as the deadline asks */

#ifdef __cplusplus
extern "C" {
#endif

/** The QUIRE_ERROR_* code. QUIRE_ERROR_OK for NULL, QUIRE_ERROR_BAD_HANDLE for what is no live error. */
QUIRE_API int32_t quire_error_code(quire_error* error);

/**
 * The message: one line of UTF-8, zero-terminated too. *out_len, where out_len is not NULL, receives its
 * length in bytes. Borrowed until the error is freed. Never NULL: empty for NULL, a fixed sentence for what
 * is no live error.
 */
QUIRE_API const char* quire_error_message(quire_error* error, size_t* out_len);

/**
 * Returns the name of the parameter at fault: for a setter the name of its setting ("temperature" of
 * quire_job_request_set_temperature), otherwise the name of the argument. An error of a submitted request
 * names the setting. The name is "messages" for quire_job_request_add_messages, and "schema", "pattern",
 * "choice" or "grammar" for the source of a constraint. Zero-terminated; *out_len, if out_len is not NULL,
 * receives its length in bytes. Borrowed until the error is freed. Never NULL: empty if the error is not
 * about one parameter, for NULL, and for what is no live error.
 */
QUIRE_API const char* quire_error_parameter(quire_error* error, size_t* out_len);

/**
 * Whether the same call may succeed later though the caller changes nothing: 1 or 0. 0 for NULL and for what
 * is no live error.
 */
QUIRE_API int32_t quire_error_is_retryable(quire_error* error);

/**
 * After how many nanoseconds another try is worth it, as far as the library can tell; -1 where it cannot, for
 * NULL, and for what is no live error.
 */
QUIRE_API int64_t quire_error_retry_after_ns(quire_error* error);

/** Frees an error. NULL does nothing. Returns 1, or 0 where the handle is no live error. */
QUIRE_API int32_t quire_error_free(quire_error* handle);

/**
 * The name of a code that a script can match, such as "invalid_argument", zero-terminated; "unknown" for a
 * number that is no code. Static: never freed. Cannot fail.
 */
QUIRE_API const char* quire_error_code_name(int32_t code);

#ifdef __cplusplus
}
#endif

#endif /* QUIRE_ERROR_H */
