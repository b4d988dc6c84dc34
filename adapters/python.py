"""Any Python function as a classifier: ``python:module:function``, imported from a folder of the user's.

The function runs in this process; programs with an environment of their own are not run here.
"""

import importlib
import inspect
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from types import ModuleType
from typing import Any, Literal, Self

from pydantic import Field

from adapters.answers import checked, from_answer, to_answer
from adapters.base import AdapterError, AnswerError, Capabilities, Label, RawAnswer
from adapters.local.preprocessing import decode_rgb
from adapters.options import AdapterOptions, Presence


class PythonFunction:
    """A function of yours: python:module:function, image in, labels out.

    It receives one image and returns a dict of label -> score, a list of (label, score), or a list of labels (each
    then with score 1); scores in 0-1. The digest of the module's file is its version, so editing the file asks again;
    what else the function reads (weights, other modules) is not seen: name its version with ``version``.

    Raises:
        AdapterError: the module cannot be imported or has no such function.
    """

    class Options(AdapterOptions):
        target: str = Field(description="module:function.")
        path: Path = Field(Path(), description="the folder the module is imported from; the current one unless given.")
        input: Literal["bytes", "array"] = Field(
            "bytes", description="the encoded image as it was sent, or (H, W, 3) uint8 RGB."
        )
        version: str = Field("", description="the version of whatever the function uses; another version asks again.")
        presence: Presence = 0.5

    capabilities = Capabilities()

    def __init__(self, options: Options) -> None:
        module_name, _, function_name = options.target.partition(":")
        if not module_name or not function_name:
            raise AdapterError(f"python:{options.target} names no function: write python:module:function")
        self.name = f"python:{options.target}"
        self._folder = options.path.resolve()
        self._decode = options.input == "array"
        module = self._import(module_name)
        self._function = self._named(function_name, module)
        self.model = _digest(module)
        self.parameters: Mapping[str, Any] = options.model_dump(include={"input", "version"})
        self.capabilities = Capabilities(presence=options.presence)

    @classmethod
    def of(cls, function: Callable[[Any], object], *, version: str = "") -> Self:
        """A function at hand, called with encoded images: the same classifier as ``python:module:function`` names.

        One that cannot be named so (of a notebook, inside another function, a lambda) has its own source as version.

        Args:
            function: takes the bytes of one image, returns labels.
            version: the version of whatever it uses; another version asks again.
        """
        made = cls.__new__(cls)
        module_name, function_name = _place(function)
        made.name = f"python:{module_name}:{function_name}"
        made._folder, made._decode, made._function = Path().resolve(), False, function
        module = sys.modules.get(module_name)
        named = module_name != "__main__" and getattr(module, function_name, None) is function
        made.model = _digest(module) if named and module is not None else _digest_of_source(function)
        made.parameters = {"input": "bytes", "version": version}
        return made

    def send(self, images: Sequence[bytes]) -> list[RawAnswer]:
        """Call the function for each image; see ``Adapter.send``."""
        with _importing_from(self._folder):
            return [to_answer(self._labels(image)) for image in images]

    def parse(self, answer: RawAnswer) -> list[Label]:
        """See ``Adapter.parse``."""
        return from_answer(answer)

    def _labels(self, image: bytes) -> list[Label]:
        result = self._function(decode_rgb(image) if self._decode else image)
        try:
            return checked(_pairs(result))
        except AnswerError as error:
            raise AnswerError(f"{self.name} returned something that is not labels: {error}") from error

    def _import(self, module_name: str) -> ModuleType:
        with _importing_from(self._folder):
            importlib.invalidate_caches()
            try:
                return importlib.import_module(module_name)
            except Exception as error:
                raise AdapterError(
                    f"{self.name}: the module {module_name!r} cannot be imported from {self._folder} "
                    f"({type(error).__name__}: {error})"
                ) from error

    def _named(self, function_name: str, module: ModuleType) -> Callable[[Any], object]:
        function = getattr(module, function_name, None)
        if not callable(function):
            place = getattr(module, "__file__", None) or "a built-in module"
            raise AdapterError(f"{self.name}: there is no function {function_name!r} in {place}")
        found: Callable[[Any], object] = function
        return found


def _pairs(result: object) -> Iterator[tuple[object, object]]:
    """The three kinds of result as pairs of name and score."""
    if isinstance(result, Mapping):
        yield from result.items()
    elif isinstance(result, list | tuple):
        for item in result:
            if isinstance(item, str):
                yield item, 1.0
            elif isinstance(item, list | tuple) and len(item) == 2:
                yield item[0], item[1]
            else:
                raise AnswerError(f"a list must hold labels or pairs of label and score, not {type(item).__name__}")
    else:
        raise AnswerError(
            f"a dict of label -> score, a list of (label, score) or a list of labels is needed, "
            f"not {type(result).__name__}"
        )


def _digest(module: ModuleType) -> str:
    file = getattr(module, "__file__", None)
    return f"sha256 {sha256(Path(file).read_bytes()).hexdigest()}" if file else f"{module.__name__} without a file"


def _place(function: Callable[[Any], object]) -> tuple[str, str]:
    """Module and name of a function; of an object that can be called, its class's."""
    named = function if hasattr(function, "__qualname__") else type(function)
    return named.__module__, named.__qualname__


def _digest_of_source(function: Callable[[Any], object]) -> str:
    """A name for what a function does, as far as its own source shows.

    Raises:
        AdapterError: its source is not to be had.
    """
    named = function if hasattr(function, "__qualname__") else type(function)
    try:
        source = inspect.getsource(named)
    except (OSError, TypeError) as error:
        raise AdapterError(
            f"the source of {function!r} cannot be read, so that nobody could tell its answers from those of another "
            "function: put it into a file of its own"
        ) from error
    return f"source {sha256(source.encode()).hexdigest()}"


@contextmanager
def _importing_from(folder: Path) -> Iterator[None]:
    """Put a folder first in ``sys.path`` while the user's code runs, and take it out again."""
    entry = str(folder)
    sys.path.insert(0, entry)
    try:
        yield
    finally:
        sys.path.remove(entry)
