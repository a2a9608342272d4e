#!/usr/bin/env python3
"""Verifies the hash chains of a fis ledger, independently of fis.

    verify_chain.py postgres://user@host/fis      asks psql for the rows
    verify_chain.py --query                       prints the query
    psql … -c "$(verify_chain.py --query)" | verify_chain.py -

Written from docs/hash-chain.md alone; Python 3 and its standard library, and psql. Reads row by row, so a ledger of any
size needs no memory to speak of. Exit 0: every chain holds. Exit 1: the first fault of each tenant is named.
"""

import csv
import hashlib
import io
import subprocess
import sys
from decimal import Decimal

QUERY = r"""
copy (
  select 'entry', e.tenant_id, e.seq, e.previous_hash, e.entry_id, e.event_id, e.event_type, e.payload_hash, e.rule_name,
         e.rule_version, e.accounting_date, coalesce(e.original_date::text, ''),
         to_char(e.posted_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'), e.description,
         coalesce(e.reverses_entry_id, ''), e.hash,
         l.account_code, l.side, l.amount, l.currency, l.base_amount, h.seq, h.hash
    from fis_journal_entry e
    left join fis_journal_line l using (tenant_id, seq)
    left join fis_chain_head h using (tenant_id)
   order by e.tenant_id, e.seq, l.line_no
) to stdout with (format csv)
"""
FIELDS = 16  # of an entry; then five of a line, then two of the head
GENESIS = "0" * 64


def netstrings(texts):
    encoded = (text.encode("utf-8") for text in texts)
    return b"".join(b"%d:%s," % (len(text), text) for text in encoded)


def decimal_text(text):
    """Without zeros at the end, without exponent, without a minus before zero."""
    if "." in text:
        text = text.rstrip("0").rstrip(".")
    return "0" if text in ("0", "-0") else text


def entry_hash(fields, lines):
    _, tenant, seq, previous, entry_id, *rest, _stored = fields
    texts = ["fis-entry-v1", tenant, seq, previous, f"{tenant}/{seq}", *rest, str(len(lines))]
    for account, side, amount, currency, base_amount in lines:
        texts += [account, side, decimal_text(amount), currency, decimal_text(base_amount)]
    return hashlib.sha256(netstrings(texts)).hexdigest()


def fault_of(fields, lines, seq, previous):
    """What is wrong with an entry that must stand at `seq` behind the hash `previous`."""
    if int(fields[2]) != seq:
        return f"sequence {seq} is missing"
    if fields[3] != previous:
        return f"sequence {seq}: its previous hash is not the hash of sequence {seq - 1}"
    if entry_hash(fields, lines) != fields[15]:
        return f"sequence {seq}: its content does not have the hash it carries"
    debit = sum(Decimal(line[4]) for line in lines if line[1] == "debit")
    credit = sum(Decimal(line[4]) for line in lines if line[1] == "credit")
    if debit != credit:
        return f"sequence {seq}: debits are {debit}, credits are {credit} in the base currency"
    return None


def entries(rows):
    """Groups the rows, which come line by line, into entries: fields, lines, head."""
    fields = lines = head = None
    for row in rows:
        line, tail = row[FIELDS : FIELDS + 5], row[FIELDS + 5 :]
        if fields is None or row[1:3] != fields[1:3]:
            if fields is not None:
                yield fields, lines, head
            fields, lines, head = row[:FIELDS], [], tail
        if line[0]:
            lines.append(line)
    if fields is not None:
        yield fields, lines, head


def verify(rows):
    """Tenant → [entries checked, last hash, fault]."""
    chains = {}
    for fields, lines, head in entries(rows):
        chain = chains.setdefault(fields[1], [0, GENESIS, None, head])
        if chain[2] is None:
            chain[2] = fault_of(fields, lines, chain[0] + 1, chain[1])
        if chain[2] is None:
            chain[0], chain[1] = chain[0] + 1, fields[15]
    for chain in chains.values():
        if chain[2] is None and chain[3] != [str(chain[0]), chain[1]]:
            chain[2] = f"the chain ends at sequence {chain[0]}, but its head says sequence {chain[3][0] or 'nothing'}"
    return chains


def main():
    if sys.argv[1:] == ["--query"]:
        print(QUERY)
        return 0
    if len(sys.argv) != 2:
        print(__doc__, file=sys.stderr)
        return 2
    csv.field_size_limit(1 << 30)
    if sys.argv[1] == "-":
        chains = verify(csv.reader(io.TextIOWrapper(sys.stdin.buffer, encoding="utf-8", newline="")))
    else:
        command = ["psql", "--no-psqlrc", "--quiet", "--set=ON_ERROR_STOP=1", sys.argv[1], "--command", QUERY]
        psql = subprocess.Popen(command, stdout=subprocess.PIPE)
        # Line ends inside a description are the description's own.
        chains = verify(csv.reader(io.TextIOWrapper(psql.stdout, encoding="utf-8", newline="")))
        if psql.wait() != 0:
            return 1
    for tenant, (count, last, fault, _) in sorted(chains.items()):
        print(f"{tenant}: {fault}" if fault else f"{tenant}: {count} entries verified, head {last}")
    return 1 if any(chain[2] for chain in chains.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
