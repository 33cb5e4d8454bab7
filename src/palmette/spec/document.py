"""What all files have in common: frozen models that report everything that is wrong with them at once.

Inside, every quantity is SI and its field is named after its unit (``memory_bytes``). A person writes
``memory: 1 GiB``; ``Document.written`` maps the one to the other, so that a model reads both forms and
faults name the field that stands in the file. An ``OpenDocument`` keeps fields that it does not know (a newer
version may have written them) unless one looks like a misspelled field, or could not be written back.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, ClassVar, NamedTuple, NoReturn, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    ModelWrapValidatorHandler,
    ValidationError,
    model_validator,
)
from pydantic_core import InitErrorDetails, PydanticCustomError

from palmette.errors import Fault, InputError, nearest, one_line
from palmette.spec.units import Dimension

# A ceiling far above anything physical keeps products of several quantities finite. Amounts are such products.
MOST = 1e18
_LARGEST = 1e300
_DEEPEST = 100
Count = Annotated[int, Field(strict=True, ge=1, le=10**12)]
Number = Annotated[float, Field(strict=True, ge=0, le=MOST)]
Positive = Annotated[float, Field(strict=True, gt=0, le=MOST)]
Amount = Annotated[float, Field(strict=True, ge=0)]
# Names stand in tables, messages and YAML, where a line break or an escape sequence would do harm.
_ONE_LINE = r"^[^\x00-\x1f\x7f-\x9f\u2028\u2029]*$"
Name = Annotated[str, Field(strict=True, min_length=1, max_length=200, pattern=_ONE_LINE)]
Flag = Annotated[bool, Field(strict=True)]

Location = tuple[str | int, ...]


class LocatedFault(NamedTuple):
    """One fault inside a document: where, what stands there, what was expected."""

    at: Location
    value: Any
    expected: str


class Document(BaseModel):
    """A frozen, self-validating piece of a file."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, serialize_by_alias=True)

    written: ClassVar[Mapping[str, tuple[str, Dimension]]] = {}
    file_with: ClassVar[str] = ""
    """What a file of this kind is and has, where it has no format by which it could be told from others."""

    @model_validator(mode="wrap")
    @classmethod
    def _read(cls, data: Any, handler: ModelWrapValidatorHandler[Self]) -> Self:
        if not isinstance(data, Mapping):
            return handler(data)
        in_si, wrong = cls._in_si(data)
        unknown, meant = cls._unknown(in_si)
        wrong += unknown
        known_wrong = {fault.at[0] for fault in wrong}
        try:
            made = handler({key: value for key, value in in_si.items() if str(key) not in known_wrong})
        except ValidationError as error:
            wrong += cls._as_written(error, data, known_wrong | (meant - data.keys()))
            found = {fault.at for fault in wrong}
            refuse(cls.__name__, wrong + [w for w in cls.wrong_names(data) if w.at not in found])
        if wrong:
            refuse(cls.__name__, wrong)
        return made

    @classmethod
    def with_files(cls, data: dict[str, Any], folder: Path) -> dict[str, Any]:
        """Raw data with the content of other files in place of their names, which are relative to its own folder.

        Raises:
            InputError: one of them cannot be read.
        """
        return data

    @classmethod
    def wrong_names(cls, data: Mapping[Any, Any]) -> list[LocatedFault]:
        """Names in raw data that refer to nothing, reported even where other faults keep the model from being made."""
        return []

    @classmethod
    def has_field(cls, name: Any) -> bool:
        """Whether a field is called so, or almost so."""
        known = cls._as_in_files()
        return name in cls.model_fields or name in known or nearest(str(name), known) is not None

    @classmethod
    def _as_in_files(cls) -> list[str]:
        """The names of all fields, as a person writes them."""
        in_si = {field for field, _ in cls.written.values()}
        names = (field.alias or name for name, field in cls.model_fields.items())
        return [*cls.written, *(name for name in names if name not in in_si)]

    @classmethod
    def _in_si(cls, data: Mapping[Any, Any]) -> tuple[dict[Any, Any], list[LocatedFault]]:
        in_si, wrong = dict(data), []
        for key, (field, dimension) in cls.written.items():
            if key in data and field in data:
                del in_si[key]
                wrong.append(LocatedFault((key,), data[key], f"{field} says the same; expected one of the two"))
            elif key in data:
                try:
                    in_si[field] = dimension.parse(in_si.pop(key))
                except ValueError as error:
                    wrong.append(LocatedFault((key,), data[key], str(error)))
        return in_si, wrong

    @classmethod
    def _unknown(cls, data: Mapping[Any, Any]) -> tuple[list[LocatedFault], set[str]]:
        """Unknown fields, and the known ones that were probably meant."""
        fields = [field.alias or name for name, field in cls.model_fields.items()]
        known = cls._as_in_files()
        wrong: list[LocatedFault] = []
        meant = set()
        for key in (key for key in data if key not in fields):
            guess = nearest(str(key), known)
            if guess is not None:
                meant.add(guess)
                wrong.append(LocatedFault((str(key),), data[key], f"unknown field; did you mean {guess}?"))
            elif cls.model_config["extra"] == "forbid" or not isinstance(key, str):
                wrong.append(LocatedFault((str(key),), data[key], f"unknown field; expected one of {', '.join(known)}"))
            else:
                wrong += _not_json({key: data[key]})
        return wrong, meant

    @classmethod
    def _as_written(cls, error: ValidationError, data: Mapping[Any, Any], known_wrong: set[Any]) -> list[LocatedFault]:
        """The faults pydantic found, under the names that stand in the file, without those reported already."""
        keys = {field: key for key, (field, _) in cls.written.items() if field not in data}
        found = []
        details = error.errors(include_url=False)
        deepest = {detail["loc"][:1] for detail in details if len(detail["loc"]) > 1}
        for detail in details:
            at = detail["loc"]
            if detail["type"] == "too_short" and at in deepest:
                continue  # pydantic counts the entries that are left after the faulty ones
            at = (keys.get(at[0], at[0]), *at[1:]) if at and isinstance(at[0], str) else at
            if not (at and at[0] in known_wrong):
                value = "missing" if detail["type"] == "missing" else detail["input"]
                value = data[at[0]] if len(at) == 1 and at[0] in data else value
                written = cls.written.get(str(at[0])) if len(at) == 1 else None
                found.append(LocatedFault(at, value, _bound(detail, written[1]) if written else _expected(detail)))
        return found


class OpenDocument(Document):
    """A document that keeps fields it does not know."""

    model_config = ConfigDict(extra="allow")


def refuse(title: str, wrong: Iterable[LocatedFault]) -> NoReturn:
    """Raise one ``ValidationError`` that holds every fault, each at its place."""
    details = [
        InitErrorDetails(
            type=PydanticCustomError("expected", "{expected}", {"expected": one_line(w.expected)}),
            loc=w.at,
            input=w.value,
        )
        for w in wrong
    ]
    raise ValidationError.from_exception_data(title, details)


def _not_json(value: Any, at: Location = ()) -> Iterator[LocatedFault]:
    """What a JSON file cannot hold, in a value that is kept as it stands."""
    if len(at) > _DEEPEST:
        yield LocatedFault(at[:1], value, f"it is nested too deeply; expected at most {_DEEPEST} levels")
    elif isinstance(value, Mapping):
        for key, item in value.items():
            if not (isinstance(key, str) and _encodes(key)):
                yield LocatedFault((*at, str(key)), key, "expected a text as the name of a field")
            yield from _not_json(item, (*at, str(key)))
    elif isinstance(value, list | tuple):
        for index, item in enumerate(value):
            yield from _not_json(item, (*at, index))
    elif isinstance(value, int | float) and not -_LARGEST <= value <= _LARGEST:
        yield LocatedFault(at, value, "expected a finite number")
    elif not (value is None or isinstance(value, int | float) or (isinstance(value, str) and _encodes(value))):
        yield LocatedFault(at, value, "expected a text, a number, a list or a mapping")


def _encodes(text: str) -> bool:
    """Whether UTF-8 can hold a text: half of a surrogate pair it cannot."""
    return text.isascii() or not any("\ud800" <= c <= "\udfff" for c in text)


def _json_object(value: Any) -> Any:
    wrong = list(_not_json(value))
    if wrong:
        refuse("JsonObject", wrong)
    return value


# Whatever JSON can hold, kept as it stands.
JsonObject = Annotated[dict[str, Any], AfterValidator(_json_object)]


def faults(error: ValidationError, file: str) -> InputError:
    """What a ``ValidationError`` says, as faults of ``file``."""
    return InputError(
        Fault(_dotted(detail["loc"]), detail["input"], _expected(detail), file)
        for detail in error.errors(include_url=False)
    )


_A_NAME = "[key]"  # pydantic's mark of a fault in a name itself
_REWORDED = {
    "Input should be greater": "expected a number greater",
    "Input should be less": "expected a number less",
    "Input should be": "expected",
    "a valid integer": "an integer",
    "a valid ": "a ",
    "a tuple": "a list",
    "a dictionary": "a mapping",
    ", unable to parse string as an integer": "",
    ", unable to parse string as a number": "",
}


def _expected(detail: Mapping[str, Any]) -> str:
    if detail["type"] == "expected":
        return str(detail["ctx"]["expected"])
    if detail["type"] == "missing":
        return "this field is required"
    if detail["type"] == "string_pattern_mismatch":
        return "expected a name without control characters"
    if detail["type"] == "string_too_short":
        return "expected a name"
    if detail["type"] == "too_short":
        return f"expected at least {detail['ctx']['min_length']}"
    message = str(detail["msg"]).removeprefix("Value error, ")
    for word, ours in _REWORDED.items():
        message = message.replace(word, ours)
    return message.partition(" or instance of ")[0]  # a class, of which a file knows nothing


_BOUNDS = {"gt": "more than", "ge": "at least", "lt": "less than", "le": "at most"}


def _bound(detail: Mapping[str, Any], dimension: Dimension) -> str:
    """What was expected of a quantity that a person wrote with its unit."""
    limits = detail.get("ctx", {})
    bounds = [f"{words} {dimension.write(limits[key])}" for key, words in _BOUNDS.items() if key in limits]
    return f"expected {bounds[0]}" if bounds else _expected(detail)


def entries(data: Any, field: str) -> list[tuple[int, Any]]:
    """The numbered entries of a list in raw data, nothing where there is no list."""
    listed = part(data, field)
    return list(enumerate(listed)) if isinstance(listed, list | tuple) else []


def part(data: Any, field: str) -> Any:
    """A field of raw data or of a document, None where there is none."""
    return data.get(field) if isinstance(data, Mapping) else getattr(data, field, None)


def _dotted(at: Location) -> str:
    text = ""
    for part, after in itertools.zip_longest(at, at[1:]):
        if part != _A_NAME:
            text += f"[{part}]" if isinstance(part, int) and after != _A_NAME else f".{part}" if text else str(part)
    return text
