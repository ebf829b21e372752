-- A time series: partitions by day, inserts at the end, windows, retention.
SELECT setseed(0.5);
CREATE TABLE site (id int PRIMARY KEY, name text NOT NULL, region text NOT NULL);
INSERT INTO site SELECT i, 'site ' || md5(i::text), 'region' || (8 * random() ^ 2)::int FROM generate_series(1, 60) AS i;
CREATE TABLE device (id int PRIMARY KEY, site_id int NOT NULL REFERENCES site, model text NOT NULL, installed date NOT NULL, is_active bool NOT NULL);
INSERT INTO device
SELECT i, 1 + (59 * random() ^ 2)::int, 'model' || (30 * random() ^ 3)::int, date '2020-01-01' + (1500 * random())::int, random() < 0.9
  FROM generate_series(1, 3000) AS i;
CREATE TABLE reading (device_id int NOT NULL, metric smallint NOT NULL, at timestamptz NOT NULL, value float8 NOT NULL, quality smallint) PARTITION BY RANGE (at);
DO $$
BEGIN
  FOR day IN -10 .. 2 LOOP
    EXECUTE format('CREATE TABLE reading_%s PARTITION OF reading FOR VALUES FROM (%L) TO (%L)',
                   day + 10, date_trunc('day', now()) + day * interval '1 day', date_trunc('day', now()) + (day + 1) * interval '1 day');
  END LOOP;
END $$;
INSERT INTO reading
SELECT 1 + (2999 * random() ^ 1.5)::int, (4 * random() ^ 2)::int, now() - interval '9 days' + i * (interval '9 days' / 700000),
       20 + 10 * random() + 5 * sin(i / 10000.0), CASE WHEN random() < 0.03 THEN (3 * random())::int END
  FROM generate_series(1, 700000) AS i;
CREATE TABLE latest (device_id int NOT NULL, metric smallint NOT NULL, at timestamptz NOT NULL, value float8 NOT NULL, PRIMARY KEY (device_id, metric)) WITH (fillfactor = 70);
INSERT INTO latest SELECT DISTINCT ON (device_id, metric) device_id, metric, at, value FROM reading ORDER BY device_id, metric, at DESC;
CREATE TABLE alert (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, device_id int NOT NULL REFERENCES device, raised timestamptz NOT NULL, level smallint NOT NULL, closed timestamptz);
INSERT INTO alert (device_id, raised, level, closed)
SELECT 1 + (2999 * random() ^ 2)::int, now() - interval '9 days' + i * (interval '9 days' / 40000), (3 * random() ^ 3)::int,
       CASE WHEN random() < 0.97 THEN now() - interval '9 days' + (i + 500) * (interval '9 days' / 40000) END
  FROM generate_series(1, 40000) AS i;
CREATE INDEX reading_device ON reading (device_id, at DESC);
CREATE INDEX reading_at ON reading USING brin (at);
CREATE INDEX device_site ON device (site_id);
CREATE INDEX alert_open ON alert (device_id) WHERE closed IS NULL;
CREATE INDEX alert_raised ON alert (raised);
