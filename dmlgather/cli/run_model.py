"""The subcommand `run`: execute a DxDispatch model."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dmlgather.cli import common
from dmlgather.cli.common import AllowOutside, AsJson, JsonFile, JsonOutput, MemoryLimit, in_options, load, missing_gpu
from dmlgather.cli.failures import say
from dmlgather.cli.limiting import TimeLimit, stated, within
from dmlgather.cli.progress import reference_progress
from dmlgather.output import flush, put
from dmlgather.wording import printable, spelled

if TYPE_CHECKING:
    from dmlgather.model_runner import Event, Printed

CHUNK = 4096
"""Elements that are written at a time."""


def run(
    model: Annotated[Path, typer.Argument(metavar="MODEL.json", help="A DxDispatch model.", show_default=False)],
    *,
    device: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            autocompletion=common.devices,
            help="Device: auto, cpu, cuda, cuda:N or reference; auto takes a GPU if there is one.",
        ),
    ] = "auto",
    output_dir: Annotated[Path, typer.Option(metavar="DIR", help="Folder for the files of writeFile commands.")] = Path(),
    iterations: Annotated[int, typer.Option(min=1, metavar="N", help="Runs of each dispatch; the median time is shown.")] = 1,
    as_json: AsJson = False,
    output: JsonFile = None,
    time_limit: TimeLimit = None,
    memory_limit: MemoryLimit = None,
    allow_outside: AllowOutside = False,
) -> int:
    """Run the commands of a DxDispatch model in order, on the CPU or an NVIDIA GPU.

    print commands write to standard output: "Resource 'NAME': 7, 9, 12". The device, the time of each dispatch and the names of
    written files go to standard error. A model with errors is not run.

    Exit codes: 0 it ran; 1 the model has errors; 2 it could not be read or run; 130 after Ctrl-C; 141 when the reader of the
    output closed it early.
    """
    from dmlgather.backends.memory import check_memory
    from dmlgather.comparing.saving import device_title
    from dmlgather.input_files import InputFiles
    from dmlgather.model_runner import Runner, memory_shares

    written = JsonOutput(as_json, output, InputFiles((model,)))
    limit, (chosen, missing) = common.memory_limit(memory_limit), _device(device)
    with within(stated(time_limit, memory_limit), model):
        checked = load(model, allow_outside, command="run")
        if checked.kind != "model":
            say(f"{model}: a single descriptor has no resources and commands to run; explain and compare take it")
            return 2
    check_memory(f"running {checked.file}", memory_shares(checked, [chosen]), limit, ["use smaller resources"])
    runner = Runner(checked, chosen, output_dir)
    if missing is not None:
        common.left_out(missing)
    say(f"Running on '{device_title(runner.device)}'")
    with reference_progress("name another --device"):
        events = _shown(runner.run(iterations), quiet=as_json)
        if written:
            written.write_pieces(_json(str(model), device_title(runner.device), events))
        else:
            deque(events, maxlen=0)
    return 0


def _device(name: str) -> tuple[str, str | None]:
    """Return the device to run on. If "auto" finds no GPU, also return the reason."""
    from dmlgather.backends.devices import Device

    if name == "auto":
        missing = missing_gpu()
        return ("cuda", None) if missing is None else ("cpu", missing)
    try:
        return str(Device.parse(name)), None
    except ValueError as error:
        raise typer.BadParameter(in_options(ValueError(f"{error}, or 'auto'")), param_hint="'--device'") from None


def _shown(events: Iterable[Event], quiet: bool) -> Iterator[Event]:
    from dmlgather.model_runner import Printed

    for event in events:
        if not (quiet and isinstance(event, Printed)):
            show(event)
        yield event


def _json(file: str, device: str, events: Iterable[Event]) -> Iterator[str]:
    """Yield the results of a run as JSON text, in pieces to save memory."""
    yield f'{{\n  "file": {json.dumps(file)},\n  "device": {json.dumps(device)},\n  "commands": ['
    for number, event in enumerate(events):
        yield ",\n    " if number else "\n    "
        yield from _json_of(event)
    yield "\n  ]\n}\n"


def _json_of(event: Event) -> Iterator[str]:
    from dmlgather.model_runner import Dispatched, Printed

    if isinstance(event, Dispatched):
        timings = asdict(event)
        yield json.dumps({"type": "dispatch", "dispatchables": [timings.pop("dispatchable")], **timings})
    elif isinstance(event, Printed):
        head = json.dumps({"type": "print", "resource": event.resource, "data_type": str(event.values.dtype), "values": 0})
        yield head.removesuffix("0}") + "["
        for at in range(0, event.values.size, CHUNK):
            yield (", " if at else "") + ", ".join(map(_json_number, event.values[at : at + CHUNK]))
        yield "]}"
    else:
        yield json.dumps({"type": "writeFile", "resource": event.resource, "file": str(event.file)})


def _json_number(value: Any) -> str:
    """Return a number as JSON text with the same bits. NaNs and infinities become strings."""
    import numpy as np

    text = spelled(value)
    text = "-0.0" if text == "-0" else text  # -0 would be read as an integer
    return text if np.isfinite(value) else f'"{text}"'


def show(event: Event) -> None:
    """Print the result of one command of a model."""
    from dmlgather.model_runner import Dispatched, Printed
    from dmlgather.wording import counted

    if isinstance(event, Printed):
        for piece in printed(event):
            put(piece)
        flush()
    elif isinstance(event, Dispatched):
        gpu = "" if event.gpu_ms is None else f", {event.gpu_ms:.4f} ms median (GPU)"
        times = counted(event.iterations, "iteration")
        say(f"Dispatch '{event.dispatchable}': {times}, {event.cpu_ms:.4f} ms median (CPU){gpu}")
    else:
        say(f"Resource '{event.resource}' written to '{event.file}'")


def printed(event: Printed) -> Iterator[str]:
    """Yield the output of a print command, in pieces to save memory."""
    values = event.values
    if event.verbose:
        width = len(str(values.size - 1))
        yield f"Resource '{printable(event.resource)}':\n"
        for number, value in enumerate(values):
            yield f"[{number:{width}}] {spelled(value)} (0x{value.tobytes()[::-1].hex().upper()})\n"
        return
    yield f"Resource '{printable(event.resource)}': "
    for at in range(0, values.size, CHUNK):
        yield (", " if at else "") + ", ".join(map(spelled, values[at : at + CHUNK]))
    yield "\n"
