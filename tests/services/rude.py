"""A tunnel client that heeds nothing it is told: frp's wire protocol v1 by hand, over TLS, without a shared stream."""

import hashlib
import json
import os
import socket
import ssl
import struct
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cryptography.hazmat.decrepit.ciphers.modes import CFB
from cryptography.hazmat.primitives.ciphers import Cipher, CipherContext
from cryptography.hazmat.primitives.ciphers.algorithms import AES

Json = dict[str, Any]

LOGIN, LOGIN_ANSWER, PROXY, PROXY_ANSWER, WORK, START = b"o", b"1", b"p", b"2", b"w", b"s"
IV_BYTES = 16


def message(kind: bytes, body: Json) -> bytes:
    """Return one message as frp frames it."""
    text = json.dumps(body).encode()
    return kind + struct.pack(">q", len(text)) + text


@dataclass
class Rude:
    """A connection to the frps at *port* that logged in with *metas*, or tried to."""

    port: int
    ca: Path
    token: str
    metas: dict[str, str]
    run_id: str = ""
    """What it asks for; then, what it was given."""
    answer: Json = field(init=False)
    control: ssl.SSLSocket = field(init=False)
    _out: CipherContext | None = None
    _in: CipherContext | None = None

    def __post_init__(self) -> None:
        self.control = self._connect()
        said = {"version": "0.70.1", "os": "linux", "arch": "amd64", "run_id": self.run_id, "metas": self.metas}
        self.control.sendall(message(LOGIN, {**said, **self._proof(), "pool_count": 1}))
        kind, self.answer = self._read()
        assert kind == LOGIN_ANSWER
        self.run_id = self.answer.get("run_id", "")

    def announce(self, name: str, host: str) -> str:
        """Ask for a proxy; return frps's error, empty where it is allowed."""
        body = {"proxy_name": name, "proxy_type": "tcpmux", "multiplexer": "httpconnect", "custom_domains": [host]}
        self.control.sendall(self._sealed(message(PROXY, body)))
        while True:
            kind, said = self._read(opened=True)
            if kind == PROXY_ANSWER:
                return str(said.get("error", ""))

    def offer(self, run_id: str) -> ssl.SSLSocket:
        """Offer a connection for a user of the client *run_id*, whoever that is; nobody need have asked for it."""
        connection = self._connect()
        connection.sendall(message(WORK, {"run_id": run_id, **self._proof()}))
        return connection

    def end(self) -> None:
        """Leave."""
        self.control.close()

    def _connect(self) -> ssl.SSLSocket:
        context = ssl.create_default_context(cafile=self.ca)
        return context.wrap_socket(socket.create_connection(("127.0.0.1", self.port), 10), server_hostname="frps")

    def _proof(self) -> Json:
        now = int(time.time())
        proof = hashlib.md5(f"{self.token}{now}".encode(), usedforsecurity=False).hexdigest()
        return {"privilege_key": proof, "timestamp": now}

    def _cipher(self, iv: bytes) -> Cipher[CFB]:
        key = hashlib.pbkdf2_hmac("sha1", self.token.encode(), b"frp", 64, IV_BYTES)
        return Cipher(AES(key), CFB(iv))

    def _sealed(self, text: bytes) -> bytes:
        if self._out is None:
            iv = os.urandom(IV_BYTES)
            self._out = self._cipher(iv).encryptor()
            return iv + self._out.update(text)
        return self._out.update(text)

    def _read(self, *, opened: bool = False) -> tuple[bytes, Json]:
        head = self._take(9, opened=opened)
        (length,) = struct.unpack(">q", head[1:])
        return head[:1], json.loads(self._take(length, opened=opened))

    def _take(self, count: int, *, opened: bool) -> bytes:
        if opened and self._in is None:
            self._in = self._cipher(self._receive(IV_BYTES)).decryptor()
        data = self._receive(count)
        return self._in.update(data) if self._in and opened else data

    def _receive(self, count: int) -> bytes:
        data = b""
        while len(data) < count:
            more = self.control.recv(count - len(data))
            if not more:
                raise EOFError
            data += more
        return data
