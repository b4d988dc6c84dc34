"""The services of vendors, each with the environment that its adapter needs."""

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

from fakes import azure_vision, clarifai_service, google_vision, imagga, rekognition
from fakes.http_server import FakeServer

from adapters import registry
from adapters.base import Adapter, Label, RawAnswer

_OURS = ("AWS_", "GOOGLE_", "CLARIFAI_", "VISION_", "CLOUDSDK_", "IMAGGA_", "AZURE_")


@dataclass(frozen=True)
class Cloud:
    """A pretended service, the credentials that it accepts, and which of them are secret."""

    service: Callable[[], FakeServer]
    environment: Mapping[str, str]
    secrets: tuple[str, ...]


CLOUDS = {
    "azure": Cloud(azure_vision.AzureVision, {"VISION_KEY": azure_vision.KEY}, (azure_vision.KEY,)),
    "clarifai": Cloud(
        clarifai_service.ClarifaiService, {"CLARIFAI_PAT": clarifai_service.PAT}, (clarifai_service.PAT,)
    ),
    "google": Cloud(google_vision.GoogleVision, {"GOOGLE_API_KEY": google_vision.KEY}, (google_vision.KEY,)),
    "imagga": Cloud(
        imagga.ImaggaService,
        {"IMAGGA_API_KEY": imagga.KEY, "IMAGGA_API_SECRET": imagga.SECRET},
        (imagga.KEY, imagga.SECRET),
    ),
    "rekognition": Cloud(
        rekognition.RekognitionService,
        {
            "AWS_ACCESS_KEY_ID": rekognition.ID,
            "AWS_SECRET_ACCESS_KEY": rekognition.SECRET,
            "AWS_REGION": rekognition.REGION,
        },
        (rekognition.SECRET, rekognition.TOKEN),
    ),
}


@contextmanager
def environment(settings: Mapping[str, str]) -> Iterator[None]:
    """These variables, and no other of these services; AWS's files and metadata service are out of reach."""
    none = {name: "" for name in os.environ if name.startswith(_OURS)}
    away = {
        "AWS_CONFIG_FILE": "/nowhere/config",
        "AWS_SHARED_CREDENTIALS_FILE": "/nowhere/credentials",
        "AWS_EC2_METADATA_DISABLED": "true",
        "CLOUDSDK_CONFIG": "/nowhere",
    }
    with patch.dict(os.environ):
        for name in none:
            del os.environ[name]
        os.environ.update({**away, **settings})
        yield


@contextmanager
def service_and_adapter(name: str, options: Mapping[str, Any] | None = None) -> Iterator[tuple[Any, Adapter]]:
    """A running service and the adapter that asks it."""
    cloud = CLOUDS[name]
    with cloud.service() as service, environment(cloud.environment):
        yield service, registry.create(name, {"endpoint": service.url, **(options or {})})


def parser(name: str) -> Callable[[RawAnswer], list[Label]]:
    """The pure reader of a service's answers."""
    read: Callable[[RawAnswer], list[Label]] = registry.load(name).parse
    return read
