"""Any Python function as a classifier: ``python:module:function``, here or, with a time limit, in another process."""

import importlib.util
import inspect
import json
import os
import shlex
import sys
from base64 import b64decode
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from hashlib import sha256
from pathlib import Path
from types import ModuleType
from typing import Any, Literal, Self, cast

from pydantic import Field

from adapters.answers import LabelAnswers, checked, to_answer
from adapters.base import AdapterError, AnswerError, Capabilities, Label, NoAnswer, RawAnswer
from adapters.command import Command
from adapters.local.preprocessing import decode_rgb
from adapters.options import AdapterOptions, MadeFromOptions, Presence


class PythonFunction(LabelAnswers, MadeFromOptions):
    """Your own Python function: python:module:function, which takes an image and returns labels.

    It returns a dict of label -> score, a list of (label, score), or a list of labels (each with score 1); scores in
    0-1. The version is the digest of the module's file, so images are sent again after it was edited. Give the version
    of anything else that the function reads (weights, other modules) as ``version``.
    """

    class Options(AdapterOptions):
        target: str
        """module:function."""
        path: Path = Path()
        """the folder to import the module from; default: the current one."""
        input: Literal["bytes", "array"] = "bytes"
        """the encoded image, or (H, W, 3) uint8 RGB."""
        version: str = ""
        """version of whatever the function uses; images are sent again when it changes."""
        presence: Presence = 0.5
        timeout: float | None = Field(None, gt=0)
        """seconds per image; the function then runs in a separate process, which is restarted when it takes longer.
        Default: no limit."""

    capabilities = Capabilities()
    _process: Command | None = None

    def __init__(self, options: Options) -> None:
        module_name, _, function_name = options.target.partition(":")
        if not module_name or not function_name:
            raise AdapterError(f"python:{options.target} does not name a function: write python:module:function")
        self.name, self._options = f"python:{options.target}", options
        self._folder = options.path.resolve()
        self._decode = options.input == "array"
        if options.timeout is None:
            module = self._import(module_name)
            self._function = self._named(function_name, module)
            self.model = _digest(getattr(module, "__file__", None), module_name)
        else:
            self.model = _digest(self._file(module_name), module_name)
            self._process = self._in_a_process(options, options.timeout)
        self.parameters: Mapping[str, Any] = options.model_dump(include={"input", "version"})
        self.capabilities = Capabilities(presence=options.presence)

    @classmethod
    def of(cls, function: Callable[[Any], object], *, version: str = "") -> Self:
        """Make the adapter of a function object; equivalent to ``python:module:function``.

        If the function cannot be named so (in a notebook, inside another function, a lambda), its version is the digest
        of its source.

        Args:
            function: takes the bytes of one image, returns labels.
            version: version of whatever it uses; images are sent again when it changes.
        """
        made = cls.__new__(cls)
        code: Any = function if hasattr(function, "__qualname__") else type(function)  # a callable object
        module_name, function_name = code.__module__, code.__qualname__
        made.name = f"python:{module_name}:{function_name}"
        made._folder, made._decode, made._function = Path().resolve(), False, function
        module = sys.modules.get(module_name)
        named = module_name != "__main__" and getattr(module, function_name, None) is function
        made.model = _digest(getattr(module, "__file__", None), module_name) if named else _digest_of_source(code)
        made.parameters = {"input": "bytes", "version": version}
        return made

    def send(self, images: Sequence[bytes]) -> Sequence[RawAnswer | NoAnswer]:
        """Call the function for each image; see ``Adapter.send``."""
        if self._process is not None:
            return self._process.send(images)
        with _importing_from(self._folder):
            return [to_answer(self._labels(image)) for image in images]

    def _labels(self, image: bytes) -> list[Label]:
        try:
            result = self._function(decode_rgb(image) if self._decode else image)
        except SystemExit as error:
            raise RuntimeError(f"the function called sys.exit({error.code!r})") from error
        try:
            return checked(_pairs(result))
        except AnswerError as error:
            raise AnswerError(f"{self.name} returned something that is not labels: {error}") from error

    def _import(self, module_name: str) -> ModuleType:
        try:
            with _importing_from(self._folder):
                return importlib.import_module(module_name)
        except (Exception, SystemExit) as error:
            raise AdapterError(
                f"{self.name}: the module {module_name!r} cannot be imported from {self._folder} "
                f"({type(error).__name__}: {error})"
            ) from error

    def _file(self, module_name: str) -> str | None:
        """Return the file of a module without importing it."""
        found = None
        with suppress(Exception, SystemExit), _importing_from(self._folder):
            found = importlib.util.find_spec(module_name)
        if found is None:
            raise AdapterError(f"{self.name}: there is no module {module_name!r} in {self._folder}")
        return found.origin if found.has_location else None

    def _in_a_process(self, options: Options, timeout: float) -> Command:
        """Wrap the function in a process that speaks the protocol of `adapters.command`."""
        code = f"import sys; sys.path[:0] = {sys.path!r}; from adapters.python import serve; serve()"
        words = [sys.executable, "-c", code, options.target, options.input]
        command = Command(Command.Options(target=shlex.join(words), folder=self._folder, timeout=timeout))
        command.name = self.name
        return command

    def _named(self, function_name: str, module: ModuleType) -> Callable[[Any], object]:
        function: Any = getattr(module, function_name, None)
        if callable(function):
            return cast("Callable[[Any], object]", function)
        place = getattr(module, "__file__", None) or "a built-in module"
        raise AdapterError(f"{self.name}: there is no function {function_name!r} in {place}")


def _pairs(result: object) -> Iterator[tuple[object, object]]:
    """Convert the three kinds of result to pairs of name and score."""
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
            f"a dict of label -> score, a list of (label, score) or a list of labels is needed, not "
            f"{type(result).__name__}"
        )


def serve() -> None:
    """Answer the protocol of `adapters.command` on standard input and output, in a separate process."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # the function's own output must not mix with the answers
    target, kind = sys.argv[1:]
    adapter = PythonFunction(PythonFunction.Options.model_validate({"target": target, "input": kind}))
    with _importing_from(Path.cwd()):
        for line in sys.stdin:
            row = json.loads(line)
            try:
                answer = json.loads(to_answer(adapter._labels(b64decode(row["image"]))).body)
            except Exception as error:
                answer = {"error": f"{type(error).__name__}: {error}"}
            print(json.dumps({"id": row["id"], **answer}), file=answers, flush=True)


def _digest(file: str | None, module_name: str) -> str:
    return f"sha256 {sha256(Path(file).read_bytes()).hexdigest()}" if file else f"{module_name} without a file"


def _digest_of_source(code: Any) -> str:
    """Return the digest of the source of a function or a class."""
    try:
        source = inspect.getsource(code)
    except (OSError, TypeError) as error:
        raise AdapterError(
            f"the source of {code!r} cannot be read, so its answers could not be told from those of another function: "
            "define it in a file"
        ) from error
    return f"source {sha256(source.encode()).hexdigest()}"


@contextmanager
def _importing_from(folder: Path) -> Iterator[None]:
    """Context in which a folder is the first entry of ``sys.path``."""
    entry = str(folder)
    sys.path.insert(0, entry)
    importlib.invalidate_caches()
    try:
        yield
    finally:
        sys.path.remove(entry)
