"""The subcommand `compare`: run a file on several devices, or compare it with outputs of other programs, bit for bit."""

from __future__ import annotations

import secrets
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dmlgather.cli import common
from dmlgather.cli.common import AllowOutside, AsJson, JsonFile, JsonOutput, MemoryLimit, in_options, load
from dmlgather.cli.failures import say
from dmlgather.cli.limiting import RUNS, TimeLimit, stated, within
from dmlgather.cli.progress import reference_progress
from dmlgather.output import flush, put
from dmlgather.wording import printable, printable_lines

if TYPE_CHECKING:
    from dmlgather.comparing.dispatches import ComparedDispatch
    from dmlgather.comparing.saving import CompareReport, DispatchReport
    from dmlgather.comparing.tensor_files import StoredTensor
    from dmlgather.directml.dxdispatch.model_file import CheckedFile


def compare(
    files: Annotated[
        list[Path],
        typer.Argument(
            metavar="FILE",
            help="A DxDispatch model or a single descriptor; with --against MODEL.onnx also a stream of descriptors (.jsonl).",
            show_default=False,
        ),
    ],
    *,
    inputs: Annotated[
        list[str] | None,
        typer.Option(
            metavar="FILE…",
            help="Inputs as .npy, .bin or .dat files, in order or as NAME=FILE. They replace the random inputs of a descriptor "
            "(InputTensor=table.npy), or the values of a model's resources.",
            show_default=False,
        ),
    ] = None,
    devices: Annotated[
        str | None,
        typer.Option(
            metavar="NAME,NAME…",
            help="Devices: cuda, cuda:N, cpu, reference. Default: cuda if there is a GPU, cpu and reference.",
            show_default=False,
        ),
    ] = None,
    against_options: Annotated[
        list[Path] | None,
        typer.Option(
            "--against",
            metavar="FILE|DIR",
            help="Also compare with outputs from elsewhere: a .npy, .bin or .dat file for a model with one dispatch, or a folder "
            "with the files that writeFile or --save writes. An ONNX model (.onnx) is run on the same inputs.",
        ),
    ] = None,
    trials: Annotated[
        int | None,
        typer.Option(
            min=1,
            metavar="N",
            help="Compare a single descriptor N times with new random inputs, until the first mismatch.",
            show_default=False,
        ),
    ] = None,
    seed: Annotated[
        int | None,
        typer.Option(min=0, metavar="N", help="Seed of the random inputs of a single descriptor, in its first trial."),
    ] = None,
    as_json: AsJson = False,
    output: JsonFile = None,
    save: Annotated[
        Path | None,
        typer.Option(
            metavar="CASE",
            help="Save a model with its inputs, outputs and report, for comparing elsewhere: the model is CASE if that ends in "
            ".json, otherwise CASE/case.json; the other files lie beside it.",
        ),
    ] = None,
    time_limit: TimeLimit = None,
    memory_limit: MemoryLimit = None,
    allow_outside: AllowOutside = False,
    rtol: Annotated[str | None, typer.Option(hidden=True)] = None,
    atol: Annotated[str | None, typer.Option(hidden=True)] = None,
) -> int:
    """Run every dispatch of a file on several devices and compare the results bit for bit.

    For a mismatch, the report has the number of differing elements, the first and the worst of them as numbers and bits, and a
    likely cause. A single descriptor runs on the inputs of --inputs, or on random inputs with some indices out of range. A case
    saved with --save is a DxDispatch model. Run it elsewhere, for example with DxDispatch, and compare the outputs with
    --against.

    With --against MODEL.onnx, FILE and the ONNX model run on the same inputs, with indices at every boundary: FILE in the
    reference backend, the model in onnx's reference evaluator and, if installed, in onnxruntime. Equal results do not prove
    that FILE and the model are equivalent.

    Exit codes: 0 equal; 1 a mismatch, errors in the file, or lines of a stream that were left out; 2 a file could not be read
    or run; 130 after Ctrl-C; 141 when the reader of the output closed it early.
    """
    from dmlgather.directml.dxdispatch.writing import NAME, model_path
    from dmlgather.input_files import InputFiles

    for name, tolerance in (("--rtol", rtol), ("--atol", atol)):
        if tolerance is not None:
            raise typer.BadParameter(
                "there is no tolerance, because these operators only copy elements: correct outputs are equal bit for bit. The "
                "report shows the largest difference",
                param_hint=f"'{name}'",
            )
    if len(paths := against_options or []) > 1:
        raise typer.BadParameter(
            f"takes one file or folder, got {' and '.join(printable(repr(str(path))) for path in paths)}: name one at a time",
            param_hint="'--against'",
        )
    against = paths[0] if paths else None
    with_model = against is not None and against.suffix.lower() == ".onnx"
    file, input_options = _split_arguments(files, inputs or [], devices)
    data_files = (*_files(against), *(Path(item.partition("=")[2] or item) for item in input_options))
    made_from = InputFiles((file, *_files(against))) if with_model else InputFiles((file,), data_files)
    written = JsonOutput(as_json, output, made_from, (save and model_path(save),))
    if against is not None and with_model:
        for option, value in (("--devices", devices), ("--trials", trials), ("--save", save), ("--inputs", inputs)):
            if value is not None:
                raise typer.BadParameter("cannot be used with --against MODEL.onnx: leave it out", param_hint=f"'{option}'")
        with within(stated(time_limit, memory_limit, RUNS), file, against):
            return _with_model(file, against, allow_outside, seed or 0, written)
    limit = common.memory_limit(memory_limit)
    with within(stated(time_limit, memory_limit), file):
        checked = load(file, allow_outside, command="compare")
    for option, value in (("--trials", trials), ("--seed", seed)):
        if value is not None and (input_options or checked.kind == "model"):
            reason = "--inputs names the inputs" if input_options else "a model states its inputs"
            remedy = "leave it out" if input_options else "leave it out, or name a single descriptor"
            raise typer.BadParameter(f"{reason}, and none is random: {remedy}", param_hint=f"'{option}'")
    if checked.kind == "descriptor" and against is not None and not input_options:
        raise typer.BadParameter(
            f"{printable(str(file))} is a single descriptor, which does not contain inputs. Give the inputs of these outputs by "
            "--inputs FILE… (in Python: dg.compare(descriptor, *inputs, against=output)). Or write a model with random inputs by "
            f"--save DIR instead of --against, run DIR/{NAME} elsewhere, and compare this file with the outputs by --against",
            param_hint="'--against'",
        )
    device_names = _devices(devices, one_suffices=against is not None or save is not None)
    task = _Task(file, checked, device_names, against, limit, save, as_json)
    if input_options:
        report = task.with_inputs(input_options)
    else:
        report = task.of_model() if checked.kind == "model" else task.of_descriptor(seed, trials)
    written.write(lambda: report.model_dump(mode="json"))
    return report.exit_code


def _split_arguments(files: Sequence[Path], inputs: Sequence[str], devices: str | None) -> tuple[Path, list[str]]:
    """Separate the file to compare from the inputs. In `--inputs A B`, Typer takes B for another file to compare."""
    from dmlgather.directml.dxdispatch.model_file import SUFFIXES

    further = [file for file in files if inputs and (file.suffix.lower() in SUFFIXES or "=" in file.name)]
    compared = [file for file in files if file not in further]
    if len(compared) != 1:
        names = ", ".join(printable(str(file)) for file in compared) or "none"
        hints = "".join(f"; {hint}" for hint in _hints(compared, inputs, devices))
        raise typer.BadParameter(f"expected one model or descriptor, got {names}{hints}", param_hint="'FILE'")
    if len(inputs) > 1 and any("=" not in str(file) for file in further):
        raise typer.BadParameter(
            "the order of the files is ambiguous: give all files after one --inputs, or one --inputs per file, or NAME=FILE",
            param_hint="'--inputs'",
        )
    return compared[0], [*inputs, *map(str, further)]


def _hints(files: Sequence[Path], inputs: Sequence[str], devices: str | None) -> Iterator[str]:
    """Yield the options that the user probably meant."""
    from dmlgather.backends.devices import Device
    from dmlgather.directml.dxdispatch.model_file import SUFFIXES

    names = []
    for file in files:
        with suppress(ValueError):
            names.append(str(Device.parse(str(file))))
    if names:
        given = [name for name in (devices or "").split(",") if name]
        yield f"--devices takes names with commas between them: --devices {printable(','.join([*given, *names]))}"
    if any(file.suffix.lower() in SUFFIXES for file in files):
        yield "inputs follow --inputs, and an output to compare with follows --against"
    unlike = [file for file in files if file.suffix.lower() not in (".json", *SUFFIXES) and str(file) not in names]
    if inputs and unlike:
        yield f"--inputs takes files that end in {', '.join(SUFFIXES)}, not {', '.join(printable(str(file)) for file in unlike)}"


def _with_model(file: Path, model: Path, allow_outside: bool, seed: int, written: JsonOutput) -> int:
    from dmlgather.differential import check_agreement

    source, left_out = common.read_program_file(file, allow_outside, "compare")
    if not source.graph.outputs:
        say(f"{file}: nothing is left to compare" if left_out.lines else f"{file}: there is nothing to compare")
        return left_out.code or 2
    agreement = check_agreement(source.graph, model, initial=source.initial, seed=seed)
    if not written.printed:
        verdict, *remarks = printable_lines(str(agreement)).split("\n")
        put("\n".join([verdict + (f"{left_out} of {printable(str(file))}" if left_out.lines else ""), *remarks, ""]))
    written.write(lambda: {"file": str(file), "against": str(model), "left_out": left_out.lines, **agreement.to_json()})
    return max(left_out.code, 0 if agreement else 1)


@dataclass(frozen=True)
class _Task:
    file: Path
    checked: CheckedFile
    devices: list[str]
    against: Path | None
    memory_limit: int | None
    save: Path | None
    quiet: bool
    inputs: tuple[Path, ...] = ()

    def of_model(self) -> CompareReport:
        from dmlgather.comparing.dispatches import check_model_memory
        from dmlgather.comparing.tensor_files import external_outputs

        external = None if self.against is None else external_outputs(self.checked, self.against)
        check_model_memory(self.checked, self.devices, external, self.memory_limit)
        case = None
        if self.save is not None:
            from dmlgather.comparing.saving import check_no_older
            from dmlgather.directml.dxdispatch.writing import lost_outputs, write_model

            made_from = self._made_from(external)
            check_no_older(self.save, self.devices, max(map(len, (external or {}).values()), default=0), made_from)
            case = write_model(self.checked, self.save, made_from)
            say(f"Case written to '{case}'")
            for number, output in lost_outputs(self.checked).items():
                say(
                    f"commands[{number}] '{output.command.dispatchable}': commands[{output.replaced_by}] writes "
                    f"'{output.bound.resource}' again, so that the case writes no file of this output: add a writeFile command "
                    "between them"
                )
        report = self._compare(self.checked, case, external)
        against = None if self.against is None else str(self.against)
        report = report.model_copy(update={"against": against, "inputs": tuple(map(str, self.inputs))})
        return self._save_report(case, report, external)

    def with_inputs(self, options: Sequence[str]) -> CompareReport:
        """Compare on the inputs of --inputs. A descriptor becomes a DxDispatch model first."""
        from dmlgather.comparing.dispatches import check_descriptor_memory
        from dmlgather.comparing.given_inputs import descriptor_buffers, named_files, stored_inputs, with_inputs
        from dmlgather.directml.dxdispatch.model_file import check_file
        from dmlgather.directml.dxdispatch.writing import NAME, model_path, write_single

        try:
            files = named_files(self.checked, options)
        except ValueError as error:
            raise typer.BadParameter(printable(str(error)), param_hint="'--inputs'") from None
        inputs = stored_inputs(self.checked, files)
        task = replace(self, inputs=tuple(files.values()))
        if self.checked.kind == "model":
            return replace(task, checked=with_inputs(self.checked, inputs)).of_model()
        desc = self.checked.dispatchables[""].desc
        check_descriptor_memory(str(self.file), desc, self.devices, self.memory_limit)
        with tempfile.TemporaryDirectory(prefix="dmlgather-") as scratch:
            place = Path(scratch) / (NAME if self.save is None else model_path(self.save).name)
            case = write_single(desc, descriptor_buffers(desc, inputs), place)
            return replace(task, checked=check_file(case)).of_model()

    def _made_from(self, external: Mapping[int, Sequence[StoredTensor]] | None = None) -> list[Path]:
        from dmlgather.directml.dxdispatch.writing import sources

        return [
            self.file,
            *self.inputs,
            *sources(self.checked),
            *(file.values.path for files in (external or {}).values() for file in files),
        ]

    def of_descriptor(self, seed: int | None, trials: int | None) -> CompareReport:
        """Compare a descriptor on random inputs until the first mismatch. Return the report of the last trial."""
        from dmlgather.comparing.dispatches import check_descriptor_memory
        from dmlgather.directml.dxdispatch.model_file import check_file
        from dmlgather.directml.dxdispatch.writing import random_inputs, write_single

        desc = self.checked.dispatchables[""].desc
        check_descriptor_memory(str(self.file), desc, self.devices, self.memory_limit)
        if self.save is not None:
            from dmlgather.comparing.saving import check_no_older

            check_no_older(self.save, self.devices)
        first, count = secrets.randbits(32) if seed is None else seed, trials or 1
        for number in range(count):
            of = "" if trials is None else f", trial {number + 1} of {trials}"
            say(f"Random inputs from --seed {first + number}{of}")
            with tempfile.TemporaryDirectory(prefix="dmlgather-") as scratch:
                inputs = random_inputs(desc, first + number)
                case = write_single(desc, inputs, self.save or Path(scratch), self._made_from())
                del inputs
                if self.save is not None and number == 0:
                    say(f"Case written to '{case}'")
                model = check_file(case)  # `load` has shown its findings
                report = self._compare(model, None if self.save is None else case)
                drawn = {"seed": first + number, "trials": None if trials is None else number + 1}
                report = self._save_report(None if self.save is None else case, report.model_copy(update=drawn))
            if report.exit_code:
                break
        if trials is not None and report.exit_code:
            say(f"Trial {number + 1} of {trials} differs; --seed {first + number} repeats it")
        return report

    def _compare(
        self, model: CheckedFile, case: Path | None, external: Mapping[int, Sequence[StoredTensor]] | None = None
    ) -> CompareReport:
        """Compare the outputs of every dispatch, and save them if there is a `case`."""
        from dmlgather.comparing.comparison import least_devices
        from dmlgather.comparing.dispatches import compare_model
        from dmlgather.comparing.saving import compare_report

        reports: list[DispatchReport] = []
        one_suffices = self.save is not None
        least = least_devices(one_suffices or external is not None)
        with reference_progress("leave it out of --devices" if len(self.devices) > least else "use smaller tensors"):
            for dispatch in compare_model(model, self.devices, external, one_suffices=one_suffices):
                number, name, comparison = dispatch.command, dispatch.dispatchable, dispatch.comparison
                files = {} if case is None else self._save_outputs(model, case, dispatch, self._made_from(external))
                reports.append(comparison.report(number, name, files))
                if not self.quiet:
                    start = f"commands[{number}] '{printable(name)}': "
                    put("".join(f"{line}\n" for line in _lines(start, comparison.messages())))
                    flush()
        if not _dispatches(model):
            say(f"{model.file}: the model has no dispatch command, so nothing is compared")
        return compare_report(self.devices, reports).model_copy(update={"file": str(self.file)})

    @staticmethod
    def _save_outputs(model: CheckedFile, case: Path, dispatch: ComparedDispatch, made_from: Sequence[Path]) -> dict[str, str]:
        """Write the outputs of a dispatch. Return the file names by device."""
        from dmlgather.comparing.saving import save_outputs
        from dmlgather.directml.dxdispatch.writing import sources

        comparison = dispatch.comparison
        outputs = dict(zip(comparison.devices, comparison.outputs, strict=True))
        made_from = [*sources(model), *made_from]
        return save_outputs(case, dispatch.command, dispatch.dispatchable, outputs, made_from, external=comparison.given)

    def _save_report(
        self, case: Path | None, report: CompareReport, external: Mapping[int, Sequence[StoredTensor]] | None = None
    ) -> CompareReport:
        if case is not None:
            from dmlgather.comparing.saving import save_report

            save_report(case, report, self._made_from(external))
        return report


def _lines(start: str, messages: Sequence[str]) -> Iterator[str]:
    from dmlgather.report.snippets import wrapped
    from dmlgather.report.text import terminal_width

    width = terminal_width()
    for message in messages:
        for line in f"{start}{message}".split("\n"):
            text = line.lstrip()
            indent = " " * (len(line) - len(text))
            yield from wrapped(text, width, indent, len(indent) + 2)


def _files(against: Path | None) -> tuple[Path, ...]:
    return () if against is None else tuple(against.iterdir()) if against.is_dir() else (against,)


def _dispatches(model: CheckedFile) -> bool:
    from dmlgather.directml.dxdispatch.commands import Dispatch

    return any(isinstance(command, Dispatch) for command in model.commands)


def _devices(option: str | None, one_suffices: bool) -> list[str]:
    from dmlgather.comparing.comparison import check_devices, default_devices, least_devices

    if option is None:
        names, missing = default_devices()
        if missing is not None:
            common.left_out(missing)
        return names
    names = [name.strip() for name in option.split(",") if name.strip()]
    try:
        check_devices(names, least_devices(one_suffices))
    except ValueError as error:
        raise typer.BadParameter(in_options(error), param_hint="'--devices'") from None
    return names
