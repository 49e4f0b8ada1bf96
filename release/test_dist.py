"""The artifacts in dist/: what they need, that they run, and that all programs write the same bytes.

Programs for other systems run in emulators. A macOS program cannot run on Linux: its headers are checked.
"""

from __future__ import annotations

import functools
import hashlib
import json
import os
import re
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest
import torch

from release.binaries import MachO, needed_by_elf, needed_by_windows
from release.targets import TARGETS, Target
from tests.models import MODELS

ROOT = Path(__file__).resolve().parents[1]
DIST = ROOT / "dist"
BUILD = ROOT / "build-dist"
DATA = ROOT / "tests" / "data"
SPECS = json.loads((DATA / "files.json").read_text())
LARGEST = 6_000_000  # bytes of a program

RUNNERS = {
    "linux-x86_64": [],
    "linux-aarch64": ["qemu-aarch64", "-L", "/usr/aarch64-linux-gnu"],
    "windows-x86_64": [next((p for p in ("/usr/lib/wine/wine64", "/usr/bin/wine64") if Path(p).exists()), "wine64")],
}
QUIET = {"WINEPREFIX": str(BUILD / "wine"), "WINEDEBUG": "-all", "LITHIFY_VERIFY": "1"}


def program(target: Target) -> Path:
    (found,) = (p for p in DIST.glob(f"lithify-*-{target.name}{target.suffix}") if not p.name.endswith(".tar.gz"))
    return found


def run(target: str, at: Path, *arguments: str) -> subprocess.CompletedProcess[bytes]:
    command = [*RUNNERS[target], str(program(TARGETS[target])), *arguments]
    return subprocess.run(command, cwd=at, capture_output=True, timeout=300, env=os.environ | QUIET)


each_target = pytest.mark.parametrize("target", TARGETS.values(), ids=TARGETS)
each_other = pytest.mark.parametrize("target", [name for name in RUNNERS if name != "linux-x86_64"])


# ---- what they need ----------------------------------------------------------------------------------------------


@each_target
def test_program_is_small_and_needs_only_the_system(target: Target) -> None:
    path = program(target)
    assert path.stat().st_size <= LARGEST
    if target.is_macos:
        needs = MachO.read(path)
        assert needs == (
            "arm64" if "arm64" in target.name else "x86_64",
            "program",
            (11, 0),
            ["/usr/lib/libSystem.B.dylib"],
            needs.signed,
        )
        assert needs.signed or target.name != "macos-arm64"  # which starts nothing that is not signed
    elif target.is_windows:
        imports = {name for name in needed_by_windows(path) if not name.startswith("api-ms-win-crt-")}
        assert imports <= {"kernel32.dll", "shell32.dll", "advapi32.dll", "ntdll.dll"}, imports
    else:
        _check_elf(path)


def _check_elf(path: Path) -> None:
    libraries, glibc = needed_by_elf(path)
    assert all(re.fullmatch(r"(libc|libm|libpthread|libdl|librt|ld-linux-\S+)\.so\.\d", name) for name in libraries), libraries
    assert glibc <= (2, 17), glibc


def test_sums_and_components() -> None:
    listed = dict(reversed(line.split("  ")) for line in (DIST / "SHA256SUMS").read_text().splitlines())
    assert listed == {p.name: hashlib.sha256(p.read_bytes()).hexdigest() for p in DIST.iterdir() if p.name != "SHA256SUMS"}
    (bom,) = DIST.glob("*.cdx.json")
    names = {component["name"] for component in json.loads(bom.read_text())["components"]}
    assert set(json.loads((ROOT / "cmake" / "dependencies.json").read_text())) < names
    (licenses,) = DIST.glob("*-licenses.txt")
    assert all(f"\n{name} " in licenses.read_text() for name in names)


def test_no_path_of_this_machine() -> None:
    for path in [p for target in TARGETS.values() for p in [program(target)]]:
        assert str(ROOT).encode() not in path.read_bytes(), path


# ---- that they write the same ------------------------------------------------------------------------------------


@pytest.fixture(scope="session")
def samples(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with files of every kind, whole and damaged."""
    folder = tmp_path_factory.mktemp("samples")
    for path in DATA.glob("*.pt"):
        (folder / path.name).write_bytes(path.read_bytes())
    for name in ("linear", "lstm", "view_product", "tagger"):
        made = MODELS[name]()
        torch.jit.trace(made.module, made.runs[0], check_trace=False).save(str(folder / f"{name}_traced.pt"))
    made = MODELS["view_shape"]()
    torch.jit.script(made.module).save(str(folder / "scripted.pt"))
    torch.export.save(torch.export.export(made.module, made.runs[0]), folder / "exported.pt2")
    torch.save(made.module.state_dict() | {"a.weight": torch.zeros(2, 3)}, folder / "state.pt")
    whole = (folder / "exported.pt2").read_bytes()
    (folder / "cut.pt2").write_bytes(whole[: len(whole) // 2])
    (folder / "flipped.pt2").write_bytes(whole[:200] + bytes([whole[200] ^ 255]) + whole[201:])
    (folder / "empty.pt").write_bytes(b"")
    damaged = bytearray((folder / "convolutions.pt").read_bytes())
    for at in range(100, len(damaged), len(damaged) // 7):
        damaged[at] ^= 0x5A
    (folder / "damaged.pt").write_bytes(bytes(damaged))
    return folder


WITHOUT_TIMES = functools.partial(re.compile(rb'"seconds": \{[^}]*\}|seconds +[0-9].*|[0-9.]+ s\b').sub, b"")


@functools.cache
def results(target: str, folder: Path) -> dict[str, tuple[int, bytes, bytes, bytes]]:
    """Exit code, output, messages and file of each command on each sample, without the times in the output."""
    found = {}
    out = folder / f"{target}.onnx"
    for path in sorted(p for p in folder.iterdir() if p.suffix in (".pt", ".pt2")):
        inputs = [word for spec in SPECS.get(path.stem, ()) for word in ("--input", spec)]
        if path.stem == "scripted":
            inputs = ["--input", "x:float32[batch=2,seq=3,4]"]
        commands = [
            ("inspect", path.name),
            ("inspect", path.name, "--json"),
            ("check", path.name, *inputs),
            ("export", path.name, "-o", "OUT", "-q", *inputs),
            ("export", path.name, "-o", "OUT", "-q", "--weights", "int8", *inputs),
        ]
        for command in commands:
            out.unlink(missing_ok=True)
            done = run(target, folder, *(out.name if word == "OUT" else word for word in command))
            written = out.read_bytes() if out.exists() else b""
            plain = [WITHOUT_TIMES(text.replace(out.name.encode(), b"OUT")) for text in (done.stdout, done.stderr)]
            found[" ".join(command)] = (done.returncode, *plain, written)
    return found


def test_samples_are_of_every_kind(samples: Path) -> None:
    found = results("linux-x86_64", samples)
    codes = {name: code for name, (code, *_) in found.items() if name.startswith("export")}
    assert sum(code == 0 for code in codes.values()) >= 20, codes
    assert sum(code == 3 for code in codes.values()) >= 6, codes
    assert all(written[:1] == b"\x08" for name, (code, _, _, written) in found.items() if name in codes and code == 0)


@each_other
def test_same_as_native(target: str, samples: Path) -> None:
    native, other = results("linux-x86_64", samples), results(target, samples)
    differ = {name: (native[name][:3], other[name][:3]) for name in native if native[name] != other[name]}
    assert not differ


def test_another_compiler_decides_the_same(samples: Path, tmp_path: Path) -> None:
    """The package has the program of the machine's own compiler. Compilers differ in the order in which they evaluate arguments,
    and so in the order of some nodes."""
    (tarball,) = DIST.glob("lithify-*-dev-*.tar.gz")
    with tarfile.open(tarball) as archive:
        archive.extractall(tmp_path, filter="data")
    (other,) = tmp_path.glob("*/bin/lithify")
    for name, (code, _, messages, _) in results("linux-x86_64", samples).items():
        command = [word if word != "OUT" else str(tmp_path / "out.onnx") for word in name.split(" ")]
        if command[0] == "export":
            done = subprocess.run([other, *command], cwd=samples, capture_output=True, timeout=60, env=os.environ | QUIET)
            assert (done.returncode, WITHOUT_TIMES(done.stderr)) == (code, messages), name


# ---- wheels ------------------------------------------------------------------------------------------------------


@each_target
def test_wheels(target: Target) -> None:
    wheels = list(DIST.glob(f"lithify-*-{target.wheel}.whl"))
    assert wheels
    for wheel in wheels:
        with zipfile.ZipFile(wheel) as archive:
            names = archive.namelist()
            (script,) = (n for n in names if "/scripts/" in n)
            assert archive.read(script) == program(target).read_bytes()
            record = archive.read(next(n for n in names if n.endswith("/RECORD"))).decode().splitlines()
            assert [line.split(",")[0] for line in record] == names
            (core,) = (n for n in names if "/_core." in n and not n.endswith(".pyi"))
            assert archive.getinfo(core).file_size < LARGEST


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="the wheels to install are for x86_64")
@pytest.mark.parametrize("python", ["3.10", "3.11", "3.12", "3.13"])
def test_install_and_convert(python: str, samples: Path, tmp_path: Path) -> None:
    """In an environment with nothing else, not even what the package names as needed: files need none of it."""
    interpreter = _python(python)
    tag = f"cp{python.replace('.', '')}"
    wheels = list(DIST.glob(f"lithify-*-{tag}-{tag}-manylinux*x86_64.whl")) or list(
        DIST.glob("lithify-*-abi3-manylinux*x86_64.whl")
    )
    if not interpreter or not wheels:
        pytest.skip(f"no Python {python} here, or none when the wheels were made")
    subprocess.run([interpreter, "-m", "venv", tmp_path / "venv"], check=True)
    into = tmp_path / "venv" / "bin"
    subprocess.run([into / "python", "-m", "pip", "install", "-q", "--no-deps", "--no-index", *wheels], check=True)
    script = f"""
import sys, lithify
result = lithify.convert({str(samples / "linear_traced.pt")!r}, "out.onnx")
assert lithify.inspect({str(samples / "exported.pt2")!r}).inputs
try:
    lithify.convert({str(samples / "damaged.pt")!r}, "no.onnx")
except lithify.ExportError:
    print("ok", "torch" in sys.modules)
"""
    done = subprocess.run([into / "python", "-c", script], cwd=tmp_path, capture_output=True, text=True)
    assert done.stdout == "ok False\n", done.stderr
    written = results("linux-x86_64", samples)["export linear_traced.pt -o OUT -q"][3]
    assert (tmp_path / "out.onnx").read_bytes() == written
    printed = subprocess.run([into / "lithify", "--version"], capture_output=True, text=True, check=True).stdout
    assert re.search(r"lithify-([0-9.]+)-", wheels[0].name)[1] in printed  # type: ignore[index]


def _python(version: str) -> str | None:
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    for path in [*pyenv.glob(f"versions/{version}.*/bin/python"), Path(f"/usr/bin/python{version}"), Path(sys.executable)]:
        asked = [path, "-c", "import sys; print('%d.%d' % sys.version_info[:2])"]
        if path.exists() and subprocess.run(asked, capture_output=True, text=True).stdout.strip() == version:
            return str(path)
    return None


# ---- the package for C and C++ -----------------------------------------------------------------------------------


def test_package_for_debian() -> None:
    (package,) = DIST.glob("*.deb")
    listed = subprocess.run(["dpkg-deb", "-c", package], capture_output=True, text=True, check=True).stdout
    for name in (
        "./usr/bin/lithify",
        "/liblithify.a",
        "/liblithify.so.0 ->",
        "lithify-config.cmake",
        "lithify.pc",
        "lithify.hpp",
    ):
        assert name in listed, name
    needs = subprocess.run(["dpkg-deb", "-f", package, "Depends"], capture_output=True, text=True, check=True).stdout
    assert {item.split(" ")[0] for item in needs.strip().split(", ")} <= {"libc6", "libstdc++6", "libgcc-s1"}


def test_package_for_projects(samples: Path, tmp_path: Path) -> None:
    """A project that finds the package with CMake, and one that asks pkg-config, need nothing else of this machine."""
    (tarball,) = DIST.glob("lithify-*-dev-*.tar.gz")
    with tarfile.open(tarball) as archive:
        archive.extractall(tmp_path, filter="data")
    (prefix,) = tmp_path.glob("lithify-*")
    project = ROOT / "tests" / "outside"
    for command in (
        ["cmake", "-S", project, "-B", tmp_path / "build", "-G", "Ninja", f"-DCMAKE_PREFIX_PATH={prefix}"],
        ["cmake", "--build", tmp_path / "build"],
    ):
        subprocess.run(command, check=True, capture_output=True, timeout=300)
    for kind in ("lithify", "static", "shared"):
        built = tmp_path / "build" / f"outside_{kind}"
        command = [built, DATA / "linear.pt", tmp_path / "out.onnx", SPECS["linear"][0]]
        assert "output: float32[B, 3]" in subprocess.run(command, check=True, capture_output=True, text=True).stdout
