"""What stands in a text and is not read is refused: no part of a node goes by unseen.

A mark that nobody knows is put on every node of accepted questions, one at a time. The question must then be
refused; where it is not, something like it could be left out in silence (`* EXCLUDE (x)` once was).
"""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from sfumato.errors import SfumatoError
from sfumato.queries import policy as policies
from sfumato.queries.statement import read
from sfumato.queries.syntax import Node

if TYPE_CHECKING:
    from collections.abc import Iterator

CORPORA = Path(__file__).parents[2] / "benchmarks" / "corpora"
NAMES = {"Identifier", "Literal", "Var", "TableAlias", "DataTypeParam"}  # that have no other parts
# By what stands around them: places that are rewritten before they are read. Of each it was looked at what
# the parser can put there.
SEEN = {
    *(
        ("Ordered", "this", "Column"),
        ("Group", "expressions", "Column"),
        ("Like", "this", "Column"),
    ),  # names of results
    *(("Where", "this", kind) for kind in ("And", "EQ", "Not")),  # taken apart for joins and EXISTS
    *(("And", "expressions", kind) for kind in ("EQ", "NEQ", "Not", "Paren")),
    *(("Select", "joins", "Join"), ("Select", "where", "Where"), ("Select", "from_", "From")),  # commas
    *(("LTE", "this", "Sub"), ("LTE", "expression", "Interval")),  # a difference of moments
    *(("First", "this", "Order"), ("Last", "this", "Order"), ("Window", "order", "Order")),
    *(("PercentileCont", "expression", "Array"), ("PercentileDisc", "expression", "Array")),
    *(("GroupingSets", "expressions", "Paren"), ("GroupingSets", "expressions", "Tuple")),
    *(
        ("Select", "distinct", "Distinct"),
        ("Distinct", "expressions", "Tuple"),
        ("Count", "this", "Distinct"),
    ),
    ("Select", "expressions", "Star"),  # of EXISTS, where it means nothing
    ("Select", "expressions", "Alias"),  # of a list of quantiles
    ("In", "query", "Subquery"),
    ("From", "this", "Subquery"),
    ("Fetch", "limit_options", "LimitOptions"),
    ("Table", "this", "GenerateSeries"),
}


def nodes(node: Node, around: tuple[str, str] = ("", "")) -> Iterator[tuple[Node, tuple[str, str]]]:
    yield node, around
    for role, value in node.arguments.items():
        for each in value if isinstance(value, list) else [value]:
            if isinstance(each, Node):
                yield from nodes(each, (node.kind, role))


@pytest.mark.parametrize("corpus", sorted(each.parent.name for each in CORPORA.glob("*/questions.toml")))
def test_no_part_of_a_node_goes_by_unseen(corpus: str) -> None:
    file = CORPORA / corpus / "policy.toml"
    policy = policies.parse(file.read_text(encoding="utf-8"), file)
    listed = tomllib.loads((CORPORA / corpus / "questions.toml").read_text(encoding="utf-8"))["question"]
    seen, unseen = 0, set()
    for each in listed:
        if not each["answerable"] or each.get("dialect", "duckdb") != "duckdb":
            continue
        statement = read(each["sql"])
        try:
            statement.plan(policy)
        except SfumatoError:
            continue
        for node, around in list(nodes(statement.tree)):
            if node.kind in NAMES:
                continue
            node.arguments["mark"] = True
            try:
                statement.plan(policy)
                unseen.add((*around, node.kind))
            except SfumatoError:
                seen += 1
            del node.arguments["mark"]
    assert unseen <= SEEN
    assert seen > 250
