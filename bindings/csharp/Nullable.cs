using System;

// What compilers that know nullable references write for them, and read (docs/adr/0008): mcs does not know them, and lets
// us write it. 1 is never null, 2 may be; of a generic type the bytes go from the outside to the inside.
namespace System.Runtime.CompilerServices
{
    internal sealed class NullableContextAttribute : Attribute
    {
        public readonly byte Flag;

        public NullableContextAttribute(byte flag)
        {
            Flag = flag;
        }
    }

    internal sealed class NullableAttribute : Attribute
    {
        public readonly byte[] NullableFlags;

        public NullableAttribute(byte flag) : this(new[] { flag }) { }

        public NullableAttribute(byte[] flags)
        {
            NullableFlags = flags;
        }
    }
}
