"""sf.connect: the face of sf.open, over HTTP; and DB-API 2.0."""

from __future__ import annotations

import datetime
import math
import socket
import threading
from contextlib import suppress
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import pytest
from tests.serving import Server, serving

import sfumato as sf
from sfumato import client
from sfumato.client import remote

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sfumato.curator.face import DatabaseFace

BY_REGION = "SELECT region, COUNT(*) AS n, AVG(age) AS a FROM patients GROUP BY region"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with serving(tmp_path_factory.mktemp("client"), "--no-deadlines") as running:
        running.let_in("ana")
        running.let_in("olga", "owner")
        yield running


@pytest.fixture
def database(server: Server) -> Iterator[client.RemoteDatabase]:
    url = f"http://ana@127.0.0.1:{server.http}/hospital"
    with sf.connect(url, token=server.tokens["ana"], epsilon="0.5") as found:
        yield found


def test_it_answers_as_the_library_does(server: Server, database: client.RemoteDatabase) -> None:
    here = sf.open(server.policy, analyst="ana")
    asked = database.sql(BY_REGION, epsilon="2")
    explained = here.sql(BY_REGION, epsilon="2").explain()
    assert repr(asked.explain()) == repr(explained)
    release = asked.release()
    same = here.sql(BY_REGION, epsilon="2").release()
    assert same.cost.amount == 0
    assert release.rows() == same.rows()
    assert release.rows("0.99") == same.rows("0.99")
    assert release.columns == same.columns
    assert release.df().equals(same.df())
    assert release.pl().equals(same.pl())
    assert release.arrow().equals(same.arrow())
    assert release.cost == sf.Guarantee.parse("2")
    assert asked.release().cost.amount == 0
    where, some = (
        "SELECT COUNT(*) AS n FROM patients WHERE region = ANY ($1) AND age > $2",
        (["north", "east"], 30),
    )
    given = database.sql(where, epsilon="2", parameters=some).release()
    assert given.rows() == here.sql(where, epsilon="2", parameters=some).release().rows()
    assert [line.split("  ")[0] for line in str(release).splitlines()][:1]
    assert str(release).splitlines()[:6] == str(same).splitlines()[:6]  # the table itself
    assert "Charged epsilon 2" in release.notes()[0]
    assert "north" in release._repr_html_()
    assert "95% interval" in release._repr_html_()


def asked_of(database: DatabaseFace, owner: DatabaseFace) -> list[Any]:
    """What anybody can see of the same acts, wherever the database is: numbers, types and texts."""
    question = database.sql(
        "SELECT region, COUNT(*) AS n FROM patients GROUP BY region", epsilon=Fraction(1, 4)
    )
    release = question.release()
    pair = [
        database.sql("SELECT COUNT(*) AS n FROM patients WHERE age > $1", epsilon="0.5", parameters=[n])
        for n in (41, 42)
    ]
    releases = database.batch(pair).release()
    suggestion = owner.suggest_epsilon("patients.age", advantage="0.1", within=2)
    frames = (release.df(), release.pl(), release.arrow())
    told = [
        release.rows(),
        release.rows(0.9),
        release.rows(Fraction(99, 100)),
        release.columns,
        release.csv(),
    ]
    told += [release.table(), release.table("0.9"), [each.shape for each in frames], release.notes()[1:]]
    told += [release.guarantee, release.receipt.number, release.receipt.head, question.text]
    told += [[each.rows() for each in releases], len(releases), releases[1].columns]
    told += [suggestion.epsilon, suggestion.budget, suggestion.sentence]
    told += [database.budget.total, database.budget.spent, database.budget.left, database.left]
    guarantees = (release.cost, release.left, release.guarantee, releases.cost, release.receipt.charged)
    assert all(isinstance(each, sf.Guarantee) for each in guarantees)
    assert {"rows", "charged", "left", "receipt"} <= set(release.as_dict())
    assert question.explain().as_dict()["question"] == question.text
    return told


def test_a_database_here_and_one_behind_a_server_have_one_face(
    server: Server, database: client.RemoteDatabase
) -> None:
    owner = sf.connect(f"http://127.0.0.1:{server.http}/hospital", token=server.tokens["olga"])
    paid = asked_of(database, owner)
    there = asked_of(database, owner)  # nothing is spent any more
    here = sf.open(server.policy, analyst="ana")
    assert asked_of(here, sf.open(server.policy)) == there
    assert paid[0] == there[0]


def test_an_error_is_sent_as_it_is_written(database: client.RemoteDatabase) -> None:
    question = database.sql("SELECT COUNT(*) AS n FROM patients WHERE age > 31", within=50)
    assert question.explain().as_dict()["within"].startswith("± 50: epsilon")
    release = question.release()
    assert release.cost.amount > 0
    assert question.release().cost.amount == 0
    again = database.sql("SELECT COUNT(*) AS n FROM patients WHERE age > 31", within={"n": 50})
    assert again.release().cost.amount == 0


def test_budget_history_and_schema(server: Server, database: client.RemoteDatabase) -> None:
    before = database.budget
    database.sql("SELECT COUNT(*) AS n FROM patients WHERE age > 17", epsilon="3").release()
    assert before.left.amount - database.budget.left.amount == 3
    assert "left for ana" in repr(database.budget)
    assert "WHERE age > 17" in database.history()[-1]["question"]
    assert [table["name"] for table in database.schema()["tables"]] == ["patients", "visits"]
    assert "patients (unit: patient_id)" in repr(database)
    owner = sf.connect(f"http://127.0.0.1:{server.http}/hospital", token=server.tokens["olga"])
    suggested = owner.suggest_epsilon("patients.age", within=2, advantage="0.1")
    assert suggested.epsilon > 0


def test_a_batch_is_one_charge(database: client.RemoteDatabase) -> None:
    questions = [
        database.sql(f"SELECT COUNT(*) AS n FROM patients WHERE age > {n}", epsilon="1") for n in (21, 22)
    ]
    before = database.budget.left.amount
    releases = database.batch(questions).release()
    assert len(releases) == 2
    assert before - database.budget.left.amount == 2
    assert database.batch(questions).release()[0].cost.amount == 0
    with pytest.raises(sf.InvalidParameter, match="give it to Batch"):
        releases[0].rows("0.9")


def test_refusals_are_the_exceptions_of_the_library(server: Server, database: client.RemoteDatabase) -> None:
    with pytest.raises(sf.UnknownName, match="Did you mean region") as refused:
        database.sql("SELECT regoin, COUNT(*) FROM patients GROUP BY regoin").release()
    assert refused.value.span == (47, 53)
    assert (refused.value.kind, refused.value.name, refused.value.nearest) == (
        "column",
        "regoin",
        ("region",),
    )
    with pytest.raises(sf.BudgetExceeded, match="Nothing was spent"):
        database.sql("SELECT COUNT(*) FROM patients", epsilon="100000").release()
    with pytest.raises(sf.InvalidParameter, match="the budget is in epsilon"):
        database.sql("SELECT COUNT(*) FROM patients", rho="1").release()
    with pytest.raises(sf.AccessDenied, match="this needs owner or auditor"):
        database.suggest_epsilon("patients.age", advantage="0.1")
    with pytest.raises(sf.AccessDenied, match="sfumato user add"):
        sf.connect(f"http://127.0.0.1:{server.http}/hospital", token="sfu_0_0")
    with pytest.raises(sf.AccessDenied):
        sf.connect(f"http://127.0.0.1:{server.http}/clinic", token=server.tokens["ana"])


@pytest.mark.parametrize("url", ["", "hospital", "ftp://a/b", "http:///b", "http://a", "http://a/b/c"])
def test_a_wrong_address_is_said(url: str) -> None:
    with pytest.raises(sf.InvalidParameter, match="write for example"):
        sf.connect(url, token="x")


def test_a_token_comes_from_the_url_or_the_environment(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SFUMATO_TOKEN", raising=False)
    with pytest.raises(sf.InvalidParameter, match="SFUMATO_TOKEN"):
        sf.connect(f"http://ana@127.0.0.1:{server.http}/hospital")
    assert (
        sf.connect(f"http://ana:{server.tokens['ana']}@127.0.0.1:{server.http}/hospital").name == "hospital"
    )
    monkeypatch.setenv("SFUMATO_TOKEN", server.tokens["ana"])
    assert sf.connect(f"http://ana@127.0.0.1:{server.http}/hospital").name == "hospital"


class Lossy:
    """A wire to the server that loses the answer to the first release that passes."""

    def __init__(self, port: int) -> None:
        self._port, self.lost = port, 0
        self._heard = socket.create_server(("127.0.0.1", 0))
        self.port = self._heard.getsockname()[1]
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self) -> None:
        while True:
            try:
                near, _ = self._heard.accept()
            except OSError:
                return
            far = socket.create_connection(("127.0.0.1", self._port))
            threading.Thread(target=self._forth, args=(near, far), daemon=True).start()

    def _forth(self, near: socket.socket, far: socket.socket) -> None:
        asked = threading.Event()
        threading.Thread(target=self._back, args=(near, far, asked), daemon=True).start()
        with suppress(OSError):
            while sent := near.recv(1 << 16):
                if b"/release" in sent:
                    asked.set()
                far.sendall(sent)
            far.shutdown(socket.SHUT_WR)

    def _back(self, near: socket.socket, far: socket.socket, asked: threading.Event) -> None:
        with suppress(OSError), near, far:
            while answer := far.recv(1 << 16):
                if asked.is_set() and not self.lost:
                    self.lost += 1
                    near.shutdown(socket.SHUT_RDWR)
                    return
                near.sendall(answer)

    def close(self) -> None:
        self._heard.close()


def test_a_lost_answer_is_asked_for_again_and_charged_once(server: Server) -> None:
    lossy = Lossy(server.http)
    there = sf.connect(f"http://ana@127.0.0.1:{lossy.port}/hospital", token=server.tokens["ana"])
    before = there.budget.left.amount
    release = there.sql("SELECT COUNT(*) AS n FROM patients WHERE age > 33", epsilon="1").release()
    assert lossy.lost == 1
    assert before - there.budget.left.amount == 1
    assert (
        release.rows()
        == there.sql("SELECT COUNT(*) AS n FROM patients WHERE age > 33", epsilon="1").release().rows()
    )
    there.close()
    lossy.close()


def test_a_distant_host_is_not_asked_without_tls() -> None:
    with pytest.raises(sf.InvalidParameter, match="plain=True"):
        sf.connect("http://ana@db.example:8470/hospital", token="sfu_a_b")


def test_a_server_that_is_not_there_is_said() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    with pytest.raises(sf.ServerError, match="does not answer"):
        sf.connect(f"http://ana@127.0.0.1:{port}/hospital", token="x")


def test_it_is_a_connection_of_db_api_2(database: client.RemoteDatabase) -> None:
    assert (client.apilevel, client.paramstyle, client.threadsafety) == ("2.0", "qmark", 2)
    cursor = database.cursor()
    assert cursor.rowcount == -1
    with pytest.raises(client.DataError):
        cursor.fetchone()
    given: tuple[Any, ...] = (
        datetime.date(2025, 3, 1),
        datetime.datetime(2026, 1, 1, 12),
        "surgery",
        10,
        99.5,
    )
    cursor.execute(
        "SELECT COUNT(*) AS n FROM visits -- is it ?\n"
        "WHERE day >= ? AND seen < ? AND ward = ? AND ward <> 'a?' AND cost > ? AND cost < ?",
        given,
    )
    assert cursor.description is not None
    assert [(column[0], column[1] in client.NUMBER) for column in cursor.description] == [("n", True)]
    assert cursor.rowcount == 1
    (row,) = cursor.fetchall()
    assert isinstance(row[0], (int, float))
    assert cursor.fetchone() is None
    cursor.execute(BY_REGION)
    assert [row[0] for row in cursor] == ["north", "east", "south", "west"]
    cursor.execute(BY_REGION)
    assert len(cursor.fetchmany(3)) == 3
    assert len(cursor.fetchmany(3)) == 1
    cursor.executemany("SELECT COUNT(*) AS n FROM patients WHERE age > ?", [(1,), (2,)])
    assert cursor.rowcount == 1
    cursor.close()
    database.commit()
    database.rollback()
    with pytest.raises(client.ProgrammingError):
        database.cursor().execute("DROP TABLE patients")
    assert issubclass(client.OperationalError, client.Error)
    assert issubclass(client.NotSupportedError, client.DatabaseError)


def test_cursors_give_intervals_if_they_are_asked_to(server: Server) -> None:
    there = sf.connect(
        f"http://ana@127.0.0.1:{server.http}/hospital",
        token=server.tokens["ana"],
        epsilon="1",
        intervals=True,
    )
    with there as connection:
        cursor = connection.cursor().execute("SELECT COUNT(*) AS n FROM patients")
        assert cursor.description is not None
        assert [column[0] for column in cursor.description] == ["n", "n_low", "n_high"]
        (row,) = cursor.fetchall()
        assert row[1] < row[0] < row[2]


def test_what_json_cannot_say_comes_back(database: client.RemoteDatabase) -> None:
    release = database.sql(
        "SELECT AVG(cost) AS a, STDDEV(cost) AS s FROM visits WHERE cost > 999.5", epsilon="0.01"
    ).release()
    (row,) = release.rows()
    assert all(value is None or math.isfinite(value) for value in (row["a"], row["s"]))
    assert row["s_high"] == math.inf or math.isfinite(row["s_high"])
    assert remote._read("2025-01-02", "date", 0) == datetime.date(2025, 1, 2)
    assert remote._read("2025-01-02T03:04:05", "timestamp", 0) == datetime.datetime(2025, 1, 2, 3, 4, 5)
    assert remote._read(None, "number", -1) == -math.inf
