"""Draws the pictures of the docs: `python docs/pictures/draw.py` writes them beside itself.

Every number comes from the exact laws of the library and becomes a float only to be drawn. Coordinates keep
one decimal and coins are seeded, so the bytes are the same on every machine and a test can compare them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import sfumato.mechanisms as dp
from sfumato.attacks.audit import bound
from sfumato.budget.accounting import composition as rule
from sfumato.budget.accounting import filters, limits, rules
from sfumato.budget.accounting.loss import PrivacyLoss
from sfumato.curator import curves
from sfumato.curator.picture import DATA, LINE, LINE_STRONG, PictureColumn, alphas, picture
from sfumato.curator.veils import law_of
from sfumato.exact import numbers, samplers
from sfumato.exact.coins import Tape
from sfumato.mechanisms import accuracy as theorems
from sfumato.mechanisms import dependent, meaning
from sfumato.server.desk.deadlines import doublings
from sfumato.utility import gain as gains
from sfumato.utility.leakage import vulnerability
from sfumato.utility.optimal import optimal, path

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

Y = TypeVar("Y")
Point = tuple[float, float]

PAPER, PALE, BLUE, SKY = "#fbfaf7", "#e8eef7", "#33507a", "#8aa3c8"
GOLD, BROWN, INK, GREY, RULE = "#d9a441", "#7a5a16", "#22303f", "#57555c", "#d8d5cd"
ONE = dp.Distance(l0=1, linf=Fraction(1))
STEPS = [(0, 1), (1, 2)]  # the neighbours among 0, 1, 2


# Drawing: every helper returns SVG text ------------------------------------------------------------------


def svg(height: int, title: str, caption: str, *parts: str) -> str:
    """A picture on paper of its own, so that it reads the same on white and on dark pages."""
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 720 {height}" width="720" role="img" '
        f'font-family="system-ui, sans-serif" font-size="13">\n<title>{escape(title)}</title>\n'
        f"<desc>{escape(caption)}</desc>\n"
    )
    words = label((24, 32), title, INK, "start", 16, bold=True), note((24, height - 18), caption, colour=GREY)
    return head + "\n".join((box(0, 0, 720, height, PAPER), *words, *parts)) + "\n</svg>\n"


def number(x: float) -> str:
    # rounded twice: values that only a machine's last bit keeps apart fall on the same decimal
    return f"{round(round(x, 6), 1) + 0:g}"


def label(
    at: Point, text: str, colour: str = INK, anchor: str = "middle", size: int = 13, bold: bool = False
) -> str:
    style = f'text-anchor="{anchor}" fill="{colour}"' + f' font-size="{size}"' * (size != 13)
    style += ' font-weight="600"' * bold
    return f'<text x="{number(at[0])}" y="{number(at[1])}" {style}>{escape(text)}</text>'


def bold(at: Point, text: str, colour: str = INK) -> str:
    return label(at, text, colour, "start", bold=True)


def note(at: Point, *lines: str, colour: str = INK) -> str:
    return "\n".join(label((at[0], at[1] + 18 * i), text, colour, "start") for i, text in enumerate(lines))


def box(x: float, y: float, wide: float, high: float, fill: str, edge: str = "") -> str:
    place = f'x="{number(x)}" y="{number(y)}" width="{number(wide)}" height="{number(high)}"'
    return f'<rect {place} fill="{fill}"' + f' stroke="{edge}" stroke-width="3"' * bool(edge) + "/>"


def line(points: Iterable[Point], colour: str = INK, thick: int = 1, dash: str = "") -> str:
    path = " ".join(f"{number(x)},{number(y)}" for x, y in points)
    dashes = f' stroke-dasharray="{dash}"' * bool(dash)
    return f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="{thick}"{dashes}/>'


def dots(points: Iterable[Point], colour: str, size: int) -> str:
    path = "".join(f"M{number(x)} {number(y)}h0" for x, y in points)
    return f'<path d="{path}" stroke="{colour}" stroke-width="{size}" stroke-linecap="round"/>'


@dataclass(frozen=True, slots=True)
class Panel:
    """A rectangle of paper (left, top, width, height) and the numbers at its edges."""

    place: tuple[float, float, float, float]
    x: Point
    y: Point

    def at(self, x: float, y: float) -> Point:
        (left, top, wide, high), (first, last), (bottom, ceiling) = self.place, self.x, self.y
        return left + wide * (x - first) / (last - first), top + high * (ceiling - y) / (ceiling - bottom)

    def axes(self, x_name: str, y_name: str, x: Mapping[float, str], y: Mapping[float, str]) -> str:
        left, top, wide, high = self.place
        right, low = left + wide, top + high
        parts = [label((left - 36, top - 14), y_name, GREY, "start")]
        for height, text in ((self.at(self.x[0], value)[1], text) for value, text in y.items()):
            parts += [line([(left, height), (right, height)], RULE)]
            parts += [label((left - 6, height + 4), text, GREY, "end", 12)]
        parts += [label((self.at(v, self.y[0])[0], low + 18), t, GREY, size=12) for v, t in x.items()]
        parts += [label((left + wide / 2, low + 40), x_name, GREY)]
        return "\n".join((*parts, line([(left, top), (left, low), (right, low)])))

    def bar(self, x: float, y: float, colour: str, wide: float, shift: float = 0) -> str:
        middle, top = self.at(x, y)
        return box(middle + shift - wide / 2, top, wide, self.place[1] + self.place[3] - top, colour)

    def curve(self, points: Iterable[Point], colour: str, thick: int = 2, dash: str = "") -> str:
        return line([self.at(x, y) for x, y in points], colour, thick, dash)


def ticks(*values: float) -> dict[float, str]:
    return {value: f"{value:,.10g}".replace("-", "−") for value in values}


def powers(*exponents: int) -> dict[float, str]:
    raised = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
    return {k: f"10{str(k).translate(raised)}" if k else "1" for k in exponents}


def mass(law: dp.Law[Y], outcome: Y) -> float:
    return math.exp(law.log_mass(outcome).low)


def price(ratio: Fraction | None) -> str:
    return f"epsilon = ln({ratio}) = {float(numbers.log(ratio or 1).high):.3f}"


# The pictures --------------------------------------------------------------------------------------------


def geometric() -> str:
    noise = dp.Geometric(scale=Fraction(2))
    here, there = noise.law((10,)), noise.law((11,))
    panel = Panel((60, 82, 636, 250), (2.4, 18.6), (0, 0.28))
    parts = [panel.axes("release", "probability", ticks(*range(3, 19)), ticks(0, 0.05, 0.1, 0.15, 0.2, 0.25))]
    for z in range(3, 19):
        parts += [panel.bar(z, mass(here, (z,)), BLUE, 15, -8), panel.bar(z, mass(there, (z,)), GOLD, 15, 8)]
    sides = ((6, here, there, 8, "blue over gold is"), (15, there, here, -8, "gold over blue is"))
    for z, more, less, shift, text in sides:
        high, low = mass(more, (z,)), mass(less, (z,))
        (x, tip), (_, foot) = panel.at(z, high), panel.at(z, low)
        parts += [line([(x, tip), (x + 2 * shift, tip)]), line([(x + shift, foot), (x + shift, tip - 100)])]
        parts += [label((x, tip - 126), text), label((x, tip - 108), f"e^epsilon = {high / low:.2f}")]
    parts += [bold((280, 104), "answer 10", BLUE), bold((398, 104), "neighbour's answer 11", BROWN)]
    caption = "Geometric noise at epsilon 1/2 around two neighbouring answers."
    return svg(420, "A neighbour makes no release more than e^epsilon times as likely.", caption, *parts)


def gaussian() -> str:
    bell, unit = dp.Gaussian(sigma_squared=Fraction(100)).noise, dp.Gaussian(sigma_squared=Fraction(1))
    scale = 1 / (2 * math.asinh(1 / math.sqrt(2 * bell.variance)))  # then the variances are equal
    tent = dp.DiscreteLaplace(scale=Fraction(round(10**6 * scale), 10**6))
    left = Panel((62, 92, 270, 230), (-60, 60), (-10, 0))
    parts = [left.axes("noise", "probability", ticks(-60, -30, 0, 30, 60), powers(-10, -8, -6, -4, -2, 0))]
    parts += [left.curve([(y, math.log10(mass(tent, y))) for y in range(-60, 61)], GOLD)]
    parts += [left.curve([(y, math.log10(mass(bell, y))) for y in range(-60, 61)], BLUE)]
    parts += [bold(left.at(22, -1.7), "geometric", BROWN), bold(left.at(-16, -7), "Gaussian", BLUE)]
    far = [f"{200 * float(law.cdf(-41).high):.2g}%" for law in (tent, bell)]
    parts += [note((26, 388), "Standard deviation 10; beyond ±40", f"geometric {far[0]}, Gaussian {far[1]}")]
    right = Panel((418, 92, 270, 230), (0, 4), (-5, 0))
    parts += [right.axes("epsilon", "delta", ticks(0, 1, 2, 3, 4), powers(-5, -4, -3, -2, -1, 0))]
    epsilons = [Fraction(k, 32) for k in range(129)]
    bound = [(float(e), float(unit.bound(ONE).delta_at(e))) for e in epsilons]
    exact = [(float(e), float(unit.delta(epsilon=e, distance=ONE))) for e in epsilons]
    smooth = [(float(e), theorems.continuous_delta(epsilon=float(e), sigma=1, l2=1)) for e in epsilons]
    for curve, colour, dash in ((bound, GREY, "5 4"), (exact, BLUE, ""), (smooth, GOLD, "")):
        parts += [right.curve([(e, math.log10(delta)) for e, delta in curve if delta < 1], colour, 2, dash)]
    parts += [bold(right.at(1.7, -0.88), "bound from zCDP", GREY), bold(right.at(0.2, -3.85), "exact", BLUE)]
    parts += [bold(right.at(0.2, -4.3), "continuous formula", BROWN)]
    known = f"{exact[32][1]:.4f}, and the formula says {smooth[32][1]:.4f}."
    parts += [note((382, 388), "sigma² = 1, distance 1. At epsilon 1 delta is", known)]
    caption = "Left: noise of equal spread. Right: delta over epsilon, computed in three ways."
    return svg(456, "Gaussian noise has thinner tails, and its delta is known exactly.", caption, *parts)


def grid() -> str:
    answer, step = Fraction(37, 10), Fraction(1, 4)
    (release,) = dp.laplace(scale=Fraction(1), bits=2).law((answer,)).draw(Tape.seeded(8))
    steps = math.floor(answer / step)
    floor, noise = steps * step, int(release / step) - steps
    shown = (
        ("1. The exact answer", f"{float(answer):g}", answer, answer),
        ("2. Rounded down", f"{steps} steps of {step} = {float(floor):g}", answer, floor),
        ("3. Plus whole steps", f"{steps} + {noise} steps = {float(release):g}", floor, release),
    )
    parts = []
    for i, (name, text, before, after) in enumerate(shown):
        left = 20 + 232 * i
        panel = Panel((left + 16, 158, 184, 1), (3, 5), (0, 1))
        parts += [box(left, 56, 216, 140, PALE), bold((left + 16, 80), name)]
        parts += [note((left + 16, 102), text), panel.curve([(3, 0), (5, 0)], INK, 1)]
        parts += [line([(x, y - 4), (x, y + 4)]) for x, y in (panel.at(3 + k / 4, 0) for k in range(9))]
        parts += [label((panel.at(k, 0)[0], 184), f"{k}", GREY, size=12) for k in (3, 4, 5)]
        (old, y), (new, _) = panel.at(float(before), 0), panel.at(float(after), 0)
        parts += [dots([(old, y)], GREY, 7), dots([(new, y)], GOLD if i == 2 else BLUE, 13)]
        if old != new:
            back = new + (7 if new < old else -7)
            parts += [line([(old, 136), (new, 136), (back, 131), (new, 136), (back, 141)], BROWN, 2)]
    caption = "Which releases can occur does not depend on the answer: they are the points of the grid."
    return svg(242, "A real number is put on the grid before the noise.", caption, *parts)


def truncation() -> str:
    kinds = (("Moved to the ends", dp.Table.geometric), ("Divided by the mass inside", dp.Table.renormalised))
    parts = []
    for left, (name, kind) in zip((100, 450), kinds, strict=True):
        table = kind(ratio=Fraction(1, 2), size=3)
        worst = table.worst(STEPS)
        marked = [(secret, worst.output) for secret in worst.pair or ()]
        parts += [bold((left, 66), name), bold((left - 66, 404), price(worst.ratio), BROWN)]
        for secret, row in enumerate(table.rows):
            panel = Panel((left, 92 + 90 * secret, 240, 62), (-0.5, 2.5), (0, 0.75))
            parts += [label((left - 10, 150 + 90 * secret), f"answer {secret}", GREY, "end")]
            parts += [panel.curve([(-0.5, 0), (2.5, 0)], INK, 1)]
            for output, p in enumerate(row):
                x, y = panel.at(output, float(p))
                parts += [panel.bar(output, float(p), GOLD if (secret, output) in marked else BLUE, 40)]
                parts += [label((x, y - 5), str(p), size=12)]
                parts += [label((x, 352), f"release {output}", GREY, size=12)] * (secret == 2)
        first, second = (table.rows[secret][output or 0] for secret, output in marked)
        parts += [bold((left - 66, 386), f"Worst neighbours: {first} over {second} = {worst.ratio},", BROWN)]
    caption = "Geometric noise of ratio 1/2 on 0 to 2, for each of the three answers."
    return svg(454, "Moving what falls outside to the ends is free. Dividing is not.", caption, *parts)


def staircase() -> str:
    stairs = dp.Staircase.at(epsilon=Fraction(2), distance=dp.Distance(l0=1, linf=Fraction(10))).noise
    plain = dp.DiscreteLaplace(scale=Fraction(10, 2))
    panel, heights = Panel((60, 82, 636, 240), (-35.5, 35.5), (0, 0.14)), ticks(0, 0.04, 0.08, 0.12)
    parts = [panel.axes("noise", "probability", ticks(*range(-30, 31, 10)), heights)]
    parts += [panel.bar(y, mass(plain, y), GOLD, 7) for y in range(-35, 36)]
    parts += [panel.curve([(y + s, mass(stairs, y)) for y in range(-35, 36) for s in (-0.5, 0.5)], BLUE)]
    parts += [bold(panel.at(4, 0.1), f"staircase: mean absolute error {stairs.mean_error:.2f}", BLUE)]
    parts += [bold(panel.at(5, 0.05), f"geometric: mean absolute error {plain.mean_error:.2f}", BROWN)]
    return svg(410, "Stairs put more noise near zero.", "Both laws at epsilon 2 and distance 10.", *parts)


def cube() -> str:
    apart, together = dp.Geometric(scale=Fraction(16)), dp.Cube(scale=Fraction(8)).law((0, 0))
    larger = sum(1 - (1 - 2 * float(apart.noise.cdf(-m - 1).high)) ** 2 for m in range(500))
    # a level set of radius m has 8m points if it is a square, 4m if it is a diamond
    mean = sum(8 * m * m * mass(together, (m, 0)) for m in range(1, 500))
    shown: list[tuple[str, dp.Law[tuple[int, ...]], int, float, str, str]] = [
        ("Cube, scale 8", together, 8, mean, BLUE, BLUE),
        ("Two geometric draws, scale 16", apart.law((0, 0)), 4, larger, GOLD, BROWN),
    ]
    parts = []
    for i, (name, law, around, error, colour, ink) in enumerate(shown):
        left, coins, marks = 24 + 356 * i, Tape.seeded(7), ticks(-100, -50, 0, 50, 100)
        panel = Panel((left + 36, 118, 270, 270), (-100, 100), (-100, 100))
        parts += [panel.axes("noise on the first number", "noise on the second number", marks, marks)]
        radius, inside = 0, mass(law, (0, 0))
        while inside < 0.5:
            radius += 1
            inside += around * radius * mass(law, (radius, 0))
        parts += [dots([panel.at(*law.draw(coins)) for _ in range(400)], colour, 4)]
        a, b = radius, radius if around == 8 else 0
        outline = panel.curve([(a, b), (b, -a), (-a, -b), (-b, a), (a, b)], INK)
        parts += [outline, bold((left, 74), name, ink)]
        parts += [note((left, 456), "Half the noise is inside.", f"Mean of the larger error: {error:.1f}.")]
    epsilon = apart.bound(dp.Distance(l0=2, linf=Fraction(1))).epsilon
    assert epsilon == dp.Cube(scale=Fraction(8)).bound(dp.Distance(linf=Fraction(1))).epsilon
    caption = f"400 draws each at epsilon {epsilon}, where a person moves both numbers by 1."
    return svg(524, "One draw for both numbers errs less than a draw for each.", caption, *parts)


def selection() -> str:
    scores, heights = [2, 5, 8, 10, 12, 13, 14, 15], ticks(0, 0.1, 0.2, 0.3, 0.4, 0.5)
    panel = Panel((60, 82, 636, 240), (1, 16), (0, 0.6))
    parts = [panel.axes("score of the candidate", "probability", ticks(*scores), heights)]
    kinds: list[type[dp.Selection]] = [dp.Exponential, dp.PermuteAndFlip]
    for i, kind in enumerate(kinds):
        law = kind.at(epsilon=Fraction(1), distance=ONE).law(scores)
        masses = [(score, mass(law, j)) for j, score in enumerate(scores)]
        parts += [panel.bar(score, p, (GOLD, BLUE)[i], 15, 16 * i - 8) for score, p in masses]
        expected, top = sum(score * p for score, p in masses), masses[-1][1]
        text = f"{kind.name}: expected score {expected:.2f}, the best candidate in {top:.0%}"
        parts += [bold((76, 98 + 18 * i), text, (BROWN, BLUE)[i])]
    caption = "Eight candidates at epsilon 1, where a person moves a score by at most 1."
    return svg(410, "Permute and flip finds the best more often, at the same price.", caption, *parts)


def sparse_vector() -> str:
    watch = dp.SparseVector.at(epsilon=Fraction(1), distance=ONE, threshold=100, limit=3)
    answers = {i: 50 + 7 * (i % 5) - 5 * (i % 3) for i in range(1, 41)} | {10: 128, 11: 117, 23: 165, 35: 150}
    coins, same = Tape.seeded(93), Tape.seeded(93)  # the second tape shows the noise the first one hides
    state = watch.start(coins)
    threshold = watch.threshold + samplers.discrete_laplace(watch.threshold_scale, same)
    panel = Panel((60, 82, 500, 270), (0, 41), (0, 200))
    reach = dp.DiscreteLaplace(scale=watch.threshold_scale).window(Fraction(1, 20))
    (left, low), (right, high) = panel.at(0, 100 + reach[0]), panel.at(41, 100 + reach[-1])
    parts = [box(left, high, right - left, low - high, PALE)]
    parts += [panel.axes("question", "answer", ticks(1, 10, 20, 30, 40), ticks(0, 50, 100, 150, 200))]
    parts += [panel.curve([(0, threshold), (41, threshold)], BROWN, 2, "6 4")]
    parts += [note((568, panel.at(0, threshold)[1]), f"noisy: {threshold}", colour=BROWN)]
    parts += [note((568, low), "threshold 100,", "95% of its noise")]
    for i, answer in answers.items():
        if state.left:
            state, above = watch.reply(state, answer, coins)
            noisy = answer + samplers.discrete_laplace(watch.answer_scale, same)
            assert above == (noisy >= threshold)
            parts += [panel.curve([(i, answer), (i, noisy)], GREY, 1)]
            parts += [dots([panel.at(i, noisy)], GOLD, 12 if above else 7)]
            parts += [label(panel.at(i, max(answer, noisy) + 9), "alarm", BROWN, bold=True)] * above
    parts += [dots([panel.at(i, answer) for i, answer in answers.items()], BLUE, 5)]
    caption = "Blue: the exact answers. Gold: the same with noise, never shown. The third alarm ends it."
    return svg(440, "The price is that of three alarms, however many answers stay below.", caption, *parts)


def randomized_response() -> str:
    coin, half, quarter = dp.RandomizedResponse.two_coins(), Fraction(1, 2), Fraction(1, 4)
    assert (coin.keep, coin.other) == (half + half * half, half * half)
    parts = [box(24, 128, 106, 36, GOLD), label((77, 151), "first coin")]
    parts += [box(246, 182, 116, 36, GOLD), label((304, 205), "second coin")]
    for x, y, high in ((130, 146, -54), (130, 146, 54), (362, 200, -40), (362, 200, 40)):
        parts += [line([(x, y), (x + 116, y + high)], INK, 2)]
        parts += [label((x + 54, y + high / 2 + (-8 if high < 0 else 20)), str(half), anchor="end")]
    ends = ((246, 92, "heads: say the truth", half), (478, 160, "heads: say yes", quarter))
    for x, y, text, p in (*ends, (478, 240, "tails: say no", quarter)):
        parts += [box(x, y - 18, 160, 36, PALE), label((x + 80, y + 5), text)]
        parts += [bold((x + 172, y + 5), str(p), BROWN)]
    yes = f"If the truth is yes, yes is said with probability {half} + {quarter} = {coin.keep};"
    no = f"if it is no, with {coin.other}. The ratio is {coin.ratio}: {price(coin.ratio)}."
    slope, share = 1 / (coin.keep - coin.other), float(coin.estimate([600, 400])[1].share)
    caption = (
        f"From a share f of yes, {slope} f − {coin.other * slope} estimates the truth: 0.4 gives {share:g}."
    )
    parts += [note((24, 300), yes, no)]
    return svg(360, "Two coins hide one person, and the crowd can still be read.", caption, *parts)


def table() -> str:
    matrix = dp.Table.geometric(ratio=Fraction(1, 2), size=3)
    parts = [label((309, 62), "release", GREY), note((40, 214), "answer", colour=GREY)]
    for i, row in enumerate(matrix.rows):
        parts += [label(at, str(i), bold=True) for at in ((112, 140 + 74 * i), (189 + 120 * i, 86))]
        for j, p in enumerate(row):
            left, top = 130 + 120 * j, 98 + 74 * i
            red, green, blue = (round(a - b * p) for a, b in ((232, 181), (238, 158), (247, 125)))  # to BLUE
            parts += [box(left, top, 118, 72, f"#{red:02x}{green:02x}{blue:02x}")]
            parts += [label((left + 59, top + 42), str(p), (INK, PAPER)[p > 0.5], size=18, bold=True)]
    pairs = (("The worst neighbours", matrix.worst(STEPS)), ("The worst of all pairs", matrix.worst()))
    for y, (name, worst) in zip((120, 222), pairs, strict=True):
        first, second = worst.pair or (0, 0)
        said = f"Release {worst.output} is {worst.ratio} times as", f"likely under {first} as under {second}:"
        parts += [bold((512, y), name, BROWN), note((512, y + 20), *said, price(worst.ratio))]
        corner = 132 + 120 * (worst.output or 0), 100 + 74 * first
        parts += [box(*corner, 114, 142, "none", GOLD)] * (second - first == 1)
    caption = "The truncated geometric mechanism on 0, 1, 2 with ratio 1/2. Every row adds up to 1."
    return svg(366, "In every column, neighbours are at most a factor 2 apart.", caption, *parts)


def properties() -> str:
    panel, marks = Panel((62, 82, 390, 300), (0, 1), (0, 1)), ticks(0, 0.25, 0.5, 0.75, 1)
    parts = [panel.axes("belief before the release", "largest belief after it", marks, marks)]
    for i, (epsilon, colour) in enumerate((("2", BROWN), ("1", GOLD), ("0.5", BLUE), ("0.1", SKY))):
        tops = [meaning.ceiling(epsilon=Fraction(epsilon), prior=Fraction(k, 50)) for k in range(1, 50)]
        inner = [(k / 50, float(top.high)) for k, top in enumerate(tops, 1)]
        parts += [panel.curve([(0, 0), *inner, (1, 1)], colour)]
        parts += [line([(476, 128 + 26 * i), (500, 128 + 26 * i)], colour, 3)]
        parts += [note((508, 132 + 26 * i), f"at most {inner[24][1]:.3f} at epsilon {epsilon}")]
    parts += [panel.curve([(0, 0), (1, 1)], GREY, 1, "5 4"), line([(476, 232), (500, 232)], GREY, 1, "5 4")]
    parts += [note((508, 236), "0.5: nothing is learned"), bold((476, 106), "A belief of one half becomes")]
    caption = "This limits what a person's own row tells, not what is true of people at large."
    return svg(470, "Epsilon limits how far any belief about one person can rise.", caption, *parts)


def accuracy() -> str:
    counts = [round(10 ** (k / 8)) for k in range(49)]
    x = {math.log10(n): text for n, text in ticks(1, 100, 10**4, 10**6).items()}
    union = [(math.log10(n), theorems.union_radius(scale=1, count=n, miss=0.05)) for n in counts]
    exact = [(math.log10(n), theorems.exact_radius(scale=1, count=n, miss=0.05)) for n in counts]
    gaps = [(n, high - low) for (n, high), (_, low) in zip(union, exact, strict=True)]
    left, right = Panel((60, 92, 260, 230), (0, 6), (0, 20)), Panel((420, 92, 260, 230), (0, 6), (0, 0.03))
    parts = [left.axes("number of counts", "radius at 95%, in scales", x, ticks(0, 5, 10, 15, 20))]
    parts += [left.curve(union, GOLD, 6), left.curve(exact, BLUE)]
    parts += [bold(left.at(2.6, 3.2), "union bound", BROWN), bold(left.at(2.6, 1.2), "exact radius", BLUE)]
    parts += [right.axes("number of counts", "union bound minus exact radius", x, ticks(0, 0.01, 0.02, 0.03))]
    parts += [right.curve(gaps, INK), note(right.at(2.9, 0.022), f"{gaps[-1][1]:.4f} for a million")]
    caption = f"Laplace noise of scale 1: {exact[0][1]:.2f} for one, {exact[-1][1]:.2f} for all of a million."
    return svg(412, "A million counts need a radius less than six times that of one.", caption, *parts)


def smooth_sensitivity() -> str:
    median = dp.SmoothMedian(epsilon=Fraction(1), delta=Fraction(1, 10**6), low=0, high=100, size=101)
    spread, split = [50 + (i - 50) // 3 for i in range(101)], [0] * 56 + [100] * 45
    panel = Panel((60, 82, 636, 240), (-1.5, 60.5), (0, 105))
    parts = [
        panel.axes("replacements away", "sensitivity", ticks(*range(0, 61, 10)), ticks(0, 25, 50, 75, 100))
    ]
    for data, colour, text, at in (
        (spread, BLUE, "ages around 50", (26, 62)),
        (split, GOLD, "two camps", (8, 92)),
    ):
        local = [dependent.local_sensitivity(data, low=0, high=100, away=k) for k in range(61)]
        shrunk = [value * math.exp(-median.beta * k) for k, value in enumerate(local)]
        parts += [panel.curve(list(enumerate(map(float, local))), colour, 1, "3 3")]
        parts += [panel.curve(list(enumerate(shrunk)), colour, 3)]
        bound = float(dependent.smooth_sensitivity(data, low=0, high=100, beta=median.beta))
        parts += [
            bold(
                panel.at(*at), f"{text}: smooth {bound:.1f}, local {local[0]}", (BROWN, BLUE)[colour == BLUE]
            )
        ]
    caption = "Dotted: how far one more replacement could move the median. Solid: shrunk by e^-beta a step."
    return svg(410, "The largest shrunk value is a bound that changes slowly.", caption, *parts)


def composition() -> str:
    each, delta, apart = Fraction(1, 801), Fraction(1, 10**6), dp.Distances(ONE, ONE)
    whole = dp.Step(dp.Geometric(scale=1 / each), apart)
    fine = dp.Step(dp.laplace(scale=1 / each, bits=20), apart)
    curves: dict[str, list[Point]] = {}
    for count in sorted({round(10 ** (k / 10)) for k in range(41)}):
        found = rules.best((whole,), count=count, delta=delta).epsilons
        assert found["optimal"] == found["privacy loss"]  # one step of geometric noise is randomized response
        found["Laplace"] = PrivacyLoss.of((fine,)).times(count).epsilon(delta)
        for name, epsilon in found.items():
            curves.setdefault(name, []).append((math.log10(count), math.log10(epsilon)))
    panel = Panel((62, 82, 380, 320), (0, 4), (-3, 1.25))
    x = {math.log10(n): text for n, text in ticks(1, 10, 100, 1000, 10**4).items()}
    parts = [panel.axes("number of queries", "epsilon", x, powers(-3, -2, -1, 0, 1))]
    styles: dict[str, tuple[str, str, str, int, str]] = {
        "basic": ("basic (the sum)", INK, INK, 2, ""),
        "advanced": ("advanced", GOLD, BROWN, 2, ""),
        "zCDP": ("zCDP", BROWN, BROWN, 2, ""),
        "Renyi": ("Rényi", GREY, GREY, 2, "2 4"),
        "optimal": ("optimal, privacy loss", SKY, BLUE, 5, ""),
        "Laplace": ("privacy loss, Laplace", BLUE, BLUE, 1, ""),
    }
    limit = limits.corollary_count(each, total=Fraction(1), slack=delta)
    parts += [panel.curve([(0, 0), (4, 0)], GREY, 1, "5 4")]
    for n, text in ((math.floor(1 / each), "sum"), (limit, "corollary")):
        (at, low), (_, one) = panel.at(math.log10(n), -3), panel.at(0, 0)
        parts += [line([(at, low), (at, one)], GREY, 1, "5 4"), dots([(at, one)], GREY, 7)]
        parts += [label((at - 6, low - 28), text, GREY, "end", 12)]
        parts += [label((at - 6, low - 12), f"{n:,}", GREY, "end", 12)]
    for name in sorted(styles, key=lambda name: name != "optimal"):  # the thick one below the others
        _, colour, _, thick, dash = styles[name]
        parts += [panel.curve(curves[name], colour, thick, dash)]
    for i, (name, (text, colour, ink, _, _)) in enumerate(styles.items()):
        at, end = panel.at(*curves[name][-1])
        height = end if i == 0 else panel.at(4, math.log10(0.55))[1] + 20 * (i - 3)
        parts += [line([(at, end), (at + 24, height)], colour), bold((at + 30, height + 4), text, ink)]
        parts += [label((702, height + 4), f"{10 ** curves[name][-1][1]:.4f}", ink, "end", bold=True)]
    more = limits.advanced_count(each, total=Fraction(1), slack=delta)
    caption = (
        f"Epsilon 1/801 each, delta 10⁻⁶. Theorem 3.20 allows {more:,} at epsilon 1, its corollary {limit:,}."
    )
    return svg(490, "Ten thousand queries cost twelve by the sum, and half of one exactly.", caption, *parts)


def stopping() -> str:
    size, most, delta = Fraction(1, 2), 300, Fraction(1, 1000)
    claims = [float(rule.optimal(size, count=n).total(delta)) for n in range(1, most + 1)]
    up = 1 / (1 + math.exp(-size))

    def worth(count: int) -> float:
        """What `filters.stopping` returns; the claims are shared by all counts, or it would take minutes."""
        best = [0.0] * (count + 2)
        for n in range(count, 0, -1):
            now = [1 - math.exp(claims[n - 1] - (2 * ups - n) * float(size)) for ups in range(n + 1)]
            best = [max(now[ups], up * best[ups + 1] + (1 - up) * best[ups]) for ups in range(n + 1)]
        return up * best[1] + (1 - up) * best[0]

    assert math.isclose(worth(40), filters.stopping(size, count=40, delta=delta), rel_tol=1e-9)
    found = {n: worth(n) for n in (1, *range(10, most + 1, 10))}
    panel, heights = Panel((62, 82, 560, 240), (0, most), (0, 0.01)), ticks(*(k / 500 for k in range(6)))
    parts = [panel.axes("questions she may ask at most", "delta", ticks(*range(0, most + 1, 50)), heights)]
    parts += [panel.curve([(0, float(delta)), (most, float(delta))], GOLD)]
    parts += [panel.curve(list(found.items()), BLUE), dots([panel.at(200, found[200])], BLUE, 9)]
    parts += [bold(panel.at(186, found[200] + 0.0008), f"{found[200]:.4f}", BLUE)]
    x, y = panel.at(most, found[most])
    parts += [bold((x + 8, y + 4), "what it is", BLUE)]
    parts += [bold((x + 8, panel.at(0, float(delta))[1] + 4), "claimed", BROWN)]
    caption = "Responses of epsilon 1/2. What is claimed is the exact loss of as many as were asked."
    return svg(412, "An analyst who stops when it suits her turns 0.001 into 0.0076.", caption, *parts)


def auditing() -> str:
    law = dp.DiscreteLaplace(scale=Fraction(1))
    left, right = Panel((60, 92, 260, 230), (-5.5, 6.5), (0, 0.5)), Panel((420, 92, 260, 230), (2, 7), (0, 1))
    parts = [left.axes("output", "probability", ticks(-4, -2, 0, 2, 4, 6), ticks(0, 0.1, 0.2, 0.3, 0.4, 0.5))]
    for shift, colour, side in ((0, BLUE, -4.5), (1, GOLD, 4.5)):
        masses = {y: law.probability(y - shift) for y in range(-5, 7)}
        parts += [left.bar(y, mass, colour, 8, side) for y, mass in masses.items()]
    parts += [line([left.at(0.5, 0), left.at(0.5, 0.49)], INK, 2, "4 3")]
    parts += [bold(left.at(-5.3, 0.42), "at most 0:"), bold(left.at(-5.3, 0.36), "73% on 0", BLUE)]
    parts += [bold(left.at(-5.3, 0.31), "27% on 1", BROWN)]
    x = {float(power): f"10^{power}" for power in range(2, 8)}
    parts += [
        right.axes("outputs in the test", "certified share of epsilon", x, ticks(0, 0.25, 0.5, 0.75, 1))
    ]
    for epsilon, colour, at in ((3.0, BLUE, (2.1, 0.8)), (1.0, GOLD, (2.75, 0.62)), (0.1, INK, (4.2, 0.42))):
        p = 1 / (1 + math.exp(-epsilon))
        sizes = [10 ** (2 + k / 4) for k in range(21)]
        proved = [(n, bound(round(n * p), round(n * (1 - p)), round(n), miss=0.01)) for n in sizes]
        parts += [right.curve([(math.log10(n), size / epsilon) for n, size in proved], colour)]
        parts += [bold(right.at(*at), f"{epsilon:g}", BROWN if colour == GOLD else colour)]
    caption = "Right: what n outputs of each input certify at 99% of a true epsilon of 3, 1 and 0.1."
    return svg(
        412, "An event that tells two neighbours apart, and how surely samples show it.", caption, *parts
    )


def utility() -> str:
    """The mechanisms of examples/how_good_can_it_be.py."""
    size, half, epsilon = 11, Fraction(1, 2), numbers.log(2).low
    answers, belief = range(size), gains.uniform(range(size))
    right, near = gains.identity(answers), gains.nearness(answers)
    programs = [
        optimal(belief, each, epsilon=epsilon, neighbours=path(answers), program=True).table
        for each in (right, near)
    ]
    root = numbers.round_up(numbers.sqrt(half).high, 64)
    tables: list[tuple[str, dp.Table[int, Any], str]] = [
        ("truncated geometric", dp.Table.geometric(ratio=half, size=size), BLUE),
        ("program, to be right", programs[0], BLUE),
        ("program, to be near", programs[1], BLUE),
        ("exponential", dp.Table.renormalised(ratio=root, size=size), SKY),
        (
            "randomized response",
            dp.Table.of(answers, lambda x: {y: Fraction(1 + (x == y), size + 1) for y in answers}),
            GOLD,
        ),
    ]
    left, wide = Panel((176, 106, 230, 1), (0, 0.45), (0, 1)), Panel((450, 106, 230, 1), (0, 3.2), (0, 1))
    parts = []
    for panel, wanted, name in (
        (left, right, "Chance to be right: more is better"),
        (wide, near, "Mean distance: less is better"),
    ):
        start = panel.place[0]
        parts += [bold((start, 72), name)]
        for i, (_, table, colour) in enumerate(tables):
            value = abs(float(gains.utility(table, belief, wanted)))
            end, top = panel.at(value, 0)[0], 90 + 42 * i
            parts += [box(start, top, end - start, 28, colour)]
            parts += [label((end + 6, top + 19), f"{value:.3f}", INK, "start", 12)]
        value = abs(float(vulnerability(belief, wanted)))
        at = panel.at(value, 0)[0]
        parts += [line([(start, 84), (start, 296)]), line([(at, 84), (at, 300)], BROWN, 2, "4 3")]
        parts += [label((min(at, 628), 316), f"nothing released: {value:.3f}", BROWN, size=12)]
    parts += [label((166, 109 + 42 * i), name, INK, "end") for i, (name, *_) in enumerate(tables)]
    caption = (
        "A count from 0 to 10 at epsilon ln 2, all equally likely; every output is read as well as can be."
    )
    return svg(
        364, "At one epsilon mechanisms differ in use, and geometric noise is the best.", caption, *parts
    )


def deadlines() -> str:
    """Four questions to neighbouring databases: what the engine takes, and when the answer leaves."""
    runs = [("count, light", 0.18), ("count, with one heavy person", 0.42), ("late", 0.7), ("very late", 1.3)]
    panel = Panel((220, 70, 460, 190), (0, 2.1), (0, 4))
    parts = []
    for step, name in ((0.5, "deadline"), (1.0, "twice"), (2.0, "four times")):
        x = panel.at(step, 0)[0]
        parts += [line([(x, 66), (x, 266)], RULE, 1, "4 3"), label((x, 284), name, GREY, size=12)]
    parts += [label((panel.at(0, 0)[0], 284), "charge", GREY, size=12)]
    for i, (name, took) in enumerate(runs):
        due = 0.5 * 2 ** doublings(took, 0.5)
        start, middle, end = (panel.at(each, 0)[0] for each in (0, took, due))
        top = 76 + 48 * i
        parts += [label((208, top + 19), name, INK, "end")]
        parts += [box(start, top, middle - start, 28, SKY), box(middle, top, end - middle, 28, PALE, SKY)]
        parts += [dots([(end, top + 14)], BROWN if due > 0.5 else BLUE, 6)]
    words = "The engine runs (dark); the release waits, sealed (light); then it is stored and sent (dot)."
    return svg(330, "An answer leaves when public facts say, not when it is ready.", words, *parts)


def release() -> str:
    """Four counts at epsilon 0.05, as `release.plot()` draws them."""
    noise, regions = dp.DiscreteLaplace(scale=Fraction(20)), ("north", "east", "south", "west")
    half = noise.window(Fraction(1, 20))[-1]
    rows: list[dict[str, Any]] = [
        {"region": name, "patients": n, "patients_low": n - half, "patients_high": n + half}
        for name, n in zip(regions, (596, 345, 337, 324), strict=True)
    ]
    columns = (
        PictureColumn("region", is_number=False, is_key=True),
        PictureColumn(
            "patients", is_number=True, has_interval=True, from_zero=True, law=law_of(Fraction(1), noise)
        ),
    )
    drawn = picture(columns, lambda _: rows, "0.95")
    (shown,) = drawn.panels
    high, panel = 44, Panel((236, 66, 456, 176), (shown.low, shown.high), (0, 4))
    parts = [line([(24, 66 + high * i), (692, 66 + high * i)], LINE) for i in range(5)]
    for at, text in shown.ticks:
        x, low = panel.at(at, 0)
        parts += [line([(x, 66), (x, low)], LINE_STRONG if at == 0 else LINE)]
        parts += [label((x, low + 18), text, GREY, size=12)]
    for i, row in enumerate(shown.rows):
        top, middle = 66 + high * i + 10, 66 + high * i + 26
        parts += [label((24, middle), drawn.labels[i], INK, "start")]
        parts += [label((112, middle), row.text, INK, "end", bold=True)]
        parts += [label((208, middle), row.ends, GREY, "end", 12)]
        for ring, alpha in zip(row.veil, alphas(row.veil), strict=True):
            (left, _), (right, _) = panel.at(ring.low, 0), panel.at(ring.high, 0)
            veil = box(left, top, right - left, 24, DATA)
            parts += [veil.replace("/>", f' fill-opacity="{alpha:.4f}"/>')]
        for end, arm in ((row.low, 4), (row.high, -4)):
            x = panel.at(end, 0)[0]
            parts += [line([(x + arm, top), (x, top), (x, top + 24), (x + arm, top + 24)], DATA)]
        x = panel.at(row.value or 0, 0)[0]
        parts += [line([(x, top - 3), (x, top + 27)], DATA, 3)]
    caption = "The tick is the released count. It fades as its noise does; brackets are the 95% interval."
    return svg(312, "North has the most patients; the other three are too close to rank.", caption, *parts)


def error_and_price() -> str:
    """What `explanation.svg()` draws of a count at epsilon 0.05."""
    prices = curves.prices_around(Fraction(1, 20), Fraction(13, 100))

    def off(epsilon: Fraction) -> tuple[float, ...]:
        noise = dp.DiscreteLaplace(scale=1 / epsilon)
        return tuple(float(noise.window(tail)[-1]) for tail in curves.TAILS)

    points = tuple((float(each), off(each)) for each in prices)
    found = curves.PriceCurve("patients", "noise", "epsilon", 0.05, 0.13, False, points)
    question = "SELECT region, COUNT(*) AS patients FROM patients GROUP BY region"
    return curves.drawn(question, [found])


def pictures() -> dict[str, str]:
    """The text of every picture, by the name of its file."""
    drawn = [accuracy, cube, gaussian, geometric, grid, properties, randomized_response, selection]
    drawn += [smooth_sensitivity, sparse_vector, staircase, table, truncation, composition, stopping]
    drawn += [auditing, utility, deadlines, release, error_and_price]
    return {f"{draw.__name__.replace('_', '-')}.svg": draw() for draw in drawn}


if __name__ == "__main__":
    for name, text in pictures().items():
        (Path(__file__).parent / name).write_text(text, encoding="utf-8", newline="\n")
