"""The page in Chromium: what it shows of files of all kinds, and that it writes what the command line writes."""

from __future__ import annotations

import contextlib
import functools
import http.server
import json
import re
import shutil
import subprocess
import threading
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
import torch
from torch import nn

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "build-web" / "page"
# Built by clang, as the page's core is: compilers order some nodes otherwise.
LITHIFY = ROOT / "build-asan" / "lithify"
SHOTS = ROOT / "build-web" / "screenshots"
MOST_WASM = 4_000_000


class Handler(http.server.SimpleHTTPRequestHandler):
    """A static server, and what it was asked for."""

    extensions_map = {**http.server.SimpleHTTPRequestHandler.extensions_map, ".mjs": "text/javascript"}
    asked: list[str] = []

    def log_message(self, *arguments: Any) -> None:
        Handler.asked.append(self.requestline)

    def handle(self) -> None:
        with contextlib.suppress(ConnectionError):  # the page ended its worker
            super().handle()


@pytest.fixture(scope="session")
def url() -> Iterator[str]:
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Handler, directory=str(PAGE)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}/"
    server.shutdown()


class Browser:
    """A Chromium with one page; drive.mjs has the commands."""

    def __init__(self, url: str, width: int = 1100, height: int = 900, scheme: str = "light") -> None:
        chromium = shutil.which("chromium")
        assert chromium, "chromium is not installed"
        command = ["node", "web/drive.mjs", str(ROOT / "build-web" / "npm"), chromium, str(width), str(height), scheme]
        self.process = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.do("open", url=url)

    def do(self, command: str, **arguments: Any) -> Any:
        assert self.process.stdin and self.process.stdout
        self.process.stdin.write(json.dumps({"command": command, **arguments}) + "\n")
        self.process.stdin.flush()
        answer = json.loads(self.process.stdout.readline() or '{"failure": "the browser ended"}')
        assert "failure" not in answer, f"{command} {arguments}: {answer.get('failure')}"
        return answer["value"]

    def choose(self, file: Path) -> None:
        self.do("choose", selector="#file", file=str(file))

    def text(self, selector: str) -> str:
        return "\n".join(self.do("text", selector=selector))

    def wait(self, selector: str, state: str = "visible") -> None:
        self.do("wait", selector=selector, state=state)

    def export(self, into: Path) -> bytes:
        self.do("download", selector="#export", file=str(into))
        return into.read_bytes()

    def close(self) -> None:
        log = self.do("log")
        assert self.process.stdin
        self.process.stdin.close()
        self.process.wait(60)
        assert log == [], "errors in the page, or requests to elsewhere"


@pytest.fixture
def browser(url: str) -> Iterator[Browser]:
    with_page = Browser(url)
    yield with_page
    with_page.close()


def command_line(model: Path, out: Path, *options: str) -> bytes:
    subprocess.run([LITHIFY, "export", model, "-o", out, "-q", *options], check=True, capture_output=True, timeout=300)
    return out.read_bytes()


class Tagger(nn.Module):
    """Sizes of the sample in its code, and weights of all kinds."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(50, 16)
        self.encoder = nn.LSTM(16, 8, batch_first=True, bidirectional=True)
        self.head = nn.Linear(16, 4)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        states, _ = self.encoder(self.embed(tokens))
        return self.head(states).view(2, -1, 4)


class Gate(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(6, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.linear(x)
        if y.sum() > 0:
            y = y.relu()
        return y


class Large(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(200_000, 256)
        self.head = nn.Linear(256, 2)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        return self.head(self.table(tokens).mean(1))


TOKENS = torch.randint(50, (2, 7))


@pytest.fixture(scope="session")
def traced(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, nn.Module]:
    torch.manual_seed(0)
    model = Tagger().eval()
    file = tmp_path_factory.mktemp("models") / "tagger.pt"
    torch.jit.trace(model, (TOKENS,)).save(str(file))
    return file, model


def session(file: Path) -> onnxruntime.InferenceSession:
    return onnxruntime.InferenceSession(str(file), providers=["CPUExecutionProvider"])


def check(file: Path, model: nn.Module, samples: list[torch.Tensor]) -> None:
    run = session(file)
    name = run.get_inputs()[0].name
    for sample in samples:
        with torch.no_grad():
            expected = model(sample).numpy()
        np.testing.assert_allclose(run.run(None, {name: sample.numpy()})[0], expected, rtol=1e-4, atol=1e-5)


def test_size_of_the_core() -> None:
    assert (PAGE / "lithify.wasm").stat().st_size <= MOST_WASM


def test_traced(browser: Browser, traced: tuple[Path, nn.Module], tmp_path: Path) -> None:
    file, model = traced
    browser.choose(file)
    browser.wait("#verdict.good")
    assert "TorchScript" in browser.text("#facts") and "tokens: int64[2, 7]" in browser.text("#facts")
    assert "aten::lstm" in browser.do("evaluate", script="document.getElementById('operators').textContent")
    browser.do("fill", selector="[data-axis='0']", text="batch")
    browser.do("fill", selector="[data-axis='1']", text="seq")
    browser.wait("#messages li")
    written = browser.export(tmp_path / "page.onnx")
    assert written == command_line(file, tmp_path / "program.onnx", "--dynamic", "tokens:0=batch,1=seq")
    assert "--dynamic tokens:0=batch,1=seq" in browser.text("#command").replace("'", "")
    note = browser.text("#messages li")
    assert "LTH062" in note and "test_web.py:" in note, note
    model.forward = lambda t: model.head(model.encoder(model.embed(t))[0])  # what it does at every size
    check(tmp_path / "page.onnx", model, [torch.randint(50, shape) for shape in ((2, 7), (1, 1), (5, 3), (3, 20))])

    for batch, seq in ((1, 1), (4, 9)):
        browser.do("fill", selector="#sizes label:nth-child(1) input", text=str(batch))
        browser.do("fill", selector="#sizes label:nth-child(2) input", text=str(seq))
        browser.do("click", selector="#run")
        browser.wait(f"#runs td:text-is('batch={batch}, seq={seq}')")
    assert "float32[1, 1, 4]" in browser.text("#runs") and "float32[4, 9, 4]" in browser.text("#runs")
    assert browser.do("text", selector="#runs tr td:last-child") == ["yes", "yes"]

    browser.do("fill", selector="#search", text="lstm encoder")
    assert "LSTM" in browser.text("#tree") and "Gather" not in browser.text("#tree")
    browser.do("click", selector="#tree .row:has-text('LSTM')")
    assert "reads" in browser.text("#node") and "encoder.weight" in browser.text("#node")
    browser.do("click", selector="#messages button")
    browser.wait("#explanation[open]")
    assert "LTH062" in browser.text("#explanation h2")


def test_scripted(browser: Browser, tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = Gate().eval()
    file = tmp_path / "gate.pt"
    torch.jit.script(model).save(str(file))
    browser.choose(file)
    browser.wait("#verdict.warning")  # the types of its inputs are missing
    assert "LTH022" in browser.text("#messages")
    browser.do("fill", selector="input.sizes", text="batch=2, 6")
    browser.wait("#verdict.good")
    written = browser.export(tmp_path / "page.onnx")
    assert written == command_line(file, tmp_path / "program.onnx", "--input", "x:float32[batch=2,6]")
    check(tmp_path / "page.onnx", model, [torch.randn(n, 6) for n in (1, 2, 9)] + [-torch.ones(3, 6)])
    tree = browser.text("#tree")
    assert "then_branch of output" in tree and "Relu" in tree and "If output" in tree, tree


def test_exported_program(browser: Browser, tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 8), nn.GELU(), nn.LayerNorm(8)).eval()
    file = tmp_path / "program.pt2"
    shapes = {"input": {0: torch.export.Dim.DYNAMIC}}
    torch.export.save(torch.export.export(model, (torch.randn(4, 6),), dynamic_shapes=shapes), file)
    browser.choose(file)
    browser.wait("#verdict.good")
    assert "torch.export" in browser.text("#facts")
    browser.do("fill", selector="[data-axis='0']", text="rows")
    browser.do("select", selector="#version", value="target ort-1.17")
    browser.wait("#command:has-text('ort-1.17')")
    written = browser.export(tmp_path / "page.onnx")
    assert written == command_line(file, tmp_path / "program.onnx", "--dynamic", "input:0=rows", "--target", "ort-1.17")
    check(tmp_path / "page.onnx", model, [torch.randn(n, 6) for n in (1, 4, 30)])


def test_detect(browser: Browser, traced: tuple[Path, nn.Module], tmp_path: Path) -> None:
    browser.choose(traced[0])
    browser.wait("#verdict.good")
    browser.do("click", selector="#detect")
    browser.wait("#detected:not(:empty)")
    assert browser.do("value", selector="[data-axis='1']") == "tokens_1"
    written = browser.export(tmp_path / "page.onnx")
    assert written == command_line(traced[0], tmp_path / "program.onnx", "--dynamic", "auto")


def test_drop(browser: Browser) -> None:
    """A file that is dropped anywhere on the page is opened."""
    drop = """(async () => {
        const data = new DataTransfer();
        data.items.add(new File([await (await fetch('example.pt')).blob()], 'dropped.pt'));
        for (const type of ['dragover', 'drop'])
          document.body.dispatchEvent(new DragEvent(type, { dataTransfer: data, bubbles: true, cancelable: true }));
    })()"""
    browser.do("evaluate", script=drop)
    browser.wait("#verdict.good")
    assert "dropped.pt" in browser.text("#model-title")


def test_state_dict(browser: Browser, tmp_path: Path) -> None:
    torch.save(Gate().state_dict(), tmp_path / "weights.pt")
    browser.choose(tmp_path / "weights.pt")
    browser.wait("#verdict.bad")
    assert "state dict" in browser.text("#model-title")
    assert "linear.weight" in browser.do("evaluate", script="document.getElementById('tensors').textContent")
    message = browser.text("#messages li")
    assert "LTH002" in message and "torch.jit.trace" in message, message


def test_damaged(browser: Browser, traced: tuple[Path, nn.Module], tmp_path: Path) -> None:
    contents = traced[0].read_bytes()
    for name, damaged in (("half.pt", contents[: len(contents) // 2]), ("empty.pt", b""), ("text.pt", b"not a model")):
        (tmp_path / name).write_bytes(damaged)
        browser.choose(tmp_path / name)
        browser.wait(f"#model-title:has-text('{name}')")
        assert "LTH0" in browser.text("#messages li.error"), name
    browser.choose(traced[0])  # the next file is not affected
    browser.wait("#verdict.good")


def test_deep(browser: Browser, traced: tuple[Path, nn.Module], tmp_path: Path) -> None:
    """A program that nests deeper than the stack of the page is refused, and the next one can be exported."""
    source = tmp_path / "deep.pt"
    torch.jit.trace(nn.ReLU(), torch.ones(2)).save(str(source))
    endless = b"  def forward(self, x: Tensor) -> Tensor:\n    return (self).forward(torch.neg(x), )\n"
    with zipfile.ZipFile(source) as archive:
        records = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(source, "w") as archive:
        for name, contents in records.items():
            archive.writestr(name, re.sub(rb"(?s)  def forward.*", endless, contents) if name.endswith(".py") else contents)
    browser.choose(source)
    browser.wait("#verdict.bad")
    assert "LTH010" in browser.text("#messages li")
    browser.choose(traced[0])
    browser.wait("#verdict.good")


def test_custom_operator(browser: Browser, tmp_path: Path) -> None:
    with torch.library._scoped_library("webtest", "FRAGMENT") as library:
        library.define("soft(Tensor x, float alpha) -> Tensor")
        library.impl("soft", lambda x, alpha: x * alpha, "CompositeExplicitAutograd")

        class Custom(nn.Module):
            def forward(self, x: torch.Tensor) -> torch.Tensor:
                return torch.ops.webtest.soft(x.relu(), 0.5) + 1

        file = tmp_path / "custom.pt"
        torch.jit.trace(Custom(), (torch.randn(2, 3),)).save(str(file))
    browser.choose(file)
    browser.wait("#verdict.bad")
    assert "webtest::soft" in browser.text("#messages li") and "test_web.py:" in browser.text("#messages li")
    browser.do("click", selector="#options summary")
    browser.do("click", selector="#allow_custom")
    browser.wait("#verdict.good")
    written = browser.export(tmp_path / "page.onnx")
    assert written == command_line(file, tmp_path / "program.onnx", "--allow-custom")
    assert b"webtest" in written


@pytest.fixture(scope="session")
def large(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, nn.Module]:
    torch.manual_seed(0)
    model = Large().eval()
    file = tmp_path_factory.mktemp("large") / "large.pt"
    torch.jit.trace(model, (torch.randint(200_000, (2, 7)),)).save(str(file))
    assert file.stat().st_size > 200_000_000
    return file, model


def test_large(browser: Browser, large: tuple[Path, nn.Module], tmp_path: Path) -> None:
    file, model = large
    start = time.monotonic()
    browser.choose(file)
    browser.wait("#verdict.good")
    browser.do("fill", selector="[data-axis='0']", text="batch")
    browser.do("fill", selector="[data-axis='1']", text="seq")
    browser.wait("#command:has-text('seq')")
    written = browser.export(tmp_path / "page.onnx")
    seconds = time.monotonic() - start
    assert written == command_line(file, tmp_path / "program.onnx", "--dynamic", "tokens:0=batch,1=seq")
    check(tmp_path / "page.onnx", model, [torch.randint(200_000, shape) for shape in ((2, 7), (1, 1), (5, 12))])
    print(f"{len(written) / 1e6:.0f} MB in {seconds:.1f} s")


def test_cancel(browser: Browser, large: tuple[Path, nn.Module], traced: tuple[Path, nn.Module]) -> None:
    """Cancel is pressed in the moment in which the page begins to work; then the page works as before."""
    press = """(() => {
        const watch = new MutationObserver(() => { watch.disconnect(); document.getElementById('cancel').click(); });
        watch.observe(document.getElementById('work'), { attributes: true });
    })()"""
    browser.do("evaluate", script=press)
    browser.choose(large[0])
    browser.wait("#verdict:text-is('Cancelled.')", "attached")
    browser.wait("#work", "hidden")
    assert browser.do("evaluate", script="document.getElementById('model').hidden") is True
    browser.choose(large[0])
    browser.wait("#verdict.good")
    browser.do("evaluate", script=press)
    browser.do("click", selector="#export")
    browser.wait("#verdict:text-is('Cancelled.')")
    assert browser.do("evaluate", script="document.getElementById('result').hidden") is True
    browser.choose(traced[0])
    browser.wait("#verdict.good")


def test_other_capture(browser: Browser, tmp_path: Path) -> None:
    """Numbers that differ between two captures become formulas."""

    class Scaled(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x * int(x.shape[0])

    files = [tmp_path / f"{n}.pt" for n in (5, 7)]
    for file, n in zip(files, (5, 7), strict=True):
        torch.jit.trace(Scaled(), (torch.randn(n, 3),)).save(str(file))
    browser.choose(files[0])
    browser.wait("#verdict.good")
    browser.do("fill", selector="[data-axis='0']", text="rows")
    browser.wait("#messages:has-text('LTH064')")
    browser.do("click", selector="#options summary")
    browser.do("choose", selector="#also", file=str(files[1]))
    browser.wait("#command:has-text('--also 7.pt')")
    browser.wait("#messages:has-text('LTH062')")
    written = browser.export(tmp_path / "page.onnx")
    assert written == command_line(files[0], tmp_path / "program.onnx", "--dynamic", "x:0=rows", "--also", str(files[1]))
    check(tmp_path / "page.onnx", Scaled(), [torch.randn(n, 3) for n in (1, 4, 9)])


def test_choices(browser: Browser) -> None:
    """The core knows every choice that the page offers."""
    browser.do("click", selector="#example")
    browser.wait("#verdict.good")
    browser.do("click", selector="#options summary")
    for name in ("recover", "state", "weights", "precision"):
        values = browser.do("evaluate", script=f"[...document.getElementById('{name}').options].map(o => o.value)")
        assert values[0] == "" and len(values) > 2
        for value in values[1:]:
            browser.do("select", selector=f"#{name}", value=value)
            browser.wait(f"#command:has-text('--{name} {value}')")
            browser.wait("#work", "hidden")
            assert browser.do("text", selector="#verdict.good"), browser.text("#messages")
        browser.do("select", selector=f"#{name}", value="")


def test_keyboard(browser: Browser, tmp_path: Path) -> None:
    """Everything is reached with keys alone, and the tree moves by arrows."""
    browser.do("focus", selector="#example")
    browser.do("press", key="Enter")
    browser.wait("#verdict.good")
    browser.do("focus", selector="[data-axis='0']")
    browser.do("press", key="Enter")  # sends the form
    browser.wait("#graph")
    browser.do("focus", selector="#tree")
    for key in ("End", "Home", "ArrowDown", "ArrowLeft", "ArrowRight"):
        browser.do("press", key=key)
    assert browser.do("evaluate", script="document.querySelectorAll('[aria-selected=true]').length") == 1
    unnamed = """[...document.querySelectorAll('input, select, textarea, button')].filter(e =>
        !e.labels?.length && !e.textContent.trim() && !e.getAttribute('aria-label')).map(e => e.outerHTML)"""
    assert browser.do("evaluate", script=unnamed) == []


def test_many_nodes(browser: Browser) -> None:
    """A graph of 100,000 nodes is shown and searched without a noticeable delay; only rows in sight are elements."""
    script = """(async () => {
        const { GraphView } = await import('./graph.js');
        const $ = (id) => document.getElementById(id);
        $('graph').hidden = false;
        const lines = [];
        for (let i = 0; i < 100000; ++i)
          lines.push(`/layers/${i % 500}/Add_${i}_output_0 : float32[n, 8] = Add(/layers/x${i}, w)  # model.py:${i}`);
        const view = new GraphView({ tree: $('tree'), search: $('search'), found: $('found'), node: $('node') });
        const times = [];
        const time = (f) => { const start = performance.now(); f(); times.push(performance.now() - start); };
        time(() => view.show(lines.join('\\n')));
        time(() => { $('search').value = 'add_99999'; $('search').dispatchEvent(new Event('input')); });
        time(() => { $('search').value = 'add'; $('search').dispatchEvent(new Event('input')); });
        for (let i = 0; i < 50; ++i)
          time(() => { $('tree').scrollTop = i * 50000; $('tree').dispatchEvent(new Event('scroll')); });
        return { times, rows: document.querySelectorAll('.row').length };
    })()"""
    result = browser.do("evaluate", script=script)
    show, *searches = result["times"][:3]
    scrolls = result["times"][3:]
    assert result["rows"] < 100
    assert show < 3000 and max(searches) < 1500 and max(scrolls) < 100, result


@pytest.mark.parametrize(("width", "height", "scheme"), [(1100, 900, "light"), (1100, 900, "dark"), (375, 740, "light")])
def test_screenshots(url: str, width: int, height: int, scheme: str) -> None:
    """Pictures for people to look at; nothing is wider than the window."""
    SHOTS.mkdir(exist_ok=True)
    browser = Browser(url, width, height, scheme)
    browser.do("click", selector="#example")
    browser.wait("#verdict.good")
    browser.do("fill", selector="[data-axis='0']", text="batch")
    browser.do("fill", selector="[data-axis='1']", text="seq")
    browser.wait("#messages li")
    browser.do("click", selector="#export")
    browser.wait("#graph")
    browser.do("click", selector="#run")
    browser.wait("#runs tbody tr")
    browser.do("click", selector="#tree .row:has-text('LSTM')")
    browser.do("screenshot", file=str(SHOTS / f"{width}-{scheme}.png"), whole=True)
    assert browser.do("evaluate", script="document.documentElement.scrollWidth") <= width
    browser.close()


def test_nothing_is_sent(url: str) -> None:
    """The server was only asked for files of the page; runs after all other tests of a session."""
    names = {path.name for path in PAGE.iterdir()} | {""}
    assert all(line.split()[0] == "GET" and line.split()[1].lstrip("/") in names for line in Handler.asked), Handler.asked
