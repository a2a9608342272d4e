# Run once, when docker-compose.cluster.yml makes the primary: lets the standby in, which the image's own rules do not, and waits
# for it from the first real start on. Given on the command line the setting would hold already while the database is made,
# when there is no standby yet, and nothing would ever commit.
# shellcheck shell=bash disable=SC2154 # the image sets PGDATA
echo 'host replication fis all scram-sha-256' >>"$PGDATA/pg_hba.conf"
cat >>"$PGDATA/postgresql.conf" <<'CONF'
synchronous_standby_names = 'FIRST 1 (standby)'
wal_keep_size = 1GB
CONF
