#!/bin/sh
# Makes the cluster at the first start, with one superuser and one database, and runs the server as the user postgres.
set -eu
if [ "$(id -u)" = 0 ]; then
  chown postgres:postgres "$PGDATA"
  chmod 0700 "$PGDATA"
  exec setpriv --reuid=postgres --regid=postgres --init-groups "$0" "$@"
fi
user=${POSTGRES_USER:-postgres}
if [ ! -s "$PGDATA/PG_VERSION" ]; then
  rm -rf "${PGDATA:?}"/*  # an interrupted initdb
  initdb --username="$user" --pwfile="$POSTGRES_PASSWORD_FILE" --auth-local=trust --auth-host=scram-sha-256 --encoding=UTF8 --locale=C.UTF-8
  echo 'host all all all scram-sha-256' >> "$PGDATA/pg_hba.conf"
fi
# The database is made by a server that nobody else reaches, until it exists.
if [ ! -e "$PGDATA/.made" ]; then
  pg_ctl -D "$PGDATA" -o '-c listen_addresses=' -w start
  psql --username="$user" --dbname=postgres --no-psqlrc -c "CREATE DATABASE \"${POSTGRES_DB:-$user}\"" || true
  pg_ctl -D "$PGDATA" -m fast -w stop
  touch "$PGDATA/.made"
fi
exec "$@" -c 'listen_addresses=*'
