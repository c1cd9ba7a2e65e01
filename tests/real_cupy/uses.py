"""What dmlgather's sources use of CuPy, read from their syntax trees: names, and the arguments of calls."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.real_cupy.signatures import RETURNS, find

ROOT = Path(__file__).parents[2]

MODULE = {"cupy", "self.cupy", "self._cupy", "rig.cupy", "self.library", "data.library"}
"""Expressions that are the module, where nothing in their file says so."""
HANDED = {
    ("dmlgather/backends/cuda/bad_words.py", "words.runtime"): "cupy.cuda.runtime",
    ("dmlgather/backends/cuda/bad_words.py", "self._event"): "cupy.cuda.Event()",
    ("dmlgather/backends/streams.py", "event"): "cupy.cuda.Event()",
    ("dmlgather/backends/cuda/program.py", "driver"): "cupy.cuda.driver",
    ("dmlgather/backends/cuda/program.py", "compiled"): "cupy.RawKernel()",
    ("benchmarks/contenders.py", "stage.stream"): "cupy.cuda.Stream()",
}
"""What another part of a file, or another file, hands over, by file and expression."""


@dataclass(frozen=True)
class Use:
    """A name of CuPy at a place. positional: how many arguments are passed by position, None for a name that is not called here
    or for a call with *arguments.
    """

    path: str
    place: str
    positional: int | None = None
    keywords: tuple[str, ...] = ()


def files() -> list[Path]:
    """Every source that may use CuPy."""
    return [*sorted((ROOT / "dmlgather").rglob("*.py")), *sorted((ROOT / "benchmarks").glob("*.py"))]


def uses() -> list[Use]:
    """All of them."""
    return [use for file in files() for use in _Reader(file).uses()]


class _Reader:
    def __init__(self, file: Path) -> None:
        self._name = file.relative_to(ROOT).as_posix()
        self._tree = ast.parse(file.read_text(encoding="utf-8"))
        self._shared: dict[str, str] = {}  # attributes of self

    def uses(self) -> Iterator[Use]:
        for node in ast.walk(self._tree):
            if isinstance(node, ast.FunctionDef):
                self._learn(node, {})
        yield from self._scope(self._tree, {})

    def _scope(self, scope: ast.AST, outer: dict[str, str]) -> Iterator[Use]:
        """The uses in a module or function, and in the functions inside."""
        known = self._learn(scope, dict(outer)) if isinstance(scope, ast.FunctionDef) else outer
        for node in _inside(scope):
            if isinstance(node, ast.FunctionDef):
                yield from self._scope(node, known)
            elif isinstance(node, ast.Call):
                yield from self._call(node, self._path(node.func, known))
            elif isinstance(node, ast.Attribute):
                path = self._path(node, known)
                if path and path != "cupy" and not path.endswith("()"):
                    yield Use(path, self._place(node))

    def _call(self, node: ast.Call, path: str) -> Iterator[Use]:
        spread = [
            *(each for each in node.args if isinstance(each, ast.Starred)),
            *(each for each in node.keywords if each.arg is None),
        ]
        if path and not spread:
            keywords = tuple(each.arg for each in node.keywords if each.arg is not None)
            yield Use(path.replace("()", ".__call__"), self._place(node), len(node.args), keywords)

    def _learn(self, scope: ast.AST, known: dict[str, str]) -> dict[str, str]:
        for node in _inside(scope):
            if isinstance(node, ast.Assign) and len(node.targets) == 1:
                target, value = node.targets[0], node.value
                pairs = zip(target.elts, value.elts, strict=False) if _tuples(target, value) else [(target, value)]  # type: ignore[attr-defined]
                for name, meant in pairs:
                    if path := self._path(meant, known):
                        (self._shared if isinstance(name, ast.Attribute) else known)[ast.unparse(name)] = path
        return known

    def _path(self, node: ast.AST, known: dict[str, str]) -> str:
        """ "cupy.cuda.Device" for an expression that is this object, "cupy.cuda.Device()" for one that is an instance of it, ""
        for anything else.
        """
        text = ast.unparse(node)
        stated = HANDED.get((self._name, text)) or known.get(text) or self._shared.get(text)
        if stated or text in MODULE:
            return stated or "cupy"
        if isinstance(node, ast.Call):
            if ast.unparse(node.func) in ("require", "cuda.require"):
                return "cupy"
            return _instance(self._path(node.func, known))
        if isinstance(node, ast.Attribute) and (owner := self._path(node.value, known)):
            kind = owner if owner in MODULE else _instance(owner) if owner in RETURNS else owner
            return f"{kind.removesuffix('()')}.{node.attr}"
        return ""

    def _place(self, node: ast.Attribute | ast.Call) -> str:
        return f"{self._name}:{node.lineno}"


def _instance(path: str) -> str:
    """What a call of `path` gives, or what the attribute `path` is; "" if that is unknown, or if CuPy has no such name."""
    try:
        kind = RETURNS.get(path) or (path if path and inspect.isclass(find(path)) else "")
    except AttributeError:
        return ""
    return kind and f"{kind}()"


def _tuples(target: ast.expr, value: ast.expr) -> bool:
    return isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple) and len(target.elts) == len(value.elts)


def _inside(scope: ast.AST) -> Iterator[ast.AST]:
    """The nodes of a scope, with nested functions as such, but without what is in them."""
    for child in ast.iter_child_nodes(scope):
        yield child
        if not isinstance(child, ast.FunctionDef):
            yield from _inside(child)
