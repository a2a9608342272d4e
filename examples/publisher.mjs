// A publisher in Node: every event reaches fis, none is booked twice, and the publisher hears what was rejected.
//
//     npm install amqplib
//     FIS_AMQP_URL=amqp://user:password@127.0.0.1:5672/%2Ffis node publisher.mjs QUEUE FILE [REJECTIONS]
//
// Publishes the events of FILE, one line of JSON each: {"routingKey": "...", "body": {...}}. Then tells of rejections until Ctrl-C, or
// until REJECTIONS have come. They wait in QUEUE, which is declared and bound here.
import { readFileSync } from "node:fs";
import { setTimeout as pause } from "node:timers/promises";
import amqp from "amqplib";

const [queue, file] = process.argv.slice(2);
const count = process.argv[4] === undefined ? Infinity : Number(process.argv[4]);
const url = process.env.FIS_AMQP_URL;

async function connect() {
  const connection = await amqp.connect(url);
  connection.on("error", () => {}); // the confirm that does not come tells of it
  const channel = await connection.createConfirmChannel();
  channel.session = connection;
  channel.on("error", (error) => (channel.failure = error));
  channel.on("return", (message) => (channel.returned = message.properties.messageId)); // comes before its confirm
  // Bound before anything is published, so that no rejection is missed.
  try {
    await channel.assertQueue(queue, { durable: true, arguments: { "x-queue-type": "quorum" } });
    await channel.bindQueue(queue, "fis.domain.exchange", "fis.event.rejected");
  } catch (refused) {
    await connection.close().catch(() => {});
    throw refused;
  }
  return channel;
}

// Resolves when the broker has answered: null, or the error of a refusal (nack) or of a session that is lost.
function sent(channel, { routingKey, body }) {
  const options = {
    persistent: true,
    mandatory: true,
    contentType: "application/json",
    messageId: body.eventId, // comes back as `messageId` in a rejection
    userId: decodeURIComponent(new URL(url).username),
    headers: { "x-fis-tenant": body.tenantId },
  };
  return new Promise((resolve) => {
    const lost = () => resolve(channel.failure ?? new Error("the session was lost"));
    channel.once("close", lost);
    const answered = (error) => (channel.off("close", lost), resolve(error));
    const content = Buffer.from(JSON.stringify(body));
    channel.publish("fis.events.exchange", routingKey, content, options, answered);
  });
}

// Sends one event until the broker has it. Whatever is sent again has the same event id: nothing can post twice.
async function publish(channel, event) {
  const id = event.body.eventId;
  for (;;) {
    let error;
    try {
      channel ??= await connect();
      error = await sent(channel, event);
    } catch (lost) {
      [error, channel] = [lost, undefined];
    }
    if (channel?.returned === id) throw new Error(`returned ${id}: no queue is bound; an operator runs \`fis topology apply\``);
    // 404: no such exchange; 403: no right to write to it; 406: the queue is of another kind
    if ([403, 404, 406].includes(error?.code)) throw new Error(`stopped at ${id}: ${error.message}`);
    if (!error) break;
    const isFull = error.message === "message nacked";
    console.log(isFull ? `refused ${id}: the queue is full, again in a second` : `lost ${id}: ${error.message}, again in a second`);
    if (!isFull) {
      // Whether the broker has the event is unknown.
      await channel?.session.close().catch(() => {});
      channel = undefined;
    }
    await pause(1000);
  }
  console.log(`confirmed ${id}`);
  return channel;
}

// In your service, read them from a table of your own that is written in the transaction of the business, and mark them when they
// are confirmed. An amount is a string, because a float would round it.
const events = readFileSync(file, "utf8").split("\n").filter((line) => line.trim()).map((line) => JSON.parse(line));
let channel;
for (const event of events) channel = await publish(channel, event);
channel ??= await connect();
const own = new Set(events.map((event) => event.body.eventId));
let heard = 0;
await new Promise((resolve, reject) => {
  process.once("SIGINT", resolve);
  channel.once("close", () => reject(channel.failure ?? new Error("the session was lost")));
  if (count === 0) return resolve();
  channel.consume(queue, (message) => {
    const { data } = JSON.parse(message.content);
    if (own.has(data.messageId)) { // others publish, too
      console.log(`rejected ${data.messageId} ${data.reason}: ${data.detail} (${data.deadLetterId})`);
      heard += 1;
    }
    channel.ack(message);
    return heard === count ? resolve() : undefined;
  });
});
channel.removeAllListeners("close");
await channel.close();
await channel.connection.close();
console.log(`summary confirmed=${events.length} rejected=${heard}`);
