"""The version, lazy imports and extras of dmlgather. Every import of the package loads this module, so it imports little."""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

__version__ = "0.1.0"


def lazy_names(
    package: str, modules: Mapping[str, str], extras: Mapping[str, str] | None = None
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return `__getattr__` and `__dir__` (PEP 562) for a package that imports its public names on first use.

    `modules`: the module that defines each public name; "" if the name is itself a module. `extras`: the third-party package
    that a name needs. If the package is missing, `__all__` lacks the name.
    """
    needs = extras or {}
    public: list[str] = vars(sys.modules[package])["__all__"]
    missing = {name for name, needed in needs.items() if not _is_installed(needed)}
    public[:] = [name for name in public if name not in missing]

    def __getattr__(name: str) -> Any:  # noqa: N807 - assigned to the package's __getattr__
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        import importlib

        try:
            module = importlib.import_module(f"{package}.{modules[name] or name}")
        except ModuleNotFoundError as error:
            if name not in needs or (error.name or "").partition(".")[0] != needs[name]:
                raise
            missing = missing_extra(f"{package}.{name}", needs[name], error)
            if _called_by_from_import():
                raise missing from None
            raise AttributeError(str(missing), name=name) from None
        value = getattr(module, name) if modules[name] else module
        setattr(sys.modules[package], name, value)
        return value

    def __dir__() -> list[str]:  # noqa: N807 - assigned to the package's __dir__
        return sorted({*public, *(name for name in vars(sys.modules[package]) if name.startswith("__"))})

    return __getattr__, __dir__


def _is_installed(package: str) -> bool:
    import importlib.util

    try:
        return importlib.util.find_spec(package) is not None
    except ValueError:  # the module in sys.modules has no specification
        return sys.modules[package] is not None


def _called_by_from_import() -> bool:
    """Return True if the statement `from package import name` is looking up a name.

    The statement replaces the text of an AttributeError, so it must get a ModuleNotFoundError.
    """
    caller = sys._getframe(2).f_globals.get("__name__")
    return caller in ("importlib._bootstrap", "_frozen_importlib")


class MissingExtraError(ModuleNotFoundError):
    """Error: a package cannot be imported. One of dmlgather's extras installs this package."""


def missing_extra(what: str, extra: str, error: ImportError) -> MissingExtraError:
    """Return the error to raise if a package that `what` needs cannot be imported."""
    package = (error.name or extra).partition(".")[0]
    how = "is not installed" if isinstance(error, ModuleNotFoundError) else f"cannot be imported ({error})"
    return MissingExtraError(f"{what} needs the package {package}, which {how}: {installing(extra)}", name=package)


def installing(extra: str) -> str:
    """Return the command that installs an extra's packages by name, because pip would look for dmlgather on PyPI."""
    import re
    from importlib import metadata

    try:
        requirements = metadata.requires("dmlgather") or []
    except metadata.PackageNotFoundError:  # not installed: a folder on sys.path
        requirements = []
    packages = [line.partition(";")[0].strip() for line in requirements if re.search(rf"""\bextra == ['"]{extra}['"]""", line)]
    arguments = "".join(f" '{package}'" for package in packages)
    return f"pip install{arguments} (dmlgather's extra {extra})" if packages else f"install dmlgather's extra {extra}"
