"""The fake cloud services, each with the environment that its adapter needs."""

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

from fakes import azure_vision, google_vision, imagga
from fakes import clarifai_service as clarifai
from fakes import rekognition as aws
from fakes.http_server import FakeServer

from adapters import registry
from adapters.base import Adapter, Label, RawAnswer

_PREFIXES = ("AWS_", "GOOGLE_", "CLARIFAI_", "VISION_", "CLOUDSDK_", "IMAGGA_", "AZURE_")


@dataclass(frozen=True)
class Cloud:
    """A fake service, the credentials that it accepts, and which of them are secret."""

    service: Callable[[], FakeServer]
    environment: Mapping[str, str]
    secrets: tuple[str, ...]


CLOUDS = {
    "azure": Cloud(azure_vision.AzureVision, {"VISION_KEY": azure_vision.KEY}, (azure_vision.KEY,)),
    "clarifai": Cloud(clarifai.ClarifaiService, {"CLARIFAI_PAT": clarifai.PAT}, (clarifai.PAT,)),
    "google": Cloud(google_vision.GoogleVision, {"GOOGLE_API_KEY": google_vision.KEY}, (google_vision.KEY,)),
    "imagga": Cloud(
        imagga.ImaggaService,
        {"IMAGGA_API_KEY": imagga.KEY, "IMAGGA_API_SECRET": imagga.SECRET},
        (imagga.KEY, imagga.SECRET),
    ),
    "rekognition": Cloud(
        aws.RekognitionService,
        {"AWS_ACCESS_KEY_ID": aws.ID, "AWS_SECRET_ACCESS_KEY": aws.SECRET, "AWS_REGION": aws.REGION},
        (aws.SECRET, aws.TOKEN),
    ),
}


@contextmanager
def environment(settings: Mapping[str, str]) -> Iterator[None]:
    """Set these variables and no others of the services; hide the files and metadata service of AWS."""
    defaults = {
        "AWS_CONFIG_FILE": "/nowhere/config",
        "AWS_SHARED_CREDENTIALS_FILE": "/nowhere/credentials",
        "AWS_EC2_METADATA_DISABLED": "true",
        "CLOUDSDK_CONFIG": "/nowhere",
    }
    with patch.dict(os.environ):
        for name in [name for name in os.environ if name.startswith(_PREFIXES)]:
            del os.environ[name]
        os.environ.update({**defaults, **settings})
        yield


@contextmanager
def service_and_adapter(name: str, options: Mapping[str, Any] | None = None) -> Iterator[tuple[Any, Adapter]]:
    """A running service and an adapter for it."""
    cloud = CLOUDS[name]
    with cloud.service() as service, environment(cloud.environment):
        yield service, registry.create(name, {"endpoint": service.url, **(options or {})})


def parser(name: str) -> Callable[[RawAnswer], list[Label]]:
    """The function that parses answers of a service."""
    return registry.load(name).parse
