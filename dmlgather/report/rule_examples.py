"""The examples on the pages about findings: a diff for each rule, from a failing to a fixed document."""

from __future__ import annotations

import re

_DIFF = re.compile(r"(?:At feature level (?P<level>\d_\d):\n\n)?```diff\n(?P<lines>.*?)```", re.DOTALL)
_JSON = re.compile(r"^```json\n(.*?)```", re.MULTILINE | re.DOTALL)
_KEY = re.compile(r"\s*(?:\"(\w+)\"|\{\"type\": \"(\w+)\")")


def shared_example(section: str, page: str) -> str:
    """Return the JSON example to which the diffs in a section apply: the last JSON block before the section."""
    found = _JSON.findall(page.partition(section)[0])
    if not found:
        raise ValueError("the page has no example before the section")
    return str(found[-1])


def written_out(section: str, page: str) -> str:
    """Replace each diff in a section by two documents: one that breaks the rule, and the fixed one.

    A diff that begins with "{" or "<" is a whole document. The lines of other diffs replace lines of the shared
    example with the same key.
    """

    def documents(match: re.Match[str]) -> str:
        language = "onnx" if match["lines"].lstrip(" +-").startswith("<") else "json"
        failing, fixed = (f"```{language}\n{document(match['lines'], sign)}```" for sign in "-+")
        level = f" at feature level {match['level']}" if match["level"] else ""
        return f"Fails{level}:\n\n{failing}\n\nFixed:\n\n{fixed}"

    def document(diff: str, sign: str) -> str:
        lines = [line[1:] for line in diff.splitlines() if line[0] in (" ", sign)]
        if not lines[0].startswith(("{", "<")):
            changed = {_key(line): line for line in lines}
            lines = [changed.pop(_key(line), line) for line in shared_example(section, page).splitlines()]
            if changed:
                raise ValueError(f"the example has no line like {min(changed.values())!r}")
        return "".join(f"{line}\n" for line in lines)

    return _DIFF.sub(documents, section)


def _key(line: str) -> str:
    """Return what identifies a line of JSON: the key at its start, the value of "type", or the whole line."""
    match = _KEY.match(line)
    return line if match is None else match[1] or match[2]
