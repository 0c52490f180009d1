-- How many words workers have left: unlike the time of the last one, it only grows.
ALTER TABLE worked ADD COLUMN words BIGINT NOT NULL DEFAULT 0;
