"""`sfumato audit`: a lower bound on the epsilon of anything that can be run."""

from __future__ import annotations

import ast
import importlib
import importlib.util
import math
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from sfumato.attacks.audit import audit
from sfumato.cli.main import JSON, Friendly, print_json
from sfumato.errors import InvalidParameter

if TYPE_CHECKING:
    from collections.abc import Callable

REFUTED = 3  # exit code when the claim is refuted: a script can stop on it
WIDTH = 30


@click.command("audit", cls=Friendly)
@click.argument("target")
@click.option("--zero", default="0", show_default=True, help="An input, as Python writes it.")
@click.option("--one", default="1", show_default=True, help="A neighbouring input.")
@click.option("--claim", type=float, help="The epsilon that is claimed.")
@click.option("--delta", type=float, default=0.0, show_default=True, help="The delta that goes with it.")
@click.option("--samples", type=int, default=1_000_000, show_default=True, help="Outputs to draw in all.")
@click.option("--confidence", type=float, default=0.99, show_default=True, help="How sure the bound is.")
@JSON
def command(
    target: str,
    zero: str,
    one: str,
    claim: float | None,
    delta: float,
    samples: int,
    confidence: float,
    as_json: bool,
) -> None:
    """Look for an event that tells two neighbouring inputs apart better than is claimed.

    TARGET is file.py:function or module:function. The function takes an input and returns an output, or
    takes an input and a number and returns so many outputs at once, which is much faster. Exits with 3 if
    the claim is refuted.
    """
    found = audit(
        _loaded(target),
        _value("zero", zero),
        _value("one", one),
        claim=claim,
        delta=delta,
        samples=samples,
        confidence=confidence,
        watch=_bar if sys.stderr.isatty() else lambda _: None,
    )
    if sys.stderr.isatty():
        click.echo("\r" + " " * (WIDTH + 12) + "\r", err=True, nl=False)
    if as_json:
        print_json(
            {
                "epsilon": found.epsilon if math.isfinite(found.epsilon) else None,
                "delta": delta,
                "confidence": confidence,
                "claim": claim,
                "refuted": found.is_violated,
                "event": found.event,
                "likely": repr(found.likely),
                "counts": list(found.counts),
                "samples": found.samples,
                "seconds": round(found.seconds, 3),
            }
        )
    else:
        click.echo(repr(found))
    if found.is_violated:
        click.get_current_context().exit(REFUTED)


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
    except (ValueError, SyntaxError):
        raise InvalidParameter(name, text, "write a value as Python does, such as 0, (1, 2) or 'a'") from None


def _bar(done: float) -> None:
    full = round(done * WIDTH)
    click.echo(f"\r  {'█' * full}{'░' * (WIDTH - full)} {done:4.0%}", err=True, nl=False)
