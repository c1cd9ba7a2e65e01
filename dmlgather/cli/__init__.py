"""The `dmlgather` command. One module per subcommand; nothing heavy is imported before a subcommand needs it.

Ctrl-C ends the command with `INTERRUPTED` from here on; before that, Python itself is starting, and ends by the signal.
"""

from __future__ import annotations

import sys

TYPE_CHECKING = False  # an interrupt while typing is imported would not be heeded
if TYPE_CHECKING:
    from typing import NoReturn

INTERRUPTED = 128 + 2
"""Exit code after Ctrl-C: as shells have it for a command that SIGINT ended."""

UNREAD = 128 + 13
"""Exit code when whoever read the output closed it before the end, as `head` does: as shells have it for SIGPIPE."""

_pressed = False
"""Whether Ctrl-C was pressed."""

_ending: int | None = None
"""The exit code, once it is settled."""


def main(command: str = "dmlgather.cli.app") -> NoReturn:
    """Entry point of the command: run the subcommand that the arguments name and exit with its code.

    command: the module whose `run` takes the arguments; a checkout has other commands.
    """
    global _ending  # noqa: PLW0603 - of the process, as signals are
    try:
        _heed_interrupts()
        _start_fast()
        import importlib

        code: int = importlib.import_module(command).run(sys.argv[1:])
        if _pressed and code == 0:  # the exception came where Python drops exceptions, as in a destructor
            raise KeyboardInterrupt
        _ending = code
    except KeyboardInterrupt:  # while the command was being imported, or was pressed again while it was ending
        _ending = INTERRUPTED
        sys.stderr.write("dmlgather: interrupted\n")
    if _ending in (INTERRUPTED, UNREAD):
        discard(sys.stdout)  # flushing the rest may wait for a reader, or fail again
    sys.exit(_ending)


def _start_fast() -> None:
    """Do without what costs time in every run of a command: collecting garbage while modules are imported, and looking in all
    installed packages for plugins of Pydantic.
    """
    import gc
    import os

    gc.set_threshold(100_000)
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")


def discard(stream: object) -> None:
    """Discard what is still to be written to a stream, and what will be, so that closing it at exit neither waits nor fails."""
    import os

    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())  # type: ignore[attr-defined] # may lack one: see below
    except (AttributeError, OSError, ValueError):
        return


def _heed_interrupts() -> None:
    """Let Ctrl-C raise KeyboardInterrupt until the exit code is settled, and end the process with that code afterwards, without
    waiting for threads and for what runs at exit. Where the caller lets the process ignore Ctrl-C, it does.
    """
    import atexit
    import signal

    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _interrupt)
        # Last of all that runs at exit. From then on, Python would put the default back, which ends the process by the signal.
        atexit.register(signal.signal, signal.SIGINT, signal.SIG_IGN)


def _interrupt(*_: object) -> None:
    global _pressed  # noqa: PLW0603 - likewise
    _pressed = True
    if _ending is not None:
        import os

        os._exit(_ending)
    raise KeyboardInterrupt
