using System;

// Attributes that compilers with nullable references write and read (docs/adr/0008). mcs does not support
// them, so they are written by hand. 1 means never null, 2 may be null; for generic types the bytes go from
// the outside to the inside.
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
