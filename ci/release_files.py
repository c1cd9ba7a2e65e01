"""Checks of a release's files: python -m ci.release_files COMMAND

versions [--final]: the places that state the version. contents WHEEL…: the files of wheels. Both print one line per error, and
exit with code 1 if there are any. licences SBOM: prints the licences of the packages in an SBOM of cyclonedx-py.
"""

from __future__ import annotations

import email
import json
import re
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

import yaml

from hatch_build import FOLDER, LIBRARIES, NOTICES, digest

ROOT = Path(__file__).resolve().parents[1]
SECTION = re.compile(r"^## (\S+) \((unreleased|\d{4}-\d\d-\d\d)\)$", re.MULTILINE)
"""Heading of a version in the changelog."""
PLACES = {"dmlgather/cuda_kernels/": "cuda_kernels/", "dmlgather/docs/": "docs/"}
"""Folders in the source tree by folders in a wheel."""
GENERATED = ("METADATA", "RECORD", "WHEEL", "entry_points.txt", "licenses/LICENSE")
"""Files that the build adds to the metadata folder."""
MACHINES = {
    "manylinux_2_17_x86_64": "ELF 62",
    "manylinux_2_17_aarch64": "ELF 183",
    "macosx_10_15_x86_64": "Mach-O 16777223",
    "macosx_11_0_arm64": "Mach-O 16777228",
    "win_amd64": "PE 34404",
}
"""The file format of each platform's engine, and the number of the processor in the file's header."""


def version(root: Path) -> str:
    """Return the version in dmlgather/package.py. Raises ValueError if there is none."""
    match = re.search(r'^__version__ = "([^"]+)"$', (root / "dmlgather/package.py").read_text(encoding="utf-8"), re.MULTILINE)
    if match is None:
        raise ValueError("dmlgather/package.py states no __version__")
    return match[1]


def disagreements(root: Path, *, final: bool = False) -> Iterator[str]:
    """Yield errors about version and date in the changelog and CITATION.cff. `final`: the version must have a date."""
    stated = version(root)
    heading = SECTION.search((root / "CHANGELOG.md").read_text(encoding="utf-8"))
    citation = yaml.safe_load((root / "CITATION.cff").read_text(encoding="utf-8"))
    if heading is None or heading[1] != stated:
        got = f'"{heading[0]}"' if heading else "none"
        yield f'CHANGELOG.md: the first section must be "## {stated} (unreleased)" or have a date, got {got}'
    if citation["version"] != stated:
        yield f"CITATION.cff: version must be {stated}, as in dmlgather/package.py, got {citation['version']}"
    date = heading[2] if heading and heading[2] != "unreleased" else None
    released = citation.get("date-released")
    if (released and str(released)) != date:
        yield f"CITATION.cff: date-released must be {date or 'left out'}, as in CHANGELOG.md, got {released or 'none'}"
    if final and date is None:
        yield f"CHANGELOG.md: version {stated} must have a date, got (unreleased)"


def machine(library: bytes) -> str:
    """Return the file format of an engine and the number of its processor, as in `MACHINES`."""
    if library[:4] == b"\x7fELF":
        return f"ELF {int.from_bytes(library[18:20], 'little')}"
    if library[:4] == b"\xcf\xfa\xed\xfe":
        return f"Mach-O {int.from_bytes(library[4:8], 'little')}"
    head = int.from_bytes(library[0x3C:0x40], "little")
    if library[:2] == b"MZ" and library[head : head + 4] == b"PE\0\0":
        return f"PE {int.from_bytes(library[head + 4 : head + 6], 'little')}"
    return "unknown"


def faults(wheel: Path, root: Path) -> Iterator[str]:
    """Yield errors about a wheel: files that are not from the source tree, missing files, and wrong metadata."""
    with zipfile.ZipFile(wheel) as archive:
        files = {name: archive.read(name) for name in archive.namelist()}
    platform = wheel.stem.rpartition("-")[2]
    metadata = f"dmlgather-{version(root)}.dist-info/"
    engines = {f"{FOLDER}/{name}" for name in LIBRARIES} & files.keys()
    if len(engines) != (platform != "any"):
        yield f"the platform is {platform}, and these engines are there: {', '.join(sorted(engines)) or 'none'}"
    if platform in MACHINES and f"{FOLDER}/{NOTICES}" not in files:
        yield f"{FOLDER}/{NOTICES}: is missing, the licences of what ziglang links into the engine"
    for name, content in files.items():
        if name in engines:
            if (got := machine(content)) != MACHINES.get(platform, got):
                yield f"{name}: must be {MACHINES[platform]}, got {got}"
            if digest(root / "cpu_kernels").encode() not in content:
                yield f"{name}: was not built from these sources"
        elif name == f"{FOLDER}/{NOTICES}" or name in {metadata + generated for generated in GENERATED}:
            continue
        else:
            place = next((name.replace(old, new, 1) for old, new in PLACES.items() if name.startswith(old)), name)
            if not (root / place).is_file() or (root / place).read_bytes() != content:
                yield f"{name}: is no file of the source tree"
    tree = {path.relative_to(root).as_posix() for path in (root / "dmlgather").rglob("*") if path.is_file()}
    tree = {name for name in tree if not name.endswith((".pyc", *LIBRARIES))}
    yield from (f"{name}: is missing" for name in sorted(tree - files.keys()))
    stated = email.message_from_bytes(files.get(f"{metadata}METADATA", b""))
    for field, right in {"Version": version(root), "License-Expression": "MIT", "License-File": "LICENSE"}.items():
        if stated[field] != right:
            yield f"METADATA: {field} must be {right}, got {stated[field]}"
    if files.get(f"{metadata}licenses/LICENSE") != (root / "LICENSE").read_bytes():
        yield "LICENSE: must be the file of the source tree"


def licences(bill: Path) -> Iterator[str]:
    """Yield name, version and licences of each package of an SBOM."""
    for part in json.loads(bill.read_text(encoding="utf-8"))["components"]:
        stated = {licence.get("expression") or _name(licence["license"]) for licence in part.get("licenses", ())}
        yield f"{part['name']} {part.get('version', '')}: {', '.join(sorted(stated)) or 'not stated'}"


def _name(licence: dict[str, str]) -> str:
    return licence.get("id") or licence["name"]


def main() -> int:
    """Run a command, and return the exit code."""
    match sys.argv[1:]:
        case ["versions", *options]:
            errors = list(disagreements(ROOT, final=options == ["--final"]))
            print(*errors or [f"version {version(ROOT)}: CHANGELOG.md and CITATION.cff agree"], sep="\n")
            return bool(errors)
        case ["contents", *wheels] if wheels:
            failed = False
            for wheel in map(Path, wheels):
                errors = list(faults(wheel, ROOT))
                failed |= bool(errors)
                print(*(f"{wheel.name}: {line}" for line in errors or ["own files and their metadata alone"]), sep="\n")
            return failed
        case ["licences", bill]:
            print(*licences(Path(bill)), sep="\n")
            return 0
        case ["--help" | "-h"]:
            print(__doc__)
            return 0
    print(__doc__, file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main())
