-- tuning session of 12 March
ALTER SYSTEM SET work_mem = '128MB';
ALTER SYSTEM SET random_page_cost TO 1.1;
ALTER SYSTEM SET hash_mem_multiplier = 4;
ALTER SYSTEM SET search_path = 'shop', 'public';
ALTER SYSTEM RESET hash_mem_multiplier;
ALTER SYSTEM RESET jit;
ALTER ROLE reporting SET work_mem = '1GB';
ALTER DATABASE shop SET statement_timeout = '30s';
ALTER SYSTEM SET geqo = off;
ALTER SYSTEM SET geqo TO DEFAULT;
SELECT pg_reload_conf();
