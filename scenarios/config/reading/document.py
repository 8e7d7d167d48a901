"""Parser of YAML 1.2 into a tree with file positions; no tags, no merge keys, few aliases.

Everything that YAML could read differently from what was meant is an error.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path as File
from typing import Any

from ..problems import FilePosition, InvalidScenarioError, Problem, did_you_mean_text
from .tree import KINDS, SHARE, NumberSource, Path, TreeNode, Value, dotted_path_text

LARGEST = 1_000_000  # bytes of a file
MOST_NODES = 20_000  # after aliases are followed
PLAIN = "tag:yaml.org,2002:"
TOO_DEEP = "nested too deeply; write it with fewer levels"


def read_yaml_file(file: File, shown: str = "", layer: str = "scenario") -> TreeNode:
    """Read a YAML file into a tree.

    Parameters
    ----------
    file : Path
    shown : name in messages; by default the path
    layer : layer of the values, such as ``scenario``

    Raises
    ------
    InvalidScenarioError
        The file does not exist, is not text, is not YAML, or has ambiguous YAML.
    """
    name = shown or str(file)
    return parse_yaml(read_text_file(file, name), name, layer)


def parse_yaml(text: str, file: str = "<text>", layer: str = "scenario") -> TreeNode:
    """Parse YAML text into a tree.

    Examples
    --------
    >>> node = parse_yaml("cluster: {nodes: 2}", "s.yaml")["cluster"]["nodes"]
    >>> node.value, str(node.spot), node.spot.path
    (2, 's.yaml:1:18', 'cluster.nodes')
    """
    reader = _YamlTreeReader(text, file, layer)
    tree = reader.tree()
    if reader.problems:
        raise InvalidScenarioError(reader.problems)
    return tree


def _missing_path_cure(file: File) -> str:
    """Cure for a path that does not exist: the most similar scenario name in that folder."""
    folder = file if file.is_dir() else file.parent
    try:
        there = sorted(f.name for f in folder.iterdir() if f.suffix in (".yaml", ".yml"))
    except OSError:
        return "; correct the path"
    return did_you_mean_text(file.name, there) or "; correct the path"


def read_text_file(file: File, name: str) -> str:
    """Read a text file.

    Raises
    ------
    InvalidScenarioError
        The file does not exist, is too large, or is not UTF-8.
    """
    try:
        raw = file.read_bytes()
    except OSError as error:
        message = f"cannot read '{name}': {error.strerror}{_missing_path_cure(file)}"
        raise _unreadable_file_error("unreadable", message, name) from error
    if len(raw) > LARGEST:
        raise _unreadable_file_error(
            "too-large",
            f"the file has {len(raw)} bytes, a scenario has at most {LARGEST}; give a scenario, "
            "not a trace",
            name,
        )
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        message = f"byte {error.start} (0x{raw[error.start]:02x}) is not UTF-8; save it as UTF-8"
        raise _unreadable_file_error("encoding", message, name, line) from error


def _unreadable_file_error(
    kind: str, message: str, file: str, line: int = 1
) -> InvalidScenarioError:
    return InvalidScenarioError([Problem(kind, message, FilePosition(file, line))])


class _YamlTreeReader:
    """Reader of one YAML document: parsed by ruamel, converted to a tree with positions."""

    def __init__(self, text: str, file: str, layer: str):
        self.text, self.file, self.layer = text, file, layer
        self.lines = text.splitlines() or [""]
        self.problems: list[Problem] = []
        self.count = 0

    def tree(self) -> TreeNode:
        root = self._compose_yaml()
        empty = root is None or root.tag == PLAIN + "null"
        if empty or root.tag != PLAIN + "map":
            what = "the file is empty" if empty else "the file is not a mapping of keys to values"
            raise _unreadable_file_error(
                "no-mapping", f"{what}; begin with 'foretrace: 1'", self.file
            )
        try:
            return self._read_node(root, (), None, ())
        except RecursionError:
            raise _unreadable_file_error("too-deep", TOO_DEEP, self.file) from None

    def _compose_yaml(self) -> Any:
        from ruamel.yaml import YAML
        from ruamel.yaml.error import MarkedYAMLError, YAMLError

        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # an anchor defined twice: aliases use the last one
                return YAML(typ="safe", pure=True).compose(self.text)
        except MarkedYAMLError as error:
            raise InvalidScenarioError([self._syntax_problem(error)]) from error
        except RecursionError:
            raise _unreadable_file_error("too-deep", TOO_DEEP, self.file) from None
        except (YAMLError, ValueError) as error:
            what = str(error).splitlines()[0]
            raise _unreadable_file_error("syntax", f"not YAML: {what}", self.file) from error

    def _syntax_problem(self, error: Any) -> Problem:
        mark = error.problem_mark or error.context_mark
        line, column = (mark.line, mark.column) if mark else (0, 0)
        text = self.lines[min(line, len(self.lines) - 1)]
        spot = FilePosition(self.file, line + 1, column + 1, 1, text)
        if "\t" in text[: column + 1]:
            return Problem("tab", "a tab is used for indentation; use spaces", spot)
        what = ", ".join(p for p in (error.context, error.problem) if p)
        return Problem("syntax", f"not YAML: {what}{_syntax_error_cure(what)}", spot)

    def _read_node(
        self, node: Any, path: Path, key: FilePosition | None, above: tuple[int, ...]
    ) -> TreeNode:
        """Convert a node and all below it; ``above`` has the ids of its ancestors."""
        spot = self._spot_of(node.start_mark, node.end_mark, path)
        if key and not spot.width:
            spot = key
        self.count += 1
        if id(node) in above or self.count > MOST_NODES:
            what = (
                "contains itself" if id(node) in above else f"expands to over {MOST_NODES} values"
            )
            raise InvalidScenarioError(
                [Problem("alias", f"an alias {what}; write the values out", spot)]
            )
        kind = str(node.tag).removeprefix(PLAIN)
        if kind == "map":
            mapping = self._read_mapping(node, path, (*above, id(node)))
            return self._unwrap_source(TreeNode(mapping, spot, key, "", self.layer))
        if kind == "seq":
            inside = (*above, id(node))
            items = (self._read_node(n, (*path, i), None, inside) for i, n in enumerate(node.value))
            return TreeNode(tuple(items), spot, key, "", self.layer)
        return TreeNode(self._read_scalar(kind, node, spot), spot, key, str(node.value), self.layer)

    def _read_mapping(self, node: Any, path: Path, above: tuple[int, ...]) -> dict[str, TreeNode]:
        found: dict[str, TreeNode] = {}
        for key, value in node.value:
            spot = self._spot_of(key.start_mark, value.end_mark, path)
            name = self._read_key(key, spot)
            if name is None:
                continue
            spot = replace(spot, path=dotted_path_text((*path, name)))
            if name in found:
                first = found[name].label.line
                message = f"'{name}' is given twice, first in line {first}; keep one of them"
                self.problems.append(Problem("duplicate-key", message, spot))
            found[name] = self._read_node(value, (*path, name), spot, above)
        return found

    def _read_key(self, key: Any, spot: FilePosition) -> str | None:
        kind = str(key.tag).removeprefix(PLAIN)
        if kind == "str" and isinstance(key.value, str):
            return key.value
        if kind == "merge":
            message = "'<<' is not supported; use 'extends', or write the keys out"
        elif isinstance(key.value, str):
            message = f"the key {key.value or '(empty)'} is not text; put it in quotes"
        else:
            message = "the key is a mapping or a list; write a word as the key"
        self.problems.append(Problem("key-not-text", message, spot))
        return None

    def _read_scalar(self, kind: str, node: Any, spot: FilePosition) -> Value:
        text = str(node.value)
        if getattr(node.ctag, "handle", None) or kind not in READ:
            message = f"the YAML tag '{kind}' is not supported; write the value without a tag"
            self.problems.append(Problem("tag", message, spot))
            return None
        try:
            return READ[kind](text)
        except ValueError:
            message = f"a number of {len(text)} digits cannot be read; write a shorter one"
            self.problems.append(Problem("number", message, spot))
            return None

    def _spot_of(self, start: Any, end: Any, path: Path) -> FilePosition:
        """File position from one YAML mark to another, for the setting at ``path``."""
        text = self.lines[start.line] if start.line < len(self.lines) else ""
        last = end.column if end.line == start.line else len(text.rstrip())
        width = max(0, last - start.column)
        return FilePosition(
            self.file, start.line + 1, start.column + 1, width, text, dotted_path_text(path)
        )

    def _unwrap_source(self, node: TreeNode) -> TreeNode:
        """Replace ``{value, source}`` by the value with its source attached."""
        if set(node.mapping) != {"value", "source"}:
            return node
        value = node["value"]
        source = self._read_source(node["source"])
        return replace(value, key=node.key, source=source)

    def _read_source(self, node: TreeNode) -> NumberSource | None:
        known = ("kind", "where", "date", "error", "note", "program")
        wrong = [k for k in node.mapping if k not in known]
        kind = node.mapping.get("kind")
        if wrong:
            message = f"unknown key '{wrong[0]}' in a source; known here: {', '.join(known)}"
            self.problems.append(Problem("unknown-key", message, node[wrong[0]].label))
        elif kind is None or kind.value not in KINDS:
            message = f"the source has no known kind; write one of: {', '.join(KINDS)}"
            self.problems.append(Problem("source", message, (kind or node).spot))
        else:
            told = {k: n.text for k, n in node.mapping.items() if n.value is not None}
            if "error" not in told or SHARE.fullmatch(told["error"]):
                return NumberSource(**told)
            message = (
                f"'{told['error']}' is not an error in %; write it like '4 %', text under 'note'"
            )
            self.problems.append(Problem("source", message, node["error"].spot))
        return None


def _read_integer(text: str) -> int:
    """Integer as YAML 1.2 reads it: 010 is ten."""
    digits = text.replace("_", "").lower()
    for prefix, base in (("0x", 16), ("0o", 8), ("0b", 2)):
        if digits.lstrip("+-").startswith(prefix):
            return int(digits.replace(prefix, ""), base)
    return int(digits)


def _read_real(text: str) -> float:
    return float(text.replace("_", "").lower().replace(".inf", "inf").replace(".nan", "nan"))


READ: dict[str, Callable[[str], Value]] = {
    "str": str,
    "timestamp": str,
    "merge": str,
    "null": lambda _: None,
    "bool": lambda text: text.lower() == "true",
    "int": _read_integer,
    "float": _read_real,
}


def _syntax_error_cure(problem: str) -> str:
    cures: Iterable[tuple[str, str]] = (
        ("mapping values are not allowed", "; put text with ': ' in quotes"),
        ("cannot start any token", "; put text that begins with this character in quotes"),
        ("expected a single document", "; keep one, without '---' between"),
        ("undefined alias", "; write the value out, or quote text that begins with '*'"),
        ("end of stream", "; close the quote or bracket"),
        ("expected ','", "; close the bracket, or put a comma"),
    )
    return next((cure for sign, cure in cures if sign in problem), "")
