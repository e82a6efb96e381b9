"""Made-up data with the columns of ClickBench's table of hits that its questions name.

A few sites, pages, phrases and addresses get most of the hits; nobody has more than 300.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

SITES = [
    *("news", "search.google", "auto", "music", "shop", "weather", "maps.google", "games", "travel", "video"),
    *("photo", "forum", "books", "cinema", "sport", "jobs", "homes", "health", "recipes", "dating"),
]
SUBJECTS = ["Headlines", "Google review", "Listings", "Questions", "Archive"]
WORDS = ["cheap", "best", "free", "new", "used", "old", "large", "small", "red", "quiet"]
THINGS = ["flats", "cars", "songs", "films", "shoes", "phones", "tickets", "maps", "books", "dogs"]
MODELS = ["iPhone", "iPad", "Galaxy", "Lumia", "Nexus", "Xperia", "Desire", "Optimus"]
WIDTHS = [1366, 1920, 1280, 1024, 1600, 1440, 768, 360]


def make(con: DuckDBPyConnection, rows: int, seed: int) -> None:
    """About so many hits of a twentieth as many users in July 2013."""
    users = max(rows // 20, 50)

    def chance(salt: str, of: str = "i") -> str:
        return f"(hash({of} || ' {salt} {seed}') % 4294967296 / 4294967296.0)"

    def number(count: int, salt: str, of: str = "i") -> str:
        return f"floor({count} * {chance(salt, of)} ** 3)::INTEGER"

    def pick(values: list[str] | list[int], salt: str, of: str = "i") -> str:
        return f"({values})[1 + {number(len(values), salt, of)}]"

    def hit(column: str, share: float) -> str:
        return f"({chance(column)} < {share})::SMALLINT AS {column}"

    con.execute(f"""
        CREATE TABLE hits AS
        WITH people AS (
            SELECT u, (hash(u || ' user {seed}') >> 2)::BIGINT AS UserID,
                1 + {number(120, "region", "u")} AS RegionID,
                -1062731776 + {number(users, "ip", "u")} AS ClientIP,
                {pick(WIDTHS, "width", "u")}::SMALLINT AS ResolutionWidth,
                {chance("phone", "u")} < 0.2 AS mobile,
                {pick(MODELS, "model", "u")} AS model,
                least(300, floor(8.5 / {chance("hits", "u")} ** 0.6))::INTEGER AS visits
            FROM range({users}) AS t(u)
        ),
        visits AS (
            SELECT *, u * 512 + unnest(range(visits)) AS i FROM people
        ),
        drawn AS (
            SELECT *, {number(2000, "page")} AS page,
                {number(400, "referer")} AS source,
                {chance("searched")} < 0.25 AS searched,
                {chance("typed")} < 0.4 AS typed,
                TIMESTAMP '2013-07-01 20:00:00' + to_seconds({number(86400, "second")})
                    + to_days(floor(31 * {chance("day")})::INTEGER) AS moment
            FROM visits
        )
        SELECT (hash(i || ' hit {seed}') >> 2)::BIGINT AS WatchID,
            UserID, RegionID, ClientIP, ResolutionWidth,
            (100 + 7 * (page % 20))::INTEGER AS CounterID,
            'http://' || ({SITES})[1 + page % 20] || '.example/page/' || page AS URL,
            ({SUBJECTS})[1 + page % 7 % 5] || ' ' || page AS Title,
            page * 4611686018427 + 17 AS URLHash,
            CASE WHEN typed THEN ''
                ELSE ['http://', 'https://www.'][1 + source % 2] || ({SITES})[1 + source % 20]
                    || '.example/from/' || source END AS Referer,
            CASE WHEN typed THEN 0 ELSE (source + 1) * 2305843009213 END AS RefererHash,
            CASE WHEN moment < TIMESTAMP '2013-08-01' THEN moment ELSE moment - to_days(31) END AS EventTime,
            EventTime::DATE AS EventDate,
            CASE WHEN mobile THEN 1 + hash(model) % 9 ELSE 0 END::SMALLINT AS MobilePhone,
            CASE WHEN mobile THEN model ELSE '' END AS MobilePhoneModel,
            CASE WHEN searched THEN concat_ws(' ', {pick(WORDS, "word")}, {pick(THINGS, "thing")})
                ELSE '' END AS SearchPhrase,
            CASE WHEN searched THEN 1 + {number(30, "engine")} ELSE 0 END::SMALLINT AS SearchEngineID,
            CASE WHEN {chance("advert")} < 0.05 THEN 2 + {number(40, "adverts")} ELSE 0 END::SMALLINT
                AS AdvEngineID,
            ({number(11, "traffic")} - 1)::SMALLINT AS TraficSourceID,
            greatest(ResolutionWidth - 20 * {number(10, "border")}, 0)::SMALLINT AS WindowClientWidth,
            (600 + 40 * {number(12, "height")})::SMALLINT AS WindowClientHeight,
            {hit("IsRefresh", 0.1)}, {hit("IsLink", 0.3)},
            {hit("IsDownload", 0.03)}, {hit("DontCountHits", 0.05)}
        FROM drawn""")
