"""Headless Chromium through chromedriver's own HTTP interface; nothing to install but the two Debian packages."""

import base64
import json
import shutil
import socket
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path
from types import TracebackType
from typing import Any

PROGRAMS = ("chromium", "chromedriver")
"""Debian: apt-get install chromium chromium-driver."""
_ARGUMENTS = (
    "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--hide-scrollbars",
    "--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-extensions",
    "--disable-dev-shm-usage", "--force-color-profile=srgb", "--font-render-hinting=none",
)  # fmt: skip


def missing() -> list[str]:
    """The programs that are not here."""
    return [program for program in PROGRAMS if shutil.which(program) is None]


class Browser:
    """One browser window of a given size in CSS pixels; ``phone`` also behaves as one."""

    def __init__(self, width: int = 1280, height: int = 900, phone: bool = False) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self._port = probe.getsockname()[1]
        self._profile = tempfile.mkdtemp(prefix="browser-")
        self._driver = subprocess.Popen(
            [str(shutil.which("chromedriver")), f"--port={self._port}"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        arguments = [*_ARGUMENTS, f"--window-size={width},{height}", f"--user-data-dir={self._profile}"]
        options: dict[str, Any] = {"args": arguments, "binary": shutil.which("chromium")}
        if phone:
            options["mobileEmulation"] = {"deviceMetrics": {"width": width, "height": height, "pixelRatio": 2.0}}
        wanted = {
            "browserName": "chrome",
            "goog:chromeOptions": options,
            "goog:loggingPrefs": {"browser": "ALL", "performance": "ALL"},
        }
        self._session = ""
        try:
            answer = self._until_up({"capabilities": {"alwaysMatch": wanted}})
            self._session = f"/session/{answer['sessionId']}"
        except BaseException:
            self.close()
            raise

    def _until_up(self, body: dict[str, Any]) -> Any:
        for _ in range(100):
            try:
                return self._call("POST", "/session", body)
            except (ConnectionError, urllib.error.URLError) as error:
                if isinstance(error, urllib.error.HTTPError):
                    raise RuntimeError(error.read().decode(errors="replace")[:800]) from error
                time.sleep(0.1)
        raise RuntimeError("chromedriver does not answer")

    def _call(self, method: str, path: str, body: dict[str, Any] | None = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(
            f"http://127.0.0.1:{self._port}{path}", data, {"Content-Type": "application/json"}, method=method
        )
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.load(answer)["value"]

    def cdp(self, command: str, **parameters: Any) -> Any:
        """A command of the DevTools protocol."""
        return self._call("POST", f"{self._session}/goog/cdp/execute", {"cmd": command, "params": parameters})

    def open(self, page: Path) -> None:
        self._call("POST", f"{self._session}/url", {"url": "about:blank"})
        self.log("performance")  # what the browser's own first page did
        self._call("POST", f"{self._session}/url", {"url": page.resolve().as_uri()})

    def ask(self, script: str) -> Any:
        """What a JavaScript function body returns."""
        return self._call("POST", f"{self._session}/execute/sync", {"script": script, "args": []})

    def log(self, kind: str) -> list[dict[str, Any]]:
        """``browser``: console messages; ``performance``: DevTools events."""
        return list(self._call("POST", f"{self._session}/se/log", {"type": kind}))

    def requests(self) -> list[str]:
        """Every address the page has asked for."""
        events = [json.loads(entry["message"])["message"] for entry in self.log("performance")]
        sent = (event["params"]["request"]["url"] for event in events if event["method"] == "Network.requestWillBeSent")
        return list(sent)

    def scheme(self, name: str) -> None:
        """``light`` or ``dark``, as the reader's system asks for."""
        self.cdp("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": name}])

    def screenshot(self, path: Path, whole: bool = True) -> None:
        """A PNG of the whole page."""
        shot = self.cdp("Page.captureScreenshot", captureBeyondViewport=whole, **self._clip(whole))
        path.write_bytes(base64.b64decode(shot["data"]))

    def _clip(self, whole: bool) -> dict[str, Any]:
        if not whole:
            return {}
        size = self.cdp("Page.getLayoutMetrics")["cssContentSize"]
        return {"clip": {"x": 0, "y": 0, "width": size["width"], "height": size["height"], "scale": 1}}

    def pdf(self, path: Path) -> None:
        """The page as it is printed on A4."""
        made = self.cdp(
            "Page.printToPDF", paperWidth=8.27, paperHeight=11.69, preferCSSPageSize=True, printBackground=False
        )
        path.write_bytes(base64.b64decode(made["data"]))

    def close(self) -> None:
        try:
            if self._session:
                self._call("DELETE", self._session)
        finally:
            self._driver.terminate()
            self._driver.wait(10)
            shutil.rmtree(self._profile, ignore_errors=True)

    def __enter__(self) -> "Browser":
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self.close()
