"""What two versions' servers have differently by default, and how both arms get the same."""

from __future__ import annotations

from dataclasses import replace

from test_search_space import catalog

from pgdrag.experiment.version_defaults import defaults_that_differ, with_defaults_of
from pgdrag.servers.settings import SettingsCatalog


def version_15(**boot_values: str) -> SettingsCatalog:
    known = dict(catalog().settings)
    known |= {name: replace(known[name], boot_value=x) for name, x in boot_values.items()}
    del known["io_workers"]
    return SettingsCatalog(150018, known)


OLD = version_15(
    effective_io_concurrency="1",
    hash_mem_multiplier="1",
    # The server's place, the log, and what whoever builds it decides.
    unix_socket_directories="/run",
    log_checkpoints="off",
    ssl_ciphers="HIGH",
)


def test_changed_defaults_are_those_that_a_throw_away_server_has() -> None:
    found = defaults_that_differ(OLD, catalog())
    assert found.words == ("effective_io_concurrency 1 → 16", "hash_mem_multiplier 1 → 2")
    assert found.note.startswith("B has 1 setting that A lacks, and lacks 0 that A has")
    assert {x.kind for x in found.differences} == {"default"}


def test_what_initdb_sets_alike_in_every_version_is_said_and_how_to_compare_it_so() -> None:
    found = defaults_that_differ(version_15(shared_buffers="1024"), catalog())
    assert "shared_buffers 8 MB → 128 MB" in found.words
    assert "add --common shared_buffers=128MB." in found.note
    asked = defaults_that_differ(
        version_15(shared_buffers="1024"), catalog(), set_by_arms=["shared_buffers"]
    )
    assert "initdb" not in asked.note


def test_what_an_arm_sets_itself_has_no_default() -> None:
    found = defaults_that_differ(OLD, catalog(), set_by_arms=["Hash_Mem_Multiplier"])
    assert found.words == ("effective_io_concurrency 1 → 16",)


def test_a_version_differs_in_nothing_from_itself() -> None:
    found = defaults_that_differ(catalog(), catalog())
    assert (found.words, found.note) == ((), "")


def test_both_arms_get_the_defaults_that_are_not_theirs() -> None:
    arm = with_defaults_of(OLD, [OLD, catalog()], "defaults of 15")
    assert {x.name: x.value for x in arm.levels} == {
        "effective_io_concurrency": "1",
        "hash_mem_multiplier": "1",
    }
    assert arm.notes[0].startswith("Both arms have the defaults of PostgreSQL 15.18: effective_io")
    asked = [x.name for x in arm.levels]
    assert not defaults_that_differ(OLD, catalog(), set_by_arms=asked).words
