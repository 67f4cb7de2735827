"""Chromium, for what only a browser can show: `make look`, and `python -m tests.report.browser`."""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any


class Browser:
    """Chromium without a window, told what to do through a pipe by the DevTools protocol."""

    def __init__(self) -> None:
        ours, theirs = os.pipe(), os.pipe()
        self.home = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        name = next(filter(shutil.which, ("chromium", "google-chrome")), "chromium")
        command = f"exec {name} --headless=new --no-sandbox --disable-gpu --user-data-dir={self.home.name} "
        command += f"--remote-debugging-pipe about:blank 3<&{ours[0]} 4>&{theirs[1]}"
        self.process = subprocess.Popen(
            ["bash", "-c", command], pass_fds=(ours[0], theirs[1]), stderr=subprocess.DEVNULL
        )
        os.close(ours[0]), os.close(theirs[1])
        self.write, self.read = os.fdopen(ours[1], "wb", 0), os.fdopen(theirs[0], "rb", 0)
        self.session, self.number, self.rest = "", 0, b""
        self.events: list[dict[str, Any]] = []
        target = self.send("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.send("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Network", "Runtime", "Log", "Accessibility"):
            self.send(f"{domain}.enable")

    def __enter__(self) -> Browser:
        return self

    def __exit__(self, *_: object) -> None:
        self.session = ""
        self.send("Browser.close")
        self.process.wait(30)
        self.home.cleanup()

    def message(self) -> dict[str, Any]:
        while b"\0" not in self.rest:
            self.rest += os.read(self.read.fileno(), 1 << 20)
        text, _, self.rest = self.rest.partition(b"\0")
        return json.loads(text)

    def send(self, method: str, **params: Any) -> dict[str, Any]:
        self.number += 1
        told = {"id": self.number, "method": method, "params": params}
        self.write.write(json.dumps({**told, "sessionId": self.session} if self.session else told).encode() + b"\0")
        while True:
            message = self.message()
            if message.get("id") == self.number:
                assert "error" not in message, (method, message)
                return message["result"]
            self.events.append(message)

    def open(self, where: Path | str, width: int, scheme: str) -> None:
        """Open a file or an address, and wait until it is loaded."""
        self.send("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
        self.resize(width)
        self.events.clear()
        self.send("Page.navigate", url=where if isinstance(where, str) else where.as_uri())
        while not any(each.get("method") == "Page.loadEventFired" for each in self.events):
            self.events.append(self.message())

    def resize(self, width: int) -> None:
        self.width = width
        self.send(
            "Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=width < 500
        )

    def value(self, code: str) -> Any:
        found = self.send("Runtime.evaluate", expression=code, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in found, found
        return found["result"].get("value")

    def press(self, key: str) -> None:
        code = {"Tab": 9, "Enter": 13, " ": 32}[key]
        for kind in ("keyDown", "keyUp"):
            text = {"Enter": "\r", " ": " "}.get(key, "") if kind == "keyDown" else ""
            self.send("Input.dispatchKeyEvent", type=kind, key=key, text=text, windowsVirtualKeyCode=code)

    def picture(self, path: Path, height: int = 0, scale: int = 1) -> None:
        """Write what the page looks like: its first lines of pixels, or all of it."""
        clip = {"x": 0, "y": 0, "width": self.width, "height": height, "scale": scale}
        settings = {"clip": clip} if height else {}
        found = self.send("Page.captureScreenshot", captureBeyondViewport=True, **settings)
        path.write_bytes(base64.b64decode(found["data"]))
