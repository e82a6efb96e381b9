"""`sfumato audit`: a lower bound on the epsilon of anything that can be run."""

from __future__ import annotations

import ast
import contextlib
import datetime
import importlib
import importlib.util
import multiprocessing
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from sfumato.attacks import neighbours, report, standing
from sfumato.attacks.audit import audit, search
from sfumato.attacks.subjects import Fresh
from sfumato.cli.main import JSON, Friendly, print_json
from sfumato.errors import InvalidParameter
from sfumato.mechanisms.guarantee import plain

if TYPE_CHECKING:
    from collections.abc import Callable

    from sfumato.attacks.audit import Audit

REFUTED = 3  # exit code when the claim is refuted: a script can stop on it
WIDTH = 30


@click.command("audit", cls=Friendly)
@click.argument("target", required=False)
@click.option("--zero", help="An input, as a Python literal; default 0.")
@click.option("--one", help="A neighbouring input; default 1.")
@click.option("--search", "kind", metavar="KIND", help=f"Try many pairs of inputs: {neighbours.KINDS}.")
@click.option("--with", "given", multiple=True, metavar="NAME=VALUES", help="A parameter: epsilon=0.1,1,2.")
@click.option("--claim", metavar="EPSILON", help="The claimed epsilon, or the parameter that holds it.")
@click.option("--delta", type=float, default=0.0, show_default=True, help="The claimed delta.")
@click.option(
    "--samples", type=int, default=1_000_000, show_default=True, help="Total number of outputs to draw."
)
@click.option(
    "--confidence", type=float, default=0.99, show_default=True, help="Confidence level of the bound."
)
@click.option("--cores", type=click.IntRange(1, 2), help="Number of processes; default: one per input.")
@click.option("--html", "file", type=click.Path(dir_okay=False), help="Write an HTML report with a plot.")
@click.option("--ours", is_flag=True, help="Audit every mechanism of Sfumato instead of a function.")
@JSON
def command(
    target: str | None,
    zero: str | None,
    one: str | None,
    kind: str | None,
    given: tuple[str, ...],
    claim: str | None,
    delta: float,
    samples: int,
    confidence: float,
    cores: int | None,
    file: str | None,
    ours: bool,
    as_json: bool,
) -> None:
    """Search for an event that distinguishes two neighbouring inputs better than the claim allows.

    TARGET is file.py:function or module:function. The function takes an input and returns an output, or
    takes an input and a number and returns that many outputs at once, which is much faster. Exits with 3 if
    the claim is refuted.

    \b
    sfumato audit noisy.py:noisy --claim 1
    sfumato audit noisy.py:noisy --claim epsilon --with epsilon=0.1,1,10 --search numbers
    sfumato audit noisy.py:top --claim 1 --search vectors:5 --html report.html
    """
    if ours == (target is not None):
        problem = "" if ours else "no function given"
        advice = "name either a function (file.py:function) or --ours"
        raise InvalidParameter("target", target, advice, problem=problem)
    if file and not Path(file).absolute().parent.is_dir():
        raise InvalidParameter("html", file, "there is no such folder")
    shows = sys.stderr is not None and sys.stderr.isatty()
    watch = _bar if shows else lambda _: None
    with contextlib.redirect_stdout(sys.stderr):  # what a function prints is no part of the answer
        if ours:
            found = standing.audits(samples=samples, confidence=confidence, watch=watch)
        else:
            parameters = dict(_parameter(each) for each in given)
            pairs = _pairs(zero, one, kind)
            assert target is not None
            looked = search if len(pairs) > 1 or any(len(each) > 1 for each in parameters.values()) else _one
            found = [
                looked(
                    Fresh(lambda: _loaded(target), target),
                    pairs,
                    claim=_claim(claim, parameters),
                    delta=delta,
                    samples=samples,
                    confidence=confidence,
                    parameters=parameters,
                    cores=cores or _cores(),
                    watch=watch,
                )
            ]
    if shows:
        click.echo("\r" + " " * (WIDTH + 12) + "\r", err=True, nl=False)
    if file:
        title = "Sfumato's own mechanisms, audited" if ours else f"Audit of {target}"
        day = f"{datetime.datetime.now(datetime.UTC):%Y-%m-%d}"
        Path(file).write_text(report.page(found, title=title, when=day), encoding="utf-8")
    if as_json:
        print_json({"audits": [each.as_dict() for each in found]} if ours else found[0].as_dict())
    elif ours:
        click.echo(report.table(found))
    else:
        click.echo(f"{found[0]!r}\n\n{report.chart(found[0])}")
    if file and not as_json:
        click.echo(f"\n  the report is in {file}")
    if any(each.is_violated for each in found):
        click.get_current_context().exit(REFUTED)


def _one(subject: Fresh, pairs: neighbours.Pairs, *, parameters: dict[str, list[Any]], **how: Any) -> Audit:
    """An audit of the only pair there is."""
    values = {name: values[0] for name, values in parameters.items()}
    if callable(how["claim"]):
        how["claim"] = how["claim"](**values)
    return audit(subject, *pairs[0], parameters=values, **how)


def _pairs(zero: str | None, one: str | None, kind: str | None) -> neighbours.Pairs:
    if kind is None:
        return [(_value("zero", "0" if zero is None else zero), _value("one", "1" if one is None else one))]
    if zero is not None or one is not None:
        raise InvalidParameter("search", kind, "give --search, or --zero and --one, not both")
    return neighbours.named(kind)


def _parameter(text: str) -> tuple[str, list[Any]]:
    name, _, values = text.partition("=")
    if not name.isidentifier() or not values:
        raise InvalidParameter("with", text, "write NAME=VALUE or NAME=VALUE,VALUE")
    found = _value("with", f"({values},)")
    return name, list(found)


def _claim(text: str | None, parameters: dict[str, list[Any]]) -> Callable[..., float] | float | None:
    if text is None:
        return None
    if text in parameters:
        return lambda **values: _number(text, values[text])
    try:
        return plain(text)
    except ValueError:
        known = ", ".join(parameters) or "none is given"
        raise InvalidParameter(
            "claim", text, f"give a number, or the name of a --with parameter ({known})"
        ) from None


def _number(name: str, value: Any) -> float:
    if not isinstance(value, (int, float)):
        raise InvalidParameter("claim", value, f"--with {name}=... is not a number")
    return float(value)


def _cores() -> int:
    return 2 if (os.cpu_count() or 1) > 1 and "fork" in multiprocessing.get_all_start_methods() else 1


def _loaded(target: str) -> Callable[..., Any]:
    place, _, name = target.rpartition(":")
    if not place or not name:
        raise InvalidParameter("target", target, "write file.py:function or module:function")
    if place.endswith(".py"):
        path = Path(place)
        if not path.is_file():
            raise InvalidParameter("target", target, f"there is no file {place}")
        spec = importlib.util.spec_from_file_location(path.stem, path)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[spec.name] = module
        spec.loader.exec_module(module)
    else:
        sys.path.insert(0, str(Path.cwd()))
        try:
            module = importlib.import_module(place)
        except ImportError as error:
            raise InvalidParameter("target", target, f"it cannot be imported ({error})") from None
    subject: Callable[..., Any] | None = getattr(module, name, None)
    if subject is None or not callable(subject):
        raise InvalidParameter("target", target, f"{place} has no function {name}")
    return subject


def _value(name: str, text: str) -> Any:
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        raise InvalidParameter(name, text, "write a Python literal, such as 0, (1, 2) or 'a'") from None


def _bar(done: float) -> None:
    full = round(done * WIDTH)
    click.echo(f"\r  {'█' * full}{'░' * (WIDTH - full)} {done:4.0%}", err=True, nl=False)
