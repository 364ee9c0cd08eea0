"""Ask for a file over HTTP, from where an earlier answer stopped."""

import http.client
import re
import shutil
import ssl
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import IO, Protocol
from urllib.parse import urlsplit

from prepare.volume import PrepareError, readable

PIECE = 1 << 20
"""Bytes that are held in memory at a time."""

SILENCE_SECONDS = 60
"""A server that says nothing for so long is as good as gone."""

LATER = frozenset({408, 425, 429})
"""Refusals that pass; so do all of the server's own (5xx)."""

OK, PARTIAL, NOT_SATISFIABLE, SERVER_ERROR = 200, 206, 416, 500

MOST_REDIRECTS = 5

AGENT = "gpu-runtime-prepare"

_RANGE = re.compile(r"bytes (\d+)-\d+/(?:\d+|\*)")


class CutOffError(Exception):
    """The transfer stopped; another try may go on."""


class Answer(Protocol):
    """What is used of a response."""

    status: int
    headers: http.client.HTTPMessage

    def read(self, amount: int) -> bytes:
        """Give at most *amount* bytes; none at the end."""
        ...


class Redirects(urllib.request.HTTPRedirectHandler):
    """Follow a few, to http and https alone, and never from https to http."""

    max_redirections = MOST_REDIRECTS

    def redirect_request(  # type: ignore[explicit-override] # the word for it came with Python 3.12
        self,
        req: urllib.request.Request,
        fp: IO[bytes],
        code: int,
        msg: str,
        headers: http.client.HTTPMessage,
        newurl: str,
    ) -> urllib.request.Request | None:
        """Refuse what leads elsewhere. Raises PrepareError."""
        allowed = {"https"} if urlsplit(req.full_url).scheme == "https" else {"http", "https"}
        if urlsplit(newurl).scheme not in allowed:
            fp.close()
            raise PrepareError(f"{plain(req.full_url)} leads to {plain(newurl)}; {' or '.join(sorted(allowed))} may be")
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def opener(authorities: str | None) -> urllib.request.OpenerDirector:
    """Give what speaks http and https alone, by no proxy; *authorities*: a file, None for those of the system."""
    made = urllib.request.OpenerDirector()
    context = ssl.create_default_context(cafile=authorities)
    for handler in (
        urllib.request.HTTPHandler(),
        urllib.request.HTTPSHandler(context=context),
        urllib.request.HTTPDefaultErrorHandler(),
        urllib.request.HTTPErrorProcessor(),
        Redirects(),
    ):
        made.add_handler(handler)
    return made


def plain(url: str) -> str:
    """Give an address without what may be a secret in it: its query."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.hostname}{f':{parts.port}' if parts.port else ''}{parts.path}"


def extend(speak: urllib.request.OpenerDirector, url: str, part: Path, told: Callable[[int, int | None], None]) -> None:
    """Add to *part* what it lacks of *url*; *told* is called with what is there and the whole, or None where unknown.

    Raises CutOffError when it stopped half way and PrepareError when there is no use in another try.
    """
    have = part.stat().st_size if part.exists() else 0
    headers = {"User-Agent": AGENT, "Accept-Encoding": "identity", **({"Range": f"bytes={have}-"} if have else {})}
    request = urllib.request.Request(url, headers=headers)  # noqa: S310 - the opener knows http and https alone
    try:
        with speak.open(request, timeout=SILENCE_SECONDS) as answer:
            _take(answer, part, _begins(answer, have, part), told)
    except urllib.error.HTTPError as error:
        with error:  # it holds the connection
            if not (error.code == NOT_SATISFIABLE and have):  # else it may be whole: its digest says
                _refused(url, error)
    except urllib.error.URLError as error:
        if isinstance(error.reason, ssl.SSLCertVerificationError):
            raise PrepareError(f"{plain(url)}: {error.reason.verify_message}") from None
        raise CutOffError(str(error.reason)) from None
    except (http.client.HTTPException, TimeoutError, ConnectionError, ssl.SSLError) as error:
        raise CutOffError(str(error) or type(error).__name__) from None


def _refused(url: str, error: urllib.error.HTTPError) -> None:
    said = f"{plain(url)} answers {error.code} {error.reason}"
    if error.code in LATER or error.code >= SERVER_ERROR:
        raise CutOffError(said) from None
    raise PrepareError(said) from None


def _begins(answer: Answer, have: int, part: Path) -> int:
    """Say at which byte the answer begins; a server that knows no ranges begins anew."""
    if answer.status == OK:
        return 0
    found = _RANGE.fullmatch(answer.headers.get("Content-Range", ""))
    if answer.status == PARTIAL and found and int(found[1]) == have:
        return have
    part.unlink(missing_ok=True)
    raise CutOffError(f"an answer that was not asked for: {answer.status}")


def _take(answer: Answer, part: Path, begin: int, told: Callable[[int, int | None], None]) -> None:
    length = answer.headers.get("Content-Length")
    whole = begin + int(length) if length and length.isdecimal() else None
    free = shutil.disk_usage(part.parent).free + (part.stat().st_size if part.exists() and not begin else 0)
    if whole is not None and whole - begin > free:
        raise PrepareError(f"{readable(whole - begin)} are still to come, and the volume has {readable(free)} free")
    at = begin
    with part.open("ab" if begin else "wb") as file:
        while piece := answer.read(PIECE):
            file.write(piece)
            at += len(piece)
            told(at, whole)
    if whole is not None and at < whole:
        raise CutOffError(f"the connection ended after {at} of {whole} bytes")
