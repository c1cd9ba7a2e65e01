"""Writes what ci/gpu found on a GPU: benchmarks/results/gpu-DEVICE-DATE.json."""

from __future__ import annotations

import datetime
import json
import re
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from dmlgather.backends.cuda import require

RESULTS = Path(__file__).parents[2] / "benchmarks" / "results"


def report(tests: Path, memcheck: str) -> dict[str, Any]:
    """Device, versions, counts of the test run, and what compute-sanitizer said."""
    cupy = require(0)
    suite = ElementTree.parse(tests).getroot().find("testsuite")
    assert suite is not None
    properties = cupy.cuda.runtime.getDeviceProperties(0)
    return {
        "device": properties["name"].decode(),
        "compute_capability": f"{properties['major']}.{properties['minor']}",
        "multiprocessors": properties["multiProcessorCount"],
        "driver": cupy.cuda.runtime.driverGetVersion(),
        "nvrtc": ".".join(map(str, cupy.cuda.nvrtc.getVersion())),
        "cupy": cupy.__version__,
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "tests": {name: int(suite.attrib[name]) for name in ("tests", "failures", "errors", "skipped")},
        "seconds": float(suite.attrib["time"]),
        "memcheck": memcheck,
    }


def main() -> None:
    found = report(Path(sys.argv[1]), sys.argv[2])
    name = re.sub(r"[^a-z0-9]+", "-", found["device"].lower()).strip("-")
    RESULTS.mkdir(parents=True, exist_ok=True)
    path = RESULTS / f"gpu-{name}-{found['date']}.json"
    path.write_text(json.dumps(found, indent=2) + "\n")
    print(f"wrote {path}\n{json.dumps(found, indent=2)}")


if __name__ == "__main__":
    main()
