/*
 * C#: the P/Invoke layer is unsafe and internal. Handles are SafeHandles, which the marshaller keeps alive
 * during each call. Snapshots and arguments of free functions are plain IntPtr. The thin layer pins buffers
 * and passes pointers. An error object is returned in an `out IntPtr`.
 */

%pragma(csharp) moduleclassmodifiers="internal static unsafe class"
%pragma(csharp) imclassclassmodifiers="internal static unsafe class"
%csconst(1);

%define QUIRE_SNAPSHOT(TYPE, NAME)
%typemap(ctype) TYPE * "void *"
%typemap(imtype) TYPE * "global::System.IntPtr"
%typemap(cstype) TYPE * "global::System.IntPtr"
%typemap(csin) TYPE * "$csinput"
%typemap(in) TYPE * %{ $1 = (TYPE *)$input; %}
%typemap(out) TYPE * %{ $result = (void *)$1; %}
%typemap(csout) TYPE * { return $imcall; }
%enddef

/* The parameter of a free function is named `handle` and is an IntPtr: the SafeHandle calls it with its
 * own value. */
%define QUIRE_HANDLE(TYPE, NAME)
QUIRE_SNAPSHOT(TYPE, NAME)
%typemap(imtype, out="global::System.IntPtr") TYPE * "global::Quire.Native.NAME"
%typemap(cstype, out="global::System.IntPtr") TYPE * "global::Quire.Native.NAME"
%typemap(imtype) TYPE *handle "global::System.IntPtr"
%typemap(cstype) TYPE *handle "global::System.IntPtr"
%enddef

%typemap(ctype) quire_error **error "quire_error **"
%typemap(imtype) quire_error **error "out global::System.IntPtr"
%typemap(cstype) quire_error **error "out global::System.IntPtr"
%typemap(csin) quire_error **error "out $csinput"
%typemap(in) quire_error **error %{ $1 = $input; %}

/* Pointers into pinned arrays, and lengths at their full width. */
%define QUIRE_POINTER(PARAMETER, CTYPE, CSTYPE)
%typemap(ctype) PARAMETER "void *"
%typemap(imtype) PARAMETER "CSTYPE *"
%typemap(cstype) PARAMETER "CSTYPE *"
%typemap(csin) PARAMETER "$csinput"
%typemap(in) PARAMETER %{ $1 = (CTYPE)$input; %}
%enddef

QUIRE_POINTER(const char *text, char *, byte)
QUIRE_POINTER(const int32_t *tokens, int32_t *, int)
QUIRE_POINTER(char *out_text, char *, byte)
QUIRE_POINTER(uint8_t *out_bytes, uint8_t *, byte)
QUIRE_POINTER(int32_t *out_tokens, int32_t *, int)
QUIRE_POINTER(int64_t *out_sizes, int64_t *, long)
QUIRE_POINTER(int64_t *out_counts, int64_t *, long)
QUIRE_POINTER(int64_t *out_ids, int64_t *, long)
QUIRE_POINTER(float *out_values, float *, float)
QUIRE_POINTER(size_t *out_len, size_t *, global::System.UIntPtr)
QUIRE_POINTER(quire_job **out_jobs, quire_job **, global::System.IntPtr)
QUIRE_POINTER(quire_event **out_events, quire_event **, global::System.IntPtr)

/* Progress callback of a load: a function pointer that Marshal creates from a delegate, which the thin
 * layer keeps alive. */
%define QUIRE_ADDRESS(PARAMETER, CTYPE)
%typemap(ctype) PARAMETER "void *"
%typemap(imtype) PARAMETER "global::System.IntPtr"
%typemap(cstype) PARAMETER "global::System.IntPtr"
%typemap(csin) PARAMETER "$csinput"
%typemap(in) PARAMETER %{ $1 = (CTYPE)$input; %}
%enddef

QUIRE_ADDRESS(quire_progress_fn progress, quire_progress_fn)
QUIRE_ADDRESS(void *user_data, void *)

%typemap(ctype) size_t "size_t"
%typemap(imtype) size_t "global::System.UIntPtr"
%typemap(cstype) size_t "global::System.UIntPtr"
%typemap(csin) size_t "$csinput"
%typemap(in) size_t %{ $1 = $input; %}
%typemap(csout) size_t { return $imcall; }

/* Borrowed text; the thin layer copies it, by address and length. */
%typemap(ctype) const char * "const void *"
%typemap(imtype) const char * "byte *"
%typemap(cstype) const char * "byte *"
%typemap(out) const char * %{ $result = $1; %}
%typemap(csout) const char * { return $imcall; }
