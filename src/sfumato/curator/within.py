"""From an error to its price: the least one at which a question is likely to be as exact as was asked for.

An analyst knows how wrong an answer may be, and not what an epsilon is worth. So the price is found by trying
prices of three digits, at each of which the error is forecast (`forecast`) from public facts and from what
the asker has paid for before. It is shown before it is spent; above the most that the owner allows
unconfirmed, it is refused.
"""

from __future__ import annotations

import bisect
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING

from sfumato.curator.forecast import DEPENDS, FROM_NOTHING, UNKNOWN, forecasts, seen_in
from sfumato.curator.show import sized
from sfumato.errors import InvalidParameter, QueryRefused
from sfumato.mechanisms import Guarantee
from sfumato.mechanisms.guarantee import decimal

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from sfumato.curator.forecast import Forecast
    from sfumato.curator.keeper import Keeper
    from sfumato.curator.question import Question
    from sfumato.mechanisms.guarantee import Number

    Within = Number | Mapping[str, Number]
    Ask = Callable[[Guarantee], Question]

MANTISSAS = 900  # prices between a power of ten and the next: from 1.00 to 9.99
FIRST = -9  # the least price is 10^-9
PRICES = 16 * MANTISSAS  # up to 10^7
NEAR_ENOUGH = 1.25  # so far off what was wished may be what is paid for already
LONGEST_WISH = 2000  # letters
SOME = MANTISSAS // 3  # prices that are passed over in the search for the first that can be asked


@dataclass(frozen=True, slots=True)
class Wish:
    """An error that a number shall have at most at 95%: in its unit, or in parts of itself."""

    column: str  # empty: of every number
    error: float
    is_relative: bool

    def __str__(self) -> str:
        told = f"{sized(100 * self.error)}%" if self.is_relative else f"± {sized(self.error)}"
        return f"{self.column} {told}" if self.column else told

    def is_met(self, forecast: Forecast) -> bool:
        """Whether so much is expected."""
        error = forecast.relative if self.is_relative else forecast.error
        return error is not None and error <= self.error


def found_within(
    keeper: Keeper, ask: Ask, wished: Within, most: Number | None, delta: Number | None = None
) -> Question:
    """The question at the least price that is expected to give such an error."""
    total = keeper.ledger.total
    wanted = wishes(wished)
    confirmed = Guarantee.read(**{total.currency: most}).amount if most is not None else keeper.policy.most
    first, last = _prices(keeper.policy.least, keeper.ledger.limit.amount)
    told = ", ".join(map(str, wanted))

    def priced(place: int) -> Question:
        price = decimal(_price_at(place))
        return ask(Guarantee.read(**{total.currency: price}, delta=delta))

    first, lowest = _first_that_can_be_asked(priced, first, last)
    paid = lowest if (least := _if_asked(priced, 0)) is None else least
    held = paid.earlier(keeper.ledger.data_version)
    if (
        held is not None
        and paid.stored() is not None
        and _meets(wanted, seen_in(paid.released(held)), NEAR_ENOUGH)
    ):
        return replace(paid, wished=f"{told}: free, an earlier release of yours is about as exact")

    def forecast(place: int) -> list[tuple[Wish, Forecast]]:
        return _matched(wanted, forecasts(priced(place)), wished)

    def is_enough(place: int) -> bool:
        return all(wish.is_met(each) for wish, each in forecast(place))

    if not is_enough(last):
        told = _out_of_reach(forecast(last), total.of(_price_at(last)))
        raise InvalidParameter("within", _shown(wished), told)
    low, high = first - 1, last
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if is_enough(middle) else (middle, high)
    question = priced(high)
    found = _matched(wanted, forecasts(question), wished)
    expected = "; ".join(f"{each.column} {_told(each)}" for _, each in found)
    question = replace(question, wished=f"{told}: {question.whole}, expected {expected}")
    if question.whole.amount > confirmed and question.stored() is None:
        cost = decimal(question.whole.amount)
        raise InvalidParameter(
            "within",
            _shown(wished),
            f"it would cost {total.currency} {cost}, more than the {decimal(confirmed)} that a question may "
            f"cost here unconfirmed. Nothing was spent. To confirm: --most {cost} (in Python: "
            f'most="{cost}", over HTTP: "most": "{cost}", in psql: SET sfumato.most = \'{cost}\')',
            problem="too expensive",
        )
    return question


def _if_asked(priced: Callable[[int], Question], place: int) -> Question | None:
    """The question at a price; None if it cannot be asked at that."""
    try:
        return priced(place)
    except (QueryRefused, InvalidParameter):
        return None


def _first_that_can_be_asked(
    priced: Callable[[int], Question], first: int, last: int
) -> tuple[int, Question]:
    """The least price, or the first of some above it, at which a question can be asked: where groups are
    private, a delta may be too small for a small epsilon."""
    for place in range(first, last, SOME):
        if (question := _if_asked(priced, place)) is not None:
            return place, question
    return last, priced(last)


def check_within(within: Within | None, most: Number | None, prices: Mapping[str, Number | None]) -> None:
    """Refuse a price beside an error, and a most without one."""
    if within is None:
        raise InvalidParameter(
            "most", most, "it is for questions that are asked for by their error: --within 50"
        )
    for name, given in prices.items():
        if given is not None:
            raise InvalidParameter(name, given, "give a price, or the error it shall buy (within), not both")


def _told(forecast: Forecast) -> str:
    """What is expected, in words."""
    assert forecast.error is not None
    relative = "" if forecast.relative is None else f" ({sized(100 * forecast.relative)}%)"
    return f"± {sized(forecast.error)}{relative}{f', {forecast.basis}' if forecast.basis else ''}"


def _meets(wishes: Sequence[Wish], found: Sequence[Forecast], slack: float) -> bool:
    """Whether a release is as exact as was wished, nearly."""
    looser = [replace(wish, error=wish.error * slack) for wish in wishes]
    matched = [(wish, each) for wish in looser for each in found if wish.column in ("", each.column)]
    return bool(matched) and all(wish.is_met(each) for wish, each in matched)


def _matched(
    wishes: Sequence[Wish], found: Sequence[Forecast], wished: Within
) -> list[tuple[Wish, Forecast]]:
    """Every wish with the numbers that it is about; refused where nothing can be said of one."""
    matched = []
    for wish in wishes:
        those = [each for each in found if wish.column in ("", each.column)]
        if not those:
            names = ", ".join(each.column for each in found)
            told = f"name one of its numbers: {names}" if names else NO_NUMBER
            raise InvalidParameter("within", _shown(wished), told)
        for each in those:
            _check_known(wish, each, wished)
            matched.append((wish, each))
    return matched


def _check_known(wish: Wish, forecast: Forecast, wished: Within) -> None:
    """Refuse to price an error of which nothing can be said before anything is paid."""
    name, told = forecast.column, ""
    if forecast.basis == UNKNOWN:
        told = (
            f"the error of {name} is not known before it is measured how much people have. Let the owner "
            "run sfumato measure, or give a price, such as --epsilon 0.1"
        )
    elif forecast.basis == DEPENDS:
        told = f"the error of {name} depends on the values around it. Give a price, such as --epsilon 0.1"
    elif forecast.basis == FROM_NOTHING:
        told = (
            f"the error of {name} depends on how many rows there are, which is not known. Ask once at a "
            "price, or let the owner declare about how many rows the table has (rows = 10000)"
        )
    elif wish.is_relative and forecast.value is None:
        told = (
            f"it is not known how large {name} will be. Give the error in its own unit, or ask once "
            "at a price"
        )
    if told:
        raise InvalidParameter("within", _shown(wished), told, problem="no price can be told")


def _out_of_reach(best: list[tuple[Wish, Forecast]], whole: Guarantee) -> str:
    """What the whole budget would give."""
    short = [each for wish, each in best if not wish.is_met(each)]
    told = "; ".join(
        f"{each.column} has no finite error" if each.error is None else f"{each.column} {_told(each)}"
        for each in short
    )
    return (
        f"no price reaches it. All of the budget, {whole}, would give {told}. "
        "Ask for a larger error, or for fewer groups"
    )


def _price_at(place: int) -> Fraction:
    """Prices of three digits, in order."""
    ten, digits = divmod(place, MANTISSAS)
    return Fraction(100 + digits) * Fraction(10) ** (FIRST + ten - 2)


def _prices(least: Fraction, most: Fraction) -> tuple[int, int]:
    """The first of these prices that is not below the least, and the last that is not above the most."""
    places = [bisect.bisect_left(range(PRICES), price, key=_price_at) for price in (least, most)]
    return places[0], max(places[1] - (_price_at(places[1]) > most), places[0])


def wishes(wished: Within) -> list[Wish]:
    """What was asked for: 50, "2%", "n=50, mean=2%", or the same as a mapping."""
    if isinstance(wished, Mapping):
        pairs = [(str(name), str(error)) for name, error in wished.items()]
        if sum(len(name) + len(error) for name, error in pairs) > LONGEST_WISH:
            raise InvalidParameter("within", f"{len(pairs)} errors", EXAMPLES)
    else:
        text = str(wished)
        if len(text) > LONGEST_WISH:
            raise InvalidParameter("within", f"{text[:20]}...", EXAMPLES)
        parts = [each.strip() for each in text.split(",")]
        pairs = []
        for each in parts:
            name, sign, error = each.rpartition("=")
            if sign and not name.strip():
                raise InvalidParameter("within", text, EXAMPLES)
            pairs.append((name.strip(), error.strip()))
    if not pairs or len({name for name, _ in pairs}) != len(pairs):
        raise InvalidParameter("within", _shown(wished), EXAMPLES)
    return [_wish(name, error, wished) for name, error in pairs]


NO_NUMBER = "give a price instead: it shows no number, or numbers that are made of several released ones"
EXAMPLES = 'write an error such as 50 or "2%", or one for each number: "n=50, mean=2%"'


def _wish(name: str, text: str, wished: Within) -> Wish:
    is_relative = text.endswith("%")
    digits = text.removesuffix("%").strip().removeprefix("±").strip()
    try:
        error = float(digits) if digits.isascii() and "_" not in digits and len(digits) < 40 else math.nan
    except ValueError:
        error = math.nan
    if not 0 < error < math.inf:
        raise InvalidParameter("within", _shown(wished), EXAMPLES)
    return Wish(name, error / 100 if is_relative else error, is_relative)


def _shown(wished: Within) -> str:
    """What was asked for, as text."""
    if isinstance(wished, Mapping):
        return ", ".join(f"{name}={error}" for name, error in wished.items())
    return str(wished)
