"""What a gather of a chunked table will load, move and hold in memory: as data, JSON and text."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from pydantic import computed_field

from dmlgather.directml import Finding, GatherOperatorDesc, Severity
from dmlgather.distributed.worker_memory import WorkerMemory
from dmlgather.record import Record
from dmlgather.wording import amount, counted

SHOWN = 20
"""Chunks in the text; the data has them all."""

HEADS = ("chunk", "rows", "requests", "different", "loads", "loaded", "taken", "descriptor")
"""Of the columns of `TouchedChunk.entries`."""


class CheckedDescriptor(Record):
    """A gather as a DirectML descriptor, checked at the newest feature level."""

    descriptor: GatherOperatorDesc | None
    """The descriptor, none where DirectML cannot describe the gather. A type that DirectML lacks is moved as unsigned integers:
    complex64 as UINT64."""

    findings: tuple[Finding, ...]
    """What is wrong with the descriptor, or why there is none."""

    @property
    def ok(self) -> bool:
        """Whether nothing is an ERROR."""
        return all(finding.severity is not Severity.ERROR for finding in self.findings)

    def __str__(self) -> str:
        codes = dict.fromkeys(finding.code for finding in self.findings)
        return ("legal" if self.ok else "illegal") + (f" ({', '.join(codes)})" if codes else "")


class TouchedChunk(Record):
    """One chunk along the axis of which indices want rows, with all chunks beside it off the axis."""

    chunk: int
    """Its number along the axis."""

    start: int
    """Its first row, counted along the axis."""

    size: int
    """Its rows."""

    requests: int
    """Indices that mean one of its rows."""

    rows: int
    """Different rows of it that they mean."""

    loads: int
    """How often it is loaded: the number of groups of blocks that want rows of it."""

    rows_taken: int
    """Rows that are taken out of it by all its loads; more than `rows` where several groups want the same one."""

    bytes_loaded: int
    """By all its loads."""

    bytes_taken: int
    """Of the rows that are taken: what moves between workers at most."""

    take: CheckedDescriptor | None
    """The largest of its takes, in the table's widest chunk off the axis; none where a tensor would be empty."""

    @property
    def entries(self) -> tuple[str, ...]:
        """As a row of the forecast's text."""
        rows = f"{self.start} … {self.start + self.size - 1}"
        counts = (self.requests, self.rows, self.loads, amount(self.bytes_loaded), amount(self.bytes_taken))
        return (str(self.chunk), rows, *map(str, counts), str(self.take or "nothing to move"))


class ChunkRange(Record):
    """Consecutive chunks along the axis."""

    first: int
    """Number of the first one."""

    last: int
    """Number of the last one."""

    def __str__(self) -> str:
        return str(self.first) if self.first == self.last else f"{self.first} … {self.last}"


class GatherForecast(Record):
    """What a gather of a chunked table will load, move and hold in memory. `str` of it is a table."""

    dialect: Literal["directml", "onnx", "openvino", "lax"]
    """Whose rules say what an index means."""

    out_of_bounds: Literal["clamp", "fill", "raise", "promise"]
    """What an index out of bounds does."""

    table_shape: tuple[int, ...]
    """Shape of the table."""

    dtype: str
    """NumPy's name of its elements' type."""

    axis: int
    """Dimension of the table that is indexed, counted from the front."""

    chunks: int
    """Chunks of the table along the axis."""

    index_shape: tuple[int, ...]
    """Shape of the indices. In the output's shape, it replaces the axis."""

    output_shape: tuple[int, ...]
    """Shape of the output."""

    output_chunks: tuple[tuple[int, ...], ...]
    """Sizes of the output's chunks along each of its dimensions."""

    touched: tuple[TouchedChunk, ...]
    """The chunks of which rows are wanted, in order."""

    untouched: tuple[ChunkRange, ...]
    """The chunks that are never loaded."""

    requests: int
    """Indices that mean a row of the table."""

    filled: int
    """Indices out of bounds whose elements are filled."""

    blocks: int
    """Blocks of the indices: chunks of the output for each chunk off the axis."""

    groups: int
    """Groups of blocks that share the loads of their chunks."""

    row_bytes: int
    """One row of the table, in all chunks off the axis."""

    place: CheckedDescriptor | None
    """The last step of the largest block, which puts its rows into their places; none where a tensor would be empty."""

    whole: CheckedDescriptor
    """The gather in one piece, as for one device. A gather that is too large for that may be legal in parts."""

    workers: int
    """Workers that the chunks are dealt to."""

    peak: WorkerMemory
    """What one worker needs at the same time."""

    memory_limit: int | None
    """Bytes that one worker may have; none where there is no limit."""

    @computed_field  # type: ignore[prop-decorator] # the decorator is meant to stand on a property
    @property
    def bytes_loaded(self) -> int:
        """By all loads of all chunks."""
        return sum(chunk.bytes_loaded for chunk in self.touched)

    @computed_field  # type: ignore[prop-decorator] # as above
    @property
    def bytes_taken(self) -> int:
        """Of the rows that are taken out of chunks."""
        return sum(chunk.bytes_taken for chunk in self.touched)

    @computed_field  # type: ignore[prop-decorator] # as above
    @property
    def output_bytes(self) -> int:
        """Of the output."""
        return (self.requests + self.filled) * self.row_bytes

    @computed_field  # type: ignore[prop-decorator] # as above
    @property
    def duplicates_removed(self) -> int:
        """Indices whose row another one of their group takes."""
        return self.requests - sum(chunk.rows_taken for chunk in self.touched)

    @property
    def peak_bytes_per_worker(self) -> int:
        """Of `peak`, in all."""
        return self.peak.total_bytes

    @property
    def parts(self) -> tuple[CheckedDescriptor, ...]:
        """The descriptors of all takes, and of the place."""
        return tuple(part for part in (*(chunk.take for chunk in self.touched), self.place) if part is not None)

    @property
    def ok(self) -> bool:
        """Whether DirectML can describe all parts, so that `gather` does not refuse them."""
        return all(part.ok for part in self.parts)

    def __str__(self) -> str:
        return "\n".join([*self._facts(), "", *self._table(), *self._findings()])

    def _facts(self) -> Iterator[str]:
        gather = f"gather of {self.dtype} {list(self.table_shape)} along axis {self.axis} by indices {list(self.index_shape)}"
        yield f"{gather}; {self.dialect}, {self.out_of_bounds}"
        blocks = f"{counted(self.blocks, 'block')} in {counted(self.groups, 'group')}"
        yield f"  output       {list(self.output_shape)}, {amount(self.output_bytes)}, {blocks}"
        untouched = f"; never loaded: {', '.join(map(str, self.untouched))}" if self.untouched else ""
        yield f"  chunks       {len(self.touched)} of {self.chunks} touched{untouched}"
        yield f"  requests     {self.requests}, {counted(self.duplicates_removed, 'duplicate')} removed, {self.filled} filled"
        yield f"  loaded       {amount(self.bytes_loaded)} in {counted(sum(chunk.loads for chunk in self.touched), 'load')}"
        yield f"  taken        {amount(self.bytes_taken)}"
        limit = "" if self.memory_limit is None else f", {amount(self.memory_limit)} allowed"
        yield f"  peak memory  {amount(self.peak.total_bytes)} of each of {counted(self.workers, 'worker')}{limit}:"
        yield f"    {self.peak}"

    def _table(self) -> Iterator[str]:
        """Columns as wide as their widest entry, to the right but for the last."""
        shown = sorted(sorted(self.touched, key=lambda chunk: -chunk.bytes_taken)[:SHOWN], key=lambda chunk: chunk.chunk)
        rows = [HEADS, *(chunk.entries for chunk in shown)]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)][:-1]
        for *entries, last in rows:
            yield "  ".join(["", *map(str.rjust, entries, widths), last])
        if len(self.touched) > len(shown):
            yield f"  and {counted(len(self.touched) - len(shown), 'chunk')} of which less is taken"

    def _findings(self) -> Iterator[str]:
        yield f"  in one piece: {self.whole}"
        for finding in self.whole.findings:
            yield f"    {finding}"
        for finding in dict.fromkeys(finding for part in self.parts for finding in part.findings):
            yield f"  in parts: {finding}"
