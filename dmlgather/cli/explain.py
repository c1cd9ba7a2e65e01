"""`dmlgather explain`: what descriptors become."""

from __future__ import annotations

import json
import sys

from dmlgather.cli.options import AsJson, ModelFile


def explain(file: ModelFile, as_json: AsJson = False) -> int:
    """Show for each operator of a file: plan, canonical plan, what each device would run, bytes moved, lowest feature level.

    Exit codes: 0 shown, 1 the file has errors, 2 it could not be understood.
    """
    from dmlgather.cli.loading import load
    from dmlgather.operator import compile as compile_operator
    from dmlgather.wording import printable

    checked = load(file)
    explanations = {name: compile_operator(found.desc).explain() for name, found in checked.dispatchables.items()}
    if as_json:
        data = [{"name": name, **explanation.to_json()} for name, explanation in explanations.items()]
        sys.stdout.write(json.dumps(data, indent=2) + "\n")
        return 0
    for number, (name, explanation) in enumerate(explanations.items()):
        heading = f"dispatchable '{printable(name)}'\n" if name else ""
        sys.stdout.write(("\n" if number else "") + heading + f"{explanation}\n")
    return 0
