"""A fake of OpenAI's batch API (files, batches), which answers as the fake chat service does."""

import json
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from fakes.chat_service import api_error, chat_service
from fakes.http_server import FakeServer, Request, Response


@dataclass
class Batch:
    """A batch: its record as the API returns it, and how often that was requested."""

    record: dict[str, Any]
    polls: int = 0


@dataclass
class BatchResult:
    """How a batch ends: its status, and how many of its questions are answered before (default: all)."""

    status: str = "completed"
    answered: int | None = None
    errors: list[dict[str, Any]] = field(default_factory=list)
    refused: frozenset[int] = frozenset()  # numbers of the questions that are answered by an error


class BatchService(FakeServer):
    """Accepts files and batches; a batch ends when its record has been requested ``polls`` times.

    Attributes:
        results: how the first batches end, in order of creation; later ones are completed.
        billed: how often each image was answered.
        files: the stored files.
        lose: the number of created batches whose replies are dropped.
        stalled: whether batches never end.
    """

    def __init__(self, key: str, *, polls: int = 2) -> None:
        super().__init__(self._answer_call)
        self._key, self._polls = key, polls
        self._chat = chat_service(key)
        self.results: list[BatchResult] = []
        self.billed: Counter[str] = Counter()
        self.files: dict[str, bytes] = {}
        self.batches: dict[str, Batch] = {}
        self.lose = 0
        self.stalled = False
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
            return Response(200, {"data": [batch.record for batch in self.batches.values()], "has_more": False})
        if kind == "batches" and rest[0] in self.batches:
            return Response(200, self._poll(self.batches[rest[0]]))
        if kind == "files" and rest[0] in self.files:
            if request.method == "DELETE":
                del self.files[rest[0]]
                return Response(200, {"deleted": True})
            return Response(200, self.files[rest[0]], {"Content-Type": "application/jsonl"})
        return api_error(404, f"Not found: {request.path}")

    def _keep(self, content: bytes) -> str:
        self._made += 1
        self.files[f"file-{self._made}"] = content
        return f"file-{self._made}"

    def _create(self, wanted: dict[str, Any]) -> Response:
        assert wanted["completion_window"] == "24h"
        assert wanted["endpoint"] == "/v1/chat/completions"
        record = {"id": f"batch_{len(self.batches) + 1}", "object": "batch", "status": "in_progress", **wanted}
        self.batches[record["id"]] = Batch(record)
        if self.lose:
            self.lose -= 1
            return Response(dropped=True)
        return Response(200, record)

    def _poll(self, batch: Batch) -> dict[str, Any]:
        batch.polls = 0 if self.stalled else batch.polls + 1
        if batch.polls == self._polls:
            self._finish(batch.record)
        return batch.record

    def _finish(self, record: dict[str, Any]) -> None:
        number = int(record["id"].removeprefix("batch_")) - 1
        result = self.results[number] if number < len(self.results) else BatchResult()
        record["status"] = result.status
        if result.status == "failed":
            record["errors"] = {"data": result.errors}
            return
        succeeded, failed = [], []
        for line, text in enumerate(self.files[record["input_file_id"]].splitlines()):
            question = json.loads(text)
            assert question["method"] == "POST"
            row: dict[str, Any] = {"id": f"req_{line}", "custom_id": question["custom_id"]}
            if result.answered is not None and line >= result.answered:
                if result.status == "expired":
                    message = "This request could not be executed before the completion window expired."
                    failed.append(row | {"response": None, "error": {"code": "batch_expired", "message": message}})
                continue
            body = json.dumps(question["body"]).encode()
            headers = {"authorization": f"Bearer {self._key}"}
            reply = self._chat(Request("POST", question["url"], {}, headers, body))
            if line in result.refused:
                reply = api_error(400, "this picture is refused", code="invalid_image")
            else:
                self.billed[question["custom_id"]] += 1
            response = {"status_code": reply.status, "request_id": f"r{line}", "body": reply.body}
            (succeeded if reply.status == 200 else failed).append(row | {"response": response, "error": None})
        for name, rows in (("output_file_id", succeeded), ("error_file_id", failed)):
            text = "".join(json.dumps(row) + "\n" for row in rows)
            record[name] = self._keep(text.encode()) if rows else None
        counts = {"completed": len(succeeded), "failed": len(failed)}
        record["request_counts"] = counts | {"total": sum(counts.values())}
