// bee-queue: the settings its README gives for speed, or its own; saveAll in chunks. See timing.py.
'use strict';
const Queue = require('bee-queue');

const [what, mode, url, count] = process.argv.slice(2);
const jobs = Number(count);
const number = Number(mode.split(' ').pop());
const { hostname: host, port } = new URL(url);
const payload = 'x'.repeat(100);

function report(n, ms) {
  require('fs').writeSync(1, JSON.stringify({ jobs: n, seconds: ms / 1000 }) + '\n');
  process.exit(0);
}

async function main() {
  const quick = { getEvents: false, sendEvents: false, storeJobs: false };
  const queue = new Queue('peer', {
    redis: { host, port: Number(port) },
    removeOnSuccess: true,
    ...(mode.startsWith('default') ? {} : quick),
  });
  await queue.ready();
  const chunk = what === 'submit' ? number : 1000;
  const began = performance.now();
  for (let start = 0; start < jobs; start += chunk) {
    const bulk = [];
    for (let i = start; i < Math.min(start + chunk, jobs); i++) {
      bulk.push(queue.createJob({ payload }));
    }
    const errors = await queue.saveAll(bulk);
    if (errors.size) throw [...errors.values()][0];
  }
  if (what === 'submit') report(jobs, performance.now() - began);
  let seen = 0;
  let first = 0;
  queue.process(number, async () => {
    if (++seen === 1) first = performance.now();
    else if (seen === jobs) report(jobs - 1, performance.now() - first);
  });
}

main().catch((error) => { console.error(error); process.exit(1); });
