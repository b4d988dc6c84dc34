"""The embedded judge as a classifier of the face nearest to an image's centre."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field

from adapters.answers import LabelAnswers, to_answer
from adapters.base import AdapterError, Capabilities, Label, Landmarks, RawAnswer
from adapters.local.preprocessing import decode_rgb
from adapters.options import AdapterOptions

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from torch import Tensor

    from models.detector import FaceDetector
    from models.judge import Classifier, Perception

_CROP = 128  # side of the aligned face in pixels, as in training
_BATCH = 32
_BATCH_BYTES = 8_000_000  # bounds memory for photos of many megapixels
_RACES = {
    "White": "perceived White",
    "Black": "perceived Black",
    "Asian": "perceived Asian",
    "Indian": "perceived Indian",
    "Others": "perceived other race",
}
_AGES = (20, 30, 40, 50, 60, 70)
LABELS = (
    "feminine appearance",
    "masculine appearance",
    *_RACES.values(),
    "young",
    *(f"age {age}+" for age in _AGES),
    "smiling",
)


class FaceAttributes(LabelAnswers):
    """The embedded judge: perceived gender, race, age and smile of the face nearest to the centre.

    Scores are the judge's probabilities; "young" is the probability of being perceived as under 30. An image without
    a face gets an answer without labels. All versions of a photo are aligned by the face detected in the photo, so that
    labels depend on the edit and not on the detector. With ``face=version``, the face is detected in each version, as a
    service would do.
    """

    name = "face-attributes"
    capabilities = Capabilities(
        labels=LABELS, scale="0-1", presence=0.5, batch=_BATCH, batch_bytes=_BATCH_BYTES, faces=True, processes=True
    )

    class Options(AdapterOptions):
        smallest_face: float = Field(0.2, gt=0, le=1)
        """the smallest detected face, as a fraction of the image's shorter side."""
        face: Literal["photo", "version"] = "photo"
        """where the face is detected: once in the photo, or in each version."""

    def __init__(self, options: Options) -> None:
        self._smallest_face = options.smallest_face
        self.capabilities = replace(self.capabilities, faces=options.face == "photo")
        self.parameters: Mapping[str, Any] = options.model_dump()

    @cached_property
    def model(self) -> str:
        """The digest of the judge's weights, and the detector's version."""
        from models.weights import record

        return f"judge sha256 {record('judge').sha256}, facenet-pytorch {version('facenet-pytorch')}"

    @cached_property
    def _network(self) -> "Classifier":
        from models.errors import WeightsError
        from models.weights import load_judge

        try:
            return load_judge("judge")
        except WeightsError as error:
            raise AdapterError(f"the adapter face-attributes cannot be used: {error}") from error

    @cached_property
    def _detector(self) -> "FaceDetector":
        from models.detector import FaceDetector

        return FaceDetector(long_side=320, smallest_face=self._smallest_face)

    def send(self, images: Sequence[bytes]) -> list[RawAnswer]:
        """Detect, align and classify the faces of images; see ``Adapter.send``."""
        return self.send_faces(images, [None] * len(images))

    def send_faces(self, images: Sequence[bytes], faces: Sequence[Landmarks | None]) -> list[RawAnswer]:
        """Align and classify the faces of images, and detect those without landmarks; see ``FaceClassifier``."""
        seen = [self._face(decode_rgb(data), landmarks) for data, landmarks in zip(images, faces, strict=True)]
        perceived = iter(self._perceive([crop for crop, _ in seen if crop is not None]))
        return [to_answer([] if crop is None else next(perceived), **facts) for crop, facts in seen]

    def network_input(self, image: bytes) -> "NDArray[np.float32] | None":
        """See ``Differentiable``: the aligned face nearest to the centre, in -1..1."""
        import numpy as np

        crop, _ = self._central_face(decode_rgb(image))
        return None if crop is None else np.ascontiguousarray(crop.transpose(2, 0, 1), dtype=np.float32) / 127.5 - 1

    def map_on_input(self, image: bytes, regions: "NDArray[np.uint8]") -> "NDArray[np.uint8]":
        """See ``Differentiable``."""
        import cv2
        import numpy as np

        from models.alignment import similarity_to_template
        from models.detector import central_face

        pixels = decode_rgb(image)
        face = central_face(self._detector.detect([pixels])[0], width=pixels.shape[1], height=pixels.shape[0])
        if face is None:
            raise ValueError("there is no face in this image")
        transform = similarity_to_template(face.landmarks, size=_CROP)
        return np.asarray(cv2.warpAffine(regions, transform, (_CROP, _CROP), flags=cv2.INTER_NEAREST), dtype=np.uint8)

    def scores(self, inputs: "Tensor") -> "Tensor":
        """See ``Differentiable``."""
        return _scores(self._network.perceive(inputs))

    def _face(
        self, image: "NDArray[np.uint8]", landmarks: Landmarks | None
    ) -> "tuple[NDArray[np.uint8] | None, dict[str, int]]":
        """Return the aligned face, or None, and facts for the answer: the number of faces if they were detected."""
        if landmarks is None:
            crop, found = self._central_face(image)
            return crop, {"faces": found}
        import numpy as np

        from models.alignment import aligned_crop

        return aligned_crop(image, np.array(landmarks), size=_CROP), {}

    def _central_face(self, image: "NDArray[np.uint8]") -> "tuple[NDArray[np.uint8] | None, int]":
        """Return the aligned face nearest to the centre, or None, and the number of faces."""
        from models.alignment import aligned_crop
        from models.detector import central_face

        # One image at a time, because in batches MTCNN's last digits depend on the other images.
        faces = self._detector.detect([image])[0]
        nearest = central_face(faces, width=image.shape[1], height=image.shape[0])
        return None if nearest is None else aligned_crop(image, nearest.landmarks, size=_CROP), len(faces)

    def _perceive(self, crops: "Sequence[NDArray[np.uint8]]") -> list[list[Label]]:
        from models.judge import perceive_crops

        if not crops:
            return []
        scores = _scores(perceive_crops(self._network, crops)).clamp(0, 1)
        return [[Label(name, float(score)) for name, score in zip(LABELS, row, strict=True)] for row in scores.tolist()]


def _scores(perceived: "Perception") -> "Tensor":
    """Return scores ``(B, 15)`` in the order of ``LABELS``."""
    import torch

    under_30 = 1 - perceived.at_least[:, _AGES.index(30)]
    return torch.cat(
        [
            (1 - perceived.masculine)[:, None],
            perceived.masculine[:, None],
            perceived.race,
            under_30[:, None],
            perceived.at_least,
            ((perceived.smiling + 1) / 2)[:, None],
        ],
        dim=1,
    )
