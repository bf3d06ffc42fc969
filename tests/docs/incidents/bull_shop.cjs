// Bull: failed charges, a job of a killed worker, waiting and delayed ones.
"use strict";
const Queue = require("bull");
const Redis = require("ioredis");

const { hostname, port } = new URL(process.env.REDIS_URL);
const redis = { host: hostname, port: Number(port) };

async function charge(job) {
  if (job.data.order < 4) throw new TypeError(`no card for order ${job.data.order}`);
  throw new Error("the bank did not answer");
}

async function main() {
  const queue = new Queue("mail", { redis });
  for (let order = 1; order < 5; order++) {
    await queue.add("charge", { order, region: "eu" }, { jobId: `charge-${order}` });
  }
  await new Promise((resolve) => {
    let left = 4;
    queue.on("failed", () => --left || resolve());
    queue.process("charge", charge);
  });
  await queue.pause(true, true);
  const other = new Queue("mail", { redis, settings: { lockDuration: 600000, stalledInterval: 0 } });
  await queue.add("export-year", { year: 2024 }, { jobId: "export-2024" });
  await new Promise((resolve) => {
    other.process("export-year", () => (resolve(), new Promise(() => {})));
  });
  await other.pause(true, true);
  for (let order = 8; order < 12; order++) {
    await queue.add("receipt", { order, region: order === 9 ? "us" : "eu" }, { jobId: `receipt-${order}` });
  }
  await queue.add("receipt", { order: 7, region: "eu" }, { jobId: "receipt-7", delay: 7200000 });
  const client = new Redis(redis);
  await client.del("bull:mail:export-2024:lock", "bull:mail:stalled-check"); // as they expire
  await queue.moveUnlockedJobsToWait(); // as the workers do
  await client.del("bull:mail:stalled-check");
  process.exit(0); // as a killed worker
}

main();
