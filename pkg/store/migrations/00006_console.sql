-- The orders in which the console lists open pull requests.
-- Why: a page of a list is read from the beginning of an index, whatever the length of the list.
-- Locks: each index takes a share lock for as long as it is built (seconds a million rows).
-- Deploy order: before the services of the same release; the release before it does not know these indexes and loses nothing by them.

-- +goose Up

CREATE INDEX pull_open_recent ON pull (updated_at DESC, installation_id, repository_id, number) WHERE state = 'open';
CREATE INDEX standing_by_since ON standing (since, installation_id, repository_id, number);
