"""How time and memory grow with the number of operators: programs of 1,000 to 1,000,000.

python bench/growth.py [--most 1000000]
"""

from __future__ import annotations

import argparse
import io
import os
import subprocess
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

LITHIFY = Path(__file__).parent.parent / "build" / "lithify"
INPUT = "x:float32[batch=2,4]"
HEAD = """class M(Module):
  __parameters__ = []
  __buffers__ = []
  training : bool
"""


def chain(n: int) -> Iterator[str]:
    """Each operator takes the result of the one before."""
    yield "v0 = x"
    for i in range(n):
        yield f"v{i + 1} = torch.{'relu' if i % 2 else 'neg'}(v{i})"
    yield f"return v{n}"


def in_place(n: int) -> Iterator[str]:
    """Each operator writes to the same tensor, through a view."""
    yield "y = torch.clone(x)"
    yield "v = torch.select(y, 1, 0)"
    for i in range(n):
        yield f"_{i} = torch.mul_({'v' if i % 2 else 'y'}, 2)"
    yield "return y"


def wide(n: int) -> Iterator[str]:
    """Each operator takes the input, and their results are one list."""
    for i in range(n):
        yield f"v{i} = torch.mul(x, {i % 7 + 2})"
    yield "return torch.cat([" + ", ".join(f"v{i}" for i in range(n)) + "])"


def dictionary(n: int) -> Iterator[str]:
    """Each result is an entry of a dict, and is taken from it again."""
    yield "d = annotate(Dict[str, Tensor], {})"
    yield "v0 = x"
    for i in range(n // 3):
        yield f'_{i} = torch._set_item(d, "k{i}", torch.neg(v{i}))'
        yield f'v{i + 1} = torch.__getitem__(d, "k{i}")'
    yield f"return v{n // 3}"


KINDS: dict[str, Callable[[int], Iterator[str]]] = {"chain": chain, "in place": in_place, "wide": wide, "dict": dictionary}


STATE = b"c__torch__\nM\n)\x81}(X\x08\x00\x00\x00training\x89ub"


def archive(code: str, state: bytes = STATE) -> bytes:
    """A file of torch.jit.save, of its code and the pickle of its root."""
    records = {
        "version": b"3\n",
        "byteorder": b"little",
        "constants.pkl": b"\x80\x02).",
        "data.pkl": b"\x80\x02" + state + b".",
        "code/__torch__.py": code.encode(),
    }
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as file:
        for name, contents in records.items():
            file.writestr(f"m/{name}", contents)
    return out.getvalue()


def model(kind: str, n: int) -> bytes:
    body = "".join(f"    {line}\n" for line in KINDS[kind](n))
    return archive(f"{HEAD}  def forward(self: __torch__.M,\n    x: Tensor) -> Tensor:\n{body}")


def nested(depth: int) -> bytes:
    """Modules in modules, each of which calls the next."""
    code, state = "", b""
    for i in range(depth):
        last = i + 1 == depth
        attribute = "" if last else f"  m : __torch__.M{i + 1}\n"
        result = "torch.neg(x)" if last else "torch.relu((self.m).forward(x, ))"
        code += (
            f"class M{i}(Module):\n  __parameters__ = []\n  __buffers__ = []\n{attribute}"
            f"  def forward(self: __torch__.M{i},\n    x: Tensor) -> Tensor:\n    return {result}\n"
        )
        state += f"c__torch__\nM{i}\n".encode() + b")\x81}(" + (b"" if last else b"X\x01\x00\x00\x00m")
    return archive(code, state + b"ub" * depth)


def measure(contents: bytes) -> tuple[float, float, str]:
    """Seconds of the processor, megabytes, and what went wrong."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "m.pt")
        path.write_bytes(contents)
        command = [str(LITHIFY), "export", str(path), "-o", f"{folder}/m.onnx", "-q", "--skip-sync", "--input", INPUT]
        run = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        assert run.stderr is not None
        messages = run.stderr.read()
        _, status, used = os.wait4(run.pid, 0)
    problem = "" if status == 0 else messages.partition("\n")[0] or f"status {status}"
    return used.ru_utime + used.ru_stime, used.ru_maxrss / 1024, problem


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--most", type=int, default=1_000_000)
    most = parser.parse_args().most
    print(f"{'program':<10}{'operators':>10}{'seconds':>9}{'times':>7}{'us each':>9}{'MB':>8}{'kB each':>9}")
    for kind in KINDS:
        before, n = None, 1000
        while n <= most:
            seconds, memory, problem = measure(model(kind, n))
            times = f"{seconds / before:.1f}" if before else ""
            row = f"{kind:<10}{n:>10}{seconds:>9.2f}{times:>7}{seconds / n * 1e6:>9.1f}{memory:>8.0f}{memory * 1024 / n:>9.2f}"
            print(row, problem, flush=True)
            before, n = seconds, n * 10
    seconds, memory, problem = measure(nested(1000))
    print(f"{'nested':<10}{1000:>10}{seconds:>9.2f}{'':>7}{seconds * 1e3:>9.1f}{memory:>8.0f}{memory * 1.024:>9.2f}", problem)


if __name__ == "__main__":
    main()
