"""The API server, asked read only, and for metadata alone where that does: lists in pages, then a watch.

The standard library and no client of Kubernetes: two reads need no models, and a typed client asks for whole objects.
"""

import http.client
import json
import socket
import ssl
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlencode

PAGE = 100
"""Objects asked for at once in a list: some hundred KiB, where nobody wrote large ones."""

LONGEST_PAGE = 2 * 2**20
"""Bytes of a page of several objects; a longer one is not read to its end, and fewer are asked for.

Python takes some ten times as much while it reads, and anybody who may write in one namespace may write such objects.
"""

LONGEST_OBJECT = 32 * 2**20
"""Bytes of an object alone, as of one line of a watch. None is longer: the API server takes no more than 3 MiB of
one, and writes a character with six at most."""

ANSWER_SECONDS = 15.0
"""For an answer to begin, and for its next bytes."""

WATCH_SECONDS = 120
"""The API server ends a watch after this; a new one goes on where it ended. Bounds how long a mute one is believed."""

KEEPALIVE = {socket.TCP_KEEPIDLE: 5, socket.TCP_KEEPINTVL: 5, socket.TCP_KEEPCNT: 3}
"""Seconds of silence, between questions, and questions: a peer that is gone is noticed after 20 s."""

WHOLE = "application/json"
METADATA_ONLY = "application/json;as=PartialObjectMetadata{};g=meta.k8s.io;v=v1"

Json = dict[str, Any]


class AwayError(Exception):
    """The API server does not answer, or not what was asked for."""


class GoneError(Exception):
    """The version to go on from is too old: everything must be listed again."""


class Kind(NamedTuple):
    """Objects to follow: where the API has them, and which of them."""

    path: str
    selector: str
    whole: bool = False
    """False: their metadata alone is asked for."""


@dataclass(frozen=True)
class ApiServer:
    """Where it is, what proves that it is it (*ca*) and who asks (*token*); both files are read at each connection."""

    host: str
    port: int
    ca: Path
    token: Path

    def pages(self, kind: Kind) -> Iterator[tuple[Iterator[Json], str]]:
        """Yield the objects of *kind* page by page, each with the version of the whole list.

        Large objects come in smaller pages. Who takes all objects of a page before the next holds one page at a time.

        Raises AwayError or GoneError.
        """
        token, limit = "", PAGE
        while True:
            page = self._page(kind, token, limit)
            if page is None:
                limit //= 2
                continue
            yield page.things, page.version
            if not page.token:
                return
            # the token says from where on and of which version; how many is each request's own affair
            token, limit = page.token, _next_limit(limit, page.size)

    def _page(self, kind: Kind, token: str, limit: int) -> "_Page | None":
        """Ask for at most *limit* objects from *token* on; None: they are too large to be read together."""
        asked = {"labelSelector": kind.selector, "limit": str(limit), **({"continue": token} if token else {})}
        with closing(self._open(kind, asked, "List", ANSWER_SECONDS)) as answer:
            text = answer.read((LONGEST_PAGE if limit > 1 else LONGEST_OBJECT) + 1)
        return None if limit > 1 and len(text) > LONGEST_PAGE else _page(text)

    def events(self, kind: Kind, version: str) -> Iterator[tuple[str, Json, str]]:
        """Yield type, object and version of each change of *kind* since *version*, until the API server ends the watch.

        Raises AwayError or GoneError.
        """
        asked = {"labelSelector": kind.selector, "resourceVersion": version, "watch": "1"}
        asked |= {"allowWatchBookmarks": "true", "timeoutSeconds": str(WATCH_SECONDS)}
        with closing(self._open(kind, asked, "", WATCH_SECONDS + ANSWER_SECONDS)) as answer:
            while line := answer.readline(LONGEST_OBJECT + 1):
                event = _json(line)
                changed = _object(event.get("object"))
                if event.get("type") == "ERROR":
                    raise _error(changed.get("code"), changed.get("message"))
                yield str(event.get("type")), changed, str(_object(changed.get("metadata"))["resourceVersion"])

    def _open(self, kind: Kind, asked: dict[str, str], shape: str, seconds: float) -> http.client.HTTPResponse:
        """Ask, and return the answer that begins well; closing it closes its connection."""
        context = ssl.create_default_context(cafile=self.ca)
        connection = http.client.HTTPSConnection(self.host, self.port, timeout=ANSWER_SECONDS, context=context)
        try:
            connection.connect()
            speaking = connection.sock  # of which `connection` lets go with the answer's head
            _keep_alive(speaking)
            accept = WHOLE if kind.whole else METADATA_ONLY.format(shape)
            who = f"Bearer {self.token.read_text(encoding='ascii').strip()}"
            headers = {"Authorization": who, "Accept": accept, "Connection": "close"}
            connection.request("GET", f"{kind.path}?{urlencode(asked)}", headers=headers)
            answer = connection.getresponse()
            speaking.settimeout(seconds)
        except BaseException:
            connection.close()
            raise
        if answer.status != HTTPStatus.OK:
            with closing(answer):
                raise _error(answer.status, answer.reason)
        return answer


class _Page(NamedTuple):
    """A part of a list."""

    things: Iterator[Json]
    """Its objects, which it holds until they have been taken: a list would stay while the next page is read."""
    version: str
    token: str
    """Where the next page begins; empty: there is none."""
    size: int
    """In bytes, as it came."""


def _page(text: bytes) -> _Page:
    page = _json(text)
    meta = _object(page.get("metadata"))
    things = map(_object, page.get("items") or ())
    return _Page(things, str(meta.get("resourceVersion")), str(meta.get("continue") or ""), len(text))


def _next_limit(limit: int, size: int) -> int:
    """Ask for twice as many as *limit*, which took *size* bytes, where so many would fit: large ones are rarely all."""
    return min(2 * limit, PAGE) if 2 * size <= LONGEST_PAGE else limit


def _keep_alive(connection: socket.socket) -> None:
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in KEEPALIVE.items():
        connection.setsockopt(socket.IPPROTO_TCP, option, value)


def _error(code: object, said: object) -> AwayError | GoneError:
    return GoneError() if code == HTTPStatus.GONE else AwayError(f"it answers {code}: {str(said)[:200]}")


def _json(text: bytes) -> Json:
    if len(text) > LONGEST_OBJECT:
        raise AwayError(f"it answers more than {LONGEST_OBJECT} bytes at once")
    return _object(json.loads(text))


def _object(value: object) -> Json:
    if not isinstance(value, dict):
        raise AwayError("it answers what is no object")
    return value
