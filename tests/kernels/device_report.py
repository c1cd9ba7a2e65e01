"""Reports the results of ci/gpu.

python -m tests.kernels.device_report                     prints DEVICE-DATE, the suffix of result names
python -m tests.kernels.device_report TESTS.xml MEMCHECK  writes benchmarks/results/gpu-DEVICE-DATE.json
"""

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
    """Return the device, versions, counts of the test run, and the summary of compute-sanitizer."""
    cupy = require(0)
    suite = ElementTree.parse(tests).getroot().find("testsuite")
    assert suite is not None
    properties = cupy.cuda.runtime.getDeviceProperties(0)
    return {
        "device": device(),
        "compute_capability": f"{properties['major']}.{properties['minor']}",
        "multiprocessors": properties["multiProcessorCount"],
        "driver": cupy.cuda.runtime.driverGetVersion(),
        "nvrtc": ".".join(map(str, cupy.cuda.nvrtc.getVersion())),
        "cupy": cupy.__version__,
        "date": today(),
        "tests": {name: int(suite.attrib[name]) for name in ("tests", "failures", "errors", "skipped")},
        "seconds": float(suite.attrib["time"]),
        "memcheck": memcheck,
    }


def device() -> str:
    return str(require(0).cuda.runtime.getDeviceProperties(0)["name"].decode())


def today() -> str:
    """Return the date in UTC in the format of ISO 8601."""
    return datetime.datetime.now(datetime.UTC).date().isoformat()


def name_of(device: str, date: str) -> str:
    """Return DEVICE-DATE in lower case letters, digits and hyphens."""
    return f"{re.sub(r'[^a-z0-9]+', '-', device.lower()).strip('-')}-{date}"


def main() -> None:
    if len(sys.argv) == 1:
        print(name_of(device(), today()))
        return
    found = report(Path(sys.argv[1]), sys.argv[2])
    RESULTS.mkdir(parents=True, exist_ok=True)
    path = RESULTS / f"gpu-{name_of(found['device'], found['date'])}.json"
    path.write_text(json.dumps(found, indent=2) + "\n")
    print(f"wrote {path}\n{json.dumps(found, indent=2)}")


if __name__ == "__main__":
    main()
