"""What is promised, as exact numbers read from text."""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction

from sfumato.errors import InvalidParameter

DECIMALS = 12  # totals are kept in units of 10^-12, so a finer price could vanish
LARGEST = 10**6  # far beyond any meaningful epsilon; keeps totals small integers

_NUMBER = re.compile(r"\s*\+?(\d+(_\d+)*)?(\.\d*)?([eE][+-]?\d{1,3})?\s*")


@dataclass(frozen=True, slots=True)
class Guarantee:
    """A promise of pure differential privacy with parameter `epsilon`, held as an exact fraction.

    >>> Guarantee.parse("0.1")
    Guarantee(epsilon=Fraction(1, 10))
    >>> print(Guarantee.parse(0.25))
    epsilon 0.25
    """

    epsilon: Fraction

    def __post_init__(self) -> None:
        if not isinstance(self.epsilon, (int, Fraction)):
            raise InvalidParameter("epsilon", self.epsilon, f'write Guarantee.parse("{self.epsilon}")')
        if self.epsilon < 0:
            raise InvalidParameter("epsilon", decimal(self.epsilon), "an epsilon is not negative")

    @classmethod
    def parse(cls, given: str | int | float | Decimal | Fraction, name: str = "epsilon") -> Guarantee:
        """Read a positive decimal exactly as written; a float counts as its shortest text: 0.1 is a tenth."""
        if isinstance(given, (int, Fraction)) and abs(Fraction(given)) > LARGEST:
            raise InvalidParameter(name, "a huge number", "that is no privacy at all")
        text = str(given).strip()
        advice = f'write a positive decimal with at most {DECIMALS} decimals, such as "0.1"'
        if isinstance(given, bool) or not text:
            raise InvalidParameter(name, repr(given), advice)
        if isinstance(given, (int, Fraction)):
            value = Fraction(given)
        elif _NUMBER.fullmatch(text) and any(c.isdigit() for c in text):
            value = Fraction(Decimal(text.replace("_", "")))
        else:
            raise InvalidParameter(name, text, advice)
        if value <= 0:
            raise InvalidParameter(name, text, f"{advice}; zero or less would release nothing")
        if value > LARGEST:
            raise InvalidParameter(name, text, f"that is no privacy at all; {advice}")
        if (value * 10**DECIMALS).denominator != 1:
            raise InvalidParameter(name, text, advice)
        return cls(value)

    def __str__(self) -> str:
        return f"epsilon {decimal(self.epsilon)}"


def decimal(value: Fraction) -> str:
    """The number in full: every digit if it ends within 12 decimals, else rounded up to 12.

    >>> decimal(Fraction(1, 8)), decimal(Fraction(3)), decimal(Fraction(1, 3))
    ('0.125', '3', '0.333333333334')
    """
    units = -(-value * 10**DECIMALS // 1)
    whole, rest = divmod(abs(int(units)), 10**DECIMALS)
    text = f"{whole}.{rest:0{DECIMALS}d}".rstrip("0").rstrip(".")
    return f"-{text}" if units < 0 else text
