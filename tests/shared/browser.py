"""A page in headless Chromium, over its debugging pipe, which needs no other library."""

import base64
import json
import os
import shutil
import subprocess
import tempfile

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
CHROMIUM = next(filter(None, map(shutil.which, NAMES)), None)
needs_browser = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium is installed")


class Page:
    """A page of a file, of a width in pixels; ``messages`` are errors, and what was loaded."""

    def __init__(self, path, width=1400, scheme="light"):
        self.folder = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        # the browser reads from file descriptor 3 and writes to 4
        to_browser, self.write = os.pipe()
        self.read, from_browser = os.pipe()
        flags = "--headless --no-sandbox --disable-gpu --disable-dev-shm-usage --hide-scrollbars"
        # redirected by the shell: numbers of descriptors are fixed, and those of pipes are not
        command = [
            CHROMIUM,
            *flags.split(),
            "--remote-debugging-pipe",
            f"--user-data-dir={self.folder.name}",
        ]
        redirected = f'exec "$@" 3<&{to_browser} 4>&{from_browser}'
        self.process = subprocess.Popen(
            ["bash", "-c", redirected, "bash", *command],
            pass_fds=(to_browser, from_browser),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(to_browser), os.close(from_browser)
        self.number, self.buffer, self.session, self.messages = 0, b"", None, []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        attached = self.call("Target.attachToTarget", targetId=target, flatten=True)
        self.session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")
        feature = {"name": "prefers-color-scheme", "value": scheme}
        self.call("Emulation.setEmulatedMedia", features=[feature])
        metrics = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 600}
        self.call("Emulation.setDeviceMetricsOverride", **metrics)
        self.call("Page.navigate", url=path.resolve().as_uri())
        while not any(message["method"] == "Page.loadEventFired" for message in self.messages):
            self.receive()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait(10)
        os.close(self.read), os.close(self.write)
        self.folder.cleanup()

    def receive(self):
        """Return the next answer, and note events."""
        while b"\0" not in self.buffer:
            piece = os.read(self.read, 1 << 16)
            assert piece, "the browser has ended"
            self.buffer += piece
        text, _, self.buffer = self.buffer.partition(b"\0")
        message = json.loads(text)
        if "method" in message:
            self.messages.append(message)
        return message

    def call(self, method, **parameters):
        self.number += 1
        message = {"id": self.number, "method": method, "params": parameters}
        if self.session is not None:
            message["sessionId"] = self.session
        os.write(self.write, json.dumps(message).encode() + b"\0")
        while (answer := self.receive()).get("id") != self.number:
            pass
        return answer["result"]

    def run(self, script):
        """Return the value of a JavaScript expression."""
        answer = self.call("Runtime.evaluate", expression=script, returnByValue=True)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def errors(self):
        """Return exceptions, and errors of the console."""
        kinds = "Runtime.exceptionThrown", "Log.entryAdded", "Runtime.consoleAPICalled"
        return [message for message in self.messages if message["method"] in kinds]

    def requests(self):
        """Return the addresses that were loaded."""
        sent = (m for m in self.messages if m["method"] == "Network.requestWillBeSent")
        return [message["params"]["request"]["url"] for message in sent]

    def picture(self, path):
        """Write a picture of the whole page."""
        answer = self.call("Page.captureScreenshot", captureBeyondViewport=True)
        path.write_bytes(base64.b64decode(answer["data"]))
