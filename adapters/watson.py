"""IBM Watson Visual Recognition v3: any endpoint that still speaks it. IBM's own ended on 1 December 2021.

What its answers mean is in `adapters.watson_answers`; archived ones are served by `adapters.replay`.
"""

import zipfile
from base64 import b64encode
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import date
from io import BytesIO
from typing import Any
from urllib.parse import urlencode, urlsplit

from adapters.answers import json_object
from adapters.base import AdapterError, AnswerError, Capabilities, Label, Limits, NoAnswer, Price, RawAnswer, Service
from adapters.calling import Call, Caller, Reply, unanswered
from adapters.credentials import checked_url, secret
from adapters.images import media_type
from adapters.multipart import form
from adapters.tokens import KeptToken
from adapters.watson_answers import labels_of, matched, says

KEY = "VISUAL_RECOGNITION_APIKEY"
IAM = "https://iam.cloud.ibm.com/identity/token"
_GRANT = "urn:ibm:params:oauth:grant-type:apikey"
ENDED = date(2021, 12, 1)
GONE = ("watsonplatform.net", "visual-recognition.watson.cloud.ibm.com")
MOST_IMAGES = 20

SERVICE = Service(
    provider="IBM, until it ended; now whoever runs the endpoint",
    host="the host of the option endpoint",
    retention="what this server keeps is up to who runs it; it is told not to learn from the images",
    version="never told; the option version is the date of the interface, not of the model",
    lifecycle="discontinued",
    ends=ENDED,
    credentials=(KEY,),
    rate=10.0,
    price=Price(2.0, date(2018, 5, 1), "IBM's release notes", "historical: what IBM charged for classify"),
)


class Watson:
    """IBM Watson Visual Recognition v3, ended in December 2021: for archived answers use replay, or name an endpoint.

    The lowest threshold, 0.0, is always asked for, so that a label which is not returned has no score to speak of.

    Args:
        endpoint: the address of a server that speaks v3, up to before ``/v3/classify``.
        key_variable: the environment variable that holds the key; "" to send none.
        iam: exchange the key for a token first, at ``iam_url``, rather than send it as a password.
        iam_url: where tokens are had.
        version: the date of the interface.
        classifier_ids: which classifiers are asked.
        owners: "IBM", "me": whose classifiers; the ids go before them.
        batch: images in one call, up to 20; more than one are sent as a zip.

    Raises:
        AdapterError: the endpoint is one of IBM's that are gone, or there is no key.
    """

    capabilities = Capabilities(
        service=SERVICE,
        cut_off=0.0,
        batch=MOST_IMAGES,
        batch_bytes=90_000_000,
        concurrency=8,
        limits=Limits(max_bytes=10_000_000, min_side=32),
    )

    def __init__(
        self,
        *,
        endpoint: str,
        key_variable: str = KEY,
        iam: bool = False,
        iam_url: str = IAM,
        version: date = date(2018, 3, 19),
        classifier_ids: tuple[str, ...] = ("default",),
        owners: tuple[str, ...] = (),
        batch: int = MOST_IMAGES,
    ) -> None:
        self.name = "watson"
        self._url = _living(endpoint, credential=bool(key_variable))
        self._iam_url = checked_url(iam_url, adapter=self.name, option="iam_url", credential=True)
        hint = "(or set the option key_variable to '' to send none)"
        self._key = secret(key_variable, adapter=self.name, hint=hint) if key_variable else ""
        if iam and not self._key:
            raise AdapterError("the adapter 'watson': the option iam needs a key")
        if not 1 <= batch <= MOST_IMAGES:
            raise AdapterError(f"the adapter 'watson': option 'batch' must be in 1-{MOST_IMAGES}, not {batch}")
        self._iam = iam
        self._token = KeptToken(self._new_token)
        self.model = f"v3 of {version}"
        self._caller = Caller()
        self.parameters: Mapping[str, Any] = {
            "endpoint": self._url,
            "version": str(version),
            "threshold": "0.0",
            "classifier_ids": list(classifier_ids),
            "owners": list(owners),
            "language": "en",
        }
        self.capabilities = replace(
            Watson.capabilities,
            service=replace(
                SERVICE,
                host=urlsplit(self._url).hostname or "",
                credentials=(key_variable,) if self._key else (),
            ),
            batch=batch,
        )

    def send(self, images: Sequence[bytes]) -> list[RawAnswer | NoAnswer]:
        """Ask about an image, or several as one zip; what comes is matched by file name. See ``Adapter.send``."""
        names = [_file_name(image, number) for number, image in enumerate(images)]
        sent = [(name, image) for name, image in zip(names, images, strict=True) if name is not None]
        outcomes = dict(zip((name for name, _ in sent), self._asked(sent), strict=True)) if sent else {}
        return [NoAnswer("not a PNG or JPEG image") if name is None else outcomes[name] for name in names]

    def parse(self, answer: RawAnswer) -> list[Label]:
        """See ``Adapter.parse``."""
        return labels_of(answer)

    def _asked(self, named: Sequence[tuple[str, bytes]]) -> list[RawAnswer | NoAnswer]:
        texts = {"threshold": self.parameters["threshold"]}
        for option in ("classifier_ids", "owners"):
            if self.parameters[option]:
                texts[option] = ",".join(self.parameters[option])
        name, image = named[0]
        file = (name, image, media_type(image)) if len(named) == 1 else ("set.zip", _zipped(named), "application/zip")
        body, content_type = form(texts, {"images_file": file})
        headers = {"Content-Type": content_type, "Accept": "application/json"}
        headers |= {"Accept-Language": "en", "X-Watson-Learning-Opt-Out": "true"}
        url = f"{self._url}/v3/classify?{urlencode({'version': self.parameters['version']})}"
        reply = self._sent(url, body, headers)
        if isinstance(reply, NoAnswer):
            return [reply] * len(named)
        refusal = _refusal(reply)
        return [refusal] * len(named) if refusal else matched(reply, [name for name, _ in named])

    def _sent(self, url: str, body: bytes, headers: Mapping[str, str]) -> Reply | NoAnswer:
        """The reply to a call with the credential in it."""
        if not self._key:
            return self._caller(Call(url, body, headers))
        if not self._iam:
            password = b64encode(f"apikey:{self._key}".encode()).decode()
            basic = {**headers, "Authorization": f"Basic {password}"}
            return self._caller(Call(url, body, basic, secrets=(self._key, password)))
        for last in (False, True):
            token = self._token()
            if isinstance(token, NoAnswer):
                return token
            bearer = {**headers, "Authorization": f"Bearer {token}"}
            reply = self._caller(Call(url, body, bearer, secrets=(self._key, token)))
            if last or isinstance(reply, NoAnswer) or reply.status != 401:
                break
            self._token.forget(token)  # it may have ended before its time
        return reply

    def _new_token(self) -> tuple[str, float] | NoAnswer:
        wanted = {"grant_type": _GRANT, "apikey": self._key, "response_type": "cloud_iam"}
        headers = {"Content-Type": "application/x-www-form-urlencoded", "Accept": "application/json"}
        reply = self._caller(Call(self._iam_url, urlencode(wanted).encode(), headers, secrets=(self._key,)))
        if isinstance(reply, NoAnswer):
            return NoAnswer(f"no access token: {reply.reason}", retry=reply.retry, wait=reply.wait)
        if 400 <= reply.status < 404:
            raise AdapterError(f"the adapter 'watson': {self._iam_url} gives no token for the key ({says(reply.body)})")
        refusal = unanswered(reply, says=says(reply.body))
        if refusal:
            return NoAnswer(f"no access token: {refusal.reason}", retry=refusal.retry, wait=refusal.wait)
        try:
            content = json_object(reply.body)
        except AnswerError:
            content = {}
        token, seconds = content.get("access_token"), content.get("expires_in")
        if not isinstance(token, str) or not token.isprintable() or not isinstance(seconds, int | float):
            return NoAnswer(f"{self._iam_url} gave something that is no token", retry="later")
        return token, seconds


def _refusal(reply: Reply) -> NoAnswer | None:
    """What a reply that is no answer means.

    Raises:
        AdapterError: no further call can succeed either.
    """
    said = says(reply.body)
    if reply.status in (401, 403) or "invalid-api-key" in said:
        raise AdapterError(f"the adapter 'watson': the key was refused (HTTP {reply.status}: {said}); check it")
    if reply.status == 404:
        raise AdapterError(
            f"the adapter 'watson': there is nothing at this endpoint (HTTP 404: {said}); it must be the address up to "
            "before /v3/classify, and the classifier_ids must exist there"
        )
    return unanswered(reply, says=said)


def _living(endpoint: str, *, credential: bool) -> str:
    url = checked_url(endpoint, adapter="watson", option="endpoint", credential=credential)
    host = urlsplit(url).hostname or ""
    if any(host == gone or host.endswith(f".{gone}") for gone in GONE):
        raise AdapterError(
            f"the adapter 'watson': {host} ended on 1 Dec 2021. For answers that were recorded, use the adapter "
            "replay:watson; for another server that speaks v3, --adapter-option watson.endpoint=…"
        )
    return url


def _file_name(image: bytes, number: int) -> str | None:
    try:
        return f"{number:02d}.{media_type(image).removeprefix('image/')}"
    except ValueError:
        return None


def _zipped(named: Sequence[tuple[str, bytes]]) -> bytes:
    buffer = BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, image in named:
            archive.writestr(zipfile.ZipInfo(name), image)
    return buffer.getvalue()
