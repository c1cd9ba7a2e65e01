"""Paths of files in the forms that other programs expect: relative to a folder, with slashes, or as a URI."""

from __future__ import annotations

import os
from pathlib import Path
from urllib.parse import quote


def absolute(file: str | os.PathLike[str]) -> str:
    """The absolute path of `file`, without "." and "..". Links are not resolved: a file keeps the name that the user gave."""
    return os.path.abspath(file)  # noqa: PTH100 # resolve follows links


def relative(file: str, folder: str) -> str | None:
    """`file` relative to `folder`, with slashes; None when it is not below. Links are not resolved."""
    path, start = absolute(file), absolute(folder)
    try:
        found = os.path.relpath(path, start)
    except ValueError:  # another drive
        return None
    return None if found == os.pardir or found.startswith(os.pardir + os.sep) else found.replace(os.sep, "/")


def named(file: str, folder: str) -> str:
    """`file` relative to `folder`, with slashes, also if it is not below; absolute only on another drive."""
    try:
        return os.path.relpath(absolute(file), absolute(folder)).replace(os.sep, "/")
    except ValueError:  # another drive
        return Path(absolute(file)).as_posix()


def uri(file: str, folder: str) -> tuple[str, bool]:
    """`file` as a URI reference, and whether it is relative to `folder`. Names may have bytes that are not text."""
    found = relative(file, folder)
    if found is not None:
        return quote(os.fsencode(found), safe="/"), True
    return absolute_uri(file), False


def absolute_uri(file: str) -> str:
    """`file` as an absolute file URI."""
    path = Path(absolute(file)).as_posix()
    return "file://" + quote(os.fsencode(path if path.startswith("/") else f"/{path}"), safe="/:")


def repository() -> str:
    """The folder to which reports name files relative: the checkout on GitHub, else the current folder."""
    return os.environ.get("GITHUB_WORKSPACE") or str(Path.cwd())


def beside(name: str, file: str | None) -> str:
    """The path of `name` in the folder of `file`."""
    return str(Path(file or "").parent / name)
