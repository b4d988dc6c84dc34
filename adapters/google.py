"""Google Cloud Vision, REST v1: labels, and the likelihoods that it reads in a face.

How it is asked lives here; what its replies mean, in `adapters.google_answers`.
"""

import json
import os
import re
from base64 import b64encode
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

from adapters.base import AdapterError, Capabilities, Label, Limits, NoAnswer, Price, RawAnswer, Service
from adapters.calling import Call, Caller, Reply
from adapters.credentials import checked_url, credentials_needed, secret
from adapters.google_account import ServiceAccount
from adapters.google_answers import labels_of, outcomes

_HOSTS = {"us": "us-vision.googleapis.com", "eu": "eu-vision.googleapis.com"}
_MOST_IMAGES = 16
_IMAGES_PER_SECOND = 30  # the quota is 1,800 images a minute
_SERVICE = Service(
    provider="Google Cloud Vision",
    host="vision.googleapis.com",
    retention="Images are processed in memory, neither stored nor used for training "
    "(cloud.google.com/vision/docs/data-usage)",
    version="cannot be pinned and is not told; builtin/stable changes without notice, so only sentinel images can tell",
    credentials=("GOOGLE_API_KEY", "GOOGLE_APPLICATION_CREDENTIALS"),
    rate=_IMAGES_PER_SECOND / _MOST_IMAGES,
    price=Price(
        1.50,
        as_of=date(2026, 5, 28),
        source="cloud.google.com/vision/pricing, as repeated by xscanhub",
        note="each feature is charged; 1,000 a month are free; from 5 million a month labels cost 1.00, faces 0.60",
    ),
)


class Google:
    """Google Cloud Vision: labels of the whole image; with ``faces`` also joy, headwear and the like.

    Google returns no label that names a gender since 2020, and no gender or age of a face. The API key is read from
    GOOGLE_API_KEY; without one, a service account's key file from GOOGLE_APPLICATION_CREDENTIALS (needs the extra
    ``google``).

    The likelihoods of the largest face become labels: VERY_UNLIKELY 0, UNLIKELY 0.25, POSSIBLE 0.5, LIKELY 0.75,
    VERY_LIKELY 1; UNKNOWN is not returned.

    Args:
        target: a name of your own, to have several of it in one run: ``google:mine``.
        max_results: labels per image at most.
        faces: ask for faces too; that is a second charge for each image.
        model: "builtin/stable", or "builtin/latest".
        region: where the images are processed; Google chooses unless given. "asia" needs ``project``.
        project: the id of the project that the calls are made for, where it is not the credentials' own.
        batch: images per call.
        endpoint: another address than Google's, e.g. a gateway's.

    Raises:
        AdapterError: there are no credentials, or an option does not fit.
    """

    capabilities = Capabilities(
        service=_SERVICE,
        scale="0-1",
        # None can be set; this is where its scores end in practice.
        cut_off=0.5,
        top_k=100,
        batch=_MOST_IMAGES,
        # 10 MB of JSON, in which four letters stand for three bytes.
        batch_bytes=7_300_000,
        concurrency=8,
        limits=Limits(
            max_bytes=7_300_000, max_pixels=75_000_000, formats=("png", "jpeg", "webp", "bmp", "gif", "tiff")
        ),
    )

    def __init__(
        self,
        target: str = "",
        *,
        max_results: int = 100,
        faces: bool = False,
        model: Literal["builtin/stable", "builtin/latest"] = "builtin/stable",
        region: Literal["", "us", "eu", "asia"] = "",
        project: str = "",
        batch: int = _MOST_IMAGES,
        endpoint: str = "",
    ) -> None:
        self.name = f"google:{target}" if target else "google"
        if not 1 <= batch <= _MOST_IMAGES:
            raise AdapterError(f"option batch of the adapter google must be in 1-{_MOST_IMAGES}, not {batch}")
        if max_results < 1:
            raise AdapterError(f"option max_results of the adapter google must be at least 1, not {max_results}")
        if not re.fullmatch(r"[a-z0-9.:-]*", project):
            raise AdapterError(f"option project of the adapter google is no project's id: {project!r}")
        if region == "asia" and not project:
            raise AdapterError("the adapter google: region asia is chosen through a project: give its id, project=...")
        host = _HOSTS.get(region, _SERVICE.host)
        base = checked_url(endpoint or f"https://{host}", adapter=self.name, option="endpoint", credential=True)
        location = f"/locations/{region}" if region else ""
        parent = f"projects/{project}{location}/" if project else ""
        self._url = f"{base}/v1/{parent}images:annotate"
        features = [{"type": "LABEL_DETECTION", "maxResults": max_results, "model": model}]
        if faces:
            features.append({"type": "FACE_DETECTION", "maxResults": 100, "model": model})
        self._features = features
        self.model = f"v1 {model}"
        # The project decides who pays, not what is answered.
        self.parameters: Mapping[str, Any] = {"endpoint": base, "region": region, "features": features}
        self.capabilities = replace(
            type(self).capabilities,
            service=replace(_SERVICE, host=urlsplit(base).netloc, rate=_IMAGES_PER_SECOND / batch),
            features=("labels", "faces") if faces else ("labels",),
            top_k=max_results,
            batch=batch,
            concurrency=min(32, 128 // batch),
        )
        self._caller = Caller()
        self._credentials = _credentials(self._caller)

    def send(self, images: Sequence[bytes]) -> list[RawAnswer | NoAnswer]:
        """Ask about up to 16 images in one call; see ``Adapter.send``."""
        requests = [{"image": {"content": b64encode(data).decode()}, "features": self._features} for data in images]
        body = json.dumps({"requests": requests}).encode()
        reply = self._call(body)
        if isinstance(reply, Reply) and reply.status == 401 and isinstance(self._credentials, ServiceAccount):
            reply = self._call(body)  # with another token: the one before has been forgotten
        if isinstance(reply, NoAnswer):
            return [reply] * len(images)
        return outcomes(reply, len(images))

    def parse(self, answer: RawAnswer) -> list[Label]:
        """See ``Adapter.parse``."""
        return labels_of(answer)

    def _call(self, body: bytes) -> Reply | NoAnswer:
        account = self._credentials
        if isinstance(account, str):
            return self._caller(Call(self._url, body, {**_JSON, "X-Goog-Api-Key": account}, secrets=(account,)))
        token = account.token()
        if isinstance(token, NoAnswer):
            return token
        reply = self._caller(Call(self._url, body, {**_JSON, "Authorization": f"Bearer {token}"}, secrets=(token,)))
        if isinstance(reply, Reply) and reply.status == 401:
            account.token.forget(token)
        return reply


_JSON = {"Content-Type": "application/json; charset=utf-8"}


def _credentials(caller: Caller) -> str | ServiceAccount:
    if os.environ.get("GOOGLE_API_KEY", "").strip() or not credentials_needed():
        return secret("GOOGLE_API_KEY", adapter="google")
    file = os.environ.get("GOOGLE_APPLICATION_CREDENTIALS", "").strip()
    if not file:
        raise AdapterError(
            "the adapter 'google' needs an API key, export GOOGLE_API_KEY=... "
            "(console.cloud.google.com/apis/credentials), or a service account's key file, "
            "export GOOGLE_APPLICATION_CREDENTIALS=/path/key.json"
        )
    return ServiceAccount(Path(file), caller)
