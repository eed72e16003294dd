using System;
using System.Collections.Generic;
using System.Linq;
using System.Runtime.InteropServices;

namespace Quire.Native
{
    internal delegate T Caller<T>(out IntPtr error);
    internal unsafe delegate int TextSetter(byte* text, UIntPtr length, out IntPtr error);
    internal unsafe delegate int TokenSetter(int* tokens, UIntPtr length, out IntPtr error);
    internal unsafe delegate byte* Borrower(UIntPtr* length, out IntPtr error);
    internal unsafe delegate long Fetcher(void* values, UIntPtr capacity, out IntPtr error);

    /// <summary>An array that is pinned for native calls that read or write it.</summary>
    internal sealed unsafe class Pinned : IDisposable
    {
        private GCHandle pin;

        public UIntPtr Length { get; private set; }
        public void* Address { get { return (void*)pin.AddrOfPinnedObject(); } }

        public Pinned(Array array)
        {
            pin = GCHandle.Alloc(array, GCHandleType.Pinned);
            Length = (UIntPtr)array.Length;
        }

        public void Dispose() => pin.Free();
    }

    /// <summary>Checks arguments of public methods.</summary>
    internal static class Require
    {
        /// <summary>Returns the value, or throws an exception that names the argument if it is null.</summary>
        public static T NotNull<T>(T value, string name) where T : class
        {
            if (value == null) throw new ArgumentNullException(name);
            return value;
        }
    }

    /// <summary>Helpers for native calls, which throw the error object of a failed call.</summary>
    internal static unsafe class Call
    {
        public static T Get<T>(Caller<T> call)
        {
            IntPtr error;
            T result = call(out error);
            QuireException.ThrowIf(error);
            return result;
        }

        /// <summary>Calls a setter if there is a value.</summary>
        public static void Set<T>(T? value, Func<T, Caller<int>> setter) where T : struct
        {
            if (value.HasValue) Get(setter(value.Value));
        }

        public static void SetText(string text, TextSetter setter)
        {
            if (text == null) return;
            using (var bytes = new Pinned(Utf8.Bytes(text)))
            {
                Get((out IntPtr e) => setter((byte*)bytes.Address, bytes.Length, out e));
            }
        }

        public static void SetTokens(int[] tokens, TokenSetter setter)
        {
            if (tokens == null) return;
            using (var pinned = new Pinned(tokens))
            {
                Get((out IntPtr e) => setter((int*)pinned.Address, pinned.Length, out e));
            }
        }

        /// <summary>Fetches a result of any size: queries the size, allocates memory, and queries again if
        /// the result has grown.</summary>
        public static T[] Fetch<T>(Fetcher call) where T : struct
        {
            var values = new T[0];
            while (true)
            {
                long size;
                using (var pinned = new Pinned(values))
                {
                    size = Get((out IntPtr e) => call(pinned.Address, pinned.Length, out e));
                }
                if (size <= values.Length)
                {
                    Array.Resize(ref values, checked((int)size));
                    return values;
                }
                values = new T[size];
            }
        }

        public static string FetchText(Fetcher call) => System.Text.Encoding.UTF8.GetString(Fetch<byte>(call));

        /// <summary>Copies a borrowed text.</summary>
        public static string Borrow(Borrower call)
        {
            UIntPtr length;
            IntPtr error;
            byte* text = call(&length, out error);
            QuireException.ThrowIf(error);
            return Utf8.String(text, length);
        }

        /// <summary>Reads a list with the length that a call returns.</summary>
        public static IList<T> All<T>(Caller<int> count, Func<int, T> read)
        {
            int n = Get(count);
            var all = new List<T>(n);
            for (int i = 0; i < n; i++) all.Add(read(i));
            return all;
        }

        /// <summary>Returns the common value if there are several keys and all values are equal, otherwise
        /// null.</summary>
        public static T? Shared<K, T>(IDictionary<K, T> values) where T : struct
        {
            return values.Count > 1 && values.Values.Distinct().Count() == 1 ? values.Values.First() : (T?)null;
        }

        public static int? UnlessNegative(int token) => token < 0 ? (int?)null : token;

        /// <summary>Converts a TimeSpan, which counts hundreds of nanoseconds, to nanoseconds. A time too
        /// long for the library becomes its maximum. A negative time means a wait without limit.</summary>
        public static long Nanoseconds(TimeSpan time)
        {
            if (time.Ticks > long.MaxValue / 100) return long.MaxValue;
            return time.Ticks < long.MinValue / 100 ? long.MinValue : time.Ticks * 100;
        }

        public static TimeSpan FromNanoseconds(long nanoseconds) => TimeSpan.FromTicks(nanoseconds / 100);
    }
}
