"""Reads PTX text into the instructions that the interpreter executes (`machine.h`). What is not known is refused."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

# fmt: off
OPCODES = (
    "add", "sub", "mul", "mul.hi", "mul.wide", "mad", "mad.wide", "div", "rem", "min", "max", "neg", "not", "not.pred",
    "and", "or", "xor", "shl", "shr", "shf.l", "shf.r", "prmt", "bfi", "selp", "mov", "pack", "unpack", "cvt", "eq",
    "ne", "lt", "le", "gt", "ge", "ld.param", "ld.global", "st.global", "ld.shared", "st.shared", "atom.min", "bar",
    "bra", "ret",
)
# fmt: on
"""In the order of `Op`. A comparison is a `setp`."""
TYPES = ("u8", "u16", "u32", "u64", "s8", "s16", "s32", "s64")
"""In the order of `Type`."""
SPECIAL = {"%tid.x": 2, "%ntid.x": 3, "%ctaid.x": 4, "%nctaid.x": 5, "%laneid": 6}
"""Special registers, as `Initial`. What lies along y and z is 0 for a position and 1 for a size."""
UNSET, CONSTANT = 0, 1
NONE = -1

_COMPARISONS = ("eq", "ne", "lt", "le", "gt", "ge", "lo", "ls", "hi", "hs")
_SAME = {"lo": "lt", "ls": "le", "hi": "gt", "hs": "ge"}
_IGNORED = {"nc", "cs", "ca", "cg", "global", "shared", "param", "lo", "wrap", "relaxed", "gpu", "sync", "weak", "aligned", "cta"}
"""Modifiers that say how to cache or order an access, or that the opcode already tells."""
_WIDTHS = {"8": 0, "16": 1, "32": 2, "64": 3}

_ENTRY = re.compile(r"\.entry (\w+)\(\s*(.*?)\n\)(.*?)\n\{\n(.*?)\n\}\n", re.DOTALL)
_PARAMETER = re.compile(r"\.param \.align \d+ \.b8 (\w+)\[(\d+)\]")
_REGISTERS = re.compile(r"\.reg \.(pred|[busf]\d+)\s+(%\w+)<(\d+)>")
_SHARED = re.compile(r"\.shared \.align (\d+) \.b8 (\w+)\[(\d*)\]")
_LOCATION = re.compile(r"\.loc\s+\d+ (\d+) \d+")
_LABEL = re.compile(r"(\$\w+):")
_STEP = re.compile(r"(?:@(!?)(%\w+)\s+)?([a-z][\w.:]*)\s*(.*)", re.DOTALL)
_HIGH_HALF = re.compile(r"\{ \.reg \.b32 (\w+); mov\.b64 \{\1, (%\w+)\}, (%\w+); \}")
"""How NVRTC 13.0 takes the high half of a register: the low one goes to a register of its own block."""
_ADDRESS = re.compile(r"\[([%$\w]+)(?:\+(-?\d+))?\]")


class AssemblyError(Exception):
    """PTX that the interpreter does not know."""


@dataclass(slots=True)
class Instruction:
    """Field for field `Instruction` of `machine.h`; text and line: of the PTX and of the CUDA source."""

    op: int
    type: int = 0
    source_type: int = 0
    predicate: int = NONE
    negated: int = 0
    results: list[int] = field(default_factory=list)
    sources: list[int] = field(default_factory=list)
    parts: int = 1
    target: int = 0
    uniform: int = 0
    offset: int = 0
    text: str = ""
    line: int = 0

    def numbers(self) -> tuple[int, ...]:
        """The fields in order."""
        results = (*self.results, *(NONE,) * (4 - len(self.results)))
        sources = (*self.sources, *(NONE,) * (4 - len(self.sources)))
        head = (self.op, self.type, self.source_type, self.predicate, self.negated)
        return (*head, *results, *sources, self.parts, self.target, self.uniform, self.offset)


@dataclass(frozen=True, slots=True)
class Routine:
    """One entry point. registers: (value, mask, initial) each. static_shared: bytes."""

    name: str
    instructions: list[Instruction]
    registers: list[tuple[int, int, int]]
    register_names: list[str]
    parameter_bytes: int
    static_shared: int


def routines(text: str) -> dict[str, str]:
    """The text of each entry point."""
    return {match[1]: match[0] for match in _ENTRY.finditer(text)}


def routine(text: str, module: str) -> Routine:
    """One entry point, read. module: the text around it, which declares dynamic shared memory."""
    return _Reader(text, module).read()


class _Reader:
    def __init__(self, text: str, module: str) -> None:
        match = _ENTRY.fullmatch(text)
        if match is None:
            raise AssemblyError(f"not an entry point: {text[:80]}")
        self.name, parameters, _, self.body = match.groups()
        self.symbols: dict[str, int] = {}
        self.parameter_bytes = 0
        for name, size in _PARAMETER.findall(parameters):
            self.symbols[name] = self.parameter_bytes
            self.parameter_bytes += int(size)
        if len(self.symbols) != 1:
            raise AssemblyError(f"{self.name}: one parameter is expected, a structure; found {len(self.symbols)}")
        self.static_shared = 0
        for align, name, size in _SHARED.findall(self.body):
            self.static_shared = -(-self.static_shared // int(align)) * int(align)
            self.symbols[name] = self.static_shared
            self.static_shared += int(size)
        for align, name, size in _SHARED.findall(module[: module.find(".entry")]):
            if size:
                raise AssemblyError(f"{name}: shared memory of a size outside an entry point")
            self.static_shared = -(-self.static_shared // int(align)) * int(align)
            self.symbols[name] = self.static_shared
        self.numbers: dict[str, int] = {}
        self.registers: list[tuple[int, int, int]] = []
        for kind, prefix, count in _REGISTERS.findall(self.body):
            mask = 1 if kind == "pred" else 2 ** int(kind[1:]) - 1
            for number in range(int(count)):
                self._add(f"{prefix}{number}", (0, mask, UNSET))

    def read(self) -> Routine:
        instructions: list[Instruction] = []
        labels: dict[str, int] = {}
        targets: list[tuple[Instruction, str]] = []
        line = 0
        for step in self._steps():
            if found := _LOCATION.match(step):
                line = int(found[1])
            elif found := _LABEL.fullmatch(step):
                labels[found[1]] = len(instructions)
            elif not step.startswith("."):
                instruction = self._instruction(step)
                instruction.line, instruction.text = line, " ".join(step.split())
                if instruction.op == OPCODES.index("bra"):
                    targets.append((instruction, instruction.text.split()[-1]))
                instructions.append(instruction)
        for instruction, label in targets:
            if label not in labels:
                raise AssemblyError(f"{self.name}: there is no label {label}")
            instruction.target = labels[label]
        return Routine(self.name, instructions, self.registers, list(self.numbers), self.parameter_bytes, self.static_shared)

    def _steps(self) -> Iterator[str]:
        """Instructions, labels and directives, without comments."""
        for text in self.body.splitlines():
            rest = _HIGH_HALF.sub(r"mov.b64 {_, \2}, \3;", text.partition("//")[0].strip())
            while found := _LABEL.match(rest):
                yield found[0]
                rest = rest[found.end() :].strip()
            if rest.startswith("."):
                yield rest
                continue
            yield from filter(None, map(str.strip, rest.split(";")))

    def _instruction(self, text: str) -> Instruction:
        match = _STEP.fullmatch(text)
        if match is None:
            raise AssemblyError(f"{self.name}: {text}")
        negated, predicate, opcode, rest = match.groups()
        try:
            instruction = self._decoded(opcode.split("."), _operands(rest))
        except (KeyError, ValueError, IndexError) as error:
            raise AssemblyError(f"{self.name}: the interpreter does not know this instruction: {text} ({error})") from error
        if predicate:
            instruction.predicate, instruction.negated = self._register(predicate), int(bool(negated))
        return instruction

    def _decoded(self, words: list[str], operands: list[str]) -> Instruction:
        base, *modifiers = words
        kinds = [word for word in modifiers if word == "pred" or re.fullmatch(r"[bus]\d+", word)]
        others = [word for word in modifiers if word not in kinds]
        match base:
            case "ret" | "exit":
                return Instruction(_op("ret"))
            case "bra":
                return Instruction(_op("bra"), uniform=int("uni" in others))
            case "bar":
                if operands != ["0"]:
                    raise ValueError("only barrier 0, for all threads")
                return Instruction(_op("bar"))
            case "ld" | "st" | "atom":
                return self._access(base, others, kinds[0], operands)
            case "cvta":
                if others != ["to", "global"]:
                    raise ValueError("only to global addresses")
                return self._plain("mov", "u64", operands)
            case "cvt":
                if others:
                    raise ValueError("only conversions that wrap")
                instruction = self._plain("cvt", kinds[0], operands)
                instruction.source_type = _type(kinds[1])
                return instruction
            case "setp":
                if len(others) != 1 or others[0] not in _COMPARISONS:
                    raise ValueError("an unknown comparison")
                return self._plain(_SAME.get(others[0], others[0]), kinds[0], operands)
            case "mov" if operands[0].startswith("{") or operands[1].startswith("{"):
                return self._packing(kinds[0], operands)
        for word in ("hi", "wide", "l", "r"):
            if word in others:
                others.remove(word)
                base = f"{base}.{word}"
        if set(others) - _IGNORED:
            raise ValueError(f"an unknown modifier in {others}")
        if base == "not" and kinds[0] == "pred":
            base = "not.pred"
        return self._plain(base, kinds[0], operands)

    def _plain(self, name: str, kind: str, operands: list[str]) -> Instruction:
        return Instruction(_op(name), _type(kind), results=[self._register(operands[0])], sources=self._registers(operands[1:]))

    def _packing(self, kind: str, operands: list[str]) -> Instruction:
        to, source = operands
        if to.startswith("{"):
            parts = _parts(to)
            results = [NONE if part == "_" else self._register(part) for part in parts]
            return Instruction(_op("unpack"), _type(kind), results=results, sources=[self._register(source)], parts=len(parts))
        parts = _parts(source)
        return Instruction(
            _op("pack"), _type(kind), results=[self._register(to)], sources=self._registers(parts), parts=len(parts)
        )

    def _access(self, base: str, others: list[str], kind: str, operands: list[str]) -> Instruction:
        space = next((word for word in others if word in ("param", "global", "shared")), None)
        if space is None:
            raise ValueError("only parameters, global and shared memory")
        vector = next((int(word[1:]) for word in others if word in ("v2", "v4")), 1)
        unknown = {word for word in others if word not in _IGNORED and not word.startswith("L1::")} - {f"v{vector}"}
        if base == "atom":
            if unknown != {"min"} or space != "global" or kind != "u64":
                raise ValueError("only atom.global.min.u64")
            to, address, value = operands
            place, offset = self._address(address)
            return Instruction(
                _op("atom.min"), _type(kind), results=[self._result(to)], sources=[place, self._register(value)], offset=offset
            )
        if unknown:
            raise ValueError(f"unknown modifiers {sorted(unknown)}")
        address, values = (operands[0], operands[1]) if base == "st" else (operands[1], operands[0])
        place, offset = self._address(address)
        parts = _parts(values) if vector > 1 else [values]
        if len(parts) != vector:
            raise ValueError(f"{vector} registers are expected")
        registers = self._registers(parts) if base == "st" else [self._result(part) for part in parts]
        return Instruction(_op(f"{base}.{space}"), _type(kind), results=registers, sources=[place], parts=vector, offset=offset)

    def _address(self, text: str) -> tuple[int, int]:
        match = _ADDRESS.fullmatch(text)
        if match is None:
            raise ValueError(f"the address {text}")
        return self._register(match[1]), int(match[2] or 0)

    def _result(self, text: str) -> int:
        return NONE if text == "_" else self._register(text)

    def _registers(self, operands: list[str]) -> list[int]:
        return [self._register(operand) for operand in operands]

    def _register(self, text: str) -> int:
        """The number of a register; a constant, a symbol and a special register become registers that are set."""
        if text in self.numbers:
            return self.numbers[text]
        if text in SPECIAL:
            return self._add(text, (0, 2**32 - 1, SPECIAL[text]))
        if re.fullmatch(r"%n?(tid|ctaid)\.[yz]", text):
            return self._add(text, (int(text[1] == "n"), 2**32 - 1, CONSTANT))
        value = self.symbols[text] if text in self.symbols else int(text.removesuffix("U"), 0)
        return self._add(text, (value % 2**64, 2**64 - 1, CONSTANT))

    def _add(self, name: str, register: tuple[int, int, int]) -> int:
        self.numbers[name] = len(self.registers)
        self.registers.append(register)
        return self.numbers[name]


def _op(name: str) -> int:
    return OPCODES.index(name)


def _type(kind: str) -> int:
    if kind == "pred":
        return 0
    return _WIDTHS[kind[1:]] + (4 if kind[0] == "s" else 0)


def _operands(text: str) -> list[str]:
    """Operands, separated by commas outside braces and brackets."""
    return [part.strip() for part in re.findall(r"\{[^}]*\}|\[[^\]]*\]|[^,\s]+", text)]


def _parts(text: str) -> list[str]:
    return [part.strip() for part in text.strip("{}").split(",")]
