-- Submissions of entries with their clients.
with clients as (
  select queue, nullif({client}, '') as client, at_ms from {entries} where event = 'submitted'
)
select * from clients where client is not null
