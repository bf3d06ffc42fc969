-- Operators' changes, one row each: change is the change of state of entries, or a setting's new
-- value; op is the operation's id.
with parts as (
  select
    queue, at,
    regexp_extract(detail, '^([^|]*)[|]', 1) as op,
    regexp_extract(detail, '^[^|]*[|]([^|]*)[|]', 1) as first,
    regexp_extract(detail, '^[^|]*[|][^|]*[|]([^|]*)[|]', 1) as second,
    regexp_extract(detail, '(?s)^[^|]*[|][^|]*[|][^|]*[|](.*)$', 1) as last
  from {history}
  where _corrupt is null and event = 'op' and detail rlike '^[^|]*[|][^|]*[|][^|]*[|]'
)
select
  queue, at, op,
  case
    when first = 'set' then concat(second, ' = ', unquoted(last))
    when first = 'undo' then concat('undo ', second)
    when second = 'edit' then concat('edit ', first)
    when first = 'move' then concat('moved here: ', second)
    when second = 'trash' and op like 'move-%' then concat('moved away: ', first)
    when second = 'restore' then 'restored from the trash'
    else concat(first, ' → ', second)
  end as change,
  case when first <> 'set' and last rlike '^[0-9]+$' then try_cast(last as bigint) end as entries
from parts
order by queue, at, op
