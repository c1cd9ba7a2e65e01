"""Packages that an extra of dmlgather installs: what is said, everywhere, where one is missing."""

from __future__ import annotations

import re


class MissingExtraError(ModuleNotFoundError):
    """A package that an extra installs is missing. The message says what needs it, and what installs it."""


def missing_extra(what: str, extra: str, error: ImportError) -> MissingExtraError:
    """The error to raise where importing a package fails. what: that needs it: "an ONNX model". extra: what installs it. error:
    of the import, whose name is the package's.
    """
    package = (error.name or extra).partition(".")[0]
    how = "is not installed" if isinstance(error, ModuleNotFoundError) else f"cannot be imported ({error})"
    return MissingExtraError(f"{what} needs the package {package}, which {how}: {installing(extra)}", name=package)


def installing(extra: str) -> str:
    """What installs an extra: pip with the packages that it has, which is right for a wheel from anywhere and for a checkout."""
    from importlib import metadata

    try:
        stated = metadata.requires("dmlgather") or []
    except metadata.PackageNotFoundError:  # a folder on the path
        stated = []
    packages = [each.partition(";")[0].strip() for each in stated if re.search(rf"""\bextra == ['"]{extra}['"]""", each)]
    command = "".join(f" '{each}'" for each in packages)
    return f"pip install{command} (dmlgather's extra {extra})" if packages else f"install dmlgather's extra {extra}"
