"""OpenAI's batch API: many questions as one file, answered within a day at half the price; a batch is a job.

A batch costs nothing twice: it carries our name for it, so that one whose creation was answered by nothing is found in
the list of batches. Source: platform.openai.com/docs/guides/batch and the reference of batches and files, 2026.
"""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal, Protocol

from adapters.answers import inner, json_or_empty, one_line
from adapters.base import AdapterError, NoAnswer
from adapters.http_client import Reply

MOST_BYTES = 200_000_000  # of a file of questions, by the API
# Of ours, where the API takes 50,000 questions: files of some 60 MB keep memory, and what one loss costs, small.
QUESTIONS = 2000
IMAGE_BYTES = 45_000_000
RETENTION = "as files until the answers are fetched, at most 30 days; the rest as without a batch"
SHARE = 0.5  # of the usual price
ENDPOINT = "/v1/chat/completions"
NAME = "counterslope"  # of the metadata that holds our name for a batch

Method = Literal["GET", "POST", "DELETE"]

_ENDED = frozenset({"completed", "failed", "expired", "cancelled"})
_QUEUE_FULL = frozenset({"token_limit_exceeded", "rate_limit_exceeded"})
_PAGES = 100  # of the list of batches, of 100 each
_EXPIRED = "batch_expired"


class Calls(Protocol):
    """Makes one HTTP call to a path of the server; the reply of success or of 404, or why there is neither."""

    def __call__(
        self, method: Method, path: str, *, body: bytes = b"", kind: str = "", query: Mapping[str, str] | None = None
    ) -> Reply | NoAnswer:
        """See the class."""
        ...


class Batches:
    """The batches of one server.

    Args:
        calls: makes the HTTP calls.
        understood: what a reply to one question means: itself where it is an answer.
    """

    def __init__(self, calls: Calls, understood: Callable[[Reply], Reply | NoAnswer]) -> None:
        self._calls, self._understood = calls, understood

    def create(self, name: str, questions: Iterable[tuple[str, Mapping[str, Any]]]) -> str | NoAnswer:
        """Send questions, each under an id of its own, as a new batch; its id.

        Raises:
            AdapterError: the server has no batches.
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
        """The id of the batch of that name; None where there is none."""
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
        """What became of each question, by its id, once a batch has ended; else how far it is, in words.

        The key "" has what became of every question that the batch says nothing of.
        """
        found = self._look(batch)
        if isinstance(found, NoAnswer):
            return found
        if found is None:
            lost = f"the server does not know the batch {batch} any more: whether it was charged for is not known"
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
                results[""] = NoAnswer(f"results of {batch} are no longer with the server", billed=True)
                continue
            results |= {str(row.get("custom_id")): self._outcome(row) for row in rows}
        return results

    def forget(self, batch: str) -> NoAnswer | None:
        """Delete the files of a batch that has ended; why they could not be deleted."""
        found = self._look(batch)
        if found is None or isinstance(found, NoAnswer):
            return found
        files = [found.get(f"{kind}_file_id") for kind in ("input", "output", "error")]
        failures = [self._delete(file) for file in files if isinstance(file, str)]
        return next((one for one in failures if one is not None), None)

    def _upload(self, name: str, content: bytes) -> str | NoAnswer:
        from urllib3 import encode_multipart_formdata

        if len(content) > MOST_BYTES:
            return NoAnswer(f"its questions take {len(content):,} bytes, where a batch may have {MOST_BYTES:,}")
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
        """The batch as the server describes it; None where it knows it no more."""
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
        """The rows of a file of results; none where the batch names none, None where the server has it no more."""
        if not isinstance(file, str):
            return []
        reply = self._calls("GET", f"/files/{file}/content")
        if isinstance(reply, NoAnswer):
            return reply
        if reply.status == 404:
            return None
        rows = [json_or_empty(line) for line in reply.body.splitlines() if line.strip()]
        # Taking a file that came in pieces for all there is would ask, and pay, again.
        if not rows or not all(rows):
            return NoAnswer(f"the file of results {file} cannot be read", retry="later")
        return rows

    def _outcome(self, row: Mapping[str, Any]) -> Reply | NoAnswer:
        """What became of one question."""
        response, error = row.get("response"), row.get("error")
        status = inner(response, "status_code")
        if not isinstance(response, dict) or not isinstance(status, int):
            code, message = inner(error, "code"), one_line(inner(error, "message"))
            return NoAnswer(message or "no reply and no reason", retry="later" if code == _EXPIRED else "never")
        headers = {"x-request-id": str(response["request_id"])} if response.get("request_id") else {}
        try:
            return self._understood(Reply(status, headers, json.dumps(response.get("body")).encode()))
        except AdapterError as problem:  # of this batch; the next one may be of a changed account
            return NoAnswer(str(problem))


def _silence(batch: str, found: Mapping[str, Any]) -> NoAnswer:
    """What became of a question that a batch which has ended says nothing of."""
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
    """The replies to all questions about each image, or why one of them has none."""
    each: dict[str, list[Reply] | NoAnswer] = {}
    for image in images:
        found = [results.get(key_of(image, repeat), results[""]) for repeat in range(repeats)]
        replies = [one for one in found if isinstance(one, Reply)]
        failure = next((one for one in found if isinstance(one, NoAnswer)), None)
        each[image] = replies if failure is None else replace(failure, billed=failure.billed or bool(replies))
    return each


def key_of(image: str, repeat: int) -> str:
    """The id of a question: the beginning of the image's sha256, and the repeat."""
    return f"{image[:48]}-{repeat}"
