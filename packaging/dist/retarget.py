"""Makes an assembly that was compiled against the assemblies of a runtime usable by a compiler.

Such an assembly refers to System.Private.CoreLib, which the reference assemblies of an SDK do not have, and a program
that uses it would not compile. Here these references become references to netstandard 2.1, which every SDK and runtime
has and which forwards each type to its place. Without an SDK there are no reference assemblies to compile against.

Only rows of the table AssemblyRef change. The assembly has the text "netstandard" because SOURCE declares a class of
that name, and the token because it refers to System.Text.Json, which has the same."""
import re
import struct

SOURCE = "internal static class netstandard { } // its name is needed in the assembly: packaging/dist/retarget.py\n"
TOKEN = bytes.fromhex("cc7b13ffcd2ddd51")  # of netstandard
VERSION = (2, 1, 0, 0)


def _heap(image, name):
    """Returns the position of a heap of the metadata (ECMA-335, II.24.2)."""
    root = image.index(b"BSJB")
    position = root + 16 + struct.unpack_from("<I", image, root + 12)[0]
    count = struct.unpack_from("<H", image, position + 2)[0]
    position += 4
    for _ in range(count):
        end = image.index(0, position + 8)
        if image[position + 8:end] == name:
            return root + struct.unpack_from("<I", image, position)[0]
        position += 8 + (end - position - 8 + 4) // 4 * 4
    raise ValueError(f"the assembly has no heap {name.decode()}")


def _row(name):
    """Returns a pattern of the row of AssemblyRef with this name: version, flags, token, name, culture and hash. In a
    small assembly an index has two bytes."""
    return re.compile(b"(?s).{8}" + re.escape(bytes(4)) + b".{2}" + re.escape(struct.pack("<H", name) + bytes(4)))


def to_netstandard(image):
    """Returns the assembly with its references to System.Private.* replaced."""
    made = bytearray(image)
    strings, blobs = _heap(image, b"#Strings"), _heap(image, b"#Blob")
    name, token = image.index(b"\0netstandard\0", strings) + 1, image.index(b"\x08" + TOKEN, blobs)
    private = [match.start() + 1 for match in re.finditer(rb"\0System\.Private\.\w+(?:\.\w+)*(?=\0)", image[strings:blobs])]
    for old in private:
        rows = list(_row(old).finditer(image[:strings]))
        if len(rows) != 1:
            raise ValueError(f"{len(rows)} rows refer to the assembly at {old}, instead of one")
        made[rows[0].start():rows[0].end()] = struct.pack("<4HIHHHH", *VERSION, 0, token - blobs, name - strings, 0, 0)
    return bytes(made)
