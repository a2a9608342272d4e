"""A publisher in Python: every event reaches fis, none is booked twice, and the publisher hears what was rejected.

    pip install pika
    FIS_AMQP_URL=amqp://user:password@127.0.0.1:5672/%2Ffis python3 publisher.py QUEUE FILE [REJECTIONS]

Publishes the events of FILE, one line of JSON each: {"routingKey": "...", "body": {...}}. Then tells of rejections until Ctrl-C, or
until REJECTIONS have come. They wait in QUEUE, which is declared and bound here.
"""
import json
import os
import sys
import time

import pika
from pika.exceptions import AMQPConnectionError, ChannelClosedByBroker, NackError, UnroutableError

queue, file = sys.argv[1], sys.argv[2]
count = int(sys.argv[3]) if len(sys.argv) > 3 else None
parameters = pika.URLParameters(os.environ["FIS_AMQP_URL"])


def connect():
    channel = pika.BlockingConnection(parameters).channel()
    # Bound before anything is published, so that no rejection is missed.
    channel.queue_declare(queue, durable=True, arguments={"x-queue-type": "quorum"})
    channel.queue_bind(queue, "fis.domain.exchange", "fis.event.rejected")
    channel.confirm_delivery()  # from here on a publish returns when the broker has confirmed it
    return channel


def publish(channel, event):
    """Sends one event until the broker has it. Whatever is sent again has the same event id: nothing can post twice."""
    body = event["body"]
    properties = pika.BasicProperties(
        delivery_mode=2,  # persistent
        content_type="application/json",
        message_id=body["eventId"],  # comes back as `messageId` in a rejection
        user_id=parameters.credentials.username,
        headers={"x-fis-tenant": body["tenantId"]},
    )
    while True:
        try:
            channel = channel or connect()
            channel.basic_publish("fis.events.exchange", event["routingKey"], json.dumps(body), properties, mandatory=True)
            print(f"confirmed {body['eventId']}", flush=True)
            return channel
        except UnroutableError:
            sys.exit(f"returned {body['eventId']}: no queue is bound; an operator runs `fis topology apply`")
        except ChannelClosedByBroker as error:  # 404: no such exchange; 403: no right to write to it
            sys.exit(f"stopped at {body['eventId']}: {error.reply_code} {error.reply_text}")
        except NackError:
            print(f"refused {body['eventId']}: the queue is full, again in a second", flush=True)
        except AMQPConnectionError as error:  # whether the broker has the event is unknown
            print(f"lost {body['eventId']}: {error!r}, again in a second", flush=True)
            channel = None
        time.sleep(1)


# In your service, read them from a table of your own that is written in the transaction of the business, and mark them when
# they are confirmed. An amount is a string, because a float would round it.
events = [json.loads(line) for line in open(file, encoding="utf-8") if line.strip()]
channel = None
for event in events:
    channel = publish(channel, event)
own, heard = {event["body"]["eventId"] for event in events}, 0
channel = channel or connect()
for method, _, body in channel.consume(queue) if count != 0 else []:
    data = json.loads(body)["data"]
    if data["messageId"] in own:  # others publish, too
        print(f"rejected {data['messageId']} {data['reason']}: {data['detail']} ({data['deadLetterId']})", flush=True)
        heard += 1
    channel.basic_ack(method.delivery_tag)
    if heard == count:
        break
channel.connection.close()
print(f"summary confirmed={len(events)} rejected={heard}")
