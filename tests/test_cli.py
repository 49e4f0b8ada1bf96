"""The command line: what it prints, and what it does with bad files and options.

Runs on the program that $LITHIFY names, so that the same tests serve the build with sanitizers.
"""

from __future__ import annotations

import gzip
import io
import json
import os
import pickle
import random
import struct
import subprocess
import zipfile
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path

import onnx
import pytest
import torch
from torch import nn

from tests.driver import FAULT, LITHIFY, SECONDS, errors, exit_code, refusal

DATA = Path(__file__).parent / "data"
LINEAR = (DATA / "linear.pt").read_bytes()
SPECS: dict[str, list[str]] = json.loads((DATA / "files.json").read_text())
SANITIZED = "asan" in str(LITHIFY)


def lithify(*args: str | Path, cwd: Path | None = None, limits: Sequence[str] = ()) -> subprocess.CompletedProcess[str]:
    """Runs the program, under limits of `prlimit`: to set them in a fork of this process takes far longer than a run."""
    done = subprocess.run(
        [*(["prlimit", *limits] if limits else []), str(LITHIFY.resolve()), *map(str, args)],
        capture_output=True,
        text=True,
        errors="replace",
        timeout=SECONDS,
        cwd=cwd,
        restore_signals=False,  # SIGXFSZ stays ignored, so that a file limit is an error and not a death
    )
    assert "Sanitizer" not in done.stderr and "runtime error:" not in done.stderr, done.stderr
    return done


def export_linear(model: Path, out: Path, *more: str) -> subprocess.CompletedProcess[str]:
    return lithify("export", model, "-o", out, "--input", SPECS["linear"][0], *more)


def refused(done: subprocess.CompletedProcess[str], folder: Path, *words: str, codes: Sequence[str] = ()) -> None:
    """Errors with these codes and these words, the exit code that belongs to them, and nothing written."""
    refusal(done, *codes)
    assert all(c.isprintable() or c == "\n" for c in done.stderr) and "\ufffd" not in done.stderr, repr(done.stderr)
    assert len(done.stderr) < 4000, "a message for people is shorter"
    for word in words:
        assert word in done.stderr, f"no {word!r} in\n{done.stderr}"
    assert not list(folder.iterdir()), f"left behind: {list(folder.iterdir())}"


def answered_or_refused(done: subprocess.CompletedProcess[str]) -> None:
    """Of commands that describe a file: what is wrong with it is in their answer, or is an error."""
    printed = done.stdout + done.stderr
    assert done.returncode == (exit_code(printed) if "error LTH" in printed else 0), f"exit code {done.returncode}\n{printed}"
    assert FAULT not in done.stdout + done.stderr


def misused(done: subprocess.CompletedProcess[str]) -> None:
    """What is wrong about the command line is reported, as an error about the options."""
    assert done.returncode == 2, f"exit code {done.returncode}\n{done.stdout}\n{done.stderr}"
    assert errors(done.stderr) and errors(done.stderr) <= {"LTH020", "LTH021", "LTH022", "LTH023"}, done.stderr


def file_of(tmp_path: Path, data: bytes, name: str = "model.pt") -> Path:
    path = tmp_path / name
    path.write_bytes(data)
    return path


# ---- a good file ----------------------------------------------------------------------------------


def test_export_reports_what_it_wrote(out: Path) -> None:
    done = export_linear(DATA / "linear.pt", out)
    assert done.returncode == 0, done.stderr
    for word in ("input", "B", "Gemm"):
        assert word in done.stdout + done.stderr
    assert [p.name for p in out.parent.iterdir()] == [out.name]


def test_quiet_is_quiet(out: Path) -> None:
    done = export_linear(DATA / "linear.pt", out, "-q")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_names(out: Path) -> None:
    done = export_linear(DATA / "linear.pt", out, "--input-names", "pixels", "--output-names", "scores")
    assert done.returncode == 0, done.stderr
    graph = onnx.load(str(out)).graph
    assert [i.name for i in graph.input] == ["pixels"]
    assert [o.name for o in graph.output] == ["scores"]
    assert graph.output[0].type.tensor_type.shape.dim[0].dim_param == "B"


def test_weights_have_the_names_of_the_state_dict(out: Path) -> None:
    assert lithify("export", DATA / "recurrent.pt", "-o", out, "--input", SPECS["recurrent"][0]).returncode == 0
    names = {i.name for i in onnx.load(str(out)).graph.initializer}
    assert {"embedding.weight", "heads.0.bias", "heads.1.bias"} <= names, names


@pytest.mark.parametrize("version", range(9, 27))
def test_every_opset(version: int, out: Path) -> None:
    assert export_linear(DATA / "linear.pt", out, "--opset", str(version)).returncode == 0
    onnx.checker.check_model(str(out), full_check=True)
    assert onnx.load(str(out)).opset_import[0].version == version


def test_an_existing_file_is_replaced(out: Path) -> None:
    out.write_text("old")
    assert export_linear(DATA / "linear.pt", out).returncode == 0
    onnx.checker.check_model(str(out))


def test_deflated_records_are_read(tmp_path: Path, out: Path) -> None:
    model = file_of(tmp_path, rezip(LINEAR, {}, zipfile.ZIP_DEFLATED))
    assert export_linear(model, out).returncode == 0


def test_missing_checksums_are_allowed(tmp_path: Path, out: Path) -> None:
    """torch writes 0 for every checksum on request."""
    data = bytearray(LINEAR)
    at = data.find(b"PK\x01\x02")
    while at >= 0:
        data[at + 16 : at + 20] = bytes(4)
        at = data.find(b"PK\x01\x02", at + 4)
    assert export_linear(file_of(tmp_path, bytes(data)), out).returncode == 0


@pytest.mark.parametrize("name", SPECS)
def test_inspect(name: str) -> None:
    done = lithify("inspect", DATA / f"{name}.pt", "--json")
    assert done.returncode == 0, done.stderr
    assert isinstance(json.loads(done.stdout), dict)
    assert "aten::" in done.stdout
    assert lithify("inspect", DATA / f"{name}.pt").returncode == 0
    assert "def forward" in lithify("inspect", DATA / f"{name}.pt", "--code").stdout


@pytest.mark.parametrize("name", SPECS)
def test_check(name: str) -> None:
    inputs = [word for spec in SPECS[name] for word in ("--input", spec)]
    done = lithify("check", DATA / f"{name}.pt", "--json", *inputs)
    assert done.returncode == 0, done.stdout + done.stderr
    json.loads(done.stdout)
    assert lithify("check", DATA / f"{name}.pt", "--opset", "13", *inputs).returncode == 0


def test_ops() -> None:
    done = lithify("ops", "--json")
    assert done.returncode == 0, done.stderr
    json.loads(done.stdout)
    assert "aten::linear" in done.stdout
    assert "aten::linear" in lithify("ops").stdout


@pytest.mark.parametrize("args", [["--help"], ["export", "--help"], ["--version"]])
def test_help(args: list[str]) -> None:
    done = lithify(*args)
    assert done.returncode == 0
    assert done.stdout


def test_needs_no_pytorch() -> None:
    listing = subprocess.run(["ldd", str(LITHIFY)], capture_output=True, text=True, check=True).stdout
    libraries = " ".join(line.split()[0] for line in listing.splitlines())  # the names, not the addresses
    assert "torch" not in libraries and "python" not in libraries and "c10" not in libraries, listing


class Strange(nn.Module):
    """Two operators that nobody expects to be exported, one of them twice."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        values = torch.special.bessel_j0(x @ x.mT)
        more = torch.special.bessel_j0(x @ x.mT + 1)
        return values + more + torch.special.bessel_y1(x).sum()


def test_all_unsupported_operators_are_reported_at_once(tmp_path: Path, out: Path) -> None:
    model = tmp_path / "strange.pt"
    torch.jit.trace(Strange(), torch.ones(2, 3, 3), check_trace=False).save(str(model))
    refused(lithify("export", model, "-o", out), out.parent, "special_bessel_j0", "special_bessel_y1", "test_cli.py")
    done = lithify("check", model)
    assert done.returncode == 1
    printed = done.stdout + done.stderr
    assert "special_bessel_j0" in printed and "special_bessel_y1" in printed and "test_cli.py" in printed
    json.loads(lithify("check", model, "--json").stdout)


def test_check_lists_the_operators_of_a_file_without_types_of_inputs(tmp_path: Path) -> None:
    model = tmp_path / "scripted.pt"
    torch.jit.script(Strange()).save(str(model))
    done = lithify("check", model, "--json")
    assert done.returncode == 2, "the type of the input is missing"
    report = json.loads(done.stdout)
    status = {o["name"]: o["supported"] for o in report["operators"]}
    assert status["aten::add"] and not status["aten::special_bessel_j0"] and not status["aten::special_bessel_y1"]
    assert [m["code"] for m in report["messages"]] == ["LTH022"]


class Halving(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for _ in range(5):
            x = x * 0.5 + 1
        return x


@pytest.mark.parametrize(("most", "loops"), [("5", 0), ("4", 1)])
def test_unroll(most: str, loops: int, tmp_path: Path, out: Path) -> None:
    model = tmp_path / "scripted.pt"
    torch.jit.script(Halving()).save(str(model))
    done = lithify("export", model, "-o", out, "--input", "x:float32[n]", "--unroll", most)
    assert done.returncode == 0, done.stderr
    assert [n.op_type for n in onnx.load(str(out)).graph.node].count("Loop") == loops


# ---- options --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "options",
    [
        ["--opset", "8"],
        ["--opset", "99"],
        ["--opset", "-1"],
        ["--dynamic", "nobody:0=B"],
        ["--dynamic", "input:7=B"],
        ["--dynamic", "input:-9=B"],
        ["--dynamic", "input:0="],
        ["--dynamic", "input"],
        ["--dynamic", "input:0=a,0=b"],
        ["--dynamic", ""],
        ["--input", "nobody:float32[2]"],
        ["--input", "input:float31[2,4]"],
        ["--input", "input:float32[2,4"],
        ["--input", "input:float32[-2,4]"],
        ["--input", "input:float32[99999999999999999999,4]"],
        ["--input", "input:float32[B=0x,4]"],
        ["--input", "input:float32[a b,4]"],
        ["--input-names", "a,b"],
        ["--output-names", "a,b"],
        ["--output-names", "input"],
        ["--external-data", "perhaps"],
    ],
    ids=" ".join,
)
def test_wrong_option(options: list[str], out: Path) -> None:
    spec = [] if options[0] == "--input" else ["--input", SPECS["linear"][0]]
    done = lithify("export", DATA / "linear.pt", "-o", out, *spec, *options)
    misused(done)
    assert not list(out.parent.iterdir())


@pytest.mark.parametrize(
    "args", [[], ["export"], ["export", "a.pt", "b.pt"], ["exprot", "a.pt"], ["export", "a.pt", "-o"], ["--nothing"]]
)
def test_wrong_usage(args: list[str], tmp_path: Path) -> None:
    misused(lithify(*args, cwd=tmp_path))
    assert not list(tmp_path.iterdir())


def test_sizes_that_are_formulas(tmp_path: Path, out: Path) -> None:
    class Joined(torch.nn.Module):
        def forward(self, x: torch.Tensor, past: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
            return torch.cat([past, x], 1) * mask

    sample = torch.randn(2, 3), torch.randn(2, 5), torch.randn(2, 8)
    torch.jit.trace(Joined(), sample).save(tmp_path / "traced.pt")
    torch.jit.script(Joined()).save(tmp_path / "scripted.pt")
    axes = ["--dynamic", "x:1=seq", "--dynamic", "past:1=past", "--dynamic", "mask:1=past+seq"]
    inputs = ["--input", "x:float32[2,seq]", "--input", "past:float32[2,past]", "--input", "mask:float32[2,past+seq]"]
    for file, options in (("traced.pt", axes), ("scripted.pt", inputs)):
        done = lithify("export", tmp_path / file, "-o", out, *options)
        assert done.returncode == 0, done.stderr
        sizes = [i.type.tensor_type.shape.dim[1].dim_param for i in onnx.load(str(out)).graph.input]
        assert sizes == ["seq", "past", "seq + past"]
        assert "warning" not in done.stderr
    wrong = [*axes[:-1], "mask:1=past+seq+seq"]
    out.unlink()
    refused(lithify("export", tmp_path / "traced.pt", "-o", out, *wrong), out.parent, "is 8 in the sample")


def test_an_input_that_nobody_described(out: Path) -> None:
    refused(lithify("export", DATA / "linear.pt", "-o", out), out.parent, "input", "--input")


# ---- files that are not models --------------------------------------------------------------------


def saved(value: object) -> bytes:
    stream = io.BytesIO()
    torch.save(value, stream)
    return stream.getvalue()


def legacy(value: object) -> bytes:
    stream = io.BytesIO()
    torch.save(value, stream, _use_new_zipfile_serialization=False)
    return stream.getvalue()


def safetensors() -> bytes:
    header = json.dumps({"weight": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}}).encode()
    return struct.pack("<Q", len(header)) + header + bytes(4)


def plain_zip() -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        archive.writestr("readme.txt", "hello")
    return stream.getvalue()


NOT_MODELS: dict[str, tuple[Callable[[], bytes], list[str]]] = {
    "empty": (lambda: b"", []),
    "zeros": (lambda: bytes(1000), []),
    "text": (lambda: b"import torch\n", []),
    "page": (lambda: b"<!DOCTYPE html><html><body>404</body></html>", []),
    "pointer": (lambda: b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n", ["git lfs pull"]),
    "safetensors": (safetensors, ["torch.jit"]),
    "state_dict": (lambda: saved(nn.Linear(2, 2).state_dict()), ["torch.jit"]),
    "checkpoint": (lambda: saved({"epoch": 3, "model": nn.Linear(2, 2).state_dict()}), ["torch.jit"]),
    "module": (lambda: saved(nn.Linear(2, 2)), ["Linear", "torch.jit"]),
    "tensor": (lambda: saved(torch.ones(2)), ["torch.jit"]),
    "legacy": (lambda: legacy(nn.Linear(2, 2).state_dict()), ["torch.jit"]),
    "pickle": (lambda: pickle.dumps({"a": 1}), []),
    "zip": (plain_zip, []),
    "gzip": (lambda: gzip.compress(LINEAR), []),
    "onnx": (lambda: b"\x08\x08\x12\x07pytorch\x1a\x052.0.0", ["ONNX"]),
    "gguf": (lambda: b"GGUF" + bytes(100), []),
}


@pytest.mark.parametrize("command", ["export", "inspect", "check"])
@pytest.mark.parametrize("kind", NOT_MODELS)
def test_not_a_model(kind: str, command: str, tmp_path: Path, out: Path) -> None:
    make, words = NOT_MODELS[kind]
    model = file_of(tmp_path, make())
    if command == "inspect" and kind in ("safetensors", "state_dict", "checkpoint"):
        assert "weight" in lithify(command, model).stdout
        return
    refused(lithify(command, model, *(["-o", out] if command == "export" else [])), out.parent, *words)


@pytest.mark.parametrize("path", ["missing.pt", "."])
def test_no_file(path: str, tmp_path: Path, out: Path) -> None:
    refused(lithify("export", tmp_path / path, "-o", out), out.parent)


# ---- damage ---------------------------------------------------------------------------------------


def test_truncated(tmp_path: Path, out: Path) -> None:
    for size in range(0, len(LINEAR), 61 if SANITIZED else 13):
        refused(export_linear(file_of(tmp_path, LINEAR[:size]), out), out.parent)
    refused(export_linear(file_of(tmp_path, LINEAR[:-1]), out), out.parent)


def without_claims(path: Path) -> bytes:
    """A model without its metadata: that has lines of source, of which damaged debug information leaves none."""
    model = onnx.load(str(path))
    del model.metadata_props[:]
    return model.SerializeToString()


@pytest.mark.parametrize("name", SPECS)
def test_a_flipped_bit_is_refused_or_harmless(name: str, tmp_path: Path, out: Path) -> None:
    data = (DATA / f"{name}.pt").read_bytes()
    command = ["export", tmp_path / "model.pt", "-o", out, *(word for spec in SPECS[name] for word in ("--input", spec))]
    file_of(tmp_path, data)
    assert lithify(*command).returncode == 0
    good = without_claims(out)
    out.unlink()
    chosen = random.Random(name)
    for _ in range(12 if SANITIZED else 60):
        damaged = bytearray(data)
        bit = chosen.randrange(8 * len(data))
        damaged[bit // 8] ^= 1 << bit % 8
        file_of(tmp_path, bytes(damaged))
        done = lithify(*command)
        if done.returncode == 0:
            assert without_claims(out) == good, f"bit {bit} changed the result without a word"
            out.unlink()
        else:
            refused(done, out.parent)


def test_a_flipped_bit_in_a_weight_is_refused(tmp_path: Path, out: Path) -> None:
    with zipfile.ZipFile(io.BytesIO(LINEAR)) as archive:
        weights = [i for i in archive.infolist() if "/data/" in i.filename]
    for info in weights:
        name, extra = struct.unpack_from("<HH", LINEAR, info.header_offset + 26)
        start = info.header_offset + 30 + name + extra
        for at in range(start, start + info.file_size, 5):
            damaged = bytearray(LINEAR)
            damaged[at] ^= 0x10
            refused(export_linear(file_of(tmp_path, bytes(damaged)), out), out.parent, info.filename.split("/")[-1])


# ---- hostile files --------------------------------------------------------------------------------


def rezip(data: bytes, replaced: dict[str, bytes], method: int = zipfile.ZIP_STORED) -> bytes:
    """The archive with some records (named without its folder) replaced or added."""
    stream = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as old, zipfile.ZipFile(stream, "w", method) as new:
        records = {n: old.read(n) for n in old.namelist()}
        folder = next(iter(records)).split("/")[0]
        for name, contents in (records | {f"{folder}/{n}": c for n, c in replaced.items()}).items():
            new.writestr(name, contents)
    return stream.getvalue()


def laughs(levels: int) -> bytes:
    """A pickle of lists that hold the list before ten times each."""
    out = bytearray(b"\x80\x02](X\x03\x00\x00\x00loleq\x00")
    for level in range(levels):
        out += b"](" + b"h" + bytes([level]) + (b"h" + bytes([level])) * 9 + b"eq" + bytes([level + 1])
    return bytes(out) + b"."


def code(body: str) -> dict[str, bytes]:
    """The record with the code of the linear model, with another body of its forward."""
    name = "code/__torch__/torch/nn/modules/linear.py"
    with zipfile.ZipFile(io.BytesIO(LINEAR)) as archive:
        text = archive.read(f"linear/{name}").decode()
    head = text[: text.index("Tensor:\n", text.index("def forward")) + len("Tensor:\n")]
    return {name: (head + "".join(f"    {line}\n" for line in body.split("\n"))).encode()}


def overlapping() -> bytes:
    """Two entries of the directory share one record."""
    stream = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(LINEAR)) as old, zipfile.ZipFile(stream, "w") as new:
        for name in old.namelist():
            new.writestr(name, old.read(name))
        shared = next(i for i in new.filelist if i.filename.endswith("data.pkl"))
        other = next(i for i in new.filelist if i.filename.endswith("constants.pkl"))
        other.header_offset, other.CRC = shared.header_offset, shared.CRC
        other.file_size = other.compress_size = shared.file_size
    return stream.getvalue()


def with_directory(change: Callable[[zipfile.ZipInfo], None]) -> bytes:
    """The directory says something else of every record than what is there."""
    stream = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(LINEAR)) as old, zipfile.ZipFile(stream, "w") as new:
        for name in old.namelist():
            new.writestr(name, old.read(name))
        for info in new.filelist:
            change(info)
    return stream.getvalue()


def set_sizes(size: int) -> Callable[[zipfile.ZipInfo], None]:
    def change(info: zipfile.ZipInfo) -> None:
        info.file_size = info.compress_size = size

    return change


def move(offset: int) -> Callable[[zipfile.ZipInfo], None]:
    def change(info: zipfile.ZipInfo) -> None:
        info.header_offset = offset

    return change


def twice() -> bytes:
    """The same name in the directory twice."""
    data = bytearray(rezip(LINEAR, {"constantt.pkl": b"\x80\x02)."}))
    return bytes(data).replace(b"constantt.pkl", b"constants.pkl")


def bomb() -> bytes:
    """A record that inflates to a gigabyte."""
    big = zlib.compressobj(9, zlib.DEFLATED, -15)
    block = bytes(1 << 20)
    packed = (big.compress(block) + big.flush(zlib.Z_FULL_FLUSH)) * 1024 + big.flush()
    data = bytearray(rezip(LINEAR, {"data.pkl": packed}))
    crc = 0
    for _ in range(1024):
        crc = zlib.crc32(block, crc)
    for signature, method_at in ((b"PK\x03\x04", 8), (b"PK\x01\x02", 10)):
        at = data.find(signature)
        while at >= 0:
            if b"data.pkl" in data[at : at + 80]:
                struct.pack_into("<H", data, at + method_at, zipfile.ZIP_DEFLATED)
                struct.pack_into("<III", data, at + method_at + 6, crc, len(packed), 1 << 30)
                break
            at = data.find(signature, at + 4)
    return bytes(data)


SYSTEM = b"\x80\x02cposix\nsystem\nX\x0c\x00\x00\x00touch PWNED1\x85R."
SYSTEM_STACK_GLOBAL = b"\x80\x04\x8c\x05posix\x8c\x06system\x93\x8c\x0ctouch PWNED1\x85R."
SYSTEM_INST = b"(S'touch PWNED1'\nios\nsystem\n."

HOSTILE: dict[str, Callable[[], bytes]] = {
    "system": lambda: rezip(LINEAR, {"data.pkl": SYSTEM}),
    "system_in_constants": lambda: rezip(LINEAR, {"constants.pkl": SYSTEM}),
    "system_stack_global": lambda: rezip(LINEAR, {"data.pkl": SYSTEM_STACK_GLOBAL}),
    "system_inst": lambda: rezip(LINEAR, {"data.pkl": SYSTEM_INST}),
    "bare_system": lambda: SYSTEM,
    "laughs": lambda: rezip(LINEAR, {"data.pkl": laughs(10)}),
    "laughs_in_constants": lambda: rezip(LINEAR, {"constants.pkl": laughs(10)}),
    "deep_pickle": lambda: rezip(LINEAR, {"data.pkl": b"\x80\x02" + b"](" * 200000 + b"e" * 200000 + b"."}),
    "deep_tuples": lambda: rezip(LINEAR, {"data.pkl": b"\x80\x02)" + b"\x85" * 500000 + b"."}),
    "huge_memo": lambda: rezip(LINEAR, {"data.pkl": b"\x80\x02]r\xff\xff\xff\xff."}),
    "huge_string": lambda: rezip(LINEAR, {"data.pkl": b"\x80\x02X\xff\xff\xff\x7fabc."}),
    "underflow": lambda: rezip(LINEAR, {"data.pkl": b"\x80\x02\x85\x85b."}),
    "overlapping": overlapping,
    "twice": twice,
    "bomb": bomb,
    "sizes_beyond_the_end": lambda: with_directory(set_sizes(1 << 31)),
    "sizes_of_zero": lambda: with_directory(set_sizes(0)),
    "all_in_one_place": lambda: with_directory(move(0)),
    "records_past_the_end": lambda: with_directory(move(1 << 31)),
    "weights_missing": lambda: rezip(LINEAR, {}).replace(b"linear/data/0", b"linear/data/8"),
    "weights_too_short": lambda: rezip(LINEAR, {"data/0": b"\0\0\0\0"}),
    "code_missing": lambda: rezip(LINEAR, {}).replace(b"modules/linear.py", b"modules/linaer.py"),
    "not_utf8": lambda: rezip(LINEAR, {"code/__torch__/torch/nn/modules/linear.py": b"class \xff\xfe(Module):\n"}),
    "growing_text": lambda: rezip(
        LINEAR, code("a = [0]\nb = [str(a)]\nfor i in range(9223372036854775807):\n  b = [str(b), str(b)]\nreturn input")
    ),
    "growing_list": lambda: rezip(LINEAR, code("a = [0]\nfor i in range(100):\n  a = torch.add(a, a)\nreturn input")),
    "while_true": lambda: rezip(LINEAR, code("a = 0\n_0 = True\nwhile _0:\n  a = torch.add(a, 1)\n  _0 = True\nreturn input")),
    "recursion": lambda: rezip(LINEAR, code("return (self).forward(input, )")),
    "recursion_inside": lambda: rezip(LINEAR, code("return " + "torch.neg(" * 150 + "(self).forward(input, )" + ")" * 150)),
    "deep_expression": lambda: rezip(LINEAR, code("return " + "torch.neg(" * 100000 + "input" + ")" * 100000)),
    "deep_list": lambda: rezip(LINEAR, code("a = " + "[" * 100000 + "]" * 100000 + "\nreturn input")),
    "deep_blocks": lambda: rezip(LINEAR, code("\n".join("  " * i + "if True:" for i in range(3000)) + "\nreturn input")),
    "overflowing_numbers": lambda: rezip(LINEAR, code("a = 99999999999999999999999999\nreturn torch.mul(input, a)")),
    "huge_tensor": lambda: rezip(LINEAR, code("return torch.add(input, torch.zeros([1099511627776, 4]))")),
    "negative_size": lambda: rezip(LINEAR, code("return torch.reshape(input, [-5, 4])")),
    "undefined": lambda: rezip(LINEAR, code("return torch.add(input, nobody)")),
    "unknown_operator": lambda: rezip(LINEAR, code("return torch.no_such_operator(input)")),
    "escape_codes": lambda: rezip(LINEAR, code('ops.prim.RaiseException("\\033[2J\\007")\nreturn input')),
    "divide_by_zero": lambda: rezip(LINEAR, code("a = torch.floordiv(1, 0)\nreturn torch.mul(input, a)")),
    "remainder_overflow": lambda: rezip(LINEAR, code("a = torch.remainder(1, 0)\nreturn torch.mul(input, a)")),
}


# Two gigabytes of address space, enough for any of these; the sanitizers reserve far more.
MODEST = () if SANITIZED else (f"--as={2 << 30}",)


@pytest.mark.parametrize("kind", HOSTILE)
def test_hostile(kind: str, tmp_path: Path, out: Path) -> None:
    model = file_of(tmp_path, HOSTILE[kind]())
    done = lithify("export", model, "-o", out, "--input", SPECS["linear"][0], cwd=tmp_path, limits=MODEST)
    refused(done, out.parent)
    assert "\033" not in done.stderr and "\a" not in done.stderr
    for command in ("inspect", "check"):
        answered_or_refused(lithify(command, model, cwd=tmp_path, limits=MODEST))
    assert sorted(p.name for p in tmp_path.iterdir()) == ["model.pt", "out"]


def test_random_archives(tmp_path: Path, out: Path) -> None:
    """Records full of noise, under right checksums: each parser meets bytes that nobody wrote."""
    chosen = random.Random(0)
    with zipfile.ZipFile(io.BytesIO(LINEAR)) as archive:
        records = {n.split("/", 1)[1]: archive.read(n) for n in archive.namelist()}
    for _ in range(20 if SANITIZED else 150):
        name = chosen.choice(sorted(records))
        contents = bytearray(records[name])
        for _ in range(chosen.randint(1, 4)):
            contents[chosen.randrange(len(contents))] = chosen.randrange(256)
        model = file_of(tmp_path, rezip(LINEAR, {name: bytes(contents)}))
        done = lithify("export", model, "-o", out, "--input", SPECS["linear"][0], cwd=tmp_path, limits=MODEST)
        if done.returncode == 0:
            out.unlink()
        else:
            refused(done, out.parent)


# ---- writing --------------------------------------------------------------------------------------


def test_full_disk(out: Path) -> None:
    limits = ["--fsize=200"]
    command = ["export", DATA / "linear.pt", "-o", out, "--input", SPECS["linear"][0]]
    refused(lithify(*command, limits=limits), out.parent, str(out))
    out.write_text("an older model")
    refusal(lithify(*command, limits=limits), "LTH080")
    assert [p.name for p in out.parent.iterdir()] == [out.name]
    assert out.read_text() == "an older model"


@pytest.mark.parametrize("where", ["always", "never"])
def test_full_file_system(where: str, tmp_path: Path) -> None:
    """A file system of one page; mounting one is root's privilege, in a namespace of its own."""
    inside = (
        'mount -t tmpfs -o size=4k none "$1" || exit 77; shift; "$@"; code=$?; '
        '[ -z "$(ls -A "$OUT")" ] || { ls -A "$OUT"; exit 78; }; exit $code'
    )
    folder = tmp_path / "disk"
    folder.mkdir()
    model = [str(LITHIFY.resolve()), "export", str(DATA / "recurrent.pt"), "-o", str(folder / "m.onnx"), "--external-data", where]
    command = ["unshare", "-m", "sh", "-c", inside, "sh", str(folder), *model, "--input", SPECS["recurrent"][0]]
    done = subprocess.run(command, capture_output=True, text=True, env=os.environ | {"OUT": str(folder)}, timeout=SECONDS)
    if done.returncode == 77 or "unshare" in done.stderr:
        pytest.skip("cannot mount a file system here")
    refusal(done, "LTH080")


@pytest.mark.parametrize("where", ["nowhere/model.onnx", "."])
def test_output_that_cannot_be(where: str, out: Path) -> None:
    refused(export_linear(DATA / "linear.pt", out.parent / where), out.parent)


def test_output_over_the_model(tmp_path: Path) -> None:
    """The file that is being read is not a place to write to."""
    model = file_of(tmp_path, LINEAR)
    refusal(export_linear(model, model), "LTH020", "LTH080")
    assert model.read_bytes() == LINEAR
