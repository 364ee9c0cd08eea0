"""A small OpenID Connect issuer on loopback, and a browser that visits it: what a login through the proxy needs."""

import base64
import hashlib
import http.server
import json
import ssl
import threading
import time
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, parse_qsl, urlencode, urlsplit

from cryptography.hazmat.primitives.asymmetric import ec, utils
from cryptography.hazmat.primitives.hashes import SHA256
from typing_extensions import override

from components.oidc_spec import OidcSpec
from tests.services.proxies import CLIENT_SECRET, Answer, Proxy, answer_of
from tests.services.world import Authority

CLIENT = "the-client"
NAVIGATES = {"Sec-Fetch-Dest": "document", "Sec-Fetch-Mode": "navigate"}
LONGEST_COOKIE = 4096
"""Bytes that browsers keep, name and attributes included; a longer one they drop."""
COORDINATE = 32
"""Bytes of a number of P-256."""


def text(raw: bytes) -> str:
    """Give base64url without padding."""
    return base64.urlsafe_b64encode(raw).decode().rstrip("=")


def signed(key: ec.EllipticCurvePrivateKey, claims: Mapping[str, Any], kid: str = "one") -> str:
    """Give a JWT by ES256."""
    head, body = ({"alg": "ES256", "typ": "JWT", "kid": kid}, claims)
    content = ".".join(text(json.dumps(part).encode()) for part in (head, body))
    r, s = utils.decode_dss_signature(key.sign(content.encode(), ec.ECDSA(SHA256())))
    return f"{content}.{text(r.to_bytes(COORDINATE) + s.to_bytes(COORDINATE))}"


def jwk(key: ec.EllipticCurvePrivateKey, kid: str = "one") -> dict[str, str]:
    """Give the public part as a JSON Web Key."""
    numbers = key.public_key().public_numbers()
    x, y = (text(number.to_bytes(COORDINATE)) for number in (numbers.x, numbers.y))
    return {"kty": "EC", "crv": "P-256", "kid": kid, "alg": "ES256", "use": "sig", "x": x, "y": y}


class Issuer(http.server.ThreadingHTTPServer):
    """Signs everybody in who comes, as the person that *claims* describe."""

    daemon_threads = True

    def __init__(self, authority: Authority) -> None:
        self.key = ec.generate_private_key(ec.SECP256R1())
        self.signs = self.key
        """What tokens are signed with; another one forges them."""
        self.claims: dict[str, Any] = {"sub": "1", "email": "alice@example.com", "email_verified": True}
        self.says: dict[str, Any] = {}
        """In place of what a token rightly says."""
        self.gives: dict[str, Any] = {}
        """In place of what it rightly gives for a code."""
        self.codes: dict[str, dict[str, str]] = {}
        self.asked: list[str] = []
        super().__init__(("127.0.0.1", 0), _Handler)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*authority.issue("issuer"))
        self.socket = context.wrap_socket(self.socket, server_side=True)
        threading.Thread(target=self.serve_forever, daemon=True).start()

    @property
    def url(self) -> str:
        """Give the name of the issuer, below which everything is."""
        return f"https://127.0.0.1:{self.server_address[1]}"

    def spec(self, authority: Authority, **said: Any) -> OidcSpec:
        """Give what a stack file would say of it."""
        ends = ("authorize", "token", "keys", "end")
        keys = ("authorization_endpoint", "token_endpoint", "jwks_uri", "end_session_endpoint")
        at = {key: f"{self.url}/{end}" for key, end in zip(keys, ends, strict=True)}
        known = {"issuer": self.url, "client_id": CLIENT, "cidrs": ["127.0.0.1/32"], "ca": authority.ca.read_text()}
        return OidcSpec.model_validate({**known, **at, **said})

    def id_token(self) -> str:
        """Give the token of the person."""
        now = int(time.time())
        known = {"iss": self.url, "aud": CLIENT, "iat": now, "exp": now + 600}
        return signed(self.signs, {**known, **self.claims, **self.says})

    def end(self) -> None:
        """Stop listening."""
        self.shutdown()
        self.server_close()

    @override
    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing of clients that go away."""


class _Handler(http.server.BaseHTTPRequestHandler):
    server: Issuer

    def do_GET(self) -> None:
        """Sign in and go back, or show the keys."""
        at = urlsplit(self.path)
        self.server.asked.append(at.path)
        if at.path == "/authorize":
            self._authorize(dict(parse_qsl(at.query)))
        elif at.path == "/keys":
            self._answer(200, {"keys": [jwk(self.server.key)]})
        else:
            self._answer(200 if at.path == "/end" else 404, {})

    def do_POST(self) -> None:
        """Give tokens for a code, once, to the client that proves what it began with."""
        said = dict(parse_qsl(self.rfile.read(int(self.headers["Content-Length"])).decode()))
        self.server.asked.append(self.path)
        begun = self.server.codes.pop(said.get("code", ""), None)
        if begun is None or not _redeems(begun, said):
            return self._answer(400, {"error": "invalid_grant"})
        given = {"access_token": "opaque-access-token", "token_type": "Bearer", "expires_in": 600}
        return self._answer(200, {**given, "id_token": self.server.id_token(), **self.server.gives})

    def _authorize(self, asked: dict[str, str]) -> None:
        code = f"code-{len(self.server.codes)}-{time.monotonic_ns()}"
        self.server.codes[code] = asked
        self.send_response(302)
        self.send_header("Location", f"{asked['redirect_uri']}?{urlencode({'code': code, 'state': asked['state']})}")
        self.send_header("Content-Length", "0")
        self.end_headers()

    def _answer(self, status: int, content: object) -> None:
        body = json.dumps(content).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    @override
    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


def _redeems(begun: dict[str, str], said: dict[str, str]) -> bool:
    challenge = text(hashlib.sha256(said.get("code_verifier", "").encode()).digest())
    return (
        (said.get("client_id"), said.get("client_secret")) == (CLIENT, CLIENT_SECRET)
        and said.get("redirect_uri") == begun["redirect_uri"]
        and begun.get("code_challenge_method") == "S256"
        and begun["code_challenge"] == challenge
    )


@dataclass
class Visitor:
    """A browser with a jar of cookies, each for the one host that set it."""

    proxy: Proxy
    issuer: Issuer
    jar: dict[str, dict[str, str]] = field(default_factory=dict)
    seen: list[str] = field(default_factory=list)
    """Addresses that it was at."""

    def url(self, host: str, path: str) -> str:
        """Give the address of *path* at a host of the proxy."""
        return f"https://{host}:{self.proxy.places.https}{path}"

    def step(self, url: str, **headers: str) -> Answer:
        """Navigate to *url*, and no further."""
        at = urlsplit(url)
        self.seen.append(url)
        target = f"{at.path}?{at.query}" if at.query else at.path
        if url.startswith(self.issuer.url):
            return _ask_issuer(self.issuer, target)
        jar = self.jar.setdefault(at.hostname or "", {})
        cookies = {"Cookie": "; ".join(f"{k}={v}" for k, v in jar.items())} if jar else {}
        with closing(self.proxy.open(at.hostname or "")) as connection:
            connection.request("GET", target, headers={"Host": at.netloc, **NAVIGATES, **cookies, **headers})
            answer = answer_of(connection)
        self._keep(jar, answer)
        return answer

    @staticmethod
    def _keep(jar: dict[str, str], answer: Answer) -> None:
        for line in answer.headers.get_all("Set-Cookie") or []:
            name, _, value = line.partition(";")[0].partition("=")
            parts, gone = {part.strip().lower() for part in line.split(";")}, "1970" in line
            kept = set() if gone else {"samesite=lax", "httponly"}
            # what a browser demands of a name that begins so, and what keeps it from scripts
            assert name.startswith("__Host-"), line
            assert {"secure", "path=/", *kept} <= parts, line
            assert "domain" not in line.lower()
            assert len(line) <= LONGEST_COOKIE, "no browser keeps it"
            jar.pop(name, None)
            jar |= {} if gone else {name: value}

    def go(self, url: str, until: str = "") -> Answer:
        """Navigate to *url* and wherever it leads; stop before an address that begins with *until*."""
        for _ in range(10):
            answer = self.step(url)
            location = answer.headers.get("Location")
            if location is None or (until and location.startswith(until)):
                return answer
            url = location if "://" in location else self.url(urlsplit(url).hostname or "", location)
        raise AssertionError(f"led in a circle: {self.seen}")


def _ask_issuer(issuer: Issuer, target: str) -> Answer:
    context = ssl._create_unverified_context()  # noqa: S323 - the browser is not what is tested
    connection = http.client.HTTPSConnection("127.0.0.1", int(issuer.server_address[1]), context=context)
    with closing(connection):
        connection.request("GET", target)
        return answer_of(connection)


def query(url: str) -> dict[str, str]:
    """Give the query of an address."""
    return {name: values[0] for name, values in parse_qs(urlsplit(url).query).items()}
