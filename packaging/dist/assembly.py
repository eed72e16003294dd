"""A .NET assembly without what differs from one compilation to the next: mcs writes the time into the header, and a
random number as the identity of the module."""
import hashlib
import struct


def _section_offset(image, pe, address):
    """Where a virtual address lies in the file."""
    sections, = struct.unpack_from("<H", image, pe + 6)
    optional, = struct.unpack_from("<H", image, pe + 20)
    for index in range(sections):
        virtual_size, start, size, offset = struct.unpack_from("<4I", image, pe + 24 + optional + 40 * index + 8)
        if start <= address < start + max(virtual_size, size):
            return offset + address - start
    raise SystemExit("dist: the assembly has no section for its metadata")


def _guid_offset(image, metadata):
    """Where the heap of GUIDs begins; its first is the module's."""
    version_length, = struct.unpack_from("<I", image, metadata + 12)
    streams, = struct.unpack_from("<H", image, metadata + 16 + version_length + 2)
    position = metadata + 16 + version_length + 4
    for _ in range(streams):
        offset, _ = struct.unpack_from("<2I", image, position)
        end = image.index(b"\0", position + 8)
        if image[position + 8:end] == b"#GUID":
            return metadata + offset
        position += 8 + (end - position - 8) // 4 * 4 + 4
    raise SystemExit("dist: the assembly has no heap of GUIDs")


def settle(content):
    """The same assembly, with the time 0 and an identity that comes from all its other bytes."""
    image = bytearray(content)
    pe, = struct.unpack_from("<I", image, 0x3C)
    if image[:2] != b"MZ" or image[pe:pe + 4] != b"PE\0\0":
        raise SystemExit("dist: this is no assembly")
    directories = pe + 24 + (96 if image[pe + 24:pe + 26] == b"\x0b\x01" else 112)
    cli_address, = struct.unpack_from("<I", image, directories + 14 * 8)
    cli = _section_offset(image, pe, cli_address)
    metadata_address, = struct.unpack_from("<I", image, cli + 8)
    guid = _guid_offset(image, _section_offset(image, pe, metadata_address))
    struct.pack_into("<I", image, pe + 8, 0)
    image[guid:guid + 16] = bytes(16)
    image[guid:guid + 16] = hashlib.sha256(image).digest()[:16]
    return bytes(image)
