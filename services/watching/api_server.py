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

PAGE = 500
"""Objects in one answer to a list: some 2 MiB while it is read, however many there are."""

LONGEST_ANSWER = 32 * 2**20
"""Bytes of one page, and of one line of a watch: more is no answer to what was asked."""

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

    def pages(self, kind: Kind) -> Iterator[tuple[list[Json], str]]:
        """Yield the objects of *kind* page by page, each with the version of the whole list.

        Raises AwayError or GoneError.
        """
        token = ""
        while True:
            asked = {"labelSelector": kind.selector, "limit": str(PAGE), **({"continue": token} if token else {})}
            with closing(self._open(kind, asked, "List", ANSWER_SECONDS)) as answer:
                page = _json(answer.read(LONGEST_ANSWER + 1))
            meta = _object(page.get("metadata"))
            yield [_object(item) for item in page.get("items") or ()], str(meta.get("resourceVersion"))
            token = str(meta.get("continue") or "")
            if not token:
                return

    def events(self, kind: Kind, version: str) -> Iterator[tuple[str, Json, str]]:
        """Yield type, object and version of each change of *kind* since *version*, until the API server ends the watch.

        Raises AwayError or GoneError.
        """
        asked = {"labelSelector": kind.selector, "resourceVersion": version, "watch": "1"}
        asked |= {"allowWatchBookmarks": "true", "timeoutSeconds": str(WATCH_SECONDS)}
        with closing(self._open(kind, asked, "", WATCH_SECONDS + ANSWER_SECONDS)) as answer:
            while line := answer.readline(LONGEST_ANSWER + 1):
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


def _keep_alive(connection: socket.socket) -> None:
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in KEEPALIVE.items():
        connection.setsockopt(socket.IPPROTO_TCP, option, value)


def _error(code: object, said: object) -> AwayError | GoneError:
    return GoneError() if code == HTTPStatus.GONE else AwayError(f"it answers {code}: {str(said)[:200]}")


def _json(text: bytes) -> Json:
    if len(text) > LONGEST_ANSWER:
        raise AwayError(f"it answers more than {LONGEST_ANSWER} bytes at once")
    return _object(json.loads(text))


def _object(value: object) -> Json:
    if not isinstance(value, dict):
        raise AwayError("it answers what is no object")
    return value
