#!/usr/bin/env python3
"""Units sold by stock code, from the topic of a running shop: a subscriber in
another language, written from docs/wire-format.md.

Every fact counts once, whatever is delivered again: its id, its effect and the
offset to go on from are one transaction of an SQLite file. Kafka's committed
offset is for lag alone.
"""
import argparse
import io
import json
import signal
import sqlite3
import sys
import time
import urllib.error
import urllib.request
import uuid

import fastavro
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, TopicPartition

TOPIC = "orders.events"

TABLES = """
CREATE TABLE IF NOT EXISTS seen (id TEXT PRIMARY KEY);
CREATE TABLE IF NOT EXISTS position (topic TEXT, partition INTEGER, next INTEGER, PRIMARY KEY (topic, partition));
CREATE TABLE IF NOT EXISTS sold (sku TEXT PRIMARY KEY, units INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS aside (topic TEXT, partition INTEGER, "offset" INTEGER, reason TEXT, "key" BLOB, value BLOB, headers TEXT,
                                  PRIMARY KEY (topic, partition, "offset"));
"""


class Broken(Exception):
    """The record is at fault, now and for ever."""


class Schemas:
    """Writers' schemas by id. An id never changes its meaning, so each is asked for once."""

    def __init__(self, registry):
        self.registry, self.known = registry.rstrip("/"), {}

    def get(self, number):
        while number not in self.known:
            try:
                with urllib.request.urlopen(f"{self.registry}/schemas/ids/{number}", timeout=5) as answer:
                    self.known[number] = fastavro.parse_schema(json.loads(json.load(answer)["schema"]))
            except urllib.error.HTTPError as e:
                if e.code == 404:
                    raise Broken(f"unknown schema {number}") from e
                time.sleep(1)  # the registry is out of order, which says nothing about the record
            except (OSError, ValueError) as e:
                print(f"waiting for the registry: {e}", file=sys.stderr)
                time.sleep(1)
        return self.known[number]


def decode(value, schemas):
    """The fields of a value, by name."""
    if value[:1] == b"{":
        try:
            return json.loads(value)
        except ValueError as e:
            raise Broken(f"broken JSON: {e}") from e
    if value[:1] != b"\0" or len(value) < 5:
        raise Broken("neither framed Avro nor JSON")
    schema, body = schemas.get(int.from_bytes(value[1:5], "big")), io.BytesIO(value[5:])
    try:
        fields = fastavro.schemaless_reader(body, schema, None)
    except Exception as e:  # fastavro raises whatever the bytes make it stumble over
        raise Broken(f"broken Avro: {e!r}") from e
    if body.read(1):
        raise Broken("bytes left over")
    return fields


def identity(message):
    """The fact's id: exactly one, and a UUID. Without it a record cannot be told from others."""
    ids = [v for k, v in message.headers() or [] if k == "id"]
    if len(ids) != 1 or not message.key():
        raise Broken(f"{len(ids)} ids" if len(ids) != 1 else "no key")
    try:
        return str(uuid.UUID((ids[0] or b"").decode()))
    except ValueError as e:
        raise Broken(f"id {ids[0]!r} is no UUID") from e


def apply(db, message, schemas):
    """Give one fact its effect, once."""
    fact = identity(message)
    types = [v for k, v in message.headers() if k == "eventType"]
    if types != [b"OrderPlaced"]:
        return  # other facts are none of our business, nor are those that will be invented later
    placed = decode(message.value() or b"", schemas)
    if db.execute("INSERT OR IGNORE INTO seen VALUES (?)", (fact,)).rowcount == 0:
        return  # delivered again
    try:
        lines = [(str(line["sku"]), int(line["quantity"])) for line in placed["lines"]]
    except (KeyError, TypeError, ValueError) as e:
        raise Broken(f"no lines: {e!r}") from e
    db.executemany("INSERT INTO sold VALUES (?, ?) ON CONFLICT (sku) DO UPDATE SET units = units + excluded.units", lines)


def handle(db, message, schemas):
    """One record, in one transaction: id, effect and offset; or its place among the broken and offset."""
    place = (message.topic(), message.partition(), message.offset())
    db.execute("BEGIN IMMEDIATE")
    try:
        db.execute("SAVEPOINT fact")
        try:
            apply(db, message, schemas)
        except Broken as e:
            db.execute("ROLLBACK TO fact")
            headers = json.dumps([[k, v and v.decode("latin-1")] for k, v in message.headers() or []])
            db.execute("INSERT OR IGNORE INTO aside VALUES (?, ?, ?, ?, ?, ?, ?)", (*place, str(e), message.key(), message.value(), headers))
            print(f"set aside {place}: {e}", file=sys.stderr)
        db.execute("INSERT INTO position VALUES (?, ?, ?) ON CONFLICT DO UPDATE SET next = excluded.next", (*place[:2], place[2] + 1))
        db.execute("COMMIT")
    except BaseException:
        db.execute("ROLLBACK")
        raise


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--brokers", default="localhost:9092")
    parser.add_argument("--registry", default="http://localhost:8081", help="schema registry; not asked where values are JSON")
    parser.add_argument("--database", default="sold.sqlite")
    parser.add_argument("--once", action="store_true", help="stop at the end of the topic, and print what was sold")
    args = parser.parse_args()

    db = sqlite3.connect(args.database, isolation_level=None, timeout=30)
    db.executescript(TABLES)
    schemas = Schemas(args.registry)
    consumer = Consumer({
        "bootstrap.servers": args.brokers, "group.id": "python-sold", "auto.offset.reset": "earliest",
        "enable.auto.commit": False, "isolation.level": "read_committed", "enable.partition.eof": True,
        "session.timeout.ms": 6000,  # after a kill, the next process waits this long for its partitions
    })
    assigned, ended = set(), set()

    def on_assign(consumer, partitions):
        """Go on where the database says, whatever Kafka has been told."""
        assigned.clear(), ended.clear()
        places = []
        for p in partitions:
            row = db.execute("SELECT next FROM position WHERE topic = ? AND partition = ?", (p.topic, p.partition)).fetchone()
            places.append(TopicPartition(p.topic, p.partition, row[0] if row else OFFSET_BEGINNING))
            assigned.add(p.partition)
        consumer.assign(places)

    running = True

    def stop(*_):
        nonlocal running
        running = False

    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, stop)
    consumer.subscribe([TOPIC], on_assign=on_assign)
    try:
        while running and not (args.once and assigned and ended == assigned):
            message = consumer.poll(0.5)
            if message is None:
                continue
            if message.error():
                if message.error().code() == KafkaError._PARTITION_EOF:
                    ended.add(message.partition())
                elif message.error().fatal():
                    raise KafkaException(message.error())
                continue
            handle(db, message, schemas)
            consumer.commit(message, asynchronous=True)  # for lag alone
    finally:
        consumer.close()
    if args.once:
        for sku, units in db.execute("SELECT sku, units FROM sold ORDER BY sku"):
            print(f"{sku}\t{units}")


if __name__ == "__main__":
    main()
