"""Examples of the page about findings: one diff for each rule, and the two documents that it stands for."""

from __future__ import annotations

import re

_DIFF = re.compile(r"(?:At feature level (?P<level>\d_\d):\n\n)?```diff\n(?P<lines>.*?)```", re.DOTALL)
_MODEL = re.compile(r"^## Example model\n.*?```json\n(.*?)```", re.MULTILINE | re.DOTALL)
_KEY = re.compile(r"\s*(?:\"(\w+)\"|\{\"type\": \"(\w+)\")")


def example_model(page: str) -> str:
    """Return the model that the examples of rules about models change."""
    found = _MODEL.search(page)
    if found is None:
        raise ValueError("the page has no example model")
    return found[1]


def written_out(section: str, model: str) -> str:
    """Return a section with each diff replaced by its failing and its fixed document.

    A diff of a descriptor, or of a whole file, has all lines. Any other one changes lines of `model`: each of its lines replaces
    the line of the same key, or of the same command.
    """

    def documents(found: re.Match[str]) -> str:
        failing, fixed = (_document(found["lines"], sign, model) for sign in "-+")
        level = f" at feature level {found['level']}" if found["level"] else ""
        return f"Fails{level}:\n\n```json\n{failing}```\n\nFixed:\n\n```json\n{fixed}```"

    return _DIFF.sub(documents, section)


def _document(diff: str, sign: str, model: str) -> str:
    lines = [line[1:] for line in diff.splitlines() if line[0] in (" ", sign)]
    if not lines[0].startswith("{"):
        changed = {_key(line): line for line in lines}
        lines = [changed.pop(_key(line), line) for line in model.splitlines()]
        if changed:
            raise ValueError(f"the example model has no line like {min(changed.values())!r}")
    return "".join(f"{line}\n" for line in lines)


def _key(line: str) -> str:
    """Return the name that a line of a model begins with; for a command its type."""
    found = _KEY.match(line)
    return line if found is None else found[1] or found[2]
