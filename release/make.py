"""Makes the artifacts of a release in dist/, for all systems, on a Linux machine: `make dist`.

    python -m release.make [TARGET ...]     with the names of release/targets.py, and `package`; all where there are none

What is compiled on the way stays in build-dist/.
"""

from __future__ import annotations

import functools
import hashlib
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

import nanobind
import ziglang

from release import wheel
from release.archives import debian_package, read_tree, tarred
from release.components import bom, components, licenses
from release.targets import TARGETS, Target
from scripts import dependencies

ROOT = Path(__file__).resolve().parents[1]
BUILD = ROOT / "build-dist"
DIST = ROOT / "dist"
LIBRARIES = ROOT / "build-dependencies"
COMPILER = Path(ziglang.__file__).parent
NANOBIND = Path(nanobind.include_dir()).parent
CACHE = {"ZIG_GLOBAL_CACHE_DIR": str(BUILD / "zig-cache"), "ZIG_LOCAL_CACHE_DIR": str(BUILD / "zig-cache")}
VERSION = re.search(r"project\(lithify VERSION ([0-9.]+)", (ROOT / "CMakeLists.txt").read_text())[1]  # type: ignore[index]
PACKAGE = "package"


def run(*command: str | Path, env: dict[str, str] | None = None) -> None:
    print("+", shlex.join(map(str, command)), file=sys.stderr, flush=True)
    subprocess.run(list(map(str, command)), check=True, cwd=ROOT, env=os.environ | (env or {}))


def zig_tools() -> Path:
    """The programs of the compiler, under the names that CMake knows."""
    folder = BUILD / "zig"
    folder.mkdir(parents=True, exist_ok=True)
    for name, command in {"clang": "cc", "clang++": "c++", "ar": "ar", "ranlib": "ranlib"}.items():
        script = folder / name
        text = f'#!/bin/sh\nexec {shlex.quote(str(COMPILER / "zig"))} {command} "$@"\n'
        if not script.exists() or script.read_text() != text:
            script.write_text(text)
            script.chmod(0o755)
    return folder


def configure(build: Path, *options: str) -> None:
    """Of no file is it known where it was compiled, so that all machines make the same bytes."""
    if (build / "build.ninja").exists():
        return
    flags = f"-g0 -ffile-prefix-map={ROOT}=. -ffunction-sections -fdata-sections"
    common = ["-G", "Ninja", f"-DLITHIFY_DEPENDENCIES={LIBRARIES}", "-DLITHIFY_WERROR=OFF", "-DCCACHE=OFF", "-DMOLD=OFF"]
    run("cmake", "-S", ".", "-B", build, *common, f"-DCMAKE_C_FLAGS={flags}", f"-DCMAKE_CXX_FLAGS={flags}", *options)


def configure_for(target: Target, build: Path) -> None:
    configure(
        build,
        f"-DCMAKE_TOOLCHAIN_FILE={ROOT / 'cmake' / 'zig.cmake'}",
        f"-DZIG_TARGET={target.zig}",
        f"-DZIG_TOOLS={zig_tools()}",
        "-DCMAKE_DISABLE_PRECOMPILE_HEADERS=ON",
        "-DLITHIFY_OPTIMIZE=-Os",  # a third smaller than with -O2
        f"-DCMAKE_EXE_LINKER_FLAGS=-s -Wl,{'-dead_strip' if target.is_macos else '--gc-sections'}",
    )


def build(folder: Path, *targets: str) -> None:
    run("ninja", "-C", folder, "-j", os.environ.get("JOBS") or str(os.cpu_count()), *targets, env=CACHE)


def make_program(target: Target) -> Path:
    folder = BUILD / target.name
    configure_for(target, folder)
    build(folder, "lithify")
    built = folder / f"lithify{target.suffix}"
    program = DIST / f"lithify-{VERSION}-{target.name}{target.suffix}"
    shutil.copy(built, program)
    strip(target, program)
    return program


def strip(target: Target, binary: Path) -> None:
    """For macOS, the linker leaves all symbols. The signature is made again, with the name of the file."""
    if target.is_macos:
        run("llvm-strip", *(["-x"] if binary.suffix else []), binary)


# ---- wheels ------------------------------------------------------------------------------------------------------


class Python(NamedTuple):
    """A version of Python whose headers are here."""

    version: tuple[int, int]
    include: Path

    @property
    def tag(self) -> str:
        return f"cp{self.version[0]}{self.version[1]}"

    def suffix(self, target: Target) -> str:
        """Of its modules on Linux."""
        return f".cpython-{self.tag[2:]}-{target.name.removeprefix('linux-')}-linux-gnu.so"


OLDEST, OLDEST_STABLE = (3, 10), (3, 12)  # that the package runs on; whose stable ABI the whole binding can be compiled for


@functools.cache
def pythons() -> list[Python]:
    """Those on the path and of pyenv, by version."""
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    asks = "import sysconfig as s; print(s.get_path('include')); print(s.get_config_var('Py_GIL_DISABLED') or 0)"
    found = []
    for minor in range(OLDEST[1], 20):
        installed = [shutil.which(f"python3.{minor}"), *pyenv.glob(f"versions/3.{minor}.*/bin/python3.{minor}")]
        for program in filter(None, installed):
            done = subprocess.run([program, "-c", asks], capture_output=True, text=True)
            include, free_threaded = done.stdout.splitlines() if done.returncode == 0 else ("", "1")
            if free_threaded == "0" and Path(include, "Python.h").exists():
                found.append(Python((3, minor), Path(include)))
                break
    return found


def compile_module(target: Target, python: Python, name: str, out: Path, *options: str | Path) -> Path:
    """A module of the package from python/bind, with what it needs inside."""
    out.parent.mkdir(parents=True, exist_ok=True)
    system: list[str | Path] = [f"-Wl,--gc-sections,--version-script={ROOT / 'release' / 'module.map'},-z,relro,-z,now"]
    if target.is_windows:
        system = ["-include", ROOT / "release" / "windows" / "pyconfig.h", python_library(target)]
    elif target.is_macos:
        system = ["-Wl,-undefined,dynamic_lookup,-dead_strip"]
    # The headers of the stable ABI lack cstdio, which the binding uses.
    flags = ["-std=c++20", "-O2", "-DNDEBUG", "-fPIC", "-shared", "-s", "-w", "-g0", "-include", "cstdio"]
    flags += ["-fvisibility=hidden", "-fno-strict-aliasing"]
    zig(
        *("c++", "-target", target.zig, *flags, f"-ffile-prefix-map={ROOT}=.", f"-ffile-prefix-map={NANOBIND.parent}=."),
        *(f"-I{folder}" for folder in (ROOT / "include", python.include)),
        *("-o", out, ROOT / "python" / "bind" / f"{name}.cpp", *options, *system),
    )
    strip(target, out)
    return out


def zig(*arguments: str | Path) -> None:
    run(COMPILER / "zig", *arguments, env=CACHE)


def python_library(target: Target) -> Path:
    """What modules for Windows link with: names that python3.dll has."""
    library = BUILD / target.name / "libpython3.a"
    if not library.exists():
        names = sorted(set(re.findall(r"^-U _(\w+)", (NANOBIND / "cmake" / "darwin-ld-cpython.sym").read_text(), re.MULTILINE)))
        definition = library.with_suffix(".def")
        definition.write_text("LIBRARY python3.dll\nEXPORTS\n" + "".join(f"  {name}\n" for name in names))
        zig("dlltool", "-m", "i386:x86-64", "-d", definition, "-l", library)
    return library


def make_wheels(target: Target, program: Path, texts: str) -> None:
    """One for the stable ABI, and for Linux one for each version before it. They need nothing else."""
    folder = BUILD / target.name / "modules"
    binding = [
        f"-I{NANOBIND / 'include'}",
        f"-I{NANOBIND / 'ext' / 'robin_map' / 'include'}",
        NANOBIND / "src" / "nb_combined.cpp",
    ]

    def write(tag: str, suffix: str, group: list[Python], *options: str) -> None:
        library = BUILD / target.name / "liblithify.a"
        modules = [compile_module(target, group[0], "module", folder / f"_core{suffix}", *options, *binding, library)]
        for python in group if target.is_linux else []:  # it needs all headers of the version on that system
            modules.append(compile_module(target, python, "builtins", folder / f"_builtins{python.suffix(target)}"))
        wheel.write(DIST, VERSION, f"{tag}-{target.wheel}", program, {path.name: path for path in modules}, texts)

    stable = [python for python in pythons() if python.version >= OLDEST_STABLE]
    if stable:
        write("cp312-abi3", ".pyd" if target.is_windows else ".abi3.so", stable, "-DPy_LIMITED_API=0x030c0000")
    else:
        print("no headers of Python 3.12 or later: no wheel for the stable ABI", file=sys.stderr)
    for python in pythons():
        if target.is_linux and python not in stable:
            write(f"{python.tag}-{python.tag}", python.suffix(target), [python])


# ---- the package for C and C++ -----------------------------------------------------------------------------------


def make_package() -> None:
    """Headers, libraries and program, as a tarball and for Debian; by this machine's compiler, as programs share its library."""
    folder = BUILD / PACKAGE
    configure(folder)
    build(folder, "lithify", "lithify_shared", "lithify_pages")
    with tempfile.TemporaryDirectory() as staging:
        run("cmake", "--install", folder, "--prefix", f"{staging}/usr", "--strip")
        files = read_tree(Path(staging))
        architecture = subprocess.check_output(["dpkg", "--print-architecture"], text=True).strip()
        binaries = [
            path
            for path in Path(staging, "usr").rglob("*")
            if path.name in ("lithify", f"liblithify.so.{VERSION}") and path.is_file()
        ]
        size = sum(len(contents) for contents, _ in files.values() if isinstance(contents, bytes))
        control = f"""\
Package: lithify
Version: {VERSION}
Architecture: {architecture}
Maintainer: Lithify
Section: devel
Priority: optional
Installed-Size: {size // 1024}
Depends: {shared_libraries(binaries)}
Description: From PyTorch models to ONNX: program, library, headers
"""
        (DIST / f"lithify_{VERSION}_{architecture}.deb").write_bytes(debian_package(control, files))
        inside = {name.removeprefix("usr/"): entry for name, entry in files.items()}
        name = f"lithify-{VERSION}-dev-linux-{os.uname().machine}"
        (DIST / f"{name}.tar.gz").write_bytes(tarred(inside, f"{name}/"))


def shared_libraries(binaries: list[Path]) -> str:
    """Debian's packages of the libraries that these need."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "debian").mkdir()
        Path(folder, "debian", "control").write_text("Source: lithify\n\nPackage: lithify\nArchitecture: any\n")
        out = subprocess.check_output(["dpkg-shlibdeps", "-O", *map(str, binaries)], cwd=folder, text=True)
    return out.strip().removeprefix("shlibs:Depends=")


def main(names: list[str]) -> None:
    DIST.mkdir(exist_ok=True)
    dependencies.fetch(LIBRARIES)
    found = components(LIBRARIES, COMPILER)
    texts = licenses(found)
    for target in TARGETS.values():
        if not names or target.name in names:
            make_wheels(target, make_program(target), texts)
    if not names or PACKAGE in names:
        make_package()
    (DIST / f"lithify-{VERSION}.cdx.json").write_text(bom(found, VERSION))
    (DIST / f"lithify-{VERSION}-licenses.txt").write_text(texts)
    sums = [
        (hashlib.sha256(path.read_bytes()).hexdigest(), path.name) for path in sorted(DIST.iterdir()) if path.name != "SHA256SUMS"
    ]
    (DIST / "SHA256SUMS").write_text("".join(f"{digest}  {name}\n" for digest, name in sums))
    for _, name in sums:
        print(f"{(DIST / name).stat().st_size / 1e6:6.2f} MB  {name}")


if __name__ == "__main__":
    main(sys.argv[1:])
