"""DirectML's releases: the feature level of each, and the Windows that ships it first. Sources: [VER], [REL]."""

from __future__ import annotations

from typing import NamedTuple


class Release(NamedTuple):
    """A minor version of DirectML. Its patches ("1.8.1") have the same feature level."""

    version: str
    """Major and minor version: "1.8"."""

    level: str
    """The highest feature level that it supports: "5_0"."""

    windows: str
    """The first Windows that has it as a system component; empty where none has."""

    redistributable: bool
    """Whether the package Microsoft.AI.DirectML has it, for any Windows from 1903 on."""

    source: str
    """Where this comes from, with a key of `SOURCES`."""


RELEASES = (
    Release("1.0", "1_0", "Windows 10 1903 (build 18362)", False, "[VER]"),
    Release("1.1", "2_0", "Windows 10 2004 (build 19041)", False, "[VER]"),
    Release("1.4", "3_0", "", True, "[VER]"),
    Release("1.5", "3_1", "", True, "[VER]"),
    Release("1.6", "4_0", "Windows 11 21H2 (build 22000)", True, "[VER]"),
    Release("1.7", "4_1", "", True, "[VER]"),
    Release("1.8", "5_0", "Windows 11 22H2 (build 22621)", True, "[VER]"),
    Release("1.9", "5_1", "", True, "[VER]"),
    Release("1.10", "5_2", "", True, "[VER]"),
    Release("1.11", "6_0", "", True, "[VER]"),
    Release("1.12", "6_1", "", True, "[VER]"),
    Release("1.13", "6_2", "Windows 11 24H2 (build 26100)", True, "[VER]; [REL] for the Windows, which ships 1.13.1"),
    Release("1.15", "6_4", "", True, "[VER]"),
)
"""The minor versions that were released widely, oldest first. 1.2, 1.3 and 1.14 were not."""
