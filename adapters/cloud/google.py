"""Google Cloud Vision, REST v1: labels, and the likelihoods that it reads in a face.

What its replies mean is in `adapters.cloud.google_answers`, how a caller logs in, in `adapters.cloud.google_login`.
"""

import json
import os
from base64 import b64encode
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import date
from typing import Any, ClassVar, Literal
from urllib.parse import urlsplit

from pydantic import Field, model_validator

from adapters.base import Capabilities, Label, Limits, NoAnswer, Price, RawAnswer, Service
from adapters.cloud.google_answers import labels_of, outcomes
from adapters.cloud.google_login import GoogleLogin
from adapters.credentials import checked_url, credentials_needed, secret
from adapters.http_client import Call, HttpClient, Reply
from adapters.options import NamedOptions

_HOSTS = {"us": "us-vision.googleapis.com", "eu": "eu-vision.googleapis.com"}
_MOST_IMAGES = 16
_IMAGES_PER_SECOND = 30  # the quota is 1,800 images a minute
_SERVICE = Service(
    provider="Google Cloud Vision",
    host="vision.googleapis.com",
    retention="Images are processed in memory, neither stored nor used for training "
    "(cloud.google.com/vision/docs/data-usage)",
    version="cannot be pinned and is not reported; builtin/stable changes without notice, so only sentinel images show "
    "a change",
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
    GOOGLE_API_KEY. Without one, the file that GOOGLE_APPLICATION_CREDENTIALS names is used (a service account's key, or
    what `gcloud auth application-default login` writes), or gcloud's own such file; both need the extra ``google``. The
    project that pays for a person's own credentials is read from GOOGLE_CLOUD_QUOTA_PROJECT, or from that file.

    The likelihoods of the largest face become labels: VERY_UNLIKELY 0, UNLIKELY 0.25, POSSIBLE 0.5, LIKELY 0.75,
    VERY_LIKELY 1; UNKNOWN is not returned.

    Raises:
        AdapterError: there are no credentials, or an option does not fit.
    """

    class Options(NamedOptions):
        kind: ClassVar[str] = "google"
        max_results: int = Field(100, ge=1)
        """labels per image at most."""
        faces: bool = False
        """request faces too; that is a second charge for each image."""
        model: Literal["builtin/stable", "builtin/latest"] = "builtin/stable"
        """builtin/stable, or builtin/latest."""
        region: Literal["", "us", "eu", "asia"] = ""
        """where the images are processed; Google chooses unless given. asia needs project."""
        project: str = Field("", pattern=r"^[a-z0-9.:-]*$")
        """the id of the project that the calls are made for, where it is not the credentials' own."""
        batch: int = Field(_MOST_IMAGES, ge=1, le=_MOST_IMAGES)
        """images per call."""
        endpoint: str = ""
        """another address than Google's, e.g. a gateway's."""

        @model_validator(mode="after")
        def _located(self) -> "Google.Options":
            if self.region == "asia" and not self.project:
                raise ValueError("option 'region': asia is chosen through a project: give its id, project=...")
            return self

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

    def __init__(self, options: Options) -> None:
        self.name, batch, region = options.name, options.batch, options.region
        base = options.endpoint or f"https://{_HOSTS.get(region, _SERVICE.host)}"
        base = checked_url(base, adapter=self.name, option="endpoint", credential=True)
        location = f"/locations/{region}" if region else ""
        parent = f"projects/{options.project}{location}/" if options.project else ""
        self._url = f"{base}/v1/{parent}images:annotate"
        features = [{"type": "LABEL_DETECTION", "maxResults": options.max_results, "model": options.model}]
        if options.faces:
            features.append({"type": "FACE_DETECTION", "maxResults": 100, "model": options.model})
        self._features = features
        self.model = f"v1 {options.model}"
        # The project decides who pays, not what is answered.
        self.parameters: Mapping[str, Any] = {"endpoint": base, "region": region, "features": features}
        self.capabilities = replace(
            type(self).capabilities,
            service=replace(_SERVICE, host=urlsplit(base).netloc, rate=_IMAGES_PER_SECOND / batch),
            features=("labels", "faces") if options.faces else ("labels",),
            top_k=options.max_results,
            batch=batch,
            concurrency=min(32, 128 // batch),
        )
        self._client = HttpClient()
        has_key = bool(os.environ.get("GOOGLE_API_KEY", "").strip()) or not credentials_needed()
        self._key = secret("GOOGLE_API_KEY", adapter=self.name) if has_key else ""
        self._login = None if has_key else GoogleLogin(self._client)

    def send(self, images: Sequence[bytes]) -> list[RawAnswer | NoAnswer]:
        """Send up to 16 images in one call; see ``Adapter.send``."""
        requests = [{"image": {"content": b64encode(data).decode()}, "features": self._features} for data in images]
        body = json.dumps({"requests": requests}).encode()
        reply = self._call(body)
        if isinstance(reply, Reply) and reply.status == 401 and self._login is not None:
            reply = self._call(body)  # with another token: the one before has been forgotten
        if isinstance(reply, NoAnswer):
            return [reply] * len(images)
        return outcomes(reply, len(images))

    def parse(self, answer: RawAnswer) -> list[Label]:
        """See ``Adapter.parse``."""
        return labels_of(answer)

    def _call(self, body: bytes) -> Reply | NoAnswer:
        identity = {"X-Goog-Api-Key": self._key} if self._login is None else self._login.headers()
        if isinstance(identity, NoAnswer):
            return identity
        secrets = (self._key or identity["authorization"].removeprefix("Bearer "),)
        headers = {"Content-Type": "application/json; charset=utf-8", **identity}
        reply = self._client(Call(self._url, body, headers, secrets=secrets))
        if isinstance(reply, Reply) and reply.status == 401 and self._login is not None:
            self._login.forget(identity)
        return reply
