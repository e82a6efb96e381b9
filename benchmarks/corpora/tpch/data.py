"""Made-up data with the tables, columns and domains of TPC-H.

Values are skewed: the first of a list is the most common, so that narrow questions find rows in small tables.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

NATIONS = [
    *("ALGERIA", "ARGENTINA", "BRAZIL", "CANADA", "EGYPT", "ETHIOPIA", "FRANCE", "GERMANY", "INDIA"),
    *("INDONESIA", "IRAN", "IRAQ", "JAPAN", "JORDAN", "KENYA", "MOROCCO", "MOZAMBIQUE", "PERU", "CHINA"),
    *("ROMANIA", "SAUDI ARABIA", "VIETNAM", "RUSSIA", "UNITED KINGDOM", "UNITED STATES"),
]
REGION_OF_NATION = [0, 1, 1, 1, 4, 0, 3, 3, 2, 2, 4, 4, 2, 4, 0, 0, 0, 1, 2, 3, 4, 2, 3, 3, 1]
REGIONS = ["AFRICA", "AMERICA", "ASIA", "EUROPE", "MIDDLE EAST"]
SEGMENTS = ["MACHINERY", "AUTOMOBILE", "HOUSEHOLD", "FURNITURE", "BUILDING"]
PRIORITIES = ["3-MEDIUM", "1-URGENT", "5-LOW", "2-HIGH", "4-NOT SPECIFIED"]
MODES = ["AIR", "RAIL", "TRUCK", "REG AIR", "FOB", "SHIP", "MAIL"]
INSTRUCTIONS = ["DELIVER IN PERSON", "NONE", "TAKE BACK RETURN", "COLLECT COD"]
BRANDS = [f"Brand#{m}{n}" for m in range(1, 6) for n in range(1, 6)]
TYPES = (
    ["PROMO", "STANDARD", "ECONOMY", "SMALL", "LARGE", "MEDIUM"],
    ["BRUSHED", "PLATED", "POLISHED", "BURNISHED", "ANODIZED"],
    ["COPPER", "NICKEL", "STEEL", "BRASS", "TIN"],
)
SIZES = ["LG", "SM", "MED", "JUMBO", "WRAP"]
BOXES = ["BOX", "PACK", "PKG", "CASE", "BAG", "DRUM", "JAR", "CAN"]
COLOURS = ["azure", "ivory", "plum", "salmon", "khaki", "lemon", "olive", "orchid", "rose", "forest", "green"]
WORDS = ["special", "pending", "unusual", "express", "final", "bold", "quick", "regular"]
THINGS = ["deposits", "packages", "requests", "accounts", "ideas", "Customer", "Complaints"]


def make(con: DuckDBPyConnection, rows: int, seed: int) -> None:
    """About so many lineitems, a quarter as many orders, a fortieth as many customers."""
    customers, parts, suppliers = max(rows // 40, 60), max(rows // 30, 200), max(rows // 600, 50)

    def chance(salt: str) -> str:
        return f"(hash(i || ' {salt} {seed}') % 4294967296 / 4294967296.0)"

    def whole(low: int, high: int, salt: str) -> str:
        return f"({low} + floor({chance(salt)} * {high - low + 1}))::INTEGER"

    def money(low: int, high: int, salt: str) -> str:
        return f"({whole(low, high, salt)} / 100)::DECIMAL(15,2)"

    def pick(values: list[str], salt: str) -> str:
        return f"({values})[1 + floor({len(values)} * {chance(salt)} ** 2)::INTEGER]"

    def text(salt: str) -> str:
        words = [pick(words, f"{salt}{k}") for k, words in enumerate((WORDS, THINGS, WORDS, THINGS))]
        return f"concat_ws(' ', {', '.join(words)})"

    def nation(salt: str) -> str:
        return f"floor(25 * {chance(salt)} ** 2)::INTEGER"

    def phone(salt: str) -> str:
        digits = f"{whole(100, 999, salt + '3')}, {whole(1000, 9999, salt + '4')}"
        return f"printf('%d-%d-%d', 10 + {nation('nation')}, {digits})"

    def table(name: str, source: str, **columns: str) -> None:
        listed = ", ".join(f"{value} AS {column}" for column, value in columns.items())
        con.execute(f"CREATE TABLE {name} AS SELECT {listed} FROM {source}")

    table(
        "region",
        "range(5) AS t(i)",
        r_regionkey="i::INTEGER",
        r_name=f"({REGIONS})[i + 1]",
        r_comment=text("r"),
    )
    table(
        "nation",
        "range(25) AS t(i)",
        n_nationkey="i::INTEGER",
        n_name=f"({NATIONS})[i + 1]",
        n_regionkey=f"({REGION_OF_NATION})[i + 1]::INTEGER",
        n_comment=text("n"),
    )
    table(
        "supplier",
        f"range(1, {suppliers + 1}) AS t(i)",
        s_suppkey="i",
        s_name="printf('Supplier#%09d', i)",
        s_address="printf('Dock %d', i * 7919 % 10007)",
        s_nationkey=nation("nation"),
        s_phone=phone("s"),
        s_acctbal=money(-99_999, 999_999, "s_acctbal"),
        s_comment=text("s"),
    )
    retail = "((90000 + p // 10 % 20001 + 100 * (p % 1000)) / 100)::DECIMAL(15,2)"
    table(
        "part",
        f"(SELECT p, p AS i FROM range(1, {parts + 1}) AS t(p))",
        p_partkey="i",
        p_name=f"concat_ws(' ', {', '.join(pick(COLOURS, f'colour{k}') for k in range(3))})",
        p_mfgr=f"'Manufacturer#' || {pick(BRANDS, 'brand')}[7]",
        p_brand=pick(BRANDS, "brand"),
        p_type=f"concat_ws(' ', {', '.join(pick(words, f'type{k}') for k, words in enumerate(TYPES))})",
        p_size=whole(1, 50, "size"),
        p_container=f"concat_ws(' ', {pick(SIZES, 'container1')}, {pick(BOXES, 'container2')})",
        p_retailprice=retail,
        p_comment=text("p"),
    )
    table(
        "partsupp",
        f"(SELECT p, s, p * 4 + s AS i FROM range(1, {parts + 1}) AS a(p), range(4) AS b(s))",
        ps_partkey="p",
        ps_suppkey=f"(p + s * {suppliers // 4}) % {suppliers} + 1",
        ps_availqty=whole(1, 9999, "availqty"),
        ps_supplycost=money(100, 100_000, "supplycost"),
        ps_comment=text("ps"),
    )
    table(
        "customer",
        f"range(1, {customers + 1}) AS t(i)",
        c_custkey="i",
        c_name="printf('Customer#%09d', i)",
        c_address="printf('Street %d', i * 7907 % 10009)",
        c_nationkey=nation("nation"),
        c_phone=phone("c"),
        c_acctbal=money(-99_999, 999_999, "c_acctbal"),
        c_mktsegment=pick(SEGMENTS, "segment"),
        c_comment=text("c"),
    )
    # a third of the customers never orders; the others have up to 30 orders of up to 7 lineitems
    ordered = f"""(
        SELECT c, c * 32 + unnest(range({whole(1, 30, "orders")})) AS i
        FROM (SELECT c, c AS i FROM range(1, {customers + 1}) AS t(c) WHERE c % 3 <> 0))"""
    today = "DATE '1995-06-17'"
    day = f"DATE '1992-01-01' + {whole(0, 2405, 'orderdate')}"
    bought = f"""(
        SELECT o, i, day, p, quantity, ship, ship + {whole(1, 30, "receipt")} AS receipt,
            {retail} AS price
        FROM (
            SELECT o, i, day, {whole(1, parts, "part")} AS p, {whole(1, 50, "quantity")} AS quantity,
                day + {whole(1, 121, "ship")} AS ship
            FROM (
                SELECT i AS o, {day} AS day, i * 8 + unnest(range(1, {whole(2, 8, "lines")})) AS i
                FROM {ordered})))"""
    table(
        "lineitem",
        bought,
        l_orderkey="o",
        l_partkey="p::BIGINT",
        l_suppkey=f"(p + {whole(0, 3, 'supplier')} * {suppliers // 4})::BIGINT % {suppliers} + 1",
        l_linenumber="(i % 8)::INTEGER",
        l_quantity="quantity::DECIMAL(15,2)",
        l_extendedprice="(quantity * price)::DECIMAL(15,2)",
        l_discount=money(0, 10, "discount"),
        l_tax=money(0, 8, "tax"),
        l_returnflag=f"CASE WHEN receipt > {today} THEN 'N' ELSE {pick(['R', 'A'], 'returned')} END",
        l_linestatus=f"CASE WHEN ship > {today} THEN 'O' ELSE 'F' END",
        l_shipdate="ship",
        l_commitdate=f"day + {whole(30, 90, 'commit')}",
        l_receiptdate="receipt",
        l_shipinstruct=pick(INSTRUCTIONS, "instruct"),
        l_shipmode=pick(MODES, "mode"),
        l_comment=text("l"),
    )
    totals = """(
        SELECT l_orderkey AS i, min(l_linestatus) AS first, max(l_linestatus) AS last,
            sum(l_extendedprice * (1 + l_tax) * (1 - l_discount)) AS total
        FROM lineitem GROUP BY l_orderkey ORDER BY l_orderkey)"""
    table(
        "orders",
        totals,
        o_orderkey="i",
        o_custkey="i // 32",
        o_orderstatus="CASE WHEN first = last THEN first ELSE 'P' END",
        o_totalprice="total::DECIMAL(15,2)",
        o_orderdate=day,
        o_orderpriority=pick(PRIORITIES, "priority"),
        o_clerk=f"printf('Clerk#%09d', {whole(1, 1000, 'clerk')})",
        o_shippriority="0",
        o_comment=text("o"),
    )
