"""What W&B was told: in its offline files, and as much of a server as its client talks to for a run's rows."""

import json
import subprocess
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from wandb.util import get_core_path


def stored(run: Path) -> list[tuple[str, list[int]]]:
    """(run id, steps) in each offline file, oldest first, as ``wandb leet inspect`` finds them."""
    found = []
    files = (run / "wandb").glob("offline-run-*/*.wandb")
    for path in sorted(files, key=lambda path: path.stat().st_mtime_ns):  # a folder's name tells the second alone
        reader = [get_core_path(), "leet", "inspect", "--no-observability", "--json", "--run-file", path, run / "wandb"]
        lines = subprocess.run(reader, capture_output=True, text=True, check=True, timeout=60).stdout.splitlines()
        steps = [record["history"]["step"]["num"] for line in lines if (record := json.loads(line)).get("history")]
        found.append((path.stem.removeprefix("run-"), steps))
    return found


class Server(ThreadingHTTPServer):
    """Remembers the steps told to each run; refuses the ids in ``deleted`` as W&B does."""

    daemon_threads = True

    def __init__(self, silent: bool = False) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.deleted: set[str] = set()
        self.steps: dict[str, list[int]] = {}
        self.silent, self.over = silent, threading.Event()
        threading.Thread(target=self.serve_forever, daemon=True).start()

    @property
    def environment(self) -> dict[str, str]:
        return {"WANDB_BASE_URL": f"http://127.0.0.1:{self.server_port}", "WANDB_API_KEY": "a" * 40}

    def stop(self) -> None:
        self.over.set()
        self.shutdown()
        self.server_close()


class _Handler(BaseHTTPRequestHandler):
    server: Server

    def do_POST(self) -> None:
        if self.server.silent:
            self.server.over.wait()
            return
        told = json.loads(self.rfile.read(int(self.headers["Content-Length"])) or "{}") if self._is_json else {}
        self._answer(*self._reply(told))

    @property
    def _is_json(self) -> bool:
        return "json" in self.headers.get("Content-Type", "")

    def _reply(self, told: Any) -> tuple[int, Any]:
        if self.path.endswith("/file_stream"):
            run = self.path.split("/")[-2]
            rows = told.get("files", {}).get("wandb-history.jsonl", {}).get("content", [])
            self.server.steps.setdefault(run, []).extend(json.loads(row)["_step"] for row in rows)
            return 200, {}
        name, query = told.get("variables", {}).get("name"), told.get("query", "")
        if name in self.server.deleted:
            return 409, {"errors": [{"message": f"run {name} was previously created and deleted; try a new run name"}]}
        if "UpsertBucket" in query:
            project = {"name": "p", "entity": {"name": "e"}}
            return 200, {"data": {"upsertBucket": {"bucket": {"id": "1", "name": name, "project": project}}}}
        if "CreateRunFiles" in query:
            return 200, {"data": {"createRunFiles": {"runID": "1", "uploadHeaders": [], "files": []}}}
        return 200, {"data": {}}

    def do_GET(self) -> None:
        self._answer(404, {})

    def _answer(self, code: int, content: Any) -> None:
        body = json.dumps(content).encode()
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        pass
