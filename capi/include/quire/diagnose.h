/*
 * Report about this machine and what the library found on it. Attach it to bug reports.
 */
#ifndef QUIRE_DIAGNOSE_H
#define QUIRE_DIAGNOSE_H

#include <quire/base.h>

/* Formats of the report. */
#define QUIRE_DIAGNOSE_TEXT 0 /* lines of text for a person */
#define QUIRE_DIAGNOSE_JSON 1 /* one JSON object */

#ifdef __cplusplus
extern "C" {
#endif

/**
 * Writes a report to out_text: the version, the CPU and the instruction sets in use, each backend with its
 * devices or the reason why it cannot be used, and the number of live handles of each type. Needs no
 * runtime and changes nothing. Returns its length in bytes (base.h, Results), or -1 on failure. Two reports
 * may differ in length: pass a larger buffer than the queried size. Fails with QUIRE_ERROR_INVALID_ARGUMENT
 * for an unknown format.
 */
QUIRE_API int64_t quire_diagnose(int32_t format, char* out_text, size_t out_capacity, quire_error** error);

#ifdef __cplusplus
}
#endif

#endif /* QUIRE_DIAGNOSE_H */
