"""This package itself: its version, public names that are imported when they are first used, and what its extras install.

Everybody waits for this module: it imports next to nothing.
"""

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
    """`__getattr__` and `__dir__` for the package called `package` (PEP 562).

    modules: the module below the package that each name comes from; "" where the name is a module itself. extras: by name, the
    third-party package without which it cannot be imported; the extra that installs that has the same name. Where it is missing,
    `__all__` and `dir` leave the name out, `hasattr` is false, and `from package import name` raises a ModuleNotFoundError that
    says what to install.
    """
    needs = extras or {}
    public: list[str] = vars(sys.modules[package])["__all__"]
    missing = {name for name, needed in needs.items() if not _is_installed(needed)}
    public[:] = [name for name in public if name not in missing]

    def __getattr__(name: str) -> Any:  # noqa: N807 - it becomes the package's
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        import importlib

        try:
            module = importlib.import_module(f"{package}.{modules[name] or name}")
        except ModuleNotFoundError as error:
            if name not in needs or (error.name or "").partition(".")[0] != needs[name]:
                raise
            missing = missing_extra(f"{package}.{name}", needs[name], error)
            if _asked_by_an_import():
                raise missing from None
            raise AttributeError(str(missing), name=name) from None
        value = getattr(module, name) if modules[name] else module
        setattr(sys.modules[package], name, value)
        return value

    def __dir__() -> list[str]:  # noqa: N807 - likewise
        return sorted({*public, *(name for name in vars(sys.modules[package]) if name.startswith("__"))})

    return __getattr__, __dir__


def _is_installed(package: str) -> bool:
    import importlib.util

    try:
        return importlib.util.find_spec(package) is not None
    except ValueError:  # in sys.modules, without a specification
        return sys.modules[package] is not None


def _asked_by_an_import() -> bool:
    """Whether a package's `__getattr__`, which calls this, was called by `from package import name`.

    That statement would replace the text of an AttributeError by its own, and `hasattr` lets no other error pass.
    """
    asking = sys._getframe(2).f_globals.get("__name__")
    return asking in ("importlib._bootstrap", "_frozen_importlib")


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
    import re
    from importlib import metadata

    try:
        stated = metadata.requires("dmlgather") or []
    except metadata.PackageNotFoundError:  # a folder on the path
        stated = []
    packages = [each.partition(";")[0].strip() for each in stated if re.search(rf"""\bextra == ['"]{extra}['"]""", each)]
    command = "".join(f" '{each}'" for each in packages)
    return f"pip install{command} (dmlgather's extra {extra})" if packages else f"install dmlgather's extra {extra}"
