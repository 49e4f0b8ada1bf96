"""What a program or library needs of its system, read from its headers."""

from __future__ import annotations

import hashlib
import struct
from pathlib import Path
from typing import NamedTuple


class MachO(NamedTuple):
    """A 64-bit file of macOS."""

    processor: str
    kind: str
    lowest_system: tuple[int, int]
    libraries: list[str]
    signed: bool  # and as it was signed

    @classmethod
    def read(cls, path: Path) -> MachO:
        data = path.read_bytes()
        magic, processor, _, kind, commands, _, _, _ = struct.unpack_from("<8I", data)
        assert magic == 0xFEEDFACF, "is not a 64-bit Mach-O file"
        lowest, libraries, signed, at = (0, 0), [], False, 32
        for _ in range(commands):
            command, size = struct.unpack_from("<2I", data, at)
            if command & 0x7FFFFFFF in (0xC, 0x18, 0x1F):  # LC_LOAD_DYLIB, LC_LOAD_WEAK_DYLIB, LC_REEXPORT_DYLIB
                (name,) = struct.unpack_from("<I", data, at + 8)
                libraries.append(data[at + name : at + size].split(b"\0")[0].decode())
            elif command == 0x32:  # LC_BUILD_VERSION
                platform, version = struct.unpack_from("<2I", data, at + 8)
                assert platform == 1, "is not for macOS"
                lowest = (version >> 16, version >> 8 & 0xFF)
            elif command == 0x1D:  # LC_CODE_SIGNATURE
                signed = _holds(data, *struct.unpack_from("<2I", data, at + 8))
            at += size
        processors = {0x01000007: "x86_64", 0x0100000C: "arm64"}
        return cls(processors[processor], {2: "program", 6: "library", 8: "module"}[kind], lowest, libraries, signed)


def _holds(data: bytes, offset: int, length: int) -> bool:
    """Whether the hashes of all pages in a signature, which is the end of a file, are those of the pages."""
    assert offset + length == len(data)
    directory = offset + struct.unpack_from(">I", data, offset + 16)[0]
    hashes, _, _, count, limit = struct.unpack_from(">5I", data, directory + 16)
    size, kind, _, page = struct.unpack_from(">4B", data, directory + 36)
    assert (size, kind, limit) == (32, 2, offset)  # SHA-256 of everything before the signature
    digests = b"".join(hashlib.sha256(data[at : min(at + (1 << page), limit)]).digest() for at in range(0, limit, 1 << page))
    return data[directory + hashes :][: count * size] == digests


def needed_by_elf(path: Path) -> tuple[set[str], tuple[int, ...]]:
    """The libraries that a file of Linux needs, and the newest version of glibc among its symbols."""
    data = path.read_bytes()
    assert data[:6] == b"\x7fELF\x02\x01", "is not a 64-bit ELF file"
    (headers,) = struct.unpack_from("<Q", data, 40)
    size, count, _ = struct.unpack_from("<3H", data, 58)
    sections = [struct.unpack_from("<2I4Q2I2Q", data, headers + i * size) for i in range(count)]

    def text(section: int, offset: int) -> str:
        start = sections[section][4] + offset
        return data[start : data.index(b"\0", start)].decode()

    libraries, newest = set(), (0,)
    for _, kind, _, _, offset, length, link, number, _, _ in sections:
        if kind == 6:  # SHT_DYNAMIC
            entries = struct.iter_unpack("<2Q", data[offset : offset + length])
            libraries |= {text(link, value) for tag, value in entries if tag == 1}  # DT_NEEDED
        elif kind == 0x6FFFFFFE:  # SHT_GNU_verneed
            at = offset
            for _ in range(number):
                _, versions, _, first, following = struct.unpack_from("<2H3I", data, at)
                version = at + first
                for _ in range(versions):
                    _, _, _, name, after = struct.unpack_from("<I2H2I", data, version)
                    kind_, _, digits = text(link, name).partition("_")
                    if kind_ == "GLIBC":
                        newest = max(newest, tuple(map(int, digits.split("."))))
                    version += after
                at += following
    return libraries, newest


def needed_by_windows(path: Path) -> set[str]:
    """The libraries that a file of Windows imports."""
    data = path.read_bytes()
    (pe,) = struct.unpack_from("<I", data, 60)
    assert data[pe : pe + 4] == b"PE\0\0", "is not a file of Windows"
    sections, optional = struct.unpack_from("<H", data, pe + 6)[0], struct.unpack_from("<H", data, pe + 20)[0]
    (imports,) = struct.unpack_from("<I", data, pe + 24 + 112 + 8)  # of 64-bit files
    tables = [struct.unpack_from("<4I", data, pe + 24 + optional + 40 * i + 8) for i in range(sections)]

    def offset(address: int) -> int:
        return next(raw + address - start for size, start, _, raw in tables if start <= address < start + size)

    found, at = set(), offset(imports)
    while name := struct.unpack_from("<I", data, at + 12)[0]:
        start = offset(name)
        found.add(data[start : data.index(b"\0", start)].decode().lower())
        at += 20
    return found
