"""Which findings count: those that neither the configuration ignores nor the baseline knows."""

from __future__ import annotations

import enum

from pydantic import Field

from dmlgather.directml.located import LocatedFinding
from dmlgather.record import Record
from dmlgather.wording import counted


class Standing(enum.StrEnum):
    """Whether a finding counts."""

    OPEN = "open"
    """It does: an error fails the check."""
    KNOWN = "known"
    """The baseline has it."""
    IGNORED = "ignored"
    """The configuration ignores its code there, with a reason."""


class ReportedFinding(LocatedFinding):
    """A finding in a file, and whether it counts."""

    standing: Standing = Standing.OPEN
    """Whether it counts: "open" does; "known" is in the baseline, "ignored" in the configuration."""

    reason: str = ""
    """Why the configuration ignores it; empty for any other."""

    @classmethod
    def of_located(cls, finding: LocatedFinding, standing: Standing = Standing.OPEN, reason: str = "") -> ReportedFinding:
        """`finding` with its standing."""
        return cls.model_construct(**{**finding.__dict__, "standing": standing, "reason": reason})

    @property
    def remark(self) -> str:
        """What text says behind a finding that does not count; empty for one that does."""
        if self.standing is Standing.KNOWN:
            return " (known: in the baseline)"
        return f" (ignored: {self.reason})" if self.standing is Standing.IGNORED else ""


class Fingerprint(Record):
    """What makes two findings the same, whatever lines they stand on."""

    file: str
    """The file, relative to the folder of the baseline, with slashes."""

    code: str
    """The finding's code: "DML302"."""

    subject: str = ""
    """The part of the file that `path` starts from: "dispatchables.gather"; empty for a single descriptor."""

    path: str = ""
    """Where, in DirectML's names: "OutputTensor.Sizes". Empty for the whole."""

    got: str
    """What stands there."""

    def __str__(self) -> str:
        where = " ".join(filter(None, (self.subject, self.code, self.path)))
        return f"{self.file}: {where}: got {self.got}"


class CountedFingerprint(Fingerprint):
    """A finding that a baseline holds, and how often."""

    count: int = Field(default=1, ge=1)
    """How many findings are the same."""

    def __str__(self) -> str:
        return super().__str__() + (f" ({counted(self.count, 'time')})" if self.count > 1 else "")


class UnusedIgnore(Record):
    """An entry of the configuration that ignores a code, and matched nothing."""

    file: str
    """The configuration."""

    line: int | None = Field(default=None, ge=1)
    """Line of the entry, counted from 1; none where it cannot be told."""

    code: str
    """The code that it ignores."""

    def __str__(self) -> str:
        place = self.file if self.line is None else f"{self.file}:{self.line}"
        return f"{place}: note: nothing was found that is ignored by this entry for {self.code}; remove it"
