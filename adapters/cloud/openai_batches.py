"""OpenAI's batch API: many questions in one file, answered within a day at half the price; a batch is a job.

The name of a batch is in its metadata, so a batch whose creation got no reply is found in the list of batches and not
paid for twice. Source: platform.openai.com/docs/guides/batch and the reference of batches and files, 2026.
"""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from adapters.answers import inner, json_or_empty, one_line
from adapters.base import AdapterError, NoAnswer
from adapters.http_client import Reply

MOST_BYTES = 200_000_000  # the API's limit of a file of questions
# Below the API's limit of 50,000 questions: files of about 60 MB limit memory, and the cost of losing one.
QUESTIONS = 2000
IMAGE_BYTES = 45_000_000
RETENTION = "stored as files until the answers are fetched, at most 30 days; otherwise as without batches"
SHARE = 0.5  # of the usual price
ENDPOINT = "/v1/chat/completions"
NAME = "counterslope"  # key of the batch's name in its metadata

# Sends an HTTP call to a path of the server (see ``OpenAI``); returns the reply if its status is success or 404.
Calls = Callable[..., Reply | NoAnswer]

_ENDED = frozenset({"completed", "failed", "expired", "cancelled"})
_QUEUE_FULL = frozenset({"token_limit_exceeded", "rate_limit_exceeded"})
_PAGES = 100  # of the list of batches, of 100 each
_EXPIRED = "batch_expired"


class Batches:
    """The batches of one server.

    Args:
        calls: sends HTTP calls.
        understood: interprets the reply to a question; returns it if it is an answer.
    """

    def __init__(self, calls: Calls, understood: Callable[[Reply], Reply | NoAnswer]) -> None:
        self._calls, self._understood = calls, understood

    def create(self, name: str, questions: Iterable[tuple[str, Mapping[str, Any]]]) -> str | NoAnswer:
        """Send questions by their ids as a new batch; return the batch's id.

        Raises:
            AdapterError: the server has no batch API.
        """
        lines = (
            json.dumps({"custom_id": key, "method": "POST", "url": ENDPOINT, "body": dict(question)})
            for key, question in questions
        )
        file = self._upload(f"{name}.jsonl", "\n".join(lines).encode())
        if isinstance(file, NoAnswer):
            return file
        wanted = {"input_file_id": file, "endpoint": ENDPOINT, "completion_window": "24h", "metadata": {NAME: name}}
        made = self._calls("POST", "/batches", body=json.dumps(wanted).encode(), kind="application/json")
        found = made if isinstance(made, NoAnswer) else json_or_empty(made.body).get("id")
        if isinstance(found, str):
            return found
        if isinstance(found, NoAnswer) and found.retry != "later":
            self._delete(file)
            return found
        reason = found.reason if isinstance(found, NoAnswer) else "the reply to a new batch cannot be read"
        return NoAnswer(reason, retry="later", billed=True)

    def find(self, name: str) -> str | NoAnswer | None:
        """Return the id of the batch of that name; None if there is none."""
        query = {"limit": "100"}
        for _ in range(_PAGES):
            reply = self._calls("GET", "/batches", query=query)
            if isinstance(reply, NoAnswer):
                return reply
            page = json_or_empty(reply.body)
            batches = page.get("data")
            if not isinstance(batches, list):
                return NoAnswer("the list of batches cannot be read", retry="later")
            for batch in batches:
                if inner(batch, "metadata", NAME) == name and isinstance(inner(batch, "id"), str):
                    return str(batch["id"])
            if not page.get("has_more") or not batches:
                return None
            query["after"] = str(inner(batches[-1], "id"))
        return None

    def results(self, batch: str) -> dict[str, Reply | NoAnswer] | NoAnswer | str:
        """Return the outcome of each question by its id if the batch has ended, else a description of its progress.

        The key "" has the outcome of all questions that are missing in the batch's results.
        """
        found = self._look(batch)
        if isinstance(found, NoAnswer):
            return found
        if found is None:
            lost = f"the server no longer knows the batch {batch}; it may have been charged"
            return {"": NoAnswer(lost, billed=True)}
        status = found.get("status")
        if status not in _ENDED:
            counts = found.get("request_counts")
            total, done = inner(counts, "total"), inner(counts, "completed")
            return f"{batch} is {one_line(status)}" + (f", {done} of {total} questions answered" if total else "")
        results: dict[str, Reply | NoAnswer] = {"": _silence(batch, found)}
        for file in ("output_file_id", "error_file_id"):
            rows = self._lines(found.get(file))
            if isinstance(rows, NoAnswer):
                return rows
            if rows is None:
                results[""] = NoAnswer(f"results of {batch} are no longer on the server", billed=True)
                continue
            results |= {str(row.get("custom_id")): self._outcome(row) for row in rows}
        return results

    def forget(self, batch: str) -> NoAnswer | None:
        """Delete the files of a batch that has ended; return why that failed, if it did."""
        found = self._look(batch)
        if found is None or isinstance(found, NoAnswer):
            return found
        files = [found.get(f"{kind}_file_id") for kind in ("input", "output", "error")]
        failures = [self._delete(file) for file in files if isinstance(file, str)]
        return next(filter(None, failures), None)

    def _upload(self, name: str, content: bytes) -> str | NoAnswer:
        from urllib3 import encode_multipart_formdata

        if len(content) > MOST_BYTES:
            return NoAnswer(f"the questions have {len(content):,} bytes; a batch may have {MOST_BYTES:,}")
        body, kind = encode_multipart_formdata({"purpose": "batch", "file": (name, content, "application/jsonl")})
        reply = self._calls("POST", "/files", body=body, kind=kind)
        if isinstance(reply, NoAnswer):
            return replace(reply, billed=False)  # a file without a batch costs nothing
        if reply.status == 404:
            raise AdapterError("the server has no batch API; set the option batch to false")
        found = json_or_empty(reply.body).get("id")
        return found if isinstance(found, str) else NoAnswer("the reply to the upload cannot be read", retry="later")

    def _delete(self, file: str) -> NoAnswer | None:
        reply = self._calls("DELETE", f"/files/{file}")
        return reply if isinstance(reply, NoAnswer) else None

    def _look(self, batch: str) -> dict[str, Any] | NoAnswer | None:
        """Return the server's description of a batch; None if it no longer knows it."""
        reply = self._calls("GET", f"/batches/{batch}")
        if isinstance(reply, NoAnswer):
            return reply
        found = json_or_empty(reply.body)
        if found.get("id") == batch:
            return found
        if reply.status == 404:
            return None
        return NoAnswer(f"the state of {batch} cannot be read", retry="later")

    def _lines(self, file: object) -> list[dict[str, Any]] | NoAnswer | None:
        """Return the rows of a file of results, none if there is no file id; None if the server no longer has it."""
        if not isinstance(file, str):
            return []
        reply = self._calls("GET", f"/files/{file}/content")
        if isinstance(reply, NoAnswer):
            return reply
        if reply.status == 404:
            return None
        rows = [json_or_empty(line) for line in reply.body.splitlines() if line.strip()]
        # If an incomplete file were accepted, the missing questions would be sent, and paid for, again.
        if not rows or not all(rows):
            return NoAnswer(f"the file of results {file} cannot be read", retry="later")
        return rows

    def _outcome(self, row: Mapping[str, Any]) -> Reply | NoAnswer:
        """Return the outcome of one question."""
        response, error = row.get("response"), row.get("error")
        status = inner(response, "status_code")
        if not isinstance(response, dict) or not isinstance(status, int):
            code, message = inner(error, "code"), one_line(inner(error, "message"))
            return NoAnswer(message or "no reply and no reason", retry="later" if code == _EXPIRED else "never")
        headers = {"x-request-id": str(response["request_id"])} if response.get("request_id") else {}
        try:
            return self._understood(Reply(status, headers, json.dumps(response.get("body")).encode()))
        except AdapterError as problem:  # fails this batch only: the account may have been fixed since
            return NoAnswer(str(problem))


def _silence(batch: str, found: Mapping[str, Any]) -> NoAnswer:
    """Return the outcome of questions that are missing in the results of a batch that has ended."""
    status = found["status"]
    if status == "expired":
        return NoAnswer(f"{batch} expired before this question was answered", retry="later")
    if status == "cancelled":
        return NoAnswer(f"{batch} was cancelled before this question was answered")
    if status == "failed":
        errors = inner(found.get("errors"), "data")
        first = errors[0] if isinstance(errors, list) and errors else {}
        reason = f"{batch} failed: {one_line(inner(first, 'message')) or 'no reason given'}"
        return NoAnswer(reason, retry="slower" if inner(first, "code") in _QUEUE_FULL else "never")
    return NoAnswer(f"{batch} has no result for this question", retry="later", billed=True)


def outcomes_of(
    results: Mapping[str, Reply | NoAnswer], images: Sequence[str], *, repeats: int
) -> dict[str, list[Reply] | NoAnswer]:
    """Return the replies to all questions about each image, or why one of them has none."""
    outcomes: dict[str, list[Reply] | NoAnswer] = {}
    for image in images:
        found = [results.get(key_of(image, repeat), results[""]) for repeat in range(repeats)]
        replies = [outcome for outcome in found if isinstance(outcome, Reply)]
        failure = next((outcome for outcome in found if isinstance(outcome, NoAnswer)), None)
        outcomes[image] = replies if failure is None else replace(failure, billed=failure.billed or bool(replies))
    return outcomes


def key_of(image: str, repeat: int) -> str:
    """Return the id of a question: the beginning of the image's sha256, and the repeat."""
    return f"{image[:48]}-{repeat}"
