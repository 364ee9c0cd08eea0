"""A real browser, driven by its own driver (W3C WebDriver): it sees the hosts of a test and nothing else."""

import base64
import http.client
import json
import subprocess
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.services.world import free_port, wait_for
from tools.toolchain import ensure_debian

ELEMENT = "element-6066-11e4-a52e-4f735466cecf"
"""The key under which WebDriver names an element."""

SHIFT, ENTER = "\ue008", "\ue006"
"""Keys, as WebDriver writes them; the first is held until the end of what is pressed."""

OPENS = """
const socket = new WebSocket(`wss://${location.host}/socket`);
return await new Promise((next, fail) => {
  socket.onopen = () => next('open');
  socket.onerror = () => fail('refused');
});
"""
"""Script of a page that opens a WebSocket to where it is from."""

QUIET = (
    "--headless=new",
    "--no-sandbox",  # as root there is no other way
    "--disable-dev-shm-usage",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--window-size=1000,700",
)


@dataclass(frozen=True)
class Chromium:
    """A browser's one tab."""

    port: int
    session: str

    def get(self, url: str) -> None:
        """Open a page, and wait until it is loaded."""
        self._post("url", {"url": url})

    def run(self, script: str, *arguments: Any) -> Any:
        """Give what *script*, the body of an async function, returns in the page; the page's policies hold for it."""
        done = "arguments[arguments.length - 1]"
        body = f"(async () => {{ {script} }})().then({done}, error => {done}(`${{error}}`))"
        return self._post("execute/async", {"script": body, "args": list(arguments)})

    def choose(self, selector: str, file: Path) -> None:
        """Put *file* into the field for files at *selector*, as a person does who chooses it."""
        found = self._post("element", {"using": "css selector", "value": selector})
        self._post(f"element/{found[ELEMENT]}/value", {"text": str(file)})

    def press(self, selector: str, keys: str) -> None:
        """Press *keys* in the element at *selector*, as a person does who clicked it."""
        found = self._post("element", {"using": "css selector", "value": selector})
        self._post(f"element/{found[ELEMENT]}/click", {})
        self._post(f"element/{found[ELEMENT]}/value", {"text": keys})

    def screenshot(self, file: Path) -> None:
        """Write what is seen as a picture."""
        file.write_bytes(base64.b64decode(_ask(self.port, "GET", f"/session/{self.session}/screenshot")))

    def _post(self, what: str, said: Any) -> Any:
        return _ask(self.port, "POST", f"/session/{self.session}/{what}", said)


def _ask(port: int, method: str, path: str, said: Any = None) -> Any:
    with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=60)) as connection:
        connection.request(method, path, json.dumps(said) if said is not None else None)
        answer = json.loads(connection.getresponse().read())["value"]
    assert not isinstance(answer, dict) or "error" not in answer, answer
    return answer


@contextmanager
def chromium(folder: Path, host: str, port: int, address: str = "127.0.0.1") -> Iterator[Chromium]:
    """Run a browser for which *host*, and all below it, is *port* of *address*; every other name leads nowhere.

    Addresses of loopback are themselves: an issuer's, too.
    """
    ensure_debian("chromium", "chromium-driver")
    driver = free_port()
    rules = f"MAP {host} {address}:{port}, MAP *.{host} {address}:{port}, MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"
    arguments = [*QUIET, f"--host-resolver-rules={rules}", f"--user-data-dir={folder}"]
    options = {"goog:chromeOptions": {"args": arguments}, "acceptInsecureCerts": True}
    with subprocess.Popen(["chromedriver", f"--port={driver}"], stdout=subprocess.DEVNULL) as process:
        try:
            wait_for(lambda: _ready(driver), "the browser's driver")
            session = _ask(driver, "POST", "/session", {"capabilities": {"alwaysMatch": options}})["sessionId"]
            yield Chromium(driver, session)
            _ask(driver, "DELETE", f"/session/{session}")
        finally:
            process.kill()


def _ready(port: int) -> bool:
    with suppress(OSError):
        return bool(_ask(port, "GET", "/status")["ready"])
    return False
