"""Image classifiers in the ONNX format, with labels and preprocessing that are checked against the model."""

from dataclasses import asdict
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field

from adapters.base import AdapterError, Capabilities
from adapters.local.files import digest_of
from adapters.local.labels import digest, read_labels
from adapters.local.network import Activation, LocalNetwork, NetworkOptions, Reading, versions
from adapters.local.preprocessing import Fit, Interpolation, Preprocessing, Triple
from adapters.packages import package

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_INPUT_TYPES = {
    "tensor(float)": "float32",
    "tensor(float16)": "float16",
    "tensor(double)": "float64",
    "tensor(uint8)": "uint8",
}


class OnnxModel(LocalNetwork):
    """An ONNX image classifier: onnx:model.onnx, with the labels and preprocessing that you declare.

    ImageNet's usual mean and std are [0.485,0.456,0.406] and [0.229,0.224,0.225].
    """

    class Options(NetworkOptions):
        target: str
        """the file; weights in files next to it with its name as prefix (model.onnx.data) belong to it."""
        labels: str | tuple[str, ...]
        """a file with one label per line or JSON, or a list; in the order of the outputs."""
        mean: Triple
        """subtracted from each channel, in the order of channels and the units of values."""
        std: Triple
        """divides each channel afterwards."""
        size: int | tuple[int, int] = 224
        """side of the model's input in pixels, or [height,width]."""
        fit: Fit = "crop"
        """crop (scale the shorter side to resize, crop the centre), stretch, or pad."""
        resize: int | None = None
        """the image's shorter side before the centre is cropped; default: size."""
        interpolation: Interpolation = "bilinear"
        """interpolation when scaling."""
        channels: Literal["rgb", "bgr"] = "rgb"
        """order of the channels."""
        values: Literal["0-1", "0-255"] = "0-1"
        """the range of a channel before mean and std."""
        layout: Literal["nchw", "nhwc"] = "nchw"
        """the order of the input's axes."""
        input: str | None = None
        """name of the model's input; required only if there are several."""
        output: str | None = None
        """name of the output with the scores; required only if there are several."""
        activation: Activation = "softmax"
        """softmax or sigmoid if the outputs are logits; none if they are scores."""
        threads: int = Field(1, ge=1)
        """number of threads, on which the last digits of an answer may depend."""
        batch: int | None = Field(None, ge=1, le=4096)
        """images per batch; default: the model's fixed size, else 16."""

        @property
        def preprocessing(self) -> Preprocessing:
            """The declared preprocessing; ValueError if it is not valid."""
            size = (self.size, self.size) if isinstance(self.size, int) else self.size
            fields = {"mean", "std", "fit", "resize", "interpolation", "channels", "values"}
            return Preprocessing(size=size, **self.model_dump(include=fields))

    capabilities = Capabilities(scale="softmax or sigmoid of the outputs, or the outputs", batch=16)

    def __init__(self, options: Options) -> None:
        name = f"onnx:{options.target}"
        self._file, self._layout = Path(options.target), options.layout
        try:
            self._preprocessing = options.preprocessing
        except ValueError as error:
            raise AdapterError(f"{name}: {error}") from error
        names, activation, top_k = read_labels(options.labels), options.activation, options.top_k
        self._session = _session(self._file, name, threads=options.threads)
        self._input = _one_of(self._session.get_inputs(), options.input, what="input", adapter=name)
        self._output = _one_of(self._session.get_outputs(), options.output, what="output", adapter=name)
        fixed = self._checked_input(name)
        self._check_output(name, labels=len(names))
        if fixed is not None and options.batch not in (None, fixed):
            raise AdapterError(
                f"{name}: the model has a fixed batch of {fixed} images, not {options.batch}: remove the option batch"
            )
        batch = fixed or options.batch or 16
        super().__init__(name, options, reading=Reading(names, activation, top_k), batch=batch)
        self.parameters = {
            **options.model_dump(include={"layout", "activation", "top_k", "threads"}),
            "preprocessing": asdict(self._preprocessing),
            "input": self._input.name,
            "output": self._output.name,
            "labels_sha256": digest(names),
            "batch": batch,
            **versions("onnxruntime", "pillow"),
        }

    @cached_property
    def model(self) -> str:
        """The digest of the model's files."""
        companions = (
            file
            for file in self._file.parent.iterdir()
            if file.is_file() and file.name.startswith((f"{self._file.name}.", f"{self._file.name}_"))
        )
        return f"{self._file.name}, sha256 {digest_of([self._file, *companions])}"

    def _checked_input(self, name: str) -> int | None:
        """Check the declared preprocessing against the model's input; return the model's batch size if it is fixed."""
        if self._input.type not in _INPUT_TYPES:
            raise AdapterError(
                f"{name}: the input {self._input.name!r} is a {self._input.type}, but must be one of "
                f"{', '.join(_INPUT_TYPES)}"
            )
        height, width = self._preprocessing.size
        wanted = (3, height, width) if self._layout == "nchw" else (height, width, 3)
        shape = list(self._input.shape)
        fits = len(shape) == 4 and all(
            not isinstance(has, int) or has == want for has, want in zip(shape[1:], wanted, strict=True)
        )
        if not fits:
            raise AdapterError(
                f"{name}: the input {self._input.name!r} has the shape {shape}, but the declared size and layout give "
                f"[images, {', '.join(str(side) for side in wanted)}]: set size to its height and width, and layout to "
                "nhwc if the 3 is last"
            )
        return shape[0] if isinstance(shape[0], int) else None

    def _check_output(self, name: str, *, labels: int) -> None:
        known = [side for side in self._output.shape[1:] if isinstance(side, int) and side != 1]
        if "tensor(float" not in self._output.type and self._output.type != "tensor(double)":
            raise AdapterError(f"{name}: the output {self._output.name!r} is a {self._output.type}, not numbers")
        if len(known) == len(self._output.shape[1:]) and known and known[0] != labels:
            raise AdapterError(
                f"{name}: the output {self._output.name!r} has {known[0]} numbers per image, but there are {labels} "
                "labels"
            )

    def _outputs(self, batch: "NDArray[np.float32]") -> "NDArray[np.floating[Any]]":
        import numpy as np

        given = batch if self._layout == "nchw" else np.ascontiguousarray(batch.transpose(0, 2, 3, 1))
        kind = _INPUT_TYPES[self._input.type]
        typed = np.rint(given).clip(0, 255).astype(kind) if kind == "uint8" else given.astype(kind)
        try:
            found = self._session.run([self._output.name], {self._input.name: typed})[0]
        except Exception as error:
            raise AdapterError(f"{self.name} cannot be run: {str(error).partition(chr(10))[0]}") from error
        outputs: NDArray[np.floating[Any]] = np.asarray(found).reshape(len(batch), -1)
        if self._reading.activation == "softmax" and _are_probabilities(outputs):
            raise AdapterError(
                f"{self.name}: the outputs {self._output.name!r} are probabilities already: set the option activation "
                "to none, because a second softmax would flatten them"
            )
        return outputs


def _session(file: Path, name: str, *, threads: int) -> Any:
    runtime = package("onnxruntime", adapter=name)
    if not file.is_file():
        raise AdapterError(f"{name}: there is no file {file}")
    options = runtime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.use_deterministic_compute = True
    options.log_severity_level = 3
    try:
        return runtime.InferenceSession(file, options, providers=["CPUExecutionProvider"])
    except Exception as error:
        reason = str(error).partition("\n")[0]
        raise AdapterError(f"{name}: onnxruntime cannot run {file}: {reason}") from error


def _one_of(declared: Any, name: str | None, *, what: str, adapter: str) -> Any:
    names = [each.name for each in declared]
    if name is None and len(declared) == 1:
        return declared[0]
    if name not in names:
        problem = f"has no {what} {name!r}" if name else f"has several {what}s"
        raise AdapterError(f"{adapter} {problem}: set the option {what} to one of {', '.join(names)}")
    return declared[names.index(name)]


def _are_probabilities(outputs: "NDArray[np.floating[Any]]") -> bool:
    """Tell whether every row is a probability distribution, which logits of several classes never are."""
    import numpy as np

    return bool(outputs.shape[1] > 1 and outputs.min() >= 0 and np.allclose(outputs.sum(axis=1), 1, rtol=0, atol=1e-3))
