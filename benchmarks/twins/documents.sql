-- Documents: text search, jsonb, arrays, bodies in TOAST tables.
SELECT setseed(0.25);
CREATE TYPE state AS ENUM ('draft', 'published', 'archived');
CREATE TABLE author (id int PRIMARY KEY, name text NOT NULL, country char(2) NOT NULL, interests text[] NOT NULL);
INSERT INTO author
SELECT i, 'author ' || md5(i::text), chr(65 + (26 * random() ^ 3)::int % 26) || 'X',
       ARRAY(SELECT 'topic' || (200 * random() ^ 2)::int FROM generate_series(1, 1 + i % 6))
  FROM generate_series(1, 4000) AS i;
CREATE TABLE document (
  id bigint PRIMARY KEY, author_id int NOT NULL REFERENCES author, title text NOT NULL, state state NOT NULL,
  created timestamptz NOT NULL, views int NOT NULL DEFAULT 0, attrs jsonb NOT NULL, tags text[] NOT NULL,
  words tsvector NOT NULL, body text NOT NULL) WITH (fillfactor = 85);
ALTER TABLE document ALTER body SET STORAGE EXTERNAL;
INSERT INTO document
SELECT i, 1 + (3999 * random() ^ 2)::int, 'Title ' || substr(md5(i::text), 1, 8 + i % 20),
       (ARRAY['published', 'published', 'published', 'published', 'draft', 'archived'])[1 + (6 * random())::int % 6]::state,
       timestamptz '2024-01-01' + i * interval '20 min', (1000 * random() ^ 6)::int,
       jsonb_build_object('kind', (20 * random() ^ 2)::int, 'source', (400 * random())::int, 'size', (5000 * random() ^ 2)::int,
                          'note', CASE WHEN i % 3 = 0 THEN md5((i * 3)::text) END),
       ARRAY(SELECT 'tag' || (500 * random() ^ 2)::int FROM generate_series(1, 1 + i % 8)),
       to_tsvector('simple', (SELECT string_agg('word' || (4000 * random() ^ 3)::int, ' ') FROM generate_series(1, 20 + i % 40))),
       (SELECT string_agg(md5((i * n)::text), '') FROM generate_series(1, 20 + (i * 7919) % 220) AS n)
  FROM generate_series(1, 20000) AS i;
CREATE TABLE revision (document_id bigint NOT NULL REFERENCES document, number int NOT NULL, made timestamptz NOT NULL, change text NOT NULL, PRIMARY KEY (document_id, number));
INSERT INTO revision
SELECT i, n, timestamptz '2024-06-01' + i * interval '20 min' + n * interval '1 day', repeat(md5((i + n)::text), 1 + (i * n) % 9)
  FROM generate_series(1, 20000) AS i, generate_series(1, 1 + i % 4) AS n;
CREATE TABLE comment (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, document_id bigint NOT NULL REFERENCES document, author_id int NOT NULL, made timestamptz NOT NULL, words text NOT NULL);
INSERT INTO comment (document_id, author_id, made, words)
SELECT 1 + (19999 * random() ^ 2)::int, 1 + (3999 * random())::int, timestamptz '2024-06-01' + i * interval '5 min', repeat(md5(i::text), 1 + i % 12)
  FROM generate_series(1, 60000) AS i;
CREATE INDEX document_author ON document (author_id, created DESC);
CREATE INDEX document_words ON document USING gin (words);
CREATE INDEX document_attrs ON document USING gin (attrs jsonb_path_ops);
CREATE INDEX document_tags ON document USING gin (tags);
CREATE INDEX document_title ON document (lower(title));
CREATE INDEX comment_document ON comment (document_id, made DESC);
