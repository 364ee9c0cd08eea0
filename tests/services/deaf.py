"""A client by HTTP/2 that takes no byte of any answer: its window is zero, and it goes on asking."""

import ssl
from contextlib import suppress
from typing import Self

from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.events import ResponseReceived, StreamReset
from h2.settings import SettingCodes, Settings

from components.proxy_spec import STREAMS
from tests.services.proxies import STORAGE, Proxy


class Deaf:
    """One connection from *source*; answers' heads come, and their bodies cannot."""

    def __init__(self, asked: Proxy, source: str = "127.0.0.2") -> None:
        self.socket: ssl.SSLSocket = asked.connect(STORAGE, source, protocols=["h2"])
        self.connection = H2Connection(H2Configuration(client_side=True))
        window = {SettingCodes.INITIAL_WINDOW_SIZE: 0, SettingCodes.ENABLE_PUSH: 0}
        self.connection.local_settings = Settings(client=True, initial_values=window)
        self.connection.initiate_connection()
        self.statuses: list[int] = []
        self.resets = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def ask(
        self, path: str, host: str, headers: dict[str, str] | None = None, times: int = STREAMS, method: str = "GET"
    ) -> None:
        """Ask *times* at once, and read until each was answered, or reset, or nothing comes for ten seconds."""
        expected = len(self.statuses) + self.resets + times
        for _ in range(times):
            self._begin(path, host, headers or {}, method)
        self.socket.settimeout(10)
        with suppress(TimeoutError):
            while len(self.statuses) + self.resets < expected:
                self.socket.sendall(self.connection.data_to_send())
                self._read()

    def _begin(self, path: str, host: str, headers: dict[str, str], method: str) -> None:
        more = [(name.lower(), value) for name, value in headers.items()]
        said = [(":method", method), (":scheme", "https"), (":authority", host), (":path", path), *more]
        self.connection.send_headers(self.connection.get_next_available_stream_id(), said, end_stream=True)

    def _read(self) -> None:
        data = self.socket.recv(65536)
        assert data, "the proxy has closed the connection"
        for event in self.connection.receive_data(data):
            if isinstance(event, ResponseReceived):
                self.statuses.append(int(dict(event.headers)[b":status"]))
            elif isinstance(event, StreamReset):
                self.resets += 1
