using System;
using System.Text;
using Quire.Native;

namespace Quire
{
    /// <summary>Why a call failed; the numbers of the C interface (quire/error.h).</summary>
    public enum ErrorCode
    {
        Ok = QuireNative.QUIRE_ERROR_OK,
        InvalidArgument = QuireNative.QUIRE_ERROR_INVALID_ARGUMENT,
        BadHandle = QuireNative.QUIRE_ERROR_BAD_HANDLE,
        OutOfMemory = QuireNative.QUIRE_ERROR_OUT_OF_MEMORY,
        NotFound = QuireNative.QUIRE_ERROR_NOT_FOUND,
        IO = QuireNative.QUIRE_ERROR_IO,
        Format = QuireNative.QUIRE_ERROR_FORMAT,
        Truncated = QuireNative.QUIRE_ERROR_TRUNCATED,
        Unsupported = QuireNative.QUIRE_ERROR_UNSUPPORTED,
        Capacity = QuireNative.QUIRE_ERROR_CAPACITY,
        Cancelled = QuireNative.QUIRE_ERROR_CANCELLED,
        Timeout = QuireNative.QUIRE_ERROR_TIMEOUT,
        Closed = QuireNative.QUIRE_ERROR_CLOSED,
        Encoding = QuireNative.QUIRE_ERROR_ENCODING,
        Numeric = QuireNative.QUIRE_ERROR_NUMERIC,
        DeviceLost = QuireNative.QUIRE_ERROR_DEVICE_LOST,
        Deadline = QuireNative.QUIRE_ERROR_DEADLINE,
        Forked = QuireNative.QUIRE_ERROR_FORKED,
        Version = QuireNative.QUIRE_ERROR_VERSION,
        Internal = QuireNative.QUIRE_ERROR_INTERNAL,
        Reentrant = QuireNative.QUIRE_ERROR_REENTRANT,
        Quota = QuireNative.QUIRE_ERROR_QUOTA,

        /// <summary>It can never fit.</summary>
        TooLarge = QuireNative.QUIRE_ERROR_TOO_LARGE,

        SlowReader = QuireNative.QUIRE_ERROR_SLOW_READER,
        DeadlineTooShort = QuireNative.QUIRE_ERROR_DEADLINE_TOO_SHORT,
    }

    /// <summary>A call that failed: a code for programs, one line of text for a person.</summary>
    public sealed class QuireException : Exception
    {
        public ErrorCode Code { get; private set; }

        /// <summary>The name of the code that a script can match, such as "invalid_argument".</summary>
        public unsafe string CodeName
        {
            get { return Utf8.String(QuireNative.quire_error_code_name((int)Code)); }
        }

        internal QuireException(ErrorCode code, string message) : base(message)
        {
            Code = code;
        }

        /// <summary>Throws where a call left an error object, and frees it.</summary>
        internal static unsafe void ThrowIf(IntPtr error)
        {
            if (error == IntPtr.Zero) return;
            UIntPtr length;
            byte* message = QuireNative.quire_error_message(error, &length);
            var exception = new QuireException((ErrorCode)QuireNative.quire_error_code(error),
                                               Utf8.String(message, length));
            QuireNative.quire_error_free(error);
            throw exception;
        }
    }

    /// <summary>Text crosses the native boundary as UTF-8; what is no Unicode is refused, never
    /// replaced.</summary>
    internal static unsafe class Utf8
    {
        private static readonly Encoding Strict = new UTF8Encoding(false, true);

        public static byte[] Bytes(string text)
        {
            try
            {
                return Strict.GetBytes(text);
            }
            catch (EncoderFallbackException)
            {
                throw new QuireException(ErrorCode.Encoding, "text: a lone surrogate, which no UTF-8 has");
            }
        }

        /// <summary>Text that ends with a zero byte.</summary>
        public static string String(byte* bytes)
        {
            int length = 0;
            while (bytes[length] != 0) length++;
            return Encoding.UTF8.GetString(bytes, length);
        }

        public static string String(byte* bytes, UIntPtr length)
        {
            return bytes == null || length == UIntPtr.Zero ? "" : Encoding.UTF8.GetString(bytes, checked((int)length));
        }
    }
}
