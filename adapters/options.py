"""Adapters' options: pydantic models that adapter classes declare, their validation, and their display as a table."""

import types
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Annotated, Any, ClassVar, Literal, TypeVar, Union, get_args, get_origin

from annotated_types import Ge, Gt, Le, Lt
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic.fields import FieldInfo

from adapters.base import AdapterError
from adapters.credentials import planted_secret, sounds_secret

TARGET = "target"
_KINDS = {
    "str": "text", "int": "whole number", "float": "number", "bool": "true | false", "Path": "path",
    "date": "day, YYYY-MM-DD",
}  # fmt: skip


class AdapterOptions(BaseModel):
    """Base of adapters' options; each field has a docstring.

    A field ``target`` is not an option but the part after the colon of ``NAME:TARGET``.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, coerce_numbers_to_str=True, use_attribute_docstrings=True)


class MadeFromOptions:
    """Mixin of adapters that are pickled as their ``_options`` and constructed anew in the other process.

    An adapter without ``_options`` is pickled as usual.
    """

    _options: AdapterOptions | None = None

    def __reduce__(self) -> str | tuple[Any, ...]:
        return super().__reduce__() if self._options is None else (type(self), (self._options,))


class NamedOptions(AdapterOptions):
    """Options of an adapter that can be used several times in one run under different names."""

    target: str = ""
    """a name of your choice, to use the adapter several times in one run: NAME:mine."""
    kind: ClassVar[str]

    @property
    def name(self) -> str:
        """The adapter's name within a run."""
        return f"{self.kind}:{self.target}" if self.target else self.kind


Presence = Annotated[float, Field(ge=0, le=1, description="the score (0-1) from which a label counts as present.")]


@dataclass(frozen=True)
class Option:
    """An option as displayed to the user."""

    name: str  # as in ``--adapter-option NAME.OPTION=VALUE``
    kind: str  # valid values in words
    default: str | None  # as a user would write it; None: required
    help: str


ModelT = TypeVar("ModelT", bound=BaseModel)


def option_rows(model: type[BaseModel]) -> tuple[Option, ...]:
    """Return the options of a model in the order of its fields, without the target."""
    return tuple(
        Option(name, f"{kind_of(field.annotation)} {_bounds(field)}".strip(), _default(field), field.description or "")
        for name, field in model.model_fields.items()
        if name != TARGET
    )


def read_options(adapter: str, model: type[ModelT], given: Mapping[str, Any]) -> ModelT:
    """Validate the options that a user gave an adapter.

    Raises:
        AdapterError: an unknown option, an invalid value, or a credential.
    """
    place = f"the adapter {adapter!r}"
    for name in given:
        if name not in model.model_fields:
            raise AdapterError(_unknown(place, name, [field for field in model.model_fields if field != TARGET]))
    if secret := planted_secret(given):
        raise AdapterError(
            f"{place}: option {secret!r} contains a credential. Keep credentials in the environment: "
            "export MY_KEY=... and write ${MY_KEY} where the adapter's description allows it"
        )
    try:
        return model.model_validate(dict(given))
    except ValidationError as error:
        problems = dict.fromkeys(_problem(problem, model.model_fields) for problem in error.errors())
        raise AdapterError(f"{place}: {'; '.join(problems)}") from None


def did_you_mean(name: str, known: Iterable[str], *, most: int = 1) -> str:
    """Return a question that suggests similar names, to end a sentence with; empty if there are none."""
    nearest = get_close_matches(name, list(known), n=most)
    return f"; did you mean {', '.join(map(repr, nearest))}?" if nearest else ""


def complaint(problem: Mapping[str, Any], field: FieldInfo, *, shown: bool = True) -> str:
    """Describe one of pydantic's validation errors, such as ``must be in 0-1, not 2``.

    Args:
        problem: an item of ``ValidationError.errors``.
        field: the field of the invalid value.
        shown: whether to quote the value, which may be a secret.
    """
    kind, message, value = problem["type"], str(problem["msg"]).removeprefix("Value error, "), problem["input"]
    given = f", not {ascii(value)[:60]}" if shown else ""
    if kind == "missing":
        return "is required"
    if kind == "too_short":
        return f"must be a list of at least {problem['ctx']['min_length']}"
    if kind == "finite_number":
        return f"must be a finite number{given}"
    if kind.startswith(("greater_than", "less_than")) and (bounds := _bounds(field)):
        return f"must be {bounds}{given}"
    if kind == "literal_error" and isinstance(value, str):
        given += did_you_mean(value, map(str, get_args(field.annotation)))
    if kind.endswith(("_type", "_parsing", "literal_error", "int_from_float")) and field.annotation:
        return f"must be {_with_article(kind_of(field.annotation))}{given}"
    return message


def kind_of(annotation: Any, *, many: bool = False) -> str:
    """Describe a type: ``png | jpeg``, ``number``, ``list of numbers``."""
    origin, inner = get_origin(annotation), get_args(annotation)
    named = getattr(origin, "__name__", "")
    if origin is Annotated:
        return kind_of(inner[0], many=many)
    if origin is Literal:
        return " | ".join(str(value) or '""' for value in inner)
    if origin in (Union, types.UnionType):
        return " or ".join(dict.fromkeys(kind_of(each, many=many) for each in inner if each is not type(None)))
    if named in ("tuple", "list", "Sequence"):
        kinds = dict.fromkeys(kind_of(each, many=True) for each in inner if each is not ...)
        count = f"{len(inner)} " if named == "tuple" and ... not in inner else ""
        return f"list{'s' * many} of {count}{' or '.join(kinds)}"
    if named in ("dict", "Mapping"):
        return f"table of {kind_of(inner[1], many=True)}"
    word = _KINDS.get(getattr(annotation, "__name__", ""), "value")
    return f"{word}s" if many and word not in ("text", "true | false") else word


def _with_article(kind: str) -> str:
    return f"a {kind}" if kind.split()[0] in ("whole", "number", "path", "list", "table", "day,") else kind


def _bounds(field: FieldInfo) -> str:
    low = next((limit for limit in field.metadata if isinstance(limit, Ge | Gt)), None)
    high = next((limit for limit in field.metadata if isinstance(limit, Le | Lt)), None)
    if isinstance(low, Ge) and isinstance(high, Le):
        return f"in {low.ge:g}-{high.le:g}"
    parts = [f"at least {low.ge}" if isinstance(low, Ge) else f"more than {low.gt}" if low else ""]
    parts += [f"at most {high.le}" if isinstance(high, Le) else f"less than {high.lt}" if high else ""]
    return " and ".join(part for part in parts if part)


def _default(field: FieldInfo) -> str | None:
    if field.is_required():
        return None
    default = field.get_default(call_default_factory=True)
    if isinstance(default, bool):
        return str(default).lower()
    if default is None or default in ("", {}, ()):
        return "none"
    return str(list(default)) if isinstance(default, tuple) else str(default)


def _unknown(place: str, name: str, known: list[str]) -> str:
    if sounds_secret(name):
        return (
            f"{place} has no option {name!r}: credentials are read from the environment, not from options "
            f"(counterslope adapters info {place.split(chr(39))[1].partition(':')[0]} lists the variables)"
        )
    return f"{place} has no option {name!r}{did_you_mean(name, known) or '.'} Its options: {', '.join(known) or 'none'}"


def _problem(problem: Mapping[str, Any], fields: Mapping[str, FieldInfo]) -> str:
    """Describe one of pydantic's validation errors with the option's name."""
    where, kind, value = [str(part) for part in problem["loc"]], problem["type"], problem["input"]
    if not where:
        return str(problem["msg"]).removeprefix("Value error, ")
    field = fields[where[0]]
    path = ".".join(where)
    if kind == "missing":
        return f"option {path!r} is required"
    if kind in ("extra_forbidden", "unexpected_keyword_argument"):
        return f"option {path!r} is not known"
    words = complaint(problem, field)
    if kind == "string_pattern_mismatch":
        return f"option {path!r} cannot be {ascii(value)[:60]}: {field.description or words}"
    if words.startswith("must be "):
        return f"option {where[0]!r} {words}"
    return f"option {(where[0] if kind == 'value_error' else path)!r}: {words}"
