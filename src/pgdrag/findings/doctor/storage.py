"""What do commits, checkpoints, caches and the disk cost?"""

from __future__ import annotations

from pgdrag.findings.doctor import NotSeen, Reading, Sights, Symptom
from pgdrag.findings.mechanisms.ledger import COMPONENTS
from pgdrag.model.recordings import WaitTime
from pgdrag.units import format_bytes, format_duration

_READ_WAITS = next(one.waits for one in COMPONENTS if one.name == "read")
_WRITE_WAITS = ("IO:DataFileWrite", "IO:DataFileExtend", "IO:DataFileFlush", "IO:DataFileSync", "IO:WAL*", "IO:Wal*", "LWLock:WAL*")  # fmt: skip
_SYNCS = ("IO:WalSync", "IO:WALSync", "IO:WalSyncMethodAssign", "IO:WALSyncMethodAssign")
# A block from the kernel's cache: a system call, a copy, and a buffer to be freed for it.
_S_PER_READ = 10e-6
_SMALL_BUFFERS = 64 * 1024 * 1024


def _checkpoints(sights: Sights) -> Reading | None:
    requested = sights.value("requested_checkpoints_per_s") * sights.length_s
    if not requested:
        return None
    share = sights.time.share(sights.time.seconds(*_WRITE_WAITS))
    return {
        "requested": requested,
        "interval_s": sights.length_s / requested,
        "wal": f"{format_bytes(sights.value('wal_bytes_per_s'))}/s",
        "images": sights.value("full_page_images_per_s"),
        "limit": sights.setting("max_wal_size"),
        "share": share,
        "severity": max(share, 0.3),
    }


CHECKPOINT_STORM = Symptom(
    "checkpoint-storm",
    _checkpoints,
    {"requested": 1.5},
    at_most={"interval_s": 30.0},
    why="PostgreSQL itself warns when checkpoints occur less than 30 s apart (checkpoint_warning). After each "
    "checkpoint, the first change of a page writes the whole page to WAL.",
    says="WAL reaches max_wal_size and forces a checkpoint every {interval_s:duration}; writing takes {share:.0%} of sessions' "
    "time",
    evidence="{requested:.0f} requested checkpoints, {images:,.0f} full-page images and {wal} of WAL per second "
    "(pg_stat_checkpointer, pg_stat_wal); {limit}.",
    step="Raise max_wal_size to the WAL of about 15 minutes, if the disk has room, so that checkpoint_timeout "
    "triggers checkpoints.",
)


def _cache(sights: Sights) -> Reading | None:
    reads_per_s = sights.value("server_blocks_read_per_s")
    waited_s = sights.time.seconds(*_READ_WAITS)
    lost_s = max(waited_s, reads_per_s * sights.length_s * _S_PER_READ)
    return {
        "reads_per_s": reads_per_s,
        "hit": sights.value("server_buffer_hit_ratio"),
        "buffers": sights.size_of("shared_buffers"),
        "setting": sights.setting("shared_buffers"),
        "share": sights.time.share(lost_s),
        "sessions": sights.time.on_average(lost_s),
    }


TINY_CACHE = Symptom(
    "tiny-cache",
    _cache,
    {"reads_per_s": 1000.0, "share": 0.05},
    at_most={"hit": 0.95, "buffers": _SMALL_BUFFERS},
    why="shared_buffers is less than half of PostgreSQL's default of 128 MB, and at least 5 % of blocks are not "
    "found there. Reading a block takes about 10 µs even from the kernel's cache.",
    says="shared_buffers is too small: {reads_per_s:,.0f} blocks are read per second, at least {share:.0%} of "
    "sessions' time",
    evidence="Only {hit:.1%} of blocks were found in shared_buffers (pg_stat_database); {setting}.",
    step="Raise shared_buffers to about a quarter of the memory that the server may use; pgdrag ablate measures "
    "the effect.",
)


def _reads(sights: Sights) -> Reading | None:
    waited_s = sights.time.seconds(*_READ_WAITS)
    return {
        "share": sights.time.share(waited_s),
        "sessions": sights.time.on_average(waited_s),
        "wait_s": sights.value("disk_read_wait_s"),
        "busy": sights.value("disk_busy_share"),
        "reads_per_s": sights.value("disk_reads_per_s"),
    }


DISK_READS = Symptom(
    "disk-reads",
    _reads,
    {"share": 0.3, "sessions": 0.5, "busy": 0.8, "wait_s": 0.002},
    why="The device is busy most of the time, and reads take much longer than the 0.1 ms of a solid-state disk: "
    "the data that is read does not fit into memory.",
    says="sessions spend {share:.0%} of their time reading blocks from a disk that is {busy:.0%} busy",
    evidence="{reads_per_s:,.0f} reads per second from the device, {wait_s:duration} each (/proc/diskstats); waits "
    "IO:DataFileRead.",
    step="Find the statements that read most (shared_blks_read of pg_stat_statements); add memory, or use a faster "
    "disk.",
)


def _wal_sync(sights: Sights) -> Reading | None:
    syncs_per_s = sights.per_s("wal_syncs_per_transaction")
    if not syncs_per_s:
        return None
    # Little's law: who is seen in a sync on average, by all processes, divided by syncs per second.
    within_s = sum(x.time_s for x in sights.all_of(WaitTime, "waits") if x.wait in _SYNCS)
    lost_s = sights.time.seconds(*_SYNCS, "LWLock:WALWrite")
    took_s = within_s / sights.length_s / syncs_per_s
    return {
        "took_s": took_s,
        "syncs": syncs_per_s,
        "share": sights.time.share(lost_s),
        "sessions": sights.time.on_average(lost_s),
    }


SLOW_WAL_SYNC = Symptom(
    "slow-wal-sync",
    _wal_sync,
    {"took_s": 0.010, "share": 0.3, "sessions": 0.3},
    why="A solid-state disk flushes WAL in about 1 ms, one with a protected cache in 0.1 ms. 10 ms means a "
    "rotating disk, network storage, or a device that is busy with other work.",
    says="commits wait {share:.0%} of sessions' time for WAL flushes, which take {took_s:duration} each",
    evidence="{syncs} flushes per second (pg_stat_wal or pg_stat_io); their duration is from samples of IO:WalSync.",
    step="See what else writes to the device, or move pg_wal to a faster one. Set synchronous_commit = off only "
    "where a crash may lose the latest commits.",
)


def _standby(sights: Sights) -> Reading | None:
    lost_s = sights.time.seconds("IPC:SyncRep")
    return {**sights.time.lost(lost_s), "names": sights.setting("synchronous_standby_names")}


STANDBY_WAIT = Symptom(
    "standby-wait",
    _standby,
    {"sessions": 0.2, "share": 0.2},
    why="Sessions spend a fifth of their time waiting for a standby's confirmation.",
    says="commits wait {share:.0%} of sessions' time for a standby to confirm them",
    evidence="{sessions:.1f} sessions in IPC:SyncRep on average (pg_stat_activity); {names}.",
    step="See whether the standby is connected and keeps up: SELECT application_name, state, sync_state, "
    "replay_lag FROM pg_stat_replication.",
)


def _delay(sights: Sights) -> Reading | None:
    # In microseconds, without a unit. Not all versions show the sleep as a wait, but each sync had one before it.
    delay_s = sights.size_of("commit_delay") * 1e-6
    if not delay_s:
        return None
    asleep = min(sights.per_s("wal_syncs_per_transaction") * delay_s, 1.0)
    asleep_s = max(sights.time.seconds("Timeout:CommitDelay"), asleep * sights.length_s)
    lost_s = asleep_s + sights.time.seconds("LWLock:WALWrite")
    return {
        "asleep": asleep_s / sights.length_s,
        "share": sights.time.share(lost_s),
        "sessions": sights.time.on_average(lost_s),
        "delay": f"commit_delay = {format_duration(delay_s)}",
    }


COMMIT_DELAY = Symptom(
    "commit-delay",
    _delay,
    {"asleep": 0.1, "share": 0.2},
    why="commit_delay makes a commit wait so that others can share its WAL flush. If some session sleeps there a tenth "
    "of the time, and others wait for it a fifth of theirs, the delay costs more than the flushes it saves.",
    says="commits wait {share:.0%} of sessions' time because of commit_delay",
    evidence="A session sleeps in commit_delay {asleep:.0%} of the time (from flushes per second) while others wait in LWLock:WALWrite; {delay}.",
    step="ALTER SYSTEM RESET commit_delay; SELECT pg_reload_conf().",
)


def _log(sights: Sights) -> Reading | None:
    per_s = sights.per_s("log_bytes_per_transaction")
    each = sights.value("log_bytes_per_transaction")
    said = [
        sights.settings[x].words
        for x in ("log_statement", "log_min_duration_statement", "log_min_messages")
        if x in sights.settings and sights.settings[x].value != sights.settings[x].default
    ]
    return {
        "bytes_per_s": per_s,
        "day": format_bytes(86_400 * per_s),
        "each": format_bytes(each),
        "said": "; ".join(said) or "no logging setting differs from its default",
        "severity": min(0.2 + per_s / 20e6, 0.9),
    }


LOG_FLOOD = Symptom(
    "log-flood",
    _log,
    {"bytes_per_s": 200e3},
    why="200 kB/s is 17 GB a day. Each line costs its session a write, and all sessions share one logging "
    "collector.",
    says="the server writes {bytes_per_s:bytes}/s of log, {day} a day",
    evidence="{each} per transaction; {said}.",
    step="Log fewer statements, for example with log_min_duration_statement = 1s or log_transaction_sample_rate.",
)


def _disk(sights: Sights) -> Reading | None:
    used, free = sights.value("disk_used_share"), sights.value("disk_free_bytes")
    try:
        fills_in_s = sights.value("disk_fills_in_s")
    except NotSeen:
        fills_in_s = float("inf")
    soon = 3600 / max(fills_in_s, 1.0) if used >= 0.8 else 0.0
    is_large = free > 100e9
    return {
        "used": used,
        "urgency": 0.0 if is_large else max(used / 0.95, soon),
        "free": format_bytes(free),
        "when": ""
        if fills_in_s == float("inf")
        else f"; full in {format_duration(fills_in_s)} at this rate",
        "severity": 0.6 + used / 2 + min(soon, 1.0),
    }


FULL_DISK = Symptom(
    "full-disk",
    _disk,
    {"urgency": 1.0},
    why="The disk is 95 % full, or will be full within an hour at this rate. When WAL cannot be written, the "
    "server shuts down.",
    says="the data directory's disk is {used:.1%} full, with {free} free{when}",
    evidence="File system of the data directory (statvfs).",
    step="See what grows: WAL (SELECT pg_size_pretty(sum(size)) FROM pg_ls_waldir()), replication slots, temporary "
    "files, or the log.",
)


def _slot(sights: Sights) -> Reading | None:
    kept, limit = sights.value("slot_wal_bytes"), sights.value("max_wal_bytes")
    if not kept:
        return None
    return {
        "ratio": kept / limit,
        "kept": format_bytes(kept),
        "limit": format_bytes(limit),
        "slot": sights.detail("slot_wal_bytes"),
        "severity": min(0.3 + 0.1 * kept / limit, 1.0),
    }


SLOT_WAL = Symptom(
    "slot-wal",
    _slot,
    {"ratio": 1.0},
    why="WAL beyond max_wal_size is kept only for the slot, and without a limit unless max_slot_wal_keep_size is "
    "set.",
    says="a replication slot keeps {kept} of WAL from being removed",
    evidence="{slot} max_wal_size is {limit} (pg_replication_slots).",
    step="Let its consumer catch up, or drop the slot: SELECT pg_drop_replication_slot(…). Set "
    "max_slot_wal_keep_size.",
)


def _archive(sights: Sights) -> Reading | None:
    behind_s = sights.value("archive_behind_s")
    return {
        "behind_s": behind_s,
        "file": sights.detail("archive_behind_s"),
        "wal": format_bytes(sights.window.value("wal_directory_bytes") or 0),
        "severity": 0.6,
    }


ARCHIVE_FAILING = Symptom(
    "archive-failing",
    _archive,
    {"behind_s": 0.001},
    why="While archiving fails, all WAL since the last success is kept, and backups cannot be restored to any "
    "later point.",
    says="WAL archiving fails; nothing has been archived for {behind_s:duration}",
    evidence="{file} failed last (pg_stat_archiver); pg_wal has {wal}.",
    step="Look for the output of archive_command in the server's log, and run the command by hand as the server's "
    "user.",
)
