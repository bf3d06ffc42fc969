// BullMQ: failed charges, a job of a killed worker, waiting and delayed ones.
"use strict";
const { Queue, Worker } = require("bullmq");
const { Redis } = require("ioredis");

const { hostname, port } = new URL(process.env.REDIS_URL);
const connection = { host: hostname, port: Number(port) };

async function charge(job) {
  if (job.data.order < 4) throw new TypeError(`no card for order ${job.data.order}`);
  throw new Error("the bank did not answer");
}

async function main() {
  const queue = new Queue("mail", { connection });
  const add = (name, data, options) => queue.add(name, data, options);
  for (let order = 1; order < 5; order++) {
    await add("charge", { order, region: "eu" }, { jobId: `charge-${order}` });
  }
  const worker = new Worker("mail", charge, { connection });
  await new Promise((resolve) => {
    let left = 4;
    worker.on("failed", () => --left || resolve());
  });
  await worker.close();
  await add("export-year", { year: 2024 }, { jobId: "export-2024" });
  await new Promise((resolve) => {
    const takes = () => (resolve(), new Promise(() => {}));
    new Worker("mail", takes, { connection, lockDuration: 600000 });
  });
  for (let order = 8; order < 12; order++) {
    await add("receipt", { order, region: order === 9 ? "us" : "eu" }, { jobId: `receipt-${order}` });
  }
  await add("export-year", { year: 2025 }, { jobId: "export-2025" });
  await add("receipt", { order: 7, region: "eu" }, { jobId: "receipt-7", delay: 7200000 });
  await new Redis(connection).del("bull:mail:export-2024:lock"); // as it expires
  process.exit(0); // as a killed worker
}

main();
