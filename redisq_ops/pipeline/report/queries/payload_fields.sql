-- Fields of JSON payloads, redacted; values as text.
with leaves as (
  select
    queue, fingerprint, id, explode(payload_leaves(payload, kind in ({enveloped}))) as leaf
  from {dead}
  where _corrupt is null and payload is not null
)
select queue, fingerprint, id, leaf.field as field, leaf.value as value from leaves
