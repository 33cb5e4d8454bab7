"""What a machine costs by the hour, in whatever currency: ``0.4 EUR/h``."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Annotated, Any

from pydantic import BeforeValidator, Field
from pydantic_core import PydanticCustomError

from palmette.spec.document import Document, Number

_PRICE = re.compile(r"\s*(\d+(?:\.\d*)?|\.\d+)\s*([A-Z]{3})\s*/\s*h\s*")


class HourlyPrice(Document):
    """Money for an hour; the currency is its three letters."""

    per_hour: Number
    currency: Annotated[str, Field(strict=True, pattern=r"^[A-Z]{3}$")]

    def __str__(self) -> str:
        return f"{Decimal(repr(self.per_hour)):f} {self.currency}/h"


def _read(value: Any) -> Any:
    """A price as a person writes it, in the fields of the document; what is no text is left to these."""
    if isinstance(value, HourlyPrice | dict):
        return value
    match = _PRICE.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        expected = "expected a price with its currency, such as 0.4 EUR/h"
        raise PydanticCustomError("expected", "{expected}", {"expected": expected})
    return {"per_hour": float(match[1]), "currency": match[2]}


WrittenPrice = Annotated[HourlyPrice, BeforeValidator(_read)]
"""A price in a file: as text, or in its fields."""
