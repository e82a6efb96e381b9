"""Which policy file it is that has a name on a ledger, and whether another one of that name stands elsewhere.

A name belongs to one policy: its total and its promises are those that were last said under that name. A
policy is known by where it lies, seen from the ledger, so that a folder may be moved with everything in it.
Other machines have such paths too, so beside a ledger on a server it is the machine and the whole path, and
only the files of this machine are looked at: servers may have a copy each.
"""

from __future__ import annotations

import os
import platform
from pathlib import Path
from typing import TYPE_CHECKING

from sfumato.budget.ledger.chain import Home
from sfumato.errors import PolicyError
from sfumato.queries import forms
from sfumato.queries import policy as policies

if TYPE_CHECKING:
    from sfumato.queries.policy import Policy


def home_of(policy: Policy) -> Home:
    """Where a policy lies, and what it calls its data."""
    place = f"{platform.node()}\n{_file(policy)}"
    if not isinstance(policy.ledger, str):
        place = os.path.relpath(_file(policy), policy.ledger.parent.resolve())
    return Home(place, policy.called)


def stands(policy: Policy, home: Home) -> bool:
    """Whether another policy of this name, on the same ledger, stands there now and says something else."""
    node, _, path = home.place.rpartition("\n")
    if node and node != platform.node():
        return False
    file = Path(path) if isinstance(policy.ledger, str) else policy.ledger.parent.resolve() / path
    try:
        other = policies.load(file)
    except PolicyError:  # it was moved, or is none any more
        return False
    same = other.name == policy.name and _ledger(other) == _ledger(policy)
    return same and not file.samefile(policy.file) and _said(other) != _said(policy)


def _file(policy: Policy) -> Path:
    """The file itself: a link is not followed, since what it points to may change with every update."""
    given = Path(policy.file)
    return given.parent.resolve() / given.name


def _ledger(policy: Policy) -> Path | str:
    return policy.ledger if isinstance(policy.ledger, str) else policy.ledger.resolve()


def _said(policy: Policy) -> tuple[object, ...]:
    """All that it says about data, budget and promises."""
    return forms.policy(policy), policy.database.resolve(), policy.budget, policy.promises
