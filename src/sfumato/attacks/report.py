"""What audits found, for people: a chart in the terminal, and a page that stands alone."""

from __future__ import annotations

import html
import math
from typing import TYPE_CHECKING

from sfumato.attacks.audit import percent

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sfumato.attacks.audit import Audit

BAR, LINES = 40, 6  # of the chart in the terminal
WIDE, HIGH, LEFT, RIGHT, TOP, LOW = 640, 300, 56, 20, 24, 52  # of the picture: its size and margins
INK, GREY, BLUE, RED, GREEN, PAPER = "#22303f", "#6b7280", "#33507a", "#b3362b", "#2f6f4f", "#fbfaf7"
STYLE = f"""
body {{ margin: 0; background: {PAPER}; color: {INK}; font: 16px/1.5 system-ui, sans-serif; }}
main {{ max-width: 46rem; margin: 0 auto; padding: 2rem 1.25rem 4rem; }}
h1 {{ font-size: 1.6rem; margin: 0 0 .25rem; }}
h2 {{ font-size: 1.1rem; margin: 2.5rem 0 .5rem; overflow-wrap: anywhere; }}
.wide {{ overflow-x: auto; }}
table {{ border-collapse: collapse; font-size: .9rem; margin: 1rem 0; min-width: 100%; }}
th, td {{ text-align: right; padding: .3rem .6rem; border-bottom: 1px solid #d8d5cd; vertical-align: top; }}
th:first-child, td:first-child {{ text-align: left; overflow-wrap: anywhere; }}
dl {{ display: grid; grid-template-columns: max-content 1fr; gap: .25rem 1rem; font-size: .95rem; }}
dt {{ color: {GREY}; }}
dd {{ margin: 0; overflow-wrap: anywhere; }}
svg {{ width: 100%; height: auto; }}
.bad {{ color: {RED}; font-weight: 600; }}
.fine {{ color: {GREEN}; }}
.small {{ color: {GREY}; font-size: .9rem; }}
"""


def chart(audit: Audit) -> str:
    """The bound after so many outputs, as bars with the claim marked.

    >>> from sfumato.attacks.audit import audit
    >>> print(chart(audit(lambda x: x, samples=1000, claim=1)).splitlines()[0])
      outputs   epsilon at least (┃ is the claim)
    """
    history = audit.history
    points = [history[round(i * (len(history) - 1) / (LINES - 1))] for i in range(LINES)] if history else []
    points = list(dict.fromkeys(points))
    most = max([size for _, size in points] + [_claim(audit)]) or 1.0
    mark = round(BAR * _claim(audit) / most) if audit.claim is not None else None
    width = max([len("outputs")] + [len(f"{count:,d}") for count, _ in points])
    lines = [f"  {'outputs':>{width}}   epsilon at least" + (" (┃ is the claim)" if mark is not None else "")]
    for count, size in points:
        bar = ["█"] * round(BAR * size / most) + [" "] * (BAR - round(BAR * size / most))
        if mark is not None:
            bar[min(mark, BAR) - 1 if mark else 0] = "┃"
        lines.append(f"  {count:>{width},d}   {size:<8.4f} {''.join(bar)}".rstrip())
    return "\n".join(lines)


def table(audits: Sequence[Audit]) -> str:
    """One line for each audit."""
    name = max(len(audit.subject) for audit in audits)
    lines = [f"  {'subject':<{name}}  {'outputs':>10}  {'claim':>8}  {'at least':>8}  verdict"]
    for each in audits:
        drawn = "exact" if each.exact else f"{2 * each.drawn:,d}"
        claim = "-" if each.claim is None else f"{float(each.claim):.4f}"
        lines.append(
            f"  {each.subject:<{name}}  {drawn:>10}  {claim:>8}  {_number(each.epsilon):>8}  {each.verdict}"
        )
    return "\n".join(lines)


def page(audits: Sequence[Audit], *, title: str = "Audit", when: str = "") -> str:
    """A page of HTML that needs nothing else: no script, no font, no picture from elsewhere."""
    refuted = sum(each.is_violated for each in audits)
    told = f"{_several(len(audits), 'audit')}, {refuted or 'none'} refuted." + f" {when}." * bool(when)
    rows = "".join(
        f'<tr><td><a href="#a{i}">{_text(each.subject)}</a></td><td>{_drawn(each)}</td>'
        f"<td>{_shown_claim(each)}</td><td>{_number(each.epsilon)}</td><td>{_verdict(each)}</td></tr>"
        for i, each in enumerate(audits)
    )
    sure = _sure([1 - each.confidence for each in audits if not each.exact])
    return (
        f'<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{_text(title)}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n<main>\n"
        f"<h1>{_text(title)}</h1>\n<p>{_text(told)} {_text(sure)}</p>\n"
        f'<div class="wide"><table><thead><tr><th>subject</th><th>outputs</th><th>claimed epsilon</th>'
        f"<th>at least</th><th>verdict</th></tr></thead><tbody>{rows}</tbody></table></div>\n"
        f"{''.join(_card(i, each) for i, each in enumerate(audits))}"
        f'<p class="small">Refuted is a proof, up to the stated chance of error: the event tells the inputs '
        f"apart better than the claim allows. Not refuted proves nothing; it states how much was found. The "
        f"inputs must be neighbours under the relation that is claimed. In a plot, only the last point was "
        f"agreed on before the test; the others show how it got there.</p>\n</main>\n</body>\n</html>\n"
    )


def picture(audit: Audit) -> str:
    """The bound against the outputs in the test, as an SVG."""
    points = [(count, size) for count, size in audit.history if math.isfinite(size)]
    if not points:
        return ""
    first, last = math.log10(points[0][0]), math.log10(points[-1][0])
    span = max(last - first, 0.5)
    most = 1.15 * max([size for _, size in points] + [_claim(audit), 0.01])

    def place(count: float, size: float) -> tuple[float, float]:
        across = (math.log10(count) - first) / span
        return LEFT + (WIDE - LEFT - RIGHT) * across, TOP + (HIGH - TOP - LOW) * (1 - size / most)

    ground = HIGH - LOW
    parts = [f'<rect width="{WIDE}" height="{HIGH}" fill="white"/>']
    for value in _ticks(most):
        y = place(points[0][0], value)[1]
        parts.append(f'<path d="M{LEFT},{y:.1f}H{WIDE - RIGHT}" stroke="#e6e3dc"/>')
        parts.append(_label(LEFT - 6, y + 4, f"{value:g}", "end"))
    for power in range(math.ceil(first), math.floor(last) + 1):
        parts.append(_label(place(10**power, 0)[0], ground + 18, f"{10**power:,d}", "middle"))
    parts.append(
        _label((LEFT + WIDE - RIGHT) / 2, HIGH - 12, "outputs of either input in the test", "middle")
    )
    parts.append(f'<path d="M{LEFT},{TOP}V{ground}H{WIDE - RIGHT}" fill="none" stroke="{GREY}"/>')
    if audit.claim is not None:
        y = place(points[0][0], _claim(audit))[1]
        parts.append(f'<path d="M{LEFT},{y:.1f}H{WIDE - RIGHT}" stroke="{RED}" stroke-dasharray="6 4"/>')
        parts.append(_label(LEFT + 8, y - 6, f"claim: {_claim(audit):g}", "start", RED))
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in (place(*point) for point in points))
    parts.append(f'<polyline points="{path}" fill="none" stroke="{BLUE}" stroke-width="2"/>')
    x, y = place(*points[-1])
    parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" fill="{BLUE}"/>')
    parts.append(_label(x - 8, y + 20, f"at least {_number(audit.epsilon)}", "end", BLUE))
    words = f"Certified epsilon against outputs: at least {_number(audit.epsilon)} after {audit.samples:,d}"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDE} {HIGH}" role="img" '
        f'font-family="system-ui, sans-serif" font-size="12"><title>{_text(words)}</title>'
        f"{''.join(parts)}</svg>"
    )


def _sure(misses: Sequence[float]) -> str:
    if not misses:
        return "All bounds are computed from the distributions, without samples."
    if len(misses) == 1:
        return f"The bound is wrong with probability at most {_rate(misses[0])}."
    return (
        f"Each bound is wrong with probability at most {_rate(max(misses))}; any of them, with at most "
        f"{_rate(min(1.0, sum(misses)))}."
    )


def _card(i: int, audit: Audit) -> str:
    facts = [("verdict", _verdict(audit)), ("event", _text(audit.event))]
    if audit.exact:
        facts.append(("how", "from the distribution itself, without samples"))
    else:
        often, seldom = audit.counts
        facts += [
            ("on", f"{_text(repr(audit.likely))}: {often:,d} times in {audit.samples:,d}"),
            ("on", f"{_text(repr(audit.unlikely))}: {seldom:,d} times in {audit.samples:,d}"),
            ("bound", f"epsilon at least {_number(audit.epsilon)} at delta {audit.delta:g}, with "
                      f"{percent(audit.confidence)} confidence (Clopper and Pearson)"),
            ("drawn", f"{audit.drawn:,d} outputs of each input in {audit.seconds:.1f} s"),
        ]  # fmt: skip
    if audit.tried > 1:
        facts.append(
            ("searched", f"{audit.tried:,d} pairs of inputs; new outputs certified the best of them")
        )
    listed = "".join(f"<dt>{name}</dt><dd>{value}</dd>" for name, value in facts)
    return f'<h2 id="a{i}">{_text(audit.subject)}</h2>\n<dl>{listed}</dl>\n{picture(audit)}\n'


def _label(x: float, y: float, text: str, anchor: str, colour: str = GREY) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{colour}">{_text(text)}</text>'


def _ticks(most: float) -> list[float]:
    step = 10.0 ** math.floor(math.log10(most))
    step *= next(part for part in (0.2, 0.5, 1.0, 2.0) if most / (step * part) <= 6)
    return [round(i * step, 10) for i in range(int(most / step) + 1)]


def _verdict(audit: Audit) -> str:
    return f'<span class="{"bad" if audit.is_violated else "fine"}">{audit.verdict}</span>'


def _shown_claim(audit: Audit) -> str:
    return "–" if audit.claim is None else f"{float(audit.claim):.4f}" + _at(audit.delta)


def _at(delta: float) -> str:
    return f" at delta {delta:g}" if delta else ""


def _drawn(audit: Audit) -> str:
    return "exact" if audit.exact else f"{2 * audit.drawn:,d}"


def _claim(audit: Audit) -> float:
    return float(audit.claim or 0)


def _number(size: float) -> str:
    return f"{size:.4f}" if math.isfinite(size) else "∞"


def _rate(share: float) -> str:
    return f"{share:.2g}"


def _several(count: int, word: str) -> str:
    return f"{count} {word}" + "s" * (count != 1)


def _text(text: str) -> str:
    return html.escape(text)
