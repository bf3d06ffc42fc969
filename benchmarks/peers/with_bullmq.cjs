// bullmq: one worker; addBulk in chunks. Arguments and answer as in timing.py.
'use strict';
const { Queue, Worker } = require('bullmq');

const [what, mode, url, count] = process.argv.slice(2);
const jobs = Number(count);
const number = Number(mode.split(' ').pop());
const { hostname: host, port } = new URL(url);
const connection = { host, port: Number(port), maxRetriesPerRequest: null };
const payload = 'x'.repeat(100);

function report(n, ms) {
  require('fs').writeSync(1, JSON.stringify({ jobs: n, seconds: ms / 1000 }) + '\n');
  process.exit(0);
}

async function main() {
  const queue = new Queue('peer', { connection });
  const chunk = what === 'submit' ? number : 1000;
  await queue.waitUntilReady();
  const began = performance.now();
  for (let start = 0; start < jobs; start += chunk) {
    const bulk = [];
    for (let i = start; i < Math.min(start + chunk, jobs); i++) {
      bulk.push({ name: 'noop', data: { payload }, opts: { removeOnComplete: true } });
    }
    await queue.addBulk(bulk);
  }
  if (what === 'submit') report(jobs, performance.now() - began);
  let seen = 0;
  let first = 0;
  new Worker('peer', async () => {
    if (++seen === 1) first = performance.now();
    else if (seen === jobs) report(jobs - 1, performance.now() - first);
  }, { connection, concurrency: number });
}

main().catch((error) => { console.error(error); process.exit(1); });
