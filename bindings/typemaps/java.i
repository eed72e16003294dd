/*
 * Java: handles are `long`, text and bytes are byte[], ids are int[]. An error object becomes a
 * QuireException that is thrown when the native call returns.
 */

%javaconst(1);
%pragma(java) moduleclassmodifiers="final class"
%pragma(java) jniclassclassmodifiers="final class"

/* Text is passed as bytes: JNI strings are modified UTF-8, in which an emoji takes six bytes. */
%fragment("quire_bytes", "header") %{
static jbyteArray quire_new_bytes(JNIEnv *env, const char *bytes, size_t length) {
  jbyteArray array = (*env)->NewByteArray(env, (jsize)length);
  if (array != NULL) {
    (*env)->SetByteArrayRegion(env, array, 0, (jsize)length, (const jbyte *)bytes);
  }
  return array;
}
%}

%fragment("quire_throw", "header", fragment="quire_bytes") %{
/* Throws QuireException.of(error, message), and frees the error. */
static void quire_throw(JNIEnv *env, quire_error *error) {
  size_t length = 0;
  const char *message = quire_error_message(error, &length);
  jbyteArray bytes = quire_new_bytes(env, message, length);
  jclass type = bytes == NULL ? NULL : (*env)->FindClass(env, "dev/quire/QuireException");
  jmethodID of = type == NULL ? NULL
      : (*env)->GetStaticMethodID(env, type, "of", "(J[B)Ldev/quire/QuireException;");
  jobject exception = of == NULL ? NULL
      : (*env)->CallStaticObjectMethod(env, type, of, (jlong)(intptr_t)error, bytes);
  quire_error_free(error);
  if (!(*env)->ExceptionCheck(env) && exception != NULL) {
    (*env)->Throw(env, (jthrowable)exception); /* otherwise OutOfMemoryError is pending */
  }
}
%}

%typemap(in, numinputs=0) quire_error **error (quire_error *error = NULL) %{ $1 = &error; %}
%typemap(argout, fragment="quire_throw") quire_error **error {
  if (*$1 != NULL) {
    quire_throw(jenv, *$1); /* no return here: the arrays are released afterwards, which JNI allows */
  }
}

/* Handles. A typemap from a pointer to `long` must not add the parameter that keeps a proxy alive. */
%define QUIRE_HANDLE(TYPE, NAME)
%typemap(jni) TYPE * "jlong"
%typemap(jtype, nopgcpp="1") TYPE * "long"
%typemap(jstype) TYPE * "long"
%typemap(in) TYPE * %{ $1 = (TYPE *)(intptr_t)$input; %}
%typemap(out) TYPE * %{ $result = (jlong)(intptr_t)$1; %}
%typemap(javain) TYPE * "$javainput"
%typemap(javaout) TYPE * { return $jnicall; }
%enddef
%define QUIRE_SNAPSHOT(TYPE, NAME)
QUIRE_HANDLE(TYPE, NAME)
%enddef

/* Progress callback of a load: the number of an entry in ProgressCalls, or 0 for none. */
%{
static JavaVM *quire_java_vm;

JNIEXPORT jint JNICALL JNI_OnLoad(JavaVM *vm, void *reserved) {
  (void)reserved;
  quire_java_vm = vm;
  return JNI_VERSION_1_8;
}

/* Runs on the Java thread that loads. ProgressCalls.tell throws nothing; exceptions of the JVM itself are
 * cleared here. */
static void quire_java_progress(void *user_data, int64_t done_bytes, int64_t total_bytes) {
  JNIEnv *env = NULL;
  if ((*quire_java_vm)->GetEnv(quire_java_vm, (void **)&env, JNI_VERSION_1_8) != JNI_OK) {
    return;
  }
  jclass type = (*env)->FindClass(env, "dev/quire/ProgressCalls");
  jmethodID tell = type == NULL ? NULL : (*env)->GetStaticMethodID(env, type, "tell", "(JJJ)V");
  if (tell != NULL) {
    (*env)->CallStaticVoidMethod(env, type, tell, (jlong)(intptr_t)user_data, (jlong)done_bytes,
                                 (jlong)total_bytes);
  }
  if ((*env)->ExceptionCheck(env)) {
    (*env)->ExceptionClear(env);
  }
  (*env)->DeleteLocalRef(env, type);
}
%}
%typemap(jni) (quire_progress_fn progress, void *user_data) "jlong"
%typemap(jtype) (quire_progress_fn progress, void *user_data) "long"
%typemap(jstype) (quire_progress_fn progress, void *user_data) "long"
%typemap(javain) (quire_progress_fn progress, void *user_data) "$javainput"
%typemap(in) (quire_progress_fn progress, void *user_data) %{
  $2 = (void *)(intptr_t)$input;
  $1 = $2 == NULL ? NULL : quire_java_progress;
%}

/* Integers: Java has no unsigned types; the bits are kept. */
%apply int { int32_t };
%apply long long { int64_t };
%typemap(jni) uint64_t "jlong"
%typemap(jtype) uint64_t "long"
%typemap(jstype) uint64_t "long"
%typemap(in) uint64_t %{ $1 = (uint64_t)$input; %}
%typemap(out) uint64_t %{ $result = (jlong)$1; %}
%typemap(javain) uint64_t "$javainput"
%typemap(javaout) uint64_t { return $jnicall; }

/* Arrays. POINTER and LENGTH are the two parameters; the elements are copied once, in or out. */
%define QUIRE_ARRAY(POINTER, LENGTH, CTYPE, JAVA, JNI, ELEMENT, JNINAME, RELEASE)
%typemap(jni) (POINTER, LENGTH) "JNI"
%typemap(jtype) (POINTER, LENGTH) "JAVA[]"
%typemap(jstype) (POINTER, LENGTH) "JAVA[]"
%typemap(javain) (POINTER, LENGTH) "$javainput"
%typemap(in) (POINTER, LENGTH) (ELEMENT *elements = NULL) {
  if ($input != NULL) {
    elements = (*jenv)->Get##JNINAME##ArrayElements(jenv, $input, NULL);
    if (elements == NULL) return $null;
    $2 = (size_t)(*jenv)->GetArrayLength(jenv, $input);
  } else {
    $2 = 0;
  }
  $1 = (CTYPE *)elements;
}
%typemap(freearg) (POINTER, LENGTH) {
  if (elements$argnum != NULL) (*jenv)->Release##JNINAME##ArrayElements(jenv, $input, elements$argnum, RELEASE);
}
%typemap(argout) (POINTER, LENGTH) ""
%enddef

QUIRE_ARRAY(const char *text, size_t text_len, char, byte, jbyteArray, jbyte, Byte, JNI_ABORT)
QUIRE_ARRAY(const int32_t *tokens, size_t num_tokens, int32_t, int, jintArray, jint, Int, JNI_ABORT)
QUIRE_ARRAY(char *out_text, size_t out_capacity, char, byte, jbyteArray, jbyte, Byte, 0)
QUIRE_ARRAY(uint8_t *out_bytes, size_t out_capacity, uint8_t, byte, jbyteArray, jbyte, Byte, 0)
QUIRE_ARRAY(int32_t *out_tokens, size_t out_capacity, int32_t, int, jintArray, jint, Int, 0)
QUIRE_ARRAY(int64_t *out_sizes, size_t out_capacity, int64_t, long, jlongArray, jlong, Long, 0)
QUIRE_ARRAY(int64_t *out_counts, size_t out_capacity, int64_t, long, jlongArray, jlong, Long, 0)
QUIRE_ARRAY(float *out_values, size_t out_capacity, float, float, jfloatArray, jfloat, Float, 0)
/* A handle is as wide as a jlong: quire_java is built only for 64-bit machines. */
QUIRE_ARRAY(quire_job **out_jobs, size_t num_jobs, quire_job *, long, jlongArray, jlong, Long, 0)
QUIRE_ARRAY(int64_t *out_ids, size_t max_ids, int64_t, long, jlongArray, jlong, Long, 0)
QUIRE_ARRAY(quire_event **out_events, size_t max_events, quire_event *, long, jlongArray, jlong, Long, 0)

/* Borrowed text is copied before the call returns, by its length if the function reports one, otherwise up
 * to its zero byte. quire_event_text, which is called most often, skips the first of the two copies that
 * this makes. */
%typemap(jni) const char * "jbyteArray"
%typemap(jtype) const char * "byte[]"
%typemap(jstype) const char * "byte[]"
%typemap(javaout) const char * { return $jnicall; }
%typemap(out, fragment="quire_bytes") const char * %{
  $result = $1 == NULL ? NULL : quire_new_bytes(jenv, $1, strlen($1));
%}
%typemap(out) const char *quire_event_text "$result = NULL;"
%typemap(in, numinputs=0) size_t *out_len (size_t length = 0) %{ $1 = &length; %}
%typemap(argout, fragment="quire_bytes") size_t *out_len %{
  if (result != NULL) $result = quire_new_bytes(jenv, result, *$1);
%}
