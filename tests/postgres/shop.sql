-- A schema that has what TPC-C and pgbench lack. Constants and values with two words or an @ are a person's: none may be in a twin.
CREATE SCHEMA shop;
CREATE TYPE shop.status AS ENUM ('awaiting payment', 'dispatched', 'returned to sender');
CREATE DOMAIN shop.email AS text CHECK (VALUE ~ '^[^@]+@[^@]+$');
CREATE DOMAIN shop.region AS text CHECK (VALUE IN ('northern', 'southern'));
CREATE TYPE shop.address AS (street text, city text);
CREATE FUNCTION shop.normal(text) RETURNS text LANGUAGE sql IMMUTABLE AS $$ SELECT lower(replace($1, 'secretword', '')) $$;
CREATE FUNCTION shop.unused() RETURNS text LANGUAGE sql AS $$ SELECT 'hiddenbody'::text $$;
CREATE FUNCTION shop.touched() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN -- comment of Alice
  IF NEW.note = 'confidential remark' THEN RAISE EXCEPTION 'no such thing %', NEW.id; END IF;
  NEW.changed := now(); RETURN NEW;
END $$;
CREATE TABLE shop.customers (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, name text NOT NULL, mail shop.email UNIQUE, country char(2) NOT NULL DEFAULT 'DE',
  area shop.region, home shop.address, born date, balance numeric(12,2) NOT NULL DEFAULT -10.00, tags text[] NOT NULL DEFAULT '{}', token uuid DEFAULT gen_random_uuid(),
  addr inet, is_active boolean DEFAULT true, full_key text GENERATED ALWAYS AS (upper(name)) STORED, changed timestamptz) WITH (fillfactor=80);
COMMENT ON TABLE shop.customers IS 'very secret comment';
CREATE TABLE shop.orders (
  id bigserial, customer bigint NOT NULL REFERENCES shop.customers, state shop.status NOT NULL DEFAULT 'awaiting payment', kind varchar(20) NOT NULL DEFAULT 'ordinary',
  placed timestamptz NOT NULL, total numeric(10,2) CHECK (total >= 0.01 AND total < 99999.5), note text, doc jsonb, PRIMARY KEY (id, placed), changed timestamptz,
  CONSTRAINT kinds CHECK (kind IN ('ordinary', 'express delivery', 'wholesale'))
) PARTITION BY RANGE (placed);
CREATE TABLE shop.orders_old PARTITION OF shop.orders FOR VALUES FROM (MINVALUE) TO ('2026-06-01');
CREATE TABLE shop.orders_new PARTITION OF shop.orders FOR VALUES FROM ('2026-06-01') TO ('2027-06-01');
CREATE INDEX orders_customer ON shop.orders (customer);
CREATE INDEX orders_express ON shop.orders (placed) WHERE kind = 'express delivery';
CREATE INDEX orders_doc ON shop.orders USING gin (doc jsonb_path_ops);
CREATE INDEX orders_channel ON shop.orders ((doc ->> 'channel'));
CREATE INDEX customers_lower ON shop.customers (shop.normal(name));
CREATE STATISTICS shop.orders_ks (ndistinct, dependencies, mcv) ON kind, customer FROM shop.orders_new;
CREATE TABLE shop.places (code text COLLATE "C", region text, PRIMARY KEY (code)) PARTITION BY LIST (code);
CREATE TABLE shop.places_1 PARTITION OF shop.places FOR VALUES IN ('Berlin-Mitte', 'Hamburg-Altona');
CREATE TABLE shop.places_2 PARTITION OF shop.places DEFAULT;
CREATE TABLE shop.readings (sensor int, at timestamp, value double precision, words tsvector, raw bytea) WITH (autovacuum_enabled=off);
CREATE INDEX readings_at ON shop.readings USING brin (at);
CREATE INDEX readings_words ON shop.readings USING gin (words);
CREATE TABLE shop.lines (order_id bigint, sku text, qty smallint, price int);
CREATE VIEW shop.big AS SELECT o.id, c.name FROM shop.orders o JOIN shop.customers c ON c.id = o.customer WHERE o.kind = 'wholesale' AND c.name <> 'Mister Nobody';
CREATE MATERIALIZED VIEW shop.sums AS SELECT kind, sum(total) AS s FROM shop.orders GROUP BY 1;
CREATE TRIGGER touched BEFORE UPDATE ON shop.orders FOR EACH ROW EXECUTE FUNCTION shop.touched();
INSERT INTO shop.customers (name, mail, country, area, home, born, balance, tags, addr, is_active)
 SELECT 'Customer ' || md5(g::text), 'user' || g || '@example.org', (ARRAY['DE','FR','US','GB'])[1 + g % 4], CASE WHEN g % 3 = 0 THEN 'northern' ELSE 'southern' END, ROW('Main street ' || g, 'Springfield')::shop.address,
  date '1950-01-01' + (g * 7) % 20000, -10 - g * 1.25, ARRAY['premium member', 'tag' || g % 7, 'newsletter'], ('192.168.' || g % 200 || '.' || g % 250)::inet, g % 10 <> 0 FROM generate_series(1, 3000) g;
INSERT INTO shop.orders (customer, state, kind, placed, total, note, doc)
 SELECT 1 + (random() * 2999)::int, (ARRAY['awaiting payment','dispatched','returned to sender']::shop.status[])[1 + (random()^3 * 2.99)::int % 3], (ARRAY['ordinary','ordinary','express delivery','wholesale'])[1 + g % 4],
  timestamptz '2026-03-01' + g * interval '1 hour', (100 + random() * 9000)::numeric(10,2), CASE WHEN g % 50 = 0 THEN 'please ring twice' END,
  jsonb_build_object('channel', (ARRAY['telephone', 'web shop', 'partner portal'])[1 + g % 3], 'weight', g % 5 * 1000, 'lines', jsonb_build_array(g % 3, 'gift wrapping')) FROM generate_series(1, 6000) g;
INSERT INTO shop.places SELECT x, 'region of ' || x FROM unnest(ARRAY['Berlin-Mitte','Hamburg-Altona','Munich-Schwabing','Cologne-Nippes']) x;
INSERT INTO shop.readings SELECT g % 50 + 1000, timestamp '2026-11-01' + g * interval '1 minute', sin(g) * 1000, to_tsvector('english', 'pump number ' || g % 17 || ' overheated yesterday'), decode(md5((g % 9)::text), 'hex') FROM generate_series(1, 5000) g;
INSERT INTO shop.lines SELECT 1 + (random() * 5999)::int, 'ARTICLE-' || g % 500, 1 + g % 9, 1000 + g % 700 FROM generate_series(1, 5000) g;
REFRESH MATERIALIZED VIEW shop.sums;
CREATE TABLE shop.notes (id int PRIMARY KEY, kind "char", flag bit(3), spent interval, span tsrange, place point);
INSERT INTO shop.notes SELECT g, 'x', B'101', g % 5 * interval '90 minutes', tsrange(timestamp '2026-01-01', timestamp '2026-01-02' + g * interval '1 day'), point(g, g) FROM generate_series(1, 200) g;
CREATE TABLE shop.stays (room int, guests int4range CHECK (guests <@ '[0,100000)'::int4range), during tstzrange, closed datemultirange);
INSERT INTO shop.stays SELECT g % 40, int4range(700 + g, 750 + g * 2), CASE WHEN g % 10 = 0 THEN 'empty' ELSE tstzrange(timestamptz '2026-05-01 10:11:12+00' + g * interval '1 hour', CASE WHEN g % 7 > 0 THEN timestamptz '2026-05-01 20:00+00' + g * interval '61 minutes' END) END, datemultirange(daterange(date '2026-01-01' + g, date '2026-02-01' + g)) FROM generate_series(1, 900) g;
CREATE TABLE shop."Odd ""Name" ("Some Column" text DEFAULT 'it''s "quoted"', "select" int CHECK ("select" > 1000));
CREATE TABLE shop.base (id int, label text DEFAULT 'basic label'); CREATE TABLE shop.derived (extra text) INHERITS (shop.base);
CREATE TABLE shop.events (id int GENERATED BY DEFAULT AS IDENTITY, happened date NOT NULL, payload text COMPRESSION pglz) PARTITION BY HASH (happened);
CREATE TABLE shop.events_0 PARTITION OF shop.events FOR VALUES WITH (modulus 2, remainder 0);
CREATE TABLE shop.events_1 PARTITION OF shop.events FOR VALUES WITH (modulus 2, remainder 1);
ALTER TABLE shop.lines ALTER COLUMN sku SET STATISTICS 20, ALTER COLUMN sku SET STORAGE EXTERNAL;
