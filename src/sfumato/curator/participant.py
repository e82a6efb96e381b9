"""What is promised to those whom the data are about, and what is not: a page for them, in plain words."""

from __future__ import annotations

import datetime
import html
import math
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from sfumato.budget.accounting.filters import odometer
from sfumato.budget.ledger.entries import SECOND
from sfumato.curator import show
from sfumato.curator.promises import KEPT, anything, points
from sfumato.queries.units import units_of

if TYPE_CHECKING:
    from sfumato.budget.ledger.chain import Limit
    from sfumato.curator.database import Database
    from sfumato.curator.promises import Judge
    from sfumato.mechanisms import Guarantee

EVENTS = (0.001, 0.01, 0.1)  # chances of some harm, for which it is told what taking part can make of them


@dataclass(frozen=True)
class Page:
    """Headings, each with its paragraphs."""

    title: str
    sections: tuple[tuple[str, tuple[str, ...]], ...]

    @classmethod
    def of(cls, database: Database) -> Page:
        """The page of one database."""
        name = database.policy.name
        return cls(
            f"What {name} promises you",
            (
                ("What is promised", tuple(_promised(database))),
                ("What it means to take part", tuple(_harm(database))),
                ("What is not promised", (*NOT, *_mentioned(database))),
                ("How it is kept", HOW),
            ),
        )

    def as_dict(self) -> dict[str, Any]:
        """For programs."""
        return {"title": self.title, "sections": {head: list(said) for head, said in self.sections}}

    def text(self) -> str:
        """For a terminal."""
        lines = [f"  {self.title}", ""]
        for head, said in self.sections:
            lines += [f"  {head}", *show.paragraphs(said, indent=4), ""]
        return "\n".join(lines).rstrip()

    def html(self) -> str:
        """For a browser: one file, no script."""
        body = "".join(
            f"<h2>{html.escape(head)}</h2>" + "".join(f"<p>{html.escape(each)}</p>" for each in said)
            for head, said in self.sections
        )
        return (
            '<!doctype html><html lang="en"><head><meta charset="utf-8">'
            '<meta name="viewport" content="width=device-width, initial-scale=1">'
            f"<title>{html.escape(self.title)}</title><style>body{{font:18px/1.5 Georgia,serif;"
            "max-width:38em;margin:3em auto;padding:0 1em;color:#222}"
            "h1,h2{font-weight:normal;color:#7a4e2d}</style></head>"
            f"<body><h1>{html.escape(self.title)}</h1>{body}</body></html>\n"
        )


NOT = (
    "What is true of a whole group is not hidden, and it can be about you. If the numbers show that smoking "
    "causes cancer, then anyone who knows that you smoke learns something about your health. The same would "
    "be learned if you had not taken part: it does not come from your record.",
    "Nothing is promised about what others already know about you, or publish elsewhere.",
    "If the records of several people reveal something about each other, as in a family, what is learned "
    "about them together may be more than what is promised for one of them.",
)
HOW = (
    "No analyst sees a row. Every answer is a number about many people, with noise that hides "
    "any one of them.",
    "There is one budget for all answers to all analysts. When it is spent, there are no more answers "
    "about these data. It is not refilled automatically; every change that the owner makes to it, or to a "
    "promise, is recorded permanently.",
)


def _mentioned(database: Database) -> list[str]:
    """Who is only mentioned in the rows of others."""
    tables = dict.fromkeys(table.name for table, _ in database.policy.mentions)
    if not tables:
        return []
    return [
        f"Rows of {' and '.join(tables)} also mention people to whom they do not belong. If you are only "
        "mentioned in somebody else's row, the promises about that row are made to them, and not to you."
    ]


def _promised(database: Database) -> list[str]:
    budget = database.ledger.most
    said = [
        _judged(database, judge, own) for judge, own in zip(database.judges, database.ledger.own, strict=True)
    ]
    said += [f"{_yours(limit.told)}." for limit in database.said.still_kept if database.ledger.keeps(limit)]
    if not said:
        whole = Fraction(2) if budget.rho is None else Fraction(4)
        most = anything((budget.amount * whole, Fraction(0), budget.delta * 4), budget)
        said.append(
            "Whatever anyone asks, an attacker's confidence in any one fact about you can rise by at most "
            f"{points(most)}, even if the attacker knows every other record"
            f"{_average(database)}{_but(_missed(budget))}."
        )
    said.append(
        "This holds however clever the attacker is, and whatever is known or published about everybody else."
    )
    rows = [unit.table for unit in units_of(database.policy) if unit.kind == "row"]
    if rows and database.policy.units:
        said.append(
            f"In {' and '.join(rows)}, this is promised for each row separately. If several rows there are "
            "about you, it holds for each of them, and not for all of them together."
        )
    passed = [each.told for each in database.said.still_kept if not database.ledger.keeps(each)]
    said += [f"It was promised that {_to_you(told)}. More than that was released before." for told in passed]
    return [*said, *_withdrawn(database)]


def _judged(database: Database, judge: Judge, own: Limit) -> str:
    """A promise and what was gained so far; if that is more, then that is what is said."""
    lost = database.ledger.losses(judge.relation, judge.apart)
    so_far, promised = judge.gained(lost), points(float(judge.promise.advantage))
    if not judge.is_broken(own, lost):
        return f"{_yours(judge.told())}. So far it is at most {points(so_far)}."
    return (
        f"{_yours(judge.told(so_far))}. The owner promises {promised}, but what was released before that "
        f"already allows {points(so_far)}."
    )


def _withdrawn(database: Database) -> list[str]:
    """What was promised once: by this database, or by one that was about the same people."""
    said = []
    for at, name, limit in database.ledger.withdrawn():
        if any(own.implies(limit) for own in database.ledger.own):
            continue  # it is still promised, and more
        day = datetime.datetime.fromtimestamp(at / SECOND, datetime.UTC)
        whose = "" if name == database.policy.name else f" by {name}, which was about the same people,"
        told = _to_you(limit.told)
        said.append(f"Until {day:%Y-%m-%d} it was promised{whose} that {told}. It is no longer promised.")
    return said


def _to_you(told: str) -> str:
    """A promise, as it is said to somebody whom it is about."""
    return told.replace("somebody's", "your")


def _yours(told: str) -> str:
    """The same at the beginning of a sentence."""
    return f"{told[:1].upper()}{_to_you(told[1:])}"


def _missed(budget: Guarantee) -> Fraction:
    return KEPT if budget.rho is not None else Fraction(0)


def _but(chance: Fraction) -> str:
    """What is left out, in words."""
    return f", but for a chance of 1 in {int(1 / chance):,}" if chance else ""


def _average(database: Database) -> str:
    return ", on average over releases" if database.policy.budget.delta else ""


def _harm(database: Database) -> list[str]:
    budget = database.ledger.most
    size, missed = budget.amount, budget.delta
    if budget.rho is not None:
        size, missed = odometer(budget.rho, delta=KEPT), KEPT
    times = math.exp(min(float(size), 700.0))
    chances = [f"{_chance(p)} becomes at most {_chance(min(p * times, 1 - (1 - p) / times))}" for p in EVENTS]
    shown = f"{math.ceil(times * 100) / 100:.2f}" if times < 10 else f"{math.ceil(times):,d}"
    return [
        "Anything that might happen to you because of these answers, such as a higher premium or an "
        f"embarrassment, is at most {shown} times as likely as if you had not taken part{_but(missed)}.",
        f"In numbers: a chance of {'; one of '.join(chances)}.",
    ]


def _chance(share: float) -> str:
    """A probability, rounded up, in words.

    >>> _chance(0.01), _chance(0.0271828), _chance(1.0)
    ('1 in 100', '2.8 in 100', '1,000,000,000 in 1,000,000,000')
    """
    per = 100 if share >= 0.01 else 10 ** (math.ceil(-math.log10(share)))
    if share > 0.95:
        per = 10 ** min(math.ceil(-math.log10(max(1 - share, 1e-9))) + 1, 9)
    much = math.ceil(share * per * 10 - 1e-6) / 10
    return f"{much:,.10g} in {per:,}"
