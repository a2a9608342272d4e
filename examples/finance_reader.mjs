// A finance consumer in Node: reads every journal entry, misses none, books none twice.
//
//     npm install amqplib
//     FIS_AMQP_URL=amqp://user:password@127.0.0.1:5672/%2Ffis node finance_reader.mjs QUEUE [COUNT]
//
// Declares QUEUE, binds it to the feed, and handles entries until Ctrl-C, or until COUNT messages have come.
import amqp from "amqplib";

const [queue, count] = [process.argv[2], process.argv[3] === undefined ? Infinity : Number(process.argv[3])];

// How far each tenant has been read. Keep it in your own database, written in the transaction that books the entry: then a
// crash between booking and acknowledging repeats a message, and `sequence` tells that it is a repetition.
const tenants = new Map();
const counts = { handled: 0, duplicates: 0, gaps: 0 };

function handle(data) {
  const { tenantId: tenant, sequence } = data;
  if (!tenants.has(tenant)) tenants.set(tenant, { last: 0, missing: new Set() });
  const state = tenants.get(tenant);
  if (sequence <= state.last && !state.missing.has(sequence)) {
    counts.duplicates += 1;
    console.log(`duplicate ${tenant} ${sequence}`);
    return;
  }
  if (sequence > state.last + 1) {
    const [first, last] = [state.last + 1, sequence - 1];
    for (let lost = first; lost <= last; lost += 1) state.missing.add(lost);
    counts.gaps += 1;
    const again = `fis feed resend --tenant ${tenant} --from ${first} --to ${last} --queue ${queue}`;
    console.log(`gap ${tenant} ${first}..${last}: ${again}`);
  }
  book(data);
  state.missing.delete(sequence);
  state.last = Math.max(state.last, sequence);
  counts.handled += 1;
}

function book(data) {
  // Amounts are strings: give them to your database or a decimal library as they are. Number() would round them.
  const debits = data.lines.filter((line) => line.side === "debit").map((line) => line.baseAmount);
  console.log(`entry ${data.tenantId} ${data.sequence} ${data.accountingDate} ${debits.join("+")} ${data.eventId}`);
}

const connection = await amqp.connect(process.env.FIS_AMQP_URL);
const channel = await connection.createChannel();
await channel.assertQueue(queue, { durable: true, arguments: { "x-queue-type": "quorum" } });
await channel.bindQueue(queue, "fis.domain.exchange", "fis.journal.*");
await channel.prefetch(100);

let seen = 0;
await new Promise((resolve, reject) => {
  process.once("SIGINT", resolve);
  connection.on("error", reject);
  if (count === 0) return resolve();
  channel.consume(queue, (message) => {
    if (message === null) return reject(new Error("the queue was deleted"));
    if (seen === count) return undefined; // goes back to the queue with the connection's end
    handle(JSON.parse(message.content).data);
    channel.ack(message); // after the work, never before
    seen += 1;
    return seen === count ? resolve() : undefined;
  });
});
await channel.close();
await connection.close();
const missing = [...tenants.values()].reduce((sum, state) => sum + state.missing.size, 0);
console.log(`summary handled=${counts.handled} duplicates=${counts.duplicates} gaps=${counts.gaps} missing=${missing}`);
