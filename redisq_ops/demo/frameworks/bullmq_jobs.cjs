// BullMQ in the demo, run in a folder that has BullMQ: node bullmq_jobs.cjs PORT produce|work
"use strict";
const path = require("node:path");
const { createRequire } = require("node:module");
// Packages of the current folder, not of this file's folder.
const { Queue, Worker } = createRequire(path.join(process.cwd(), "demo.cjs"))("bullmq");

const [port, role] = process.argv.slice(2);
const connection = { host: "127.0.0.1", port: Number(port), maxRetriesPerRequest: null };
const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

// Takes a moment; one bank declines, and others don't answer at first.
async function charge(job) {
  await pause(100 + 400 * Math.random());
  if (job.data.bank === "acme") throw new Error("card declined by acme");
  if (Math.random() < 0.05) throw new Error("bank timed out after 10 s");
  return { charged: job.data.amount };
}

async function send(queue, n) {
  const bank = n % 13 === 6 ? "acme" : ["north", "south", "west"][n % 3];
  const options = { attempts: 3, backoff: { type: "fixed", delay: 8000 }, removeOnComplete: 500 };
  if (n % 6 === 0) options.delay = 60000;
  if (n % 9 === 0) options.priority = 5;
  await queue.add("charge", { order: 4000 + n, amount: 9.9 * (n % 40), bank }, options);
}

async function produce() {
  const queue = new Queue("checkout", { connection });
  for (let n = 1; ; n++) {
    await send(queue, n);
    if (n === 30) console.log("ready");
    if (n >= 30) await pause(200 + 400 * Math.random());
  }
}

if (role === "produce") produce();
else new Worker("checkout", charge, { connection, concurrency: 2 }).on("error", () => {});
