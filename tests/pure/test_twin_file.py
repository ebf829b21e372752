"""Is a twin read as it was written, and anything else refused in words?"""

from __future__ import annotations

import gzip
import json
from dataclasses import replace
from pathlib import Path

import pytest

from pgdrag.errors import TwinError
from pgdrag.twins import Twin, read_twin, twin_bytes
from pgdrag.twins.ddl import after_rows, before_rows
from pgdrag.twins.file import LARGEST_TEXT_BYTES, text_bytes
from pgdrag.twins.model import (
    Column,
    Constraint,
    Index,
    Schema,
    SequenceObject,
    Source,
    Table,
)
from pgdrag.twins.transactions import (
    QUANTILES,
    LoggedSessions,
    LoggedStatement,
    LoggedTransactions,
    Loop,
    Parameter,
    ParameterLink,
    Spread,
    Step,
    TransactionShape,
)

CAPTURED = Path(__file__).parents[1] / "fuzz" / "corpus" / "twin" / "captured"
SCHEMA = Schema(
    schemas=("shop",),
    sequences=(
        SequenceObject("shop", "orders_id_seq", "bigint", 1, 1, False, ("shop", "orders", "id"), is_identity=True),
    ),
    tables=(
        Table(
            "shop", "orders",
            (Column("id", 1, "bigint", is_not_null=True, identity="a"), Column("odd \"name", 2, "text", storage="m")),
            options=("fillfactor=70",), partition_key="RANGE (id)",
        ),
        Table("shop", "orders_1", (Column("id", 1, "bigint", is_not_null=True, identity="a"),), partition_of=("shop", "orders"), bound="DEFAULT"),
    ),
    constraints=(Constraint("shop", "orders", "orders_pkey", "p", "PRIMARY KEY (id)", ("id",)),),
    indexes=(Index("shop", "orders_pkey", "orders", "CREATE UNIQUE INDEX …", "btree", constraint="orders_pkey"),),
)  # fmt: skip
TWIN = Twin(
    captured_by="pgdrag 0",
    captured_on="2026-11-25",
    source=Source("18.6", 180006, 8192, 131072, "UTF8", "C", "C", "libc", "", False, None),
    schema=SCHEMA,
)
SPREAD = Spread(1.5, (1.0,) * len(QUANTILES))
TRANSACTIONS = LoggedTransactions(
    "csvlog", 60.0, 100, 10,
    statements=(LoggedStatement(1, 10, (Parameter(1, "number", 10, 0.0, 9, (0.2, 1.0, 1.0), 0.3, common=(("token", 0.2),)),)),),
    shapes=(
        TransactionShape(
            1, (Step(1), Step(1, SPREAD)), 10, SPREAD, is_block=True, loops=(Loop(2, 2, ((5, 0.5), (15, 0.5))),),
            links=(ParameterLink(2, 1, "transaction", 1, 1, 1.0, differences=(1.0,)),), follows=((1, 1.0),),
        ),
    ),
    sessions=LoggedSessions(2, SPREAD, SPREAD), errors={"40001": 1}, rate=(5, 5), notes=("Parameters are missing.",),
)  # fmt: skip


HIGH = gzip.decompress(twin_bytes(TWIN))[:-1] + b',"relations":[{"schema":"s","name":"i","kind":"index","pages":1,"tuples":1,"height":33}]}'  # fmt: skip


def written(tmp_path: Path, content: bytes) -> Path:
    path = tmp_path / "shop.twin"
    path.write_bytes(content)
    return path


def test_a_twin_is_read_as_it_was_written(tmp_path: Path) -> None:
    assert read_twin(written(tmp_path, twin_bytes(TWIN))) == TWIN


def test_a_file_of_the_first_version_is_read_and_written_as_the_newest(tmp_path: Path) -> None:
    first = gzip.decompress(twin_bytes(TWIN)).replace(b'"pgdrag_twin":3', b'"pgdrag_twin":1')
    old = read_twin(written(tmp_path, gzip.compress(first)))
    assert old == replace(TWIN, pgdrag_twin=1)
    assert twin_bytes(old) == twin_bytes(TWIN)


def test_transactions_are_read_as_they_were_written(tmp_path: Path) -> None:
    twin = replace(TWIN, transactions=TRANSACTIONS)
    assert read_twin(written(tmp_path, twin_bytes(twin))) == twin


def test_the_same_twin_makes_the_same_bytes() -> None:
    assert twin_bytes(TWIN) == twin_bytes(TWIN)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "not a twin"),
        (b"SELECT 1", "not a twin"),
        (gzip.compress(b"SELECT 1", mtime=0), "not JSON"),
        (gzip.compress(b"[" * 100_000, mtime=0), "not JSON"),
        (gzip.compress(HIGH, mtime=0), '"relations.0.height"'),
        (gzip.compress(gzip.decompress(twin_bytes(TWIN)).replace(b'"block_bytes":8192', b'"block_bytes":0'), mtime=0), '"source.block_bytes"'),
        (gzip.compress(b"[]", mtime=0), "not a twin"),
        (gzip.compress(b"{}", mtime=0), "not a twin"),
        (gzip.compress(b'{"pgdrag_twin": 4}', mtime=0), "file format 4 is newer than this pgdrag reads, 3"),
        (gzip.compress(b'{"pgdrag_twin": 1}', mtime=0), '"captured_by"'),
        (gzip.compress(gzip.decompress(twin_bytes(TWIN))[:-1] + b',"x":1}'), '"x"'),
        (twin_bytes(TWIN)[:-1], "torn or damaged"),
        (twin_bytes(TWIN)[:100] + b"\0" + twin_bytes(TWIN)[101:], "torn or damaged"),
    ],
)  # fmt: skip
def test_anything_else_is_refused_in_words(tmp_path: Path, content: bytes, words: str) -> None:
    with pytest.raises(TwinError, match=r"shop\.twin: ") as found:
        read_twin(written(tmp_path, content))
    assert words in found.value.message


@pytest.mark.parametrize(
    ("part", "key", "value", "words"),
    [
        ("statistics.7", "most_common_shares", [0.5], "has a share"),
        ("statistics.7", "element_shares", [], "has a share"),
        ("activity", "transaction_ages_s", [1, 2], "six quantiles"),
        ("relations.0", "bytes", 2**63, "less than"),
        ("horizon", "gaps", [[5, 0.5], [1, 0]], "ascending order"),
    ],
)
def test_what_contradicts_itself_is_refused_with_its_place(
    tmp_path: Path, part: str, key: str, value: object, words: str
) -> None:
    document = json.loads(CAPTURED.read_text())
    name, _, number = part.partition(".")
    (document[name][int(number)] if number else document[name])[key] = value
    content = gzip.compress(json.dumps(document).encode())
    with pytest.raises(TwinError, match=f'"{part}.*{words}'):
        read_twin(written(tmp_path, content))


def test_a_small_file_that_unfolds_into_much_is_refused_in_words(tmp_path: Path) -> None:
    content = gzip.compress(b" " * (LARGEST_TEXT_BYTES + 1), compresslevel=1)
    assert text_bytes(content) == LARGEST_TEXT_BYTES + 1
    with pytest.raises(TwinError, match="its content is larger than"):
        read_twin(written(tmp_path, content))


def test_a_file_that_is_not_there_is_refused_in_words(tmp_path: Path) -> None:
    with pytest.raises(TwinError, match="no such file"):
        read_twin(tmp_path / "none")


def test_names_are_quoted_and_a_partition_has_no_identity_of_its_own() -> None:
    sql = [one.sql for one in before_rows(SCHEMA)]
    assert '"odd ""name" text' in sql[1]
    assert "AS IDENTITY (SEQUENCE NAME" in sql[1]
    assert sql[1].endswith("PARTITION BY RANGE (id) WITH (fillfactor = '70')")
    assert "IDENTITY" not in sql[3]
    assert sql[-1].endswith('ATTACH PARTITION "shop"."orders_1" DEFAULT')


def test_an_index_of_a_constraint_is_made_by_it() -> None:
    assert [one.sql for one in after_rows(SCHEMA)] == [
        'ALTER TABLE ONLY "shop"."orders" ADD CONSTRAINT "orders_pkey" PRIMARY KEY (id)'
    ]
