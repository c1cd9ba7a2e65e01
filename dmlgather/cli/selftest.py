"""The subcommand `selftest`: compare this machine's results with the reference, bit for bit."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, Annotated

import typer

from dmlgather.cli.common import AsJson, JsonFile, JsonOutput
from dmlgather.cli.failures import say
from dmlgather.cli.progress import progress_bar
from dmlgather.output import put

if TYPE_CHECKING:
    from dmlgather.backends.devices import Device

TRIALS = 1000
"""Each kernel runs several of these plans; all take a minute or two."""


def selftest(
    *,
    device: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="cuda, cuda:N (counted from 0) or cpu. Default: cuda if there is a GPU, else cpu."),
    ] = None,
    trials: Annotated[
        int | None, typer.Option(min=1, metavar="N", help=f"Run N random plans. Default: {TRIALS}, or no limit with --seconds.")
    ] = None,
    seconds: Annotated[float | None, typer.Option(metavar="S", help="Start no plan after S seconds; at least one runs.")] = None,
    seed: Annotated[int | None, typer.Option(min=0, metavar="N", help="Repeat the plans of a run that printed seed N.")] = None,
    trial: Annotated[int | None, typer.Option(min=0, metavar="K", help="Run only plan K of that seed.")] = None,
    as_json: AsJson = False,
    output: JsonFile = None,
) -> int:
    """Run random copies (plans) on this machine and compare every byte with the reference. Run it first on a new GPU.

    The plans cover every CUDA kernel, all element sizes, index types, policies, strides and alignments. On the CPU, each plan
    runs in the compiled engine, with every instruction set of the machine, and in NumPy. Buffers lie between guard bands, and
    outputs are filled with random bytes first.

    The first line has the seed, so that a run that hangs can be repeated. The last line has the tests, the device, the driver
    and versions: paste it into bug reports. A mismatch is shown with the command that repeats it.

    Exit codes: 0 equal; 1 a mismatch; 2 the device cannot be used, or wrong usage; 130 after Ctrl-C.
    """
    from dmlgather.selftest.runner import run_selftest

    _check(trials, seconds, seed, trial)
    written = JsonOutput(as_json, output)
    chosen = _device(device)
    count = TRIALS if trials is None and seconds is None else trials
    first = secrets.randbits(32) if seed is None else seed
    with progress_bar() as progress:
        report = run_selftest(
            chosen,
            first,
            trials=count,
            seconds=seconds,
            only=trial,
            begun=lambda: say(f"testing {chosen}, --seed {first}"),
            progress=progress,
        )
    for line in report.lines():
        if as_json:
            say(line)
        else:
            put(f"{line}\n")
    written.write(lambda: report.model_dump(mode="json"))
    return report.exit_code


def _check(trials: int | None, seconds: float | None, seed: int | None, trial: int | None) -> None:
    if seconds is not None and not 0 < seconds < float("inf"):
        raise typer.BadParameter(f"expected a positive number of seconds, got {seconds}", param_hint="'--seconds'")
    if trial is not None:
        if seed is None:
            raise typer.BadParameter("needs --seed: give the seed that the first run printed", param_hint="'--trial'")
        if trials is not None or seconds is not None:
            raise typer.BadParameter("runs a single plan: leave out --trials and --seconds", param_hint="'--trial'")


def _device(name: str | None) -> Device:
    from dmlgather.backends.devices import CPU, Device
    from dmlgather.cli.common import missing_gpu

    if name is None:
        missing = missing_gpu()
        if missing is None:
            return Device("cuda")
        say(f"cpu is tested, as no GPU can be: {missing}")
        return CPU
    try:
        device = Device.parse(name)
    except ValueError:
        device = None
    if device is None or device.kind == "reference":
        raise typer.BadParameter(f"expected cuda, cuda:N or cpu, got {name!r}", param_hint="'--device'")
    return device
