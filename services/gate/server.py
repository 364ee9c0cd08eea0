"""The gate's door: one HTTPS request per connection, bounded in size, time and number."""

import asyncio
import json
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from http import HTTPStatus

from watching.log import event

from gate import metrics
from gate.claim import RefusedError
from gate.keys import KeyFileError
from gate.rules import Allowed, Policy, judge

PLUGIN_PATH = "/frp"
HEALTH_PATH = "/healthz"
LIVE_PATH = "/livez"
"""Ready is who can say yes, alive is who answers: one that waits for keys or for the API server is left alone."""

HEAD_LIMIT = 8 * 1024
"""Bytes of request line and headers; frps sends some 250."""

BODY_LIMIT = 64 * 1024
"""Bytes of body; frps sends some 700."""

REQUEST_SECONDS = 5.0
"""For a whole request, so that a slow one ends; frpc itself gives a login up after 10."""

MAX_REQUESTS = 256
"""At once. A request takes about a millisecond, so this many wait only when somebody holds them open."""


class BadRequestError(Exception):
    """Not a request that frps or the kubelet makes."""

    def __init__(self, status: HTTPStatus) -> None:
        super().__init__(status.phrase)
        self.status = status


@dataclass(frozen=True)
class Request:
    """What was asked: ``path`` without its query."""

    method: str
    path: str
    body: bytes


@dataclass
class Gate:
    """Answers requests with what *policy* says at that moment; it raises KeyFileError where there are no keys."""

    policy: Callable[[], Policy]
    draining: bool = False
    requests: set[asyncio.Task[None]] = field(default_factory=set)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer one connection and close it: frps asks rarely, and a kept connection could be to a gate that died."""
        task = asyncio.current_task()
        if task is None or len(self.requests) >= MAX_REQUESTS:
            writer.transport.abort()
            return
        self.requests.add(task)
        try:
            async with asyncio.timeout(REQUEST_SECONDS):
                writer.write(await self._answer(reader))
                await writer.drain()
                writer.close()
                await writer.wait_closed()
        except (TimeoutError, OSError, EOFError):
            writer.transport.abort()
        finally:
            self.requests.discard(task)

    async def _answer(self, reader: asyncio.StreamReader) -> bytes:
        try:
            return response(HTTPStatus.OK, self.reply(await read_request(reader)))
        except BadRequestError as bad:
            return response(bad.status, {"error": bad.status.phrase})
        except KeyFileError as error:
            event("unready", reason=str(error))
            metrics.UNREADY.inc()
            return response(HTTPStatus.SERVICE_UNAVAILABLE, {"error": "no usable key"})
        except (EOFError, OSError):
            raise  # the client is gone: there is nobody to answer
        except Exception as error:  # noqa: BLE001 - whatever goes wrong, the answer is no and the others are served
            event("failed", reason=type(error).__name__)
            return response(HTTPStatus.INTERNAL_SERVER_ERROR, {"error": "the gate failed"})

    def reply(self, request: Request) -> dict[str, object]:
        """Answer *request* with the object to send.

        Raises:
            BadRequestError: wrong path or method, or no JSON.
            KeyFileError: there are no keys to judge with.

        """
        match (request.method, request.path):
            case ("POST", "/frp"):
                return verdict(request.body, self.policy())
            case ("GET", "/healthz"):
                if self.draining or not self.policy().view.complete:
                    raise BadRequestError(HTTPStatus.SERVICE_UNAVAILABLE)
                return {"ok": True}
            case ("GET", "/livez"):
                return {"ok": True}
            case (_, "/frp" | "/healthz" | "/livez"):
                raise BadRequestError(HTTPStatus.METHOD_NOT_ALLOWED)
            case _:
                raise BadRequestError(HTTPStatus.NOT_FOUND)


async def read_request(reader: asyncio.StreamReader) -> Request:
    """Read one request with its body, of which the length must be said.

    Raises:
        BadRequestError: it is malformed or too large.

    """
    try:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("ascii")
        line, *rest = head.rstrip().split("\r\n")
        method, target, _version = line.split(" ")
        headers = {name.strip().lower(): value.strip() for name, _, value in (header.partition(":") for header in rest)}
        length = int(headers.get("content-length", "0"))
    except asyncio.LimitOverrunError:
        raise BadRequestError(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE) from None
    except ValueError:
        raise BadRequestError(HTTPStatus.BAD_REQUEST) from None
    if "transfer-encoding" in headers or length < 0:
        raise BadRequestError(HTTPStatus.LENGTH_REQUIRED)
    if length > BODY_LIMIT:
        raise BadRequestError(HTTPStatus.REQUEST_ENTITY_TOO_LARGE)
    return Request(method, target.partition("?")[0], await reader.readexactly(length))


def verdict(body: bytes, policy: Policy) -> dict[str, object]:
    """Judge frps's request in *body*, log what matters and return frps's kind of answer.

    Raises:
        BadRequestError: *body* is no JSON.

    """
    try:
        request = json.loads(body)
    except (ValueError, RecursionError):
        raise BadRequestError(HTTPStatus.BAD_REQUEST) from None
    op = request.get("op") if isinstance(request, dict) else None
    try:
        allowed = judge(request, policy)
    except RefusedError as refused:
        event("refused", op=str(op)[:32], reason=str(refused))
        metrics.count(op, "refused")
        return {"reject": True, "reject_reason": str(refused)}
    _log(allowed)
    metrics.count(op, "allowed")
    changed = {"unchange": True} if allowed.content is None else {"unchange": False, "content": allowed.content}
    return {"reject": False, **changed}


def response(status: HTTPStatus, payload: dict[str, object]) -> bytes:
    """Return a whole HTTP/1.1 answer that ends the connection."""
    body = json.dumps(payload).encode()
    head = (
        f"HTTP/1.1 {status.value} {status.phrase}\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    )
    return head.encode() + body


def _log(allowed: Allowed) -> None:
    names = {"Login": "login", "NewProxy": "announced", "NewUserConn": "session"}
    more = {"client": allowed.client} if allowed.client else {}
    if allowed.previous:
        more["key"] = "previous"
        metrics.PREVIOUS.labels(allowed.op).inc()
    event(names[allowed.op], **asdict(allowed.claim), **more)
