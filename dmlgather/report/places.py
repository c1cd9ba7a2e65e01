"""Names of files as other programs take them: relative to a folder, with slashes, or as a URI."""

from __future__ import annotations

import os
from pathlib import Path
from urllib.parse import quote


def absolute(file: str | os.PathLike[str]) -> str:
    """`file` from the root on, without "." and "..". Links stay as they are: what a user calls a file is its name."""
    return os.path.abspath(file)  # noqa: PTH100 # resolve follows links


def relative(file: str, folder: str) -> str | None:
    """`file` relative to `folder`, with slashes; None when it does not lie below. Links are not resolved."""
    path, start = absolute(file), absolute(folder)
    try:
        found = os.path.relpath(path, start)
    except ValueError:  # another drive
        return None
    return None if found == os.pardir or found.startswith(os.pardir + os.sep) else found.replace(os.sep, "/")


def named(file: str, folder: str) -> str:
    """`file` relative to `folder`, with slashes, also where that leads upwards; absolute only where nothing else can be said."""
    try:
        return os.path.relpath(absolute(file), absolute(folder)).replace(os.sep, "/")
    except ValueError:  # another drive
        return Path(absolute(file)).as_posix()


def uri(file: str, folder: str) -> tuple[str, bool]:
    """`file` as a URI reference, and whether it is relative to `folder`. Any name is one, also one that is no text."""
    found = relative(file, folder)
    if found is not None:
        return quote(os.fsencode(found), safe="/"), True
    return absolute_uri(file), False


def absolute_uri(file: str) -> str:
    """`file` as an absolute file URI."""
    path = Path(absolute(file)).as_posix()
    return "file://" + quote(os.fsencode(path if path.startswith("/") else f"/{path}"), safe="/:")


def repository() -> str:
    """The folder that programs on a CI machine name files from: the checkout on GitHub, else the current folder."""
    return os.environ.get("GITHUB_WORKSPACE") or str(Path.cwd())


def beside(name: str, file: str | None) -> str:
    """The file called `name` in the folder of `file`."""
    return str(Path(file or "").parent / name)
