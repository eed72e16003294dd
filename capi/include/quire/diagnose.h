/*
 * What this machine offers and what the library found: the first thing to attach to a bug report.
 */
#ifndef QUIRE_DIAGNOSE_H
#define QUIRE_DIAGNOSE_H

#include <quire/base.h>

/* Forms of the report. */
#define QUIRE_DIAGNOSE_TEXT 0 /* lines for a person */
#define QUIRE_DIAGNOSE_JSON 1 /* one JSON object */

#ifdef __cplusplus
extern "C" {
#endif

/**
 * Writes a report of the version, the CPU and the instruction sets in use, each backend with its devices or
 * the reason why it cannot be used, and how many handles of each type are alive. Needs no runtime and changes
 * nothing. Returns the bytes of the report (base.h: results), or -1 on failure; QUIRE_ERROR_INVALID_ARGUMENT
 * for an unknown format. Two reports may differ in length: pass room to spare.
 */
QUIRE_API int64_t quire_diagnose(int32_t format, char* out_text, size_t out_capacity, quire_error** error);

#ifdef __cplusplus
}
#endif

#endif /* QUIRE_DIAGNOSE_H */
