// Jobs of a real BullMQ and its workers: run by bullmq_program.py, with BullMQ's packages.
//
// node bullmq_jobs.cjs PORT call JSON      [[method of Queue, ...arguments], ...]; prints what they return
// node bullmq_jobs.cjs PORT listen         a method of a job for each line "ID METHOD" that it reads, or "ID add",
//                                          or "ID again" (retry of a completed job), or "ID edit": answers ok
// node bullmq_jobs.cjs PORT flow OPTION [TAG]  a parent "p" with a child "c" that fails, and one that does not;
//                                          what c's failure means to p; TAG comes before their ids
// node bullmq_jobs.cjs PORT work [N]       a worker, until N jobs have ended; without N, until it is killed
// node bullmq_jobs.cjs PORT numbered NAME  a worker of that name for numbered jobs (see numbered_jobs.py)
// node bullmq_jobs.cjs PORT produce RATE   so many numbered jobs a second
"use strict";
const { FlowProducer, Queue, Worker } = require("bullmq");
const { Redis } = require("ioredis");

const [port, command, given, tag = ""] = process.argv.slice(2);
const connection = { host: "127.0.0.1", port: Number(port) };
const name = process.env.QUEUE || "mail";
const metrics = process.env.METRICS && { maxDataPoints: Number(process.env.METRICS) };
if (process.env.NOW_MS) {  // jobs end at this time by the worker's clock
  const began = Date.now, ahead = Number(process.env.NOW_MS) - began();
  Date.now = () => began() + ahead;
}

async function handle(job, client) {
  await client.hincrby("ran", job.id, 1);
  if (job.name === "parent") await client.set("children", JSON.stringify(await job.getChildrenValues()));
  if (job.name === "fails" && (await client.exists("broken"))) {
    throw new TypeError(`no ${job.data.what}`);
  }
  if (job.name === "lasts") {
    await client.incr("started");
    await new Promise((resolve) => setTimeout(resolve, 600000));
  }
  return job.data;
}

const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

async function numbered(job, client, worker) {
  const note = (what) => client.rpush("ran:log", `${worker} ${job.id} ${what}`);
  const n = Number(String(job.id).split("-")[1]);
  await note("began");
  if (n % 5 === 0 && (await client.hincrby("ran:tries", job.id, 1)) === 1) {
    await note("failed");
    throw new TypeError(`no luck in group ${n % 3}`);
  }
  await sleep(10);
  await note("ended");
}

async function produce(queue, client, rate) {
  for (let n = 0; !(await client.exists("ran:stop")); n += 10) {
    for (let k = n; k < n + 10; k++) {
      const id = `job-${k}`;
      await queue.add("numbered", { what: id }, { jobId: id, priority: k % 3, delay: k % 7 === 3 ? 2000 : 0 });
      await client.rpush("ran:wanted", id);
    }
    await sleep(10000 / rate);
  }
}

async function main() {
  const queue = new Queue(name, { connection });
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
        if (method === "add") await queue.add("fine", { what: id }, { jobId: id });
        else if (method === "edit") await (await queue.getJob(id)).updateData({ redisq: [1] });
        else if (method === "again") await (await queue.getJob(id)).retry("completed");
        else await (await queue.getJob(id))[method]();
        console.log("ok");
      } catch (error) {
        console.log(String(error));
      }
    }
  } else if (command === "flow") {
    const flow = new FlowProducer({ connection });
    const child = (id, name) => ({
      name, queueName: queue.name, data: { what: id }, opts: { jobId: tag + id, [given]: id === "c" },
    });
    await flow.add({
      name: "parent", queueName: queue.name, data: {}, opts: { jobId: tag + "p" },
      children: [child("c", "fails"), child("d", "fine")],
    });
    await flow.close();
  } else if (command === "produce") {
    const client = new Redis(connection);
    await produce(queue, client, Number(given));
  } else if (command === "numbered") {
    const client = new Redis(connection);
    const worker = new Worker(queue.name, (job) => numbered(job, client, given), {
      connection, concurrency: 4, lockDuration: 1500, stalledInterval: 1000, maxStalledCount: 100, drainDelay: 1,
    });
    worker.on("error", () => {});
    await new Promise(() => {});
  } else {
    const client = new Redis(connection);
    let left = given ? Number(given) : Infinity;
    await new Promise((resolve) => {
      const ended = () => --left <= 0 && resolve();
      const worker = new Worker(queue.name, (job) => handle(job, client), {
        connection, concurrency: 4, lockDuration: 600000, stalledInterval: 300000, drainDelay: 1, metrics,
      });
      worker.on("completed", ended);
      worker.on("failed", ended);
      worker.on("error", () => {});
    });
  }
  await queue.close();
  process.exit(0);
}

main();
