"""An extension of griffe, which reads the docstrings of the reference: their examples are code."""

from typing import Any

from griffe import Extension, Object

from ci.pages.doctests import fenced


class Doctests(Extension):
    """Makes examples in docstrings blocks of code."""

    def on_object(self, *, obj: Object, **_: Any) -> None:
        """Rewrite the docstring of a module, class, function or attribute."""
        if obj.docstring is not None:
            obj.docstring.value = fenced(obj.docstring.value)
