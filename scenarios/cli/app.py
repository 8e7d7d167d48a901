"""The command line application, and the exit code of each error."""

from __future__ import annotations

import errno
import logging
import os
import sys
import traceback
from typing import Annotated, NoReturn

import typer

from ...sim.errors import ForetraceError, HardwareUnavailable, SimulationError
from .terminal.discovery import import_commands

FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
WRONG, UNFINISHED, NO_HARDWARE, MISSED, INTERRUPTED = 2, 3, 4, 5, 130
EXIT_CODES = {
    0: "done, all conditions hold",
    1: "unexpected error: a bug in foretrace",
    WRONG: "error in the request: usage, scenario, trace, plug-in, or too little memory",
    UNFINISHED: "the simulation did not finish: deadlock or time limit; or sweep points failed",
    NO_HARDWARE: "hardware or a driver is missing, busy or not permitted",
    MISSED: "a condition failed or is unresolved; or no point of a sweep meets all conditions",
    INTERRUPTED: "interrupted; run the same command again to continue",
}
FIRST = (  # in the order of --help; files that are not named here follow
    *("init", "validate", "plan", "run", "compare", "sweep", "report", "view", "runs"),
    *("trace", "catalog", "explain", "doctor"),
    *("drivers", "hil.hil", "fit"),
    "lab",
)

app = typer.Typer(
    name="foretrace",
    help="Profile operations once; simulate any machine; learn how far to trust the answer.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # boxes around the help took a third of its time
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        typer.echo(f"foretrace {version('foretrace')}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version."
        ),
    ] = False,
    verbose: Annotated[bool, typer.Option("-v", "--verbose", help="Print log messages.")] = False,
    no_color: Annotated[bool, typer.Option("--no-color", help="Print without colours.")] = False,
) -> None:
    """Profile operations once; simulate any machine; learn how far to trust the answer."""
    if no_color:
        os.environ["NO_COLOR"] = "1"
    level = logging.INFO if verbose else logging.WARNING
    logging.basicConfig(level=level, format="%(levelname)s %(message)s", stream=sys.stderr)
    logging.getLogger("foretrace.sim.kernel.jit").setLevel(logging.INFO)  # a wait of 20 s is said


def load_plugin_commands(words: list[str]) -> None:
    """Load commands of installed plug-ins, unless a built-in command is named.

    An entry point names a module that registers commands.
    """
    if {*words} & {*COMMANDS, "ls", "show", "rm", "schema", "--version"}:
        return
    from importlib.metadata import entry_points

    for point in entry_points(group="foretrace.commands"):
        try:
            point.load()
        except Exception as error:  # the others must go on working
            package = point.dist.name if point.dist else "an installed package"
            typer.echo(f"error plug-in '{point.name}' of {package} fails: {error}", err=True)


# Each registers itself; imported late libraries keep --help quick.
COMMANDS = import_commands(__package__, FIRST, skip="app")


def exit_code_of(error: ForetraceError) -> int:
    """Exit code for an error of foretrace."""
    if isinstance(error, HardwareUnavailable):
        return NO_HARDWARE
    if isinstance(error, SimulationError):
        return UNFINISHED
    return WRONG


def main() -> NoReturn:
    """Run the command line and exit with its exit code."""
    load_plugin_commands(sys.argv[1:])
    try:
        app(standalone_mode=True)
    except ForetraceError as error:
        typer.echo(_error_message(error), err=True)
        sys.exit(exit_code_of(error))
    except KeyboardInterrupt:
        typer.echo("interrupted; finished runs are kept", err=True)
        sys.exit(INTERRUPTED)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)
    except Exception as error:  # whoever's fault it is: all there is to mend or report it
        from ..config.plugin_errors import message_naming_plugin, traceback_inside_plugin

        if told := _file_error_message(error):
            typer.echo(told, err=True)
            sys.exit(WRONG)
        if told := message_naming_plugin(error):
            traceback.print_tb(
                traceback_inside_plugin(error)
            )  # what is above it is ours, and nobody's to mend
            typer.echo(f"error {told}", err=True)
            sys.exit(WRONG)
        traceback.print_exc()
        typer.echo("error this is a bug in foretrace; please report the text above", err=True)
        sys.exit(1)
    sys.exit(0)


def _file_error_message(error: Exception) -> str:
    """Message for an unreadable or unwritable path, or a full disk; "" for other errors."""
    if not isinstance(error, OSError) or (error.filename is None and error.errno not in FULL):
        return ""
    return f"error {error.filename or 'disk'}: {error.strerror}; give another path, or fix this one"


def _error_message(error: ForetraceError) -> str:
    """Message of an error, beginning with ``error`` or ``warning``."""
    text = str(error)
    return text if text.startswith(("error ", "warning ")) else f"error {text}"
