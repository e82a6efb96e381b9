"""Relations looked at and narrowed: whose rows they have, which tables stand in them, which rows are kept."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from sfumato.queries.domains import both
from sfumato.queries.expressions import Scalar, fields, parts_of
from sfumato.queries.relations import Among, Fold, Join, Placed, Relation, Scan, Union, Where, prefix

if TYPE_CHECKING:
    from sfumato.queries.declared import Kind


def filtered(relation: Relation, condition: Scalar) -> Relation:
    """The rows for which a condition holds: one node, however often it is asked for.

    Where only so many rows of a person are joined, conditions on one side choose among them first.
    """
    if isinstance(relation, Join) and relation.is_cut:
        kept: list[Scalar] = []
        left, right = relation.left, relation.right
        for part in parts_of(condition):
            used = {prefix(each) for each in fields(part)}
            if used and used <= numbers_of(left):
                left = filtered(left, part)
            elif used and used <= numbers_of(right) and not relation.outer:
                right = filtered(right, part)
            else:
                kept.append(part)
        relation = replace(relation, left=left, right=right)
        for part in kept:
            relation = _where(relation, part)
        return relation
    return _where(relation, condition)


def _where(relation: Relation, condition: Scalar) -> Relation:
    if isinstance(relation, Where):
        return Where(relation.relation, both(relation.condition, condition))
    return Where(relation, condition)


def unit_kind(relation: Relation) -> Kind | None:
    """How persons are named in a relation; None if its rows are their own units, or public."""
    match relation:
        case Scan(_, _, owner):
            while owner is not None and owner.owner is not None:
                owner = owner.owner
            return None if owner is None else owner.kind
        case Where(inner) | Among(inner):
            return unit_kind(inner)
        case Join(_, left, right):
            return unit_kind(left) or unit_kind(right)
        case Union(_, parts):
            return unit_kind(parts[0][0])
        case Fold(_, inner) | Placed(_, inner):
            return unit_kind(inner)


def numbers_of(relation: Relation) -> set[int]:
    """The relations whose columns can be used, by number."""
    match relation:
        case Where(inner) | Among(inner):
            return numbers_of(inner)
        case Placed(number, inner):
            return {number} | numbers_of(inner)
        case Join(number, left, right):
            return {number} | numbers_of(left) | numbers_of(right)
    return {relation.number}
