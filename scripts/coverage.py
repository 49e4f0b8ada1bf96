"""Line coverage by folder, of a build with LITHIFY_COVERAGE after its tests: `python scripts/coverage.py build-coverage`."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
import tempfile
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def counted_lines(build: Path) -> dict[Path, dict[int, bool]]:
    """Of each source file, which lines were run at least once. A line counts once, however often it is compiled."""
    lines: dict[Path, dict[int, bool]] = defaultdict(dict)
    with tempfile.TemporaryDirectory() as folder:
        for data in sorted(build.rglob("*.gcda")):
            subprocess.run(["gcov", "--json-format", str(data.resolve())], cwd=folder, capture_output=True, check=True)
            for report in Path(folder).glob("*.gcov.json.gz"):
                parsed = json.loads(gzip.decompress(report.read_bytes()))
                report.unlink()
                for file in parsed["files"]:
                    path = Path(parsed["current_working_directory"], file["file"]).resolve()
                    if not path.is_relative_to(ROOT / "src"):
                        continue
                    for line in file["lines"]:
                        number = line["line_number"]
                        lines[path][number] = lines[path].get(number, False) or line["count"] > 0
    return lines


def main() -> None:
    folders: dict[str, list[bool]] = defaultdict(list)
    for path, lines in counted_lines(Path(sys.argv[1])).items():
        folders[path.relative_to(ROOT / "src").parts[0]] += lines.values()
    if not folders:
        sys.exit("there are no counts: run the tests of a build with LITHIFY_COVERAGE first")
    everything = [run for runs in folders.values() for run in runs]
    print(f"{'folder':<16}{'lines':>8}{'run':>8}")
    for name, runs in [*sorted(folders.items()), ("all", everything)]:
        print(f"{name:<16}{len(runs):>8}{sum(runs) / len(runs):>8.1%}")


if __name__ == "__main__":
    main()
