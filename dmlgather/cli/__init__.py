"""The `dmlgather` command, with one module per subcommand. Heavy modules are imported only when they are needed."""

from __future__ import annotations

import sys

TYPE_CHECKING = False  # not imported from typing: Ctrl-C is not handled yet
if TYPE_CHECKING:
    from typing import NoReturn

INTERRUPTED = 128 + 2
"""128 + SIGINT, as in shells."""

UNREAD = 128 + 13
"""128 + SIGPIPE, as in shells: the program that reads the output closed the pipe early."""

_pressed = False
"""True after Ctrl-C."""

_exit_code: int | None = None
"""None while the subcommand runs."""


def main(command: str = "dmlgather.cli.app") -> NoReturn:
    """Run the subcommand that `sys.argv` names, and exit with its code.

    `command`: a module with a function `run`, which returns the exit code.
    """
    global _exit_code  # noqa: PLW0603 - one per process, like signal handlers
    try:
        _handle_interrupts()
        _start_fast()
        import importlib

        code: int = importlib.import_module(command).run(sys.argv[1:])
        if _pressed and code == 0:  # KeyboardInterrupt was raised in a destructor, and Python ignored it
            raise KeyboardInterrupt
        _exit_code = code
    except KeyboardInterrupt:  # Ctrl-C during the import, or a second Ctrl-C
        _exit_code = INTERRUPTED
        sys.stderr.write("dmlgather: interrupted\n")
    if _exit_code in (INTERRUPTED, UNREAD):
        discard(sys.stdout)  # flushing may block, or fail again
    sys.exit(_exit_code)


def _start_fast() -> None:
    import gc
    import os

    gc.set_threshold(100_000)
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")  # Pydantic would search for them in all installed packages


def discard(stream: object) -> None:
    """Redirect a stream to the null device, so that flushing it neither blocks nor fails."""
    import os

    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())  # type: ignore[attr-defined] # AttributeError is caught
    except (AttributeError, OSError, ValueError):
        return


def _handle_interrupts() -> None:
    """Handle Ctrl-C, unless this process was started with SIGINT ignored.

    Ctrl-C raises KeyboardInterrupt, or ends the process at once if `_exit_code` is set.
    """
    import atexit
    import signal

    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _interrupt)
        # Registered first, this runs last. Python would then restore its handler, and Ctrl-C would change the exit code.
        atexit.register(signal.signal, signal.SIGINT, signal.SIG_IGN)


def _interrupt(*_: object) -> None:
    global _pressed  # noqa: PLW0603 - as in `main`
    _pressed = True
    if _exit_code is not None:
        import os

        os._exit(_exit_code)
    raise KeyboardInterrupt
