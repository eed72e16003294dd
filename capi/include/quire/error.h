/*
 * Errors: a code that a program can act on, and one line of text for a person.
 *
 * The failing call creates the error object, and the caller owns it. It never changes, so any number of
 * threads may read it. The message is borrowed: do not free the error while another thread reads its
 * message. The message names the parameter, file, field or tensor at fault and the way out. It never
 * contains prompt text or addresses. Creating an error cannot fail: if there is no memory for it, the
 * caller gets a static QUIRE_ERROR_OUT_OF_MEMORY error.
 */
#ifndef QUIRE_ERROR_H
#define QUIRE_ERROR_H

#include <quire/base.h>

#define QUIRE_ERROR_OK 0               /* nothing failed */
#define QUIRE_ERROR_INVALID_ARGUMENT 1 /* a parameter is invalid; the message names it and its range */
#define QUIRE_ERROR_BAD_HANDLE 2       /* a handle is freed, foreign or of another type */
#define QUIRE_ERROR_OUT_OF_MEMORY 3    /* host or device memory ran out; message: bytes needed and free */
#define QUIRE_ERROR_NOT_FOUND 4        /* a file, device or id does not exist */
#define QUIRE_ERROR_IO 5               /* the operating system refused a read or a write */
#define QUIRE_ERROR_FORMAT 6           /* a file or input is malformed */
#define QUIRE_ERROR_TRUNCATED 7        /* a file is shorter than its header declares */
#define QUIRE_ERROR_UNSUPPORTED 8      /* well-formed, but not supported by this library */
#define QUIRE_ERROR_CAPACITY 9         /* a limit is reached now; a later try may succeed */
#define QUIRE_ERROR_CANCELLED 10       /* the wait or load was cancelled (cancel.h) */
#define QUIRE_ERROR_TIMEOUT 11         /* a timeout passed */
#define QUIRE_ERROR_CLOSED 12          /* the object was closed, perhaps while the call waited */
#define QUIRE_ERROR_ENCODING 13        /* text is not UTF-8; the message has the byte offset */
#define QUIRE_ERROR_NUMERIC 14         /* NaN or infinity instead of a finite number */
#define QUIRE_ERROR_DEVICE_LOST 15     /* a device failed; all work on it has ended, freeing still works */
#define QUIRE_ERROR_DEADLINE 16        /* a deadline of the job passed; a later try may succeed */
#define QUIRE_ERROR_FORKED 17          /* called in a child of fork() */
#define QUIRE_ERROR_VERSION 18         /* the caller was compiled against an incompatible header */
#define QUIRE_ERROR_INTERNAL 19        /* a defect of the library */
#define QUIRE_ERROR_REENTRANT 20       /* called from a callback that does not allow it */
#define QUIRE_ERROR_QUOTA 21           /* the quota of a namespace is used up; a later try may succeed */
#define QUIRE_ERROR_TOO_LARGE 22       /* can never fit into the cache or the quota of its namespace */
#define QUIRE_ERROR_SLOW_READER 23     /* the events of the job were not taken in time (QUIRE_EVENTS_END) */
#define QUIRE_ERROR_DEADLINE_TOO_SHORT 24 /* no similar job has ever been fast enough for the deadline */

#ifdef __cplusplus
extern "C" {
#endif

/**
 * Returns the QUIRE_ERROR_* code. Returns QUIRE_ERROR_OK for NULL and QUIRE_ERROR_BAD_HANDLE for a handle
 * that is no live error.
 */
QUIRE_API int32_t quire_error_code(quire_error* error);

/**
 * Returns the message: one line of UTF-8, zero-terminated, borrowed until the error is freed. If out_len is
 * not NULL, *out_len receives the length in bytes. Never returns NULL: the message is empty for NULL, and a
 * fixed sentence for a handle that is no live error.
 */
QUIRE_API const char* quire_error_message(quire_error* error, size_t* out_len);

/**
 * Returns the name of the parameter at fault: for a setter the name of its setting ("temperature" of
 * quire_job_request_set_temperature), otherwise the name of the argument. An error of a submitted request
 * names the setting. The name is "messages" for quire_job_request_add_messages, and "schema", "pattern",
 * "choice" or "grammar" for the source of a constraint. Zero-terminated; *out_len, if out_len is not NULL,
 * receives its length in bytes. Borrowed until the error is freed. Never NULL: empty if the error is not
 * about one parameter, for NULL, and for a handle that is no live error.
 */
QUIRE_API const char* quire_error_parameter(quire_error* error, size_t* out_len);

/**
 * Returns 1 if the same call may succeed later without any change by the caller, otherwise 0. Also returns
 * 0 for NULL and for a handle that is no live error.
 */
QUIRE_API int32_t quire_error_is_retryable(quire_error* error);

/**
 * Returns the nanoseconds to wait before another try, as far as the library can estimate them. Returns -1
 * if it has no estimate, for NULL, and for a handle that is no live error.
 */
QUIRE_API int64_t quire_error_retry_after_ns(quire_error* error);

/** Frees an error. NULL does nothing. Returns 1, or 0 if the handle is no live error. */
QUIRE_API int32_t quire_error_free(quire_error* handle);

/**
 * Returns the name of a code for scripts, such as "invalid_argument", zero-terminated. Returns "unknown"
 * for a number that is no code. The string is static and never freed. Cannot fail.
 */
QUIRE_API const char* quire_error_code_name(int32_t code);

#ifdef __cplusplus
}
#endif

#endif /* QUIRE_ERROR_H */
