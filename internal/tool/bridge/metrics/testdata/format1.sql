-- A file that airlock made when its format was new, as SQL. It is never changed.
PRAGMA journal_mode = WAL;
BEGIN TRANSACTION;
CREATE TABLE sample (
	id      INTEGER PRIMARY KEY,
	time    INTEGER NOT NULL, -- when the call came: milliseconds since 1970
	config  TEXT NOT NULL,    -- the file that names the agent
	agent   TEXT NOT NULL,
	outcome TEXT NOT NULL,
	ok      INTEGER NOT NULL CHECK (ok IN (0, 1)),
	ms      INTEGER NOT NULL  -- how long it took
) STRICT;
INSERT INTO "sample" VALUES(1,1767323045000,'/home/me/config.yaml','a','ok',1,1000);
INSERT INTO "sample" VALUES(2,1767323045000,'/home/me/config.yaml','a','exit',0,3000);
CREATE INDEX sample_time ON sample (config, time);
COMMIT;
PRAGMA application_id = 1094864216;
PRAGMA user_version = 1;
