"""The two meters of the harness, over the official logs."""

from __future__ import annotations

from lakes import rows
from official import Official

BUCKETS = {
    "uncachedInputTokens": "input_tokens",
    "outputTokens": "output_tokens",
    "cacheReadTokens": "cache_read_tokens",
    "cacheWriteTokens": "cache_write_tokens",
}
# Releases up to 0.1.1 replace by turn and step alone.
OLD = {"v0"}


def test_each_meter_sums_what_its_releases_show(official: Official) -> None:
    sums = {}
    for meter in ("old", "new"):
        columns = ", ".join(f"coalesce(sum({name}), 0)::bigint as {name}" for name in BUCKETS.values())
        query = f"select session_id, {columns} from marts.attempts where is_counted_by_{meter}_meter group by all"
        sums[meter] = {row["session_id"]: [row[name] for name in BUCKETS.values()] for row in rows(official.db, query)}
    for name, answer in official.accepted.items():
        usage = answer.get("ownUsage") or answer["usage"]
        meter = "old" if answer["reader"] in OLD else "new"
        shown = sums[meter].get(name, [0] * len(BUCKETS))
        assert shown == [usage[bucket] for bucket in BUCKETS], (name, meter)
