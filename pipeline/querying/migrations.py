"""The schema of ``responses.sqlite`` as a sequence of named migrations."""

import sqlite3

# Append only: released migrations are never changed. Their number is the schema version.
MIGRATIONS = (
    (
        "first tables",
        """
        CREATE TABLE classifiers (
            id INTEGER PRIMARY KEY,
            adapter TEXT NOT NULL,
            model TEXT NOT NULL,
            parameters TEXT NOT NULL,  -- canonical JSON
            UNIQUE (adapter, model, parameters)
        );
        CREATE TABLE intents (
            key TEXT NOT NULL,
            attempt INTEGER NOT NULL,
            classifier INTEGER NOT NULL REFERENCES classifiers (id),
            image TEXT NOT NULL,  -- sha256 of the bytes
            time TEXT NOT NULL,  -- UTC, just before it was sent
            state TEXT NOT NULL CHECK (state IN ('open', 'answered', 'failed', 'unsent')),
            error TEXT,
            PRIMARY KEY (key, attempt)
        ) WITHOUT ROWID;
        CREATE TABLE responses (
            key TEXT PRIMARY KEY,
            classifier INTEGER NOT NULL REFERENCES classifiers (id),
            image TEXT NOT NULL,
            body BLOB NOT NULL,
            status INTEGER,  -- HTTP
            headers TEXT NOT NULL,  -- JSON
            time TEXT NOT NULL  -- UTC, when it was received
        );
        CREATE INDEX intents_by_state ON intents (state);
        """,
    ),
    (
        "one reply for many images, replies of failures, sentinels",
        """
        CREATE TABLE replies (
            id INTEGER PRIMARY KEY,
            body BLOB NOT NULL,
            status INTEGER,  -- HTTP
            headers TEXT NOT NULL,  -- JSON
            time TEXT NOT NULL  -- UTC, when it was received
        );
        CREATE TABLE answers (
            key TEXT PRIMARY KEY,
            classifier INTEGER NOT NULL REFERENCES classifiers (id),
            image TEXT NOT NULL,
            reply INTEGER NOT NULL REFERENCES replies (id),
            position INTEGER NOT NULL  -- index of the image's part of the reply
        ) WITHOUT ROWID;
        INSERT INTO replies SELECT rowid, body, status, headers, time FROM responses;
        INSERT INTO answers SELECT key, classifier, image, rowid, 0 FROM responses;
        DROP TABLE responses;
        CREATE VIEW responses AS
            SELECT key, classifier, image, body, status, headers, time, position
            FROM answers JOIN replies ON replies.id = answers.reply;
        ALTER TABLE intents ADD COLUMN billed INTEGER NOT NULL DEFAULT 0;  -- failed, but may have been charged
        ALTER TABLE intents ADD COLUMN reply INTEGER REFERENCES replies (id);  -- received in place of an answer
        CREATE TABLE sentinels (
            id INTEGER PRIMARY KEY,
            classifier INTEGER NOT NULL REFERENCES classifiers (id),
            round INTEGER NOT NULL,
            moment TEXT NOT NULL CHECK (moment IN ('start', 'middle', 'end')),
            image TEXT NOT NULL,
            time TEXT NOT NULL,
            state TEXT NOT NULL CHECK (state IN ('open', 'answered', 'failed', 'unsent')),
            error TEXT,
            billed INTEGER NOT NULL DEFAULT 0,
            reply INTEGER REFERENCES replies (id),
            position INTEGER NOT NULL DEFAULT 0
        );
        """,
    ),
    (
        "jobs of many images that are answered later",
        """
        CREATE TABLE jobs (
            name TEXT PRIMARY KEY,  -- our name, by which the job is found in the service's list
            classifier INTEGER NOT NULL REFERENCES classifiers (id),
            service_id TEXT,  -- the service's id; NULL until it is known
            time TEXT NOT NULL,  -- UTC, just before it was sent
            ended INTEGER NOT NULL DEFAULT 0  -- its outcomes are stored, or the service never had it
        ) WITHOUT ROWID;
        CREATE TABLE job_intents (
            key TEXT NOT NULL,
            attempt INTEGER NOT NULL,
            job TEXT NOT NULL REFERENCES jobs (name),
            PRIMARY KEY (key, attempt)
        ) WITHOUT ROWID;
        CREATE VIEW waiting AS
            SELECT intents.*, job, service_id
            FROM intents JOIN job_intents USING (key, attempt) JOIN jobs ON jobs.name = job
            WHERE state = 'open' AND NOT ended;
        """,
    ),
)


class NewerSchemaError(Exception):
    """The file was written by a newer version."""


def migrate(connection: sqlite3.Connection) -> None:
    """Apply the missing migrations to a file, each in a transaction.

    Raises:
        NewerSchemaError: the file was written by a newer version.
    """
    (done,) = connection.execute("PRAGMA user_version").fetchone()
    if done > len(MIGRATIONS):
        raise NewerSchemaError(f"schema {done}, known up to {len(MIGRATIONS)}")
    for number, (_, script) in enumerate(MIGRATIONS[done:], start=done + 1):
        connection.executescript(f"BEGIN IMMEDIATE; {script} PRAGMA user_version = {number}; COMMIT;")
