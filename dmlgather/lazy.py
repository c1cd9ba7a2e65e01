"""Public names of a package that are imported when they are first used, so that importing the package stays cheap."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Mapping
from typing import Any


def lazy_names(
    package: str, modules: Mapping[str, str], extras: Mapping[str, str] | None = None
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """`__getattr__` and `__dir__` for the package called `package` (PEP 562).

    modules: the module below the package that each name comes from; "" where the name is a module itself. extras: what to
    install, by the third-party package that may be missing.
    """

    def __getattr__(name: str) -> Any:  # noqa: N807 - it becomes the package's
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        try:
            module = importlib.import_module(f"{package}.{modules[name] or name}")
        except ModuleNotFoundError as error:
            missing = (error.name or "").partition(".")[0]
            if missing not in (extras or {}):
                raise
            raise ModuleNotFoundError(
                f"{package}.{name} needs the package {missing}, which is not installed: "
                f"pip install 'dmlgather[{(extras or {})[missing]}]'",
                name=error.name,
            ) from None
        value = getattr(module, name) if modules[name] else module
        setattr(sys.modules[package], name, value)
        return value

    def __dir__() -> list[str]:  # noqa: N807 - likewise
        names = vars(sys.modules[package])
        return sorted({*names["__all__"], *(name for name in names if name.startswith("__"))})

    return __getattr__, __dir__
