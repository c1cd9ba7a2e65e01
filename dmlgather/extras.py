"""Packages that an extra of dmlgather installs: what is said, everywhere, where one is missing."""

from __future__ import annotations


class MissingExtraError(ModuleNotFoundError):
    """A package that an extra installs is missing. The message says what needs it, and what installs it."""


def missing_extra(what: str, extra: str, error: ImportError) -> MissingExtraError:
    """The error to raise where importing a package fails. what: that needs it: "an ONNX model". extra: what installs it. error:
    of the import, whose name is the package's.
    """
    package = (error.name or extra).partition(".")[0]
    how = "is not installed" if isinstance(error, ModuleNotFoundError) else f"cannot be imported ({error})"
    return MissingExtraError(f"{what} needs the package {package}, which {how}: pip install 'dmlgather[{extra}]'", name=package)
