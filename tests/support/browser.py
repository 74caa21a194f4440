"""A real browser for the tests: the Chromium inside Qt, without a window, driven by its DevTools protocol.

It comes from PyPI (PyQt6-WebEngine) and runs in a process of its own, so that tests see what people see:
pixels, key strokes, clicks, errors on the console and requests to the network.
"""

from __future__ import annotations

import base64
import json
import os
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

import pytest

#: Seconds to wait for something to happen, on a machine that is busy.
PATIENCE = 60.0

_KEYS = {
    "ArrowDown": 40,
    "ArrowUp": 38,
    "End": 35,
    "Enter": 13,
    "Home": 36,
    "PageDown": 34,
    "PageUp": 33,
    "Tab": 9,
}


@contextmanager
def started() -> Iterator[Page]:
    """A running browser with one page; skips, with the reason, where this machine cannot run one."""
    websocket = pytest.importorskip("websocket")
    port = _free_port()
    command = [sys.executable, str(Path(__file__)), str(port)]
    with (
        tempfile.TemporaryFile("w+") as said,
        subprocess.Popen(command, stdin=subprocess.PIPE, stderr=said) as process,
    ):
        try:
            address = _address(process, port, said)
            with closing(
                websocket.create_connection(address, suppress_origin=True, timeout=PATIENCE)
            ) as wire:
                page = Page(wire)
                for domain in ("Page", "Runtime", "Log", "Network"):
                    page.call(f"{domain}.enable")
                yield page
        finally:
            process.kill()


def _free_port() -> int:
    with socket.socket() as any_port:
        any_port.bind(("127.0.0.1", 0))
        return int(any_port.getsockname()[1])


def _address(process: subprocess.Popen[bytes], port: int, said: IO[str]) -> str:
    """Where the browser's page listens, once it does."""
    deadline = time.monotonic() + PATIENCE
    while process.poll() is None and time.monotonic() < deadline:
        with suppress(OSError), urllib.request.urlopen(f"http://127.0.0.1:{port}/json") as answer:
            for target in json.load(answer):
                return str(target["webSocketDebuggerUrl"])
        time.sleep(0.05)
    said.seek(0)
    complaint = said.read().strip()
    if "ImportError" in complaint or "ModuleNotFoundError" in complaint:
        pytest.skip(f"this machine cannot run the browser of PyQt6-WebEngine: {complaint.splitlines()[-1]}")
    raise AssertionError(f"The browser did not start:\n{complaint}")


@dataclass
class Page:
    """What a person does with a page, and what the browser noticed meanwhile."""

    connection: Any
    errors: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)
    _sent: int = 0

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """One command of the protocol; events that come first are noted."""
        self._sent += 1
        self.connection.send(json.dumps({"id": self._sent, "method": method, "params": parameters}))
        while True:
            message = json.loads(self.connection.recv())
            if message.get("id") == self._sent:
                assert "error" not in message, (method, message["error"])
                result: dict[str, Any] = message["result"]
                return result
            self._note(message.get("method"), message.get("params", {}))

    def _note(self, event: str | None, details: dict[str, Any]) -> None:
        if event == "Runtime.exceptionThrown":
            self.errors.append(str(details["exceptionDetails"]))
        elif event == "Runtime.consoleAPICalled":
            self.errors.append(f"{details['type']}: {details['args']}")
        elif event == "Log.entryAdded":
            self.errors.append(str(details["entry"]))
        elif event == "Network.requestWillBeSent":
            self.requests.append(details["request"]["url"])

    def open(self, path: Path, *, width: int = 1280, height: int = 900, dark: bool = False) -> None:
        """Show a file, and wait until its pictures are drawn."""
        self.call("Page.navigate", url="about:blank")
        self.errors.clear()
        self.requests.clear()
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=width < 600,
        )
        self.prefer(dark=dark)
        self.call("Page.navigate", url=path.as_uri())
        self.until(
            f"location.href === {json.dumps(path.as_uri())} && document.documentElement?.dataset.ready"
        )

    def prefer(self, *, dark: bool) -> None:
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])

    def evaluate(self, script: str) -> Any:
        done = self.call("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in done, done["exceptionDetails"]
        return done["result"].get("value")

    def until(self, condition: str) -> Any:
        """Wait until a condition holds."""
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            if found := self.evaluate(condition):
                return found
            time.sleep(0.02)
        raise AssertionError(f"Never true: {condition}; errors: {self.errors}")

    def text(self, selector: str) -> str:
        """The text of an element as it is shown."""
        return str(self.evaluate(f"document.querySelector({json.dumps(selector)}).innerText"))

    def texts(self, selector: str) -> list[str]:
        script = f"Array.from(document.querySelectorAll({json.dumps(selector)}), (one) => one.innerText)"
        return list(self.evaluate(script))

    def choose(self, selector: str, value: object) -> None:
        """Choose an option of a select, or fill an input."""
        self.evaluate(
            f"(() => {{ const it = document.querySelector({json.dumps(selector)}); "
            f"it.value = {json.dumps(value)}; "
            f"it.dispatchEvent(new Event('input')); it.dispatchEvent(new Event('change')); }})()"
        )

    def click(self, selector: str, x: float = 0.5, y: float = 0.5) -> None:
        """Click into an element, at a share of its width and height."""
        left, top = self._place(selector, x, y)
        for kind in ("mousePressed", "mouseReleased"):
            self.call(
                "Input.dispatchMouseEvent", type=kind, x=left, y=top, button="left", buttons=1, clickCount=1
            )

    def hover(self, selector: str, x: float, y: float) -> None:
        left, top = self._place(selector, x, y)
        self.call("Input.dispatchMouseEvent", type="mouseMoved", x=left, y=top)

    def _place(self, selector: str, x: float, y: float) -> tuple[float, float]:
        left, top = self.evaluate(
            f"(() => {{ const it = document.querySelector({json.dumps(selector)}); "
            "it.scrollIntoView({block: 'center', behavior: 'instant'}); "
            "const box = it.getBoundingClientRect(); "
            f"return [box.left + {x} * box.width, box.top + {y} * box.height]; }})()"
        )
        return left, top

    def press(self, *keys: str) -> None:
        """Strike keys, one after the other."""
        for key in keys:
            code = {"key": key, "code": key, "windowsVirtualKeyCode": _KEYS[key]}
            text = {"text": "\r"} if key == "Enter" else {}
            self.call("Input.dispatchKeyEvent", type="keyDown", **code, **text)
            self.call("Input.dispatchKeyEvent", type="keyUp", **code)

    def focused_name(self) -> str:
        """What a screen reader calls the element that has the focus."""
        found = self.call("Runtime.evaluate", expression="document.activeElement")["result"]["objectId"]
        tree = self.call("Accessibility.getPartialAXTree", objectId=found, fetchRelatives=False)["nodes"]
        return str(tree[0].get("name", {}).get("value", ""))

    def screenshot(self) -> bytes:
        """What is visible now, as PNG."""
        return base64.b64decode(self.call("Page.captureScreenshot", format="png")["data"])


def _window(port: str) -> None:
    """The browser's own process."""
    os.environ["QT_QPA_PLATFORM"] = "offscreen"
    os.environ["QTWEBENGINE_REMOTE_DEBUGGING"] = f"127.0.0.1:{port}"
    # Containers rarely allow the sandbox, and the only pages that are opened are our own.
    os.environ["QTWEBENGINE_DISABLE_SANDBOX"] = "1"
    os.environ["QTWEBENGINE_CHROMIUM_FLAGS"] = "--disable-gpu"
    from PyQt6.QtCore import QUrl
    from PyQt6.QtWebEngineWidgets import QWebEngineView
    from PyQt6.QtWidgets import QApplication

    # Whatever ends the tests closes the pipe, and the browser with it.
    threading.Thread(target=lambda: (sys.stdin.read(), os._exit(0)), daemon=True).start()
    application = QApplication(["browser"])
    view = QWebEngineView()
    view.resize(1280, 900)
    view.load(QUrl("about:blank"))
    view.show()
    sys.exit(application.exec())


if __name__ == "__main__":
    _window(sys.argv[1])
