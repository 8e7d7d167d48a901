"""The reference pages, read from the code when they are built: ``{generated} settings``."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from docutils import nodes
from docutils.statemachine import StringList
from foretrace.scenarios.cli.app import EXIT_CODES, app, load_plugin_commands
from foretrace.scenarios.config.catalog import installed
from foretrace.scenarios.config.explanation import Explanation, explain
from foretrace.scenarios.config.metrics import known_metrics
from foretrace.scenarios.config.part_specs import KINDS
from foretrace.scenarios.config.settings import known_backends, known_processes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective
from typer.main import get_command

Lines = Iterator[str]
DEEPEST = 5  # words of a setting's path
APART = ("backends", "processes", "catalog")  # whose keys depend on what is named


def table(columns: tuple[str, ...], rows: list[tuple[str, ...]]) -> Lines:
    """A Markdown table."""
    yield "| " + " | ".join(columns) + " |"
    yield "| " + " | ".join("---" for _ in columns) + " |"
    for row in rows:
        yield "| " + " | ".join(cell.replace("|", "\\|").replace("``", "`") for cell in row) + " |"
    yield ""


def settings() -> Lines:
    """Everything that a scenario may say, with its values, default and meaning."""
    rows, todo = [], [*reversed(explain("scenario").below)]
    while todo:
        path = todo.pop()
        found = explain(path)
        rows.append((f"`{path}`", _takes(found), found.facts.get("default", ""), found.what))
        if path not in APART and path.count(".") < DEEPEST:
            todo += [f"{path}.{key}" for key in reversed(found.below) if key != "source"]
    yield from table(("setting", "takes", "default", "meaning"), rows)


def _takes(found: Explanation) -> str:
    facts = found.facts
    return facts.get("like", facts.get("values", facts.get("type", ""))).replace(", ", " · ")


def backends() -> Lines:
    """Who can answer for components, with their settings."""
    yield from _named(known_backends())


def processes() -> Lines:
    """What can steer a run, with its settings."""
    yield from _named(known_processes())


def _named(known: Iterable[str]) -> Lines:
    for name in sorted(known):
        found = explain(name)
        yield f"**`{name}`** {found.what}"
        yield ""
        rows = [(f"`{k}`", v) for k, v in found.below.items() if k != "use"]
        if rows:
            yield from table(("setting", "meaning"), rows)


def metrics() -> Lines:
    """Every number that a run has, with its definition."""
    rows = [
        (f"`{m.name}`", m.unit or "ratio", ", ".join(m.statistics) or "one value", m.definition)
        for m in known_metrics().values()
    ]
    yield from table(("metric", "unit", "has", "definition"), rows)


def catalog() -> Lines:
    """Every part that can be named, each value with its source."""
    known = installed()
    for kind in KINDS:
        for name in known.names(kind):
            entry = known.entry(kind, name)
            yield f"**{kind} `{name}`**"
            yield ""
            rows = [
                (f"`{k}`", str(n.value), n.source.kind, _sentence(n.source.where))
                for k, n in (entry.mapping.items() if entry else ())
                if n.source
            ]
            yield from table(("setting", "value", "source", "where"), rows)


def _sentence(text: str) -> str:
    return text.replace("*", "\\*").replace("_", "\\_").replace("<", "&lt;")


def exit_codes() -> Lines:
    """What a command leaves with."""
    yield from table(("code", "meaning"), [(str(c), m) for c, m in EXIT_CODES.items()])


def commands() -> Lines:
    """Every command with its arguments and options."""
    load_plugin_commands([])
    yield from _commands("foretrace", get_command(app))


def _commands(path: str, command: Any) -> Lines:
    for name, below in getattr(command, "commands", {}).items():
        yield from _commands(f"{path} {name}", below)
    if hasattr(command, "commands"):
        return
    words = [p for p in command.params if p.name != "help"]
    arguments = [p.name.upper() for p in words if p.param_type_name == "argument"]
    yield f"**`{' '.join([path, *arguments])}`** {(command.help or '').partition(chr(10))[0]}"
    yield ""
    rows = [(f"`{_written(p)}`", getattr(p, "help", "") or "") for p in words]
    if rows:
        yield from table(("argument or option", "meaning"), rows)


def _written(parameter: Any) -> str:
    if parameter.param_type_name == "argument":
        return str(parameter.name.upper())
    return ", ".join([*parameter.opts, *parameter.secondary_opts])


PARTS: dict[str, Callable[[], Lines]] = {
    f.__name__: f for f in (commands, settings, backends, processes, metrics, catalog, exit_codes)
}


class Generated(SphinxDirective):
    """One part of the reference."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        """Parse what the code says as if it stood here."""
        lines = StringList(list(PARTS[self.arguments[0]]()), source="generated")
        box = nodes.container()
        self.state.nested_parse(lines, 0, box)
        return box.children


def setup(app: Sphinx) -> dict[str, bool]:
    """Make the directive known to Sphinx."""
    app.add_directive("generated", Generated)
    return {"parallel_read_safe": True}
