"""What a session of the wire door does with a statement: settings, catalog, questions."""

from __future__ import annotations

import datetime
import re
from dataclasses import dataclass, field, replace
from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, Any, TypeVar

from sfumato.errors import AccessDenied, QueryRefused, SyntaxRefused
from sfumato.mechanisms.guarantee import decimal
from sfumato.queries import parameters
from sfumato.queries.statement import read
from sfumato.queries.syntax import Node
from sfumato.server.catalog import catalog as catalogs
from sfumato.server.catalog.lookup import Lookup
from sfumato.server.catalog.values import (
    BOOL,
    DATE,
    ELEMENT,
    FLOAT4,
    FLOAT8,
    INT2,
    INT4,
    INT8,
    NUMERIC,
    TEXT,
    TIMESTAMP,
    TIMESTAMPTZ,
    ResultField,
    array_of,
    fields,
    plain,
)
from sfumato.server.desk.retries import Wanted
from sfumato.server.postgres import cursors, frames
from sfumato.server.postgres.frames import complaint
from sfumato.server.postgres.settings import SessionSettings, assignment, bare, uncommented, words

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from sfumato.queries.statement import Statement
    from sfumato.server.catalog.evaluate import CatalogQuery
    from sfumato.server.desk.desk import Answered, Caller, Desk, Recent

T = TypeVar("T")
MOST_PREPARED = 500  # prepared statements, and portals, of a session
MOST_PORTAL_ROWS = 50_000  # that open portals hold
READS = ("SELECT", "WITH", "VALUES", "TABLE")
WRITES = (
    "ALTER", "ANALYZE", "ATTACH", "CALL", "CLUSTER", "COMMENT", "COPY", "CREATE", "DELETE", "DO", "DROP",
    "GRANT", "IMPORT", "INSERT", "INSTALL", "LOAD", "LOCK", "MERGE", "PRAGMA", "REFRESH", "REINDEX",
    "REVOKE", "TRUNCATE", "UPDATE", "VACUUM", "EXPORT", "DETACH", "USE",
)  # fmt: skip
NOTHING = {
    "DISCARD": "DISCARD ALL",
    "UNLISTEN": "UNLISTEN",
    "CHECKPOINT": "CHECKPOINT",
}


class StatementRefused(Exception):
    """A statement that is refused, with the code that PostgreSQL has for it; nothing is spent."""

    def __init__(self, sqlstate: str, words: str, hint: str = "", detail: str = "") -> None:
        self.sqlstate, self.words, self.hint, self.detail = sqlstate, words, hint, detail
        super().__init__(words)


@dataclass(slots=True)
class Result:
    """What a statement gives: rows, or only a tag."""

    tag: str
    fields: list[ResultField] | None = None
    rows: list[Any] = field(default_factory=list)
    shown: Answered | None = None  # a release, whose rows are written once
    count: int = 0
    level: str = ""  # of the intervals of its rows


@dataclass(frozen=True, slots=True)
class ParsedQuery:
    """A query that was read: about the catalog, or a question."""

    is_catalog: bool
    statement: Statement | None  # None if it is a query of asyncpg that the parser does not read
    refusal: SyntaxRefused | None = None  # if it cannot be read

    @property
    def tree(self) -> Node:
        """Its tree; whoever asks for it hears why there is none."""
        if self.refusal is not None:
            raise self.refusal.with_traceback(None)
        return Node(catalogs.TYPEINFO) if self.statement is None else self.statement.tree


@dataclass(slots=True)
class PreparedStatement:
    """A statement that waits for its values."""

    sql: str
    types: list[int]  # of its values; 0 where nobody said
    declared: tuple[int, ...] = ()  # the same as they came, before anything was inferred
    fields: list[ResultField] | None = None  # as they were described
    is_described: bool = False
    knobs: SessionSettings | None = None  # of a cursor: price and shape as they were set when it was declared


@dataclass(slots=True)
class Portal:
    """A statement with its values, or a cursor, and what of its result was sent."""

    prepared: PreparedStatement
    values: list[Any]
    formats: list[int] = field(default_factory=list)
    result: Result | None = None
    sent: int = 0
    size: int = 0  # bytes of its values
    is_held: bool = False  # lasts longer than its transaction
    is_kept: bool = False  # and has done so


class Statements:
    """The statements of one connection, and the settings that they change."""

    def __init__(self, parsed: Recent[ParsedQuery], desk: Desk) -> None:
        self.parsed, self.desk = parsed, desk
        self.caller: Caller | None = None
        self.token = ""
        self.knobs = SessionSettings()
        self.state = b"I"  # or T, in a transaction; E, in one that failed
        self.out = bytearray()  # what goes to the client
        self.prepared: dict[str, PreparedStatement] = {}
        self.portals: dict[str, Portal] = {}
        self.stopping = False
        self.now: tuple[str, int] = ("", 0)  # a statement, and where it begins
        self._farewell = ("", "", "")
        self._catalog: tuple[Any, catalogs.Catalog] | None = None

    # Statements ---------------------------------------------------------------------------------------

    async def perform(self, prepared: PreparedStatement, values: list[Any]) -> Result:
        """Do what a statement says."""
        sql = prepared.sql
        word = next(iter(words(sql)), "")
        self._check(word)
        if word in READS or sql.lstrip().startswith("("):
            found = await self._parsed(sql, prepared.knobs)
            if not found.is_catalog:
                return await self._question(sql, values, prepared)
            return await self._look_up(sql, found.tree, prepared, values)
        match word:
            case "EXPLAIN":
                return await self._explain(sql, values)
            case "DECLARE":
                return await self._declare(prepared, values)
            case "FETCH" | "MOVE":
                return await self._fetch(word, sql)
        return await self._session(word, uncommented(sql))

    def _check(self, word: str) -> None:
        """Refuse whoever was revoked, and all but its end in a transaction that failed."""
        self._check_person()
        if self.state == b"E" and word not in ("ROLLBACK", "COMMIT", "END", "ABORT", ""):
            told = "an earlier statement of this transaction failed"
            raise StatementRefused("25P02", told, "ROLLBACK first. What was released before stays released.")

    def _check_person(self) -> None:
        """Whoever was revoked while she was connected is out."""
        assert self.caller is not None
        person = self.desk.people.still(self.caller.person.name, self.token)
        if person is None:
            self.stopping, told = True, "the token of this session was revoked or has expired"
            self._farewell = ("57P01", told, "")
            raise AccessDenied(told)
        self.caller = replace(self.caller, person=person)

    async def _parsed(self, sql: str, knobs: SessionSettings | None = None) -> ParsedQuery:
        """A query, read once: whoever sends the same again finds it here."""
        dialect = (knobs or self.knobs).dialect
        key = (id(self.desk.database), dialect, sql)  # it depends on the tables of the policy
        if (known := self.parsed.get(key)) is not None:
            return known
        found = await self._in_turn(self._read, sql, dialect)
        self.parsed.put(key, found)
        return found

    async def _in_turn(self, act: Callable[..., T], *arguments: Any) -> T:
        assert self.caller is not None
        return await self.desk.in_turn(self.caller, act, *arguments)

    def _read(self, sql: str, spelled: str) -> ParsedQuery:
        if re.match(rf"WITH\s+RECURSIVE\s+{catalogs.TYPEINFO}\b", bare(sql)):
            return ParsedQuery(True, None)  # of asyncpg, which the parser does not read
        refused: SyntaxRefused | None = None
        for dialect in dict.fromkeys(("postgres", spelled)):
            try:
                found = self._read_in(sql, dialect)
            except SyntaxRefused as refusal:
                refused = refusal
                continue
            if found.is_catalog or dialect == spelled:
                return found
        return ParsedQuery(False, None, refused)

    def _read_in(self, sql: str, dialect: str) -> ParsedQuery:
        found = read(bare(sql), dialect)
        tables = [each for each in found.tree.walk() if each.kind == "Table"]
        named = {each.alias.lower() for each in found.tree.walk() if each.kind == "CTE"}
        own = {table.name.lower() for table in self.desk.database.policy.tables}
        return ParsedQuery(all(_is_catalog(each, own, named) for each in tables), found)

    async def _question(self, sql: str, values: list[Any], prepared: PreparedStatement) -> Result:
        assert self.caller is not None
        self.desk.check_role(self.caller, "owner", "analyst")
        knobs = prepared.knobs or self.knobs
        _check_given(sql, values)
        wanted = await self._wanted(sql, values, knobs, prepared.declared)
        if prepared.is_described:
            question = await self.desk.question(self.caller, wanted)
            if not fits(fields(question.plan, intervals=knobs.intervals), prepared.fields):
                raise StatementRefused("0A000", frames.CHANGED, "Prepare it again.")
        shown = await self.desk.ask(self.caller, wanted)
        level, intervals = knobs.level, knobs.intervals
        found = shown.forms.get(("fields", intervals))
        if found is None:
            found = shown.keep(("fields", intervals), fields(shown.release.plan, intervals=intervals))
        rows: list[Any]
        if ("rows", level) in shown.forms:
            rows = shown.forms["rows", level]
        else:
            rows = await self.desk.in_turn(self.caller, shown.release.rows, level)
            shown.keep(("rows", level), rows)
        self._notice(shown, rows, knobs)
        return Result(f"SELECT {len(rows)}", found, rows, shown, len(rows), level)

    async def _wanted(
        self, sql: str, values: list[Any], knobs: SessionSettings, types: Sequence[int] = ()
    ) -> Wanted:
        price: dict[str, Any] = dict(knobs.price())
        found = await self._parsed(sql, knobs)
        currency = self.desk.database.ledger.total.currency
        least = self.desk.database.policy.least
        used = tuple(plain(value) for value in values[: parameters.count(sql)])
        if price[currency] is None and await self._is_free(found, sql, used, {currency: decimal(least)}):
            price |= {"within": None, "most": None, currency: decimal(least)}  # names and types, public keys
        if price[currency] is None and price["within"] is None:
            usual = Decimal("0.1" if currency == "epsilon" else "0.01")
            much = decimal(max(Fraction(usual), least))
            other = "rho" if currency == "epsilon" else "epsilon"
            told, first = f"this question has no price: sfumato.{currency} is not set in this session", ""
            if price[other] is not None:
                told = f"you set sfumato.{other}, and this budget is counted in {currency}"
                first = f"RESET sfumato.{other}; "
            raise StatementRefused(
                "22023",
                told,
                f"{first}SET sfumato.{currency} = '{much}'; then EXPLAIN SELECT ... shows what that buys, "
                f"free of charge. When connecting: options=-c sfumato.{currency}={much}. What is left: SHOW "
                "sfumato.budget",
                "Nothing was spent.",
            )
        if found.refusal is not None:
            raise found.refusal.with_traceback(None)
        self._check_path(found.tree, knobs)
        self._check_zone(found.tree, types, knobs)
        return Wanted(bare(sql), **price, parameters=used, statement=found.statement)

    async def _is_free(
        self, found: ParsedQuery, sql: str, given: tuple[Any, ...], price: dict[str, str]
    ) -> bool:
        """Whether nothing is measured for it."""
        assert self.caller is not None
        wanted = Wanted(bare(sql), **price, parameters=given, statement=found.statement)
        try:
            return found.refusal is None and (await self.desk.question(self.caller, wanted)).is_free
        except QueryRefused:
            return False  # without a price that is said first

    @staticmethod
    def _check_zone(tree: Node, types: Sequence[int], knobs: SessionSettings) -> None:
        """Refuse moments with a zone where the session has another one than UTC: they would be others."""
        zone = knobs.show("timezone")
        if zone.upper().removeprefix("ETC/") in ("UTC", "GMT", "UCT", "ZULU", "UNIVERSAL", "GREENWICH"):
            return
        casts = [each["to"].text() for each in tree.walk() if each.kind == "Cast"]
        if TIMESTAMPTZ in types or {"TIMESTAMPTZ", "TIMESTAMPLTZ"} & set(casts):
            told = f"moments are in UTC here, and the session's time zone, {zone}, would make them others"
            hint = "SET TimeZone = 'UTC', and write moments in UTC."
            raise StatementRefused("0A000", told, hint, "Nothing was spent and no row was read.")

    def _check_path(self, tree: Node, knobs: SessionSettings) -> None:
        """Refuse a name without a schema that the session's search_path would look for in another one."""
        schemas = [each.strip().strip('"').lower() for each in knobs.show("search_path").split(",")]
        others = schemas[: schemas.index("public")] if "public" in schemas else schemas
        own = {table.name.lower(): table.name for table in self.desk.database.policy.tables}
        for node in _without_schema(tree, frozenset()):
            called = node.name.lower()
            meant = [own[f"{each}.{called}"] for each in others if f"{each}.{called}" in own]
            if not meant and "public" not in schemas and called in own:
                told = f"{node.name} is a table of the schema public, which is not in search_path"
                hint = f"Write public.{node.name}, or: SET search_path = public"
                raise StatementRefused("42P01", told, hint, "Nothing was spent and no row was read.")
            if meant:
                told = "search_path is not followed: a table without a schema is one of the schema public"
                hint = f"Write {meant[0]}, or: SET search_path = public"
                raise StatementRefused("0A000", told, hint, "Nothing was spent and no row was read.")

    def _notice(self, shown: Answered, rows: list[dict[str, Any]], knobs: SessionSettings) -> None:
        """What it cost and how wrong it may be."""
        if self.knobs.values["client_min_messages"].lower() in ("warning", "error", "fatal", "panic"):
            return
        level = knobs.level
        key = ("notice", level, knobs.intervals)
        said = shown.forms.get(key)
        if said is None:
            told = _errors(shown, rows, level)
            hint = "" if knobs.intervals else "SET sfumato.intervals = 'on' adds the ends as columns."
            said = complaint(b"N", "NOTICE", "00000", shown.release.cost_note(), told, hint)
            shown.keep(key, said)
        self.out += said

    async def _look_up(self, sql: str, found: Node, prepared: PreparedStatement, values: list[Any]) -> Result:
        assert self.caller is not None
        _check_given(sql, values)
        self.desk.admit(self.caller)
        changes = _configured(found, values)

        def looked() -> tuple[list[ResultField], list[Any]]:
            lookup, query = self._compiled(sql, found, prepared.types)
            return query.fields, list(lookup.run(query, values))

        fields_found, rows = await self.desk.look(self.caller, looked)
        for name, value, is_local in changes:
            here = is_local and self.state != b"I"
            self._tell((self.knobs.set_local if here else self.knobs.set)(name, value))
        return Result(f"SELECT {len(rows)}", fields_found, rows, count=len(rows))

    def _compiled(self, sql: str, found: Node, types: list[int]) -> tuple[Lookup, CatalogQuery]:
        lookup = Lookup(self._own_catalog(), sql, types)
        return lookup, lookup.types_known() if found.kind == catalogs.TYPEINFO else lookup.compile(found)

    def _own_catalog(self) -> catalogs.Catalog:
        assert self.caller is not None
        policy, settings = self.desk.database.policy, dict(self.knobs.values)
        key = (policy, tuple(settings.items()))
        if self._catalog is None or self._catalog[0] != key:
            self._catalog = (key, catalogs.of(policy, self.caller.person.name, settings))
        return self._catalog[1]

    def _tell(self, changed: list[tuple[str, str]]) -> None:
        """Tell the client of settings that it wants to know."""
        for name, value in changed:
            self.out += frames.status(name, value)

    async def _explain(self, sql: str, values: list[Any]) -> Result:
        asked = inner(sql)
        assert self.caller is not None
        if not is_read(asked):
            told = "EXPLAIN needs a SELECT"
            raise SyntaxRefused(told, "Write: EXPLAIN SELECT ...", sql=sql)
        if not (await self._parsed(asked)).is_catalog:
            wanted = await self._wanted(asked, values, self.knobs)
            explanation = await self.desk.explain(self.caller, wanted)
            lines = repr(explanation).splitlines()
        else:
            lines = ["answered from the policy; free"]
        rows = [(line.removeprefix("  "),) for line in lines]
        return Result("EXPLAIN", [ResultField("QUERY PLAN", TEXT)], list(rows), count=len(rows))

    # Portals and cursors ------------------------------------------------------------------------------

    def portal(self, name: str) -> Portal:
        """A portal or cursor that is open."""
        if name not in self.portals:
            raise StatementRefused("34000", f"there is no cursor or portal {name!r}")
        return self.portals[name]

    def _cursor(self, name: str) -> Portal:
        """A cursor, or a portal of a question; not one that fetches itself, which could wait for itself."""
        if name not in self.portals or not is_read(self.portals[name].prepared.sql):
            raise StatementRefused(
                "34000", f"there is no cursor {name!r}", "DECLARE it in the same transaction."
            )
        return self.portals[name]

    def check_room(self, size: int) -> None:
        """Refuse one more portal if there are too many, or their values too large."""
        if (
            len(self.portals) >= MOST_PREPARED
            or size + sum(p.size for p in self.portals.values()) > frames.AFTER
        ):
            raise StatementRefused(
                "53400", f"there are {MOST_PREPARED} open portals, or they hold too much", "Close some."
            )

    def end_portals(self, *, undone: bool = False) -> None:
        """A transaction is over: only cursors that are held stay, unless it was undone."""
        self.portals = {
            name: replace(each, is_kept=True)
            for name, each in self.portals.items()
            if each.is_kept or (each.is_held and not undone)
        }

    async def result_of(self, portal: Portal) -> Result:
        """What its statement gives: asked once."""
        if portal.result is not None:
            self._check("FETCH")
        else:
            held = sum(each.result.count for each in self.portals.values() if each.result is not None)
            if held > MOST_PORTAL_ROWS:
                raise StatementRefused(
                    "53400", f"open portals hold more than {MOST_PORTAL_ROWS} rows", "Close some."
                )
            portal.result = await self.perform(portal.prepared, portal.values)
            if portal.prepared.is_described and fits(portal.result.fields, portal.prepared.fields):
                portal.result.fields = portal.prepared.fields
        return portal.result

    async def _declare(self, prepared: PreparedStatement, values: list[Any]) -> Result:
        found = cursors.declared(bare(prepared.sql))
        if found is None or not is_read(found.sql):
            told = "unsupported DECLARE statement"
            raise SyntaxRefused(told, "Write: DECLARE name CURSOR FOR SELECT ...", sql=prepared.sql)
        if found.is_binary:
            raise StatementRefused(
                "0A000", "BINARY cursors are not supported here", "Ask for binary rows in FETCH."
            )
        if self.state == b"I" and not found.is_held:
            told = "a cursor without WITH HOLD needs a transaction"
            raise StatementRefused("25P01", told, "BEGIN first.")
        if found.name in self.portals:
            raise StatementRefused("42P03", f"cursor {found.name!r} already exists", "CLOSE it.")
        _check_given(found.sql, values)
        size = _size(values)
        self.check_room(size)
        now = SessionSettings(self.knobs.values)  # so that it costs what it was declared at
        asked = PreparedStatement(found.sql, prepared.types, prepared.declared, knobs=now)
        await self.fields_of(asked, values)  # free, and refuses what cannot be answered
        kept = found.is_held and self.state == b"I"
        self.portals[found.name] = Portal(asked, values, size=size, is_held=found.is_held, is_kept=kept)
        return Result("DECLARE CURSOR")

    async def _fetch(self, word: str, sql: str) -> Result:
        step = self._step(sql)
        portal = self._cursor(step.name)
        result = await self.result_of(portal)
        wanted, portal.sent = step.rows(portal.sent, result.count)
        if word == "MOVE":
            return Result(f"MOVE {len(wanted)}")
        rows = [result.rows[at] for at in wanted]
        return Result(f"FETCH {len(rows)}", result.fields, rows, count=len(rows))

    def _step(self, sql: str) -> cursors.CursorMove:
        if (step := cursors.step(uncommented(sql))) is None:
            raise SyntaxRefused("FETCH must name a cursor", "Write: FETCH 100 FROM name", sql=sql)
        return step

    def _shut(self, name: str) -> Result:
        if name.upper() == "ALL":
            self.portals.clear()
            return Result("CLOSE CURSOR ALL")
        if not name:
            raise SyntaxRefused("CLOSE must name a cursor", "Write: CLOSE name, or CLOSE ALL", sql="CLOSE")
        self._cursor(cursors.named(name))
        del self.portals[cursors.named(name)]
        return Result("CLOSE CURSOR")

    async def _session(self, word: str, sql: str) -> Result:
        """Statements about the session."""
        first, chained = words(sql), re.search(r"\bAND\s+CHAIN\b", sql, re.IGNORECASE) is not None
        if word in ("COMMIT", "ROLLBACK") and first[1:2] == ["PREPARED"]:
            raise StatementRefused("0A000", f"{word} PREPARED is not supported", f"Write: {word}")
        match word:
            case "":
                return Result("")
            case "BEGIN" | "START":
                self.state = b"T"
                self.knobs.start()
                if "ISOLATION" in sql.upper():
                    self._set(sql, local=True)
                return Result("BEGIN")
            case "COMMIT" | "END":
                return self._end("ROLLBACK" if self.state == b"E" else "COMMIT", chained=chained)
            case "ROLLBACK" | "ABORT":
                if "TO" in first[1:3]:
                    return self._savepoint(word, sql)
                return self._end("ROLLBACK", chained=chained)
            case "SAVEPOINT" | "RELEASE":
                return self._savepoint(word, sql)
            case "SET":
                self._set(sql, local="LOCAL" in first[:2])
                return Result("SET")
            case "RESET":
                self._tell(self.knobs.reset(bare(sql)[5:].strip().lower()))
                return Result("RESET")
            case "SHOW":
                return await self._show(bare(sql)[4:].strip().lower())
            case "CLOSE":
                return self._shut(bare(sql)[5:].strip())
            case "DEALLOCATE":
                return self._deallocate(sql)
        if word in NOTHING:
            if word == "DISCARD":
                self.prepared.clear()
                self.portals.clear()
                self.knobs.reset("all")
            return Result(NOTHING[word])
        if word in WRITES:
            told = f"{word} is not allowed: only SELECT is answered"
            hint = "For a file: psql --csv -c 'SELECT ...' > FILE" if word == "COPY" else ""
            raise StatementRefused("25006", told, hint, "Nothing was spent and no row was read.")
        if word in ("LISTEN", "NOTIFY", "PREPARE", "EXECUTE"):
            hint = (
                "Send the SELECT itself." if word in ("PREPARE", "EXECUTE") else "There are no notifications."
            )
            raise StatementRefused("0A000", f"{word} is not supported here", hint)
        raise SyntaxRefused(f"unsupported statement: {word}", "Write a SELECT.", sql=sql, span=(0, len(word)))

    def _deallocate(self, sql: str) -> Result:
        """DEALLOCATE name, or ALL."""
        found = re.fullmatch(
            r'DEALLOCATE\s+(?:PREPARE\s+)?(?:("(?:[^"]|"")+")|([\w$]+))', bare(sql), re.IGNORECASE
        )
        if found is None:
            raise SyntaxRefused("DEALLOCATE takes one name", "Write: DEALLOCATE name", sql=sql)
        if (found[2] or "").upper() == "ALL":
            self.prepared.clear()
            return Result("DEALLOCATE ALL")
        name = cursors.named(found[1] or found[2])
        if self.prepared.pop(name, None) is None:
            told = f"prepared statement {name!r} does not exist"
            raise StatementRefused("26000", told, "Name one that was prepared, or: DEALLOCATE ALL")
        return Result("DEALLOCATE")

    def _end(self, tag: str, *, chained: bool) -> Result:
        """A transaction is over; with AND CHAIN the next one begins."""
        is_next = chained and self.state != b"I"
        self.state = b"T" if is_next else b"I"
        self._tell(self.knobs.end(undone=tag == "ROLLBACK"))
        self.end_portals(undone=tag == "ROLLBACK")
        if is_next:
            self.knobs.start()
        return Result(tag)

    def _savepoint(self, word: str, sql: str) -> Result:
        """SAVEPOINT name, RELEASE name, ROLLBACK TO name: settings go back, releases do not."""
        if self.state == b"I":
            raise StatementRefused("25P01", "a savepoint needs a transaction", "BEGIN first.")
        found = re.search(r'("(?:[^"]|"")+"|\w+)$', bare(sql))
        name = "" if found is None else cursors.named(found[1])
        if word == "SAVEPOINT":
            self.knobs.save(name)
            return Result(word)
        told = self.knobs.go_back(name) if word != "RELEASE" else [] if self.knobs.release(name) else None
        if told is None:
            raise StatementRefused(
                "3B001", f"there is no savepoint {name!r}", "Name one of this transaction."
            )
        self._tell(told)
        self.state = b"T"
        return Result("RELEASE" if word == "RELEASE" else "ROLLBACK")

    def _set(self, sql: str, *, local: bool) -> None:
        if (found := assignment(sql)) is None:
            return
        name, value = found
        if value is None:
            self._tell(self.knobs.reset(name))
        elif local and self.state == b"I":
            told = "SET LOCAL needs a transaction"
            self.out += complaint(b"N", "WARNING", "25P01", told)
        else:
            self._tell((self.knobs.set_local if local else self.knobs.set)(name, value))

    async def _show(self, name: str) -> Result:
        if name == "all":
            rows: list[Sequence[Any]] = [(k, v, "") for k, v in sorted(self.knobs.values.items())]
            return Result(
                "SHOW",
                [ResultField(n, TEXT) for n in ("name", "setting", "description")],
                rows,
                count=len(rows),
            )
        if name == "sfumato.budget":
            return await self._budget()
        key = name.strip('"')
        return Result("SHOW", [ResultField(key, TEXT)], [(self.knobs.show(key),)], count=1)

    async def _budget(self) -> Result:
        assert self.caller is not None
        await self.desk.refresh()
        ledger, who = self.desk.database.ledger, self.caller.person.name
        total, spent, hers = await self.desk.read(lambda: (ledger.limit, ledger.spent, ledger.left_for(who)))
        self.desk.note(self.caller, "budget")
        names = ("database", "currency", "total", "spent", "left", "left_for_you")
        amounts = (total.amount, spent.amount, total.minus(spent).amount, hers.amount)
        row = (self.desk.name, total.currency, *map(decimal, amounts))
        return Result("SHOW", [ResultField(each, TEXT) for each in names], [row], count=1)

    # Describing ---------------------------------------------------------------------------------------

    async def infer(self, prepared: PreparedStatement) -> None:
        """The types of values that nobody gave: from what they are compared with."""
        if all(prepared.types) or next(iter(words(prepared.sql)), "") not in (*READS, "EXPLAIN", "DECLARE"):
            return
        sql = inner(prepared.sql)
        found = await self._parsed(sql, prepared.knobs)
        if found.is_catalog:
            lookup, _ = await self._in_turn(self._compiled, sql, found.tree, prepared.types)
            inferred = lookup.types
        else:
            inferred = await self._in_turn(self._inferred, found)
        inferred += [0] * len(prepared.types)
        prepared.types = [mine or other for mine, other in zip(prepared.types, inferred, strict=False)]

    def _inferred(self, found: ParsedQuery) -> list[int]:
        """The types of the values of a question: of what stands beside them, and text where nothing tells."""
        if found.statement is None:
            return []
        known = found.statement.types(self.desk.database.policy)
        lists, most = parameters.lists(found.tree), parameters.count(found.statement.written)
        types = [_OF_TYPE[known[n].name] if n in known else TEXT for n in range(1, most + 1)]
        return [array_of(oid) if n in lists else oid for n, oid in enumerate(types, 1)]

    async def shape_of(self, portal: Portal) -> list[ResultField] | None:
        """The columns of a portal: as they are, once it has a result."""
        if portal.result is not None:
            return portal.result.fields
        found, described = await self.fields_of(portal.prepared, portal.values), portal.prepared.fields
        return described if portal.prepared.is_described and fits(found, described) else found

    async def fields_of(
        self, prepared: PreparedStatement, values: list[Any] | None
    ) -> list[ResultField] | None:
        """The columns of a result, from the plan or the catalog: nothing is run."""
        sql = prepared.sql
        word = next(iter(words(sql)), "")
        if word == "EXPLAIN":
            return [ResultField("QUERY PLAN", TEXT)]
        if word == "FETCH":
            return await self.shape_of(self._cursor(self._step(sql).name))
        if word == "SHOW":
            return (await self._show(bare(sql)[4:].strip().lower())).fields
        if not is_read(sql):
            return None
        self._check_person()
        found = await self._parsed(sql, prepared.knobs)
        if found.is_catalog:
            return (await self._in_turn(self._compiled, sql, found.tree, prepared.types))[1].fields
        await self.desk.refresh()
        policy, most, tree = self.desk.database.policy, parameters.count(sql), found.tree
        given: list[Any]
        if values is None:
            keys, many = parameters.keys(tree, most, policy), parameters.lists(tree)
            types = [
                declared or oid for declared, oid in zip(prepared.declared, prepared.types, strict=False)
            ]
            types += [0] * (most - len(types))
            like = [
                _LIKE.get(ELEMENT.get(oid, oid), "a") if key is None else key
                for key, oid in zip(keys, types, strict=False)
            ]
            given = [(each,) if n in many else each for n, each in enumerate(like, 1)]
        else:
            given = [plain(value) for value in values[:most]]
        assert found.statement is not None
        statement = replace(found.statement.bound(given), today=self.desk.database.today)
        plan = await self._in_turn(statement.plan, policy)
        return fields(plan, intervals=(prepared.knobs or self.knobs).intervals)


def is_read(sql: str) -> bool:
    """Whether it is a query."""
    return next(iter(words(sql)), "") in READS or bare(sql).startswith("(")


def _check_given(sql: str, values: list[Any]) -> None:
    if (wanted := parameters.count(sql)) > len(values):
        raise StatementRefused("42P02", f"${wanted} has no value", "Write the value itself.")


def _size(value: Any) -> int:
    """About how many bytes a value takes."""
    if isinstance(value, (list, tuple)):
        return 8 + sum(map(_size, value))
    return len(value) if isinstance(value, (str, bytes)) else 8


def fits(found: list[ResultField] | None, described: list[ResultField] | None) -> bool:
    """Whether values of some columns can be sent as they were described: a whole number as any number."""
    if found is None or described is None or len(found) != len(described):
        return found is described
    return all(
        a.name == b.name and (a.oid == b.oid or (a.oid, b.oid) == (INT8, FLOAT8))
        for a, b in zip(found, described, strict=True)
    )


def _configured(tree: Node, values: list[Any]) -> list[tuple[str, str, bool]]:
    """SELECT set_config('name', 'value', false) is a SET: what it sets, and whether locally."""
    calls = [each for each in tree.walk() if each.kind == "Anonymous" and each.name.lower() == "set_config"]
    items = [each.this if each.kind == "Alias" else each for each in tree.nodes()]
    is_plain = not any(tree.get(name) is not None for name in ("from_", "where", "having", "limit"))
    found = []
    for call in calls:
        given = call.nodes()
        told = [each.text() if each.kind == "Literal" else "" for each in given[:2]]
        if len(given) == 3 and given[1].kind == "Placeholder" and given[1].name.isdecimal():
            told[1] = str(values[int(given[1].name) - 1])
        local = str(given[2].arguments.get("this")).lower() if len(given) == 3 else ""
        is_known = len(told) == 2 and told[0] and local in ("true", "t", "false", "f")
        if is_known and is_plain and any(call is each for each in items):
            found.append((told[0], told[1], local in ("true", "t")))
        elif not told or not told[0] or told[0].lower().startswith("sfumato"):
            problem = "set_config is not supported in this place"
            raise StatementRefused(
                "0A000", problem, "Write: SELECT set_config('name', 'value', false), or SET."
            )
    return found


_OF_TYPE: dict[str, int] = {
    **dict.fromkeys(("int4", "int8"), INT8),
    "numeric": NUMERIC,
    "float8": FLOAT8,
    "text": TEXT,
    "boolean": BOOL,
    "timestamp": TIMESTAMP,
    **dict.fromkeys(("date", "timestamptz"), DATE),
}
# values of the types that clients give, to describe a statement with
_LIKE: dict[int, Any] = {
    **dict.fromkeys((FLOAT4, FLOAT8), 0.5),
    NUMERIC: Decimal("0.5"),
    **dict.fromkeys((INT2, INT4, INT8), 1),
    BOOL: True,
    DATE: datetime.date(2000, 1, 1),
    TIMESTAMP: datetime.datetime(2000, 1, 1),
    TIMESTAMPTZ: datetime.datetime(2000, 1, 1),
}


def inner(sql: str) -> str:
    """What stands after EXPLAIN or DECLARE, if it stands there."""
    asked = re.sub(r"^EXPLAIN\s*(\([^)]*\)|(ANALYZE|VERBOSE)\s)*\s*", "", bare(sql), flags=re.IGNORECASE)
    found = cursors.declared(asked)
    return asked if found is None else found.sql


def _is_catalog(table: Node, own: set[str], named: set[str]) -> bool:
    schema = table["db"].name.lower() if table.get("db") else ""
    if schema in ("pg_catalog", "information_schema"):
        return True
    if table.this.kind != "Identifier":  # a function
        inner = table.this.expression if table.this.kind == "Dot" else table.this
        called = inner.text() or inner.called
        return any(word in called.lower() for word in ("series", "unnest", "explode", "pg_", "array"))
    name = table.name.lower()
    is_known = bool(schema) or bool(table.arguments.get("in_schema")) or name in own
    return not is_known and (name in named or name.startswith("pg_"))


def _errors(shown: Answered, rows: list[dict[str, Any]], level: str) -> str:
    """How wrong the numbers may be: for every column the widest of its intervals."""
    told = []
    for name in (each for each in shown.release.columns if f"{each}_low" in shown.release.columns):
        halves = [
            max(row[name] - row[f"{name}_low"], row[f"{name}_high"] - row[name])
            for row in rows
            if row[name] is not None
        ]
        if halves:
            told.append(f"{name} ± {max(halves):,.4g}")
    if not told:
        return ""
    widest = " (the widest row)" if len(rows) > 1 else ""
    return f"With probability {level}: {', '.join(told)}{widest}."


def _without_schema(node: Node, named: frozenset[str]) -> Iterator[Node]:
    """The tables that are named without a schema, and are no subqueries that WITH names there."""
    if (clause := node.get("with_")) is not None:
        for each in clause.nodes():
            yield from _without_schema(each, named)
            named |= {each.alias.lower()}
    is_name = node.kind == "Table" and node.this.kind == "Identifier" and not node.arguments.get("in_schema")
    if is_name and node.name.lower() not in named:
        yield node
    for part in node.parts:
        if part is not clause:
            yield from _without_schema(part, named)
