"""The comforts of the command line: streams, defaults, suggestions, colors, widths, JSON, completion, the manual page."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import shutil
import struct
import subprocess
import termios
from collections import Counter
from html.parser import HTMLParser
from pathlib import Path

import onnx
import pytest
import torch
from torch import nn

from tests.cases import ROOT
from tests.driver import LITHIFY, SECONDS
from tests.schema import validate

COMMANDS = ["export", "inspect", "check", "show", "diff", "ops", "explain", "completion"]


def run(
    *words: str | Path, data: bytes | None = None, env: dict[str, str] | None = None, cwd: Path | None = None
) -> subprocess.CompletedProcess[bytes]:
    clean = {k: v for k, v in os.environ.items() if k not in ("COLUMNS", "NO_COLOR", "CLICOLOR_FORCE")}
    command = [str(LITHIFY.resolve()), *map(str, words)]
    return subprocess.run(command, input=data, capture_output=True, timeout=SECONDS, env=clean | (env or {}), cwd=cwd)


def text_of(*words: str | Path, **more: str) -> str:
    done = run(*words, env=more)
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout.decode()


def on_terminal(columns: int, *words: str | Path, **more: str) -> str:
    """What the program prints on a terminal of that width."""
    host, terminal = pty.openpty()
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
    env = {k: v for k, v in os.environ.items() if k not in ("COLUMNS", "NO_COLOR")} | {"TERM": "xterm"} | more
    process = subprocess.Popen([str(LITHIFY), *map(str, words)], stdout=terminal, stderr=terminal, stdin=terminal, env=env)
    os.close(terminal)
    printed = b""
    while True:
        try:
            printed += (part := os.read(host, 65536))
        except OSError:  # the other end is closed
            break
        if not part:
            break
    process.wait(timeout=SECONDS)
    os.close(host)
    return printed.decode().replace("\r\n", "\n")


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.norm = nn.LayerNorm(4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.norm(torch.relu(self.linear(x)))


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "model.pt"
    torch.jit.trace(nn.Sequential(Block(), Block()), torch.randn(2, 4)).save(str(path))
    return path


# ---- files and streams --------------------------------------------------------------------------------


def test_output_is_optional(model: Path) -> None:
    assert f"{model} -> {model.with_suffix('.onnx')}" in text_of("export", model)
    onnx.checker.check_model(str(model.with_suffix(".onnx")))


def test_standard_streams(model: Path, tmp_path: Path) -> None:
    done = run("export", "-", "-o", "-", data=model.read_bytes())
    assert done.returncode == 0, done.stderr
    onnx.checker.check_model(onnx.load_from_string(done.stdout))
    assert b"- -> - (opset" in done.stderr, "the report is beside the model"
    text_of("export", model, "-o", tmp_path / "file.onnx")
    assert (tmp_path / "file.onnx").read_bytes() == done.stdout
    for command in ("inspect", "check"):
        assert run(command, "-", data=model.read_bytes()).returncode == 0
    assert b"ONNX" in run("show", "-", data=done.stdout).stdout
    assert run("export", "-", data=model.read_bytes()).returncode == 2, "no name to derive another from"
    assert run("export", model, "-o", "-", "--json").returncode == 2
    assert "standard output is a terminal" in on_terminal(200, "export", model, "-o", "-")


def test_full_standard_output(model: Path) -> None:
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run([str(LITHIFY), "export", str(model), "-o", "-"], stdout=full, stderr=subprocess.PIPE)
    assert done.returncode == 4 and b"LTH080" in done.stderr


def test_exit_codes(model: Path, tmp_path: Path) -> None:
    (tmp_path / "damaged.pt").write_bytes(model.read_bytes()[:-100])
    out = tmp_path / "nowhere" / "model.onnx"
    assert run("export", model, "-o", out).returncode == 4
    assert run("export", tmp_path / "damaged.pt").returncode == 3
    assert run("export", tmp_path / "missing.pt").returncode == 3
    assert run("export", model, "--dynamic", "nobody:0=batch").returncode == 2
    assert run("export", model, "--dynamik", "input:0=batch").returncode == 2
    torch.jit.trace(Strange(), torch.ones(2)).save(str(tmp_path / "strange.pt"))
    assert run("export", tmp_path / "strange.pt").returncode == 1
    assert run("check", tmp_path / "strange.pt").returncode == 1


class Strange(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.special.bessel_j0(x)


def test_quiet_prints_errors_only(model: Path, tmp_path: Path) -> None:
    class Warns(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x * 7 + x.sum() / 49

    torch.jit.trace(Warns(), torch.randn(7, 3)).save(str(tmp_path / "warns.pt"))
    words = ["export", tmp_path / "warns.pt", "--dynamic", "x:0=batch"]
    assert b"warning" in run(*words).stderr
    done = run(*words, "--quiet")
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    done = run("check", "-q", model)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    assert b"error" in run("export", "-q", tmp_path / "missing.pt").stderr


# ---- suggestions --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        (["exprot", "model.pt"], "did you mean 'export'?"),
        (["export", "model.pt", "--dynamc", "x:0=b"], "did you mean '--dynamic'?"),
        (["check", "model.pt", "--opsets", "18"], "did you mean '--opset'?"),
        (["export", "model.pt", "--dynamic", "imput:0=batch"], "did you mean 'input'?"),
        (["export", "model.pt", "--input", "inputs:float32[2,4]"], "did you mean 'input'?"),
        (["export", "model.pt", "--target", "ort-1-17"], "did you mean 'ort-1.17'?"),
        (["ops", "softmx"], "did you mean 'softmax'?"),
        (["export", "model.pt", "extra"], "the argument 'extra' is not expected"),
    ],
    ids=lambda v: " ".join(v) if isinstance(v, list) else "",
)
def test_suggestions(words: list[str], meant: str, model: Path) -> None:
    done = run(*words, cwd=model.parent)
    assert done.returncode == 2 and meant in done.stderr.decode(), done.stderr.decode()
    failed = run(*words, "--json", cwd=model.parent)
    assert failed.returncode == 2 and not failed.stderr
    validate(json.loads(failed.stdout), "failure")


def test_hint_when_all_sizes_are_fixed(model: Path) -> None:
    printed = text_of("export", model)
    assert "all sizes are fixed" in printed and "--dynamic 'input:0=input_0'" in printed
    printed = text_of("export", model, "--dynamic", "input:0=input_0")
    assert "all sizes are fixed" not in printed and "input_0: any size" in printed


# ---- terminals ----------------------------------------------------------------------------------------


def test_colors(model: Path) -> None:
    missing = model.with_name("missing.pt")
    assert "\033[" in on_terminal(100, "inspect", model) and "\033[1;31merror LTH001" in on_terminal(100, "inspect", missing)
    for refused in ({"NO_COLOR": "1"}, {"TERM": "dumb"}):
        assert "\033" not in on_terminal(100, "inspect", model, **refused)
    assert "\033" not in text_of("inspect", model)
    assert "\033[" in text_of("inspect", model, CLICOLOR_FORCE="1")


@pytest.mark.parametrize("columns", [60, 80, 120])
def test_lines_fit_the_terminal(columns: int, model: Path) -> None:
    text_of("export", model)
    for words in (["export", model], ["check", model, "--target", "ort-1.12"], ["show", model.with_suffix(".onnx")]):
        printed = on_terminal(columns, *words, NO_COLOR="1")
        for line in printed.splitlines():
            assert len(line) <= columns or str(model.parent) in line, line


@pytest.mark.parametrize("command", ["", *COMMANDS])
def test_help_is_short_and_has_examples(command: str) -> None:
    text = text_of(*command.split(), "--help")
    assert max(map(len, text.splitlines())) <= 100 and "Examples:\n  lithify " in text
    narrow = on_terminal(70, *command.split(), "--help")
    assert max(len(line) for line in narrow.split("Examples:")[0].splitlines()) <= 70


# ---- what commands print ------------------------------------------------------------------------------


def test_operators_by_pattern() -> None:
    names = [o["name"] for o in json.loads(text_of("ops", "softmax", "--json"))]
    assert "aten::softmax" in names and all("softmax" in n for n in names)
    names = [o["name"] for o in json.loads(text_of("ops", "aten::log*", "--json"))]
    assert "aten::log_softmax" in names and all(n.startswith("aten::log") for n in names)
    assert "aten::softmax" in text_of("ops", "softmax")


def test_state_dict_as_a_tree(tmp_path: Path) -> None:
    weights = nn.Sequential(Block(), Block()).state_dict()
    torch.save(weights, tmp_path / "state.pt")
    torch.save({"epoch": 3, "model": weights}, tmp_path / "checkpoint.pt")
    header = {n: {"dtype": "F32", "shape": [4], "data_offsets": [0, 16]} for n in ("a.weight", "a.bias")}
    encoded = json.dumps(header).encode()
    (tmp_path / "x.safetensors").write_bytes(struct.pack("<Q", len(encoded)) + encoded + bytes(16))
    printed = text_of("inspect", tmp_path / "state.pt").splitlines()
    assert printed[0].endswith(": state dict") and "  weights  8 tensors, 224 bytes" in printed
    assert printed[3:6] == ["  0", "    linear", "      weight  float32[4, 4]  64 bytes"], printed
    report = json.loads(text_of("inspect", tmp_path / "checkpoint.pt", "--json"))
    validate(report, "inspect")
    assert {t["name"] for t in report["tensors"]} == {f"model.{n}" for n in weights}
    report = json.loads(text_of("inspect", tmp_path / "x.safetensors", "--json"))
    validate(report, "inspect")
    assert [t["name"] for t in report["tensors"]] == ["a.bias", "a.weight"]


class Page(HTMLParser):
    """Counts the tags of a page that is well-formed, and collects what it refers to."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.counts: Counter[str] = Counter()
        self.links: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.counts[tag] += 1
        self.links += [value or "" for name, value in attrs if name in ("href", "src")]
        if tag not in ("meta", "input"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_report(model: Path, tmp_path: Path) -> None:
    report = tmp_path / "report.html"
    text_of("export", model, "--dynamic", "input:0=batch", "--report", report)
    text, page = report.read_text(), Page()
    page.feed(text)
    assert not page.open and not page.links and "http" not in text, "the page is whole, and needs no network"
    assert page.counts["details"] >= 4 and page.counts["h2"] >= 4
    for word in ("float32[batch, 4]", "any size", "module 0.norm", "weight 0.linear.weight", "LayerNormalization"):
        assert word in text, word
    done = run("export", model, "--report", tmp_path / "nowhere" / "report.html")
    assert done.returncode == 4 and b"LTH080" in done.stderr


def test_advice_for_a_target(model: Path) -> None:
    assert "ort-1.12 loads opsets up to 17; in opset 17" in text_of("check", model, "--target", "ort-1.12")
    printed = text_of("check", model, "--target", "tensorrt-8.4")
    assert "tensorrt-8.4 is not in the table of runtimes; tensorrt-8.2, the last release before it" in printed
    assert "and needs tensorrt-8.5" in printed
    assert "it loads opset 13 as tensorrt-8.2 does" in text_of("export", model, "--target", "tensorrt-8.4")
    done = run("export", model, "--target", "coremltools-7.1")
    assert done.returncode == 2 and b"loads no ONNX file" in done.stderr


def test_json_agrees_with_the_schema(model: Path) -> None:
    exported = json.loads(text_of("export", model, "--dynamic", "input:0=batch", "--json"))
    validate(exported, "export")
    assert exported["inputs"][0]["shape"] == ["batch", 4]
    other = model.with_name("other.onnx")
    text_of("export", model, "-o", other)
    for words, kind in (
        (["inspect", model, "--dynamic", "--code"], "inspect"),
        (["check", model], "check"),
        (["check", model.with_suffix(".onnx"), "--at", "batch=3"], "check_at"),
        (["show", model.with_suffix(".onnx")], "show"),
        (["ops"], "ops"),
    ):
        validate(json.loads(text_of(*words, "--json")), kind)
    done = run("diff", model.with_suffix(".onnx"), other, "--json")
    assert done.returncode == 1
    validate(json.loads(done.stdout), "diff")
    for words in (["export", "missing.pt"], ["inspect", "missing.pt"], ["check", "missing.pt"], ["show", "missing.onnx"]):
        done = run(*words, "--json")
        assert done.returncode == 3 and not done.stderr
        validate(json.loads(done.stdout), "failure")


def test_a_size_that_is_not_known_is_null(tmp_path: Path) -> None:
    torch.jit.script(Block()).save(str(tmp_path / "scripted.pt"))
    report = json.loads(text_of("inspect", tmp_path / "scripted.pt", "--json"))
    validate(report, "inspect")
    assert report["inputs"] == [{"name": "x", "dtype": "", "shape": None}]


# ---- completion and manual ----------------------------------------------------------------------------


def completed(line: str) -> list[str]:
    """The words that bash offers for the last word of a line."""
    script = text_of("completion", "bash")
    words = line.split(" ")
    program = f"""{script}
COMP_WORDS=({" ".join(f"'{w}'" for w in words)}); COMP_CWORD={len(words) - 1}; _lithify; printf '%s\\n' "${{COMPREPLY[@]}}" """
    return subprocess.run(["bash", "-c", program], capture_output=True, text=True, check=True).stdout.split()


def test_completion_of_bash() -> None:
    assert completed("lithify insp") == ["inspect"]
    assert set(completed("lithify ")) >= set(COMMANDS)
    assert "--dynamic" in completed("lithify export --dyn")
    assert set(completed("lithify export x.pt --external-data ")) == {"auto", "always", "never"}


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_completion_of_other_shells(shell: str, tmp_path: Path) -> None:
    script = text_of("completion", shell)
    for word in ("export", "show", "dynamic", "auto always never"):
        assert word in script
    if shutil.which(shell):
        (tmp_path / "script").write_text(script)
        subprocess.run([shell, "-n", str(tmp_path / "script")], check=True)


def test_manual_page(tmp_path: Path) -> None:
    page = text_of("man")
    assert page.startswith(".TH LITHIFY 1") and all(f".SS lithify {c}" in page for c in COMMANDS)
    assert all(line.startswith(".") or not line.startswith("'") for line in page.splitlines())
    if shutil.which("man"):
        (tmp_path / "lithify.1").write_text(page)
        done = subprocess.run(["man", "--warnings", "-l", str(tmp_path / "lithify.1")], capture_output=True, text=True)
        if done.returncode == 0:
            assert not done.stderr and "EXIT STATUS" in done.stdout


def test_documented_exit_codes() -> None:
    text = (ROOT / "docs/command-line.md").read_text()
    assert all(f"| {code} | " in text for code in range(5))
