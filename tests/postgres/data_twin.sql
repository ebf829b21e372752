CREATE SCHEMA s;
CREATE TYPE s.state AS ENUM ('new', 'paid', 'sent', 'back');
CREATE DOMAIN s.positive AS integer CHECK (VALUE > 0);
CREATE TABLE s.tenant (id uuid PRIMARY KEY, name text NOT NULL UNIQUE, plan "char", active boolean NOT NULL, since date);
CREATE TABLE s.person (id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY, tenant uuid NOT NULL REFERENCES s.tenant, boss int REFERENCES s.person,
  mail text, ip inet, mac macaddr, score double precision, born date, note text, doc jsonb, tags text[]);
CREATE TABLE s.booking (tenant uuid NOT NULL REFERENCES s.tenant, nr int NOT NULL, person int REFERENCES s.person, state s.state NOT NULL, seats s.positive,
  begins timestamptz NOT NULL, ends timestamptz NOT NULL, price numeric(10, 2), total numeric GENERATED ALWAYS AS (price * 2) STORED,
  length interval, CHECK (ends > begins), CHECK (price >= 0), PRIMARY KEY (tenant, nr));
CREATE TABLE s.line (tenant uuid NOT NULL, nr int NOT NULL, line int NOT NULL, what text, words tsvector, PRIMARY KEY (tenant, nr, line),
  FOREIGN KEY (tenant, nr) REFERENCES s.booking);
CREATE TABLE s.member (person int REFERENCES s.person, team int, PRIMARY KEY (person, team));
CREATE TABLE s.log (id bigserial, at timestamptz NOT NULL, city text, zip text, body text, PRIMARY KEY (id, at)) PARTITION BY RANGE (at);
CREATE INDEX log_at ON s.log USING brin (at) WITH (pages_per_range = 2);
CREATE TABLE s.log_1 PARTITION OF s.log FOR VALUES FROM ('2026-01-01') TO ('2026-02-01');
CREATE TABLE s.log_rest PARTITION OF s.log DEFAULT;
CREATE TABLE s.kv (k text PRIMARY KEY, v bytea, n bigint) PARTITION BY HASH (k);
CREATE TABLE s.kv_0 PARTITION OF s.kv FOR VALUES WITH (MODULUS 2, REMAINDER 0);
CREATE TABLE s.kv_1 PARTITION OF s.kv FOR VALUES WITH (MODULUS 2, REMAINDER 1);
CREATE TABLE s.region (code text NOT NULL, nr int NOT NULL) PARTITION BY LIST (code);
CREATE TABLE s.region_a PARTITION OF s.region FOR VALUES IN ('aaaa', 'aabb');
CREATE TABLE s.region_b PARTITION OF s.region FOR VALUES IN ('bbaa', 'bbbb');
CREATE TABLE s.base (id int, name text);
CREATE TABLE s.child (extra int) INHERITS (s.base);
CREATE SEQUENCE s.number; -- owned by no column
CREATE TABLE s.wide (id int PRIMARY KEY DEFAULT nextval('s.number'), big text, other text);
CREATE TABLE s.empty (id int, t text);
INSERT INTO s.tenant SELECT md5(i::text)::uuid, 'Tenant ' || i, CASE WHEN i % 4 = 0 THEN 'f' ELSE 'p' END, i % 10 > 0, date '2020-01-01' + i FROM generate_series(1, 200) AS i;
INSERT INTO s.person (tenant, mail, ip, mac, score, born, note, doc, tags)
  SELECT md5((1 + i * i % 200)::text)::uuid, CASE WHEN i % 9 > 0 THEN 'p' || i || '@x.org' END, ('10.0.' || i % 200 || '.' || i % 250)::inet,
         ('08:00:2b:01:02:' || lpad(to_hex(i % 256), 2, '0'))::macaddr, i * 37.5, date '1960-01-01' + i % 1200, CASE WHEN i % 3 = 0 THEN repeat('note ', i % 30) END,
         jsonb_build_object('a', i % 7, 'u', md5(i::text)), ARRAY['t' || i % 11, 't' || i % 13] FROM generate_series(1, 3000) AS i;
UPDATE s.person SET boss = 1 + id % 100 WHERE id > 100;
INSERT INTO s.booking (tenant, nr, person, state, seats, begins, ends, price, length)
  SELECT md5((1 + i % 200)::text)::uuid, (i - 1) / 200, 1 + i * 7 % 3000, (ARRAY['new', 'paid', 'sent', 'sent', 'sent', 'back'])[1 + i % 6]::s.state, 1 + i % 5,
         timestamptz '2026-01-01' + i * interval '1 min', timestamptz '2026-01-01' + i * interval '1 min' + (1 + i % 50) * interval '1 h', i % 500 / 10.0,
         i % 90 * interval '1 min' FROM generate_series(1, 4000) AS i;
INSERT INTO s.line SELECT md5((1 + i % 200)::text)::uuid, (i - 1) / 200, l, 'thing ' || i * l % 500, to_tsvector('simple', 'w' || i % 40 || ' v' || i % 70)
  FROM generate_series(1, 4000) AS i, generate_series(1, 3) AS l WHERE l <= 1 + i % 3;
INSERT INTO s.member SELECT DISTINCT 1 + i % 3000, i * 31 % 301 FROM generate_series(1, 9000) AS i;
INSERT INTO s.log (at, city, zip, body) SELECT timestamptz '2026-01-01' + i * interval '10 min', 'City ' || i % 300, 'Z' || i % 300, repeat(md5(i::text), 2) FROM generate_series(1, 9000) AS i;
INSERT INTO s.kv SELECT md5(i::text), decode(md5(i::text), 'hex'), i FROM generate_series(1, 3000) AS i;
INSERT INTO s.region SELECT (ARRAY['aaaa', 'aabb', 'bbaa', 'bbbb'])[1 + i % 4], i FROM generate_series(1, 2000) AS i;
INSERT INTO s.base SELECT i, 'b' || i FROM generate_series(1, 500) AS i;
INSERT INTO s.child SELECT i, 'c' || i, i % 10 FROM generate_series(501, 2000) AS i;
INSERT INTO s.wide SELECT i, (SELECT string_agg(md5((i * j)::text), '') FROM generate_series(1, 150) AS j), repeat(md5(i::text), 20) FROM generate_series(1, 300) AS i;
CREATE STATISTICS s.log_1_places (dependencies, ndistinct, mcv) ON city, zip FROM s.log_1;
CREATE STATISTICS s.log_rest_places (dependencies, ndistinct, mcv) ON city, zip FROM s.log_rest;
CREATE INDEX person_mail ON s.person (lower(mail));
CREATE INDEX person_doc ON s.person USING gin (doc);
CREATE INDEX booking_begins ON s.booking (begins);
CREATE TABLE s.article (id int PRIMARY KEY, title varchar(40) NOT NULL, body text NOT NULL,
  words tsvector GENERATED ALWAYS AS (setweight(to_tsvector('english', title), 'A') || to_tsvector('english', coalesce(body, ''))) STORED);
INSERT INTO s.article SELECT i, 'About ' || md5((-i)::text), 'printer ' || repeat('network ', i % 2) || repeat('invoice ', (i % 5 = 0)::int) || md5(i::text)
  FROM generate_series(1, 3000) AS i;
CREATE TABLE s.memo (note text NOT NULL);
CREATE INDEX memo_words ON s.memo USING gin (to_tsvector('simple', note));
INSERT INTO s.memo SELECT md5(i::text) || ' call' || i % 3 || ' back' || i % 7 FROM generate_series(1, 3000) AS i;
CREATE EXTENSION IF NOT EXISTS btree_gist;
CREATE TABLE s.stay (room int NOT NULL, during daterange NOT NULL, guests int4range, at tstzrange, EXCLUDE USING gist (room WITH =, during WITH &&));
INSERT INTO s.stay SELECT i % 60, daterange(date '2026-01-01' + i / 60 * 9 + i % 3, date '2026-01-01' + i / 60 * 9 + i % 3 + 1 + i % 5), int4range(i % 40, i % 40 + i % 7),
  CASE WHEN i % 10 > 0 THEN tstzrange(timestamptz '2026-01-01 08:00+00' + i * interval '1 hour', CASE WHEN i % 4 > 0 THEN timestamptz '2026-01-01 10:30+00' + i * interval '61 min' END) END
  FROM generate_series(0, 2999) AS i;
-- Rows that came one by one, by lot.
CREATE TABLE s.trip (bike int NOT NULL, during daterange NOT NULL);
CREATE INDEX trip_during ON s.trip USING gist (during);
CREATE INDEX trip_bike ON s.trip USING gist (bike, during) WITH (fillfactor = 80);
INSERT INTO s.trip SELECT i * 7919 % 401, daterange(date '2026-01-01' + i * 104729 % 367, date '2026-01-01' + i * 104729 % 367 + 1 + i % 6) FROM generate_series(1, 8000) AS i;
CREATE TABLE s.seen (id int PRIMARY KEY, note text NOT NULL);
INSERT INTO s.seen SELECT i, repeat('x', 99) FROM generate_series(1, 6100) AS i;
CREATE TABLE s.stock (id int PRIMARY KEY, n int NOT NULL, text text NOT NULL);
INSERT INTO s.stock SELECT i, 0, repeat('x', 260 + i * 7919 % 60) FROM generate_series(1, 5000) AS i;
CREATE TABLE s.reading (at timestamptz NOT NULL, value int NOT NULL);
CREATE INDEX reading_at ON s.reading USING brin (at) WITH (pages_per_range = 4);
INSERT INTO s.reading SELECT timestamptz '2026-01-01' + i * interval '1 min', i FROM generate_series(1, 8000) AS i;
-- Some wide rows of many widths to a page, which has room for one more.
CREATE TABLE s.letter (id int PRIMARY KEY, body text NOT NULL) WITH (fillfactor = 80);
ALTER TABLE s.letter ALTER body SET STORAGE PLAIN;
INSERT INTO s.letter SELECT i, repeat('x', 500 + i * 7919 % 1200) FROM generate_series(1, 3000) AS i;
-- Few rows that are changed all the time: on eight pages.
CREATE TABLE s.counter (id int PRIMARY KEY, n int NOT NULL);
INSERT INTO s.counter SELECT i, 0 FROM generate_series(1, 6) AS i;
DO $$ BEGIN FOR i IN 1 .. 250 LOOP UPDATE s.counter SET n = n + 1; END LOOP; END $$;
CREATE TABLE s.total (n int NOT NULL);
INSERT INTO s.total VALUES (0);
DO $$ BEGIN FOR i IN 1 .. 900 LOOP UPDATE s.total SET n = n + 1; END LOOP; END $$;
