"""Finds random numbers in source text that no seed decides. Such numbers cannot be repeated."""

from __future__ import annotations

import ast
import doctest
import re
from collections.abc import Iterable, Iterator

MODULES = ("random", "numpy.random", "dask.array.random", "cupy.random")
"""Modules whose functions draw from a shared generator."""

MAKERS = {"Random", "default_rng", "RandomState", "SeedSequence", "Generator"} | {
    "MT19937",
    "PCG64",
    "PCG64DXSM",
    "Philox",
    "SFC64",
}
"""Callables whose first argument is a seed. Without it, they choose a random one."""

SEED_NAMES = ("seed", "x", "entropy", "bit_generator")

FRESH = {"random.SystemRandom", "os.urandom", "os.getrandom", "uuid.uuid1", "uuid.uuid4"}

DRAWS = {f"tests.seeds.{name}" for name in ("seed", "rng", "numpy_rng")}

FUNCTION = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda

SUSPICIOUS = re.compile("random|secrets|uuid|seeds")
"""Matches every text in which this module can find a fault."""


def faults(text: str, *, imported: bool = False) -> list[str]:
    """Return the line and the name of each fault. Raises SyntaxError if the text is not Python.

    `imported`: report generators made at import, too. All tests of a module share them, so each test's numbers depend on the
    tests before it.
    """
    if not SUSPICIOUS.search(text):
        return []
    finder = _Finder(ast.parse(text), imported)
    return [f"line {line}: {what}" for line, what in sorted(finder.found)]


def faults_of_page(text: str) -> list[str]:
    """Return the faults of all Python blocks of a Markdown page. The blocks share their names. Lines are those of the blocks."""
    blocks = re.findall(r"^```python.*?\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    examples = doctest.DocTestParser()
    return faults("\n".join("".join(e.source for e in examples.get_examples(b)) if ">>> " in b else b for b in blocks))


def faults_of_script(text: str) -> list[str]:
    """Return the faults of the programs inside a shell script: after `-c`, `<<<` or `<< EOF`."""
    quoted = [found[1] for found in re.findall(r"(?:-c|<<<)\s+(['\"])(.*?)(?<!\\)\1", text, re.DOTALL)]
    here = [found[1] for found in re.findall(r"<<-?\s*['\"]?(\w+)['\"]?[^\n]*\n(.*?)\n\1$", text, re.DOTALL | re.MULTILINE)]
    return list(_faults_of_programs([*quoted, *here]))


def faults_inside_strings(text: str) -> list[str]:
    """Return the faults of the programs that a program contains as strings."""
    if not SUSPICIOUS.search(text):
        return []
    strings = [node.value for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Constant) and isinstance(node.value, str)]
    return list(_faults_of_programs(text for text in strings if "import " in text))


def _faults_of_programs(texts: Iterable[str]) -> Iterator[str]:
    for text in texts:
        try:
            yield from faults(text)
        except SyntaxError:  # prose, or another language
            continue


class _Finder(ast.NodeVisitor):
    """A visitor that collects faults."""

    def __init__(self, tree: ast.Module, imported: bool) -> None:
        self.found: set[tuple[int, str]] = set()
        self._imported = imported
        self._inside = 0
        self._hidden: list[set[str]] = []
        nodes = list(ast.walk(tree))
        self._names = dict(_imports(nodes))
        self._rebound = self._names.keys() & _bound(nodes)
        self._others = {  # names that stand for an imported name
            node.targets[0].id: name
            for node in nodes
            if isinstance(node, ast.Assign)
            and isinstance(node.targets[0], ast.Name)
            and (name := self._resolved(node.value))
            and name.rpartition(".")[2] in MAKERS
        }
        self.visit(tree)

    def _resolved(self, node: ast.expr) -> str | None:
        """Return the full name of an expression that begins with an imported name, or None."""
        if isinstance(node, ast.Attribute):
            base = self._resolved(node.value)
            return None if base is None else f"{base}.{node.attr}"
        if not isinstance(node, ast.Name) or any(node.id in names for names in self._hidden):
            return None
        return self._names.get(node.id)

    def _visit_inside(self, nodes: Iterable[ast.AST]) -> None:
        self._inside += 1
        for node in nodes:
            self.visit(node)
        self._inside -= 1

    def _visit_function(self, node: FUNCTION) -> None:
        arguments = node.args
        outside = [*arguments.defaults, *(default for default in arguments.kw_defaults if default is not None)]
        for each in [*outside, *(() if isinstance(node, ast.Lambda) else node.decorator_list)]:
            self.visit(each)
        self._hidden.append(_bound(ast.walk(node)) if self._rebound else set())
        self._visit_inside([node.body] if isinstance(node, ast.Lambda) else node.body)
        self._hidden.pop()

    visit_FunctionDef = visit_AsyncFunctionDef = visit_Lambda = _visit_function  # noqa: N815 - ast's names

    def visit_If(self, node: ast.If) -> None:
        """Skip the part of a module that does not run at import."""
        if ast.unparse(node.test) == "__name__ == '__main__'":
            self._visit_inside(node.body)
        else:
            self.generic_visit(node)

    def visit_Import(self, node: ast.Import) -> None:
        if any(alias.name == "secrets" for alias in node.names):
            self.found.add((node.lineno, "secrets"))

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        if node.module == "secrets":
            self.found.add((node.lineno, "secrets"))
        if node.module in MODULES and any(alias.name == "*" for alias in node.names):
            self.found.add((node.lineno, f"{node.module}.*"))

    def visit_Call(self, node: ast.Call) -> None:
        name = self._resolved(node.func)
        if name is None and isinstance(node.func, ast.Name):
            name = self._others.get(node.func.id)
        if name is not None and _makes(name):
            given = [*node.args, *(keyword.value for keyword in node.keywords if keyword.arg in (*SEED_NAMES, None))]
            if not given or (isinstance(given[0], ast.Constant) and given[0].value is None):
                self.found.add((node.lineno, f"{name} without a seed"))
        if self._imported and not self._inside and name is not None and (_makes(name) or name in DRAWS):
            self.found.add((node.lineno, f"{name} at import"))
        self.generic_visit(node)

    def _visit_name(self, node: ast.Attribute | ast.Name) -> None:
        name = self._resolved(node)
        if name is None:
            self.generic_visit(node)
        elif name in FRESH or name in MODULES or (_drawing(name) and not _makes(name)):
            self.found.add((node.lineno, name))

    visit_Attribute = visit_Name = _visit_name  # noqa: N815 - ast's names


def _bound(nodes: Iterable[ast.AST]) -> set[str]:
    return {
        node.arg if isinstance(node, ast.arg) else node.id
        for node in nodes
        if isinstance(node, ast.arg) or (isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store))
    }


def _imports(nodes: Iterable[ast.AST]) -> Iterator[tuple[str, str]]:
    for node in nodes:
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield (alias.asname, alias.name) if alias.asname else (alias.name.partition(".")[0],) * 2
        elif isinstance(node, ast.ImportFrom) and not node.level:
            for alias in node.names:
                yield alias.asname or alias.name, f"{node.module}.{alias.name}"


def _drawing(name: str) -> bool:
    """Return True if this is a member of a module that draws, other than a type."""
    module, _, member = name.rpartition(".")
    return module in MODULES and member != "BitGenerator"


def _makes(name: str) -> bool:
    return _drawing(name) and name.rpartition(".")[2] in MAKERS
