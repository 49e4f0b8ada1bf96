"""Archives whose bytes depend on their contents alone: sorted, with one time for all files and without owners."""

from __future__ import annotations

import gzip
import io
import tarfile
import zipfile
from collections.abc import Mapping
from pathlib import Path

TIME = (1980, 1, 1, 0, 0, 0)  # the first that a zip archive has
SECONDS = 315532800

Entry = bytes | Path  # contents, or a link to this


def read_tree(folder: Path) -> dict[str, tuple[Entry, bool]]:
    """The files and links below a folder: contents, and whether they can be run."""
    found: dict[str, tuple[Entry, bool]] = {}
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        if path.is_symlink():
            found[name] = (path.readlink(), False)
        elif path.is_file():
            found[name] = (path.read_bytes(), bool(path.stat().st_mode & 0o100))
    return found


def zipped(files: Mapping[str, tuple[bytes, bool]]) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for name, (contents, runs) in files.items():
            info = zipfile.ZipInfo(name, TIME)
            info.compress_type = zipfile.ZIP_DEFLATED
            info.create_system = 3  # permissions of Unix
            info.external_attr = (0o100755 if runs else 0o100644) << 16
            archive.writestr(info, contents, compresslevel=9)
    return out.getvalue()


def tarred(files: Mapping[str, tuple[Entry, bool]], prefix: str = "") -> bytes:
    """A .tar.gz, with the folders that its files are in."""
    plain = io.BytesIO()
    with tarfile.open(fileobj=plain, mode="w", format=tarfile.GNU_FORMAT) as archive:
        folders = {parent.as_posix() for name in files for parent in Path(name).parents} - {"."}
        for name in sorted(folders | set(files)):
            info = tarfile.TarInfo(prefix + name)
            info.mtime, info.uname, info.gname = SECONDS, "root", "root"
            if name not in files:
                info.type, info.mode = tarfile.DIRTYPE, 0o755
                archive.addfile(info)
                continue
            contents, runs = files[name]
            if isinstance(contents, Path):
                info.type, info.linkname, info.mode = tarfile.SYMTYPE, contents.as_posix(), 0o777
                archive.addfile(info)
            else:
                info.size, info.mode = len(contents), 0o755 if runs else 0o644
                archive.addfile(info, io.BytesIO(contents))
    return gzip.compress(plain.getvalue(), compresslevel=9, mtime=0)


def debian_package(control: str, files: Mapping[str, tuple[Entry, bool]]) -> bytes:
    """A .deb: an ar archive of a version and two tar archives."""
    members = {
        "debian-binary": b"2.0\n",
        "control.tar.gz": tarred({"control": (control.encode(), False)}, "./"),
        "data.tar.gz": tarred(files, "./"),
    }
    out = b"!<arch>\n"
    for name, contents in members.items():
        out += f"{name:<16}{SECONDS:<12}{0:<6}{0:<6}{'100644':<8}{len(contents):<10}`\n".encode() + contents
        out += b"\n" * (len(contents) % 2)
    return out
