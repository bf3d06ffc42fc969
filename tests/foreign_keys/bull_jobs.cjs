// Jobs of a real Bull and its workers: run by bull_program.py, with Bull's packages.
//
// node bull_jobs.cjs PORT call JSON      [[method of Queue, ...arguments], ...]; prints what they return
// node bull_jobs.cjs PORT listen         a method of a job for each line "ID METHOD" that it reads (`update`
//                                        to { redisq: [1] }): answers ok
// node bull_jobs.cjs PORT work [N]       a worker, until N jobs have ended; without N, until it is killed
"use strict";
const Queue = require("bull");
const Redis = require("ioredis");

const [port, command, given] = process.argv.slice(2);
const connection = { host: "127.0.0.1", port: Number(port) };
const metrics = process.env.METRICS && { maxDataPoints: Number(process.env.METRICS) };
if (process.env.NOW_MS) {  // jobs end at this time by the worker's clock
  const began = Date.now, ahead = Number(process.env.NOW_MS) - began();
  Date.now = () => began() + ahead;
}
const settings = { lockDuration: 600000, stalledInterval: 300000, drainDelay: 1 };

async function handle(job, client) {
  await client.hincrby("ran", job.id, 1);
  await client.rpush("ran:order", job.id);
  if (job.name === "fails" && (await client.exists("broken"))) {
    throw new TypeError(`no ${job.data.what}`);
  }
  if (job.name === "lasts") {
    await client.incr("started");
    await new Promise((resolve) => setTimeout(resolve, 600000));
  }
  return job.data;
}

async function main() {
  const queue = new Queue(process.env.QUEUE || "mail", {
    redis: connection, settings, prefix: process.env.PREFIX, metrics,
  });
  await queue.isReady();
  if (command === "call") {
    const found = [];
    for (const [method, ...rest] of JSON.parse(given)) {
      const result = await queue[method](...rest);
      found.push(result && result.id !== undefined ? result.id : result);
    }
    console.log(JSON.stringify(found));
  } else if (command === "listen") {
    for await (const line of require("readline").createInterface({ input: process.stdin })) {
      const [id, method] = line.split(" ");
      try {
        await (await queue.getJob(id))[method](...(method === "update" ? [{ redisq: [1] }] : []));
        console.log("ok");
      } catch (error) {
        console.log(String(error));
      }
    }
  } else {
    const client = new Redis(connection);
    let left = given ? Number(given) : Infinity;
    await new Promise((resolve) => {
      const ended = () => --left <= 0 && resolve();
      queue.on("completed", ended);
      queue.on("failed", ended);
      queue.on("error", () => {});
      queue.process("*", Number(process.env.CONCURRENCY || 4), (job) => handle(job, client));
    });
  }
  await queue.close();
  process.exit(0);
}

main();
