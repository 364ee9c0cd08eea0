"""Read manifests from files, folders and standard input; what cannot be read for sure is refused with its place."""

import json
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

import yaml

from policy.plain import MAX_DEPTH

SUFFIXES: Final = (".yaml", ".yml", ".json")
"""What is read in a folder; a file that is named is read whatever it is called."""

MAX_NODES: Final = 200_000
"""Above what any stack renders; aliases that multiply beyond it are an attack and not a manifest."""

STDIN: Final = "-"


class UnreadableError(Exception):
    """Input that cannot be judged; the message says file, line and reason."""


class Document(NamedTuple):
    """One document of a file: *number* counts from 0, *line* from 1."""

    file: str
    number: int
    line: int
    content: dict[str, Any]


def documents(paths: list[str]) -> list[Document]:
    """Return all documents of *paths* in a stable order.

    Raises
    ------
    UnreadableError
        A file is missing, is no YAML or JSON, repeats a key, or holds something that is no Kubernetes object.

    """
    return [document for file in _files(paths) for document in _of_file(file)]


def _files(paths: list[str]) -> Iterator[str]:
    for path in paths:
        if path != STDIN and Path(path).is_dir():
            found = sorted(str(file) for file in Path(path).rglob("*") if file.suffix in SUFFIXES and file.is_file())
            if not found:
                raise UnreadableError(f"{path}: no {', '.join(SUFFIXES)} file in this folder")
            yield from found
        else:
            yield path


def _of_file(file: str) -> Iterator[Document]:
    text = _text(file)
    for index, (line, content) in enumerate(_json(file, text) if _is_json(text) else _yaml(file, text)):
        if content is None:
            continue
        if not isinstance(content, dict) or not {"apiVersion", "kind"} <= set(content):
            raise UnreadableError(
                f"{file}:{line}: no Kubernetes object; it should be a mapping with apiVersion and kind"
            )
        yield Document(file, index, line, content)


def _text(file: str) -> str:
    try:
        data = sys.stdin.buffer.read() if file == STDIN else Path(file).read_bytes()
        return data.decode("utf-8-sig")
    except OSError as error:
        raise UnreadableError(f"{file}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        line = error.object.count(b"\\n", 0, error.start) + 1
        raise UnreadableError(f"{file}:{line}: no UTF-8 text") from error


def _is_json(text: str) -> bool:
    """Say whether to read *text* as JSON, which YAML readers take only in part (tabs)."""
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


def _json(file: str, text: str) -> Iterator[tuple[int, Any]]:
    yield 1, json.loads(text, object_pairs_hook=partial(_once, file))


def _once(file: str, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for key in keys if keys.count(key) > 1)
        raise UnreadableError(f"{file}:1: key {twice!r} is there twice, and one of them would be lost")
    return found


def _yaml(file: str, text: str) -> Iterator[tuple[int, Any]]:
    loader = _Loader(text)
    try:
        _sound(file, text)
        while loader.check_node() and (node := loader.get_node()) is not None:
            _census(node, {})
            yield node.start_mark.line + 1, loader.construct_document(node)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        raise UnreadableError(f"{file}:{mark.line + 1 if mark else 1}: {error.problem}") from error
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        raise UnreadableError(f"{file}:{line}: {error.reason}") from error
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise UnreadableError(f"{file}: {' '.join(str(error).split())}") from error
    finally:
        loader.dispose()


class _Loader(yaml.CSafeLoader):
    """Reads dates as the strings that Kubernetes takes them for."""


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


def _sound(file: str, text: str) -> None:
    """Refuse nesting that would overflow the stack of the C library, event by event and so without recursion."""
    depth, line = 0, 1
    for event in yaml.parse(text, Loader=yaml.CSafeLoader):
        line = event.start_mark.line + 1 if event.start_mark else line
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > MAX_DEPTH:
            raise UnreadableError(f"{file}:{line}: nested deeper than {MAX_DEPTH} levels")


def _census(node: yaml.Node, seen: dict[int, int]) -> int:
    """Count the nodes of a document with every alias written out; refuse repeated keys, circles and floods."""
    if id(node) in seen:
        if not seen[id(node)]:
            raise yaml.constructor.ConstructorError(problem="an alias contains itself", problem_mark=node.start_mark)
        return seen[id(node)]
    seen[id(node)] = 0
    if isinstance(node, yaml.MappingNode):
        _refuse_twins(node)
    count = 1 + sum(_census(child, seen) for child in _children(node))
    if count > MAX_NODES:
        raise yaml.constructor.ConstructorError(
            problem="too large with its aliases written out", problem_mark=node.start_mark
        )
    seen[id(node)] = count
    return count


def _children(node: yaml.Node) -> Iterator[yaml.Node]:
    for item in node.value if isinstance(node, yaml.CollectionNode) else ():
        yield from item if isinstance(item, tuple) else (item,)


def _refuse_twins(node: yaml.MappingNode) -> None:
    said: set[str] = set()
    for key, _ in node.value:
        if isinstance(key, yaml.ScalarNode) and key.value in said:
            problem = f"key {key.value!r} is there twice, and one of them would be lost"
            raise yaml.constructor.ConstructorError(problem=problem, problem_mark=key.start_mark)
        said.add(str(key.value))
