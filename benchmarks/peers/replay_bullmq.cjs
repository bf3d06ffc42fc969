// bullmq: retryJobs on failed jobs, MODE of them at a time. Arguments and answer as in timing.py.
'use strict';
const { Queue, Worker } = require('bullmq');
const { Redis } = require('ioredis');

const [, mode, url, count] = process.argv.slice(2);
const jobs = Number(count);
const { hostname: host, port } = new URL(url);
const connection = { host, port: Number(port), maxRetriesPerRequest: null };
const payload = 'x'.repeat(100);

async function main() {
  const queue = new Queue('peer', { connection });
  for (let start = 0; start < jobs; start += 1000) {
    const bulk = [];
    for (let i = start; i < Math.min(start + 1000, jobs); i++) {
      bulk.push({ name: 'noop', data: { payload }, opts: { attempts: 1 } });
    }
    await queue.addBulk(bulk);
  }
  const worker = new Worker('peer', async () => { throw new Error('no such customer'); },
    { connection, concurrency: 100 });
  await new Promise((done) => {
    let seen = 0;
    worker.on('failed', () => { if (++seen === jobs) done(); });
  });
  await worker.close();
  const client = new Redis(connection);
  const serverSeconds = async () => {
    const used = await client.info('cpu');
    return ['used_cpu_user', 'used_cpu_sys']
      .map((name) => Number(new RegExp(`${name}:([0-9.]+)`).exec(used)[1]))
      .reduce((a, b) => a + b);
  };
  const used = await serverSeconds();
  const began = performance.now();
  await queue.retryJobs({ count: Number(mode) });
  const ms = performance.now() - began;
  const server = await serverSeconds() - used;
  const waiting = await queue.getWaitingCount();
  if (waiting !== jobs) throw new Error(`${waiting} of ${jobs} are back`);
  require('fs').writeSync(1, JSON.stringify({ jobs, seconds: ms / 1000, server_seconds: server }) + '\n');
  process.exit(0);
}

main().catch((error) => { console.error(error); process.exit(1); });
