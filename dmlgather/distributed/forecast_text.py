"""A plan of a gather as text for people: one line per fact, and a table of the chunks that are touched."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from dmlgather.distributed.forecast import Described, GatherPlan
from dmlgather.wording import counted

SHOWN = 20
"""Chunks in the table; the model has them all."""

_UNITS = ("bytes", "KiB", "MiB", "GiB", "TiB")


def text(plan: GatherPlan) -> str:
    """The plan as lines."""
    return "\n".join([*_facts(plan), "", *_owners(plan), *_findings(plan)])


def amount(count: int) -> str:
    """A number of bytes: "512 bytes", "64 MiB", "1.5 GiB"."""
    size, power = float(count), 0
    while size >= 1024 and power < len(_UNITS) - 1:
        size, power = size / 1024, power + 1
    return f"{count} bytes" if not power else f"{size:.4g} {_UNITS[power]}"


def _facts(plan: GatherPlan) -> Iterator[str]:
    peak = plan.peak
    yield (
        f"gather of {plan.dtype} {list(plan.table_shape)} along axis {plan.axis} by indices {list(plan.index_shape)}; "
        f"{plan.dialect}, {plan.out_of_bounds}"
    )
    yield f"  output       {list(plan.output_shape)}, {amount(plan.output_bytes)}, {_pieces(plan)}"
    untouched = f"; never loaded: {', '.join(map(str, plan.untouched))}" if plan.untouched else ""
    yield f"  chunks       {len(plan.owners)} of {plan.chunks} touched{untouched}"
    yield f"  requests     {plan.requests}, {counted(plan.duplicates_removed, 'duplicate')} removed, {plan.filled} filled"
    yield f"  loaded       {amount(plan.bytes_loaded)} in {counted(sum(owner.loads for owner in plan.owners), 'load')}"
    yield f"  taken        {amount(plan.bytes_taken)}"
    limit = "" if plan.memory_limit is None else f", {amount(plan.memory_limit)} allowed"
    yield f"  peak memory  {amount(peak.total_bytes)} of each of {counted(plan.workers, 'worker')}{limit}:"
    yield (
        f"    {counted(peak.threads, 'thread')} x max(chunk and its rows {amount(peak.take_bytes)}, "
        f"3 blocks {amount(peak.place_bytes)}) + rows held {amount(peak.held_bytes)}"
    )


def _pieces(plan: GatherPlan) -> str:
    return f"{counted(plan.blocks, 'block')} in {counted(plan.groups, 'group')}"


def _owners(plan: GatherPlan) -> Iterator[str]:
    heads = ("chunk", "rows", "requests", "different", "loads", "loaded", "taken", "descriptor")
    shown = sorted(sorted(plan.owners, key=lambda owner: -owner.bytes_taken)[:SHOWN], key=lambda owner: owner.chunk)
    rows = [
        (
            str(owner.chunk),
            f"{owner.start} … {owner.start + owner.size - 1}",
            str(owner.requests),
            str(owner.rows),
            str(owner.loads),
            amount(owner.bytes_loaded),
            amount(owner.bytes_taken),
            _judged(owner.take),
        )
        for owner in shown
    ]
    yield from _aligned([heads, *rows])
    if len(plan.owners) > len(shown):
        yield f"  and {counted(len(plan.owners) - len(shown), 'chunk')} of which less is taken"


def _findings(plan: GatherPlan) -> Iterator[str]:
    yield f"  in one piece: {_judged(plan.whole)}"
    for finding in plan.whole.findings:
        yield f"    {finding}"
    for finding in dict.fromkeys(finding for part in plan.parts for finding in part.findings):
        yield f"  in parts: {finding}"


def _judged(described: Described | None) -> str:
    if described is None:
        return "nothing to move"
    codes = dict.fromkeys(finding.code for finding in described.findings)
    return ("legal" if described.ok else "illegal") + (f" ({', '.join(codes)})" if codes else "")


def _aligned(rows: Sequence[Sequence[str]]) -> Iterable[str]:
    """Columns as wide as their widest entry, to the right but for the last."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for *cells, last in rows:
        yield "  " + "  ".join([*(cell.rjust(width) for cell, width in zip(cells, widths, strict=False)), last])
