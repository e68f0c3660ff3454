package localpg

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// account is the user that initdb and postgres run as when we are root, which
// both refuse. A nil *account means: as ourselves.
type account struct {
	name string
	uid  uint32
	gid  uint32
}

// serverAccount picks whom the server runs as: the owner of the cluster where
// there is one already, else postgres, else nobody. It must have a name: initdb
// fails for a bare uid ("could not look up effective user ID").
func serverAccount(data string) (*account, error) {
	if os.Geteuid() != 0 {
		return nil, nil
	}
	if info, err := os.Stat(data); data != "" && err == nil {
		// A cluster made before the user postgres existed stays its maker's.
		if st, ok := info.Sys().(*syscall.Stat_t); ok {
			if a := newAccount(user.LookupId(strconv.FormatUint(uint64(st.Uid), 10))); a != nil {
				return a, nil
			}
		}
	}
	for _, name := range []string{"postgres", "nobody"} {
		if a := newAccount(user.Lookup(name)); a != nil {
			return a, nil
		}
	}
	return nil, errors.New("PostgreSQL refuses to run as root, and this machine has neither a user postgres nor nobody; " +
		"create one (useradd --system postgres) or run as an ordinary user")
}

// newAccount takes the answer of a look-up; it returns nil for nobody found, and for root.
func newAccount(u *user.User, err error) *account {
	if err != nil {
		return nil
	}
	uid, uidErr := strconv.ParseUint(u.Uid, 10, 32)
	gid, gidErr := strconv.ParseUint(u.Gid, 10, 32)
	if uidErr != nil || gidErr != nil || uid == 0 {
		return nil
	}
	return &account{name: u.Username, uid: uint32(uid), gid: uint32(gid)}
}

// attr returns the process attributes of a child of this account.
func (a *account) attr() *syscall.SysProcAttr {
	// A process group of its own: an interrupt from the terminal reaches us alone, and we
	// stop the server when those who use it have drained.
	attr := &syscall.SysProcAttr{Setpgid: true}
	if a != nil {
		// No supplementary groups: the child keeps none of root's.
		attr.Credential = &syscall.Credential{Uid: a.uid, Gid: a.gid}
	}
	return attr
}

// own makes dir a private directory of the account, creating it when it is missing.
func (a *account) own(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("create %s: %w", dir, err)
	}
	if a == nil {
		return nil
	}
	if err := os.Chown(dir, int(a.uid), int(a.gid)); err != nil {
		return fmt.Errorf("give %s to the user %s: %w", dir, a.name, err)
	}
	return nil
}

// reach says why the account cannot enter path (a directory) or execute it (a
// file), or nil. It reads mode bits only; access lists are not considered.
func (a *account) reach(path string) error {
	if a == nil {
		return nil
	}
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		return err
	}
	for _, dir := range ancestors(real) {
		info, err := os.Stat(dir)
		if err != nil {
			return err
		}
		if !a.mayExecute(info) {
			return fmt.Errorf("as root the server runs as user %s, which cannot enter %s (mode %04o)",
				a.name, dir, info.Mode().Perm())
		}
	}
	return nil
}

func (a *account) mayExecute(info fs.FileInfo) bool {
	perm := info.Mode().Perm()
	st, ok := info.Sys().(*syscall.Stat_t)
	switch {
	case ok && st.Uid == a.uid:
		return perm&0o100 != 0
	case ok && st.Gid == a.gid:
		return perm&0o010 != 0
	default:
		return perm&0o001 != 0
	}
}

// ancestors returns /, /a, /a/b for /a/b.
func ancestors(path string) []string {
	out := []string{"/"}
	for i, r := range path {
		if i > 0 && r == '/' {
			out = append(out, path[:i])
		}
	}
	if strings.TrimSuffix(path, "/") != "" {
		out = append(out, path)
	}
	return out
}

// serverEnv is the whole environment of initdb and postgres. Nothing of the
// caller's is in it: PGDATA, PGHOST, LC_* and TZ would change what they do.
func serverEnv() []string {
	return []string{"PATH=/usr/local/bin:/usr/bin:/bin", "LC_ALL=C", "TZ=UTC"}
}
