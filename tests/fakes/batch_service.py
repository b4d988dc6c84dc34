"""A server of OpenAI's batch API (files, batches) whose questions a server of chat completions answers."""

import json
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from fakes.chat_service import api_error, chat_service
from fakes.http_server import FakeServer, Request, Response


@dataclass
class Batch:
    """A batch as the server holds it."""

    facts: dict[str, Any]
    looks: int = 0  # how often its state was asked for


@dataclass
class BatchResult:
    """What becomes of a batch: its last status, and how many of its questions are answered before."""

    status: str = "completed"
    answered: int | None = None
    errors: list[dict[str, Any]] = field(default_factory=list)
    refused: frozenset[int] = frozenset()  # questions (by their line) that get an error of their own


class BatchServer(FakeServer):
    """Takes files and batches; a batch ends when it has been looked at ``looks`` times.

    Attributes:
        fates: of the batches, in the order of their creation; then all are completed.
        billed: how often each picture was answered.
        files: what the server holds at the moment.
        lose: the replies to the creation of so many batches do not arrive.
        held: no batch ends.
    """

    def __init__(self, key: str, *, looks: int = 2) -> None:
        super().__init__(self._answer_call)
        self._key, self._looks = key, looks
        self._chat = chat_service(key)
        self.fates: list[BatchResult] = []
        self.billed: Counter[str] = Counter()
        self.files: dict[str, bytes] = {}
        self.batches: dict[str, Batch] = {}
        self.lose = 0
        self.held = False
        self._made = 0

    def _answer_call(self, request: Request) -> Response:
        if request.headers.get("authorization") != f"Bearer {self._key}":
            return api_error(401, "Incorrect API key provided", code="invalid_api_key")
        kind, *rest = request.path.removeprefix("/v1/").split("/")
        if (request.method, kind, rest) == ("POST", "files", []):
            parts = request.parts()
            assert parts["purpose"][2] == b"batch"
            return Response(200, {"id": self._keep(parts["file"][2]), "object": "file"})
        if (request.method, kind, rest) == ("POST", "batches", []):
            return self._create(request.json())
        if (request.method, kind, rest) == ("GET", "batches", []):
            return Response(200, {"data": [one.facts for one in self.batches.values()], "has_more": False})
        if kind == "batches" and rest[0] in self.batches:
            return Response(200, self._look(self.batches[rest[0]]))
        if kind == "files" and rest[0] in self.files:
            if request.method == "DELETE":
                del self.files[rest[0]]
                return Response(200, {"deleted": True})
            return Response(200, self.files[rest[0]], {"Content-Type": "application/jsonl"})
        return api_error(404, f"No such thing: {request.path}")

    def _keep(self, content: bytes) -> str:
        self._made += 1
        self.files[f"file-{self._made}"] = content
        return f"file-{self._made}"

    def _create(self, wanted: dict[str, Any]) -> Response:
        assert wanted["completion_window"] == "24h"
        assert wanted["endpoint"] == "/v1/chat/completions"
        facts = {"id": f"batch_{len(self.batches) + 1}", "object": "batch", "status": "in_progress", **wanted}
        self.batches[facts["id"]] = Batch(facts)
        if self.lose:
            self.lose -= 1
            return Response(dropped=True)
        return Response(200, facts)

    def _look(self, batch: Batch) -> dict[str, Any]:
        batch.looks += 1
        if batch.looks == self._looks and not self.held:
            self._finish(batch.facts)
        elif self.held:
            batch.looks = 0
        return batch.facts

    def _finish(self, facts: dict[str, Any]) -> None:
        number = int(facts["id"].removeprefix("batch_")) - 1
        fate = self.fates[number] if number < len(self.fates) else BatchResult()
        facts["status"] = fate.status
        if fate.status == "failed":
            facts["errors"] = {"data": fate.errors}
            return
        done, undone = [], []
        for line, text in enumerate(self.files[facts["input_file_id"]].splitlines()):
            question = json.loads(text)
            assert question["method"] == "POST"
            row: dict[str, Any] = {"id": f"req_{line}", "custom_id": question["custom_id"]}
            if fate.answered is not None and line >= fate.answered:
                if fate.status == "expired":
                    message = "This request could not be executed before the completion window expired."
                    undone.append(row | {"response": None, "error": {"code": "batch_expired", "message": message}})
                continue
            body = json.dumps(question["body"]).encode()
            headers = {"authorization": f"Bearer {self._key}"}
            reply = self._chat(Request("POST", question["url"], {}, headers, body))
            if line in fate.refused:
                reply = api_error(400, "this picture is refused", code="invalid_image")
            else:
                self.billed[question["custom_id"]] += 1
            response = {"status_code": reply.status, "request_id": f"r{line}", "body": reply.body}
            (done if reply.status == 200 else undone).append(row | {"response": response, "error": None})
        for name, rows in (("output_file_id", done), ("error_file_id", undone)):
            text = "".join(json.dumps(row) + "\n" for row in rows)
            facts[name] = self._keep(text.encode()) if rows else None
        facts["request_counts"] = {"total": len(done) + len(undone), "completed": len(done), "failed": len(undone)}
