"""Zips: honest ones, and those that were made to do harm."""

import hashlib
import io
import stat
import struct
import zipfile


def pack(files: dict[str, bytes | str]) -> bytes:
    """A zip with these files."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return buffer.getvalue()


def skill(files: dict[str, bytes | str]) -> tuple[str, bytes]:
    """A skill's zip behind its version."""
    packed = pack({"SKILL.md": "---\nname: editor\ndescription: Edits nodes.\n---\n"} | files)
    return hashlib.sha256(packed).hexdigest(), packed


def special(name: str, mode: int, content: bytes) -> bytes:
    """A zip with an entry that is no plain file."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        entry = zipfile.ZipInfo(name)
        entry.create_system = 3
        entry.external_attr = mode << 16
        archive.writestr(entry, content)
    return buffer.getvalue()


def bomb(mebibytes: int) -> bytes:
    """A small zip of one file of zeros."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        with archive.open("zeros", "w", force_zip64=True) as entry:
            for _ in range(mebibytes):
                entry.write(bytes(1 << 20))
    return buffer.getvalue()


def liar() -> bytes:
    """A zip whose entry is larger than its headers say."""
    packed = bytearray(pack({"a": b"x" * 100_000}))
    for signature, place in ((b"PK\x03\x04", 22), (b"PK\x01\x02", 24)):
        at = packed.index(signature) + place
        packed[at : at + 4] = struct.pack("<I", 10)
    return bytes(packed)


def twice() -> bytes:
    """A zip with two entries of one name."""
    return pack({"a": "1", "b": "2"}).replace(b"b", b"a")


HOSTILE = {
    "climbing": pack({"../../etc/profile.d/x.sh": "touch /tmp/owned"}),
    "absolute": pack({"/etc/profile.d/x.sh": "touch /tmp/owned"}),
    "backslash": pack({"..\\..\\x": "x"}),
    "link": special("assets", stat.S_IFLNK | 0o777, b"/etc"),
    "device": special("disk", stat.S_IFBLK | 0o666, b""),
    "bomb": bomb(600),
    "liar": liar(),
    "twice": twice(),
    "nonsense": b"PK\x03\x04 and then nothing that could be read",
    "empty": b"",
}
