"""A finance consumer in Python: reads every journal entry, misses none, books none twice.

    pip install pika
    FIS_AMQP_URL=amqp://user:password@127.0.0.1:5672/%2Ffis python3 finance_reader.py QUEUE [COUNT]

Declares QUEUE, binds it to the feed, and handles entries until Ctrl-C, or until COUNT messages have come.
"""
import json
import os
import sys
from decimal import Decimal

import pika


class Tenant:
    """How far one tenant has been read. Keep it in your own database, written in the transaction that books the entry:
    then a crash between booking and acknowledging repeats a message, and `sequence` tells that it is a repetition."""

    def __init__(self):
        self.last = 0
        self.missing = set()


tenants = {}
counts = {"handled": 0, "duplicates": 0, "gaps": 0}


def handle(data, queue):
    tenant, sequence = data["tenantId"], data["sequence"]
    state = tenants.setdefault(tenant, Tenant())
    if sequence <= state.last and sequence not in state.missing:
        counts["duplicates"] += 1
        print(f"duplicate {tenant} {sequence}")
        return
    if sequence > state.last + 1:
        first, last = state.last + 1, sequence - 1
        state.missing.update(range(first, last + 1))
        counts["gaps"] += 1
        print(f"gap {tenant} {first}..{last}: fis feed resend --tenant {tenant} --from {first} --to {last} --queue {queue}")
    book(data)
    state.missing.discard(sequence)
    state.last = max(state.last, sequence)
    counts["handled"] += 1


def book(data):
    # Amounts are strings: Decimal keeps them exact, float would not.
    debit = sum(Decimal(line["baseAmount"]) for line in data["lines"] if line["side"] == "debit")
    print(f"entry {data['tenantId']} {data['sequence']} {data['accountingDate']} {debit} {data['eventId']}")


def main():
    queue, count = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else None
    connection = pika.BlockingConnection(pika.URLParameters(os.environ["FIS_AMQP_URL"]))
    channel = connection.channel()
    channel.queue_declare(queue, durable=True, arguments={"x-queue-type": "quorum"})
    channel.queue_bind(queue, "fis.domain.exchange", "fis.journal.*")
    channel.basic_qos(prefetch_count=100)
    seen = 0
    try:
        if count != 0:
            for method, _, body in channel.consume(queue):
                handle(json.loads(body)["data"], queue)
                channel.basic_ack(method.delivery_tag)  # after the work, never before
                seen += 1
                if seen == count:
                    break
    except KeyboardInterrupt:
        pass
    channel.cancel()
    connection.close()
    missing = sum(len(state.missing) for state in tenants.values())
    print(f"summary handled={counts['handled']} duplicates={counts['duplicates']} gaps={counts['gaps']} missing={missing}")


main()
