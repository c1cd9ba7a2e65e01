"""Which findings count: those that neither the configuration ignores nor the baseline knows."""

from __future__ import annotations

import enum

from pydantic import ConfigDict, Field

from dmlgather.directml.located import LocatedFinding
from dmlgather.record import Record
from dmlgather.wording import counted


class FindingStatus(enum.StrEnum):
    """Whether a finding counts."""

    OPEN = "open"
    """It counts: an error fails the check."""
    KNOWN = "known"
    """It does not: the baseline has it."""
    IGNORED = "ignored"
    """It does not: the configuration ignores its code in this file, with a reason."""


class ReportedFinding(LocatedFinding):
    """A finding in a file, and whether it counts."""

    model_config = ConfigDict(serialize_by_alias=True)

    status: FindingStatus = Field(default=FindingStatus.OPEN, alias="standing")
    """Whether it counts: "open" does; "known" is in the baseline, "ignored" in the configuration."""

    reason: str = ""
    """Why the configuration ignores it; empty for any other."""

    @classmethod
    def of_located(cls, finding: LocatedFinding, status: FindingStatus = FindingStatus.OPEN, reason: str = "") -> ReportedFinding:
        """`finding` with its status."""
        return cls.model_construct(**{**finding.__dict__, "standing": status, "reason": reason})

    @property
    def remark(self) -> str:
        """The text after a finding that does not count; empty for one that does."""
        if self.status is FindingStatus.KNOWN:
            return " (known: in the baseline)"
        return f" (ignored: {self.reason})" if self.status is FindingStatus.IGNORED else ""


class Fingerprint(Record):
    """What identifies a finding: all but its line and column, so that moving it in the file changes nothing."""

    file: str
    """The file, relative to the folder of the baseline, with slashes."""

    code: str
    """The finding's code: "DML302"."""

    subject: str = ""
    """The part of the file that `path` starts from: "dispatchables.gather"; empty for a single descriptor."""

    path: str = ""
    """The field, in DirectML's names: "OutputTensor.Sizes". Empty for the whole descriptor."""

    got: str
    """The actual value."""

    def __str__(self) -> str:
        where = " ".join(filter(None, (self.subject, self.code, self.path)))
        return f"{self.file}: {where}: got {self.got}"


class CountedFingerprint(Fingerprint):
    """A finding in a baseline, and how often it occurs."""

    count: int = Field(default=1, ge=1)
    """The number of findings that are the same."""

    def __str__(self) -> str:
        return super().__str__() + (f" ({counted(self.count, 'time')})" if self.count > 1 else "")


class UnusedIgnore(Record):
    """An entry of the configuration that ignores a code and matches no finding."""

    file: str
    """The file of the configuration."""

    line: int | None = Field(default=None, ge=1)
    """Line of the entry, counted from 1; None where it is not known."""

    code: str
    """The code that it ignores."""

    def __str__(self) -> str:
        place = self.file if self.line is None else f"{self.file}:{self.line}"
        return f"{place}: note: this entry for {self.code} matches no finding; remove it"
