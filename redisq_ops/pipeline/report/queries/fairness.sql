-- Fairness between the clients of a queue in each hour, by the first deliveries of their entries.
--
-- demand: entries of the client that could have been delivered in the hour: waiting at its
-- beginning, or submitted in it. fair: the client's max-min fair share of all deliveries of the
-- hour (nobody gets more than the demand; clients that want more get equal shares, times the
-- weight). ratio = taken / fair. jain: Jain's index of the ratios: 1 if shares are fair, 1/n if one
-- of n clients gets everything. weights has the weights other than 1.
--
-- Water filling, the smallest demand first: after the first client whose offer is below its demand,
-- offers only get lower, so the highest such offer is the level for all of these.
with delivered as (
  select
    queue, client, taken_ms - taken_ms % {hour_ms} as step, count(*) as taken,
    percentile(wait_ms, 0.5) as wait_p50_ms
  from {attempts}
  where client is not null and since = 'submitted'
  group by queue, client, taken_ms - taken_ms % {hour_ms}
), submitted as (
  select queue, client, at_ms - at_ms % {hour_ms} as step, count(*) as came
  from {submissions}
  group by queue, client, at_ms - at_ms % {hour_ms}
), events as (
  select
    coalesce(s.queue, d.queue) as queue, coalesce(s.client, d.client) as client,
    coalesce(s.step, d.step) as step, came, taken, wait_p50_ms
  from submitted as s
  full join delivered as d on s.queue = d.queue and s.client = d.client and s.step = d.step
), lasts as (
  select queue, max(step) as last from events group by queue
), steps as (
  select queue, client, explode(sequence(begun, last, {hour_ms})) as step
  from (
    select e.queue as queue, client, min(step) as begun, max(last) as last
    from events as e join lasts as l on e.queue = l.queue
    group by e.queue, client
  ) as extents
), hours as (
  select
    s.queue as queue, s.client as client, s.step as step, coalesce(came, 0) as came,
    coalesce(taken, 0) as taken, wait_p50_ms
  from steps as s
  left join events as e on s.queue = e.queue and s.client = e.client and s.step = e.step
), wanted as (
  select
    *,
    cast(sum(came) over w - sum(taken) over w + taken as bigint) as demand
  from hours
  window w as (partition by queue, client order by step)
), demands as (
  select d.*, coalesce(weight, 1) as weight
  from wanted as d left join {weights} as w on d.queue = w.queue and d.client = w.client
  where demand > 0
), offers as (
  select
    *,
    (sum(taken) over hour - sum(demand) over rising + demand)
      / cast(sum(weight) over hour - sum(weight) over rising + weight as double) as offer
  from demands
  window
    hour as (partition by queue, step),
    rising as (partition by queue, step order by demand / cast(weight as double), client)
), levels as (
  select
    *,
    max(case when demand > offer * weight then offer end) over (partition by queue, step) as level
  from offers
), ratios as (
  select
    *,
    case when level is null then cast(demand as double)
      else least(cast(demand as double), level * weight) end as fair
  from levels
), indexed as (
  select *, case when fair <> 0 then taken / fair end as ratio from ratios
)
select
  queue, timestamp_millis(step) as from_at, client, cast(weight as int) as weight, demand, taken,
  taken / nullif(cast(sum(taken) over hour as double), 0) as share, fair, ratio, wait_p50_ms,
  power(sum(ratio) over hour, 2)
    / nullif(count(ratio) over hour * sum(ratio * ratio) over hour, 0) as jain
from indexed
window hour as (partition by queue, step)
order by queue, step, taken desc, client
