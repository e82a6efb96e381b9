"""Coins are fresh everywhere, Secrets stay sealed."""

from __future__ import annotations

import copy
import multiprocessing
import os
import pickle
import threading
import traceback

import pytest

from sfumato.errors import QueryFailed
from sfumato.exact.coins import SystemCoins, Tape
from sfumato.exact.secret import Secret, unseal

COINS = SystemCoins()


def test_forked_workers_draw_different_bits() -> None:
    """A fork copies all memory; coins made before it must not repeat in the children."""
    COINS.words(1000)  # used before the fork
    readers = []
    for _ in range(8):
        reader, writer = os.pipe()
        if (child := os.fork()) == 0:
            os.write(writer, COINS.bits(256).to_bytes(32, "little") + COINS.words(1000)[-4:].tobytes())
            os._exit(0)
        os.close(writer)
        readers.append((child, reader))
    drawn = []
    for child, reader in readers:
        drawn.append(os.read(reader, 1000))
        os.close(reader)
        assert os.waitpid(child, 0)[1] == 0
    drawn.append(COINS.bits(256).to_bytes(32, "little") + COINS.words(1000)[-4:].tobytes())
    assert {len(each) for each in drawn} == {64}
    assert len({each[:32] for each in drawn}) == 9
    assert len({each[32:] for each in drawn}) == 9


def _one_draw(_: int) -> int:
    return COINS.bits(128)


def test_a_forked_pool_draws_different_bits() -> None:
    with multiprocessing.get_context("fork").Pool(4) as pool:
        assert len(set(pool.map(_one_draw, range(64), chunksize=1))) == 64


def test_threads_draw_different_bits() -> None:
    found: list[int] = []
    threads = [threading.Thread(target=lambda: found.append(COINS.bits(128))) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(found)) == 16


@pytest.mark.parametrize("coins", [SystemCoins(), Tape([0, 1]), Tape.seeded(1)])
def test_coins_cannot_be_copied(coins: SystemCoins | Tape) -> None:
    for attempt in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(TypeError, match="same noise"):
            attempt(coins)


def test_system_coins_have_no_state_to_leak() -> None:
    assert vars(COINS) == {}


def test_bits_and_words_fill_their_range() -> None:
    assert {COINS.bits(2) for _ in range(200)} == {0, 1, 2, 3}
    assert COINS.bits(0) == 0
    assert len(COINS.words(3)) == 3
    assert len(set(COINS.words(5000).tolist())) == 5000
    with pytest.raises(ValueError, match="n >= 1"):
        COINS.below(0)


def test_a_secret_shows_nothing() -> None:
    secret = Secret(7731)
    assert repr(secret) == str(secret) == f"{secret}" == "<Secret>"
    for look in (
        lambda: secret == Secret(7731),
        lambda: bool(secret),
        lambda: hash(secret),
        lambda: pickle.dumps(secret),
        lambda: copy.copy(secret),
        lambda: copy.deepcopy(secret),
        lambda: vars(secret),
    ):
        with pytest.raises(TypeError) as caught:
            look()
        assert "7731" not in str(caught.value)


def test_secrets_are_worked_on_in_the_dark() -> None:
    assert unseal(Secret(20).map(lambda x: x + 1).beside(Secret("a"))) == (21, "a")
    assert unseal(Secret.of(lambda: 5)) == 5


@pytest.mark.parametrize(
    "failure", [ZeroDivisionError, MemoryError, RecursionError, SystemExit, GeneratorExit]
)
def test_a_failure_inside_leaves_one_fixed_error_and_no_chain(failure: type[BaseException]) -> None:
    def fail(value: int) -> int:
        raise failure(f"the private value is {value}")

    secret = Secret(int("7731"))  # the literal itself would stand in the traceback
    with pytest.raises(QueryFailed) as caught:
        secret.map(fail)
    error = caught.value
    assert str(error) == str(QueryFailed())
    assert error.__cause__ is None
    assert error.__context__ is None
    text = "".join(traceback.format_exception(error))
    assert "7731" not in text
    assert "private value" not in text
    frames = [frame.f_locals for frame, _ in traceback.walk_tb(error.__traceback__)]
    assert not any("7731" in repr(values) for values in frames[1:])


def test_an_interrupt_stays_an_interrupt_without_a_chain() -> None:
    def interrupted(_: int) -> int:
        raise KeyboardInterrupt("7731")

    with pytest.raises(KeyboardInterrupt) as caught:
        Secret(7731).map(interrupted)
    assert caught.value.args == ()
    assert caught.value.__context__ is None
