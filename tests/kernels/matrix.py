"""Every kernel for every architecture: `ci/kernels`. Needs neither a GPU nor a driver nor CuPy.

ci/kernels                      compile all, compare with registers.json, read the machine code of sm_90; then both below
ci/kernels --record             write registers.json anew
ci/kernels --traffic            count what the launches of workloads touch in memory, compare with traffic.json
ci/kernels --traffic TEXT       the same for cases whose name contains TEXT; print their figures
ci/kernels --traffic --record   write traffic.json anew
ci/kernels --sweep              the same for layouts of many shapes, with sweep.json, and which of them miss the goals; TEXT and
                                --record as above
ci/kernels --write              write cuda_kernels/*.cu from the table of variants
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

from dmlgather.backends.cuda.driver import unit_source
from dmlgather.backends.cuda.variants import VARIANTS
from tests.kernels import nvrtc, sass, traffic_record
from tests.kernels.traffic_cases import SEED
from tests.kernels.traffic_record import TABLES, CountedTable
from tests.kernels.units import UNITS, write_units

RECORD = Path(__file__).with_name("registers.json")
CEILING = 64
"""Registers per thread that allow 1024 threads on a multiprocessor: four blocks of 256, or one block for long rows."""

Job = tuple[str, str]
"""A unit and an architecture."""


def compile_unit(job: Job) -> tuple[Job, dict[str, nvrtc.Usage], list[str]]:
    """Return the usage of every kernel of a unit, and the faults in their machine code."""
    unit, architecture = job
    compiled = nvrtc.compile_source(unit_source(unit), architecture)
    variants = [variant for variant in VARIANTS if variant.unit == unit]
    problems = [f"{name}: not compiled" for name in {variant.name for variant in variants} - set(compiled.usage)]
    if architecture == sass.ARCHITECTURE:
        code = sass.disassemble(compiled.cubin)
        problems += [problem for variant in variants for problem in sass.complaints(variant, code[variant.name])]
    return job, compiled.usage, problems


def record() -> dict[str, Any]:
    """Return the committed register counts, {"nvrtc": version, "registers": {architecture: {kernel: registers}}}."""
    content: dict[str, Any] = json.loads(RECORD.read_text())
    return content


def usage_problems(architecture: str, usage: dict[str, nvrtc.Usage], *, compared: bool = True) -> Iterator[str]:
    """Yield spills, registers above the ceiling, and registers above the record unless its compiler version differs."""
    recorded = record()
    known = recorded["registers"].get(architecture, {}) if compared and recorded["nvrtc"] == nvrtc.version() else {}
    for name, used in usage.items():
        if used.spills or used.stack:
            yield f"{architecture} {name}: {used.spills} bytes of spills, {used.stack} bytes of stack (expected none)"
        if used.registers > known.get(name, CEILING):
            yield (
                f"{architecture} {name}: {used.registers} registers, recorded are {known.get(name, CEILING)}; where the growth "
                f"is worth it, run `ci/kernels --record`"
            )


def check_machine_code(pool: Executor, write: bool) -> list[str]:
    """Return faults of the compiled kernels. write: without faults, write the register counts."""
    start = time.perf_counter()
    jobs = [(unit, architecture) for architecture in nvrtc.ARCHITECTURES for unit in UNITS]
    registers: dict[str, dict[str, int]] = {architecture: {} for architecture in nvrtc.ARCHITECTURES}
    problems: list[str] = []
    for (_, architecture), usage, found in pool.map(compile_unit, jobs):
        registers[architecture] |= {name: used.registers for name, used in usage.items()}
        problems += [*found, *usage_problems(architecture, usage, compared=not write)]
    if write and not problems:
        RECORD.write_text(json.dumps({"nvrtc": nvrtc.version(), "registers": registers}, indent=1, sort_keys=True) + "\n")
    most = {architecture: max(counts.values()) for architecture, counts in registers.items()}
    print(
        f"{len(VARIANTS)} kernels x {len(nvrtc.ARCHITECTURES)} architectures with NVRTC {nvrtc.version()} in "
        f"{time.perf_counter() - start:.0f} s; most registers: {most}; {len(problems)} problems"
    )
    return problems


def check_traffic(pool: Executor, table: CountedTable, write: bool, only: str = "") -> list[str]:
    """Return increases over the recorded traffic. write: write the table. only: select names of cases and print figures."""
    start = time.perf_counter()
    rows: dict[str, traffic_record.Row] = {}
    count = partial(traffic_record.rows_of, plain=write and table.plain, only=only)
    try:
        for found in pool.map(count, table.groups()):
            rows |= found
    except traffic_record.UnrecordedError as error:
        return [str(error)]
    if not rows:
        return [f"no case of --{table.name} has a name with {only!r} in it"]
    if write:
        table.file.write_text(traffic_record.text(rows, table.goals))
    record = table.record()
    known = {name: row for name, row in record["rows"].items() if only in name}
    for name in rows if only else ():
        for when, part in (("recorded", known), ("now", rows)):
            if name in part:
                figures = " ".join(f"{figure} {value}" for figure, value in part[name][traffic_record.OURS].items())
                print(f"{name}, {when}: {figures}")
    problems = list(traffic_record.problems(rows, record | {"rows": known}, table.remedy))
    ours = {name: row[traffic_record.OURS] for name, row in rows.items()}
    for line in table.goals.report(ours) if table.goals else ():
        print(line)
    seconds = time.perf_counter() - start
    print(f"{table.name} of {len(rows)} cases, seed {SEED}, in {seconds:.0f} s; {len(problems)} problems")
    return problems


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command. Return its exit status: 1 for problems."""
    parser = argparse.ArgumentParser("ci/kernels", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for table in TABLES:
        about = f"compare with {table.file.name} alone; TEXT: these cases"
        parser.add_argument(f"--{table.name}", nargs="?", const="", metavar="TEXT", help=about)
    parser.add_argument("--record", action="store_true", help="write registers.json anew, or the file of --traffic or --sweep")
    parser.add_argument("--write", action="store_true", help="write cuda_kernels/*.cu from the table of variants")
    chosen = parser.parse_args(arguments)
    if chosen.write:
        write_units()
        return 0
    texts = {table: getattr(chosen, table.name) for table in TABLES}
    if chosen.record and any(texts.values()):
        parser.error("--record writes all cases; leave out TEXT")
    problems: list[str] = []
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        alone = any(text is not None for text in texts.values())
        if not alone:
            problems += check_machine_code(pool, chosen.record)
        for table, text in texts.items():
            if text is not None if alone else not chosen.record:
                problems += check_traffic(pool, table, chosen.record, text or "")
    for problem in problems:
        print(problem, file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
