"""The C ABI: used as intended, by many threads at once, and wrongly."""

from __future__ import annotations

import ctypes
import itertools
import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from tests.cases import ROOT
from tests.driver import LITHIFY

DATA = ROOT / "tests" / "data"
FILES: dict[str, list[str]] = json.loads((DATA / "files.json").read_text())
OK, MODEL, HANDLE, ARGUMENT = range(4)

Handle, Text, Size = ctypes.c_void_p, ctypes.c_char_p, ctypes.c_size_t
Out = ctypes.POINTER(Handle)
FUNCTIONS: dict[str, tuple[object, list[object]]] = {
    "lithify_options_new": (Handle, []),
    "lithify_options_free": (ctypes.c_int, [Handle]),
    "lithify_options_set_opset": (ctypes.c_int, [Handle, ctypes.c_int]),
    "lithify_options_set_target": (ctypes.c_int, [Handle, Text]),
    "lithify_options_set_custom_operators": (ctypes.c_int, [Handle, Text]),
    "lithify_options_set_allow_custom": (ctypes.c_int, [Handle, ctypes.c_int]),
    "lithify_options_set_external_data": (ctypes.c_int, [Handle, ctypes.c_int]),
    "lithify_options_set_weights": (ctypes.c_int, [Handle, ctypes.c_int]),
    "lithify_options_set_weights_block": (ctypes.c_int, [Handle, ctypes.c_int64]),
    "lithify_options_set_precision": (ctypes.c_int, [Handle, ctypes.c_int]),
    "lithify_options_add_keep_weights": (ctypes.c_int, [Handle, Text]),
    "lithify_options_set_recover": (ctypes.c_int, [Handle, ctypes.c_int]),
    "lithify_options_set_strict": (ctypes.c_int, [Handle, ctypes.c_int]),
    "lithify_options_set_state": (ctypes.c_int, [Handle, ctypes.c_int]),
    "lithify_options_set_discover": (ctypes.c_int, [Handle, ctypes.c_int]),
    "lithify_options_set_skip_sync": (ctypes.c_int, [Handle, ctypes.c_int]),
    "lithify_options_set_self_check": (ctypes.c_int, [Handle, ctypes.c_int]),
    "lithify_options_set_unroll": (ctypes.c_int, [Handle, ctypes.c_int64]),
    "lithify_options_set_budget": (ctypes.c_int, [Handle, ctypes.c_int64]),
    "lithify_options_add_also": (ctypes.c_int, [Handle, Text]),
    "lithify_options_add_also_bytes": (ctypes.c_int, [Handle, Text, Size]),
    "lithify_options_add_custom_opset": (ctypes.c_int, [Handle, Text, ctypes.c_int]),
    "lithify_options_add_input": (ctypes.c_int, [Handle, Text]),
    "lithify_options_add_input_name": (ctypes.c_int, [Handle, Text]),
    "lithify_options_add_output_name": (ctypes.c_int, [Handle, Text]),
    "lithify_options_add_dynamic_axis": (ctypes.c_int, [Handle, Text, ctypes.c_int64, Text]),
    "lithify_export_file": (ctypes.c_int, [Text, Text, Handle, Out]),
    "lithify_export_bytes": (ctypes.c_int, [Text, Size, Text, Handle, Out]),
    "lithify_check_file": (ctypes.c_int, [Text, Handle, Out]),
    "lithify_check_bytes": (ctypes.c_int, [Text, Size, Handle, Out]),
    "lithify_inspect_file": (ctypes.c_int, [Text, Out]),
    "lithify_inspect_bytes": (ctypes.c_int, [Text, Size, Out]),
    "lithify_operators": (ctypes.c_int, [Out]),
    "lithify_claims_file": (ctypes.c_int, [Text, Out]),
    "lithify_claims_bytes": (ctypes.c_int, [Text, Size, Out]),
    "lithify_claims_holds": (
        ctypes.c_int,
        [Handle, ctypes.POINTER(Text), ctypes.POINTER(ctypes.c_int64), Size, ctypes.POINTER(ctypes.c_int), Out],
    ),
    "lithify_result_free": (ctypes.c_int, [Handle]),
    "lithify_result_json": (Text, [Handle]),
    "lithify_result_message_count": (Size, [Handle]),
    "lithify_result_message": (Text, [Handle, Size]),
    "lithify_result_message_code": (Text, [Handle, Size]),
    "lithify_result_message_severity": (Text, [Handle, Size]),
    "lithify_result_input": (Text, [Handle, Size]),
    "lithify_result_output": (Text, [Handle, Size]),
    "lithify_result_bytes": (Handle, [Handle, ctypes.POINTER(Size)]),
    "lithify_status_text": (Text, [ctypes.c_int]),
}


def test_threads() -> None:
    """The program with sanitizers ends with an error when one has anything to say."""
    program = LITHIFY.parent / "lithify_stress"
    models = [argument for name, specs in FILES.items() for argument in (str(DATA / f"{name}.pt"), *specs)]
    done = subprocess.run([program, "8", "1000", *models], capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr[-4000:]
    assert done.stdout == "1000 exports by 8 threads\n"


# ---- from Python, which cannot load a library that was built with sanitizers --------------------------


@pytest.fixture(scope="module")
def lib() -> ctypes.CDLL:
    if LITHIFY.parent != ROOT / "build":
        pytest.skip("needs the library without sanitizers")
    library = ctypes.CDLL(str(LITHIFY.parent / "liblithify.so"))
    for name, (result, arguments) in FUNCTIONS.items():
        getattr(library, name).restype = result
        getattr(library, name).argtypes = arguments
    return library


@pytest.fixture
def options(lib: ctypes.CDLL) -> Iterator[int]:
    handle = lib.lithify_options_new()
    yield handle
    assert lib.lithify_options_free(handle) == OK
    assert lib.lithify_options_free(handle) == HANDLE, "freed twice"


def test_every_function_is_seen(lib: ctypes.CDLL) -> None:
    """What the headers declare is in the shared library, and nothing else is."""
    listed = subprocess.run(
        ["nm", "-DC", "--defined-only", "--with-symbol-versions", ROOT / "build" / "liblithify.so"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.splitlines()
    seen = [line.split(" ", 2)[2] for line in listed if " T " in line]
    c, cpp = ([s for s in seen if s.endswith(f"@@{v}")] for v in ("LITHIFY_1", "LITHIFY_CPP"))
    assert len(c) + len(cpp) == len(seen), seen
    assert len(c) == (ROOT / "include/lithify/lithify.h").read_text().count("\nLITHIFY_API ")
    header = "".join((ROOT / "include/lithify" / name).read_text() for name in ("lithify.hpp", "capture.hpp"))
    assert len(cpp) == header.count("LITHIFY_API ") - header.count("class LITHIFY_API ")


def test_without_an_opset(lib: ctypes.CDLL, options: int, tmp_path: Path) -> None:
    """The lowest from 18 on is taken, and reported."""
    path, result = tmp_path / "float8.pt", Handle()
    torch.jit.trace(lambda x: x.to(torch.float8_e5m2).float(), torch.rand(4)).save(str(path))
    assert lib.lithify_options_add_input(options, b"x:float32[4]") == OK
    assert lib.lithify_export_file(str(path).encode(), None, options, ctypes.byref(result)) == OK
    report = json.loads(lib.lithify_result_json(result))
    assert report["opset"] == 19 and "opset 19 is the lowest from 18 on" in json.dumps(report["messages"])
    assert lib.lithify_result_free(result) == OK


def test_export(lib: ctypes.CDLL, options: int, tmp_path: Path) -> None:
    model, result = str(DATA / "recurrent.pt").encode(), Handle()
    for spec in FILES["recurrent"]:
        assert lib.lithify_options_add_input(options, spec.encode()) == OK
    assert lib.lithify_options_set_opset(options, 17) == OK
    assert lib.lithify_options_add_output_name(options, b"scores") == OK
    out = tmp_path / "model.onnx"
    assert lib.lithify_export_file(model, str(out).encode(), options, ctypes.byref(result)) == OK
    report = json.loads(lib.lithify_result_json(result))
    assert (report["opset"], report["file_bytes"]) == (17, out.stat().st_size)
    assert lib.lithify_result_input(result, 0) == b"ids: int64[B, S]"
    assert lib.lithify_result_output(result, 0).startswith(b"scores: float32[B, ")
    assert lib.lithify_result_free(result) == OK

    contents, size = (DATA / "recurrent.pt").read_bytes(), Size()
    assert lib.lithify_export_bytes(contents, len(contents), None, options, ctypes.byref(result)) == OK
    bytes_ = lib.lithify_result_bytes(result, ctypes.byref(size))
    assert ctypes.string_at(bytes_, size.value) == out.read_bytes()
    assert lib.lithify_result_free(result) == OK


def test_check_inspect_operators(lib: ctypes.CDLL, options: int) -> None:
    contents, result = (DATA / "linear.pt").read_bytes(), Handle()
    assert lib.lithify_options_add_input(options, FILES["linear"][0].encode()) == OK
    assert lib.lithify_check_bytes(contents, len(contents), options, ctypes.byref(result)) == OK
    assert json.loads(lib.lithify_result_json(result))["exportable"]
    lib.lithify_result_free(result)
    assert lib.lithify_inspect_bytes(contents, len(contents), ctypes.byref(result)) == OK
    assert "def forward" in json.loads(lib.lithify_result_json(result))["code"]
    lib.lithify_result_free(result)
    assert lib.lithify_operators(ctypes.byref(result)) == OK
    assert len(json.loads(lib.lithify_result_json(result))) > 900
    lib.lithify_result_free(result)


def test_claims(lib: ctypes.CDLL, options: int, tmp_path: Path) -> None:
    contents, result, answer, why = (DATA / "linear.pt").read_bytes(), Handle(), ctypes.c_int(), Handle()
    assert lib.lithify_options_add_input(options, FILES["linear"][0].encode()) == OK
    out = tmp_path / "model.onnx"
    assert lib.lithify_export_bytes(contents, len(contents), str(out).encode(), options, ctypes.byref(result)) == OK

    def holds(of: Handle, name: bytes, size: int) -> tuple[int, int]:
        names, sizes = (Text * 1)(name), (ctypes.c_int64 * 1)(size)
        return lib.lithify_claims_holds(of, names, sizes, 1, ctypes.byref(answer), ctypes.byref(why)), answer.value

    exported = json.loads(lib.lithify_result_json(result))["claims"]
    assert holds(result, b"B", 3) == (OK, 1)
    assert holds(result, b"B", 0) == (OK, 0)
    assert json.loads(lib.lithify_result_json(why)) == {"holds": False, "why": "B >= 1 does not hold at B=0"}
    assert holds(result, b"C", 3) == (MODEL, 2)
    assert b"the dynamic dimensions are B" in lib.lithify_result_message(why, 0)
    lib.lithify_result_free(result)
    assert lib.lithify_claims_file(str(out).encode(), ctypes.byref(result)) == OK
    assert json.loads(lib.lithify_result_json(result)) == exported
    assert holds(result, b"B", 3) == (OK, 1)
    onnx = out.read_bytes()
    assert lib.lithify_claims_bytes(onnx, len(onnx), ctypes.byref(result)) == OK
    assert holds(result, b"B", 3) == (OK, 1)
    assert lib.lithify_claims_bytes(b"no model", 8, ctypes.byref(why)) == MODEL

    some = Handle()
    assert lib.lithify_operators(ctypes.byref(some)) == OK
    assert holds(some, b"B", 3) == (ARGUMENT, 2), "it has no claims"
    assert holds(result, b"", 3) == (ARGUMENT, 2)
    assert holds(None, b"B", 3) == (HANDLE, 2)
    assert lib.lithify_claims_holds(result, None, None, 1, ctypes.byref(answer), None) == ARGUMENT
    assert lib.lithify_claims_holds(result, None, None, 0, None, None) == ARGUMENT
    assert lib.lithify_claims_file(None, None) == ARGUMENT


def test_targets_and_custom_operators(lib: ctypes.CDLL, options: int) -> None:
    contents, result = (DATA / "linear.pt").read_bytes(), Handle()
    assert lib.lithify_options_add_input(options, FILES["linear"][0].encode()) == OK
    assert lib.lithify_options_set_target(options, b"ort-1.8") == OK
    assert lib.lithify_options_set_allow_custom(options, 1) == OK
    assert lib.lithify_check_bytes(contents, len(contents), options, ctypes.byref(result)) == OK
    report = json.loads(lib.lithify_result_json(result))
    assert report["opset"] == 14 and report["lowest_opset"] == 9
    lib.lithify_result_free(result)
    assert lib.lithify_options_set_custom_operators(options, b"my::op\n") == OK
    assert lib.lithify_export_bytes(contents, len(contents), None, options, ctypes.byref(result)) == MODEL
    assert lib.lithify_result_message_code(result, 0) == b"LTH020"
    lib.lithify_result_free(result)


def test_bad_calls(lib: ctypes.CDLL, options: int, tmp_path: Path) -> None:
    """Whatever is passed, the answer is an error by value."""
    out, result = str(tmp_path / "model.onnx").encode(), Handle()
    made = ctypes.byref(result)
    some = Handle()
    assert lib.lithify_operators(ctypes.byref(some)) == OK
    good = str(DATA / "linear.pt").encode()
    calls = 0

    def answers(status: int, name: str, *arguments: object) -> None:
        nonlocal calls
        calls += 1
        assert getattr(lib, name)(*arguments) == status, (name, arguments)
        if result:
            assert lib.lithify_result_message_count(result) > 0
            assert lib.lithify_result_message_severity(result, 0) == b"error"
            assert lib.lithify_result_message_code(result, 0).startswith(b"LTH")
            assert lib.lithify_result_free(result) == OK
            result.value = None

    freed = lib.lithify_options_new()
    lib.lithify_options_free(freed)
    no_options = [some, freed, 1 << 40, 0xDEAD, 8]
    for handle in (None, *no_options):
        answers(HANDLE, "lithify_options_set_opset", handle, 18)
        answers(HANDLE, "lithify_options_set_external_data", handle, 0)
        answers(HANDLE, "lithify_options_set_target", handle, b"ort-1.17")
        answers(HANDLE, "lithify_options_set_custom_operators", handle, b"my::op(Tensor x) -> Tensor")
        answers(HANDLE, "lithify_options_set_allow_custom", handle, 1)
        for add in ("input", "input_name", "output_name"):
            answers(HANDLE, f"lithify_options_add_{add}", handle, b"x")
        answers(HANDLE, "lithify_options_add_dynamic_axis", handle, b"x", 0, b"batch")
    for handle in no_options:
        answers(HANDLE, "lithify_options_free", handle)
        answers(HANDLE, "lithify_export_file", good, out, handle, made)
        answers(HANDLE, "lithify_export_bytes", b"PK", 2, out, handle, made)
        answers(HANDLE, "lithify_check_file", good, handle, made)
        answers(HANDLE, "lithify_check_bytes", b"PK", 2, handle, made)
    for handle in (options, freed, 1 << 40):
        answers(HANDLE, "lithify_result_free", handle)
    for handle, index in itertools.product((None, options, freed), (0, 1, 1 << 60)):
        for part in ("message", "message_code", "message_severity", "input", "output"):
            answers(None, f"lithify_result_{part}", handle, index)
    for handle in (None, options, freed):
        answers(None, "lithify_result_json", handle)
        answers(0, "lithify_result_message_count", handle)
        answers(None, "lithify_result_bytes", handle, ctypes.byref(Size()))
    answers(None, "lithify_result_bytes", some, None)
    answers(None, "lithify_result_message", some, 0)

    for opset in (-1, 0, 8, 27, 2**31 - 1):
        answers(ARGUMENT, "lithify_options_set_opset", options, opset)
    for runtime in (None, b"", b"ort-7", b"x" * 4096):
        answers(ARGUMENT, "lithify_options_set_target", options, runtime)
    for when in (-1, 3, 2**31 - 1):
        answers(ARGUMENT, "lithify_options_set_external_data", options, when)
    for text in (None, b""):
        for add in ("input", "input_name", "output_name"):
            answers(ARGUMENT, f"lithify_options_add_{add}", options, text)
        answers(ARGUMENT, "lithify_options_add_dynamic_axis", options, text, 0, b"batch")
        answers(ARGUMENT, "lithify_options_add_dynamic_axis", options, b"x", 0, text)
        answers(ARGUMENT, "lithify_export_file", text, out, options, made)
        answers(ARGUMENT, "lithify_check_file", text, options, made)
        answers(ARGUMENT, "lithify_inspect_file", text, made)
        answers(ARGUMENT, "lithify_export_bytes", text, 0, out, options, made)
    answers(ARGUMENT, "lithify_export_bytes", None, 7, out, options, made)
    answers(ARGUMENT, "lithify_export_file", good, b"", options, made)
    answers(ARGUMENT, "lithify_export_file", good, None, options, None)

    contents = (DATA / "linear.pt").read_bytes()
    cuts = range(1, len(contents) - 1, len(contents) // 12)
    for bad in (b"PK", b"\0" * 64, b"x" * 4096, *(contents[:n] for n in cuts)):
        answers(MODEL, "lithify_export_bytes", bad, len(bad), out, options, made)
        answers(MODEL, "lithify_check_bytes", bad, len(bad), options, made)
        answers(MODEL, "lithify_inspect_bytes", bad, len(bad), made)
    for path in (b"/nowhere/model.pt", str(tmp_path).encode(), __file__.encode(), b"\xff\xfe"):
        answers(MODEL, "lithify_export_file", path, out, options, made)
        answers(MODEL, "lithify_inspect_file", path, None)
    answers(MODEL, "lithify_export_file", good, b"/nowhere/model.onnx", None, made)
    for spec in (b"x", b"x:", b"x:float32[", b"nobody:float32[2]", b"input:float33[2,4]", b"input:float32[-1,4]"):
        wrong = lib.lithify_options_new()
        assert lib.lithify_options_add_input(wrong, spec) == OK
        answers(MODEL, "lithify_export_file", good, out, wrong, made)
        assert lib.lithify_options_free(wrong) == OK
    assert not Path(out.decode()).exists()
    assert calls >= 200
    assert lib.lithify_result_free(some) == OK
