#!/usr/bin/env python3
"""The hashes of docs/hash-chain.md, written from that page alone and sharing nothing with the program.

    golden.py            checks golden.json, prints the rows that differ, exits 1 if there are any
    golden.py --write    fills in the forms, bytes and hashes of golden.json

Python 3 and its standard library; nothing else.
"""

import decimal
import hashlib
import json
import pathlib
import sys

FILE = pathlib.Path(__file__).with_name("golden.json")


# --- payload hash ------------------------------------------------------------------------------------------------

SHORT_ESCAPES = {'"': '\\"', "\\": "\\\\", "\b": "\\b", "\t": "\\t", "\n": "\\n", "\f": "\\f", "\r": "\\r"}


def string_form(text):
    escaped = "".join(SHORT_ESCAPES.get(c) or (f"\\u{ord(c):04x}" if c < " " else c) for c in text)
    return f'"{escaped}"'


def number_form(number):
    sign, digits, exponent = number.as_tuple()
    digits = "".join(map(str, digits)).lstrip("0")
    if not digits:
        return "0"
    exponent += len(digits) - len(digits.rstrip("0"))
    digits = digits.rstrip("0")
    if exponent >= 0:
        plain = digits + "0" * min(exponent, 100)
    elif -exponent < len(digits):
        plain = digits[:exponent] + "." + digits[exponent:]
    else:
        plain = "0." + "0" * min(-exponent - len(digits), 100) + digits
    minus = "-" if sign else ""
    return minus + plain if len(minus + plain) <= 64 else f"{minus}{digits}e{exponent}"


def form(value):
    if value is None:
        return "null"
    if value is True or value is False:
        return "true" if value else "false"
    if isinstance(value, str):
        return string_form(value)
    if isinstance(value, decimal.Decimal):
        return number_form(value)
    if isinstance(value, list):
        return "[" + ",".join(map(form, value)) + "]"
    members = sorted(value.items(), key=lambda member: [ord(c) for c in member[0]])
    return "{" + ",".join(string_form(name) + ":" + form(member) for name, member in members) + "}"


def payload_form(row):
    payload = json.loads(row["payload"], parse_int=decimal.Decimal, parse_float=decimal.Decimal)
    return form({"eventType": row["eventType"], "tenantId": row["tenantId"], "payload": payload})


# --- entry hash ----------------------------------------------------------------------------------------------------


def decimal_text(text):
    """Without zeros at the end, without exponent, without a minus before zero."""
    if "." in text:
        text = text.rstrip("0").rstrip(".")
    return "0" if text in ("0", "-0") else text


def entry_bytes(row):
    texts = [
        "fis-entry-v1",
        row["tenantId"],
        str(row["sequence"]),
        row["previousHash"],
        f'{row["tenantId"]}/{row["sequence"]}',
        row["eventId"],
        row["eventType"],
        row["payloadHash"],
        row["rule"],
        str(row["ruleVersion"]),
        row["accountingDate"],
        row.get("originalDate") or "",
        row["postedAt"],
        row["description"],
        row.get("reverses") or "",
        str(len(row["lines"])),
    ]
    for account, side, amount, currency, base_amount in row["lines"]:
        texts += [account, side, decimal_text(amount), currency, decimal_text(base_amount)]
    encoded = (text.encode("utf-8") for text in texts)
    return b"".join(b"%d:%s," % (len(text), text) for text in encoded)


# --- the rows --------------------------------------------------------------------------------------------------------


def computed(row):
    """What the row should hold beside its input."""
    if "payload" in row:
        text = payload_form(row)
        return {"form": text, "hash": "sha256:" + hashlib.sha256(text.encode("utf-8")).hexdigest()}
    data = entry_bytes(row)
    return {"bytes": data.decode("utf-8"), "hash": hashlib.sha256(data).hexdigest()}


def main():
    golden = json.loads(FILE.read_text(encoding="utf-8"))
    rows = golden["payloads"] + golden["entries"]
    if sys.argv[1:] == ["--write"]:
        previous = {}
        for row in rows:
            if row.get("previousHash") == "(of the entry before)":
                row["previousHash"] = previous[row["tenantId"]]
            row.update(computed(row))
            if "payload" not in row:
                previous[row["tenantId"]] = row["hash"]
        FILE.write_text(json.dumps(golden, ensure_ascii=False, indent=2) + "\n", encoding="utf-8")
        return 0
    wrong = [row["what"] for row in rows if any(row.get(key) != value for key, value in computed(row).items())]
    for what in wrong:
        print(f"differs: {what}")
    print(f"{len(rows)} rows checked")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
