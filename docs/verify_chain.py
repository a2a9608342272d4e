#!/usr/bin/env python3
"""Verifies the hash chains of a fis ledger, independently of fis.

    verify_chain.py postgres://user@host/fis      asks psql for the rows
    verify_chain.py journal.csv                   reads the file of `fis export --format csv`
    fis export --format csv … | verify_chain.py -
    verify_chain.py --query                       prints the query
    psql … -c "$(verify_chain.py --query)" | verify_chain.py -

Written from docs/hash-chain.md alone; Python 3 and its standard library, and psql for the first form. Reads row by row, so a
ledger of any size needs no memory to speak of. A file cannot show that its last entries are missing: compare the head that is
printed with that of a checkpoint. Exit 0: every chain holds. Exit 1: the first fault of each tenant is named, or what
cannot be read. Exit 2: wrong usage.
"""

import csv
import hashlib
import io
import os
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
ROW = FIELDS + 5 + 2
GENESIS = "0" * 64
# The columns of an export, in the order of the query's; the tenant is the beginning of `entry_id`.
EXPORTED = ["sequence", "previous_hash", "entry_id", "event_id", "event_type", "payload_hash", "rule", "rule_version",
            "accounting_date", "original_date", "posted_at", "description", "reverses", "hash",
            "account", "side", "amount", "currency", "base_amount"]
NO_HEAD = []


class Unreadable(Exception):
    """What is wrong with the input, in a sentence."""


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


def rows_of(lines):
    """The rows of psql or of an export as the query has them; an export has a header, and no head of the chain."""
    reader = csv.reader(lines, strict=True)
    places = None
    try:
        for number, row in enumerate(reader):
            if number == 0 and "entry_id" in row:
                missing = [name for name in EXPORTED if name not in row]
                if missing:
                    raise Unreadable(f"line 1: there is no column `{missing[0]}`; this is not a file of `fis export --format csv`")
                width, places = len(row), [row.index(name) for name in EXPORTED]
                continue
            if places is None and (len(row) != ROW or row[0] != "entry"):
                raise Unreadable(f"line {reader.line_num}: neither a row of --query nor of `fis export --format csv`")
            if places is not None:
                if len(row) != width:
                    raise Unreadable(f"line {reader.line_num} has {len(row)} fields instead of {width}")
                row = [row[place] for place in places]
                row = ["entry", row[2].rpartition("/")[0], *row, None, None]
            if not row[2].isdecimal():
                raise Unreadable(f"line {reader.line_num}: `{row[2]}` is no sequence")
            yield row
    except (csv.Error, UnicodeDecodeError) as error:
        raise Unreadable(f"behind line {reader.line_num}: {error}") from None


def entries(rows):
    """Groups the rows, which come line by line, into entries: fields, lines, head."""
    fields = lines = head = None
    for row in rows:
        line, tail = row[FIELDS : FIELDS + 5], row[FIELDS + 5 :]
        tail = NO_HEAD if tail == [None, None] else tail
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
        if chain[2] is None and chain[3] is not NO_HEAD and chain[3] != [str(chain[0]), chain[1]]:
            chain[2] = f"the chain ends at sequence {chain[0]}, but its head says sequence {chain[3][0] or 'nothing'}"
    return chains


def read(source):
    """The chains of a database, of a file or of standard input."""
    text = lambda stream: io.TextIOWrapper(stream, encoding="utf-8", newline="")  # line ends in a description are its own
    if source == "-":
        return verify(rows_of(text(sys.stdin.buffer)))
    if os.path.exists(source):
        with open(source, "rb") as file:
            return verify(rows_of(text(file)))
    if "://" not in source and "=" not in source:
        raise Unreadable(f"there is no file `{source}`, and it is no address of a database")
    command = ["psql", "--no-psqlrc", "--quiet", "--set=ON_ERROR_STOP=1", source, "--command", QUERY]
    try:
        psql = subprocess.Popen(command, stdout=subprocess.PIPE)
    except FileNotFoundError:
        raise Unreadable("there is no psql here; `fis export --format csv` makes a file that needs none") from None
    chains = verify(rows_of(text(psql.stdout)))
    if psql.wait() != 0:
        raise Unreadable("psql failed")
    return chains


def main():
    if sys.argv[1:] == ["--query"]:
        print(QUERY)
        return 0
    if len(sys.argv) != 2:
        print(__doc__, file=sys.stderr)
        return 2
    csv.field_size_limit(1 << 30)
    try:
        chains = read(sys.argv[1])
    except (Unreadable, OSError) as error:
        print(f"verify_chain.py: {error}", file=sys.stderr)
        return 1
    if not chains:
        print("verify_chain.py: there is no entry to verify", file=sys.stderr)
        return 1
    for tenant, (count, last, fault, head) in sorted(chains.items()):
        if fault and head is NO_HEAD and fault.endswith("is missing"):
            fault += " (with --from or --to an export is only a part of the journal)"
        entries = "entry" if count == 1 else "entries"
        print(f"{tenant}: {fault}" if fault else f"{tenant}: {count} {entries} verified, head {last}")
    return 1 if any(chain[2] for chain in chains.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
