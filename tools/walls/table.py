"""The matrix for people: alike pods in one column, alike places in one row."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import Final, NamedTuple

from components.names import PLATFORM_NAMESPACE
from policy.ends import Pod
from stacks.resolve import Stack
from tools.walls.matrix import Cell, Source, matrix
from tools.walls.places import component

MOST_COLUMNS: Final = 9
"""What a terminal of 120 characters shows; beyond it alike pods stay together, and `some` says that they differ."""

MOST_NAMES: Final = 3
"""Of places with the same verdicts these many are named."""

OPEN, CLOSED, SOME, NONE = "open", "-", "some", ""

GROUPED: Final = frozenset({"blocked", "site", "metadata"})
"""Groups whose places are many, and alike as a rule."""

Column = Callable[[Source], str]


class Row(NamedTuple):
    """One line: what the places are, their ports, and a word for each column."""

    group: str
    names: tuple[str, ...]
    ports: tuple[str, ...]
    words: tuple[str, ...]


class Table(NamedTuple):
    """The whole, with the columns' titles."""

    columns: tuple[str, ...]
    rows: tuple[Row, ...]


def table(cells: Iterable[Cell]) -> Table:
    """Fold *cells*: as few columns as tell the truth, unless these were too many."""
    found = list(cells)
    titles = _titles(found)
    columns = tuple(dict.fromkeys(titles[cell.source.name] for cell in sorted(found, key=_column_order)))
    opened: dict[tuple[str, str, str], dict[str, set[bool]]] = defaultdict(lambda: defaultdict(set))
    for cell in found:
        port = f"{cell.place.protocol} {cell.place.port}"
        opened[cell.place.group, _name(cell), port][titles[cell.source.name]].add(cell.open)
    rows = [Row(g, (n,), (p,), tuple(_word(said[c]) for c in columns)) for (g, n, p), said in opened.items()]
    return Table(columns, tuple(_merged(_merged(rows, _by_ports), _by_names)))


def _column_order(cell: Cell) -> tuple[bool, str]:
    return cell.source.pod is None, _kind(cell.source)


def _titles(cells: Sequence[Cell]) -> dict[str, str]:
    """Name each source's column: by what it is; where that is not the whole truth by tenant too; else by itself."""
    sources = {cell.source.name: cell.source for cell in cells}
    titles = {name: _kind(source) for name, source in sources.items()}
    for finer in (_kind_of_tenant, _itself):
        for title in _untrue(cells, titles):
            finest = titles | {name: finer(sources[name]) for name in titles if titles[name] == title}
            if len(set(finest.values())) <= MOST_COLUMNS:
                titles = finest
    return titles


def _untrue(cells: Sequence[Cell], titles: dict[str, str]) -> list[str]:
    """Give the columns in which one word does not say it all, because their sources differ."""
    said: dict[tuple[str, str, str, str, int], dict[str, set[bool]]] = defaultdict(lambda: defaultdict(set))
    for cell in cells:
        title = titles[cell.source.name]
        place = (title, cell.place.group, _name(cell), cell.place.protocol, cell.place.port)
        said[place][cell.source.name].add(cell.open)
    differing = (title for (title, *_), by in said.items() if len(set(map(frozenset, by.values()))) > 1)
    return list(dict.fromkeys(differing))


def _kind(source: Source) -> str:
    return component(source.pod) if source.pod else source.name


def _kind_of_tenant(source: Source) -> str:
    return f"{_kind(source)} {source.pod.namespace}" if source.pod else source.name


def _itself(source: Source) -> str:
    return source.name


def _name(cell: Cell) -> str:
    """Name a place as its source sees it: other tenants' pods are alike, and so are the own tenant's."""
    behind = cell.place.ways[0].end
    if cell.place.group not in {"pod", "service"} or not isinstance(behind, Pod):
        return cell.place.name
    kind, home = component(behind), behind.namespace
    if home == PLATFORM_NAMESPACE:
        return kind
    mine = cell.source.pod is not None and cell.source.pod.namespace == home
    return f"{kind} of the same tenant" if mine else f"{kind} of another tenant"


def _word(opens: set[bool]) -> str:
    return {(): NONE, (True,): OPEN, (False,): CLOSED}.get(tuple(opens), SOME)


def _merged(rows: Sequence[Row], key: Callable[[Row], object]) -> list[Row]:
    """Make one of rows with the same *key*, where the first of them stands."""
    found: dict[object, Row] = {}
    for row in rows:
        same = found.get(key(row))
        if same is None:
            found[key(row)] = row
        else:
            names, ports = dict.fromkeys((*same.names, *row.names)), dict.fromkeys((*same.ports, *row.ports))
            found[key(row)] = same._replace(names=tuple(names), ports=tuple(ports))
    return list(found.values())


def _by_ports(row: Row) -> object:
    return row.group, row.names, row.words


def _by_names(row: Row) -> object:
    return row.group, row.ports, row.words, None if row.group in GROUPED else row.names


def named(row: Row) -> str:
    """Name the places of *row*."""
    few, more = row.names[:MOST_NAMES], len(row.names) - MOST_NAMES
    return ", ".join(few) if more <= 0 else f"{few[0]} ... {row.names[-1]} ({len(row.names)})"


def text(made: Table) -> str:
    """Write the table for a terminal."""
    lines = [("to", "ports", *made.columns)]
    lines += [(f"{row.group}: {named(row)}", ", ".join(row.ports), *row.words) for row in made.rows]
    widths = [max(len(line[place]) for line in lines) for place in range(len(lines[0]))]
    return "".join("  ".join(map(str.ljust, line, widths)).rstrip() + "\n" for line in lines)


def markdown(made: Table) -> str:
    """Write the table in Markdown."""
    lines = ["| to | ports | " + " | ".join(made.columns) + " |", "|---" * (2 + len(made.columns)) + "|"]
    for row in made.rows:
        cells = (f"{row.group}: {named(row)}", ", ".join(row.ports), *row.words)
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def matrix_markdown(stack: Stack) -> str:
    """Write the whole matrix of *stack* in Markdown, for the documentation."""
    return markdown(table(matrix(stack).cells()))
