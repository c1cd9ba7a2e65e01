"""Tables in a document, rendered from committed results.

    <!-- results: benchmarks/results/cpu-….json -->
    (what stands here is rendered)
    <!-- end of results -->

`python -m dmlgather.bench.document docs/benchmarks.md` renders every such block of a document anew; paths count from the
current directory.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

from dmlgather.bench.report import BenchReport
from dmlgather.bench.tables import markdown

_BLOCK = re.compile(r"(<!-- results: (\S+) -->\n).*?(<!-- end of results -->)", re.DOTALL)


def rendered(text: str, root: Path) -> str:
    """`text` with every block of results as its JSON file under `root` renders now."""

    def block(found: re.Match[str]) -> str:
        report = BenchReport.model_validate_json((root / found[2]).read_text(encoding="utf-8"))
        return f"{found[1]}\n{markdown(report)}\n{found[3]}"

    return _BLOCK.sub(block, text)


def main() -> None:
    """Render the documents that the command line names."""
    for name in sys.argv[1:]:
        path = Path(name)
        path.write_text(rendered(path.read_text(encoding="utf-8"), Path()), encoding="utf-8")


if __name__ == "__main__":
    main()
