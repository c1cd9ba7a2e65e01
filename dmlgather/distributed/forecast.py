"""What a gather of a chunked table will load, move and hold, as data and JSON."""

from __future__ import annotations

from typing import Literal

from pydantic import computed_field

from dmlgather.directml import Finding, GatherOperatorDesc, Severity
from dmlgather.record import Record
from dmlgather.wording import counted


class MemoryLimitError(ValueError):
    """A gather that needs more memory of a worker than it may have. The message says what takes the most, and what to do."""


class Described(Record):
    """A gather as a DirectML descriptor, checked at the newest feature level."""

    descriptor: GatherOperatorDesc | None
    """The descriptor, none where there cannot be one. A type that DirectML lacks is moved as unsigned integers: complex64 as
    UINT64."""

    findings: tuple[Finding, ...]
    """What stands against it, or why there is none."""

    @property
    def ok(self) -> bool:
        """Whether nothing is an ERROR."""
        return all(finding.severity is not Severity.ERROR for finding in self.findings)


class Owner(Record):
    """One chunk along the axis of the table that indices touch, with all chunks beside it."""

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
    """How often it is loaded: the number of groups of blocks that touch it."""

    rows_taken: int
    """Rows that are taken out of it by all its loads; more than `rows` where several groups want the same one."""

    bytes_loaded: int
    """By all its loads."""

    bytes_taken: int
    """Of the rows that are taken: what moves between workers at most."""

    take: Described | None
    """The largest of its takes, in the table's widest chunk off the axis; none where a tensor would be empty."""


class Span(Record):
    """Consecutive chunks along the axis."""

    first: int
    """Number of the first one."""

    last: int
    """Number of the last one."""

    def __str__(self) -> str:
        return str(self.first) if self.first == self.last else f"{self.first} … {self.last}"


class PeakMemory(Record):
    """Memory of one worker, in bytes, by a model: every thread takes rows of the largest chunk or places the largest block, while
    the worker holds its share of the rows of one group.

    Not in it: Python and the libraries, what a store needs to decode a chunk, and output that is computed and kept.
    """

    threads: int
    """Of one worker."""

    take_bytes: int
    """One thread takes rows: the largest chunk and the rows that are taken of it."""

    place_bytes: int
    """One thread places a block: three times the largest, as pieces, as the pieces behind each other (but for wide rows), and as
    output."""

    held_bytes: int
    """Rows of one group on the worker that has the most of them, where chunks are dealt to the workers in turn."""

    @computed_field  # type: ignore[prop-decorator] # the decorator is meant to stand on a property
    @property
    def total_bytes(self) -> int:
        """All of it."""
        return self.threads * max(self.take_bytes, self.place_bytes) + self.held_bytes


class GatherPlan(Record):
    """What a gather of a chunked table will load, move and hold. `str` of it is a table."""

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
    """Shape of the indices, which stands in the place of the axis in the output."""

    output_shape: tuple[int, ...]
    """Shape of the output."""

    output_chunks: tuple[tuple[int, ...], ...]
    """Sizes of the output's chunks along each of its dimensions."""

    owners: tuple[Owner, ...]
    """The chunks that are touched, in order."""

    untouched: tuple[Span, ...]
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

    place: Described | None
    """The last step of the largest block, which puts its rows in place; none where a tensor would be empty."""

    whole: Described
    """The gather in one piece, as one device would be asked for it. What is too large for that is legal in parts."""

    workers: int
    """Workers that the chunks are dealt to."""

    peak: PeakMemory
    """What one worker needs at the same time."""

    memory_limit: int | None
    """Bytes that one worker may have; none where nothing was stated."""

    @computed_field  # type: ignore[prop-decorator] # as above
    @property
    def bytes_loaded(self) -> int:
        """By all loads of all chunks."""
        return sum(owner.bytes_loaded for owner in self.owners)

    @computed_field  # type: ignore[prop-decorator] # as above
    @property
    def bytes_taken(self) -> int:
        """Of the rows that are taken out of chunks."""
        return sum(owner.bytes_taken for owner in self.owners)

    @computed_field  # type: ignore[prop-decorator] # as above
    @property
    def output_bytes(self) -> int:
        """Of the output."""
        return (self.requests + self.filled) * self.row_bytes

    @computed_field  # type: ignore[prop-decorator] # as above
    @property
    def duplicates_removed(self) -> int:
        """Indices whose row another one of their group takes."""
        return self.requests - sum(owner.rows_taken for owner in self.owners)

    @property
    def peak_bytes_per_worker(self) -> int:
        """Of `peak`, in all."""
        return self.peak.total_bytes

    @property
    def parts(self) -> tuple[Described, ...]:
        """The descriptors of the parts."""
        return tuple(part for part in (*(owner.take for owner in self.owners), self.place) if part is not None)

    @property
    def ok(self) -> bool:
        """Whether descriptors can say all parts, so that `gather` takes it."""
        return all(part.ok for part in self.parts)

    def check_memory(self) -> None:
        """MemoryLimitError where a worker needs more than `memory_limit`."""
        peak, limit = self.peak, self.memory_limit
        if limit is None or peak.total_bytes <= limit:
            return
        threads = f"on {counted(peak.threads, 'thread')}"
        parts = (
            (
                peak.threads * peak.take_bytes,
                f"the largest chunk and the rows taken of it, {peak.take_bytes} bytes {threads}",
                f"make the table's chunks smaller along axis {self.axis} (table.rechunk(…))",
            ),
            (
                peak.threads * peak.place_bytes,
                f"three times the largest block, {peak.place_bytes} bytes {threads}",
                "lower block_bytes",
            ),
            (
                peak.held_bytes,
                f"the rows of a group held by one of {counted(self.workers, 'worker')}, {peak.held_bytes} bytes",
                "lower in_flight_bytes or use more workers",
            ),
        )
        _, what, remedy = max(parts)
        raise MemoryLimitError(
            f"the gather needs {peak.total_bytes} bytes of a worker, but memory_limit is {limit} bytes; most of it is {what}: "
            f"{remedy}"
        )

    def __str__(self) -> str:
        from dmlgather.distributed.forecast_text import text

        return text(self)
