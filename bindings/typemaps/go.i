/*
 * Go: handles are distinct integer types; text and arrays are slices that are passed without a copy. An error
 * object is stored in the *ErrorHandle that the caller passes. It may be read by a later call, since it
 * belongs to the call and not to a thread.
 */

/* A handle is a number, not an address, so the garbage collector sees an integer. */
%define QUIRE_HANDLE(TYPE, NAME)
%insert(go_wrapper) %{
// NAME is the handle of a TYPE; 0 means none.
type NAME uintptr
%}
%typemap(gotype) TYPE * "NAME"
%typemap(imtype) TYPE * "uintptr"
%typemap(goin) TYPE * "$result = uintptr($input)"
%typemap(in) TYPE * %{ $1 = (TYPE *)(uintptr_t)$input; %}
%typemap(out) TYPE * %{ $result = $1; %}
%typemap(goout) TYPE * "$result = NAME($1)"
%enddef
%define QUIRE_SNAPSHOT(TYPE, NAME)
QUIRE_HANDLE(TYPE, NAME)
%enddef

%typemap(gotype) quire_error **error "*ErrorHandle"
%typemap(in) quire_error **error %{ $1 = (quire_error **)$input; %}

%define QUIRE_SLICE(POINTER, LENGTH, CTYPE, GOTYPE)
%typemap(gotype) (POINTER, LENGTH) "[]GOTYPE"
%typemap(in) (POINTER, LENGTH) %{ $1 = (CTYPE *)$input.array; $2 = (size_t)$input.len; %}
%typemap(argout) (POINTER, LENGTH) ""
%enddef

%typemap(gotype) (const char *text, size_t text_len) "string"
%typemap(imtype) (const char *text, size_t text_len) "string"
%typemap(goin) (const char *text, size_t text_len) "$result = $input"
%typemap(in) (const char *text, size_t text_len) %{ $1 = $input.p; $2 = (size_t)$input.n; %}
%typemap(argout) (const char *text, size_t text_len) ""
QUIRE_SLICE(const int32_t *tokens, size_t num_tokens, int32_t, int32)
QUIRE_SLICE(char *out_text, size_t out_capacity, char, byte)
QUIRE_SLICE(uint8_t *out_bytes, size_t out_capacity, uint8_t, byte)
QUIRE_SLICE(int32_t *out_tokens, size_t out_capacity, int32_t, int32)
QUIRE_SLICE(int64_t *out_sizes, size_t out_capacity, int64_t, int64)
QUIRE_SLICE(int64_t *out_counts, size_t out_capacity, int64_t, int64)
QUIRE_SLICE(float *out_values, size_t out_capacity, float, float32)
/* A handle in C has the width of its integer type in Go. */
QUIRE_SLICE(quire_job **out_jobs, size_t num_jobs, quire_job *, JobHandle)
QUIRE_SLICE(quire_event **out_events, size_t max_events, quire_event *, EventHandle)

QUIRE_SLICE(int64_t *out_ids, size_t max_ids, int64_t, int64)

/* Progress callback of a load: the number of a Progress (told.go), or 0 for none. */
%{
extern void quireGoProgress(uintptr_t progress, int64_t done_bytes, int64_t total_bytes);
static void quire_go_progress(void *user_data, int64_t done_bytes, int64_t total_bytes) {
  quireGoProgress((uintptr_t)user_data, done_bytes, total_bytes);
}
%}
%typemap(gotype) (quire_progress_fn progress, void *user_data) "uintptr"
%typemap(in) (quire_progress_fn progress, void *user_data) %{
  $2 = (void *)(uintptr_t)$input;
  $1 = $2 == NULL ? NULL : quire_go_progress;
%}

/* Integers keep their width. */
%typemap(gotype) int, int32_t "int32"
%typemap(gotype) int64_t "int64"
%typemap(gotype) uint64_t "uint64"
%typemap(gotype) uint8_t "byte"

/* Borrowed text: the wrapper passes its address and length, and Go copies it once. The length comes from
 * the function if it reports one, since a zero byte is data. */
%go_import("strings")
%typemap(gotype) const char * "string"
%typemap(imtype) const char * "string"
%typemap(out) const char * %{
  $result.p = (char *)$1;
  $result.n = $1 == NULL ? 0 : (intgo)strlen($1);
%}
%typemap(goout) const char * "$result = strings.Clone($1)"
%typemap(in, numinputs=0) size_t *out_len (size_t length) %{ length = 0; $1 = &length; %}
%typemap(argout) size_t *out_len %{ if (_swig_go_result.p != NULL) _swig_go_result.n = (intgo)*$1; %}
