package store

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"github.com/jackc/pgx/v5"
)

// Migrations is the packaged schema, for tools that show or digest it.
func Migrations() fs.FS { return migrationFiles }

// GrantAuditSQL records every lease grant (row, token, holder) in a table that the oracle reads: that no token was ever worked
// by two holders is then a fact of the database and not of the code under test. It costs a write a claim, so it is installed
// where that is worth it: tests, `countersign dev`, staging.
const GrantAuditSQL = `
CREATE TABLE IF NOT EXISTS lease_grant (
    grant_id   bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    row_key    text NOT NULL,
    token      bigint NOT NULL,
    holder     text NOT NULL,
    granted_at timestamptz NOT NULL DEFAULT clock_timestamp()
);
CREATE OR REPLACE FUNCTION lease_granted() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = public AS $$
BEGIN
    IF TG_TABLE_NAME = 'head' THEN
        IF NEW.invalidation_token <> OLD.invalidation_token THEN
            INSERT INTO lease_grant (row_key, token, holder) VALUES (format('invalidation %s/%s/%s', NEW.installation_id, NEW.repository_id, NEW.head_sha), NEW.invalidation_token, NEW.invalidation_holder);
        END IF;
        IF NEW.evaluation_token <> OLD.evaluation_token THEN
            INSERT INTO lease_grant (row_key, token, holder) VALUES (format('evaluation %s/%s/%s', NEW.installation_id, NEW.repository_id, NEW.head_sha), NEW.evaluation_token, NEW.evaluation_holder);
        END IF;
    ELSIF TG_TABLE_NAME = 'authority' THEN
        IF NEW.token <> OLD.token THEN
            INSERT INTO lease_grant (row_key, token, holder) VALUES (format('authority %s/%s/%s/%s', NEW.installation_id, NEW.scope, NEW.repository_id, NEW.base_ref), NEW.token, NEW.holder);
        END IF;
    ELSIF TG_TABLE_NAME = 'lease' THEN
        IF TG_OP = 'INSERT' OR NEW.token <> OLD.token THEN
            INSERT INTO lease_grant (row_key, token, holder) VALUES (format('lease %s', NEW.name), NEW.token, NEW.holder);
        END IF;
    END IF;
    RETURN NULL;
END
$$;
CREATE OR REPLACE TRIGGER head_lease_granted AFTER UPDATE ON head FOR EACH ROW EXECUTE FUNCTION lease_granted();
CREATE OR REPLACE TRIGGER authority_lease_granted AFTER UPDATE ON authority FOR EACH ROW EXECUTE FUNCTION lease_granted();
CREATE OR REPLACE TRIGGER lease_lease_granted AFTER INSERT OR UPDATE ON lease FOR EACH ROW EXECUTE FUNCTION lease_granted();
GRANT SELECT ON lease_grant TO PUBLIC;`

// InstallGrantAudit installs GrantAuditSQL as the owner. It may run twice.
func InstallGrantAudit(ctx context.Context, url string) error {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return errors.New("install grant audit: cannot connect")
	}
	defer conn.Close(context.WithoutCancel(ctx))
	if _, err := conn.Exec(ctx, GrantAuditSQL); err != nil {
		return fmt.Errorf("install grant audit: %w", err)
	}
	return nil
}
