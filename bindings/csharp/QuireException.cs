using System;
using System.Text;
using Quire.Native;

namespace Quire
{
    /// <summary>A failed call: a code for programs, and one line of text for a person. Each code has a class
    /// of its own, such as QuireQuotaException.</summary>
    public partial class QuireException : Exception
    {
        /// <summary>The code that a program can act on.</summary>
        public ErrorCode Code { get; private set; }

        /// <summary>Name of the parameter at fault, as the C interface names it, such as "temperature"; empty if the
        /// error is not about one parameter.</summary>
        public string Parameter { get; private set; } = "";

        /// <summary>True if the same call may succeed later without any change by the caller.</summary>
        public bool IsRetryable { get; private set; }

        /// <summary>The time to wait before another try; null if unknown.</summary>
        public TimeSpan? RetryAfter { get; private set; }

        /// <summary>The name of the code for scripts, such as "invalid_argument".</summary>
        public unsafe string CodeName
        {
            get { return Utf8.String(QuireNative.quire_error_code_name((int)Code)); }
        }

        internal QuireException(ErrorCode code, string message) : base(message)
        {
            Code = code;
        }

        /// <summary>Creates the exception for an argument that the layer itself refuses.</summary>
        internal static QuireException Invalid(string parameter, string message)
        {
            QuireException exception = Of(ErrorCode.InvalidArgument, message);
            exception.Parameter = parameter;
            return exception;
        }

        /// <summary>Throws if a call has returned an error object, and frees it.</summary>
        internal static unsafe void ThrowIf(IntPtr error)
        {
            if (error == IntPtr.Zero) return;
            UIntPtr length;
            byte* message = QuireNative.quire_error_message(error, &length);
            QuireException exception =
                Of((ErrorCode)QuireNative.quire_error_code(error), Utf8.String(message, length));
            byte* parameter = QuireNative.quire_error_parameter(error, &length);
            exception.Parameter = Utf8.String(parameter, length);
            exception.IsRetryable = QuireNative.quire_error_is_retryable(error) == 1;
            long after = QuireNative.quire_error_retry_after_ns(error);
            if (after >= 0) exception.RetryAfter = Call.FromNanoseconds(after);
            QuireNative.quire_error_free(error);
            throw exception;
        }

        /// <summary>Creates the exception for the failure of a job, from its final event.</summary>
        internal static unsafe QuireException OfEvent(IntPtr taken)
        {
            QuireException exception =
                Of((ErrorCode)Call.Get((out IntPtr e) => QuireNative.quire_event_error_code(taken, out e)),
                    Call.Borrow((UIntPtr* size, out IntPtr e) =>
                        QuireNative.quire_event_error_message(taken, size, out e)));
            exception.Parameter = Call.Borrow((UIntPtr* size, out IntPtr e) =>
                QuireNative.quire_event_error_parameter(taken, size, out e));
            return exception;
        }
    }

    /// <summary>Converts text between .NET and UTF-8. Text that is not valid Unicode is refused, never
    /// replaced.</summary>
    internal static unsafe class Utf8
    {
        private static readonly Encoding Strict = new UTF8Encoding(false, true);

        /// <summary>Encodes an argument; a failure contains its name.</summary>
        public static byte[] Bytes(string text, string name = "text")
        {
            Require.NotNull(text, name);
            try
            {
                return Strict.GetBytes(text);
            }
            catch (EncoderFallbackException)
            {
                throw QuireException.Of(ErrorCode.Encoding, name + ": has a lone surrogate, which UTF-8 cannot encode");
            }
        }

        /// <summary>Converts text that ends with a zero byte.</summary>
        public static string String(byte* bytes)
        {
            int length = 0;
            while (bytes[length] != 0) length++;
            return Encoding.UTF8.GetString(bytes, length);
        }

        public static string String(byte* bytes, UIntPtr length) =>
            bytes == null || length == UIntPtr.Zero ? "" : Encoding.UTF8.GetString(bytes, checked((int)length));
    }
}
