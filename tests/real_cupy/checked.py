"""A stand-in for CuPy that fails where the real package has no such name, or would not take the arguments."""

from __future__ import annotations

import inspect
from collections import Counter
from typing import Any

from tests.real_cupy.signatures import INSTANCES_ONLY, RETURNS, complaint, find, package

CALLS: Counter[str] = Counter()
"""How often each function of CuPy was called."""

PLAIN = {"cupy.ndarray", "cupy.cuda.compiler.CompileException"}
"""Classes that are compared with, not called."""


class Checked:
    """An object of a stand-in, in the place of the real one that `path` names or of an instance of it."""

    def __init__(self, stand_in: Any, path: str) -> None:
        self._stand_in, self._path = stand_in, path

    def __getattr__(self, name: str) -> Any:
        path = f"{self._path}.{name}"
        value = getattr(self._stand_in, name)
        if path in INSTANCES_ONLY:
            return value
        try:
            real = find(path)
        except AttributeError as error:
            raise AssertionError(f"CuPy {package().__version__} has no {path}") from error
        if isinstance(value, int) or path in PLAIN:
            assert not isinstance(real, int) or value == real, f"{path} is {value}, and {real} in CuPy"
            return value
        kind = RETURNS.get(path)
        return Checked(value, kind if kind and not inspect.isroutine(real) else path)

    def __setattr__(self, name: str, value: Any) -> None:
        if name.startswith("_"):
            super().__setattr__(name, value)
            return
        real = getattr(find(self._path), name, None)
        assert inspect.isdatadescriptor(real), f"CuPy {package().__version__} has no {self._path}.{name} that can be set"
        setattr(self._stand_in, name, value)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        path = self._path
        assert (problem := complaint(path, args, kwargs)) is None, problem
        CALLS[path] += 1
        result = self._stand_in(*args, **kwargs)
        kind = RETURNS.get(path) or (path if inspect.isclass(find(path)) else "")
        return result if kind in ("", "cupy.ndarray") else _Instance(result, kind)

    def __enter__(self) -> Any:
        return self._stand_in.__enter__()

    def __exit__(self, *error: Any) -> Any:
        return self._stand_in.__exit__(*error)


class _Instance(Checked):
    """An instance of the class `path`."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        assert (problem := complaint(f"{self._path}.__call__", args, kwargs)) is None, problem
        return self._stand_in(*args, **kwargs)
