"""Examples in the pages about findings: each rule has a diff from a failing to a fixed document."""

from __future__ import annotations

import re

_DIFF = re.compile(r"(?:At feature level (?P<level>\d_\d):\n\n)?```diff\n(?P<lines>.*?)```", re.DOTALL)
_MODEL = re.compile(r"^## Example model\n.*?```json\n(.*?)```", re.MULTILINE | re.DOTALL)
_KEY = re.compile(r"\s*(?:\"(\w+)\"|\{\"type\": \"(\w+)\")")


def example_model(page: str) -> str:
    """Return the DxDispatch model to which the diffs of rules about models apply."""
    match = _MODEL.search(page)
    if match is None:
        raise ValueError("the page has no example model")
    return match[1]


def written_out(section: str, page: str) -> str:
    """Return a section of `page` with each diff replaced by its failing and its fixed document.

    A diff that begins with "{" or "<" has all lines of a descriptor, file or ONNX model. Any other diff applies to the page's
    example model: each line replaces the model's line with the same key or command.
    """

    def documents(match: re.Match[str]) -> str:
        language = "onnx" if match["lines"].lstrip(" +-").startswith("<") else "json"
        failing, fixed = (f"```{language}\n{_document(match['lines'], sign, page)}```" for sign in "-+")
        level = f" at feature level {match['level']}" if match["level"] else ""
        return f"Fails{level}:\n\n{failing}\n\nFixed:\n\n{fixed}"

    return _DIFF.sub(documents, section)


def _document(diff: str, sign: str, page: str) -> str:
    lines = [line[1:] for line in diff.splitlines() if line[0] in (" ", sign)]
    if not lines[0].startswith(("{", "<")):
        changed = {_key(line): line for line in lines}
        lines = [changed.pop(_key(line), line) for line in example_model(page).splitlines()]
        if changed:
            raise ValueError(f"the example model has no line like {min(changed.values())!r}")
    return "".join(f"{line}\n" for line in lines)


def _key(line: str) -> str:
    """Return the key at the start of a model's line, or the type of a command."""
    match = _KEY.match(line)
    return line if match is None else match[1] or match[2]
