"""What is promised, as exact numbers read from text."""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction

from sfumato.errors import InvalidParameter

Number = str | int | float | Decimal | Fraction

DECIMALS = 12  # totals are kept in units of 10^-12, so a finer price could vanish
FINER = 18  # decimals of a delta
LARGEST_PRICE = 10**6  # far beyond any meaningful epsilon; keeps totals small integers

_NUMBER = re.compile(r"[+-]?(?=\.?[0-9])[0-9]*(\.[0-9]*)?([eE][+-]?[0-9]{1,3})?")  # 1_0 is nobody's 10


@dataclass(frozen=True, slots=True)
class Guarantee:
    """A promise, and a sum of money: an amount of one currency, held as exact fractions.

    The currencies are `epsilon` (pure differential privacy), `epsilon` with a `delta`, and `rho` (zCDP), with
    a `delta` for what is not zCDP.

    >>> Guarantee.parse("0.1")
    Guarantee(epsilon=Fraction(1, 10))
    >>> print(Guarantee.parse(0.25))
    epsilon 0.25
    >>> print(Guarantee.read(rho="0.5", delta="1e-6"))
    rho 0.5, delta 0.000001
    """

    epsilon: Fraction | None = None
    delta: Fraction = Fraction(0)
    rho: Fraction | None = None

    def __post_init__(self) -> None:
        if (self.epsilon is None) == (self.rho is None):
            raise InvalidParameter("guarantee", "both or none", "give one of epsilon and rho")
        for name, value in (("epsilon", self.epsilon), ("rho", self.rho), ("delta", self.delta)):
            if value is None:
                continue
            if not isinstance(value, (int, Fraction)):
                raise InvalidParameter(name, value, f'write Guarantee.read({name}="{value}")')
            if value < 0:
                raise InvalidParameter(name, decimal(value), f"{name} must not be negative")

    @classmethod
    def parse(cls, given: Number, name: str = "epsilon") -> Guarantee:
        """An epsilon, exactly as written; a float counts as its shortest text: 0.1 is a tenth."""
        return cls(_positive(given, name, LARGEST_PRICE, DECIMALS))

    @classmethod
    def read(
        cls, *, epsilon: Number | None = None, rho: Number | None = None, delta: Number | None = None
    ) -> Guarantee:
        """An amount of the currency that is named, exactly as written."""
        slack = Fraction(0) if delta is None else _positive(delta, "delta", 1, FINER)
        if slack == 1:
            raise InvalidParameter("delta", delta, 'take a probability far below 1, such as "1e-6"')
        return cls(
            None if epsilon is None else _positive(epsilon, "epsilon", LARGEST_PRICE, DECIMALS),
            slack,
            None if rho is None else _positive(rho, "rho", LARGEST_PRICE, DECIMALS),
        )

    @property
    def currency(self) -> str:
        """`epsilon` or `rho`: what `amount` counts."""
        return "rho" if self.epsilon is None else "epsilon"

    @property
    def amount(self) -> Fraction:
        """So much of it."""
        amount = self.rho if self.epsilon is None else self.epsilon
        assert amount is not None
        return amount

    def of(self, amount: Fraction, delta: Fraction = Fraction(0)) -> Guarantee:
        """Another amount of the same currency."""
        return Guarantee(amount, delta) if self.epsilon is not None else Guarantee(None, delta, amount)

    def minus(self, spent: Guarantee) -> Guarantee:
        """What is left when something of the same currency is spent; never below zero."""
        return self.of(
            max(self.amount - spent.amount, Fraction(0)), max(self.delta - spent.delta, Fraction(0))
        )

    def as_dict(self) -> dict[str, str]:
        """For programs: {"epsilon": "0.1"}, and a delta if there is one."""
        facts = {self.currency: decimal(self.amount)}
        return {**facts, "delta": decimal(self.delta, FINER)} if self.delta else facts

    def __str__(self) -> str:
        words = f"{self.currency} {decimal(self.amount)}"
        return f"{words}, delta {decimal(self.delta, FINER)}" if self.delta else words

    def __repr__(self) -> str:
        fields = [
            f"{name}={getattr(self, name)!r}"
            for name in ("epsilon", "rho")
            if getattr(self, name) is not None
        ]
        return f"Guarantee({', '.join(fields + ([f'delta={self.delta!r}'] if self.delta else []))})"


def _positive(given: Number, name: str, most: int, decimals: int) -> Fraction:
    """A positive decimal, exactly as it is written."""
    if isinstance(given, (int, Fraction)) and abs(Fraction(given)) > most:
        raise InvalidParameter(name, "a huge number", "it would protect nobody")
    text = str(given).strip()
    example = "1e-6" if name == "delta" else "0.1"
    advice = f"write a positive number with at most {decimals} decimal places, such as {example}"
    if isinstance(given, bool) or not text:
        raise InvalidParameter(name, repr(given), advice)
    if isinstance(given, (int, Fraction)):
        value = Fraction(given)
    elif _NUMBER.fullmatch(text):
        value = Fraction(Decimal(text))
    else:
        raise InvalidParameter(name, text, advice)
    if value <= 0:
        raise InvalidParameter(name, text, f"{advice}; zero or less would release nothing")
    if value > most:
        raise InvalidParameter(name, text, f"it would protect nobody; {advice}")
    if (value * 10**decimals).denominator != 1:
        raise InvalidParameter(name, text, advice)
    return value


def plain(given: str | float) -> float:
    """A number; as a text only if it is written as everybody writes one. Python would read more.

    >>> plain("-1.5e2")
    -150.0
    >>> plain("1_0")
    Traceback (most recent call last):
    ValueError: '1_0' is not a number
    """
    if isinstance(given, str) and not _NUMBER.fullmatch(given.strip()):
        raise ValueError(f"{given!r} is not a number")
    return float(given)


def decimal(value: Fraction, decimals: int = DECIMALS) -> str:
    """The number in full: every digit if it ends within the decimals, else rounded up to them.

    >>> decimal(Fraction(1, 8)), decimal(Fraction(3)), decimal(Fraction(1, 3))
    ('0.125', '3', '0.333333333334')
    """
    units = -(-value * 10**decimals // 1)
    whole, rest = divmod(abs(int(units)), 10**decimals)
    text = f"{whole}.{rest:0{decimals}d}".rstrip("0").rstrip(".")
    return f"-{text}" if units < 0 else text
